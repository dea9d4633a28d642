"""`run`, `verify`, `summary` and `bench` against PyTorch and ONNX Runtime, and their errors."""

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from PIL import Image
from torch import nn

from assertions import assert_equal
from command_line import NETWORK_SOURCE, environment_without, run_command
from nbglcnn import Session, compile
from nbglcnn.cli import bench, inputs, main, map_sheet
from onnx_models import model_of, node, randn


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with models and pictures, as a user has it."""
    made = tmp_path_factory.mktemp("work")
    (made / "net.py").write_text(NETWORK_SOURCE)
    random = np.random.default_rng(0)
    for name, size in (("a.png", (10, 8)), ("b.png", (10, 8)), ("wide.png", (15, 8))):
        pixels = random.integers(0, 256, (size[1], size[0], 3), np.uint8)
        Image.fromarray(pixels).save(made / name)
    weights = {"w": randn(4, 3, 3, 3), "b": randn(4)}
    nodes = [
        node("Conv", ["image", "w", "b"], ["maps"], kernel_shape=[3, 3], pads=[1] * 4),
        node("Relu", ["maps"], ["rest"]),
        node("GlobalAveragePool", ["rest"], ["y"]),
    ]
    for file, shape in (("fixed.onnx", (1, 3, 8, 10)), ("any.onnx", ("n", 3, "h", "w"))):
        onnx.save(model_of(nodes, {"image": shape}, ["y"], constants=weights), made / file)
    return made


def picture_batch(folder: Path, *names: str) -> np.ndarray:
    arrays = [np.asarray(Image.open(folder / name), np.float32) / 255 for name in names]
    return np.stack(arrays).transpose(0, 3, 1, 2)


def run_onnx_runtime(file: Path, x: np.ndarray) -> dict[str, np.ndarray]:
    """Run each image by itself, since the file's batch size is 1."""
    model = onnx.load(file)
    for name in ("maps", "rest"):
        model.graph.output.append(onnx.ValueInfoProto(name=name))
    session = onnxruntime.InferenceSession(model.SerializeToString())
    runs = [session.run(None, {"image": one[None]}) for one in x]
    names = [output.name for output in session.get_outputs()]
    return {name: np.concatenate(values) for name, *values in zip(names, *runs, strict=True)}


@pytest.mark.parametrize("file", ["fixed.onnx", "any.onnx"])
def test_run_gives_a_batchs_layers_as_onnx_runtime_has_them(
    model_folder: Path, tmp_path: Path, file: str
) -> None:
    out = tmp_path / "values.npz"
    layers = ("--layer", "maps", "--layer", "y")
    run = run_command("run", model_folder / file,
                      *(model_folder / one for one in ("a.png", "b.png")), *layers,
                      "--out", out, "--json")  # fmt: skip
    assert run.returncode == 0, run.stderr
    expected = run_onnx_runtime(
        model_folder / "fixed.onnx", picture_batch(model_folder, "a.png", "b.png")
    )
    told = json.loads(run.stdout)
    with np.load(out) as found:
        assert found.files == ["maps", "y"]
        for key in found.files:
            assert_equal(found[key], expected[key], name=key)
            row = told["layers"][key]
            assert row["shape"] == list(expected[key].shape)
            for name in ("min", "max", "mean", "std"):
                assert row[name] == pytest.approx(getattr(expected[key], name)(), rel=1e-4)


@pytest.mark.parametrize("name", ["small", "make_model"])
def test_run_gives_what_a_python_files_module_gives(
    model_folder: Path, tmp_path: Path, name: str
) -> None:
    names: dict[str, nn.Module] = {}
    exec(NETWORK_SOURCE, names)
    model = names[name] if name == "small" else names[name]()  # type: ignore[operator]
    out = tmp_path / "values.npz"
    run = run_command("run", model_folder / f"net.py:{name}", model_folder / "a.png", "--layer",
                      "0", "--layer", "output", "--out", out)  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "building" not in run.stdout  # the model file's own prints are no result
    x = torch.from_numpy(picture_batch(model_folder, "a.png"))
    with torch.inference_mode(), np.load(out) as found:
        assert_equal(found["0"], model.eval()[0](x).numpy())
        assert_equal(found["output"], model(x).numpy())


