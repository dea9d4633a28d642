"""Patches of weight textures: a few changed numbers, without packing the whole network again."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import nn

import nbglcnn
from assertions import assert_equal
from nbglcnn import InputError, Viewer, load
from nbglcnn.graph import Graph
from nbglcnn.lowering import lower
from nbglcnn.lowering.weight_patches import apply_patch, changed_elements, make_patches
from nbglcnn.plan.schema import Plan
from nbglcnn.widget.network import Network
from viewer_models import autoencoder, hook_values, pictures

IMAGES = np.random.default_rng(3).standard_normal((2, 6, 8, 10)).astype(np.float32)


class EveryPacking(nn.Module):
    """Every form in which a parameter is packed."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(6, 10, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(10, eps=2**-16)
        self.grouped = nn.Conv2d(10, 10, 3, padding=1, groups=5)
        self.depthwise = nn.Conv2d(10, 10, (1, 3), padding=(0, 1), groups=10)
        self.up = nn.ConvTranspose2d(10, 12, 2, stride=2, groups=2)
        self.alone = nn.BatchNorm2d(12)
        self.scale = nn.Parameter(torch.randn(1, 12, 1, 20))
        self.tokens = nn.Linear(20, 7)
        self.matrix = nn.Parameter(torch.randn(12 * 16 * 7, 5) / 30)
        self.last = nn.Linear(5, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm(self.conv(x)))
        x = self.up(self.depthwise(self.grouped(x)))
        x = torch.relu(self.alone(torch.relu(x)) * self.scale)
        return self.last(self.tokens(x).flatten(1) @ self.matrix)


def make_every_packing() -> nn.Module:
    torch.manual_seed(8)
    model = EveryPacking().eval()
    for norm in (model.norm, model.alone):
        nn.init.uniform_(norm.running_var, 0.5, 2)
        nn.init.uniform_(norm.running_mean, -1, 1)
        nn.init.uniform_(norm.weight, 0.5, 2)
        nn.init.uniform_(norm.bias, -1, 1)
    return model


def float_parameters(graph: Graph) -> dict[str, np.ndarray]:
    """The float parameters, by name."""
    found = {name: graph.values[value].data for name, value in graph.parameters.items()}
    return {name: data for name, data in found.items() if data is not None and data.ndim}


def assert_patched(plan: Plan, old: Graph, new: Graph) -> int:
    """Check that patches turn the old textures into repacked ones; return the patches' bytes."""
    found = make_patches(plan, old, new, changed_elements(old, new))
    assert found is not None
    expected = lower.repack_weights(plan, new)
    for before, after in zip(plan.header.weights, expected.header.weights, strict=True):
        contents = plan.blobs[before.hash].copy()
        for patch in found:
            if patch.texture == before.texture:
                apply_patch(patch, contents)
        assert contents.tobytes() == expected.blobs[after.hash].tobytes()
    return sum(patch.data.nbytes for patch in found)


@pytest.mark.parametrize("observe", ["all", "outputs"])
def test_a_patch_makes_what_packing_anew_makes(observe: str) -> None:
    graph, _ = load.load(make_every_packing(), IMAGES)
    plan = lower.lower(graph, observe=observe)
    rng = np.random.default_rng(1)
    for name, data in float_parameters(graph).items():
        for places in (rng.integers(data.size, size=1), rng.integers(data.size, size=5)):
            index = np.unravel_index(places, data.shape)
            changed = load.replace_elements(graph, name, index, data[index] + 0.5)
            assert_patched(plan, graph, changed)


