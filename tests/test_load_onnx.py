"""Loading ONNX models: old and new operator sets, dynamic shapes, functions, and hostile files."""

import ast
import os
import pickle
import struct
import time
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from onnx import TensorProto, helper, numpy_helper

import nbglcnn.load
from nbglcnn.errors import (
    InputError,
    ModelError,
    NbglcnnError,
    UnsupportedModel,
    UnsupportedOperator,
)
from nbglcnn.graph import Array, Graph
from nbglcnn.load import as_arrays, engine, load, reference, with_parameters
from nbglcnn.load.truth import run_graph

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def randn(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def model_of(
    nodes: Sequence[Any],
    inputs: dict[str, Any],
    outputs: Sequence[str],
    *,
    opset: int = 21,
    constants: dict[str, Any] | None = None,
    functions: Sequence[Any] = (),
) -> onnx.ModelProto:
    """A model from nodes, inputs' shapes, outputs' names and constants."""
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info(n, FLOAT, s) for n, s in inputs.items()],
        [helper.make_empty_tensor_value_info(n) for n in outputs],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in (constants or {}).items()],
    )
    imports = [helper.make_opsetid("", opset), *[helper.make_opsetid("own", 1)] * bool(functions)]
    return helper.make_model(graph, opset_imports=imports, functions=list(functions), ir_version=8)


node = helper.make_node


def values(graph: Graph, arrays: Sequence[Array]) -> dict[str, Array]:
    known = dict(zip(graph.inputs, arrays, strict=True))
    computed = run_graph(graph, known, [key.value for key in graph.keys])
    return {key.name: computed[key.value] for key in graph.keys}


def check(model: onnx.ModelProto, x: Any) -> tuple[Graph, dict[str, Array]]:
    """Load, and compare outputs and declared shapes with ONNX Runtime on the model itself."""
    graph, arrays = load(model, x)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    names = [i.name for i in session.get_inputs()]
    truth = session.run(None, dict(zip(names, arrays, strict=True)))
    found = values(graph, arrays)
    for output, expected in zip(session.get_outputs(), truth, strict=True):
        assert found[output.name].shape == expected.shape
        assert_allclose(found[output.name], expected, rtol=1e-4, atol=1e-5)
    for key in graph.keys:
        assert found[key.name].shape == graph.shape(key.value)
    return graph, found


def small() -> onnx.ModelProto:
    return model_of(
        [
            node("Conv", ["x", "w", "b"], ["c"], name="first", kernel_shape=[3, 3], pads=[1] * 4),
            node("Relu", ["c"], ["r"]),
            node("Dropout", ["r"], ["d"]),
            node("Identity", ["d"], ["i"]),
            node("Add", ["i", "c"], ["y"]),
        ],
        {"x": (1, 2, 4, 5)},
        ["y"],
        constants={"w": randn(3, 2, 3, 3), "b": randn(3)},
    )


def test_keys_are_the_values_own_names() -> None:
    graph, _ = check(small(), randn(1, 2, 4, 5))
    assert [(k.name, k.kind) for k in graph.keys] == [
        *(("x", "input"), ("c", "layer"), ("r", "layer"), ("d", "layer"), ("i", "layer")),
        ("y", "output"),
    ]
    assert graph.key("d").value == graph.key("i").value == "r"
    assert dict(graph.parameters) == {"w": "w", "b": "b"}
    assert graph.source == "onnx"
    assert [n.op for n in graph.nodes] == ["Conv", "Relu", "Add"]


