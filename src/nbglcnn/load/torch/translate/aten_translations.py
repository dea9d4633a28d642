"""Translations of common ATen operators to ONNX: the ones in most networks.

A translation returns None if it does not handle a call's arguments. onnxscript may handle them, but
importing and tracing it takes longer than all translations here.
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
NUMPY_DTYPES = {
    one: torch.empty(0, dtype=one).numpy().dtype
    for one in (
        *(torch.float32, torch.float64, torch.float16, torch.bool),
        *(torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
    )
}


@dataclass(eq=False, slots=True)
class OnnxTensor:
    """An ONNX value, with its shape and dtype if they are known."""

    name: str = ""
    shape: tuple[int, ...] | None = None
    dtype: np.dtype[Any] | None = None


@dataclass(eq=False, slots=True)
class OnnxNode:
    """An ONNX node over OnnxTensors; None stands for an omitted input."""

    op: str
    inputs: Sequence[OnnxTensor | None]
    outputs: Sequence[OnnxTensor]
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    domain: str = ""
    version: int = OPSET


@dataclass(frozen=True, slots=True)
class OperatorCall:
    """A recorded call: its result as one or more meta tensors, and the ONNX nodes it becomes.

    `meta_tensors` has the meta tensor of each OnnxTensor argument.
    """

    result: Any
    meta_tensors: Mapping[OnnxTensor, torch.Tensor]
    nodes: list[OnnxNode]

    def __call__(self, op: str, *inputs: OnnxTensor | None, **attributes: Attribute) -> OnnxTensor:
        """Append an ONNX node and return its output."""
        made = OnnxTensor()
        self.nodes.append(OnnxNode(op, inputs, [made], attributes))
        return made

    def constant(self, numbers: Any, dtype: Any = np.int64) -> OnnxTensor:
        """Append a constant, int64 by default."""
        return self("Constant", value=np.asarray(numbers, dtype))

    def scalar_like(self, value: float, x: OnnxTensor) -> OnnxTensor:
        """A scalar constant with a tensor's dtype."""
        return self.constant(value, NUMPY_DTYPES[self.meta_tensors[x].dtype])

    def ndim(self, x: OnnxTensor) -> int:
        """The number of a tensor's dimensions."""
        return self.meta_tensors[x].ndim

    def are_floats(self, *tensors: Any) -> bool:
        """Whether all are float tensors with the dtype of the call's result."""
        return self.result.dtype in FLOATS and all(
            isinstance(one, OnnxTensor) and self.meta_tensors[one].dtype is self.result.dtype
            for one in tensors
        )


TranslateFn = Callable[..., Any]
TRANSLATIONS: dict[Any, TranslateFn] = {}
aten = torch.ops.aten


def translates(*targets: Any) -> Callable[[TranslateFn], TranslateFn]:
    """Register a translation of these operators."""

    def register(function: TranslateFn) -> TranslateFn:
        TRANSLATIONS.update(dict.fromkeys(targets, function))
        return function

    return register


def _per_dimension(numbers: Any, count: int) -> list[int]:
    """Expand a single number to one per dimension."""
    found = [numbers] if isinstance(numbers, int) else [*numbers]
    return found * count if len(found) == 1 else found


# Operators that return their input


@translates(
    aten.alias.default, aten.clone.default, aten.contiguous.default, aten.detach.default,
    aten.lift_fresh_copy.default,
)  # fmt: skip
def _identity(call: OperatorCall, x: OnnxTensor, **_: Any) -> OnnxTensor:
    return call("Identity", x)


@translates(aten.dropout.default)
def _dropout(call: OperatorCall, x: OnnxTensor, p: float, train: bool) -> OnnxTensor | None:
    return None if train else call("Identity", x)


# Convolutions and matrices


@translates(aten.conv1d.default, aten.conv2d.default, aten.conv3d.default)
def _conv(
    call: OperatorCall, x: OnnxTensor, weight: OnnxTensor, bias: OnnxTensor | None = None,
    stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
) -> OnnxTensor | None:  # fmt: skip
    count = call.ndim(weight) - 2
    if call.ndim(x) != count + 2 or not call.are_floats(x, weight):
        return None
    return call(
        "Conv", x, weight, *([bias] if bias is not None else []),
        strides=(*_per_dimension(stride, count),), pads=(*_per_dimension(padding, count) * 2,),
        dilations=(*_per_dimension(dilation, count),), group=groups,
    )  # fmt: skip