def test_a_layer_of_any_name_is_an_array_of_that_name(tmp_path: Path) -> None:
    names = ("file", "allow_pickle", "a/b")
    nodes = [node("Relu", ["x"], ["file"]), node("Neg", ["file"], ["allow_pickle"]),
             node("Exp", ["allow_pickle"], ["a/b"])]  # fmt: skip
    onnx.save(model_of(nodes, {"x": (1, 3)}, ["a/b"]), tmp_path / "m.onnx")
    x = randn(1, 3)
    np.save(tmp_path / "x.npy", x)
    layers = [word for name in names for word in ("--layer", name)]
    run = run_command("run", "m.onnx", "x.npy", *layers, "--out", "v.npz", folder=tmp_path)
    assert run.returncode == 0, run.stderr
    relu = np.maximum(x, 0)
    with np.load(tmp_path / "v.npz") as found:
        for name, expected in zip(names, (relu, -relu, np.exp(-relu)), strict=True):
            assert_equal(found[name], expected)


def test_several_inputs_come_from_an_archive_by_their_names(tmp_path: Path) -> None:
    nodes = [node("Mul", ["x", "gain"], ["scaled"]), node("Add", ["scaled", "x"], ["y"])]
    shapes = {"x": (1, 3, 4), "gain": (1, 3, 1)}
    onnx.save(model_of(nodes, shapes, ["y"]), tmp_path / "m.onnx")
    x, gain = randn(2, 3, 4), randn(2, 3, 1)
    for k in range(2):
        np.savez(tmp_path / f"{k}.npz", x=x[k : k + 1], gain=gain[k : k + 1])
    run = run_command("run", "m.onnx", "0.npz", "1.npz", "--out", "v.npz", folder=tmp_path)
    assert run.returncode == 0, run.stderr
    with np.load(tmp_path / "v.npz") as found:
        assert_equal(found["y"], x * gain + x)


def test_the_statistics_say_how_many_numbers_are_not_finite(tmp_path: Path) -> None:
    onnx.save(model_of([node("Neg", ["x"], ["y"])], {"x": (1, 4)}, ["y"]), tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", np.float32([[np.nan, np.inf, -3, 1]]))
    row = json.loads(run_command("run", "m.onnx", "x.npy", "--json", folder=tmp_path).stdout)
    assert row["layers"]["y"] == {
        "shape": [1, 4], "dtype": "float32", "nan": 1, "inf": 1,
        "min": -1, "max": 3, "mean": 1, "std": 2,
    }  # fmt: skip
    np.save(tmp_path / "x.npy", np.float32([[np.nan] * 4]))
    row = json.loads(run_command("run", "m.onnx", "x.npy", "--json", folder=tmp_path).stdout)
    assert row["layers"]["y"]["mean"] is None


def test_a_sheet_has_the_maps_of_each_picture(model_folder: Path, tmp_path: Path) -> None:
    def sheet(*pictures: str) -> np.ndarray:
        files = [model_folder / one for one in pictures]
        layers = ("--layer", "maps", "--layer", "rest")
        run = run_command(
            "run", model_folder / "fixed.onnx", *files, *layers, "--out", tmp_path / "maps.png"
        )
        assert run.returncode == 0, run.stderr
        return np.asarray(Image.open(tmp_path / "maps.png").convert("RGB"), np.int16)

    one, two = sheet("a.png"), sheet("a.png", "b.png")
    assert two.shape == (2 * one.shape[0], *one.shape[1:])
    np.testing.assert_array_equal(two[: len(one)], one)
    differ = (two[: len(one)] != two[len(one) :]).any(2)
    assert differ.mean() > 0.1
    blue = (one[..., 2] - one[..., 0] > 60).sum(axis=0)
    half = one.shape[1] // 2
    orange = (one[..., 0] - one[..., 2] > 60).sum(axis=0)
    assert blue[:half].any() and blue[half:].any()  # positive values are blue
    assert orange[:half].any() and not orange[half:].any()  # a ReLU has no negative ones


def test_a_sheet_shows_all_pictures_beside_a_value_without_an_axis_of_examples() -> None:
    nodes = [
        node("Relu", ["x"], ["maps"]),
        node("ReduceMean", ["maps", "axes"], ["mean"], keepdims=0),
        node("Sub", ["maps", "mean"], ["y"]),
    ]
    x = randn(3, 2, 8, 10)
    model = model_of(nodes, {"x": x.shape}, ["y"], constants={"axes": np.int64([0])})
    with Session(compile(model, x)) as session:
        values = session.run(x)
        plan = session.plan

    def sheet(*keys: str) -> np.ndarray:
        data = map_sheet.draw_sheet(plan, {key: values[key] for key in keys})
        return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))

    assert values["mean"].shape == (2, 8, 10)
    alone, both = sheet("maps"), sheet("maps", "mean")
    assert both.shape[0] == alone.shape[0]
    left = alone.shape[1] - map_sheet.GAP
    np.testing.assert_array_equal(both[:, :left], alone[:, :left])


