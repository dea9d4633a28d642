"""Nodes with no name or a duplicate name are distinguished when passes are fused."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from assertions import assert_equal
from nbglcnn.load import load
from nbglcnn.lowering.lower import lower
from nbglcnn.reference import compute_reference
from nbglcnn.runtime.session import Session


@pytest.mark.parametrize("name", ["", "the same"])
@pytest.mark.parametrize("observe", ["all", "outputs"])
def test_convolutions_of_one_name_keep_their_own_activations(name: str, observe: str) -> None:
    rng = np.random.default_rng(1)
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], name),
        helper.make_node("Relu", ["a"], ["b"], name),
        helper.make_node("Conv", ["b", "w1"], ["c"], name),
        helper.make_node("Sigmoid", ["c"], ["y"], name),
    ]
    weights = [
        numpy_helper.from_array(rng.standard_normal((3, 3, 1, 1)).astype(np.float32), f"w{k}")
        for k in range(2)
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 3, 4, 5))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 3, 4, 5))
    graph = helper.make_graph(nodes, "two", [x], [y], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    onnx.checker.check_model(model)
    found, arrays = load(model)
    expected = compute_reference(model, found, arrays)
    with Session(lower(found, observe=observe)) as session:
        for key, value in session.run(*arrays).items():
            assert_equal(value, expected[key], name=key)
