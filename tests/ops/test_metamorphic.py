"""Properties that need no reference: equivalent networks, and the effect of one changed texel."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from numpy.testing import assert_array_equal
from playwright.sync_api import Browser

from assertions import assert_all_equal
from browsers import collect_console_errors
from nbglcnn.load import load
from nbglcnn.lowering.lower import lower
from nbglcnn.plan.schema import Plan
from nbglcnn.runtime.session import Session
from onnx_models import model_of, node
from webgl_page import GlPage

Arrays = dict[str, np.ndarray]
Weights = dict[str, np.ndarray]

# Tolerance for another order of summation: a few float32 roundings, relative to the largest value.
REORDER_RTOL = 2e-6


class PlanRunner:
    """Run Plans on local OpenGL or in a page, each with all its inputs in turn."""

    def __init__(self, page: GlPage | None) -> None:
        self.page = page

    def __call__(self, plan: Plan, *batches: Sequence[np.ndarray]) -> list[Arrays]:
        if self.page is None:
            with Session(plan) as session:
                return [session.run(*arrays) for arrays in batches]
        number = self.page.open(plan)
        found = [self.page.values(number, arrays) for arrays in batches]
        self.page.close(number)
        return found

    def run_model(self, model: Any, *inputs: np.ndarray) -> Arrays:
        graph, arrays = load(model, inputs)
        [values] = self(lower(graph), arrays)
        return values


@pytest.fixture(
    scope="module",
    params=["opengl", pytest.param("swiftshader", marks=pytest.mark.sweep), "llvmpipe"],
)
def runner(
    request: pytest.FixtureRequest,
    browser: Callable[[str], Browser],
    static_site: tuple[str, dict[str, bytes]],
) -> Iterator[PlanRunner]:
    """Local OpenGL, then Chromium; SwiftShader only in `make sweep`, as test_ops.py covers it."""
    if request.param == "opengl":
        yield PlanRunner(None)
        return
    page = browser(request.param).new_page()
    errors = collect_console_errors(page)
    page.goto(static_site[0])
    yield PlanRunner(GlPage(page, static_site[1]))
    page.close()
    assert not errors, errors[:10]


SHAPE = (2, 5, 13, 11)
MAP_COUNT = 10  # the first convolution's


def random_weights(seed: int) -> Weights:
    rng = np.random.default_rng(seed)
    shapes = {
        "w1": (MAP_COUNT, 5, 3, 3), "b1": (MAP_COUNT,), "w2": (6, MAP_COUNT, 3, 3), "b2": (6,),
        "s": (MAP_COUNT,), "o": (MAP_COUNT,), "m": (MAP_COUNT,), "v": (MAP_COUNT,),
        "w3": (6, 3, 2, 2),
    }  # fmt: skip
    made = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    for kernel in ("w1", "w2", "w3"):  # keeps maps near 1
        made[kernel] /= np.sqrt(made[kernel][0].size, dtype=np.float32)
    return made | {"v": np.abs(made["v"]) + np.float32(0.5)}


def network_nodes() -> list[Any]:
    """An encoder and a decoder; `a`, `n`, `r`, `p` have the first convolution's map size."""
    return [
        node("Conv", ["x", "w1", "b1"], ["a"], pads=[1] * 4, strides=[2, 1]),
        node("BatchNormalization", ["a", "s", "o", "m", "v"], ["n"]),
        node("LeakyRelu", ["n"], ["r"], alpha=0.1),
        node("MaxPool", ["r"], ["p"], kernel_shape=[3, 3], pads=[1] * 4),
        node("Conv", ["p", "w2", "b2"], ["c"], dilations=[1, 2]),
        node("ConvTranspose", ["c", "w3"], ["u"], strides=[2, 2]),
        node("Sigmoid", ["u"], ["y"]),
    ]


def make_model(node_list: Sequence[Any], constants: Weights, shape: tuple[int, ...] = SHAPE) -> Any:
    outputs = ["y"]
    return model_of(node_list, {"x": shape}, outputs, constants=constants)


