"""nbglcnn.compare: two networks, checkpoints or inputs, layer by layer, against PyTorch."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import nn
from traitlets import TraitError

import nbglcnn
from assertions import assert_equal
from nbglcnn import InputError, ModelError, Viewer, load
from nbglcnn.reference import compute_reference, engine_name
from viewer_models import TwoInputs, autoencoder, hook_values, pictures

LayerValues = dict[str, np.ndarray]


def assert_compares(comparison: Viewer, a: LayerValues, b: LayerValues) -> None:
    """Check that all compared values are PyTorch's of both models, and the table's differences."""
    found = comparison.to_dict()
    changes = {row.layer: row for row in comparison.changes().rows}
    assert set(changes) == set(found) == {name for name, _ in comparison.matched}
    for name, other in comparison.matched:
        assert_equal(found[name].a, a[name], name=name)
        assert_equal(found[name].b, b[other], name=name)
        difference = b[other].astype(np.float64) - a[name]
        largest = float(max(abs(a[name]).max(), abs(b[other]).max()))
        assert abs(found[name].difference - difference).max() <= 2e-5 * largest + 1e-6
        near = pytest.approx
        row, mean = changes[name], abs(difference).mean()
        assert row.max_abs == near(abs(difference).max(), rel=1e-4, abs=2e-5 * largest)
        assert row.mean_abs == near(mean, rel=1e-4, abs=2e-5 * largest)
        assert row.relative == near(mean / abs(a[name]).mean(), rel=1e-3, abs=1e-3)
        assert row.ok == (row.max_abs == 0)


@pytest.fixture(scope="module")
def checkpoints() -> Iterator[Viewer]:
    """Two checkpoints on one batch of two pictures."""
    comparison = nbglcnn.compare(autoencoder(3), autoencoder(7), pictures(3))
    yield comparison
    comparison.close()


def test_two_checkpoints_are_compared_layer_by_layer(checkpoints: Viewer) -> None:
    a, b = (hook_values(autoencoder(seed), pictures(3)) for seed in (3, 7))
    assert_compares(checkpoints, a, b)
    assert {name for name, _ in checkpoints.matched} == a.keys() - {"input"}
    assert checkpoints.unmatched == ((), ())
    one = checkpoints["encoder.2"]
    assert_equal(one.b - one.a, one.difference)
    assert_equal(checkpoints.activations["A.encoder.2"], one.a)
    assert_equal(checkpoints.activations["difference.encoder.2"], one.difference)
    report = checkpoints.changes()
    assert not report.ok and report.first_diverging == "encoder.0"
    with pytest.raises(KeyError, match=r"'encoder\.9' is not a value .* near: 'encoder\.\d'"):
        checkpoints["encoder.9"]


def test_both_sides_are_verified_against_pytorch(checkpoints: Viewer) -> None:
    report = checkpoints.verify()
    assert report.ok, report
    assert {row.layer for row in report.rows} == {
        f"{side}.{name}" for side in "AB" for name, _ in checkpoints.matched
    }


def test_the_reference_knows_the_differences_too(checkpoints: Viewer) -> None:
    graph, arrays = load.load(checkpoints.network.loaded_model)
    known = compute_reference(checkpoints.network.loaded_model, graph, arrays)
    found = checkpoints.activations.to_dict()
    assert set(known) == set(found)
    for key, value in known.items():
        np.testing.assert_allclose(found[key], value, rtol=2e-4, atol=2e-5, err_msg=key)
    some = compute_reference(checkpoints.network.loaded_model, graph, arrays, ["difference.output"])
    assert set(some) > {"difference.output"}
    assert_equal(some["difference.output"], known["difference.output"])
    assert engine_name(checkpoints.network.loaded_model).startswith("PyTorch 2.")


def test_python_turns_the_page_to_a_layer_that_is_compared(checkpoints: Viewer) -> None:
    assert checkpoints.view["name"] == "compare"
    checkpoints.show("encoder.2", 4)
    assert checkpoints.view["name"] == "compare"
    assert checkpoints.selected == {"layer": "difference.encoder.2", "channel": 4}
    checkpoints.show("A.encoder.2")
    assert checkpoints.view["name"] == "maps" and checkpoints.selected["layer"] == "A.encoder.2"
    with pytest.raises(KeyError):
        checkpoints.show("encoder.9")
    checkpoints.show()
    assert checkpoints.view["name"] == "compare"
    alone = Viewer(nn.Conv2d(1, 2, 3).eval(), pictures(3))
    with pytest.raises(TraitError, match="unknown view 'compare'"):
        alone.show(view="compare")
    alone.close()


def test_one_input_serves_both(checkpoints: Viewer) -> None:
    checkpoints.input = pictures(5)
    a, b = (hook_values(autoencoder(seed), pictures(5)) for seed in (3, 7))
    assert_compares(checkpoints, a, b)
    checkpoints.input = pictures(3)


def test_b_gets_other_weights_and_a_keeps_its_own(checkpoints: Viewer) -> None:
    checkpoints.load_state_dict(autoencoder(11).state_dict())
    a, b = (hook_values(autoencoder(seed), pictures(3)) for seed in (3, 11))
    assert_compares(checkpoints, a, b)
    assert checkpoints.verify().ok
    with pytest.raises(InputError, match=r"missing: B\.encoder\.0\.weight"):
        checkpoints.load_state_dict({})
    checkpoints.load_state_dict(autoencoder(7).state_dict())


def test_two_inputs_of_one_model_share_its_weights() -> None:
    model = autoencoder(3)
    alone = Viewer(model, pictures(3))
    comparison = nbglcnn.compare(model, model, pictures(3), pictures(4))
    assert_compares(comparison, hook_values(model, pictures(3)), hook_values(model, pictures(4)))
    convolutions = [
        sum(weight.recipe.packer == "conv" for weight in one.network.plan.header.weights)
        for one in (alone, comparison)
    ]
    assert convolutions[0] == convolutions[1] > 0
    assert [array.shape for array in comparison.input] == [(2, 1, 22, 18)] * 2
    comparison.input = (pictures(5), pictures(5))
    assert comparison.changes().ok
    with pytest.raises(InputError, match="A and B share their weights"):
        comparison.load_state_dict(model.state_dict())
    comparison.close()
    comparison = nbglcnn.compare(model, model, pictures(3), pictures(3))
    assert len(comparison.input) == 2  # equal, but x_b was given explicitly
    comparison.close()
    # A Viewer can replace an input; equal weights are detected.
    other = Viewer(model, pictures(6))
    comparison = nbglcnn.compare(alone, other)
    other.input = pictures(7)  # after compare: no effect
    assert_compares(comparison, hook_values(model, pictures(3)), hook_values(model, pictures(6)))
    shared = sum(w.recipe.packer == "conv" for w in comparison.network.plan.header.weights)
    assert shared == convolutions[0]
    for one in (comparison, alone, other):
        one.close()


def test_a_viewer_before_and_after_is_two_runs() -> None:
    viewer = Viewer(autoencoder(3), pictures(3))
    comparison = nbglcnn.compare(viewer, autoencoder(7).state_dict(), titles=("old", "new"))
    assert_compares(comparison, *(hook_values(autoencoder(seed), pictures(3)) for seed in (3, 7)))
    assert comparison.network.plan.header.comparison.titles == ("old", "new")
    comparison.close()
    before = viewer.input
    viewer.load_state_dict(autoencoder(7).state_dict())
    comparison = nbglcnn.compare(autoencoder(3), viewer)  # uses the Viewer's input
    assert_equal(comparison.input, before)
    assert_compares(comparison, *(hook_values(autoencoder(seed), pictures(3)) for seed in (3, 7)))
    comparison.close()
    viewer.close()


class PlainNet(nn.Module):
    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 4, 3, padding=1)
        self.body = nn.Sequential(*layers)
        self.last = nn.Conv2d(4, 2, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.body(self.first(x)))


def conv3x3() -> nn.Module:
    return nn.Conv2d(4, 4, 3, padding=1)


def test_two_architectures_are_matched_by_name_then_by_order_and_shape() -> None:
    torch.manual_seed(0)
    x = np.random.default_rng(0).normal(size=(1, 1, 6, 5)).astype("float32")
    a = PlainNet(conv3x3(), nn.ReLU(), conv3x3(), nn.Tanh()).eval()
    b = PlainNet(conv3x3(), nn.ReLU(), nn.BatchNorm2d(4), nn.MaxPool2d(3, 1), nn.Upsample((6, 5)))
    b.last = nn.Sequential(nn.Conv2d(4, 2, 3))
    b.eval()
    comparison = nbglcnn.compare(a, b, x)
    pairs = dict(comparison.matched)
    assert pairs.pop("body.2") == "body.2"  # same name and shape: a Conv2d and a BatchNorm2d
    assert pairs.pop("body.3") == "body.4"  # same shape, between others: a Tanh and an Upsample
    same = {"first", "body.0", "body.1", "body", "last", "output"}
    assert pairs == {name: name for name in same}
    assert comparison.unmatched == ((), ("body.3", "last.0"))
    assert_compares(comparison, hook_values(a, x), hook_values(b, x))
    comparison.close()


def test_an_onnx_file_is_compared_with_the_model_it_came_from(tmp_path) -> None:  # type: ignore[no-untyped-def]
    model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Conv2d(3, 2, 3)).eval()
    x = pictures(3, 1)
    file = tmp_path / "model.onnx"
    torch.onnx.export(model, (torch.from_numpy(x),), file, dynamo=True, verbose=False)
    comparison = nbglcnn.compare(model, str(file), x)
    names = [name for name, _ in comparison.matched]
    assert names == ["0", "1", "2", "output"]
    changes = comparison.changes()
    assert changes.ok, changes
    assert comparison["2"].difference.shape == (1, 2, 18, 14)
    comparison.close()


def test_observe_keeps_only_what_is_named() -> None:
    options = {"observe": ["encoder.4"], "precision": "float16", "height": 300}
    comparison = nbglcnn.compare(autoencoder(3), autoencoder(7), pictures(3), **options)
    assert [name for name, _ in comparison.matched] == ["encoder.4"]
    assert comparison.unmatched == ((), ())  # layers left out by `layers` have partners too
    assert set(comparison.activations) == {
        "A.encoder.4", "B.encoder.4", "difference.encoder.4", "differences",
        "A.output", "B.output",
    }  # fmt: skip
    a, b = (hook_values(autoencoder(seed), pictures(3))["encoder.4"] for seed in (3, 7))
    np.testing.assert_allclose(comparison["encoder.4"].difference, b - a, atol=0.01)
    (row,) = comparison.changes().rows
    assert row.mean_abs == pytest.approx(abs(b - a).mean(), rel=0.02)
    assert comparison.height == 300
    comparison.close()
    with pytest.raises(
        KeyError, match=r"observe: 'encoder\.7' is not a layer of both models \(near: encoder\.\d"
    ):
        nbglcnn.compare(autoencoder(3), autoencoder(7), pictures(3), observe=["encoder.7"])
    a = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Conv2d(2, 3, 1)).eval()
    with pytest.raises(ModelError, match="outputs of A and B have different shapes"):
        nbglcnn.compare(a, a[:1], pictures(3), observe="outputs")


class SpecialValues(nn.Module):
    """A value without a batch axis, integers, NaN."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = x * self.factor
        return {"all": y.sum(), "place": y.argmin(1), "root": y.sqrt(), "zero": y * 0}


