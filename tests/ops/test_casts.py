"""Number types: float16 rounds as in numpy, integers wrap around as in PyTorch."""

from collections.abc import Callable, Sequence

import numpy as np
import onnx
import pytest
import torch
from torch import nn

import nbglcnn
from nbglcnn import Plan, Session
from nbglcnn.load import load
from nbglcnn.reference import compute_reference
from nbglcnn.report import RTOL, compare_values
from onnx_models import FLOAT, model_of, node, randn

FLOAT16_MANTISSA_BITS = 10


def float16_boundaries() -> np.ndarray:
    """Every float16, the midpoints between neighbours, and the float32 neighbours of these."""
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float32)
    middles = (halves[1:] + halves[:-1]) / 2
    edges = np.concatenate(
        [halves, middles, np.float32([65519.996, 65520, 65536, 1e30, 3e-8, 2e-8, 1e-38])]
    )
    around = [np.nextafter(edges, np.float32(end)) for end in (0, np.inf)]
    found = np.concatenate([edges, *around, np.float32([np.nan, np.inf])])
    found = found[~((np.abs(found) > 0) & (np.abs(found) < np.finfo(np.float32).tiny))]
    return np.concatenate([found, -found])


def round_to_float16(array: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return array.astype(np.float16).astype(np.float32)


def test_a_cast_to_float16_rounds_as_numpy_does(
    run_in_pages: Callable[[Plan, Sequence[np.ndarray]], dict[str, dict[str, np.ndarray]]],
) -> None:
    x = float16_boundaries()
    plan = nbglcnn.compile(
        model_of([node("Cast", ["x"], ["y"], to=FLOAT16_MANTISSA_BITS)], {"x": x.shape}, ["y"])
    )
    with Session(plan) as session:
        found = {"opengl": session.run(x), **run_in_pages(plan, (x,))}
    assert len(found) == 3
    expected = round_to_float16(x)
    for where, values in found.items():
        np.testing.assert_array_equal(values["y"], expected, err_msg=where)
        signs = np.signbit(values["y"][expected == 0])
        np.testing.assert_array_equal(signs, np.signbit(x[expected == 0]), err_msg=where)


def test_constants_are_rounded_as_values_are() -> None:
    c = np.float32([1.0005, 70000, 1e-9, -3.14159])
    nodes = [
        node("Cast", ["c"], ["h"], to=FLOAT16_MANTISSA_BITS),
        node("Cast", ["h"], ["f"], to=FLOAT),
        node("Add", ["x", "f"], ["y"]),
    ]
    model = model_of(nodes, {"x": (4,)}, ["y"], constants={"c": c})
    with Session(nbglcnn.compile(model)) as session:
        np.testing.assert_array_equal(session.run(np.zeros(4, "f4"))["y"], round_to_float16(c))


def mixed_precision_model() -> onnx.ModelProto:
    """A convolution whose result is rounded to float16, then operators in both types."""
    nodes = [
        node("Cast", ["w"], ["wide"], to=FLOAT),
        node("Conv", ["x", "wide"], ["c"], pads=[1, 1, 1, 1]),
        node("Cast", ["c"], ["h"], to=FLOAT16_MANTISSA_BITS),
        node("Relu", ["h"], ["hr"]),
        node("Cast", ["hr"], ["y"], to=FLOAT),
    ]
    w = randn(4, 3, 3, 3).astype(np.float16)
    return model_of(nodes, {"x": (1, 3, 16, 16)}, ["y"], constants={"w": w})


def test_a_model_that_rounds_to_float16_is_verified_with_its_tolerance() -> None:
    model, x = mixed_precision_model(), randn(1, 3, 16, 16)
    graph, arrays = load(model, x)
    assert graph.float16_keys() == {"h", "hr", "y"}
    with Session(nbglcnn.compile(model, x)) as session:
        report = nbglcnn.verify(session, model, x)
        assert report.ok, report
        assert "from float16 values within 0.02" in report.summary
        found = session.run(x)
        np.testing.assert_array_equal(found["h"], round_to_float16(found["c"]))
        np.testing.assert_array_equal(found["y"], round_to_float16(found["y"]))
        true = compute_reference(model, graph, arrays)
        off = np.abs(found["y"] - true["y"]).max() / np.abs(true["y"]).max()
        assert off < 1e-3  # at most one float16 step, where float32's last digit decides
        # The convolution itself must meet float32's tolerance.
        wrong = {**true, "c": true["c"] * 1.001, "y": true["y"] * 1.05}
        judged = compare_values(session.plan, wrong, true, "", float16_keys=graph.float16_keys())
        assert [row.layer for row in judged.rows if not row.ok] == ["c", "y"]
    assert RTOL["float16"] == 0.02


class CastThrough(nn.Module):
    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.to(self.dtype).float()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16])
