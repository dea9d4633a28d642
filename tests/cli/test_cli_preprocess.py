"""`--preprocess` of the command line: pictures of any size, and the inputs that it refuses."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from PIL import Image

from assertions import assert_equal
from command_line import NETWORK_SOURCE
from nbglcnn import Plan
from nbglcnn.cli import main
from nbglcnn.inputs.picture_fit import fit_picture
from onnx_models import model_of, node, randn

PREPROCESS_ARGUMENTS = ("--preprocess", "mean=0.5,0.25,0.75", "std=0.5", "channels=BGR")


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model and pictures of two sizes."""
    made = tmp_path_factory.mktemp("work")
    (made / "net.py").write_text(NETWORK_SOURCE)
    random = np.random.default_rng(0)
    for name, size in (("a.png", (20, 8)), ("b.png", (15, 30))):
        pixels = random.integers(0, 256, (size[1], size[0], 3), np.uint8)
        Image.fromarray(pixels).save(made / name)
    nodes = [node("Conv", ["image", "w"], ["maps"]), node("Relu", ["maps"], ["y"])]
    weights = {"w": randn(4, 3, 3, 3)}
    proto = model_of(nodes, {"image": ("n", 3, 8, 10)}, ["y"], constants=weights)
    onnx.save(proto, made / "net.onnx")
    return made


def test_run_takes_pictures_of_several_sizes(model_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "values.npz"
    pictures = [str(model_folder / name) for name in ("a.png", "b.png")]
    layers = ["--layer", "image", "--layer", "preprocess.normalize", "--layer", "y"]
    given = [
        str(model_folder / "net.onnx"),
        *pictures,
        *layers,
        "--out",
        str(out),
        *PREPROCESS_ARGUMENTS,
    ]
    assert main(["run", *given]) == 0
    found = np.load(out)
    for k, name in enumerate(pictures):
        image = fit_picture(Image.open(name), (8, 10), "crop")
        x = np.asarray(image, np.float32).transpose(2, 0, 1) / np.float32(255)
        assert_equal(found["image"][k], x)
        mean = np.array([0.5, 0.25, 0.75], np.float32).reshape(3, 1, 1)
        assert_equal(found["preprocess.normalize"][k], (x[::-1] - mean) / np.float32(0.5))


def test_verify_summary_bench_and_compile_know_it(
    model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, plan = str(model_folder / "net.onnx"), str(tmp_path / "net.plan")
    assert main(["verify", model, str(model_folder / "b.png"), *PREPROCESS_ARGUMENTS]) == 0
    assert main(["compile", model, "-o", plan, *PREPROCESS_ARGUMENTS]) == 0
    assert Plan.load(plan).header.preprocess == ("preprocess.channels", "preprocess.normalize")
    capsys.readouterr()
    assert main(["summary", f"{model_folder}/net.py:small", "--json", "--preprocess", "size=9x7",
                 "range=0,255"]) == 0  # fmt: skip
    rows = json.loads(capsys.readouterr().out)["layers"]
    assert rows[0]["name"] == "preprocess.range"
    assert rows[0]["output_shape"] == [1, 3, 9, 7]
    assert main(["bench", model, "--runs", "1", "--json", *PREPROCESS_ARGUMENTS]) == 0
    assert json.loads(capsys.readouterr().out)["engine_ms"] > 0


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (["width=3"], "'width=3': expected NAME=VALUE, where NAME is one of size"),
        (["mean=grey"], "expected numbers, as in"),
        (["fit=cover"], "fit"),
        (["size=9"], "size is (9, 9); the model's input 'image' is 8×10"),
        (["mean=1", "--resize"], "remove --resize"),
    ],
)
def test_what_means_nothing_is_refused(
    model_folder: Path, settings: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [str(model_folder / "net.onnx"), str(model_folder / "a.png"), "--preprocess", *settings]
    try:
        assert main(["verify", *given]) != 0
    except SystemExit as left:  # raised by argparse
        assert left.code
    assert words in capsys.readouterr().err
