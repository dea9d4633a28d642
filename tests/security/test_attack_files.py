"""Attacks by model files, A1 to A9 of the threat model in SECURITY.md, on the whole compiler."""

import ast
import gc
import gzip
import os
import pickle
import re
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from onnx import TensorProto, helper, numpy_helper

import nbglcnn
from cpu_time import cpu_time_factor
from hostile_models import SIZE_BOMBS, constant_bombs, make_size_bomb
from nbglcnn.errors import ModelError, NbglcnnError, UnsupportedModel, UnsupportedOperator
from nbglcnn.load import load
from nbglcnn.reference import compute_reference
from onnx_models import FLOAT, INT64, compute_values, model_of, node, randn, small_model

MAX_CPU_SECONDS = 1.0  # of CPU time, for compile and check together


def assert_within(seconds: float, start: float) -> None:
    """Check the CPU time since `start` against a limit in seconds of the reference machine."""
    used = time.process_time() - start
    assert used < seconds or used < seconds * cpu_time_factor()


def assert_refused(model: Any, match: str = ".", kind: type[NbglcnnError] = ModelError) -> None:
    """Check that compile and check refuse a model at once, with a message of readable length."""
    start = time.process_time()
    with pytest.raises(kind, match=match) as error:
        nbglcnn.compile(model)
    assert len(str(error.value)) < 700
    try:
        report = nbglcnn.check(model)
    except kind as again:
        assert str(again) == str(error.value)
    else:
        # check doesn't test whether the model fits a device.
        assert not report.ok or "of textures" in str(error.value) or "texels" in str(error.value)
    assert_within(MAX_CPU_SECONDS, start)


# A1 to A3: files that a model refers to

SECRET_BYTES = b"the secret's bytes!!"


def external_data_model(location: str, **keys: str) -> onnx.ModelProto:
    """A model whose only weight, five float32, is in another file."""
    tensor = TensorProto(name="w", data_type=FLOAT, dims=[5], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **keys}.items():
        tensor.external_data.add(key=key, value=value)
    model = model_of([node("Add", ["x", "w"], ["y"])], {"x": (5,)}, ["y"])
    model.graph.initializer.append(tensor)
    return model


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model's folder with data inside, a secret outside and every kind of link to it."""
    model_folder = tmp_path / "models"
    (model_folder / "sub").mkdir(parents=True)
    (tmp_path / "secret").write_bytes(SECRET_BYTES)
    (model_folder / "data").write_bytes(
        b"\0\0\0\0" + np.arange(5, dtype=np.float32).tobytes() + b"tail"
    )
    (model_folder / "sub" / "exact").write_bytes(np.arange(5, dtype=np.float32).tobytes())
    (model_folder / "symlink").symlink_to(tmp_path / "secret")
    (model_folder / "linked").symlink_to(tmp_path, target_is_directory=True)
    os.link(tmp_path / "secret", model_folder / "hardlink")
    os.mkfifo(model_folder / "fifo")
    monkeypatch.chdir(model_folder)
    return model_folder


