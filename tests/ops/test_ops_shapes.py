"""Random shapes: broadcasts, reductions and products of reshaped tensors."""

import math

import numpy as np
import onnx
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from assertions import assert_equal
from nbglcnn.load import load
from nbglcnn.lowering.lower import lower
from nbglcnn.runtime.session import Session
from random_networks import FEW_EXAMPLES_SETTINGS

MORE_EXAMPLES_SETTINGS = settings(FEW_EXAMPLES_SETTINGS, max_examples=40)
lengths = st.sampled_from([1, 1, 2, 3, 4, 5, 7])


def shapes(min_rank=0, max_rank=6):
    return st.lists(lengths, min_size=min_rank, max_size=max_rank).map(tuple).filter(is_small)


def is_small(shape):
    return math.prod(shape) <= 4000


def run_node(op, operands, *, constants=None, **attributes):
    """Run one ONNX node. Operands are (array, shape in which it is fed), reshaped in the graph."""
    nodes, fed, arrays, initializers = [], [], [], []
    names = []
    for k, (array, fed_shape) in enumerate(operands):
        fed.append(helper.make_tensor_value_info(f"x{k}", TensorProto.FLOAT, fed_shape))
        arrays.append(array.reshape(fed_shape))
        initializers.append(numpy_helper.from_array(np.array(array.shape, np.int64), f"shape{k}"))
        nodes.append(helper.make_node("Reshape", [f"x{k}", f"shape{k}"], [f"y{k}"]))
        names.append(f"y{k}")
    for k, array in enumerate(constants or []):
        initializers.append(numpy_helper.from_array(array, f"c{k}"))
        names.append(f"c{k}")
    nodes.append(helper.make_node(op, names, ["out"], **attributes))
    out = [helper.make_tensor_value_info("out", TensorProto.UNDEFINED, None)]
    graph = helper.make_graph(nodes, op, fed, out, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    loaded, inputs = load(onnx.shape_inference.infer_shapes(model), tuple(arrays))
    with Session(lower(loaded, observe="outputs")) as session:
        return session.run(*inputs)["out"]


@st.composite
def reshaped_arrays(draw, shape):
    """An array of a shape, and another shape with equally many elements in which it is fed."""
    rng = np.random.default_rng(draw(st.integers(0, 9)))
    array = rng.standard_normal(shape).astype(np.float32)
    parts = draw(st.permutations(list(shape)))
    joined = draw(st.integers(0, max(len(parts) - 1, 0)))
    fed_shape = (*parts[:joined], math.prod(parts[joined:]))
    return array, draw(st.sampled_from([shape, fed_shape]))


@st.composite
def broadcast_arrays(draw):
    """Two arrays that broadcast together: each omits some axes or has size 1 there."""
    shape = draw(shapes())
    operands = []
    for _ in range(2):
        kept = tuple(d if draw(st.booleans()) or draw(st.booleans()) else 1 for d in shape)
        dropped = draw(st.integers(0, len(kept)))
        while dropped and math.prod(kept[:dropped]) != 1:
            dropped -= 1
        operands.append(draw(reshaped_arrays(kept[dropped:])))
    return operands


@given(broadcast_arrays())
@MORE_EXAMPLES_SETTINGS
def test_differences_of_any_shapes(operands):
    expected = operands[0][0] - operands[1][0]
    assert_equal(run_node("Sub", operands), expected, name=str(operands))


@given(broadcast_arrays())
@MORE_EXAMPLES_SETTINGS
def test_products_with_a_constant(operands):
    expected = operands[0][0] * operands[1][0]
    actual = run_node("Mul", operands[:1], constants=[operands[1][0]])
    assert_equal(actual, expected, name=str([a.shape for a, _ in operands]))


@st.composite
def reduction_inputs(draw):
    shape = draw(shapes(min_rank=1))
    axes = draw(st.sets(st.integers(0, len(shape) - 1), min_size=1))
    return draw(reshaped_arrays(shape)), tuple(sorted(axes))


@given(reduction_inputs(), st.sampled_from([0, 1]))
@MORE_EXAMPLES_SETTINGS
def test_sums_over_any_axes(case, keepdims):
    operand, axes = case
    axis = np.array(axes, np.int64)
    expected = operand[0].astype(np.float64).sum(axes, keepdims=bool(keepdims)).astype(np.float32)
    actual = run_node("ReduceSum", [operand], constants=[axis], keepdims=keepdims)
    assert_equal(actual, expected, name=f"{operand[0].shape} fed as {operand[1]} over {axes}")


@given(reduction_inputs())
@MORE_EXAMPLES_SETTINGS
def test_softmax_over_any_axis(case):
    operand, (axis, *_) = case
    x = operand[0].astype(np.float64)
    power = np.exp(x - x.max(axis, keepdims=True))
    expected = (power / power.sum(axis, keepdims=True)).astype(np.float32)
    actual = run_node("Softmax", [operand], axis=axis)
    assert_equal(actual, expected, name=f"{x.shape} fed as {operand[1]} over {axis}")


@given(reduction_inputs(), st.sampled_from([0, 1]))
@MORE_EXAMPLES_SETTINGS
def test_the_first_largest_along_any_axis(case, keepdims):
    (array, fed_shape), (axis, *_) = case
    array = np.round(array)
    expected = np.expand_dims(array.argmax(axis), axis) if keepdims else array.argmax(axis)
    actual = run_node("ArgMax", [(array, fed_shape)], axis=axis, keepdims=keepdims)
    assert_equal(actual, expected, name=f"{array.shape} fed as {fed_shape} over {axis}")


@st.composite
def matmul_operands(draw):
    """Operands of a matrix product, with batch axes that broadcast."""
    rows, inner, columns = (draw(lengths) for _ in range(3))
    batch = draw(shapes(max_rank=3))
    operands = []
    for matrix in ((rows, inner), (inner, columns)):
        kept = tuple(d if draw(st.booleans()) else 1 for d in batch)
        skipped = draw(st.integers(0, len(kept))) if math.prod(kept) == 1 else 0
        operands.append(draw(reshaped_arrays((*kept[skipped:], *matrix))))
    return operands


@given(matmul_operands(), st.booleans())
@MORE_EXAMPLES_SETTINGS
def test_matrix_products_of_any_batches(operands, constant):
    a, b = (array for array, _ in operands)
    actual = (
        run_node("MatMul", operands[:1], constants=[b])
        if constant
        else run_node("MatMul", operands)
    )
    assert_equal(actual, a @ b, name=f"{a.shape} fed as {operands[0][1]}, {b.shape}")
