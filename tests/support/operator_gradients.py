"""Compares gradients of many ONNX operators in one Plan with torch functions in float64."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor

import nbglcnn
from gradient_checks import ABSOLUTE_TOLERANCE, TOLERANCE

OPSET = 24
RNG = np.random.default_rng(0)
SHAPE = (2, 5, 3)


def uniform(low: float, high: float, *shape: int) -> np.ndarray:
    """Uniform random numbers between two bounds; the shape defaults to SHAPE."""
    return RNG.uniform(low, high, shape or SHAPE).astype(np.float32)


def float_vector(*numbers: float) -> np.ndarray:
    """A float32 vector."""
    return np.array(numbers, np.float32)


def scalar(value: float) -> np.ndarray:
    """A 0-dimensional float32 array."""
    return np.array(value, np.float32)


def int_vector(*numbers: int) -> np.ndarray:
    """An int64 vector, for example of axes."""
    return np.array(numbers, np.int64)


def random_arrays(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    """Arrays of random numbers from -1 to 1."""
    return [uniform(-1, 1, *shape) for shape in shapes]


def with_arguments(function: Callable[..., Tensor], *arguments: Any) -> Callable[[Tensor], Tensor]:
    """Bind all arguments of a function but the first."""
    return lambda x: function(x, *arguments)


@dataclass(frozen=True)
class GradientCase:
    """An operator's node, and the reference torch function of its fed inputs.

    Arrays of float32 are fed at run time, except those whose positions are in `constants`; all
    other arrays are constants. Gradients of the fed inputs are compared, except those whose
    positions are in `without`.
    """

    op: str
    reference: Callable[..., Tensor]
    inputs: Sequence[np.ndarray | None]
    attributes: dict[str, Any] = field(default_factory=dict)
    constant_input_indices: Sequence[int] = ()
    other_outputs: Sequence[str] = ()  # names of the node's further outputs

    def fed_input_indices(self) -> list[int]:
        """The positions of the inputs that are fed."""
        return [
            k
            for k, one in enumerate(self.inputs)
            if one is not None and one.dtype == np.float32 and k not in self.constant_input_indices
        ]


def assert_operator_gradients(rows: Sequence[GradientCase], tolerance: float = TOLERANCE) -> None:
    """Assert that each row's input gradients equal torch's in float64, by a weighted output sum.

    The error limit is `tolerance` of each tensor's maximum, or torch's own float32 error if that is
    larger. Infinities and NaN must match.
    """
    rng = np.random.default_rng(1)
    nodes, initializers, inputs, sums = [], [], [], []
    fed: dict[str, np.ndarray] = {}
    expected: dict[str, np.ndarray] = {}
    float32_reference: dict[str, np.ndarray] = {}
    for number, row in enumerate(rows):
        names = []
        for k, one in enumerate(row.inputs):
            name = "" if one is None else f"{row.op}_{number}_{k}"
            names.append(name)
            if k in row.fed_input_indices():
                fed[name] = one
                inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, one.shape))
            elif one is not None:
                initializers.append(numpy_helper.from_array(one, name))
        y = f"y{number}"
        outputs = [y, *(one and f"{y}_{one}" for one in row.other_outputs)]
        nodes.append(helper.make_node(row.op, names, outputs, **row.attributes))
        given = [fed[names[k]] for k in row.fed_input_indices()]
        with torch.no_grad():
            shape = row.reference(*map(torch.tensor, given)).shape
        factors = rng.uniform(0.3, 2, shape) * rng.choice([-1, 1], shape)
        factors = np.asarray(factors, np.float32)
        initializers.append(numpy_helper.from_array(factors, f"factors{number}"))
        nodes.append(helper.make_node("Mul", [y, f"factors{number}"], [f"{y}f"]))
        nodes.append(helper.make_node("ReduceSum", [f"{y}f"], [f"{y}s"], keepdims=0))
        sums.append(f"{y}s")
        for dtype, found in ((torch.float64, expected), (torch.float32, float32_reference)):
            tensors = [torch.tensor(one, dtype=dtype, requires_grad=True) for one in given]
            (row.reference(*tensors) * torch.tensor(factors, dtype=dtype)).sum().backward()
            for k, one in zip(row.fed_input_indices(), tensors, strict=True):
                gradient = torch.zeros_like(one) if one.grad is None else one.grad
                found[names[k]] = gradient.double().numpy()
    nodes.append(helper.make_node("Sum", sums, ["sum"]))
    graph = helper.make_graph(
        nodes, "rows", inputs,
        [helper.make_tensor_value_info("sum", TensorProto.FLOAT, ())], initializers,
    )  # fmt: skip
    opsets = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    model = onnx.shape_inference.infer_shapes(model)
    found = nbglcnn.gradient(model, tuple(fed.values()), of="sum", wrt=[*fed])
    problems = [
        f"{name}: {problem}"
        for name in fed
        if (
            problem := gradient_error(
                found[name], expected[name], float32_reference[name], tolerance
            )
        )
    ]
    assert not problems, "\n".join(problems)


def gradient_error(
    found: np.ndarray, expected: np.ndarray, float32_reference: np.ndarray, tolerance: float
) -> str:
    """Describe the error of a gradient; "" if there is none."""
    if found.shape != expected.shape:
        return f"shape {found.shape}, not {expected.shape}"
    finite = np.isfinite(expected) & np.isfinite(float32_reference)
    if not np.array_equal(found[~finite], float32_reference[~finite], equal_nan=True):
        return f"{found[~finite]}, not {float32_reference[~finite]}"
    found, expected, float32_reference = (
        one[finite] for one in (found, expected, float32_reference)
    )
    error, own = (np.abs(one - expected).max(initial=0) for one in (found, float32_reference))
    largest = np.abs(expected).max(initial=0)
    if not error <= max(tolerance * largest, own) + ABSOLUTE_TOLERANCE:
        return f"off by {error:.3g} of {largest:.3g} (torch: {own:.3g})"
    return ""