@translates(aten.conv_transpose1d.default, aten.conv_transpose2d.input, aten.conv_transpose3d.input)
def _conv_transpose(
    call: OperatorCall, x: OnnxTensor, weight: OnnxTensor, bias: OnnxTensor | None = None,
    stride: Any = 1, padding: Any = 0, output_padding: Any = 0, groups: int = 1, dilation: Any = 1,
) -> OnnxTensor | None:  # fmt: skip
    count = call.ndim(weight) - 2
    if call.ndim(x) != count + 2 or not call.are_floats(x, weight):
        return None
    return call(
        "ConvTranspose", x, weight, *([bias] if bias is not None else []),
        strides=(*_per_dimension(stride, count),), pads=(*_per_dimension(padding, count) * 2,),
        output_padding=(*_per_dimension(output_padding, count),),
        dilations=(*_per_dimension(dilation, count),), group=groups,
    )  # fmt: skip


@translates(aten.linear.default)
def _linear(
    call: OperatorCall, x: OnnxTensor, weight: OnnxTensor, bias: OnnxTensor | None = None
) -> OnnxTensor | None:
    if call.ndim(weight) != 2 or call.ndim(x) < 2 or not call.are_floats(x, weight):
        return None
    if bias is not None and call.ndim(x) == 2:
        return call("Gemm", x, weight, bias, transB=1)
    product = call("MatMul", x, call("Transpose", weight, perm=(1, 0)))
    return product if bias is None else call("Add", product, bias)


@translates(aten.matmul.default)
def _matmul(call: OperatorCall, a: OnnxTensor, b: OnnxTensor) -> OnnxTensor | None:
    if min(call.ndim(a), call.ndim(b)) < 2 or not call.are_floats(a, b):
        return None
    return call("MatMul", a, b)


@translates(aten.embedding.default)
def _embedding(
    call: OperatorCall, weight: OnnxTensor, indices: OnnxTensor, padding_idx: int = -1, *_: Any
) -> OnnxTensor | None:
    """Gather with an extra attribute for `padding_idx`, the row without a gradient."""
    if padding_idx < 0:
        return None
    return call("Gather", weight, indices, axis=0, **{PADDING_IDX: padding_idx})


# Normalizations


@translates(aten._native_batch_norm_legit_no_training.default)
def _batch_norm(
    call: OperatorCall, x: OnnxTensor, weight: OnnxTensor | None, bias: OnnxTensor | None,
    mean: OnnxTensor, variance: OnnxTensor, momentum: float, eps: float,
) -> list[OnnxTensor] | None:  # fmt: skip
    if call.meta_tensors[x].dtype not in FLOATS or call.ndim(x) < 2:
        return None
    ones = np.ones(call.meta_tensors[mean].shape, NUMPY_DTYPES[call.meta_tensors[x].dtype])
    scale = call.constant(ones, ones.dtype) if weight is None else weight
    shift = call.constant(0 * ones, ones.dtype) if bias is None else bias
    return [call("BatchNormalization", x, scale, shift, mean, variance, epsilon=float(eps))]


@translates(aten.layer_norm.default)
def _layer_norm(
    call: OperatorCall, x: OnnxTensor, shape: Sequence[int], weight: OnnxTensor | None = None,
    bias: OnnxTensor | None = None, eps: float = 1e-5, cudnn_enable: bool = True,
) -> OnnxTensor | None:  # fmt: skip
    if weight is None or not call.are_floats(x):
        return None
    rest = [bias] if bias is not None else []
    return call("LayerNormalization", x, weight, *rest, axis=-len(shape), epsilon=float(eps))


# Elementwise functions

_UNARY = {
    aten.relu.default: "Relu", aten.sigmoid.default: "Sigmoid", aten.tanh.default: "Tanh",
    aten.hardswish.default: "HardSwish", aten.exp.default: "Exp", aten.sqrt.default: "Sqrt",
    aten.reciprocal.default: "Reciprocal",
}  # fmt: skip


