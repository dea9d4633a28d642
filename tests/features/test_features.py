"""A Viewer has its features in one list, and works if one of them is missing."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

import nbglcnn
from nbglcnn import InputError, Latent, Noise, Viewer, transforms
from nbglcnn.widget.viewer import FEATURE_HOST_TYPES

RANDOM = np.random.default_rng(40)
X = RANDOM.random((1, 3, 9, 7), np.float32)
PICTURES = RANDOM.integers(0, 255, (4, 9, 7, 3), np.uint8)
TRAINING_DATA = (RANDOM.random((8, 3, 9, 7), np.float32), RANDOM.random((8, 5), np.float32))


def network() -> nn.Module:
    torch.manual_seed(4)
    layers = nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 63, 5)
    return nn.Sequential(*layers).eval()


def use_bend(viewer: Viewer) -> None:
    before = viewer.activations["0"]
    viewer.bend("0", transforms.multiply(2))
    np.testing.assert_allclose(viewer.activations["0"], 2 * before, rtol=1e-6)
    assert viewer.undo()


def use_noise(viewer: Viewer) -> None:
    viewer.input = Noise(seed=3)
    assert viewer.input.shape == X.shape
    viewer.input = X


def use_latent(viewer: Viewer) -> None:
    before = viewer.output
    viewer.input = Latent("2")
    viewer.source = viewer.source.with_code(2 * viewer.source.code)
    bias = viewer.state_dict()["3.bias"].numpy()
    np.testing.assert_allclose(viewer.output, 2 * (before - bias) + bias, rtol=1e-5, atol=1e-6)
    viewer.input = X


def use_training(viewer: Viewer) -> None:
    before = viewer.state_dict()["3.bias"].clone()
    viewer.train(TRAINING_DATA, steps=3, batch_size=4)
    assert (viewer.state_dict()["3.bias"] != before).any()


def use_mirror(viewer: Viewer) -> None:
    model = network()
    with torch.no_grad():
        model[3].bias += 1
    with nbglcnn.mirror(viewer, model) as made:
        made(loss=0.5)
    np.testing.assert_array_equal(viewer.state_dict()["3.bias"], model[3].bias.detach())


def use_teaching(viewer: Viewer) -> None:
    teaching = viewer.teach(examples={"one": PICTURES[:2], "other": PICTURES[2:]})
    teaching.train()
    assert teaching.state == "ready"
    teaching.stop()


FEATURE_ACTIONS: dict[str, Callable[[Viewer], None]] = {
    "edits": use_bend,
    "sources": use_noise,
    "latent": use_latent,
    "training": use_training,
    "mirror": use_mirror,
    "teaching": use_teaching,
}
# The features that a feature uses, by name.
FEATURE_DEPENDENCIES = {"latent": {"sources"}, "mirror": {"training"}, "teaching": {"sources"}}


# By folder name.
FEATURE_HOSTS = {host.__module__.split(".")[-2]: host for host in FEATURE_HOST_TYPES}


def test_the_list_has_every_feature_that_is_tested_here() -> None:
    assert FEATURE_HOSTS.keys() == FEATURE_ACTIONS.keys()


@pytest.mark.parametrize("without", FEATURE_ACTIONS)
def test_a_viewer_without_a_feature_has_all_others(without: str) -> None:
    class Less(Viewer):
        _feature_host_types = tuple(make for name, make in FEATURE_HOSTS.items() if name != without)

    model = network()
    viewer = Less(model, X)
    with torch.no_grad():
        expected = model(torch.from_numpy(X)).numpy()
    np.testing.assert_allclose(viewer.output, expected, rtol=1e-5, atol=1e-6)
    assert viewer.verify().ok
    for name, does in FEATURE_ACTIONS.items():
        if name != without and without not in FEATURE_DEPENDENCIES.get(name, ()):
            does(viewer)
    with pytest.raises(InputError, match="without"):
        FEATURE_ACTIONS[without](viewer)
    viewer.show("0")
    assert viewer.picture("0").size and "nbglcnn" in viewer.report()
    viewer.close()
