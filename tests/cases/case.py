"""A case: one small model with inputs, run on local OpenGL and in the page; all layers compared."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn


@dataclass(frozen=True)
class Case:
    """`build` returns (model, inputs). A comment explains each `rtol` above the default."""

    name: str
    build: Callable[[], tuple[Any, tuple[np.ndarray, ...]]]
    rtol: float = 1e-5


def module(
    name: str, make: Callable[[], nn.Module], *shapes: tuple[int, ...], rtol=1e-5, scale=1.0
) -> Case:
    """A torch module with normally distributed inputs; BatchNorm gets non-trivial statistics."""

    def build():
        torch.manual_seed(sum(map(ord, name)))
        model = make().eval()
        for part in model.modules():
            if isinstance(part, nn.modules.batchnorm._BatchNorm) and part.running_mean is not None:
                part.running_mean.normal_(0.3, 0.5)
                part.running_var.uniform_(0.3, 2.0)
                if part.affine:
                    nn.init.normal_(part.weight, 1.0, 0.5)
                    nn.init.normal_(part.bias)
        return model, tuple((torch.randn(s) * scale).numpy() for s in shapes)

    return Case(name, build, rtol)


def node(
    name: str,
    op: str,
    inputs: Sequence[np.ndarray | tuple[int, ...] | None],
    *,
    constants: Sequence[int] = (),
    outputs: int = 1,
    opset: int = 21,
    rtol=1e-5,
    values: Callable[[np.random.Generator, tuple[int, ...]], np.ndarray] | None = None,
    **attributes: Any,
) -> Case:
    """One ONNX node. An input is an array, a shape to fill at random, or None (omitted).

    The inputs at the positions in `constants` become initializers; the others are fed at run time.
    """

    def build():
        rng = np.random.default_rng(sum(map(ord, name)))
        fill = values or (lambda r, s: r.standard_normal(s))
        arrays = [
            None
            if i is None
            else np.asarray(i)
            if isinstance(i, np.ndarray | np.generic)
            else np.asarray(fill(rng, i), np.float32)
            for i in inputs
        ]
        names = ["" if a is None else f"in{k}" for k, a in enumerate(arrays)]
        made = helper.make_node(op, names, [f"out{k}" for k in range(outputs)], **attributes)
        fed = [k for k, a in enumerate(arrays) if a is not None and k not in constants]
        graph = helper.make_graph(
            [made],
            op.lower(),
            [
                helper.make_tensor_value_info(
                    names[k], helper.np_dtype_to_tensor_dtype(arrays[k].dtype), arrays[k].shape
                )
                for k in fed
            ],
            [
                helper.make_tensor_value_info(f"out{k}", TensorProto.UNDEFINED, None)
                for k in range(outputs)
            ],
            [numpy_helper.from_array(arrays[k], names[k]) for k in constants],
        )
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10
        )
        model = onnx.shape_inference.infer_shapes(model)
        return model, tuple(arrays[k] for k in fed)

    return Case(name, build, rtol)