def test_path_bytes_and_proto_give_the_same(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(small(), path)
    x = randn(1, 2, 4, 5)
    graphs = [load(m, x)[0] for m in (small(), path.read_bytes(), path, str(path))]
    assert [g.name for g in graphs] == ["g", "model", "net", "net"]
    for graph in graphs:
        assert graph.keys == graphs[0].keys
        assert_array_equal(graph.constant("w"), randn(3, 2, 3, 3))


def test_static_shapes_need_no_example() -> None:
    _, arrays = load(small())
    assert arrays[0].shape == (1, 2, 4, 5)
    assert 0 <= arrays[0].min() < arrays[0].max() < 1
    assert_array_equal(load(small())[1][0], arrays[0])


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
    graph, found = check(model, randn(2, 3, 4, 5))
    assert found["y"].shape == (2, 3, 8, 8)
    assert [n.op for n in graph.nodes] == ["Resize"]
    assert [k.name for k in graph.keys] == ["x", "y"]
    with pytest.raises(InputError, match=r"'x' has no fixed shape: \(N, 3, H, \?\).*example input"):
        load(model)
    with pytest.raises(
        InputError, match=r"shape \(2, 4, 4, 5\) was given; it is \(any, 3, any, any"
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
    graph, _ = check(model_of(nodes, inputs, ["y"], constants=constants), randn(2, 4))
    assert list(graph.inputs) == ["x"]
    assert list(graph.parameters) == ["k"]  # neither the bound of Clip nor a computed constant


def test_with_parameters_and_reference_of_an_onnx_model() -> None:
    nodes = [
        node("Transpose", ["w"], ["wt"], perm=[1, 0]),
        node("MatMul", ["x", "wt"], ["m"]),
        node("Relu", ["m"], ["y"]),
    ]
    model = model_of(nodes, {"x": (2, 4)}, ["y"], constants={"w": randn(3, 4)})
    graph, found = check(model, randn(2, 4))
    assert [n.op for n in graph.folded] == ["Transpose"]
    changed = with_parameters(graph, {"w": -randn(3, 4)})
    arrays = as_arrays(randn(2, 4), changed)
    assert_allclose(values(changed, arrays)["m"], -found["m"], rtol=1e-6)
    truth = reference(model, changed, arrays)
    assert list(truth) == [k.name for k in changed.keys]
    assert_allclose(truth["m"], -found["m"], rtol=1e-5)
    assert engine(model).startswith("ONNX Runtime 1.")


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
        assert arrays[0].dtype == graph.constant("w").dtype == np.float32
        assert len(graph.notes) == 2
        assert [n.op for n in graph.nodes] == ["MatMul"]
        expected = randn(2, 4) @ randn(4, 3).astype(dtype).astype(np.float32)
        assert_allclose(reference(model, graph, arrays)["y"], expected, rtol=1e-5)


# Operator sets

IMAGE = {"x": (1, 2, 3, 4)}
OLD: list[tuple[str, int, dict[str, Any], list[Any], dict[str, Any]]] = [
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
    ("op", "opset", "attributes", "more", "constants"), OLD, ids=[f"{o[0]}-{o[1]}" for o in OLD]
)
def test_older_operator_sets_mean_what_they_did(
    op: str, opset: int, attributes: dict[str, Any], more: list[str], constants: dict[str, Any]
) -> None:
    outputs = ["y", "indices"] if op == "TopK" else ["y"]
    one = node(op, ["x", *more], outputs, **attributes)
    x = randn(1, 2, 3, 4)
    check(model_of([one], IMAGE, outputs, opset=opset, constants=constants), x)


@pytest.mark.parametrize("opset", [7, 9, 11, 12])
@pytest.mark.parametrize("outputs", [2, 3])
def test_split_of_older_operator_sets(opset: int, outputs: int) -> None:
    names = [f"y{i}" for i in range(outputs)]
    attributes = {"axis": 3} | ({"split": [1, 2, 3]} if outputs == 3 else {})
    model = model_of(
        [node("Split", ["x"], names, **attributes)], {"x": (1, 1, 1, 6)}, names, opset=opset
    )
    check(model, randn(1, 1, 1, 6))


def test_operator_set_6_broadcasts_along_an_axis() -> None:
    one = node("Add", ["x", "b"], ["y"], axis=1, broadcast=1)
    graph, arrays = load(
        model_of([one], IMAGE, ["y"], opset=6, constants={"b": randn(2)}), randn(1, 2, 3, 4)
    )
    expected = randn(1, 2, 3, 4) + randn(2)[:, None, None]
    assert_allclose(values(graph, arrays)["y"], expected, rtol=1e-6)


@pytest.mark.parametrize("opset", [11, 13, 17, 18, 20, 21, 23, onnx.defs.onnx_opset_version()])
def test_operator_sets_up_to_the_newest(opset: int) -> None:
    model = small()
    model.opset_import[0].version = opset
    graph, arrays = load(model)
    expected = values(load(small())[0], arrays)
    assert_allclose(values(graph, arrays)["y"], expected["y"], rtol=1e-6)


def test_operator_sets_outside_what_is_known() -> None:
    for opset in (1, 5, onnx.defs.onnx_opset_version() + 1, 2**40):
        model = small()
        model.opset_import[0].version = opset
        with pytest.raises(UnsupportedModel, match=f"operator set {opset}"):
            load(model)


def test_group_normalization_of_18_has_a_scale_for_each_group() -> None:
    one = node("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=2)
    constants = {"s": randn(2), "b": randn(2)}
    model = model_of([one], {"x": (1, 4, 3, 3)}, ["y"], opset=18, constants=constants)
    graph, found = check(model, randn(1, 4, 3, 3))
    assert [n.op for n in graph.nodes] == ["GroupNormalization"]
    changed = with_parameters(graph, {"s": 2 * randn(2), "b": 2 * randn(2)})
    doubled = values(changed, as_arrays(randn(1, 4, 3, 3), changed))
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
    graph, _ = check(model, np.float32([-1, 0, 2]))
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
    with pytest.raises(UnsupportedModel, match="nodes once functions are expanded"):
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
    _, found = check(model, randn(1, 5, 3))
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
    graph, _ = check(model, randn(2, 3))
    assert [graph.values[v].dtype for v in graph.outputs] == [np.int64, np.bool_, np.float32]
    assert graph.shape("s") == ()
    empty = model_of([node("Concat", ["x", "x"], ["y"], axis=0)], {"x": (0, 3)}, ["y"])
    assert check(empty, np.zeros((0, 3), np.float32))[1]["y"].shape == (0, 3)


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


# Attacks: A1 to A9 of the threat model

SECRET = b"the secret's bytes!!"


def external(location: str, **keys: str) -> onnx.ModelProto:
    """A model whose only weight, five float32, lies in another file."""
    tensor = TensorProto(name="w", data_type=FLOAT, dims=[5], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **keys}.items():
        tensor.external_data.add(key=key, value=value)
    model = model_of([node("Add", ["x", "w"], ["y"])], {"x": (5,)}, ["y"])
    model.graph.initializer.append(tensor)
    return model


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model's folder with data inside, a secret outside and every kind of link to it."""
    inside = tmp_path / "models"
    (inside / "sub").mkdir(parents=True)
    (tmp_path / "secret").write_bytes(SECRET)
    (inside / "data").write_bytes(b"\0\0\0\0" + np.arange(5, dtype=np.float32).tobytes() + b"tail")
    (inside / "sub" / "exact").write_bytes(np.arange(5, dtype=np.float32).tobytes())
    (inside / "symlink").symlink_to(tmp_path / "secret")
    (inside / "linked").symlink_to(tmp_path, target_is_directory=True)
    os.link(tmp_path / "secret", inside / "hardlink")
    os.mkfifo(inside / "fifo")
    monkeypatch.chdir(inside)
    return inside


BAD_PLACES = [
    *("../secret", "sub/../../secret", "sub/../data", "./data", "{tmp}/secret", "/dev/zero"),
    *("symlink", "linked/secret", "hardlink", "fifo", "sub", "", ".", "..", "missing"),
    *(
        "C:\\secret",
        "C:secret",
        "..\\secret",
        "\\\\host\\share",
        "data\0.txt",
        "file:///etc/passwd",
    ),
]


@pytest.mark.parametrize("place", BAD_PLACES)
@pytest.mark.parametrize("how", ["bare", "absolute", "relative"])
def test_external_data_outside_the_folder_is_refused(folder: Path, place: str, how: str) -> None:
    model = external(place.format(tmp=folder.parent), offset="0", length="20")
    onnx.save(model, folder / "m.onnx")
    path = {"bare": "m.onnx", "absolute": str(folder / "m.onnx"), "relative": "./m.onnx"}[how]
    with pytest.raises(ModelError, match="tensor 'w'"):
        load(path)


@pytest.mark.parametrize("place", [*BAD_PLACES, "data", "sub/exact"])
def test_external_data_without_a_folder_is_refused(folder: Path, place: str) -> None:
    model = external(place.format(tmp=folder.parent), offset="0", length="20")
    for given in (model, model.SerializeToString()):
        with pytest.raises(ModelError, match=r"tensor 'w'.*another file"):
            load(given)


def test_external_data_inside_constants_is_refused_too(folder: Path) -> None:
    tensor = external("../secret").graph.initializer[0]
    model = model_of(
        [node("Constant", [], ["w"]), node("Add", ["x", "w"], ["y"])], {"x": (5,)}, ["y"]
    )
    attribute = model.graph.node[0].attribute.add(name="value", type=onnx.AttributeProto.TENSOR)
    attribute.t.CopyFrom(tensor)
    onnx.save(model, folder / "m.onnx")
    for given in (model, "m.onnx"):
        with pytest.raises(ModelError, match="tensor 'w'"):
            load(given)


@pytest.mark.parametrize(
    "keys",
    [
        *({"offset": "-1"}, {"offset": "5"}, {"offset": "9" * 18}, {"offset": "1e3"}),
        *({"length": "10" * 6}, {"length": "19"}, {"length": "-20"}, {"length": "٣"}),
        *({"basepath": "/"}, {"__class__": "x"}, {"unknown": ""}, {"offset": "9" * 5000}),
    ],
)
def test_external_data_with_wrong_bounds_or_keys_is_refused(
    folder: Path, keys: dict[str, str]
) -> None:
    onnx.save(external("sub/exact", **keys), folder / "m.onnx")
    with pytest.raises(ModelError, match="tensor 'w'"):
        load("m.onnx")


def test_external_data_inside_the_folder_is_read(folder: Path) -> None:
    for keys in ({"offset": "4", "length": "20"}, {"offset": "4"}):
        onnx.save(external("data", **keys), folder / "m.onnx")
        graph, arrays = load("m.onnx")
        assert_array_equal(graph.constant("w"), np.arange(5))
        truth = reference("m.onnx", graph, arrays)
        assert_allclose(truth["y"], arrays[0] + np.arange(5), rtol=1e-6)
    onnx.save(external("sub/exact"), folder / "m.onnx")
    assert_array_equal(load(folder / "m.onnx")[0].constant("w"), np.arange(5))


def with_tensor(**fields: Any) -> onnx.ModelProto:
    model = model_of([node("Add", ["x", "w"], ["y"])], {"x": (1,)}, ["y"])
    model.graph.initializer.append(TensorProto(**{"name": "w", "data_type": FLOAT, **fields}))
    return model


@pytest.mark.parametrize(
    "fields",
    [
        {"dims": [-1], "raw_data": b"\0" * 16},
        {"dims": [4], "raw_data": b"\0" * 15},
        {"dims": [4], "raw_data": b"\0" * 20},
        {"dims": [4], "raw_data": b"\0" * 16, "float_data": [0.0] * 4},
        {"dims": [4], "float_data": [0.0] * 3},
        {"dims": [4], "int64_data": [0] * 4},
        {"dims": [4]},
        {"dims": [2**31, 2**31, 4], "raw_data": b""},
        {"dims": [4194305, 4194305, 211106198978564], "raw_data": b"\0" * 16},
        {"dims": [2**40], "raw_data": b"\0" * 4},
        {"dims": [0, 2**40], "raw_data": b""},
        {"dims": [1] * 9, "raw_data": b"\0" * 4},
        {"dims": [1], "data_type": 0, "raw_data": b"\0" * 4},
        {"dims": [1], "data_type": 77, "raw_data": b"\0" * 4},
        {"dims": [1], "data_type": TensorProto.STRING, "string_data": [b"x"]},
        {"dims": [1], "data_type": TensorProto.COMPLEX64, "raw_data": b"\0" * 8},
        {"dims": [1], "raw_data": b"\0" * 4, "segment": TensorProto.Segment(begin=0, end=1)},
    ],
)
def test_tensors_whose_bytes_do_not_fit_their_shape_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ModelError, match="tensor 'w'"):
        load(with_tensor(**fields))


@pytest.mark.parametrize("size", [0, 1, 3, 4, 5, 8])
@pytest.mark.parametrize("dims", [(), (1,), (2,), (0,), (1, 1), (2, 0)])
def test_a_tensor_is_accepted_exactly_if_its_bytes_fit(dims: tuple[int, ...], size: int) -> None:
    model = with_tensor(dims=dims, raw_data=b"\0" * size)
    if size == 4 * int(np.prod(dims)):
        load(model)
    else:
        with pytest.raises(ModelError, match="bytes"):
            load(model)


@pytest.mark.parametrize("kind", [k for k in range(1, 17) if k not in (8, 14, 15)])
def test_tensors_of_every_supported_type_in_both_fields(kind: int) -> None:
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    array = np.array([0, 1, 1]).astype(dtype)
    typed = helper.make_tensor("w", kind, [3], array.tolist())
    raw = helper.make_tensor("w", kind, [3], array.tobytes(), raw=True)
    for tensor in (typed, raw):
        model = model_of(
            [node("Cast", ["w"], ["c"], to=FLOAT), node("Add", ["x", "c"], ["y"])],
            {"x": (3,)},
            ["y"],
        )
        model.graph.initializer.append(tensor)
        graph, arrays = load(model)
        assert_array_equal(values(graph, arrays)["y"], arrays[0] + np.float32([0, 1, 1]))


BOMBS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "resize": ("Resize", {}, {"r": None, "s": np.float32([1, 1, 1e6, 1e6])}),
    "pad": ("Pad", {}, {"p": np.int64([0, 0, 0, 0, 0, 0, 2**31, 2**31])}),
    "negative pad": ("Pad", {}, {"p": np.int64([0, 0, 0, 0, 0, 0, -99, 0])}),
    "tile": ("Tile", {}, {"t": np.int64([1, 1, 2**20, 2**20])}),
    "expand": ("Expand", {}, {"e": np.int64([2**40, 2, 4, 4])}),
    "reshape": ("Reshape", {}, {"e": np.int64([2**40, 2, 4, 4])}),
    "dilation": ("Conv", {"dilations": [2**40, 2**40]}, {"w": randn(2, 2, 3, 3)}),
    "group": ("Conv", {"group": -1}, {"w": randn(2, 2, 3, 3)}),
    "no group": ("Conv", {"group": 0}, {"w": randn(2, 2, 3, 3)}),
    "stride": ("Conv", {"strides": [0, 0]}, {"w": randn(2, 2, 3, 3)}),
    "big kernel": ("Conv", {}, {"w": randn(2, 2, 5, 5)}),
    "kernel": ("MaxPool", {"kernel_shape": [0, 0]}, {}),
    "pool stride": ("MaxPool", {"kernel_shape": [1, 1], "strides": [0, 1]}, {}),
    "pool pads": ("AveragePool", {"kernel_shape": [1, 1], "pads": [0, 0, 2**40, 0]}, {}),
    "transposed": ("ConvTranspose", {"strides": [2**40, 1]}, {"w": randn(2, 2, 3, 3)}),
    "depth": ("DepthToSpace", {"blocksize": 0}, {}),
}


@pytest.mark.parametrize("name", BOMBS)
def test_shapes_that_are_too_big_or_impossible_are_refused_at_once(name: str) -> None:
    op, attributes, more = BOMBS[name]
    inputs = ["x", *(n if a is not None else "" for n, a in more.items())]
    constants = {n: a for n, a in more.items() if a is not None}
    model = model_of(
        [node(op, inputs, ["y"], **attributes)], {"x": (1, 2, 4, 4)}, ["y"], constants=constants
    )
    start = time.perf_counter()
    with pytest.raises(ModelError, match=op):
        load(model)
    assert time.perf_counter() - start < 1


def test_constants_too_big_to_compute_are_refused() -> None:
    for op, shape in (("Tile", [2**14, 2**14]), ("ConstantOfShape", [2**40])):
        nodes = [
            node("ConstantOfShape", ["one"], ["c"])
            if op == "Tile"
            else node("Identity", ["s"], ["c"]),
            node(op, ["c", "s"] if op == "Tile" else ["c"], ["t"]),
            node("Add", ["x", "t"], ["y"]),
        ]
        constants = {"one": np.int64([2, 2]), "s": np.int64(shape)}
        with pytest.raises(UnsupportedModel, match=rf"{op}.*bytes"):
            load(model_of(nodes, {"x": (1,)}, ["y"], constants=constants))


def test_a_batch_of_a_thousand_million_is_refused() -> None:
    for shape in ((10**9, 3), (2**62, 2**62)):
        with pytest.raises(UnsupportedModel, match=r"'x'.*bytes"):
            load(model_of([node("Relu", ["x"], ["y"])], {"x": shape}, ["y"]))


BROKEN: dict[str, Callable[[], onnx.ModelProto]] = {
    "cycle": lambda: model_of(
        [node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"])], {"x": (1,)}, ["b"]
    ),
    "output twice": lambda: model_of(
        [node("Relu", ["x"], ["y"]), node("Neg", ["x"], ["y"])], {"x": (1,)}, ["y"]
    ),
    "output is an input": lambda: model_of([node("Relu", ["x"], ["x"])], {"x": (1,)}, ["x"]),
    "missing input": lambda: model_of([node("Relu", ["z"], ["y"])], {"x": (1,)}, ["y"]),
    "no such output": lambda: model_of([node("Relu", ["x"], ["y"])], {"x": (1,)}, ["z"]),
    "no input": lambda: model_of([node("Upsample", [], ["y"])], {"x": (1,)}, ["y"], opset=9),
    "empty input": lambda: model_of([node("Relu", [""], ["y"])], {"x": (1,)}, ["y"]),
    "too many inputs": lambda: model_of([node("Relu", ["x", "x"], ["y"])], {"x": (1,)}, ["y"]),
    "no output": lambda: model_of([node("Relu", ["x"], [])], {"x": (1,)}, ["x"]),
    "no operator": lambda: model_of([node("", ["x"], ["y"])], {"x": (1,)}, ["y"]),
    "unknown attribute": lambda: model_of(
        [node("Relu", ["x"], ["y"], alpha=1)], {"x": (1,)}, ["y"]
    ),
    "wrong attribute": lambda: model_of(
        [node("LeakyRelu", ["x"], ["y"], alpha="<b>")], {"x": (1,)}, ["y"]
    ),
    "missing attribute": lambda: model_of([node("Concat", ["x"], ["y"])], {"x": (1,)}, ["y"]),
    "shapes differ": lambda: model_of(
        [node("Add", ["x", "w"], ["y"])], {"x": (2,)}, ["y"], constants={"w": randn(3)}
    ),
    "two initializers": lambda: _doubled(small()),
}


def _doubled(model: onnx.ModelProto) -> onnx.ModelProto:
    model.graph.initializer.append(model.graph.initializer[0])
    return model


@pytest.mark.parametrize("name", BROKEN)
def test_broken_graphs_are_refused(name: str) -> None:
    with pytest.raises(ModelError) as error:
        load(BROKEN[name]())
    assert len(str(error.value)) < 500


def test_operators_that_are_not_onnx_are_named() -> None:
    for one in (node("Magic", ["x"], ["y"]), node("Relu", ["x"], ["y"], domain="com.example")):
        with pytest.raises(UnsupportedOperator, match=r"Magic|com\.example"):
            load(model_of([one], {"x": (1,)}, ["y"]))


def test_control_flow_is_refused_by_name() -> None:
    body = helper.make_graph(
        [node("Relu", ["x"], ["r"])], "b", [], [helper.make_empty_tensor_value_info("r")]
    )
    one = node("If", ["c"], ["y"], then_branch=body, else_branch=body)
    model = model_of([one], {"x": (1,)}, ["y"], constants={"c": np.bool_(True)})
    with pytest.raises(UnsupportedOperator, match="control flow"):
        load(model)


def test_long_chains_take_linear_time() -> None:
    def seconds(count: int) -> float:
        nodes = [node("Relu", [f"v{i}"], [f"v{i + 1}"]) for i in range(count)]
        model = model_of(nodes, {"v0": (1,)}, [f"v{count}"])
        start = time.perf_counter()
        load(model)
        return time.perf_counter() - start

    assert min(seconds(4000), seconds(4000)) < 3 * min(seconds(2000), seconds(2000)) + 0.1
    nodes = [node("Relu", [f"v{i}"], [f"v{i + 1}"]) for i in range(20_001)]
    with pytest.raises(UnsupportedModel, match="20,001 nodes"):
        load(model_of(nodes, {"v0": (1,)}, ["v20001"]))


def _zip(path: Path) -> bytes:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", b"x")
    return path.read_bytes()


FILES: dict[str, Callable[[Path], bytes]] = {
    "empty": lambda _: b"",
    "html": lambda _: b"<!doctype html><html>Not Found</html>",
    "json": lambda _: b'{"error": "not found"}',
    "lfs": lambda _: b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
    "zip": _zip,
    "pickle": lambda _: pickle.dumps({"a": 1}),
    "zeros": lambda _: b"\0" * 1000,
    "text": lambda _: b"hello world, I am not a model",
    "random": lambda _: np.random.default_rng(1).bytes(5000),
    "cut": lambda _: small().SerializeToString()[:-40],
    "no graph": lambda _: onnx.ModelProto(ir_version=8).SerializeToString(),
    "giant length": lambda _: b"\x3a\xff\xff\xff\xff\x07" + b"\0" * 20,
    "deep": lambda _: b"\x3a\x80\x02" * 100,
}


@pytest.mark.parametrize("name", FILES)
def test_files_that_are_no_model_are_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(FILES[name](tmp_path / "z"))
    with pytest.raises(ModelError, match=r"net\.onnx"):
        load(path)
    with pytest.raises(ModelError, match="these bytes"):
        load(path.read_bytes())


def test_paths_that_are_no_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"gone\.onnx cannot be read: No such file"):
        load(tmp_path / "gone.onnx")
    with pytest.raises(ModelError, match="not a file"):
        load(tmp_path)
    with pytest.raises(ModelError, match="null byte"):
        load("a\0b.onnx")
    os.mkfifo(tmp_path / "fifo.onnx")
    with pytest.raises(ModelError, match="not a file"):
        load(tmp_path / "fifo.onnx")
    with pytest.raises(ModelError, match="int is not a model"):
        load(3)


class Canary:
    """Unpickling it would make a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("suffix", [".pt", ".pth", ".ckpt", ".pkl", ".onnx"])
def test_pickles_are_refused_with_advice_and_never_opened(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"weights{suffix}"
    for protocol in (2, 4, 5):
        path.write_bytes(pickle.dumps(Canary(tmp_path / "ran"), protocol))
        with pytest.raises(ModelError, match=r"weights.*pickle|load_state_dict"):
            load(path)
    assert not (tmp_path / "ran").exists()


def test_the_package_never_reads_pickles_or_runs_text() -> None:
    forbidden = {
        "eval",
        "exec",
        "pickle",
        "marshal",
        "shelve",
        "unsafe_load",
        "allow_pickle",
        "hub",
    }
    package = Path(nbglcnn.load.__file__).parents[1]
    for file in package.rglob("*.py"):
        for part in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            used = (
                getattr(part, "id", None)
                or getattr(part, "attr", None)
                or getattr(part, "arg", None)
            )
            names = [a.name for a in part.names] if isinstance(part, ast.Import) else [used]
            if isinstance(part, ast.Attribute) and part.attr == "eval":
                continue  # module.eval()
            assert not forbidden & set(names), f"{file}: {ast.unparse(part)}"
            if isinstance(part, ast.Attribute) and part.attr == "load":
                assert ast.unparse(part) != "torch.load", file


ODD_NAMES = [
    *(
        "<img src=x onerror=alert(1)>",
        "</script><script>",
        "__proto__",
        "constructor",
        "\u202eevil",
    ),
    *("new\nline */ #define x", "gl_Position", "é☃😀", "null\0byte", "n" * 10**6, "x", " "),
]


def test_odd_names_stay_text_and_are_cut() -> None:
    nodes = []
    last = "in"
    for name in ODD_NAMES:
        nodes.append(node("Relu", [last], [name], name=name))
        last = name
    model = model_of(nodes, {"in": (2,)}, [last])
    model.graph.name = ODD_NAMES[0]
    graph, arrays = load(model)
    names = [k.name for k in graph.keys]
    assert len(names) == len(set(names)) == len(ODD_NAMES) + 1
    assert names[1:4] == ODD_NAMES[:3]
    assert max(map(len, names)) < 400
    assert len(reference(model, graph, arrays)) == len(names)
    nodes.append(node("Magic", [last], ["m" * 10**6], name="n" * 10**6))
    with pytest.raises(UnsupportedOperator) as error:
        load(model_of(nodes, {"in": (2,)}, [last]))
    assert len(str(error.value)) < 600


def test_special_numbers_survive(tmp_path: Path) -> None:
    special = np.float32([np.nan, np.inf, -np.inf, -0.0, 1e-45, 3.4e38])
    model = model_of([node("Add", ["x", "w"], ["y"])], {"x": (6,)}, ["y"], constants={"w": special})
    onnx.save(model, tmp_path / "m.onnx")
    assert load(tmp_path / "m.onnx")[0].constant("w").tobytes() == special.tobytes()


def mutated(data: bytes, generator: np.random.Generator) -> bytes:
    """The bytes with a few flipped, cut out or put in."""
    changed = bytearray(data)
    for _ in range(generator.integers(1, 4)):
        at = int(generator.integers(len(changed)))
        kind = generator.integers(4)
        if kind == 0:
            changed[at] ^= 1 << int(generator.integers(8))
        elif kind == 1:
            changed[at] = int(generator.integers(256))
        elif kind == 2:
            del changed[at : at + int(generator.integers(1, 9))]
        else:
            changed[at:at] = struct.pack("<q", int(generator.integers(-(2**40), 2**40)))
        if not changed:
            break
    return bytes(changed)


def test_mutated_models_give_a_graph_or_a_model_error() -> None:
    model = small()
    model.graph.node.append(node("Shape", ["c"], ["s"]))
    model.graph.node.append(node("Reshape", ["y", "s"], ["z"]))
    model.graph.node.append(node("MaxPool", ["z"], ["p"], kernel_shape=[2, 2], strides=[2, 2]))
    model.graph.output.append(helper.make_empty_tensor_value_info("p"))
    data = model.SerializeToString()
    generator = np.random.default_rng(7)
    accepted = 0
    for _ in range(1500):
        attempt = mutated(data, generator)
        start = time.perf_counter()
        try:
            load(attempt)
            accepted += 1
        except NbglcnnError as error:
            assert len(str(error)) < 2000
        assert time.perf_counter() - start < 1
    assert 50 < accepted < 1450