def test_pictures_in_a_sheet_have_the_range_that_is_asked_for(
    model_folder: Path, tmp_path: Path
) -> None:
    nodes = [node("Mul", ["x", "by"], ["y"])]
    made = model_of(nodes, {"x": (1, 3, 8, 10)}, ["y"], constants={"by": np.float32([0.4])})
    onnx.save(made, tmp_path / "dark.onnx")
    x = 0.4 * picture_batch(model_folder, "a.png")[0].transpose(1, 2, 0)

    def picture(*arguments: str) -> np.ndarray:
        out = tmp_path / "maps.png"
        run = run_command(
            "run", tmp_path / "dark.onnx", model_folder / "a.png", *arguments, "--out", out
        )
        assert run.returncode == 0, run.stderr
        sheet = np.asarray(Image.open(out).convert("RGB"), float)
        return sheet[18:][: 32 * 8 : 32, 16:][:, : 32 * 10 : 32]

    for arguments, (low, high) in (
        ((), (0.0, 1.0)),
        (("--range", "own"), (x.min(), x.max())),
        (("--range=-1,1",), (-1.0, 1.0)),
        (("--range", "0.1,0.3"), (0.1, 0.3)),
    ):
        found = picture(*arguments)
        expected = np.clip((x - low) / (high - low), 0, 1) * 255
        dots = ((x < low - 1e-3) | (x > high + 1e-3)).any(2, keepdims=True)
        assert np.abs(np.where(dots, 0, found - expected)).max() <= 1.5
        assert dots.any() == (high - low < 0.25)
    wrong = run_command("run", tmp_path / "dark.onnx", model_folder / "a.png", "--range", "1,0")
    assert wrong.returncode != 0
    assert "'1,0' is not a range: give the values of black and white, as --range=-1,1" in (
        wrong.stderr
    )


def test_pictures_of_another_size_are_resized_when_that_is_asked_for(
    model_folder: Path, tmp_path: Path
) -> None:
    run = run_command("run", model_folder / "fixed.onnx", model_folder / "wide.png")
    assert run.returncode == 1
    assert "wide.png is 15×8 pixels; expected 10×8 pixels. Use --resize" in run.stderr
    run = run_command(
        "run", model_folder / "any.onnx", model_folder / "a.png", model_folder / "wide.png"
    )
    assert "all pictures of a batch need the same size" in run.stderr
    run = run_command("run", model_folder / "any.onnx", model_folder / "a.png", "--resize")
    assert "accepts pictures of any size. Give it with --shape" in run.stderr
    resized = Image.open(model_folder / "wide.png").resize((10, 8), Image.Resampling.BILINEAR)
    x = (np.asarray(resized, np.float32) / 255).transpose(2, 0, 1)[None]
    expected = run_onnx_runtime(model_folder / "fixed.onnx", x)["maps"]
    for file, shape in (("fixed.onnx", ()), ("any.onnx", ("--shape", "1x3x8x10"))):
        out = tmp_path / "v.npz"
        run = run_command("run", model_folder / file, model_folder / "wide.png", "--resize", *shape,
                          "--layer", "maps", "--out", out)  # fmt: skip
        assert run.returncode == 0, run.stderr
        with np.load(out) as found:
            assert_equal(found["maps"], expected)


