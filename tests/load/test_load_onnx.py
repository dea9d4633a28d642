"""Loading ONNX models: old and new operator sets, dynamic shapes, functions, all types."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from onnx import helper, numpy_helper

import nbglcnn
from nbglcnn import Session, compile
from nbglcnn.errors import InputError, ModelError, UnsupportedModel
from nbglcnn.graph import Array, Graph
from nbglcnn.load import convert_inputs, load, with_parameters
from nbglcnn.reference import compute_reference, engine_name
from onnx_models import FLOAT, compute_values, model_of, node, randn, small_model


def assert_equals_runtime(model: onnx.ModelProto, x: Any) -> tuple[Graph, dict[str, Array]]:
    """Load, and compare outputs and declared shapes with ONNX Runtime on the model itself."""
    graph, arrays = load(model, x)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    names = [i.name for i in session.get_inputs()]
    truth = session.run(None, dict(zip(names, arrays, strict=True)))
    found = compute_values(graph, arrays)
    for output, expected in zip(session.get_outputs(), truth, strict=True):
        assert found[output.name].shape == expected.shape
        assert_allclose(found[output.name], expected, rtol=1e-4, atol=1e-5)
    for key in graph.keys:
        assert found[key.name].shape == graph.shape(key.value_name)
    return graph, found


def test_keys_are_the_values_own_names() -> None:
    graph, _ = assert_equals_runtime(small_model(), randn(1, 2, 4, 5))
    assert [(k.name, k.kind) for k in graph.keys] == [
        *(("x", "input"), ("c", "layer"), ("r", "layer"), ("d", "layer"), ("i", "layer")),
        ("y", "output"),
    ]
    assert graph.key("d").value_name == graph.key("i").value_name == "r"
    assert dict(graph.parameters) == {"w": "w", "b": "b"}
    assert graph.framework == "onnx"
    assert [n.op for n in graph.nodes] == ["Conv", "Relu", "Add"]


@pytest.mark.parametrize("outputs", [["x"], ["x", "y"], ["y", "x"]])
def test_an_output_that_is_an_input_keeps_its_name(outputs: list[str]) -> None:
    model = model_of([node("Neg", ["x"], ["y"])][: len(outputs) - 1], {"x": (1, 3)}, outputs)
    x = randn(1, 3)
    for observe in ("all", "outputs", ["x"]):
        plan = compile(model, observe=observe)
        assert list(plan.header.outputs) == outputs
        assert sorted(value.key for value in plan.values) == sorted(outputs)
        with Session(plan) as session:
            found = session.run(x=x)
            assert nbglcnn.verify(session, model, x).ok
        assert_array_equal(found["x"], x)
        if "y" in outputs:
            assert_array_equal(found["y"], -x)


@pytest.mark.parametrize(
    ("shape", "hint"),
    [
        ((1, 8, 6, 3), r"channels first: x\.transpose\(0, 3, 1, 2\), .*x\.permute\(0, 3, 1, 2\)$"),
        ((8, 6, 3), r"channels first: x\.transpose\(2, 0, 1\)\[None\], "),
        ((3, 8, 6), r"add the batch axis with x\[None\]$"),
        ((1, 8, 6, 4), r"expected \(any, 3, any, any\)$"),
        ((3, 8, 6, 1), r"expected \(any, 3, any, any\)$"),
    ],
)
def test_an_input_with_its_channels_last_is_told_how_to_turn_it(
    shape: tuple[int, ...], hint: str
) -> None:
    model = model_of([node("Relu", ["x"], ["y"])], {"x": ("n", 3, "h", "w")}, ["y"])
    with pytest.raises(InputError, match=hint):
        load(model, np.zeros(shape, np.float32))


def test_path_bytes_and_proto_give_the_same(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(small_model(), path)
    x = randn(1, 2, 4, 5)
    graphs = [load(m, x)[0] for m in (small_model(), path.read_bytes(), path, str(path))]
    assert [g.name for g in graphs] == ["g", "model", "net", "net"]
    for graph in graphs:
        assert graph.keys == graphs[0].keys
        assert_array_equal(graph.constant_data("w"), randn(3, 2, 3, 3))


def test_static_shapes_need_no_example() -> None:
    _, arrays = load(small_model())
    assert arrays[0].shape == (1, 2, 4, 5)
    assert 0 <= arrays[0].min() < arrays[0].max() < 1
    assert_array_equal(load(small_model())[1][0], arrays[0])


def test_dynamic_dimensions_are_bound_by_the_example() -> None:
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "two"], ["h"]),
        node("Mul", ["h", "two"], ["h2"]),
        node("Unsqueeze", ["h2", "zero"], ["hs"]),
        node("Concat", ["front", "hs", "hs"], ["sizes"], axis=0),
        node("Resize", ["x", "", "", "sizes"], ["y"], mode="nearest"),
    ]
    constants = {"two": np.int64(2), "zero": np.int64([0]), "front": np.int64([2, 3])}
    model = model_of(nodes, {"x": ("N", 3, "H", None)}, ["y"], constants=constants)
    graph, found = assert_equals_runtime(model, randn(2, 3, 4, 5))
    assert found["y"].shape == (2, 3, 8, 8)
    assert [n.op for n in graph.nodes] == ["Resize"]
    assert [k.name for k in graph.keys] == ["x", "y"]
    with pytest.raises(InputError, match=r"'x' has no fixed shape: \(N, 3, H, \?\).*example input"):
        load(model)
    with pytest.raises(
        InputError, match=r"shape \(2, 4, 4, 5\) was given; expected \(any, 3, any, any"
    ):
        load(model, randn(2, 4, 4, 5))


def test_weights_in_constant_nodes_and_initializers_among_the_inputs() -> None:
    nodes = [
        node("Constant", [], ["k"], value=numpy_helper.from_array(randn(4, 3), "k")),
        node("ConstantOfShape", ["dims"], ["o"], value=numpy_helper.from_array(np.float32([2]))),
        node("MatMul", ["x", "k"], ["m"]),
        node("Mul", ["m", "o"], ["t"]),
        node("Clip", ["t", "low"], ["y"]),
    ]
    constants = {"dims": np.int64([3]), "low": np.float32(0.1)}
    inputs = {"x": (2, 4), "low": ()}
    graph, _ = assert_equals_runtime(
        model_of(nodes, inputs, ["y"], constants=constants), randn(2, 4)
    )
    assert list(graph.inputs) == ["x"]
    assert list(graph.parameters) == ["k"]  # not Clip's bound, not a computed constant


def test_with_parameters_and_reference_of_an_onnx_model() -> None:
    nodes = [
        node("Transpose", ["w"], ["wt"], perm=[1, 0]),
        node("MatMul", ["x", "wt"], ["m"]),
        node("Relu", ["m"], ["y"]),
    ]
    model = model_of(nodes, {"x": (2, 4)}, ["y"], constants={"w": randn(3, 4)})
    graph, found = assert_equals_runtime(model, randn(2, 4))
    assert [n.op for n in graph.folded_nodes] == ["Transpose"]
    changed = with_parameters(graph, {"w": -randn(3, 4)})
    arrays = convert_inputs(changed, randn(2, 4))
    assert_allclose(compute_values(changed, arrays)["m"], -found["m"], rtol=1e-6)
    truth = compute_reference(model, changed, arrays)
    assert list(truth) == [k.name for k in changed.keys]
    assert_allclose(truth["m"], -found["m"], rtol=1e-5)
    assert engine_name(model).startswith("ONNX Runtime 1.")


def test_half_and_double_weights_are_computed_in_float32() -> None:
    for dtype in (np.float16, np.float64):
        model = model_of(
            [node("MatMul", ["x", "w"], ["m"]), node("Cast", ["m"], ["y"], to=FLOAT)],
            {},
            ["y"],
            constants={"w": randn(4, 3).astype(dtype)},
        )
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        model.graph.input.append(helper.make_tensor_value_info("x", kind, (2, 4)))
        graph, arrays = load(model, randn(2, 4))
        assert arrays[0].dtype == graph.constant_data("w").dtype == np.float32
        assert len(graph.notes) == 2
        assert [n.op for n in graph.nodes] == ["MatMul"]
        expected = randn(2, 4) @ randn(4, 3).astype(dtype).astype(np.float32)
        assert_allclose(compute_reference(model, graph, arrays)["y"], expected, rtol=1e-5)


# Operator sets

IMAGE_INPUT = {"x": (1, 2, 3, 4)}
OLD_OPERATORS: list[tuple[str, int, dict[str, Any], list[Any], dict[str, Any]]] = [
    ("Clip", 10, {"min": -0.5, "max": 0.5}, [], {}),
    ("Clip", 6, {"min": 0.0}, [], {}),
    ("Clip", 11, {}, ["low", "high"], {"low": np.float32(-0.5), "high": np.float32(0.5)}),
    ("Pad", 10, {"pads": [0, 0, 1, 2, 0, 0, 0, 1], "value": 3.0}, [], {}),
    ("Pad", 10, {"pads": [0, 0, 1, 2, 0, 0, 0, 1], "mode": "reflect"}, [], {}),
    ("Pad", 13, {}, ["p"], {"p": np.int64([0, 0, 1, 2, 0, 0, 0, -1])}),
    ("Slice", 9, {"starts": [1, -3], "ends": [3, 99], "axes": [2, 3]}, [], {}),
    ("Slice", 9, {"starts": [0, 1], "ends": [1, 2]}, [], {}),
    ("Slice", 11, {}, ["s", "e"], {"s": np.int64([0, 1]), "e": np.int64([1, 2])}),
    ("Upsample", 8, {"scales": [1.0, 1.0, 2.0, 3.0], "mode": "nearest"}, [], {}),
    ("Upsample", 9, {"mode": "linear"}, ["s"], {"s": np.float32([1, 1, 2, 2])}),
    ("Resize", 10, {"mode": "nearest"}, ["s"], {"s": np.float32([1, 1, 1.5, 2])}),
    (
        *("Resize", 11, {"mode": "linear", "coordinate_transformation_mode": "align_corners"}),
        ["r", "n", "z"],
        {"r": np.float32([]), "n": np.float32([]), "z": np.int64([1, 2, 5, 6])},
    ),
    (
        "Resize",
        13,
        {"mode": "nearest"},
        ["r", "s"],
        {"r": np.float32([]), "s": np.float32([1, 1, 2, 2])},
    ),
    ("Squeeze", 11, {"axes": [0]}, [], {}),
    ("Unsqueeze", 11, {"axes": [0, -1]}, [], {}),
    ("ReduceSum", 11, {"axes": [1, -1], "keepdims": 0}, [], {}),
    ("ReduceMean", 17, {"axes": [2, 3]}, [], {}),
    ("ReduceMax", 13, {"keepdims": 0}, [], {}),
    ("ReduceMean", 18, {}, ["a"], {"a": np.int64([2])}),
    ("Softmax", 11, {}, [], {}),
    ("Softmax", 11, {"axis": 2}, [], {}),
    ("Softmax", 12, {"axis": -1}, [], {}),
    ("LogSoftmax", 11, {"axis": 0}, [], {}),
    ("Softmax", 13, {}, [], {}),
    ("Hardmax", 11, {"axis": 1}, [], {}),
    ("Dropout", 10, {"ratio": 0.3}, [], {}),
    ("Dropout", 13, {}, ["r"], {"r": np.float32(0.3)}),
    ("TopK", 9, {"k": 2, "axis": 3}, [], {}),
    ("Flatten", 9, {"axis": 2}, [], {}),
    ("MaxPool", 8, {"kernel_shape": [2, 2]}, [], {}),
    ("MaxPool", 12, {"kernel_shape": [2, 2], "ceil_mode": 1, "strides": [2, 2]}, [], {}),
    ("AveragePool", 7, {"kernel_shape": [2, 2], "pads": [1, 1, 0, 0]}, [], {}),
    (
        *("BatchNormalization", 9, {"epsilon": 0.1}, ["s", "b", "m", "v"]),
        dict(zip("sbmv", np.abs(randn(4, 2)), strict=True)),
    ),
    ("PRelu", 7, {}, ["s"], {"s": randn(2, 1, 1)}),
    ("Gelu", 20, {}, [], {}),
    ("HardSwish", 14, {}, [], {}),
    ("Scatter", 9, {"axis": 3}, ["i", "u"], {"i": np.int64([[[[1]]]]), "u": randn(1, 1, 1, 1)}),
]


@pytest.mark.parametrize(
    ("op", "opset", "attributes", "more", "constants"),
    OLD_OPERATORS,
    ids=[f"{o[0]}-{o[1]}" for o in OLD_OPERATORS],
)
def test_older_operator_sets_mean_what_they_did(
    op: str, opset: int, attributes: dict[str, Any], more: list[str], constants: dict[str, Any]
) -> None:
    outputs = ["y", "indices"] if op == "TopK" else ["y"]
    one = node(op, ["x", *more], outputs, **attributes)
    x = randn(1, 2, 3, 4)
    assert_equals_runtime(
        model_of([one], IMAGE_INPUT, outputs, opset=opset, constants=constants), x
    )


@pytest.mark.parametrize("opset", [7, 9, 11, 12])
@pytest.mark.parametrize("outputs", [2, 3])
def test_split_of_older_operator_sets(opset: int, outputs: int) -> None:
    names = [f"y{i}" for i in range(outputs)]
    attributes = {"axis": 3} | ({"split": [1, 2, 3]} if outputs == 3 else {})
    model = model_of(
        [node("Split", ["x"], names, **attributes)], {"x": (1, 1, 1, 6)}, names, opset=opset
    )
    assert_equals_runtime(model, randn(1, 1, 1, 6))


def test_operator_set_6_broadcasts_along_an_axis() -> None:
    one = node("Add", ["x", "b"], ["y"], axis=1, broadcast=1)
    graph, arrays = load(
        model_of([one], IMAGE_INPUT, ["y"], opset=6, constants={"b": randn(2)}), randn(1, 2, 3, 4)
    )
    expected = randn(1, 2, 3, 4) + randn(2)[:, None, None]
    assert_allclose(compute_values(graph, arrays)["y"], expected, rtol=1e-6)


@pytest.mark.parametrize("opset", [11, 13, 17, 18, 20, 21, 23, onnx.defs.onnx_opset_version()])
def test_operator_sets_up_to_the_newest(opset: int) -> None:
    model = small_model()
    model.opset_import[0].version = opset
    graph, arrays = load(model)
    expected = compute_values(load(small_model())[0], arrays)
    assert_allclose(compute_values(graph, arrays)["y"], expected["y"], rtol=1e-6)


def test_operator_sets_outside_what_is_known() -> None:
    for opset in (1, 5, onnx.defs.onnx_opset_version() + 1, 2**40):
        model = small_model()
        model.opset_import[0].version = opset
        with pytest.raises(UnsupportedModel, match=f"operator set {opset}"):
            load(model)


def test_group_normalization_of_18_has_a_scale_for_each_group() -> None:
    one = node("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=2)
    constants = {"s": randn(2), "b": randn(2)}
    model = model_of([one], {"x": (1, 4, 3, 3)}, ["y"], opset=18, constants=constants)
    graph, found = assert_equals_runtime(model, randn(1, 4, 3, 3))
    assert [n.op for n in graph.nodes] == ["GroupNormalization"]
    changed = with_parameters(graph, {"s": 2 * randn(2), "b": 2 * randn(2)})
    doubled = compute_values(changed, convert_inputs(changed, randn(1, 4, 3, 3)))
    assert_allclose(doubled["y"], 2 * found["y"], rtol=1e-4, atol=1e-5)


def test_function_bodies_are_written_out() -> None:
    inner = helper.make_function(
        *("own", "scaled", ["a"], ["b"]),
        [
            node("Constant", [], ["k"]),
            node("Mul", ["a", "k"], ["t"]),
            node("LeakyRelu", ["t"], ["b"]),
        ],
        [helper.make_opsetid("", 21)],
        ["by", "slope"],
    )
    for at, (name, ref) in enumerate((("value_float", "by"), ("alpha", "slope"))):
        attribute = inner.node[2 * at].attribute.add()
        attribute.name, attribute.ref_attr_name = name, ref
        attribute.type = onnx.AttributeProto.FLOAT
    outer = helper.make_function(
        *("own", "twice", ["a"], ["b"]),
        [
            node("scaled", ["a"], ["t"], domain="own", by=2.0, slope=0.5),
            node("scaled", ["t"], ["b"], domain="own", by=3.0, slope=0.1),
        ],
        [helper.make_opsetid("own", 1)],
    )
    calls = [node("twice", ["x"], ["t"], domain="own"), node("twice", ["t"], ["y"], domain="own")]
    model = model_of(calls, {"x": (3,)}, ["y"], functions=[inner, outer])
    graph, _ = assert_equals_runtime(model, np.float32([-1, 0, 2]))
    assert [n.op for n in graph.nodes] == ["Mul", "LeakyRelu"] * 4


def test_functions_that_call_themselves_or_explode_are_refused() -> None:
    def function(name: str, calls: Sequence[str]) -> Any:
        nodes = [node(c, ["a"], [f"b{i}"], domain="own") for i, c in enumerate(calls)]
        nodes.append(node("Identity", ["a"], ["b"]))
        return helper.make_function(
            "own",
            name,
            ["a"],
            ["b"],
            nodes,
            [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)],
        )

    call = node("f0", ["x"], ["y"], domain="own")
    loop = [function("f0", ["f1"]), function("f1", ["f0"])]
    with pytest.raises(ModelError, match="calls itself"):
        load(model_of([call], {"x": (1,)}, ["y"], functions=loop))
    bomb = [function(f"f{i}", [f"f{i + 1}"] * 10) for i in range(12)] + [function("f12", [])]
    with pytest.raises(UnsupportedModel, match="nodes after functions are expanded"):
        load(model_of([call], {"x": (1,)}, ["y"], functions=bomb))


def test_pieces_of_a_split_tensor_become_slices() -> None:
    nodes = [
        node("SplitToSequence", ["x", "two"], ["s"], axis=1),
        node("SequenceAt", ["s", "last"], ["a"]),
        node("SplitToSequence", ["x"], ["t"], axis=2, keepdims=0),
        node("SequenceAt", ["t", "last"], ["b"]),
        node("Identity", ["b"], ["c"]),
    ]
    constants = {"two": np.int64(2), "last": np.int64(-1)}
    model = model_of(nodes, {"x": (1, 5, 3)}, ["a", "c"], constants=constants)
    _, found = assert_equals_runtime(model, randn(1, 5, 3))
    assert found["a"].shape == (1, 1, 3)
    assert found["c"].shape == (1, 5)


def test_values_of_other_ranks_and_types() -> None:
    nodes = [
        node("ArgMax", ["x"], ["i"], axis=1, keepdims=0),
        node("Greater", ["x", "zero"], ["g"]),
        node("Where", ["g", "x", "zero"], ["w"]),
        node("ReduceSum", ["w"], ["s"], keepdims=0),
    ]
    model = model_of(nodes, {"x": (2, 3)}, ["i", "g", "s"], constants={"zero": np.float32(0)})
    graph, _ = assert_equals_runtime(model, randn(2, 3))
    assert [graph.values[v].dtype for v in graph.outputs] == [np.int64, np.bool_, np.float32]
    assert graph.shape("s") == ()
    empty = model_of([node("Concat", ["x", "x"], ["y"], axis=0)], {"x": (0, 3)}, ["y"])
    assert assert_equals_runtime(empty, np.zeros((0, 3), np.float32))[1]["y"].shape == (0, 3)


def test_an_unused_branch_is_left_out_and_order_may_be_any() -> None:
    nodes = [
        node("Add", ["a", "b"], ["y"]),
        node("Relu", ["x"], ["a"]),
        node("Exp", ["a"], ["unused"]),
        node("Neg", ["a"], ["b"]),
    ]
    graph, _ = load(model_of(nodes, {"x": (3,)}, ["y"]))
    assert [n.op for n in graph.nodes] == ["Relu", "Neg", "Add"]
    assert [k.name for k in graph.keys] == ["x", "a", "b", "y"]


@pytest.mark.parametrize(
    "equation",
    ["", "ij", "ij,jk,kl->il", "ij,jk->iz", "ij,jk->ii", "ij,jkl->il", "ij,ik->jk", "i.j,jk", "->"],
)
def test_equations_that_do_not_fit_are_refused(equation: str) -> None:
    one = node("Einsum", ["x", "w"], ["y"], name="sum", equation=equation)
    model = model_of([one], {"x": (2, 3)}, ["y"], constants={"w": randn(3, 4)})
    with pytest.raises(ModelError, match="sum"):
        load(model)


def test_a_diagonal_in_an_equation_is_refused() -> None:
    one = node("Einsum", ["x"], ["y"], equation="ii->i")
    with pytest.raises(UnsupportedModel, match="a diagonal"):
        load(model_of([one], {"x": (3, 3)}, ["y"]))


def test_a_product_of_too_many_sizes_is_refused() -> None:
    names = [f"x{k}" for k in range(6)]
    one = node("Einsum", names, ["y"], name="outer", equation="a,b,c,d,e,f->abcdef")
    with pytest.raises(ModelError, match="outer"):
        load(model_of([one], dict.fromkeys(names, (5000,)), ["y"]))


def test_a_triangle_of_a_vector_is_refused() -> None:
    with pytest.raises(ModelError, match=r"Trilu.*rank must be >= 2"):
        load(model_of([node("Trilu", ["x"], ["y"])], {"x": (4,)}, ["y"]))