BAD_LOCATIONS = [
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


@pytest.mark.parametrize("place", BAD_LOCATIONS)
@pytest.mark.parametrize("how", ["bare", "absolute", "relative"])
def test_external_data_outside_the_folder_is_refused(folder: Path, place: str, how: str) -> None:
    model = external_data_model(place.format(tmp=folder.parent), offset="0", length="20")
    onnx.save(model, folder / "m.onnx")
    path = {"bare": "m.onnx", "absolute": str(folder / "m.onnx"), "relative": "./m.onnx"}[how]
    assert_refused(path, "tensor 'w'")


@pytest.mark.parametrize("place", [*BAD_LOCATIONS, "data", "sub/exact"])
def test_external_data_without_a_folder_is_refused(folder: Path, place: str) -> None:
    model = external_data_model(place.format(tmp=folder.parent), offset="0", length="20")
    for given in (model, model.SerializeToString()):
        assert_refused(given, r"tensor 'w'.*another file")


def test_external_data_inside_constants_is_refused_too(folder: Path) -> None:
    tensor = external_data_model("../secret").graph.initializer[0]
    model = model_of(
        [node("Constant", [], ["w"]), node("Add", ["x", "w"], ["y"])], {"x": (5,)}, ["y"]
    )
    attribute = model.graph.node[0].attribute.add(name="value", type=onnx.AttributeProto.TENSOR)
    attribute.t.CopyFrom(tensor)
    onnx.save(model, folder / "m.onnx")
    for given in (model, "m.onnx"):
        assert_refused(given, "tensor 'w'")


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
    onnx.save(external_data_model("sub/exact", **keys), folder / "m.onnx")
    assert_refused("m.onnx", "tensor 'w'")


def test_external_data_inside_the_folder_is_read(folder: Path) -> None:
    for keys in ({"offset": "4", "length": "20"}, {"offset": "4"}):
        onnx.save(external_data_model("data", **keys), folder / "m.onnx")
        graph, arrays = load("m.onnx")
        assert_array_equal(graph.constant_data("w"), np.arange(5))
        truth = compute_reference("m.onnx", graph, arrays)
        assert_allclose(truth["y"], arrays[0] + np.arange(5), rtol=1e-6)
    onnx.save(external_data_model("sub/exact"), folder / "m.onnx")
    assert_array_equal(load(folder / "m.onnx")[0].constant_data("w"), np.arange(5))


# A4: tensors


def model_with_tensor(**fields: Any) -> onnx.ModelProto:
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
    assert_refused(model_with_tensor(**fields), "tensor 'w'")


@pytest.mark.parametrize("size", [0, 1, 3, 4, 5, 8])
@pytest.mark.parametrize("dims", [(), (1,), (2,), (0,), (1, 1), (2, 0)])
def test_a_tensor_is_accepted_exactly_if_its_bytes_fit(dims: tuple[int, ...], size: int) -> None:
    model = model_with_tensor(dims=dims, raw_data=b"\0" * size)
    if size == 4 * int(np.prod(dims)):
        nbglcnn.compile(model)
    else:
        assert_refused(model, "bytes")


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
        assert_array_equal(compute_values(graph, arrays)["y"], arrays[0] + np.float32([0, 1, 1]))


# A5: sizes


@pytest.mark.parametrize("name", SIZE_BOMBS)
def test_shapes_that_are_too_big_or_impossible_are_refused_at_once(name: str) -> None:
    assert_refused(make_size_bomb(name), SIZE_BOMBS[name][0])


def test_constants_too_big_to_compute_are_refused() -> None:
    for model in constant_bombs():
        assert_refused(model, "bytes|texels", UnsupportedModel)


def test_a_resize_to_millions_of_places_is_refused_at_once() -> None:
    sizes = {"sizes": np.int64([1, 1, 1, 4_000_000])}
    nodes = [node("Resize", ["x", "", "", "sizes"], ["y"], mode="linear")]
    assert_refused(model_of(nodes, {"x": (1, 1, 1, 8)}, ["y"], constants=sizes), "length 4,000,000")


def test_a_long_range_is_refused() -> None:
    nodes = [node("Range", ["a", "b", "d"], ["r"]), node("Add", ["x", "r"], ["y"])]
    for step in (1.0, 1e-30, 0.0, np.nan):
        numbers = {"a": np.float32(0), "b": np.float32(2**30), "d": np.float32(step)}
        assert_refused(model_of(nodes, {"x": (1,)}, ["y"], constants=numbers), "Range")


def test_a_sequence_of_millions_of_pieces_is_refused() -> None:
    nodes = [node("SplitToSequence", ["x"], ["s"]), node("SequenceAt", ["s", "first"], ["y"])]
    model = model_of(nodes, {"x": (2**26,)}, ["y"], constants={"first": np.int64(0)})
    assert_refused(model, "67,108,864 parts", UnsupportedModel)


def test_many_classes_from_one_number_are_refused() -> None:
    nodes = [
        node("Cast", ["x"], ["i"], to=INT64),
        node("OneHot", ["i", "depth", "v"], ["y"]),
    ]
    numbers = {"depth": np.int64(2**26), "v": np.float32([0, 1])}
    assert_refused(model_of(nodes, {"x": (1,)}, ["y"], constants=numbers), "OneHot")


def test_a_batch_of_a_thousand_million_is_refused() -> None:
    for shape in ((10**9, 3), (2**62, 2**62)):
        assert_refused(
            model_of([node("Relu", ["x"], ["y"])], {"x": shape}, ["y"]),
            r"'x'.*bytes",
            UnsupportedModel,
        )


def test_all_of_these_together_take_little_memory() -> None:
    # In a separate process with a memory limit; memory used by imports does not count.
    program = """
import resource, sys
import nbglcnn
from hostile_models import SIZE_BOMBS, constant_bombs, make_size_bomb
from onnx_models import small_model
models = [make_size_bomb(name) for name in SIZE_BOMBS] + constant_bombs()
nbglcnn.compile(small_model())
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
taken = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (taken + 2**28, taken + 2**28))
refusals = 0
for model in models:
    try:
        nbglcnn.compile(model)
    except nbglcnn.ModelError:
        refusals += 1
print(refusals, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""
    here = os.pathsep.join(filter(None, sys.path))
    run = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": here, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    refusals, mebibytes = map(int, run.stdout.split())
    assert refusals == len(SIZE_BOMBS) + len(constant_bombs())
    assert mebibytes < 200


# A6 and A7: graphs


BROKEN_MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
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
    "two initializers": lambda: _duplicate_initializer(small_model()),
}


def _duplicate_initializer(model: onnx.ModelProto) -> onnx.ModelProto:
    model.graph.initializer.append(model.graph.initializer[0])
    return model


@pytest.mark.parametrize("name", BROKEN_MODELS)
def test_broken_graphs_are_refused(name: str) -> None:
    assert_refused(BROKEN_MODELS[name]())


def test_operators_that_are_not_onnx_are_named() -> None:
    for one in (node("Magic", ["x"], ["y"]), node("Relu", ["x"], ["y"], domain="com.example")):
        assert_refused(
            model_of([one], {"x": (1,)}, ["y"]), r"Magic|com\.example", UnsupportedOperator
        )


def test_control_flow_is_refused_by_name() -> None:
    body = helper.make_graph(
        [node("Relu", ["x"], ["r"])], "b", [], [helper.make_empty_tensor_value_info("r")]
    )
    one = node("If", ["c"], ["y"], then_branch=body, else_branch=body)
    condition = node("IsNaN", ["x"], ["c"])
    assert_refused(
        model_of([condition, one], {"x": (1,)}, ["y"]), "control flow", UnsupportedOperator
    )
    loop = node("Loop", ["n", "c"], ["y"], body=body)
    constants = {"c": np.bool_(True), "n": np.int64(3)}
    model = model_of([loop], {"x": (1,)}, ["y"], constants=constants)
    assert_refused(model, "control flow", UnsupportedOperator)


@pytest.mark.parametrize("op", ["If", "Loop", "Scan"])
def test_control_flow_nested_30_deep_is_refused(op: str) -> None:
    def graph(one: Any) -> Any:
        return helper.make_graph([one], "b", [], [helper.make_empty_tensor_value_info("r")])

    leaf = graph(node("Relu", ["x"], ["r"]))
    body = leaf
    inputs = {"If": ["c"], "Loop": ["n", "c", "x"], "Scan": ["x"]}[op]
    for _ in range(30):
        attributes: dict[str, Any] = {"body": body}
        if op == "If":
            attributes = {"then_branch": body, "else_branch": leaf}
        if op == "Scan":
            attributes["num_scan_inputs"] = 1
        body = graph(node(op, inputs, ["r"], **attributes))
    constants = {"c": np.bool_(True), "n": np.int64(3)}
    model = model_of(body.node, {"x": (1,)}, ["r"], constants=constants)
    assert_refused(model, "control flow", UnsupportedOperator)
    data = model.SerializeToString()
    assert_refused(data, "control flow|damaged")  # protobuf itself reads 100 levels


def test_inputs_that_are_no_tensors_are_refused() -> None:
    tensor = helper.make_tensor_type_proto(FLOAT, (1,))
    for kind in (
        helper.make_sequence_type_proto(tensor),
        helper.make_optional_type_proto(tensor),
        helper.make_map_type_proto(INT64, tensor),
        helper.make_sparse_tensor_type_proto(FLOAT, (1,)),
        helper.make_tensor_type_proto(TensorProto.STRING, (1,)),
        helper.make_tensor_type_proto(TensorProto.COMPLEX64, (1,)),
        helper.make_tensor_type_proto(0, (1,)),
        helper.make_tensor_type_proto(99, (1,)),
    ):
        model = model_of([node("Identity", ["x"], ["y"])], {}, ["y"])
        model.graph.input.append(helper.make_value_info("x", kind))
        assert_refused(model)


def test_sparse_tensors_and_sequences_are_refused() -> None:
    sparse = helper.make_sparse_tensor(
        numpy_helper.from_array(np.float32([1]), "w"), numpy_helper.from_array(np.int64([0])), [9]
    )
    model = model_of([node("Add", ["x", "w"], ["y"])], {"x": (1,)}, ["y"])
    model.graph.sparse_initializer.append(sparse)
    assert_refused(model, "sparse", UnsupportedModel)
    nodes = [
        node("Constant", [], ["w"], sparse_value=sparse),
        node("Add", ["x", "w"], ["y"]),
    ]
    assert_refused(model_of(nodes, {"x": (1,)}, ["y"]), "Constant", UnsupportedOperator)
    nodes = [node("SplitToSequence", ["x"], ["s"]), node("Identity", ["s"], ["y"])]
    assert_refused(model_of(nodes, {"x": (2, 2)}, ["y"]), "sequence", UnsupportedModel)
    nodes = [node("SequenceConstruct", ["x", "x"], ["s"]), node("SequenceLength", ["s"], ["y"])]
    assert_refused(model_of(nodes, {"x": (2, 2)}, ["y"]), "Sequence", UnsupportedModel)
    words = helper.make_tensor("w", TensorProto.STRING, [1], [b"text"])
    nodes = [node("Constant", [], ["w"], value=words), node("Add", ["x", "w"], ["y"])]
    assert_refused(model_of(nodes, {"x": (1,)}, ["y"]), "STRING", UnsupportedModel)


def test_functions_that_call_themselves_are_refused() -> None:
    call = node("f", ["x"], ["y"], domain="own")
    imports = [helper.make_opsetid("own", 1)]
    own = helper.make_function(
        "own", "f", ["a"], ["b"], [node("f", ["a"], ["b"], domain="own")], imports
    )
    assert_refused(model_of([call], {"x": (1,)}, ["y"], functions=[own]), "itself")
    assert_refused(model_of([call], {"x": (1,)}, ["y"], functions=[own, own]), "two functions")


def chain_model(count: int) -> onnx.ModelProto:
    nodes = [node("Relu", [f"v{i}"], [f"v{i + 1}"]) for i in range(count)]
    return model_of(nodes, {"v0": (1,)}, [f"v{count}"])


def fan_out_model(count: int) -> onnx.ModelProto:
    nodes = [node("Relu", ["x"], ["a"]), *(node("Neg", ["a"], [f"b{i}"]) for i in range(count))]
    return model_of(nodes, {"x": (1,)}, [f"b{i}" for i in range(count)])


def joined_branches(op: str) -> Callable[[int], onnx.ModelProto]:
    def make(count: int) -> onnx.ModelProto:
        axis = {"axis": 0} if op == "Concat" else {}
        return model_of([node(op, ["x"] * count, ["y"], **axis)], {"x": (1,)}, ["y"])

    return make


def unused_constants(count: int) -> onnx.ModelProto:
    constants = {f"w{i}": np.zeros(1, np.float32) for i in range(count)}
    return model_of([node("Relu", ["x"], ["y"])], {"x": (1,)}, ["y"], constants=constants)


def compile_seconds(model: onnx.ModelProto) -> float:
    """The CPU time of the fastest of three compilations, with garbage collection off."""
    times = []
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            start = time.process_time()
            nbglcnn.compile(model)
            times.append(time.process_time() - start)
    finally:
        gc.enable()
    return min(times)


LARGE_MODELS: dict[str, tuple[Callable[[int], onnx.ModelProto], int]] = {
    "chain": (chain_model, 2000),
    "fan": (fan_out_model, 2000),
    "sum": (joined_branches("Sum"), 2000),
    "concat": (joined_branches("Concat"), 6000),
    "unused": (unused_constants, 20_000),
}


@pytest.mark.parametrize("name", LARGE_MODELS)
def test_time_is_linear_in_nodes_and_edges(name: str) -> None:
    make, count = LARGE_MODELS[name]
    # A quadratic algorithm would take four times as long.
    assert compile_seconds(make(2 * count)) < 3 * compile_seconds(make(count)) + 0.1


def test_graphs_of_too_many_nodes_or_edges_are_refused() -> None:
    assert_refused(chain_model(20_001), "20,001 nodes", UnsupportedModel)
    assert_refused(joined_branches("Sum")(100_000), "100,001 inputs and outputs", UnsupportedModel)


def test_boxes_of_any_size_are_sampled_in_no_time() -> None:
    """A loop over all of a box's pixels would not end; on a graphics card it hangs the machine."""
    sizes = (1e6, 3e38, np.inf, np.nan)
    boxes = np.float32([[0, 0, s, s] for s in sizes] + [[-s, -s, s, s] for s in sizes])
    nodes = [node("RoiAlign", ["x", "boxes", "images"], ["y"], output_width=2)]
    known = {"boxes": boxes, "images": np.zeros(8, np.int64)}
    model = model_of(nodes, {"x": (1, 1, 9, 7)}, ["y"], constants=known)
    x = np.ones((1, 1, 9, 7), np.float32)
    with nbglcnn.Session(nbglcnn.compile(model, x)) as session:
        begun = time.process_time()
        means = session.run(x)["y"]
        assert_within(5, begun)
    assert abs(means[[0, 4]]).max() < 1e-6, "of a million pixels 63 are not 0"


def test_the_longest_chain_and_a_hundred_thousand_unused_weights_compile_in_seconds() -> None:
    start = time.process_time()
    assert len(nbglcnn.compile(chain_model(20_000), observe="outputs").header.passes) == 20_000
    assert_within(15, start)
    start = time.process_time()
    nbglcnn.compile(unused_constants(100_000))
    assert_within(8, start)


# A8 and A9: files that are not models


def _zip_bytes(path: Path) -> bytes:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", b"x")
    return path.read_bytes()


INVALID_FILES: dict[str, Callable[[Path], bytes]] = {
    "empty": lambda _: b"",
    "html": lambda _: b"<!doctype html><html>Not Found</html>",
    "json": lambda _: b'{"error": "not found"}',
    "lfs": lambda _: b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
    "zip": _zip_bytes,
    "gzip": lambda _: gzip.compress(small_model().SerializeToString()),
    "hdf5": lambda _: b"\x89HDF\r\n\x1a\n" + b"\0" * 100,
    "png": lambda _: b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + b"\0" * 100,
    "pickle": lambda _: pickle.dumps({"a": 1}),
    "zeros": lambda _: b"\0" * 1000,
    "text": lambda _: b"hello world, I am not a model",
    "random": lambda _: np.random.default_rng(1).bytes(5000),
    "cut": lambda _: small_model().SerializeToString()[:-40],
    "no graph": lambda _: onnx.ModelProto(ir_version=8).SerializeToString(),
    "giant length": lambda _: b"\x3a\xff\xff\xff\xff\x07" + b"\0" * 20,
    "giant tensor": lambda _: b"\x3a\x0a\x2a\x08\x4a\xff\xff\xff\xff\x0f\0\0",
    "deep": lambda _: b"\x3a\x80\x02" * 100,
}


@pytest.mark.parametrize("name", INVALID_FILES)
def test_files_that_are_no_model_are_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(INVALID_FILES[name](tmp_path / "z"))
    assert_refused(path, r"net\.onnx")
    assert_refused(path.read_bytes(), "these bytes")


def test_a_model_cut_anywhere_is_refused_or_still_whole() -> None:
    data = small_model().SerializeToString()
    whole = 0
    for end in range(1, len(data), 3):
        try:
            nbglcnn.compile(data[:end])
            whole += 1
        except ModelError as error:
            assert len(str(error)) < 700
    assert whole < 10  # only fields after the graph can be missing


def test_paths_that_are_no_file_are_refused(tmp_path: Path) -> None:
    assert_refused(tmp_path / "gone.onnx", r"file not found: .*gone\.onnx'$")
    assert_refused(tmp_path, "not a file")
    assert_refused("a\0b.onnx", "null byte")
    os.mkfifo(tmp_path / "fifo.onnx")
    assert_refused(tmp_path / "fifo.onnx", "not a file")
    assert_refused(3, "int is not a model")


class UnpicklingCanary:
    """Creates a folder if it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("suffix", [".pt", ".pth", ".ckpt", ".pkl", ".onnx"])
def test_pickles_are_refused_with_advice_and_never_opened(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"weights{suffix}"
    for protocol in (2, 4, 5):
        path.write_bytes(pickle.dumps(UnpicklingCanary(tmp_path / "ran"), protocol))
        assert_refused(path, r"weights.*pickle|load_state_dict")
    assert not (tmp_path / "ran").exists()


def test_the_package_never_reads_pickles_or_runs_text() -> None:
    forbidden = {
        "eval",
        "exec",
        "pickle",
        "marshal",
        "shelve",
        "unsafe_load",
        "yaml",
        "allow_pickle",
        "hub",
    }
    files = list(Path(nbglcnn.__file__).parent.rglob("*.py"))
    assert len(files) > 60
    for file in files:
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


def test_security_md_names_tests_that_exist() -> None:
    tests = Path(__file__).parents[1]
    page = tests.with_name("SECURITY.md").read_text(encoding="utf-8")
    files = [tests.parent / file for file in re.findall(r"\]\((tests/[\w/]+\.py)\)", page)]
    defined = re.findall(r"^def (test_\w+)", "\n".join(f.read_text("utf-8") for f in files), re.M)
    named = re.findall(r"`(test_\w+)`", page)
    assert len(named) > 25 and set(named) <= set(defined)
    rows = re.findall(r"^\| A(\d+) \|", page, re.M)
    assert [int(row) for row in rows] == [*range(1, 15)]