@pytest.mark.parametrize(("inputs", "outputs"), [(4100, 9), (3, 4 * 4096 + 5)])
def test_kernels_in_several_parts_and_layers_are_patched_in_place(
    inputs: int, outputs: int
) -> None:
    torch.manual_seed(1)
    graph, _ = load.load(nn.Linear(inputs, outputs).eval(), np.zeros((1, inputs), np.float32))
    plan = lower.lower(graph)
    for at in ((0, 0), (outputs - 1, inputs - 1), (outputs // 2, inputs // 2)):
        assert assert_patched(plan, graph, load.replace_elements(graph, "weight", at, 7.0)) == 16


def test_one_number_is_one_texel_and_folded_values_follow() -> None:
    graph, _ = load.load(make_every_packing(), IMAGES)
    plan = lower.lower(graph)
    one = load.replace_elements(graph, "conv.weight", (9, 5, 2, 1), 3.0)
    assert assert_patched(plan, graph, one) == 16
    # In a folded kernel a variance scales the weights of one output: 3×3 taps of 6 inputs, and a
    # shift.
    folded = lower.lower(graph, observe="outputs")
    assert any(len(w.recipe.sources) == 3 for w in folded.header.weights)
    variance = load.replace_elements(graph, "norm.running_var", 9, 4.0)
    assert assert_patched(folded, graph, variance) == 16 * (9 * 6 + 1)


@pytest.mark.parametrize("observe", ["all", "outputs"])
def test_a_number_of_each_group_of_a_transposed_convolution_is_patched(observe: str) -> None:
    torch.manual_seed(2)
    # Groups that fill whole texels, whose kernel is packed like a convolution's.
    model = nn.ConvTranspose2d(8, 8, 2, stride=2, groups=2).eval()
    graph, _ = load.load(model, np.zeros((1, 8, 3, 5), np.float32))
    plan = lower.lower(graph, observe=observe)
    assert any(
        weight.recipe.packer == "conv" and weight.recipe.sources == ("weight",)
        for weight in plan.header.weights
    )
    for at in ((0, 0, 0, 0), (3, 3, 1, 1), (4, 0, 0, 0), (7, 3, 1, 1)):
        assert assert_patched(plan, graph, load.replace_elements(graph, "weight", at, 7.0)) == 16


def test_minus_zero_and_nan_are_other_numbers() -> None:
    graph, _ = load.load(make_every_packing(), IMAGES)
    zero = load.replace_elements(graph, "conv.weight", (0, 0, 0, 0), 0.0)
    plan = lower.lower(zero)
    assert assert_patched(
        plan, zero, load.replace_elements(zero, "conv.weight", (0, 0, 0, 0), -0.0)
    )
    assert assert_patched(
        plan, zero, load.replace_elements(zero, "conv.weight", (0, 0, 0, 0), np.nan)
    )
    assert load.replace_elements(zero, "conv.weight", (0, 0, 0, 0), 0.0) is zero


def test_repack_packs_only_what_was_made_of_changed_values() -> None:
    graph, _ = load.load(make_every_packing(), IMAGES)
    plan = lower.lower(graph)
    new = load.replace_elements(graph, "up.weight", (3, 2), 1.0)
    changed = changed_elements(graph, new)
    found, expected = (
        lower.repack_weights(plan, new, changed.keys()),
        lower.repack_weights(plan, new),
    )
    assert found.header == expected.header
    for old, now in zip(plan.header.weights, found.header.weights, strict=True):
        touched = "up.weight" in old.recipe.sources
        assert (old.hash != now.hash) == touched
        assert touched or found.blobs[now.hash] is plan.blobs[old.hash]


@pytest.mark.parametrize("wrong", [((99, 0, 0, 0), 1.0), ((0, 0), np.ones(5)), ("a", 1.0)])
def test_numbers_that_do_not_fit_are_refused(wrong: tuple[object, object]) -> None:
    graph, _ = load.load(make_every_packing(), IMAGES)
    with pytest.raises(InputError, match=r"conv\.weight has the shape \(10, 6, 3, 3\)"):
        load.replace_elements(graph, "conv.weight", *wrong)
    with pytest.raises(KeyError, match=r"conv\.weight"):
        load.replace_elements(graph, "conv.wieght", 0, 1.0)


@pytest.fixture
def network() -> Iterator[Network]:
    made = Network(autoencoder(7), pictures(7), observe="all", precision="float32")
    yield made
    made.local.close()


def computed_values(network: Network) -> dict[str, np.ndarray]:
    keys = network.plan.computed
    return dict(zip(keys, network.compute_values(keys), strict=True))


def test_a_session_takes_patches_and_new_weights_after_them(network: Network) -> None:
    model = autoencoder(7)
    before = computed_values(network)
    name, weight = next((n, w) for n, w in model.named_parameters() if w.ndim == 4)
    index = (1, 0, 2, 1)
    old = weight[index].item()
    assert len(network.patch_parameter(name, index, 5.0)) == 1
    with torch.no_grad():
        weight[index] = 5.0
    expected = hook_values(model, pictures(7))
    for key, value in computed_values(network).items():
        assert_equal(value, expected[key], name=key)
    # The hashes equal those of the initial weights, although the texture differs.
    assert network.merge_weight_patches() and not network.patches
    network.patch_parameter(name, index, old)
    for key, value in computed_values(network).items():
        assert value.tobytes() == before[key].tobytes()
    network.patch_parameter(name, index, 6.0)
    computed_values(network)
    network.patch_parameter(name, index, old)
    assert network.merge_weight_patches()
    for key, value in computed_values(network).items():
        assert value.tobytes() == before[key].tobytes()


def test_weights_that_a_session_had_before_a_patch_come_back() -> None:
    graph, _ = load.load(make_every_packing(), IMAGES)
    plan = lower.lower(graph)
    with nbglcnn.Session(plan) as session:
        before = session.run(IMAGES)
        changed = load.replace_elements(graph, "conv.weight", (1, 0, 2, 1), 5.0)
        found = make_patches(plan, graph, changed, changed_elements(graph, changed))
        assert found is not None
        session.patch(found)
        assert any(session.run(IMAGES)[key].tobytes() != before[key].tobytes() for key in before)
        session.replace_weights(lower.repack_weights(plan, graph))
        for key, value in session.run(IMAGES).items():
            assert value.tobytes() == before[key].tobytes()


def test_hashes_after_patches_are_those_of_a_fresh_network(network: Network) -> None:
    model = autoencoder(7)
    state = {n: v.clone() for n, v in model.state_dict().items()}
    names = [n for n, v in state.items() if v.ndim == 4]
    for name in names:
        state[name].view(-1)[3] += 1
    assert len(network.load_state_dict(state)) == len(names)
    model.load_state_dict(state)
    fresh = nbglcnn.compile(model, pictures(7), observe="all")
    network.build_manifest()
    assert not network.patches
    assert [w.hash for w in network.plan.header.weights] == [w.hash for w in fresh.header.weights]


def test_a_plan_that_cannot_hold_patched_numbers_is_compiled_again() -> None:
    network = Network(make_every_packing(), IMAGES, observe="outputs", precision="float32")
    old = network.plan.hash
    network.patch_parameter("conv.weight", (0, 0, 0, 0), 1.0)
    assert (
        network.patch_parameter("norm.running_var", 3, -(2**-16)) == [] and network.plan.hash != old
    )
    assert not network.merge_weight_patches()  # compiled with all earlier patches


def test_a_viewer_without_a_page_follows_single_numbers() -> None:
    model = autoencoder(7)
    viewer = Viewer(model, pictures(7))
    changed = autoencoder(7)
    with torch.no_grad():
        next(p for p in changed.parameters() if p.ndim == 1)[0] += 2
    viewer.load_state_dict(changed.state_dict())
    assert len(viewer.network.patches) >= 1
    assert_equal(viewer.output, hook_values(changed, pictures(7))["output"])
    viewer.close()
