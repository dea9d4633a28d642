"""The usual ATen operators as ONNX's: those that most networks are made of.

A form gives None where it has no answer to the arguments of a call: onnxscript may have one, whose
import and tracing take longer than all that is here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from nbglcnn.graph import PADDING_IDX, Attribute
from nbglcnn.load.draft import OPSET

FLOATS = (torch.float32, torch.float64)
NUMPY = {
    one: torch.empty(0, dtype=one).numpy().dtype
    for one in (
        *(torch.float32, torch.float64, torch.float16, torch.bool),
        *(torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
    )
}


@dataclass(eq=False, slots=True)
class Tensor:
    """A value of ONNX's; its shape and type where they are known."""

    name: str = ""
    shape: tuple[int, ...] | None = None
    dtype: np.dtype[Any] | None = None


@dataclass(eq=False, slots=True)
class Step:
    """A node of ONNX's, over Tensors; None is an input that is left out."""

    op: str
    inputs: Sequence[Tensor | None]
    outputs: Sequence[Tensor]
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    domain: str = ""
    version: int = OPSET


@dataclass(frozen=True, slots=True)
class Call:
    """A recorded call: what it gives, as a meta tensor or several, and the steps it becomes.

    `like` has the meta tensor of each Tensor among the arguments.
    """

    given: Any
    like: Mapping[Tensor, torch.Tensor]
    steps: list[Step]

    def __call__(self, op: str, *inputs: Tensor | None, **attributes: Attribute) -> Tensor:
        """What one more step gives."""
        made = Tensor()
        self.steps.append(Step(op, inputs, [made], attributes))
        return made

    def constant(self, numbers: Any, dtype: Any = np.int64) -> Tensor:
        """A constant; whole numbers unless it is of another type."""
        return self("Constant", value=np.asarray(numbers, dtype))

    def number(self, value: float, x: Tensor) -> Tensor:
        """A number of the same type as a tensor."""
        return self.constant(value, NUMPY[self.like[x].dtype])

    def ndim(self, x: Tensor) -> int:
        """How many dimensions a tensor has."""
        return self.like[x].ndim

    def floats(self, *tensors: Any) -> bool:
        """Whether all of them are floats of the type that the call gives."""
        return self.given.dtype in FLOATS and all(
            isinstance(one, Tensor) and self.like[one].dtype is self.given.dtype for one in tensors
        )


Form = Callable[..., Any]
FORMS: dict[Any, Form] = {}
aten = torch.ops.aten


def form(*targets: Any) -> Callable[[Form], Form]:
    """That of these operators."""

    def register(function: Form) -> Form:
        FORMS.update(dict.fromkeys(targets, function))
        return function

    return register


def _each(numbers: Any, count: int) -> list[int]:
    """As many numbers as there are dimensions: one stands for all."""
    found = [numbers] if isinstance(numbers, int) else [*numbers]
    return found * count if len(found) == 1 else found


# What gives its input


@form(
    aten.alias.default, aten.clone.default, aten.contiguous.default, aten.detach.default,
    aten.lift_fresh_copy.default,
)  # fmt: skip
def _same(call: Call, x: Tensor, **_: Any) -> Tensor:
    return call("Identity", x)


@form(aten.dropout.default)
def _dropout(call: Call, x: Tensor, p: float, train: bool) -> Tensor | None:
    return None if train else call("Identity", x)


# Convolutions and matrices


@form(aten.conv1d.default, aten.conv2d.default, aten.conv3d.default)
def _conv(
    call: Call, x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1,
    padding: Any = 0, dilation: Any = 1, groups: int = 1,
) -> Tensor | None:  # fmt: skip
    count = call.ndim(weight) - 2
    if call.ndim(x) != count + 2 or not call.floats(x, weight):
        return None
    return call(
        "Conv", x, weight, *([bias] if bias is not None else []),
        strides=(*_each(stride, count),), pads=(*_each(padding, count) * 2,),
        dilations=(*_each(dilation, count),), group=groups,
    )  # fmt: skip


@form(aten.conv_transpose1d.default, aten.conv_transpose2d.input, aten.conv_transpose3d.input)
def _conv_transpose(
    call: Call, x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1,
    padding: Any = 0, output_padding: Any = 0, groups: int = 1, dilation: Any = 1,
) -> Tensor | None:  # fmt: skip
    count = call.ndim(weight) - 2
    if call.ndim(x) != count + 2 or not call.floats(x, weight):
        return None
    return call(
        "ConvTranspose", x, weight, *([bias] if bias is not None else []),
        strides=(*_each(stride, count),), pads=(*_each(padding, count) * 2,),
        output_padding=(*_each(output_padding, count),), dilations=(*_each(dilation, count),),
        group=groups,
    )  # fmt: skip


