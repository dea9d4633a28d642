"""nbglcnn.backend is ONNX's standard Backend: its functions, its types, and ONNX's own runner."""

import unittest

import numpy as np
import onnx
import onnx.backend.test
import pytest
from onnx import TensorProto, helper

import nbglcnn.backend as backend
from nbglcnn.errors import InputError, OpenGLUnavailable, UnsupportedOperator

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def model_of(*nodes: onnx.NodeProto, shape: tuple[object, ...] = (2, 3)) -> onnx.ModelProto:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(list(nodes), "g", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])


def test_onnxs_own_runner_passes_with_this_backend() -> None:
    chosen = "test_(relu|argmax_keepdims_example|resize_upsample_scales_nearest|Conv2d|squeezenet)"
    suite = onnx.backend.test.BackendTest(backend, __name__).include(f"{chosen}_cpu$")
    result = unittest.TestResult()
    suite.test_suite.run(result)
    assert not result.errors + result.failures, result.errors + result.failures
    assert result.testsRun - len(result.skipped) == 5


def test_a_prepared_model_runs_again_and_for_another_shape() -> None:
    rep = backend.prepare(model_of(helper.make_node("Relu", ["x"], ["y"]), shape=("n", 3)))
    for x in (X - 2, X - 4, np.float32([[-1, 2, 3]])):
        outputs = rep.run([x])
        assert outputs["y"] is outputs[0]
        np.testing.assert_array_equal(outputs[0], np.maximum(x, 0))
    rep.close()


def test_numbers_that_shapes_depend_on_may_change_between_runs() -> None:
    node = helper.make_node("Reshape", ["x", "shape"], ["y"])
    model = model_of(node)
    model.graph.input.append(helper.make_tensor_value_info("shape", TensorProto.INT64, (2,)))
    assert backend.shape_inputs(model) == {"shape"}
    rep = backend.prepare(model)
    for shape in ([3, 2], [1, 6], [3, 2]):
        [y] = rep.run({"x": X, "shape": np.int64(shape)})
        np.testing.assert_array_equal(y, X.reshape(shape))


def test_a_floats_numbers_are_never_bound() -> None:
    model = model_of(
        helper.make_node("Cast", ["x"], ["s"], to=TensorProto.INT64),
        helper.make_node("ConstantOfShape", ["s"], ["y"]),
        shape=(2,),
    )
    assert backend.shape_inputs(model) == set()
    with pytest.raises(UnsupportedOperator, match="depends on the input's values"):
        backend.run_model(model, [np.float32([2, 3])])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int32, np.bool_])
def test_outputs_are_of_the_declared_type(dtype: type) -> None:
    to = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    [y] = backend.run_node(helper.make_node("Cast", ["x"], ["y"], to=to), [X])
    assert y.dtype == dtype
    np.testing.assert_array_equal(y, X.astype(dtype))


def test_a_node_runs_alone() -> None:
    node = helper.make_node("Add", ["a", "b"], ["c"])
    np.testing.assert_array_equal(backend.run_node(node, [X, X[0]])["c"], X + X[0])
    told = backend.run_node(node, {"b": X, "a": X}, outputs_info=[(np.dtype("f4"), (2, 3))])
    np.testing.assert_array_equal(told[0], X + X)
    with pytest.raises(onnx.checker.ValidationError):
        backend.run_node(helper.make_node("Add", ["a"], ["c"]), [X])


def test_what_cannot_run_is_not_compatible() -> None:
    assert backend.is_compatible(model_of(helper.make_node("Relu", ["x"], ["y"])))
    assert backend.is_compatible(model_of(helper.make_node("Relu", ["x"], ["y"]), shape=("n",)))
    assert not backend.is_compatible(model_of(helper.make_node("NonZero", ["x"], ["y"])))


def test_only_the_machine_itself_is_a_device() -> None:
    assert backend.supports_device("CPU")
    assert not backend.supports_device("CUDA")
    with pytest.raises(OpenGLUnavailable):
        backend.prepare(model_of(helper.make_node("Relu", ["x"], ["y"])), "CUDA:1")


def test_a_missing_input_is_named() -> None:
    rep = backend.prepare(model_of(helper.make_node("Relu", ["x"], ["y"])))
    with pytest.raises(InputError, match=r"takes 1 \('x'\)"):
        rep.run([])
