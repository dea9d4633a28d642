"""Teaching without a page: the head's unique optimum, and data that Python exchanges."""

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import nn

import nbglcnn
from bundle import search_path_with_node
from nbglcnn import InputError, Viewer
from nbglcnn.features.teaching import Lesson, fit
from nbglcnn.features.teaching.head import held_out_mask
from nbglcnn.features.teaching.records import WEIGHT_PENALTY, FeatureVersion, LessonChange
from teaching_data import bar_pictures

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "notebooks"))
from fashion_autoencoder import load_autoencoder  # noqa: E402
from fashion_classifier import load_classifier  # noqa: E402

# The page's own solver, run in Node on the numbers in a file.
FIT_IN_NODE_PROGRAM = """
import { readFileSync } from 'node:fs';
import { fitHead, heldOutMask, probabilities } from './src/features/teaching/head.ts';
const given = JSON.parse(readFileSync(process.argv[1], 'utf8'));
const features = given.features.map((row) => Float32Array.from(row));
let breaths = 0;
const found = await fitHead(features, given.labels, given.classes, () => {
  breaths += 1;
  return breaths % 50 === 0 ? Promise.resolve() : undefined;
});
const chances = features.map((row) => [...probabilities(found, row)]);
const { weight, bias } = found;
const held = heldOutMask(given.labels);
console.log(JSON.stringify({ weight: [...weight], bias: [...bias], chances, held, breaths }));
"""