def random_picture(seed: int, shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    return np.random.default_rng(seed + 100).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("place", range(1, 7))
def test_an_inserted_identity_changes_nothing(runner: PlanRunner, place: int, size: int) -> None:
    constants = random_weights(place)
    expected = runner.run_model(make_model(network_nodes(), constants), random_picture(place))
    made = network_nodes()
    value = made[place].input[0]
    channels = expected[value].shape[1]
    kernel = np.zeros((channels, channels, size, size), np.float32)
    kernel[range(channels), range(channels), size // 2, size // 2] = 1
    made[place].input[0] = "same"
    made.insert(place, node("Conv", [value, "id"], ["same"], pads=[size // 2] * 4))
    found = runner.run_model(make_model(made, constants | {"id": kernel}), random_picture(place))
    assert_array_equal(found["same"], expected[value])
    assert_all_equal(expected, found, rtol=REORDER_RTOL)


@pytest.mark.parametrize("seed", range(3))
def test_permuted_channels_give_permuted_maps_and_the_same_picture(
    runner: PlanRunner, seed: int
) -> None:
    constants = random_weights(seed)
    order = np.random.default_rng(seed).permutation(MAP_COUNT)
    permuted = constants | {name: constants[name][order] for name in ("w1", "b1", *"somv")}
    permuted["w2"] = constants["w2"][:, order]
    expected = runner.run_model(make_model(network_nodes(), constants), random_picture(seed))
    found = runner.run_model(make_model(network_nodes(), permuted), random_picture(seed))
    same = {key: v[:, order] if key in "anrp" else v for key, v in expected.items()}
    assert_all_equal(same, found, rtol=REORDER_RTOL)


@pytest.mark.parametrize("first", [1, 4, 7])
def test_a_convolution_split_over_its_input_channels_and_added_is_the_same(
    runner: PlanRunner, first: int
) -> None:
    constants = random_weights(first)
    expected = runner.run_model(make_model(network_nodes(), constants), random_picture(first))
    made = network_nodes()
    whole = made.pop(4)
    assert whole.output[0] == "c"
    options = {"dilations": [1, 2]}
    made[4:4] = [
        node("Split", ["p", "sizes"], ["p1", "p2"], axis=1),
        node("Conv", ["p1", "w21", "b2"], ["c1"], **options),
        node("Conv", ["p2", "w22"], ["c2"], **options),
        node("Add", ["c1", "c2"], ["c"]),
    ]
    parts = {
        "sizes": np.int64([first, MAP_COUNT - first]),
        "w21": constants["w2"][:, :first],
        "w22": constants["w2"][:, first:],
    }
    found = runner.run_model(make_model(made, constants | parts), random_picture(first))
    assert_all_equal(expected, found, rtol=REORDER_RTOL)


@pytest.mark.parametrize("count", [2, 5])
def test_a_batch_gives_what_its_images_give_alone(runner: PlanRunner, count: int) -> None:
    constants, x = random_weights(count), random_picture(count, (count, *SHAPE[1:]))
    together = runner.run_model(make_model(network_nodes(), constants, x.shape), x)
    graph, _ = load(make_model(network_nodes(), constants, (1, *SHAPE[1:])))
    alone = runner(lower(graph), *([x[k : k + 1]] for k in range(count)))
    singles = {key: np.concatenate([one[key] for one in alone]) for key in alone[0]}
    assert_all_equal(together, singles, rtol=REORDER_RTOL)


# Steps with positive weights, so that every change is visible downstream. Each has an ONNX form,
# and a PyTorch form on maps of 0 and 1 that marks the outputs which depend on an input.
OutputMask = torch.Tensor


def _conv(
    feature_map: OutputMask, output_channels: int, size: int, groups: int = 1, **options: Any
) -> OutputMask:
    kernel = torch.ones(output_channels, feature_map.shape[1] // groups, size, size)
    return F.conv2d(feature_map, kernel, groups=groups, **options)


METAMORPHIC_CASES: dict[str, tuple[Any, tuple[int, ...], Callable[[OutputMask], OutputMask]]] = {
    "conv": (
        node("Conv", ["h", "w"], ["y"], pads=[1] * 4, strides=[2, 2]),
        (6, 8, 3, 3),
        lambda seen: _conv(seen, 6, 3, padding=1, stride=2),
    ),
    "dilated": (
        node("Conv", ["h", "w"], ["y"], dilations=[2, 3], pads=[2, 3, 2, 3]),
        (5, 8, 3, 3),
        lambda seen: _conv(seen, 5, 3, padding=(2, 3), dilation=(2, 3)),
    ),
    "pointwise": (
        node("Conv", ["h", "w"], ["y"]),
        (9, 8, 1, 1),
        lambda seen: _conv(seen, 9, 1),
    ),
    "depthwise": (
        node("Conv", ["h", "w"], ["y"], group=8, pads=[1] * 4),
        (8, 1, 3, 3),
        lambda seen: _conv(seen, 8, 3, groups=8, padding=1),
    ),
    "grouped": (
        node("Conv", ["h", "w"], ["y"], group=2),
        (6, 4, 3, 3),
        lambda seen: _conv(seen, 6, 3, groups=2),
    ),
    "transposed": (
        node("ConvTranspose", ["h", "w"], ["y"], strides=[2, 2], pads=[1] * 4),
        (8, 3, 4, 4),
        lambda seen: F.conv_transpose2d(seen, torch.ones(8, 3, 4, 4), stride=2, padding=1),
    ),
    "pooled": (
        node("AveragePool", ["h"], ["y"], kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 0]),
        (),
        lambda seen: F.avg_pool2d(seen, (3, 2), (2, 1), (1, 0)),
    ),
    "shuffled": (
        node("DepthToSpace", ["h"], ["y"], blocksize=2, mode="CRD"),
        (),
        lambda seen: F.pixel_shuffle(seen, 2),
    ),
    "turned": (
        node("Transpose", ["h"], ["y"], perm=[0, 3, 1, 2]),
        (),
        lambda seen: seen.permute(0, 3, 1, 2),
    ),
    "enlarged": (
        node("Resize", ["h", "", "scales"], ["y"], mode="linear"),
        (1,),
        lambda seen: F.interpolate(seen, scale_factor=2, mode="bilinear"),
    ),
    "averaged": (
        node("GlobalAveragePool", ["h"], ["y"]),
        (),
        lambda seen: F.adaptive_avg_pool2d(seen, 1),
    ),
}


@pytest.mark.parametrize("step", METAMORPHIC_CASES)
def test_adding_1_to_one_texel_changes_its_receptive_field_and_nothing_else(
    runner: PlanRunner, step: str
) -> None:
    last, shape, sees = METAMORPHIC_CASES[step]
    rng = np.random.default_rng(sum(map(ord, step)))
    constants: dict[str, Any] = {"w0": rng.uniform(0.5, 1, (8, 3, 3, 3)).astype(np.float32)}
    if "w" in last.input:
        constants["w"] = rng.uniform(0.5, 1, shape).astype(np.float32)
    if "scales" in last.input:
        constants["scales"] = np.float32([1, 1, 2, 2])
    first = node("Conv", ["x", "w0"], ["h"], pads=[1] * 4)
    x = rng.uniform(0, 1, (2, 3, 10, 9)).astype(np.float32)
    graph, _ = load(model_of([first, last], {"x": x.shape}, ["y"], constants=constants))
    places = [(0, 0, 0, 0), (1, 2, 9, 8), (0, 1, 4, 5), (1, 0, 0, 8), (0, 2, 7, 3)]
    changed = [x.copy() for _ in places]
    for place, one in zip(places, changed, strict=True):
        one[place] += 1
    before, *after = runner(lower(graph), *([one] for one in (x, *changed)))
    for place, values in zip(places, after, strict=True):
        seen = torch.zeros(x.shape)
        seen[place] = 1
        h = _conv(seen, 8, 3, padding=1)
        for key, expected in {"x": seen, "h": h, "y": sees(h)}.items():
            found = values[key] != before[key]
            assert_array_equal(found, expected.numpy() > 0, f"{key} after {place}")
