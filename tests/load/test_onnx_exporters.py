"""ONNX files from other tools: branches, quantized pairs, operators of com.microsoft."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from assertions import assert_equal
from nbglcnn.errors import ModelError, UnsupportedOperator
from nbglcnn.load import load
from nbglcnn.lowering.lower import lower
from nbglcnn.runtime.session import Session

SHAPE = (2, 3, 6, 5)


def build_model(
    nodes, constants, *, shape=SHAPE, outputs=("y",), microsoft=False
) -> onnx.ModelProto:
    opsets = [helper.make_opsetid("", 21)]
    opsets += [helper.make_opsetid("com.microsoft", 1)] if microsoft else []
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items()],
    )
    for output in graph.output:
        output.type.tensor_type.elem_type = TensorProto.FLOAT
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def assert_equals_runtime(proto: onnx.ModelProto, *, shape=SHAPE) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    runtime = onnxruntime.InferenceSession(
        proto.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in runtime.get_outputs()]
    expected = dict(zip(names, runtime.run(None, {"x": x}), strict=True))
    graph, arrays = load(proto, x)
    with Session(lower(graph)) as session:
        found = session.run(*arrays)
    for name in names:
        assert_equal(found[name], expected[name], name=name)


def graph_of(nodes, output, **constants) -> onnx.GraphProto:
    tensors = [numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items()]
    value = helper.make_empty_tensor_value_info(output)
    return helper.make_graph(nodes, "branch", [], [value], tensors)


def branching_model(condition: list[onnx.NodeProto]) -> onnx.ModelProto:
    """Squeeze as exporters write it: an If on a size, whose other branch has an invalid shape."""
    taken = graph_of([helper.make_node("Mul", ["x", "two"], ["z"])], "z", two=np.float32(2))
    wrong = graph_of([helper.make_node("Squeeze", ["x", "axes"], ["z"])], "z", axes=np.int64([3]))
    inner = helper.make_node("If", ["condition"], ["z"], then_branch=wrong, else_branch=taken)
    nested = graph_of([inner, helper.make_node("Neg", ["z"], ["w"])], "w")
    nodes = [
        *condition,
        helper.make_node("If", ["condition"], ["a"], then_branch=wrong, else_branch=nested),
        helper.make_node("Relu", ["a"], ["y"]),
    ]
    return build_model(nodes, {"one": np.int64(1), "three": np.int64(3), "zero": np.float32(0)})


SIZE_CONDITION = [
    helper.make_node("Shape", ["x"], ["shape"]),
    helper.make_node("Gather", ["shape", "three"], ["size"]),
    helper.make_node("Equal", ["size", "one"], ["condition"]),
]
INPUT_CONDITION = [
    helper.make_node("ReduceMax", ["x"], ["max"], keepdims=0),
    helper.make_node("Greater", ["max", "zero"], ["condition"]),
]


def test_of_an_if_whose_condition_is_known_only_the_branch_that_is_taken_is_read() -> None:
    x = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)
    graph, arrays = load(branching_model(SIZE_CONDITION), x)
    assert [node.op for node in graph.nodes] == ["Mul", "Neg", "Relu"]
    with Session(lower(graph)) as session:
        assert_equal(session.run(*arrays)["y"], np.maximum(-2 * x, 0))


def test_an_if_that_depends_on_the_inputs_numbers_is_refused() -> None:
    words = "'condition' depends on the values of the input 'x'"
    with pytest.raises(UnsupportedOperator, match=words):
        load(branching_model(INPUT_CONDITION), np.ones(SHAPE, np.float32))


def quantized_model(*, per_channel: bool, zero) -> onnx.ModelProto:
    """Quantized input, quantized weights, a convolution, its result quantized."""
    random = np.random.default_rng(1)
    scales = np.float32([0.02, 0.03, 0.05, 0.01]) if per_channel else np.float32(0.03)
    constants = {
        "s": np.float32(0.017),
        "z": zero,
        "w": random.integers(-127, 128, (4, 3, 3, 3)).astype(np.int8),
        "ws": scales,
        "wz": np.zeros_like(scales, np.int8),
        "os": np.float32(0.31),
    }
    pair = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["v"], axis=0),
        helper.make_node("Conv", ["d", "v"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("QuantizeLinear", ["c", "os", "z"], ["cq"]),
        helper.make_node("DequantizeLinear", ["cq", "os", "z"], ["y"]),
    ]
    return build_model(pair, constants)


@pytest.mark.parametrize("zero", [np.uint8(128), np.int8(-5), np.int16(100)])
@pytest.mark.parametrize("per_channel", [False, True])
def test_quantized_pairs_round_as_onnx_runtime_does(zero, per_channel: bool) -> None:
    proto = quantized_model(per_channel=per_channel, zero=zero)
    # With optimizations, it would compute the convolution in integers and round differently.
    x = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    runtime = onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    graph, arrays = load(proto, x)
    with Session(lower(graph)) as session:
        assert_equal(session.run(*arrays)["y"], runtime.run(None, {"x": x})[0])


def test_what_saturates_in_quantization_stays_at_the_types_bounds() -> None:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], axis=1),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], axis=1),
    ]
    constants = {"s": np.float32([1e-3, 0.5, 2e-2]), "z": np.int8([0, 120, -3])}
    assert_equals_runtime(build_model(nodes, constants))


@pytest.mark.parametrize(
    ("activation", "params"),
    [("Relu", []), ("LeakyRelu", [0.3]), ("Clip", [-0.5, 1.0]), ("HardSigmoid", [0.3, 0.4])],
)
@pytest.mark.parametrize("added", [False, True])
def test_fused_convolutions_of_onnx_runtime(activation: str, params: list, added: bool) -> None:
    random = np.random.default_rng(2)
    constants = {
        "w": random.standard_normal((4, 3, 3, 3)).astype(np.float32),
        "b": random.standard_normal(4).astype(np.float32),
        "v": random.standard_normal((4, 3, 1, 1)).astype(np.float32),
    }
    fused = helper.make_node(
        "FusedConv",
        ["x", "w", "b", *(["z"] if added else [])],
        ["y"],
        domain="com.microsoft",
        activation=activation,
        pads=[1, 1, 1, 1],
        **({"activation_params": params} if params else {}),
    )
    nodes = [helper.make_node("Conv", ["x", "v"], ["z"]), fused]
    assert_equals_runtime(build_model(nodes, constants, outputs=("y", "z"), microsoft=True))


@pytest.mark.parametrize(
    ("activation", "numbers"),
    [
        *((name, {}) for name in ("Relu", "Tanh", "Sigmoid", "Softplus", "Softsign")),
        *((name, {"alpha": 0.3}) for name in ("LeakyRelu", "Elu", "ThresholdedRelu")),
        ("HardSigmoid", {"alpha": 0.3, "beta": 0.4}),
        ("Selu", {"alpha": 1.2, "gamma": 0.7}),
    ],
)
def test_fused_products_of_onnx_runtime(activation: str, numbers: dict[str, float]) -> None:
    random = np.random.default_rng(3)
    constants = {
        "w": random.standard_normal((3, 4)).astype(np.float32),
        "b": random.standard_normal(3).astype(np.float32),
    }
    fused = helper.make_node(
        "FusedGemm",
        ["x", "w", "b"],
        ["y"],
        domain="com.microsoft",
        activation=activation,
        **{"transA": 1, "transB": 1, "alpha": 0.5, "beta": 2.0},
        **{f"activation_{name}": number for name, number in numbers.items()},
    )
    assert_equals_runtime(
        build_model([fused], constants, shape=(4, 6), microsoft=True), shape=(4, 6)
    )


def test_gelus_of_onnx_runtime() -> None:
    nodes = [
        helper.make_node("QuickGelu", ["x"], ["a"], domain="com.microsoft", alpha=1.5),
        helper.make_node("Gelu", ["a"], ["b"], domain="com.microsoft"),
        helper.make_node("BiasGelu", ["b", "v"], ["y"], domain="com.microsoft"),
    ]
    constants = {"v": np.float32([0.1, 0.2, -0.3, 0.4, -1])}
    assert_equals_runtime(build_model(nodes, constants, microsoft=True))


def test_operators_of_other_vendors_are_refused_by_name() -> None:
    nodes = [helper.make_node("Attention", ["x"], ["y"], domain="com.microsoft")]
    with pytest.raises(UnsupportedOperator, match=r"'com\.microsoft'; ONNX's own .* BiasGelu"):
        load(build_model(nodes, {}, microsoft=True), np.ones(SHAPE, np.float32))
    nodes = [helper.make_node("QuickGelu", ["x"], ["y"], domain="com.microsoft", beta=1.5)]
    with pytest.raises(ModelError, match="attribute 'beta' is not allowed here"):
        load(build_model(nodes, {}, microsoft=True), np.ones(SHAPE, np.float32))