def test_a_picture_is_as_the_camera_was_held(model_folder: Path, tmp_path: Path) -> None:
    picture = Image.open(model_folder / "a.png").rotate(90, expand=True)
    exif = picture.getexif()
    exif[0x0112] = 6  # EXIF: rotate by 90° clockwise
    picture.save(tmp_path / "turned.png", exif=exif)
    found = [
        json.loads(run_command("run", model_folder / "fixed.onnx", file, "--json").stdout)["layers"]
        for file in (tmp_path / "turned.png", model_folder / "a.png")
    ]
    assert found[0] == found[1]


def test_verify_compares_with_onnx_runtime_and_with_pytorch(model_folder: Path) -> None:
    run = run_command(
        "verify", model_folder / "any.onnx", model_folder / "a.png", model_folder / "b.png"
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "3 of 3 layers match ONNX Runtime" in run.stdout
    run = run_command(
        "verify",
        model_folder / "fixed.onnx",
        model_folder / "a.png",
        model_folder / "b.png",
        "--json",
    )
    found = json.loads(run.stdout)
    assert found["ok"] and len(found["reports"]) == 2  # the file's batch size is 1
    assert [row["layer"] for row in found["reports"][1]["layers"]] == ["maps", "rest", "y"]
    first, second = (report["layers"] for report in found["reports"])
    assert all(0 <= row["relative"] < 1e-5 for row in first)
    assert [row["mean_abs"] for row in first] != [row["mean_abs"] for row in second]
    run = run_command("verify", model_folder / "net.py:small", "--shape", "2x3x9x7")
    assert run.returncode == 0, run.stdout + run.stderr
    assert "4 of 4 layers match PyTorch" in run.stdout


def test_verify_finds_a_layer_that_is_wrong(tmp_path: Path) -> None:
    """Half precision cannot represent these numbers."""
    nodes = [node("Mul", ["x", "much"], ["a"]), node("Relu", ["a"], ["y"])]
    scale = {"much": np.float32(1e6)}
    onnx.save(model_of(nodes, {"x": (1, 3, 4, 4)}, ["y"], constants=scale), tmp_path / "m.onnx")
    run = run_command("verify", tmp_path / "m.onnx", "--precision", "float16", "--json")
    assert run.returncode == 1
    [report] = json.loads(run.stdout)["reports"]
    assert report["first_diverging"] == "a"
    assert report["layers"][0]["relative"] is None  # infinities at other positions


def test_without_onnx_runtime_a_sentence_says_so(model_folder: Path, tmp_path: Path) -> None:
    hidden = environment_without(tmp_path, "onnxruntime")
    run = run_command("bench", model_folder / "fixed.onnx", "--runs", 2, **hidden)
    assert run.returncode == 0
    assert "ONNX Runtime is not installed (pip install onnxruntime): not measured" in run.stderr
    assert run.stdout.count("\n") == 3
    run = run_command("verify", model_folder / "fixed.onnx", **hidden)
    assert run.returncode == 0
    assert "ONNX Runtime is not installed" in run.stderr
    assert "match onnx.reference" in run.stdout


@pytest.mark.parametrize(
    ("model", "engine"), [("fixed.onnx", "ONNX Runtime"), ("net.py:make_model", "PyTorch")]
)
def test_bench_measures_both_plans_and_the_framework(
    model_folder: Path, model: str, engine: str
) -> None:
    run = run_command("bench", model_folder / model, "--shape", "1x3x8x10", "--runs", 3, "--json")
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert all(0 < found[name] < 10_000 for name in ("fused_ms", "kept_ms", "engine_ms"))
    assert found["engine"].startswith(engine) and found["runs"] == 3


def test_summary_prints_the_layers_and_their_sums(model_folder: Path) -> None:
    run = run_command("summary", model_folder / "net.py:make_model", "--shape", "1x3x8x10")
    lines = run.stdout.splitlines()
    assert lines[0].split() == ["name", "type", "output", "shape", "parameters", "MACs"]
    assert lines[1].split() == ["0", "Conv2d", "1×4×6×8", "112", "5,184"]
    assert lines[-1] == "4 layers, 498 parameters, 5,568 MACs"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("summary", "net.py"), "net.py:NAME, where NAME is a torch.nn.Module"),
        (("summary", "net.py"), "net.py has small, make_model, Doubled, number, broken"),
        (("summary", "net.py:make_modle"), "net.py has no 'make_modle' (near: make_model)"),
        (("summary", "net.py:zzz"), "net.py has no 'zzz'; it has small, make_model, Doubled"),
        (("summary", "net.py:size"), "'size' in net.py is of type int; expected a torch"),
        (("summary", "net.py:number"), "number() in net.py returned a int; expected a torch"),
        (("summary", "net.py:broken"), "net.py, line 28: broken(): FileNotFoundError"),
        (("summary", "none.py:make"), "file not found: "),
        (("summary", "missing.py:make"), "missing.py, line 2: importing it: ModuleNotFoundError"),
        (("summary", "wrong.py:make"), "wrong.py, line 1: importing it: SyntaxError"),
        (("summary", "ends.py:make"), "ends.py, line 1: importing it: SystemExit: 3"),
        (("summary", "net.py:small"), "needs an example input"),
        (
            ("run", "net.py:small", "a.png", "--layer", "00"),
            "'00' is not a layer of this network; near: '0'",
        ),
        (("run", "fixed.onnx", "none.png"), "file not found: none.png"),
        (("run", "fixed.onnx", "net.py"), "net.py is not a picture that Pillow can read"),
        (("run", "fixed.onnx", "cut.png"), "cut.png cannot be read as a picture"),
        (("run", "fixed.onnx", "pickled.npy"), "pickled.npy cannot be read as arrays"),
        (("run", "fixed.onnx", "a.png", "pickled.npy"), ".npy and picture files in one batch"),
        (("run", "fixed.onnx", "a.png", "--out", "none/v.npz"), "cannot write none/v.npz: No such"),
        (("run", "net.py:Doubled", "pair.npz"), "no input 'z'; the model takes 'x'"),
        (("html", "fixed.onnx", "--text", "none.md"), "none.md"),
    ],
)
def test_what_cannot_be_is_said_in_a_line(
    model_folder: Path,
    arguments: tuple[str, ...],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(model_folder)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (model_folder / "missing.py").write_text("import torch\nimport nothing_of_this_name\n")
    (model_folder / "wrong.py").write_text("def make(:\n")
    (model_folder / "ends.py").write_text("raise SystemExit(3)\n")
    (model_folder / "cut.png").write_bytes((model_folder / "a.png").read_bytes()[:100])
    np.save(model_folder / "pickled.npy", np.array([{}]), allow_pickle=True)
    np.savez(model_folder / "pair.npz", x=np.zeros(2, "f4"), z=np.zeros(2, "f4"))
    assert main(arguments) == 1
    said = capsys.readouterr()
    told = said.err.removeprefix("building\n")
    assert said.out == "" and told.startswith("nbglcnn: ") and words in told
    assert told.count("\n") == 1


def test_an_error_in_their_own_code_has_no_traceback_of_ours(model_folder: Path) -> None:
    run = run_command("summary", model_folder / "net.py:broken")
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr.startswith("building\nnbglcnn: net.py, line 28: ")
    assert "Traceback" not in run.stderr


def test_a_file_that_is_neither_picture_nor_archive_is_a_wrong_command(model_folder: Path) -> None:
    run = run_command(
        "run", model_folder / "fixed.onnx", model_folder / "a.png", "--out", "maps.gif"
    )
    assert run.returncode == 2
    assert "'maps.gif': expected a file name that ends with .png or .npz" in run.stderr


def test_medians_are_milliseconds_of_the_runs_behind_the_first_three(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each call takes the seconds in its list, by a mocked clock."""
    now = [5.0]
    monkeypatch.setattr(bench.time, "perf_counter", lambda: now[0])
    calls: list[str] = []

    def taking(name: str, *seconds: float) -> Callable[[], object]:
        left = iter(seconds)

        def work() -> None:
            calls.append(name)
            now[0] += next(left)

        return work

    works = {
        "a": taking("a", 0.9, 0.8, 0.7, 0.002, 0.004, 0.5),
        "b": taking("b", 0.6, 0.5, 0.4, 0.25, 0.25, 0.25),
    }
    found = bench.measure_medians(works, 3)
    assert found == {"a": pytest.approx(4), "b": pytest.approx(250)}
    assert calls == ["a", "b"] * 6, "in turns"
    # A round that starts within the time limit (half a minute) may exceed it; no round follows.
    calls.clear()
    slow = {"c": taking("c", 0, 0, 0, bench.TIME_LIMIT_S, 1, 1)}
    assert bench.measure_medians(slow, 3) == {"c": pytest.approx((bench.TIME_LIMIT_S + 1) * 500)}
    assert len(calls) == 5


def test_bench_prints_the_medians_as_they_are(
    model_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        bench, "measure_medians", lambda *_: {"fused": 1.2345, "kept": 7.0, "other": 33.0}
    )
    model = str(model_folder / "fixed.onnx")
    assert main(["bench", model, "--runs", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[-1] for line in lines] == ["ms", "1.23", "7.00", "33.00"]
    assert main(["bench", model, "--runs", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [found[name] for name in ("fused_ms", "kept_ms", "engine_ms")] == [1.2345, 7.0, 33.0]


@pytest.mark.parametrize(("count", "at_once"), [(1, 1), (16, 16), (17, 16), (40, 16)])
def test_a_plan_is_of_sixteen_examples_at_most(
    monkeypatch: pytest.MonkeyPatch, count: int, at_once: int
) -> None:
    monkeypatch.setattr(inputs, "_fixed_batch_size", lambda model, x: None)
    model: Any = None
    x = np.arange(2 * count).reshape(count, 1, 2)
    np.testing.assert_array_equal(inputs.select_batch_to_compile(model, x), x[:at_once])
    assert len(inputs.split_batches(model, x)) == 1 and inputs.split_batches(model, x)[0] is x
    np.testing.assert_array_equal(
        np.stack(inputs.select_batch_to_compile(model, list(x))), x[:at_once]
    )
    rate = np.arange(count + 1)
    found = inputs.select_batch_to_compile(model, {"x": x, "rate": rate})
    np.testing.assert_array_equal(found["x"], x[:at_once])
    np.testing.assert_array_equal(found["rate"], rate)
    for whole in (None, (x, x), {"x": x, "y": x[:0]}):
        assert inputs.select_batch_to_compile(model, whole) is whole
        assert inputs.split_batches(model, whole) == [whole]


def test_a_fixed_batch_has_the_last_example_again_where_there_are_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(inputs, "_fixed_batch_size", lambda model, x: 4)
    model: Any = None
    for count, rows in (
        (1, [[0, 0, 0, 0]]),
        (4, [[0, 1, 2, 3]]),
        (5, [[0, 1, 2, 3], [4, 4, 4, 4]]),
        (8, [[0, 1, 2, 3], [4, 5, 6, 7]]),
        (10, [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 9, 9]]),
    ):
        x = np.arange(count)[:, None]
        assert [piece[:, 0].tolist() for piece in inputs.split_batches(model, x)] == rows
        assert inputs.select_batch_to_compile(model, x)[:, 0].tolist() == rows[0]
