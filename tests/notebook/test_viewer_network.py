"""A Viewer's network without pages: its cached parts, their owners, and when they are rebuilt."""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from traitlets import TraitError

from nbglcnn import InputError, Viewer, transforms
from nbglcnn.features.edits.records import Edit
from nbglcnn.features.edits.weight_log import WeightLog, make_weight_edit
from nbglcnn.features.teaching.feature_vectors import FeatureExtractor
from nbglcnn.features.teaching.host import NO_TEACHING_MESSAGE
from nbglcnn.features.training.host import NO_TRAINING_MESSAGE
from nbglcnn.plan.schema import Patch
from nbglcnn.protocol import MAX_COMPARED_CHANNELS
from nbglcnn.widget import network as networks
from nbglcnn.widget import parity, snapshot
from nbglcnn.widget.network import Network
from nbglcnn.widget.traits import validate_selection, validate_view


def make_model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(60, 4)).eval()


X = np.random.default_rng(0).random((2, 1, 6, 7)).astype(np.float32)


@pytest.fixture
def network() -> Iterator[Network]:
    found = Network(make_model(), X, observe="all", precision="float32")
    yield found
    found.local.close()


def torch_output(model: nn.Module, x: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        return np.asarray(model(torch.from_numpy(x)))


def network_output(network: Network) -> np.ndarray:
    return network.compute_values(["output"])[0]


def test_values_follow_input_weights_and_edits_and_are_computed_once_each(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[int] = []
    network_output(network)
    session = network.local._session
    assert session is not None
    run = session.run
    monkeypatch.setattr(session, "run", lambda x: runs.append(1) or run(x))
    model = make_model()
    np.testing.assert_allclose(network_output(network), torch_output(model, X), atol=1e-5)
    network_output(network)[:] = 0  # a copy
    np.testing.assert_allclose(network_output(network), torch_output(model, X), atol=1e-5)
    assert len(runs) == 0, "it was there"
    for change in range(2):
        other = X * (2 + change)
        network.set_input(other)
        np.testing.assert_allclose(network_output(network), torch_output(model, other), atol=1e-5)
        network_output(network)
        assert len(runs) == change + 1
    with torch.no_grad():
        model[3].bias[1] = 5
    network.patch_parameter("3.bias", 1, 5.0)
    np.testing.assert_allclose(network_output(network), torch_output(model, other), atol=1e-5)
    with torch.no_grad():
        model[3].bias[2] = -5
    network.patch_parameter("3.bias", 2, -5.0)  # a second patch on top of the first
    np.testing.assert_allclose(network_output(network), torch_output(model, other), atol=1e-5)
    edit = Edit(layer="3", name="a", transform="multiply", parameters=(2.0,))
    network.set_edits([edit], {})
    np.testing.assert_allclose(network_output(network), 2 * torch_output(model, other), atol=1e-5)
    before = network.compute_values(["output"], before_edits=True)[0]
    network.set_edits([], {})
    np.testing.assert_allclose(network_output(network), torch_output(model, other), atol=1e-5)
    assert len(runs) == 6
    assert before.shape == (2, 4)


def test_patches_of_few_bytes_stay_patches_and_then_all_is_hashed_again(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert networks.MAX_PATCH_BYTES == 2**22
    one = network.patch_parameter("3.bias", 0, 1.0)
    size = sum(patch.data.nbytes for patch in one)
    assert network.patches == one and size > 0
    monkeypatch.setattr(networks, "MAX_PATCH_BYTES", 2 * size)
    plan = network.plan
    two = network.patch_parameter("3.bias", 0, 2.0)
    assert network.patches == [*one, *two] and network.plan is plan, "at the limit"
    assert network.patch_parameter("3.bias", 0, 3.0) == []
    assert network.patches == [] and network.plan is not plan
    assert network.plan.hash == plan.hash
    assert network.graph.values[network.graph.parameters["3.bias"]].data[0] == 3
    assert not network.merge_weight_patches()
    assert network.patch_parameter("3.bias", 0, 4.0) and network.merge_weight_patches()
    np.testing.assert_allclose(network_output(network)[:, 0] - 4,
                               torch_output(make_model(), X)[:, 0]
                               - make_model()[3].bias[0].item(), atol=1e-5)  # fmt: skip


def test_a_snapshot_is_kept_for_its_example_size_and_network(network: Network) -> None:
    def drawn(example: int, most: int = 50_000) -> bytes:
        return network.snapshot(example, most)

    first = drawn(0)
    assert drawn(0) is first
    other = drawn(1)
    assert other != first and drawn(0) == first
    small = drawn(0, 2_000)
    assert len(small) < len(first) and drawn(0) == first
    network.set_input(X[::-1].copy())
    assert drawn(0) != first
    network.set_input(X)
    kept = drawn(0)
    network.set_edits([Edit(layer="0", name="a", transform="invert")], {})
    assert drawn(0) != kept


def test_a_snapshot_grows_smaller_until_it_fits_or_is_tiny(network: Network) -> None:
    keys = [value.key for value in snapshot.snapshot_values(network.plan)]
    values = dict(zip(keys, network.compute_values(keys), strict=True))

    def size(most: int) -> int:
        return len(snapshot.draw_snapshot(network.plan, values, 0, "a GPU", most))

    largest = size(10**6)
    assert size(largest) == largest
    assert 1 < size(1) <= size(largest - 1) < largest
    chosen = snapshot.snapshot_values(network.plan)
    assert len(chosen) <= snapshot.MAX_PICTURES
    deep = nn.Sequential(*(nn.ReLU() for _ in range(12))).eval()
    many = Network(deep, X, observe="all", precision="float32")
    found = [value.key for value in snapshot.snapshot_values(many.plan)]
    assert len(found) == snapshot.MAX_PICTURES == 7
    assert found[0] == "input" and found[-1] == "output"


def test_the_name_of_weights_follows_each_number_and_parameter(network: Network) -> None:
    def name(of: Network, layer: str = "0") -> str:
        return FeatureExtractor(of, layer).weights_hash

    first = name(network)
    network.patch_parameter("0.bias", 2, 0.25)
    second = name(network)
    assert second != first
    other = Network(make_model(), X * 2, observe="all", precision="float32")
    assert name(other) == first, "whatever the input is"
    named = nn.Sequential(OrderedDict(zip("abcd", make_model().children(), strict=True)))
    assert name(Network(named, X, observe="all", precision="float32"), "a") != first
    network.load_state_dict(make_model().state_dict())
    assert name(network) == first
    features = FeatureExtractor(network, "0")
    before = features.weights_hash
    network.patch_parameter("3.weight", (0, 59), 1.0)
    assert features.weights_hash != before


def test_features_are_computed_with_the_edits_of_now(network: Network) -> None:
    network = Network(make_model(), X[:1], observe="all", precision="float32")
    features = FeatureExtractor(network, "0")
    pictures = (X[1:] * 255).astype(np.uint8)
    plain = features.compute(pictures)
    now = features.current_version()
    assert features.is_current(now) and now.edits == ""
    network.set_edits([Edit(layer="0", name="a", transform="multiply", parameters=(3.0,))], {})
    np.testing.assert_allclose(features.compute(pictures), 3 * plain, rtol=1e-5)
    assert not features.is_current(now) and features.is_current(features.current_version())
    # A bend of another layer needs another Plan; a disabled bend doesn't.
    network.set_edits([Edit(layer="input", name="b", transform="invert")], {})
    x = torch.from_numpy(1 - pictures.astype(np.float32) / 255)
    with torch.no_grad():
        expected = make_model()[0](x).flatten(1).numpy()
    np.testing.assert_allclose(features.compute(pictures), expected, atol=1e-5)
    network.set_edits([Edit(layer="input", name="b", transform="invert", enabled=False)], {})
    assert features.is_current(now)
    np.testing.assert_allclose(features.compute(pictures), plain, rtol=1e-5)


class PatchRecorder:
    """A WeightLog of a network, and the patches that it reports."""

    def __init__(self, network: Network) -> None:
        self.patches: list[list[Patch]] = []
        self.network = network
        self.log = WeightLog(network, self.patches.append)

    def weight_value(self, name: str = "3.bias", index: Any = 0) -> float:
        graph = self.network.graph
        data = graph.values[graph.parameters[name]].data
        assert data is not None
        return float(data[index])


def test_edits_of_weights_go_back_and_forth_in_their_order(network: Network) -> None:
    made_ = PatchRecorder(network)
    log, first = made_.log, made_.weight_value()
    for number in (1.0, 2.0, 3.0):
        log.set_applied_count(log.add("3.bias", 0, number))
    assert (made_.weight_value(), log.applied_count, len(made_.patches)) == (3, 3, 3)
    log.set_applied_count(1)
    assert (made_.weight_value(), log.applied_count) == (1, 1)
    log.set_applied_count(0)
    assert made_.weight_value() == pytest.approx(first)
    log.set_applied_count(3)
    assert made_.weight_value() == 3
    with pytest.raises(InputError, match="4 weight edits were requested; 3 are kept"):
        log.set_applied_count(4)
    log.set_applied_count(2)
    assert log.add("3.bias", 0, 9.0) == 3, "what was undone is forgotten"
    log.set_applied_count(3)
    assert made_.weight_value() == 9
    log.set_applied_count(2)
    assert made_.weight_value() == 2


def test_a_drag_replaces_its_own_last_edit_alone(network: Network) -> None:
    made_ = PatchRecorder(network)
    log, first = made_.log, made_.weight_value()
    assert not log.replace("3.bias", 0, 1.0), "there is none"
    log.set_applied_count(log.add("3.bias", 0, 1.0))
    assert log.replace("3.bias", 0, 2.0) and made_.weight_value() == 2
    assert not log.replace("3.bias", 1, 2.0)
    assert not log.replace("0.bias", 0, 2.0)
    assert log.applied_count == 1
    log.set_applied_count(0)
    assert made_.weight_value() == pytest.approx(first), "the first of the drag"
    assert not log.replace("3.bias", 0, 5.0), "it is not made"
    log.set_applied_count(1)
    assert made_.weight_value() == 2
    log.add("3.bias", 1, 7.0)
    log.discard_unapplied()
    with pytest.raises(InputError):
        log.set_applied_count(2)
    log.clear()
    assert log.applied_count == 0 and made_.weight_value() == 2
    log.set_applied_count(0)
    assert made_.weight_value() == 2


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (float("nan"), "finite"),
        (float("inf"), "finite"),
        (1e39, "out of range for float32"),
        ("a", "expected numbers"),
        ([1.0, 2.0, 3.0], "shape"),
    ],
)
def test_numbers_that_a_weight_cannot_hold_are_refused(
    network: Network, value: Any, words: str
) -> None:
    log = PatchRecorder(network).log
    with pytest.raises(InputError, match=words):
        log.add("3.bias", slice(0, 2), value)
    assert log.add("3.bias", slice(0, 2), 3e38) == 1


def test_the_stretches_of_a_value_are_its_beginning_its_end_and_two_between() -> None:
    def bands(count: int) -> list[tuple[int, int, int]]:
        model = nn.ReLU().eval()
        plan = Network(model, np.zeros((1, count), np.float32), observe="all",
                       precision="float32").plan  # fmt: skip
        [value] = [one for one in plan.values if one.kind == "output"]
        found = parity.value_spans(value)
        flat = np.arange(count)
        picked = parity.take_spans(value, flat, found)
        assert picked[0] == 0 and picked[-1] == count - 1
        return [(x + y * value.readback.draw_pass.viewport[0], x, width) for x, y, width in found]

    assert bands(1) == [(0, 0, 1)]
    assert bands(4 * parity.SPAN_TEXELS) == [(0, 0, 64)]
    more = bands(4 * parity.SPAN_TEXELS + 1)
    assert more[0][0] == 0 and more[-1][0] == 1, "the last element is looked at"
    far = bands(4 * 1000)
    assert [start for start, _, _ in far] == [0, 312, 624, 936]
    assert len(far) == parity.SPANS_PER_VALUE


def test_of_many_values_the_first_1024_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    assert parity.MAX_VALUES == 1024
    plan = Network(make_model(), X, observe="all", precision="float32").plan
    count = len(plan.computed)
    monkeypatch.setattr(parity, "MAX_VALUES", count)
    assert list(parity.plan_spans(plan)) == list(plan.computed)
    monkeypatch.setattr(parity, "MAX_VALUES", count - 1)
    assert list(parity.plan_spans(plan)) == list(plan.computed)[:-1]


def test_samples_of_another_count_are_none(network: Network) -> None:
    plan = network.plan
    total = sum(4 * width for bands in parity.plan_spans(plan).values() for _, _, width in bands)
    found = parity.split_samples(plan, np.arange(total, dtype=np.float32))
    assert found is not None and set(found) == set(plan.computed)
    assert parity.split_samples(plan, np.zeros(total - 1, np.float32)) is None
    assert parity.split_samples(plan, np.zeros(total + 4, np.float32)) is None


def test_names_of_edits_differ_where_they_act_otherwise() -> None:
    one = Edit(layer="0", name="a", transform="multiply", parameters=(2.0,))
    off = Edit(layer="0", name="b", transform="invert", enabled=False)
    assert parity.hash_edits([]) == parity.hash_edits([off]) == ""
    assert parity.hash_edits([one]) == parity.hash_edits([one, off])
    others = [
        Edit(layer="1", name="a", transform="multiply", parameters=(2.0,)),
        Edit(layer="0", name="a", transform="multiply", parameters=(2.5,)),
        Edit(layer="0", name="a", transform="multiply", parameters=(2.0,), mix=0.5),
        Edit(layer="0", name="a", transform="multiply", parameters=(2.0,), channels=(0,)),
        Edit(layer="0", name="a", transform="add", parameters=(2.0,)),
    ]
    assert len({parity.hash_edits([edit]) for edit in [one, *others]}) == 6


def test_an_edit_of_an_example_is_of_the_batch(network: Network) -> None:
    """An injected array has the batch's examples, and each example gets its own part."""
    viewer = Viewer(make_model(), X)
    own = np.random.default_rng(2).random((2, 3, 4, 5)).astype(np.float32)
    viewer.inject("0", own)
    viewer.bend("0", transforms.multiply(2.0), channels=[1])
    found = viewer.activations["0"]
    np.testing.assert_allclose(found[:, 1], 2 * own[:, 1], rtol=1e-6)
    np.testing.assert_allclose(found[:, [0, 2]], own[:, [0, 2]], rtol=1e-6)
    viewer.close()


def test_a_view_has_channels_and_pixels_that_are_there(network: Network) -> None:
    def view(**more: Any) -> dict[str, Any]:
        early = {"train": NO_TRAINING_MESSAGE, "teach": NO_TEACHING_MESSAGE}
        return validate_view({"name": "maps", "layer": "0", **more}, network.plan, early)

    assert view(channels=(0, 2))["channels"] == [0, 2]
    assert len(view(channels=[0, 1, 2, 0])["channels"]) == MAX_COMPARED_CHANNELS == 4
    with pytest.raises(TraitError, match="at most 4 channels can be compared, not 5"):
        view(channels=[0, 1, 2, 0, 1])
    for channel in (-1, 3, 1.0, None):
        with pytest.raises(TraitError, match=f"0 has channels 0 to 2, not {channel}"):
            view(channels=[0, channel])
    assert view(pixel=(3, 4))["pixel"] == [3, 4]
    for pixel in ((4, 4), (3, 5), (-1, 0), (0, -1)):
        with pytest.raises(TraitError, match=r"a map of 0 has 4×5 pixels \(y, x\)"):
            view(pixel=pixel)
    for more in ({"channels": [0]}, {"pixel": (0, 0)}):
        with pytest.raises(TraitError, match="need a layer; name it"):
            view(layer=None, **more)
    for name in ("train", "teach"):
        with pytest.raises(TraitError, match=f"the view '{name}' needs a"):
            view(name=name)
    with pytest.raises(TraitError, match="unknown view 'compare'"):
        view(name="compare")
    with pytest.raises(TraitError, match=r"a view is name, layer, channels, pixel, not name.*zoom"):
        view(zoom=2)


def test_a_selection_is_of_a_channel_that_is_there(network: Network) -> None:
    values = network.plan.values
    assert validate_selection(None, values) is None
    for channel in (0, 2, None):
        found = validate_selection({"layer": "0", "channel": channel}, values)
        assert found == {"layer": "0", "channel": channel}
    for channel in (-1, 3, 0.5):
        with pytest.raises(TraitError, match=f"0 has channels 0 to 2, not {channel}"):
            validate_selection({"layer": "0", "channel": channel}, values)
    for wrong in ({"layer": "9"}, {}, {"layer": "0", "pixel": 1}):
        with pytest.raises(TraitError, match="selected: expected a layer of this network"):
            validate_selection(wrong, values)


class AddsOffset(nn.Module):
    """A layer with an integer buffer."""

    offset: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("offset", torch.tensor([1, 2, 3], dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.offset


def test_whole_numbers_stay_whole() -> None:
    graph = Network(AddsOffset(), X[0, 0, :1, :3], observe="all", precision="float32").graph
    assert make_weight_edit(graph, "offset", 1, 7.0).new == 7
    for values in (2.5, [1, 2, 0.5]):
        with pytest.raises(InputError, match=r"offset has the shape .3,. and int.* values"):
            make_weight_edit(graph, "offset", slice(None), values)


def test_the_plan_for_any_device_is_in_the_precision_that_is_asked_for() -> None:
    viewer = Viewer(nn.Conv2d(1, 2, 3).eval(), np.zeros((1, 1, 5, 6), np.float32))
    try:
        assert viewer.network.portable_plan().precision == "float32"
        assert viewer.network.portable_plan("float16").precision == "float16"
        assert viewer.network.portable_plan("float32").precision == "float32"
    finally:
        viewer.close()