def _unary(op: str) -> TranslateFn:
    return lambda call, x: call(op, x) if call.are_floats(x) else None


TRANSLATIONS.update({target: _unary(op) for target, op in _UNARY.items()})
WRAPPING_DTYPES = (torch.int8, torch.int16, torch.int32)


@translates(aten.neg.default)
def _negative(call: OperatorCall, x: OnnxTensor) -> OnnxTensor | None:
    if call.result.dtype in WRAPPING_DTYPES:  # the smallest integer maps to itself, as 0 - x wraps
        return call("Sub", call.scalar_like(0, x), x)
    return call("Neg", x) if call.are_floats(x) else None


@translates(aten.abs.default)
def _absolute(call: OperatorCall, x: OnnxTensor) -> OnnxTensor | None:
    if call.result.dtype in WRAPPING_DTYPES:
        return call("Max", x, call("Sub", call.scalar_like(0, x), x))
    return call("Abs", x) if call.are_floats(x) else None


@translates(aten.silu.default)
def _silu(call: OperatorCall, x: OnnxTensor) -> OnnxTensor | None:
    return call("Mul", x, call("Sigmoid", x)) if call.are_floats(x) else None


@translates(aten.hardsigmoid.default)
def _hardsigmoid(call: OperatorCall, x: OnnxTensor) -> OnnxTensor | None:
    return call("HardSigmoid", x, alpha=1 / 6, beta=0.5) if call.are_floats(x) else None


@translates(aten.leaky_relu.default)
def _leaky_relu(call: OperatorCall, x: OnnxTensor, slope: float = 0.01) -> OnnxTensor | None:
    return call("LeakyRelu", x, alpha=float(slope)) if call.are_floats(x) else None


@translates(aten.gelu.default)
def _gelu(call: OperatorCall, x: OnnxTensor, *, approximate: str = "none") -> OnnxTensor | None:
    return call("Gelu", x, approximate=approximate) if call.are_floats(x) else None


def _clip(call: OperatorCall, x: OnnxTensor, low: float, high: float) -> OnnxTensor | None:
    if not call.are_floats(x):
        return None
    return call("Clip", x, call.scalar_like(low, x), call.scalar_like(high, x))


@translates(aten.hardtanh.default)
def _hardtanh(
    call: OperatorCall, x: OnnxTensor, low: float = -1, high: float = 1
) -> OnnxTensor | None:
    return _clip(call, x, low, high)


@translates(aten.relu6.default)
def _relu6(call: OperatorCall, x: OnnxTensor) -> OnnxTensor | None:
    return _clip(call, x, 0, 6)


@translates(aten.softmax.int)
def _softmax(call: OperatorCall, x: OnnxTensor, dim: int, dtype: Any = None) -> OnnxTensor | None:
    if dtype is not None or call.ndim(x) == 0 or not call.are_floats(x):
        return None
    return call("Softmax", x, axis=dim)


_BINARY = {
    aten.add.Tensor: "Add", aten.sub.Tensor: "Sub", aten.mul.Tensor: "Mul", aten.div.Tensor: "Div",
}  # fmt: skip


def _binary(op: str) -> TranslateFn:
    def made(call: OperatorCall, a: Any, b: Any, *, alpha: float = 1) -> OnnxTensor | None:
        tensors = [one for one in (a, b) if isinstance(one, OnnxTensor)]
        if tensors and op == "Add" and alpha and call.result.dtype is torch.bool:
            return call("Or", *(
                one if isinstance(one, OnnxTensor) else call.constant(one, np.bool_)
                for one in (a, b)
            ))  # fmt: skip
        if not tensors or not call.are_floats(*tensors):
            return None
        both = [
            one if isinstance(one, OnnxTensor) else call.scalar_like(one, tensors[0])
            for one in (a, b)
        ]
        if alpha != 1:
            both[1] = call("Mul", both[1], call.scalar_like(alpha, tensors[0]))
        return call(op, *both)

    return made