def test_numbers_without_a_batch_whole_ones_and_nan_are_compared_as_they_are() -> None:
    x = np.array([[1, 4, 9], [3, 2, -1]], np.float32)
    comparison = nbglcnn.compare(SpecialValues(1.0), SpecialValues(-1.0), x)
    found = comparison.to_dict()
    total, place, root = (found[f"output['{name}']"] for name in ("all", "place", "root"))
    assert (total.a, total.b, total.difference) == (18, -18, -36)
    np.testing.assert_array_equal(place.difference, place.b - place.a)
    assert place.a.dtype == np.int64 and place.difference.dtype == np.float32
    assert np.isnan(root.difference).all()
    rows = {row.layer: row for row in comparison.changes().rows}
    assert rows["output['all']"].max_abs == 36 and rows["output['all']"].relative == 2
    assert np.isnan(rows["output['root']"].max_abs) and not rows["output['root']"].ok
    assert rows["output['zero']"].relative == 0 and rows["output['zero']"].ok
    comparison.close()


def test_a_layer_that_is_zero_in_a_alone_differs_without_bound() -> None:
    a, b = (nn.Sequential(nn.Conv2d(1, 2, 1), nn.ReLU()).eval() for _ in "ab")
    with torch.no_grad():
        for model, bias in ((a, -1.0), (b, 2.0)):
            model[0].weight.zero_()
            model[0].bias.fill_(bias)
    comparison = nbglcnn.compare(a, b, np.zeros((1, 1, 3, 3), np.float32))
    rows = {row.layer: row for row in comparison.changes().rows}
    comparison.close()
    assert (rows["0"].mean_abs, rows["0"].relative) == (3, 3)
    assert (rows["1"].mean_abs, rows["1"].relative) == (2, np.inf) and not rows["1"].ok