@form(aten.linear.default)
def _linear(call: Call, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor | None:
    if call.ndim(weight) != 2 or call.ndim(x) < 2 or not call.floats(x, weight):
        return None
    if bias is not None and call.ndim(x) == 2:
        return call("Gemm", x, weight, bias, transB=1)
    product = call("MatMul", x, call("Transpose", weight, perm=(1, 0)))
    return product if bias is None else call("Add", product, bias)


@form(aten.matmul.default)
def _matmul(call: Call, a: Tensor, b: Tensor) -> Tensor | None:
    if min(call.ndim(a), call.ndim(b)) < 2 or not call.floats(a, b):
        return None
    return call("MatMul", a, b)


@form(aten.embedding.default)
def _embedding(
    call: Call, weight: Tensor, indices: Tensor, padding_idx: int = -1, *_: Any
) -> Tensor | None:
    """The row `padding_idx` has no gradient: an attribute that ONNX lacks says so."""
    if padding_idx < 0:
        return None
    return call("Gather", weight, indices, axis=0, **{PADDING_IDX: padding_idx})


# Norms


@form(aten._native_batch_norm_legit_no_training.default)
def _batch_norm(
    call: Call, x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor,
    variance: Tensor, momentum: float, eps: float,
) -> list[Tensor] | None:  # fmt: skip
    if call.like[x].dtype not in FLOATS or call.ndim(x) < 2:
        return None
    ones = np.ones(call.like[mean].shape, NUMPY[call.like[x].dtype])
    scale = call.constant(ones, ones.dtype) if weight is None else weight
    shift = call.constant(0 * ones, ones.dtype) if bias is None else bias
    return [call("BatchNormalization", x, scale, shift, mean, variance, epsilon=float(eps))]


@form(aten.layer_norm.default)
def _layer_norm(
    call: Call, x: Tensor, shape: Sequence[int], weight: Tensor | None = None,
    bias: Tensor | None = None, eps: float = 1e-5, cudnn_enable: bool = True,
) -> Tensor | None:  # fmt: skip
    if weight is None or not call.floats(x):
        return None
    rest = [bias] if bias is not None else []
    return call("LayerNormalization", x, weight, *rest, axis=-len(shape), epsilon=float(eps))


# Functions of each number

_UNARY = {
    aten.relu.default: "Relu", aten.sigmoid.default: "Sigmoid", aten.tanh.default: "Tanh",
    aten.hardswish.default: "HardSwish", aten.exp.default: "Exp", aten.sqrt.default: "Sqrt",
    aten.reciprocal.default: "Reciprocal",
}  # fmt: skip


def _unary(op: str) -> Form:
    return lambda call, x: call(op, x) if call.floats(x) else None


FORMS.update({target: _unary(op) for target, op in _UNARY.items()})
WRAPPING = (torch.int8, torch.int16, torch.int32)


@form(aten.neg.default)
def _negative(call: Call, x: Tensor) -> Tensor | None:
    if call.given.dtype in WRAPPING:  # the smallest number stays itself, as a difference wraps
        return call("Sub", call.number(0, x), x)
    return call("Neg", x) if call.floats(x) else None


@form(aten.abs.default)
def _absolute(call: Call, x: Tensor) -> Tensor | None:
    if call.given.dtype in WRAPPING:
        return call("Max", x, call("Sub", call.number(0, x), x))
    return call("Abs", x) if call.floats(x) else None


@form(aten.silu.default)
def _silu(call: Call, x: Tensor) -> Tensor | None:
    return call("Mul", x, call("Sigmoid", x)) if call.floats(x) else None


@form(aten.hardsigmoid.default)
def _hardsigmoid(call: Call, x: Tensor) -> Tensor | None:
    return call("HardSigmoid", x, alpha=1 / 6, beta=0.5) if call.floats(x) else None


@form(aten.leaky_relu.default)
def _leaky_relu(call: Call, x: Tensor, slope: float = 0.01) -> Tensor | None:
    return call("LeakyRelu", x, alpha=float(slope)) if call.floats(x) else None


@form(aten.gelu.default)
def _gelu(call: Call, x: Tensor, *, approximate: str = "none") -> Tensor | None:
    return call("Gelu", x, approximate=approximate) if call.floats(x) else None


def _clip(call: Call, x: Tensor, low: float, high: float) -> Tensor | None:
    if not call.floats(x):
        return None
    return call("Clip", x, call.number(low, x), call.number(high, x))


@form(aten.hardtanh.default)
def _hardtanh(call: Call, x: Tensor, low: float = -1, high: float = 1) -> Tensor | None:
    return _clip(call, x, low, high)


@form(aten.relu6.default)
def _relu6(call: Call, x: Tensor) -> Tensor | None:
    return _clip(call, x, 0, 6)


@form(aten.softmax.int)
def _softmax(call: Call, x: Tensor, dim: int, dtype: Any = None) -> Tensor | None:
    if dtype is not None or call.ndim(x) == 0 or not call.floats(x):
        return None
    return call("Softmax", x, axis=dim)


_BINARY = {
    aten.add.Tensor: "Add", aten.sub.Tensor: "Sub", aten.mul.Tensor: "Mul", aten.div.Tensor: "Div",
}  # fmt: skip


def _binary(op: str) -> Form:
    def made(call: Call, a: Any, b: Any, *, alpha: float = 1) -> Tensor | None:
        tensors = [one for one in (a, b) if isinstance(one, Tensor)]
        if tensors and op == "Add" and alpha and call.given.dtype is torch.bool:
            return call("Or", *(
                one if isinstance(one, Tensor) else call.constant(one, np.bool_) for one in (a, b)
            ))  # fmt: skip
        if not tensors or not call.floats(*tensors):
            return None
        both = [one if isinstance(one, Tensor) else call.number(one, tensors[0]) for one in (a, b)]
        if alpha != 1:
            both[1] = call("Mul", both[1], call.number(alpha, tensors[0]))
        return call(op, *both)

    return made


FORMS.update({target: _binary(op) for target, op in _BINARY.items()})


# Pools


@form(aten.max_pool2d.default)
def _max_pool(
    call: Call, x: Tensor, size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False,
) -> Tensor | None:  # fmt: skip
    if call.ndim(x) != 4 or not call.floats(x):
        return None
    kernel = _each(size, 2)
    return call(
        "MaxPool", x, kernel_shape=(*kernel,), strides=(*(_each(stride, 2) or kernel),),
        pads=(*_each(padding, 2) * 2,), dilations=(*_each(dilation, 2),), ceil_mode=int(ceil_mode),
    )  # fmt: skip


@form(aten.avg_pool2d.default)
def _avg_pool(
    call: Call, x: Tensor, size: Any, stride: Any = (), padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> Tensor | None:  # fmt: skip
    if call.ndim(x) != 4 or divisor_override is not None or not call.floats(x):
        return None
    kernel = _each(size, 2)
    return call(
        "AveragePool", x, kernel_shape=(*kernel,), strides=(*(_each(stride, 2) or kernel),),
        pads=(*_each(padding, 2) * 2,), ceil_mode=int(ceil_mode),
        count_include_pad=int(count_include_pad),
    )  # fmt: skip


@form(aten.mean.dim)
def _mean(
    call: Call, x: Tensor, dims: Sequence[int] | None, keepdim: bool = False, *, dtype: Any = None
) -> Tensor | None:
    if not dims or dtype is not None or not call.floats(x):
        return None
    return call("ReduceMean", x, call.constant([*dims]), keepdims=int(keepdim))


# Shapes


@form(aten.flatten.using_ints)
def _flatten(call: Call, x: Tensor, start: int = 0, end: int = -1) -> Tensor:
    if start == 1 and end in (-1, call.ndim(x) - 1) and call.ndim(x) > 1:
        return call("Flatten", x, axis=1)
    return call("Reshape", x, call.constant(call.given.shape), allowzero=1)


@form(aten.view.default, aten.reshape.default, aten._unsafe_view.default, aten.unflatten.int)
def _reshape(call: Call, x: Tensor, *_: Any) -> Tensor:
    return call("Reshape", x, call.constant(call.given.shape), allowzero=1)


@form(aten.permute.default)
def _permute(call: Call, x: Tensor, dims: Sequence[int]) -> Tensor:
    return call("Transpose", x, perm=tuple(dim % call.ndim(x) for dim in dims))


@form(aten.transpose.int)
def _transpose(call: Call, x: Tensor, first: int, second: int) -> Tensor:
    order = [*range(call.ndim(x))]
    if order:
        order[first], order[second] = order[second], order[first]
    return call("Transpose", x, perm=tuple(order)) if order else call("Identity", x)


@form(aten.unsqueeze.default)
def _unsqueeze(call: Call, x: Tensor, dim: int) -> Tensor:
    return call("Unsqueeze", x, call.constant([dim]))


@form(aten.cat.default)
def _cat(call: Call, tensors: Sequence[Any], dim: int = 0) -> Tensor | None:
    # PyTorch takes an empty tensor of one dimension with tensors of any.
    if any(call.like[one].shape == (0,) for one in tensors) or not call.floats(*tensors):
        return None
    return call("Concat", *tensors, axis=dim)


@form(aten.chunk.default)
def _chunk(call: Call, x: Tensor, count: int, dim: int = 0) -> list[Tensor] | None:
    lengths = [one.shape[dim] for one in call.given]
    made = [Tensor() for _ in lengths]
    call.steps.append(Step("Split", [x, call.constant(lengths)], made, {"axis": dim}))
    return made