TRANSLATIONS.update({target: _binary(op) for target, op in _BINARY.items()})


# Pools


@translates(aten.max_pool2d.default)
def _max_pool(
    call: OperatorCall, x: OnnxTensor, size: Any, stride: Any = (), padding: Any = 0,
    dilation: Any = 1, ceil_mode: bool = False,
) -> OnnxTensor | None:  # fmt: skip
    if call.ndim(x) != 4 or not call.are_floats(x):
        return None
    kernel = _per_dimension(size, 2)
    return call(
        "MaxPool", x, kernel_shape=(*kernel,), strides=(*(_per_dimension(stride, 2) or kernel),),
        pads=(*_per_dimension(padding, 2) * 2,), dilations=(*_per_dimension(dilation, 2),),
        ceil_mode=int(ceil_mode),
    )  # fmt: skip


@translates(aten.avg_pool2d.default)
def _avg_pool(
    call: OperatorCall, x: OnnxTensor, size: Any, stride: Any = (), padding: Any = 0,
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None,
) -> OnnxTensor | None:  # fmt: skip
    if call.ndim(x) != 4 or divisor_override is not None or not call.are_floats(x):
        return None
    kernel = _per_dimension(size, 2)
    return call(
        "AveragePool", x, kernel_shape=(*kernel,),
        strides=(*(_per_dimension(stride, 2) or kernel),),
        pads=(*_per_dimension(padding, 2) * 2,), ceil_mode=int(ceil_mode),
        count_include_pad=int(count_include_pad),
    )  # fmt: skip


@translates(aten.mean.dim)
def _mean(
    call: OperatorCall,
    x: OnnxTensor,
    dims: Sequence[int] | None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> OnnxTensor | None:
    if not dims or dtype is not None or not call.are_floats(x):
        return None
    return call("ReduceMean", x, call.constant([*dims]), keepdims=int(keepdim))


# Shapes


@translates(aten.flatten.using_ints)
def _flatten(call: OperatorCall, x: OnnxTensor, start: int = 0, end: int = -1) -> OnnxTensor:
    if start == 1 and end in (-1, call.ndim(x) - 1) and call.ndim(x) > 1:
        return call("Flatten", x, axis=1)
    return call("Reshape", x, call.constant(call.result.shape), allowzero=1)


@translates(aten.view.default, aten.reshape.default, aten._unsafe_view.default, aten.unflatten.int)
def _reshape(call: OperatorCall, x: OnnxTensor, *_: Any) -> OnnxTensor:
    return call("Reshape", x, call.constant(call.result.shape), allowzero=1)


@translates(aten.permute.default)
def _permute(call: OperatorCall, x: OnnxTensor, dims: Sequence[int]) -> OnnxTensor:
    return call("Transpose", x, perm=tuple(dim % call.ndim(x) for dim in dims))


@translates(aten.transpose.int)
def _transpose(call: OperatorCall, x: OnnxTensor, first: int, second: int) -> OnnxTensor:
    order = [*range(call.ndim(x))]
    if order:
        order[first], order[second] = order[second], order[first]
    return call("Transpose", x, perm=tuple(order)) if order else call("Identity", x)


@translates(aten.unsqueeze.default)
def _unsqueeze(call: OperatorCall, x: OnnxTensor, dim: int) -> OnnxTensor:
    return call("Unsqueeze", x, call.constant([dim]))


@translates(aten.cat.default)
def _cat(call: OperatorCall, tensors: Sequence[Any], dim: int = 0) -> OnnxTensor | None:
    # PyTorch concatenates an empty 1-D tensor with tensors of any rank.
    if any(call.meta_tensors[one].shape == (0,) for one in tensors) or not call.are_floats(
        *tensors
    ):
        return None
    return call("Concat", *tensors, axis=dim)


@translates(aten.chunk.default)
def _chunk(call: OperatorCall, x: OnnxTensor, count: int, dim: int = 0) -> list[OnnxTensor] | None:
    lengths = [one.shape[dim] for one in call.result]
    made = [OnnxTensor() for _ in lengths]
    call.nodes.append(OnnxNode("Split", [x, call.constant(lengths)], made, {"axis": dim}))
    return made