def test_floats_beyond_a_small_integer_type_wrap_as_in_pytorch(dtype: torch.dtype) -> None:
    x = torch.tensor([[-7e4, -300.7, -256.0, -255.5, -1.2, -0.5, 0.0, 1.9, 254.6, 255, 256, 7e4]])
    with nbglcnn.Session(nbglcnn.compile(CastThrough(dtype), x)) as session:
        found = session.run(x)["output"]
    np.testing.assert_array_equal(found, x.to(dtype).float().numpy())
    np.testing.assert_array_equal(found, x.to(torch.int32).to(dtype).float().numpy())


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16])
def test_whole_numbers_are_wrapped_into_small_integers_as_pytorch_does(dtype: torch.dtype) -> None:
    class Cast(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.to(dtype).float() / 2

    edges = [0, 127, 128, 255, 256, 32767, 32768, 40000, 65535, 65536, 100000]
    x = torch.tensor([edges, [-number for number in edges]], dtype=torch.int32)
    model = Cast().eval()
    with Session(nbglcnn.compile(model, x)) as session:
        np.testing.assert_array_equal(session.run(x)["output"], model(x).numpy())


class IntegerFunction(nn.Module):
    """Wraps a function of integers; its inputs and outputs are floats."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x).float()


OVERFLOWING_CASTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "product by a number": lambda x: x * 100,
    "product": lambda x: x * x,
    "sum": lambda x: x + x + 100,
    "difference": lambda x: -100 - x,
    "weighted sum": lambda x: x.add(x, alpha=50),
    "negative": lambda x: -x,
    "absolute": lambda x: torch.where(x > 0, x + 3, x.abs()),
    "in place": lambda x: (x * 7).mul_(x).add_(x),
    "in another type": lambda x: (x + 1).to(torch.int16) * 300,
}
INTEGER_LIMITS = {"int8": [1, 2, 100, -128, 127, -3], "int16": [1, 300, -32768, 32767, 181, -9]}
INTEGER_LIMITS["int32"] = [1, 70000, -65536, 46341, -9, 1200]


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32"])
@pytest.mark.parametrize("name", OVERFLOWING_CASTS)
def test_integers_wrap_around_where_pytorchs_do(name: str, dtype: str) -> None:
    model, x = (
        IntegerFunction(OVERFLOWING_CASTS[name]).eval(),
        np.array([INTEGER_LIMITS[dtype]], dtype),
    )
    with Session(nbglcnn.compile(model, x)) as session:
        [*_, found] = session.run(x).values()
        assert nbglcnn.verify(session, model, x).ok
    np.testing.assert_allclose(found, model(torch.from_numpy(x)).numpy(), rtol=1e-6)


def test_integers_wrap_around_in_pages(
    run_in_pages: Callable[[Plan, Sequence[np.ndarray]], dict[str, dict[str, np.ndarray]]],
) -> None:
    model, x = IntegerFunction(lambda x: x * 100 - x).eval(), np.int8([INTEGER_LIMITS["int8"]])
    for where, values in run_in_pages(nbglcnn.compile(model, x), (x,)).items():
        expected = model(torch.from_numpy(x)).numpy()
        np.testing.assert_array_equal(values["to"], expected, err_msg=where)


def test_verify_runs_pytorch_with_the_type_that_was_given() -> None:
    model, x = IntegerFunction(lambda x: x @ x.T).eval(), torch.tensor([[70000, 70000]]).int()
    with Session(nbglcnn.compile(model, x)) as session:  # integer products are summed in float
        report = nbglcnn.verify(session, model, x)
    assert not report.ok
    assert report.first_diverging == "x @ x.T"


def test_integers_that_cannot_be_drawn_say_which_can() -> None:
    x = torch.tensor([INTEGER_LIMITS["int8"]]).to(torch.int8)
    with pytest.raises(nbglcnn.UnsupportedOperator, match=r"pow.*int8.*x\.to\(torch\.int64\)"):
        nbglcnn.compile(IntegerFunction(lambda x: x**2).eval(), x)