def fit_in_node(
    folder: Path, features: np.ndarray, labels: np.ndarray, classes: int
) -> dict[str, Any]:
    file = folder / "given.json"
    given = {"features": features.tolist(), "labels": labels.tolist(), "classes": classes}
    file.write_text(json.dumps(given))
    done = subprocess.run(
        ["node", "--input-type=module", "-e", FIT_IN_NODE_PROGRAM, str(file)],
        cwd=ROOT / "js",
        env={**os.environ, "PATH": search_path_with_node()},
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def random_features(
    count: int, features: int, classes: int, class_distance: float
) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(count + features)
    labels = random.integers(0, classes, count)
    labels[:classes] = np.arange(classes)
    middles = random.normal(size=(classes, features)) * class_distance
    found = random.normal(size=(count, features)) + middles[labels]
    # As after a ReLU: features of very different scales, some of them always 0.
    found = np.maximum(found * 10 ** random.uniform(-3, 2, features), 0)
    found[:, ::7] = 0
    return found.astype(np.float32), labels


FIT_CASES = {
    "two classes": (40, 16, 2, 1.0),
    "more features than examples": (30, 300, 3, 0.5),
    "classes that overlap": (200, 8, 4, 0.1),
    "one example each": (2, 5, 2, 1.0),
    "twenty classes": (100, 64, 20, 0.7),
}


@pytest.mark.parametrize("case", FIT_CASES.values(), ids=FIT_CASES)
def test_the_page_and_pytorch_find_the_same_head(
    tmp_path: Path, case: tuple[int, int, int, float]
) -> None:
    count, size, classes, apart = case
    features, labels = random_features(count, size, classes, apart)
    weight, bias = fit(features, labels, classes)
    found = fit_in_node(tmp_path, features, labels, classes)
    own = np.reshape(found["weight"], weight.shape)
    # Scale each weight by its feature's largest value before the comparison.
    scale = np.abs(features).max(0) + 1e-12
    unit = np.abs(weight * scale).max()
    np.testing.assert_allclose(own * scale, weight * scale, atol=2e-6 * unit)
    np.testing.assert_allclose(found["bias"], bias, atol=2e-6 * unit)
    logits = features.astype(np.float64) @ weight.T.astype(np.float64) + bias
    right = torch.softmax(torch.from_numpy(logits), 1).numpy()
    np.testing.assert_allclose(found["chances"], right, atol=1e-5)
    assert found["held"] == held_out_mask(labels).tolist()


def test_the_head_is_the_least_of_what_is_said() -> None:
    features, labels = random_features(60, 12, 3, 0.3)
    weight, bias = fit(features, labels, 3)
    x = features.astype(np.float64)
    share = 1 / (3 * np.bincount(labels)[labels])
    mean = share @ x
    variance = share @ (x - mean) ** 2
    scale = 1 / np.sqrt(12 * (variance + 1e-4 * variance.mean()))
    u = torch.from_numpy((x - mean) * scale)
    w = torch.from_numpy(weight / scale).requires_grad_()
    b = torch.from_numpy(bias + weight.astype(np.float64) @ mean).requires_grad_()
    errors = nn.functional.cross_entropy(u @ w.T + b, torch.from_numpy(labels), reduction="none")
    loss = torch.from_numpy(share) @ errors + WEIGHT_PENALTY / 2 * (w**2).sum()
    loss.backward()
    assert w.grad is not None and b.grad is not None
    assert max(w.grad.abs().max(), b.grad.abs().max()) < 1e-6


def test_more_examples_of_a_class_count_no_more() -> None:
    features, labels = random_features(20, 6, 2, 0.4)
    again = np.flatnonzero(labels == 1)
    more = np.concatenate([features, features[again], features[again]])
    once = fit(features, labels, 2)
    thrice = fit(more, np.concatenate([labels, labels[again], labels[again]]), 2)
    for one, other in zip(once, thrice, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_the_last_fifth_of_each_class_is_held_out() -> None:
    labels = np.array([0, 1] * 10 + [0])
    assert np.flatnonzero(held_out_mask(labels)).tolist() == [17, 18, 19, 20]
    assert not held_out_mask(np.array([0] * 10 + [1] * 4)).any(), "a class has too few"


@pytest.fixture
def viewer() -> Viewer:
    return Viewer(load_autoencoder(), torch.zeros(1, 1, 28, 28))


def test_without_a_page_pictures_are_added_trained_and_told_apart(viewer: Viewer) -> None:
    teaching = viewer.teach(["cup"])
    assert viewer.view["name"] == "teach"
    assert (teaching.cut, teaching.state, teaching.counts) == (
        "encoder.6",
        "collecting",
        {"cup": 0},
    )
    teaching.add("cup", bar_pictures("cup", 12))
    teaching.add("hand", bar_pictures("hand", 7))
    assert teaching.counts == {"cup": 12, "hand": 7}
    np.testing.assert_array_equal(teaching.examples["hand"][..., 0], bar_pictures("hand", 7))
    with torch.no_grad():
        shown = torch.from_numpy(bar_pictures("cup", 12))[:, None] / 255
        right = load_autoencoder().encoder(shown).flatten(1).numpy()
    np.testing.assert_allclose(teaching.features["cup"], right, atol=1e-4)
    head = teaching.train()
    assert (teaching.state, teaching.head_classes) == ("ready", ("cup", "hand"))
    assert (teaching.accuracy, teaching.held_out_accuracy) == (1.0, 1.0)
    for name, kind in enumerate(("cup", "hand")):
        viewer.input = bar_pictures(kind, 1, seed=9)[:, None].astype(np.float32) / 255
        value = torch.from_numpy(viewer.activations[teaching.cut])
        chances = torch.softmax(head(value), 1)[0]
        assert int(chances.argmax()) == name
        found = [teaching.probabilities[one] for one in ("cup", "hand")]
        np.testing.assert_allclose(found, chances.detach(), atol=1e-5)


def test_classes_and_examples_are_renamed_and_removed(viewer: Viewer) -> None:
    examples = {name: bar_pictures(name, 4) for name in ("cup", "hand")}
    teaching = viewer.teach(examples=examples)
    teaching.train()
    told: list[str] = []
    teaching.observe(lambda change: told.append(change.new), "state")
    teaching.rename("cup", "mug")
    assert teaching.state == "ready" and teaching.head_classes == ("mug", "hand")
    teaching.remove("mug", 1)
    np.testing.assert_array_equal(teaching.examples["mug"][..., 0], examples["cup"][[0, 2, 3]])
    assert told == ["outdated"]
    teaching.add("other")
    assert teaching.classes == ("mug", "hand", "other")
    teaching.remove("mug")
    assert teaching.classes == ("hand", "other") and teaching.head_classes == ()
    with pytest.raises(InputError, match="no classifier yet"):
        teaching.head()


def test_what_was_taught_is_given_back(viewer: Viewer, tmp_path: Path) -> None:
    examples = {name: bar_pictures(name, 6) for name in ("cup", "hand")}
    teaching = viewer.teach(examples=examples)
    head = teaching.train()
    path = teaching.save(tmp_path / "taught.safetensors")
    file = safetensors.torch.load_file(path)
    assert file["pictures"].shape == (12, 28, 28, 1) and file["features"].shape == (12, 16)
    torch.testing.assert_close(file["weight"], head[-1].weight.detach())
    # A file loads into another Viewer, and its features need not be recomputed.
    other = Viewer(load_autoencoder(), torch.zeros(1, 1, 28, 28))
    read = other.teach().load(path)
    assert (read.state, read.stale, read.classes) == ("ready", 0, ("cup", "hand"))
    assert read.accuracy == 1.0
    torch.testing.assert_close(read.head()[-1].weight, head[-1].weight)
    np.testing.assert_array_equal(read.features["cup"], teaching.features["cup"])
    # The results of head() and to_dict() are accepted as `head` too.
    for given in (head, teaching.to_dict(), (head[-1].weight, head[-1].bias)):
        again = other.teach(teaching.classes, examples=teaching.examples, head=given)
        assert again.state == "ready" and again.counts == {"cup": 6, "hand": 6}
        torch.testing.assert_close(again.head()[-1].weight, head[-1].weight)


def test_a_saved_head_knows_the_classes_that_it_was_trained_for() -> None:
    features, labels = random_features(12, 4, 2, 1.0)
    lesson = Lesson((1, 2, 3), 4)
    keys = [lesson.add_class(name) for name in ("cup", "hand")]
    for number, (row, label) in enumerate(zip(features, labels, strict=True)):
        data = row.tobytes() + bytes(range(6))
        key = f"example {number}"
        lesson.examples[key] = lesson.example_from_data(key, keys[label], data, FeatureVersion("w"))
    head = lesson.train()
    lesson.add_class("other")
    read = Lesson((1, 2, 3), 4)
    read.load_safetensors(lesson.to_safetensors("conv", averaged=False))
    assert list(read.class_names_by_id.values()) == ["cup", "hand", "other"]
    assert read.head is not None
    assert [read.class_names_by_id[key] for key in read.head.classes] == ["cup", "hand"]
    np.testing.assert_array_equal(read.head.weight, head.weight)


def test_features_of_a_page_come_with_the_network_that_computed_them() -> None:
    lesson = Lesson((1, 2, 3), 2)
    of = lesson.add_class("cup")
    key, before, after = "example", FeatureVersion("before"), FeatureVersion("after")
    data = np.float32([1, 2]).tobytes() + bytes(range(6))
    lesson.examples[key] = lesson.example_from_data(key, of, data, before)
    change = LessonChange("features", key, version=after)
    assert lesson.apply_change(change, np.float32([3, 4]).tobytes())
    found = lesson.examples[key]
    assert (found.version, found.features.tolist()) == (after, [3, 4])
    np.testing.assert_array_equal(found.picture, np.arange(6).reshape(1, 2, 3))


def test_other_weights_or_bends_make_features_stale_until_they_are_computed_again(
    viewer: Viewer,
) -> None:
    teaching = viewer.teach(examples={name: bar_pictures(name, 5) for name in ("cup", "hand")})
    teaching.train()
    before = teaching.features["cup"]
    bend = viewer.bend("encoder.6", nbglcnn.transforms.multiply(3.0))
    assert (teaching.stale, teaching.state) == (10, "outdated")
    bend.remove()
    assert (teaching.stale, teaching.state) == (0, "ready")
    viewer.bend("encoder.6", nbglcnn.transforms.multiply(3.0))
    teaching.train()
    assert (teaching.stale, teaching.state) == (0, "ready")
    np.testing.assert_allclose(teaching.features["cup"], 3 * before, rtol=1e-5)
    viewer.undo()
    assert teaching.stale == 10
    teaching.compute_again()
    np.testing.assert_allclose(teaching.features["cup"], before, rtol=1e-5)
    viewer.set_weight("encoder.6.bias", 0, 9.0)
    assert teaching.stale == 10
    state = {name: array * 0.5 for name, array in viewer.state_dict().items()}
    viewer.load_state_dict(state)
    teaching.train()
    model = load_autoencoder()
    model.load_state_dict(state)
    with torch.no_grad():
        shown = torch.from_numpy(bar_pictures("cup", 5))[:, None] / 255
        right = model.encoder(shown).flatten(1).numpy()
    np.testing.assert_allclose(teaching.features["cup"], right, atol=1e-4)


def test_the_usual_cut_is_what_the_last_linear_reads() -> None:
    model = load_classifier()
    viewer = Viewer(model, torch.zeros(1, 1, 28, 28))
    teaching = viewer.teach()
    assert teaching.classes == ("class 1", "class 2")
    last = [module for module in model.modules() if isinstance(module, nn.Linear)][-1]
    read: list[torch.Tensor] = []
    last.register_forward_hook(lambda _, inputs, __: read.append(inputs[0]))
    with torch.no_grad():
        model(torch.from_numpy(viewer.input))
    np.testing.assert_allclose(
        viewer.activations[teaching.cut].reshape(-1), read[0].reshape(-1), atol=1e-5
    )


def test_a_large_value_is_averaged_over_its_places() -> None:
    torch.manual_seed(5)
    model = nn.Sequential(nn.Conv2d(3, 20, 3, padding=1), nn.ReLU(), nn.Conv2d(20, 1, 1)).eval()
    viewer = Viewer(model, torch.rand(1, 3, 24, 20))
    random = np.random.default_rng(1)
    given = {n: random.integers(0, 256, (6, 24, 20, 3), np.uint8) for n in ("a", "b")}
    given["b"][..., 0] //= 4
    teaching = viewer.teach(examples=given, cut="1")
    assert teaching.averaged
    with torch.no_grad():
        shown = torch.from_numpy(given["a"]).permute(0, 3, 1, 2) / 255
        right = model[:2](shown).mean((2, 3)).numpy()
    np.testing.assert_allclose(teaching.features["a"], right, atol=1e-5)
    np.testing.assert_array_equal(teaching.examples["b"], given["b"])
    head = teaching.train()
    value = torch.from_numpy(viewer.activations["1"])
    found = torch.softmax(head(value), 1)[0].detach().numpy()
    np.testing.assert_allclose(list(teaching.probabilities.values()), found, atol=1e-5)


def test_a_batch_becomes_one_example() -> None:
    viewer = Viewer(load_autoencoder(), torch.zeros(3, 1, 28, 28))
    with pytest.warns(UserWarning, match="one example"):
        teaching = viewer.teach(examples={"cup": bar_pictures("cup", 3)})
    assert teaching.features["cup"].shape == (3, 16)


def test_what_cannot_be_is_said(viewer: Viewer, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected a list of names"):
        viewer.teach("cup")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="a class 'cup' already exists"):
        viewer.teach(["cup", "cup"])
    with pytest.raises(InputError, match="not a class name"):
        viewer.teach(["cup", ""])
    with pytest.raises(KeyError, match=r"encoder\.7.*near: 'encoder\.6"):
        viewer.teach(["cup", "hand"], cut="encoder.7")
    with pytest.raises(InputError, match="expected a layer with float32 values"):
        viewer.teach(["cup", "hand"], cut="x")
    assert viewer.teaching is None
    teaching = viewer.teach(["cup"])
    with pytest.raises(InputError, match="at least two classes, and there is one, 'cup'"):
        teaching.train()
    teaching.add("hand", bar_pictures("hand", 2))
    with pytest.raises(InputError, match="'cup' has no examples"):
        teaching.train()
    with pytest.raises(KeyError, match="unknown class 'hat'"):
        teaching.remove("hat")
    with pytest.raises(InputError, match="'hand' has 2 examples"):
        teaching.remove("hand", 2)
    with pytest.raises(InputError, match="its own name"):
        teaching.rename("cup", "hand")
    with pytest.raises(InputError, match="floats from 0 to 1"):
        teaching.add("cup", np.full((1, 28, 28), 3.0, np.float32))
    with pytest.raises(InputError, match="no classifier yet"):
        _ = teaching.probabilities
    with pytest.raises(InputError, match="2 classes and 16 features need"):
        viewer.teach(["cup", "hand"], head=nn.Linear(15, 2))
    (tmp_path / "none").write_bytes(b"none")
    with pytest.raises(InputError, match="not a safetensors file"):
        teaching.load(tmp_path / "none")
    with pytest.raises(InputError, match=r"viewer\.teaching\.stop\(\)"):
        viewer.train(bar_pictures("cup", 8)[:, None], "mse", steps=1)
    teaching.stop()
    assert viewer.view["name"] == "network" and teaching.state == "stopped"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        viewer.train(bar_pictures("cup", 8)[:, None], "mse", steps=1)


def test_a_network_without_pictures_cannot_be_taught() -> None:
    viewer = Viewer(nn.Sequential(nn.Linear(4, 3), nn.ReLU()).eval(), torch.zeros(1, 4))
    with pytest.raises(InputError, match="a network that takes pictures"):
        viewer.teach(["cup", "hand"])
