"""Models with scalar inputs (0-D): Viewer and compare keep them 0-D."""

import numpy as np
import onnx
import pytest

import nbglcnn
from assertions import assert_equal
from nbglcnn import Viewer
from onnx_models import model_of, node, randn


def two_scalars_model() -> onnx.ModelProto:
    return model_of(
        [node("Mul", ["a", "b"], ["c"]), node("Exp", ["c"], ["y"])], {"a": (), "b": ()}, ["y"]
    )


def scaled_picture_model() -> onnx.ModelProto:
    nodes = [node("Mul", ["x", "s"], ["y"]), node("ReduceMean", ["y"], ["m"], keepdims=0)]
    return model_of(nodes, {"x": (1, 3, 8, 8), "s": ()}, ["y", "m"])


def scalar_arrays(*given: float) -> tuple[np.ndarray, ...]:
    return tuple(np.array(number, "float32") for number in given)


def test_inputs_of_no_axes_stay_so_and_give_right_numbers() -> None:
    viewer = Viewer(two_scalars_model(), scalar_arrays(0.3, -2))
    assert [array.shape for array in viewer.input] == [(), ()]
    assert viewer.output.shape == ()
    assert_equal(viewer.output, np.exp(np.float32(-0.6)))
    assert_equal(viewer.run(scalar_arrays(0.5, 1)), np.exp(np.float32(0.5)))
    viewer.input = (0.25, np.float64(2))
    assert [array.shape for array in viewer.input] == [(), ()]
    assert_equal(viewer.activations["c"], np.float32(0.5))
    report = viewer.verify()
    assert report.ok and len(report.rows) == 2
    data, _ = viewer._repr_mimebundle_() or ({}, {})
    assert "image/png" in data
    viewer.close()


@pytest.mark.parametrize("factor", [-2, 0.5])
def test_a_number_beside_a_picture(factor: float) -> None:
    x = randn(1, 3, 8, 8)
    viewer = Viewer(scaled_picture_model(), (x, *scalar_arrays(1)))
    viewer.input = (x, *scalar_arrays(factor))
    assert [array.shape for array in viewer.input] == [(1, 3, 8, 8), ()]
    assert_equal(viewer.output["y"], x * np.float32(factor))
    assert_equal(viewer.output["m"], (x * np.float32(factor)).mean())
    assert viewer.verify().ok
    viewer.close()


def test_inputs_of_no_axes_are_compared() -> None:
    model = two_scalars_model()
    comparison = nbglcnn.compare(model, model, scalar_arrays(0.3, -2), scalar_arrays(0.3, 1))
    assert [array.shape for array in comparison.input] == [()] * 4
    assert_equal(comparison["c"].difference, np.float32(0.9))
    comparison.close()