def test_several_inputs_are_those_of_a_then_those_of_b() -> None:
    model = TwoInputs().eval()
    rng = np.random.default_rng(1)
    one, other = (
        tuple(rng.normal(size=(1, channels, 5, 5)).astype("float32") for channels in (2, 3))
        for _ in range(2)
    )
    comparison = nbglcnn.compare(model, model, one, other)
    assert [array.shape[1] for array in comparison.input] == [2, 3, 2, 3]
    with torch.no_grad():
        a, b = (model(*map(torch.from_numpy, x))[1].numpy() for x in (one, other))
    assert_equal(comparison["output[1]"].difference, b - a)
    assert_equal(comparison["noise"].difference, other[1] - one[1])
    comparison.close()


def test_what_cannot_be_compared_says_why(checkpoints: Viewer) -> None:
    small = nn.Conv2d(1, 2, 3).eval()
    with pytest.raises(ModelError, match=r"can't be compared: .* outputs are \(2, 1, 22, 18\)"):
        nbglcnn.compare(autoencoder(3), small, pictures(3))
    with pytest.raises(InputError, match="A's input has 2 examples, B's 1"):
        nbglcnn.compare(small, small, pictures(3), pictures(3, 1))
    with pytest.raises(InputError, match=r"\(1, 1, 5, 5\) and \(1, 1, 6, 5\) can't be compared"):
        nbglcnn.compare(small, small, np.zeros((1, 1, 5, 5)), np.zeros((1, 1, 6, 5)))
    with pytest.raises(InputError, match="needs an example input"):
        nbglcnn.compare(small, small)
    with pytest.raises(ModelError, match="a comparison is not a model"):
        nbglcnn.compare(checkpoints, small, pictures(3))
    for titles in ("AB", ("A",), 3):
        with pytest.raises(InputError, match=r"titles=.*; expected two strings, as"):
            nbglcnn.compare(small, small, pictures(3), titles=titles)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="float is not a model"):
        nbglcnn.compare(small, 3.0, pictures(3))
    with pytest.raises(InputError, match=r"unexpected: wait .*near: weight"):
        nbglcnn.compare(small, {"wait": 1, "bias": small.bias}, pictures(3))
