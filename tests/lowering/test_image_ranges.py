"""Range from black to white of pictures: from the network, from clipping, chosen by a reader."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import traitlets
from torch import Tensor, nn

import nbglcnn
from nbglcnn import Preprocess, Session, Viewer
from nbglcnn.pictures import feature_maps as pictures
from nbglcnn.plan.schema import Plan, Value
from viewer_models import autoencoder
from viewer_models import pictures as inputs
from webgl_page import GlPage

QUARTER_TURN = float(np.float32(np.pi / 2))
X = np.random.default_rng(0).random((2, 3, 16, 20)).astype(np.float32)


class ConvWithLastLayer(nn.Module):
    """A convolution, and the function after it."""

    def __init__(self, end: Callable[[Tensor], Tensor], channels: int = 3) -> None:
        super().__init__()
        self.conv, self.end = nn.Conv2d(3, channels, 3, padding=1), end

    def forward(self, x: Tensor) -> Tensor:
        return self.end(self.conv(x))


def plan_value(model: nn.Module, key: str = "output", x: np.ndarray = X, **how: Any) -> Value:
    plan = nbglcnn.compile(model.eval(), x, **how)
    return next(value for value in plan.values if value.key == key)


@pytest.mark.parametrize(
    ("end", "limits"),
    [
        (lambda y: y, (0, 1)),
        (F.relu, (0, 1)),
        (torch.tanh, (-1, 1)),
        (torch.sigmoid, (0, 1)),
        (lambda y: torch.tanh(y) * 0.5 + 0.5, (0, 1)),
        (lambda y: 255 * torch.sigmoid(y), (0, 255)),
        (lambda y: 1 - 2 * torch.sigmoid(y), (-1, 1)),
        (lambda y: -torch.sigmoid(y) / 2, (-0.5, 0)),
        (lambda y: y.clamp(0, 255), (0, 255)),
        (lambda y: torch.clip(100 * y, 0, 255), (0, 255)),
        (lambda y: (100 * y).clamp_min(0).clamp_max(255), (0, 255)),
        (lambda y: y.clamp(max=255).clamp(min=-255), (-255, 255)),
        (lambda y: y.relu().clamp_max(255).round(), (0, 255)),
        (lambda y: 2 - 3 * y.clamp(min=-1).clamp(max=1), (-1, 5)),
        (lambda y: torch.maximum(torch.tanh(y), torch.sigmoid(y)), (0, 1)),
        (lambda y: torch.minimum(torch.tanh(y), torch.sigmoid(y) - 2), (-2, -1)),
        (lambda y: F.relu(torch.tanh(y)), (0, 1)),
        (lambda y: F.hardsigmoid(y), (0, 1)),
        (lambda y: F.interpolate(torch.tanh(y), scale_factor=2, mode="bilinear"), (-1, 1)),
        (lambda y: F.interpolate(torch.tanh(y), scale_factor=2, mode="bicubic"), (0, 1)),
        (lambda y: torch.tanh(y)[:, :, 2:-2, 2:-2], (-1, 1)),
        (lambda y: F.pad(torch.sigmoid(y) + 1, (1, 1, 1, 1)), (0, 2)),
        (lambda y: F.avg_pool2d(torch.tanh(y), 2), (-1, 1)),
        (lambda y: torch.cat([torch.sigmoid(y[:, :1]), torch.tanh(y[:, 1:])], 1), (-1, 1)),
        (lambda y: torch.tanh(y) + y, (0, 1)),
        (F.softsign, (-1, 1)),
        (lambda y: y / (2 + y.abs()), (0, 1)),
        (lambda y: y / (1 + (2 * y).abs()), (0, 1)),
        (torch.sin, (-1, 1)),
        (lambda y: torch.cos(y) / 2 + 0.5, (0, 1)),
        (torch.atan, (-QUARTER_TURN, QUARTER_TURN)),
        (lambda y: torch.asin(torch.tanh(y)), (-QUARTER_TURN, QUARTER_TURN)),
        (lambda y: torch.acos(torch.tanh(y)), (0, 2 * QUARTER_TURN)),
        (torch.sign, (-1, 1)),
        (lambda y: (3 * torch.tanh(y) - 1).abs(), (0, 4)),
        (lambda y: y.abs().clamp(max=9), (0, 9)),
        (lambda y: y.clamp(min=0), (0, 1)),
    ],
)
def test_an_outputs_range_is_its_last_layers_or_0_to_1(
    end: Callable[[Tensor], Tensor], limits: tuple[float, float]
) -> None:
    assert plan_value(ConvWithLastLayer(end)).value_range == limits


class DenselyConnected(nn.Module):
    """Concatenates each value with all previous ones 40 times: exponentially many paths."""

    def forward(self, x: Tensor) -> Tensor:
        values = [torch.tanh(x)]
        for _ in range(40):
            values.append(torch.cat(values, 1)[:, :3] * 0.5 + torch.tanh(x))
        return torch.sigmoid(torch.cat(values, 1)[:, -3:])


def test_ranges_of_a_network_whose_values_are_joined_again_and_again_are_quick_to_find() -> None:
    assert plan_value(DenselyConnected()).value_range == (0, 1)


def test_pixels_that_are_shuffled_keep_their_range() -> None:
    model = nn.Sequential(nn.Conv2d(3, 12, 1), nn.Tanh(), nn.PixelShuffle(2))
    assert plan_value(model).value_range == (-1, 1)


@pytest.mark.parametrize(
    ("preprocess", "limits"),
    [
        (Preprocess(), (0, 1)),
        (Preprocess(range=(-1, 1)), (-1, 1)),
        (Preprocess(range=(0, 255)), (0, 255)),
        (Preprocess(mean=0.5, std=0.5), (-1, 1)),
        (Preprocess(mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25)), (-2, 2)),
        (Preprocess(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)), (0, 1)),
    ],
)
def test_preprocess_says_what_black_and_white_are(
    preprocess: Preprocess, limits: tuple[float, float]
) -> None:
    assert plan_value(ConvWithLastLayer(lambda y: y), preprocess=preprocess).value_range == limits
    assert plan_value(ConvWithLastLayer(torch.sigmoid), preprocess=preprocess).value_range == (0, 1)
    # The input picture itself comes before `preprocess`.
    assert plan_value(ConvWithLastLayer(lambda y: y), "x", preprocess=preprocess).value_range == (
        0,
        1,
    )


def test_each_of_two_that_are_compared_has_its_own_range() -> None:
    a, b = ConvWithLastLayer(torch.tanh).eval(), ConvWithLastLayer(torch.sigmoid).eval()
    plan = nbglcnn.compare(a, b, torch.from_numpy(X)).network.plan
    limits = {value.key: value.value_range for value in plan.values if value.kind == "output"}
    assert limits == {"A.output": (-1, 1), "B.output": (0, 1)}


@pytest.mark.parametrize(
    ("numbers", "range_of"),
    [
        (X, (0, 1)),
        (X * 0.3 + 0.2, (0, 1)),
        (2 * X - 1, (-1, 1)),
        (255 * X, (0, 255)),
        (X + np.random.default_rng(1).normal(0, 0.05, X.shape), (0, 1)),
        (X + np.random.default_rng(1).normal(0, 0.4, X.shape), (0, 1)),
        (np.where(X > 0.8, X, 0) + np.random.default_rng(1).normal(0, 0.05, X.shape), (0, 1)),
        (np.zeros_like(X), (0, 1)),
        (1000 * X - 500, None),
        ((X - 0.45) / 0.22, None),
    ],
)
def test_without_a_word_of_the_network_an_inputs_numbers_decide(
    numbers: np.ndarray, range_of: tuple[float, float] | None
) -> None:
    numbers = numbers.astype(np.float32)
    value = plan_value(ConvWithLastLayer(torch.tanh), "x")
    assert value.value_range == (None, None)
    own = (numbers[0].min(), numbers[0].max())
    assert pictures.image_limits(value, numbers[0]) == (range_of or own)


def run_last_layer(last_layer: Callable[[Tensor], Tensor], x: np.ndarray = X) -> Session:
    torch.manual_seed(2)
    session = Session(nbglcnn.compile(ConvWithLastLayer(last_layer).eval(), x))
    session.run(x)
    return session


def test_an_output_is_not_stretched_to_its_own_range() -> None:
    with run_last_layer(lambda y: 0.4 + 0 * y) as session:
        assert (np.asarray(session.picture("output")) == round(0.4 * 255)).all()
    with run_last_layer(lambda y: torch.tanh(y * 0)) as session:
        assert (np.abs(np.asarray(session.picture("output"), int) - 127.5) <= 1).all()


@pytest.mark.parametrize("example", [0, 1])
def test_what_is_clipped_is_counted(example: int) -> None:
    with run_last_layer(lambda y: 4 * y) as session:
        found = session.read("output")[example]
        image = session.picture("output", example=example)
        assert image.info["above"] == (found > 1 + 0.5 / 255).sum() > 0
        assert image.info["below"] == (found < -0.5 / 255).sum() > 0
        own = session.picture("output", example=example, color_range="layer")
        assert own.info == {"below": 0, "above": 0}
        fixed = session.picture("output", example=example, color_range=(-0.1, 0.1))
        slack = 0.2 * 0.5 / 255
        assert fixed.info["above"] == (found > np.float32(0.1 + slack)).sum()
        one = session.picture("output", 1, example=example)
        assert one.info["above"] == (found[1] > 1 + 0.5 / 255).sum()


def test_what_8_bits_would_not_change_is_not_clipped() -> None:
    with run_last_layer(lambda y: torch.sigmoid(y) * 0 + 1.0015) as session:
        image = session.picture("output")
        assert image.info == {"below": 0, "above": 0}
        assert (np.asarray(image) == 255).all()


def test_one_channel_of_a_picture_is_shown_in_the_pictures_range() -> None:
    scale = torch.tensor([1.0, 0.5, 0.1]).reshape(1, 3, 1, 1)
    with run_last_layer(lambda y: torch.sigmoid(y) * scale) as session:
        whole = np.asarray(session.picture("output"))
        for channel in range(3):
            alone = np.asarray(session.picture("output", channel))
            np.testing.assert_array_equal(alone[..., 0], whole[..., channel])
            expected = 255 * session.read("output")[0, channel]
            assert np.abs(alone[..., 0] - expected).max() <= 1


def test_a_range_that_is_asked_for_holds_for_the_whole_picture() -> None:
    with run_last_layer(torch.sigmoid) as session:
        found = session.read("output")[0]
        shown = np.asarray(session.picture("output", color_range=(0.25, 0.75)), float)
        expected = np.clip((found - 0.25) / 0.5, 0, 1).transpose(1, 2, 0) * 255
        inside = ((found > 0.26) & (found < 0.74)).all(0)
        assert inside.any()
        assert np.abs(shown - expected)[inside].max() <= 1
        each = np.asarray(session.picture("output", color_range="channel"))
        assert each.min() == 0 and each.max() == 255
        assert all(each[..., k].max() == 255 for k in range(3))


def test_nan_in_one_colour_marks_the_pixel() -> None:
    x = X.copy()
    x[0, 1, 4, 5] = np.nan
    with Session(nbglcnn.compile(nn.Sequential(nn.Identity(), nn.Hardtanh(0, 1)), x)) as session:
        session.run(x)
        pixels = np.asarray(session.picture("output", scale=3))[12:15, 15:18].reshape(9, 3)
        assert {tuple(map(int, one)) for one in pixels} == {(255, 0, 255), (0, 0, 0)}


IMAGE_RANGES = [(0.0, 1.0), (-1.0, 1.0), (0.2, 0.3), (-0.3, -0.2), (-5.0, 5.0)]


@pytest.mark.parametrize("channels", [1, 3, 6])
def test_the_page_counts_what_numpy_counts(gl: GlPage, channels: int) -> None:
    x = np.random.default_rng(5).normal(0, 0.7, (3, 3, 19, 31)).astype(np.float32)
    x[:, :, 3:9] = 0
    model = ConvWithLastLayer(F.hardtanh, channels).eval()
    plan = nbglcnn.compile(model, x)
    session = gl.open(plan)
    values = gl.values(session, [x])
    for key in ("x", "output"):
        value = next(one for one in plan.values if one.key == key)
        for example in range(3):
            maps = pictures.example_maps(value, values[key], example)
            for low, high in IMAGE_RANGES:
                limits = [(np.float32(low), np.float32(high))] * len(maps)
                below, above = pictures.count_clipped(maps, limits)
                found = gl.page.evaluate(
                    "([k, ...a]) => gl.the(k).countClipped(...a)",
                    [session, key, {"low": low, "high": high}, example],
                )
                assert found == {"below": below, "above": above}


@pytest.mark.filterwarnings("ignore:no page")
def test_a_range_that_is_none_is_refused() -> None:
    viewer = Viewer(autoencoder(3), inputs(3))
    viewer.image_ranges = {"input": (0, 255), "output": "layer"}
    assert viewer.image_ranges == {"input": [0, 255], "output": "layer"}
    for wrong, words in (
        ({"inputs": "layer"}, "unknown value 'inputs' (near: input, output)"),
        ({"input": (1, 0)}, r"image_ranges['input'] is (1, 0): give the values of black and white"),
        ({"input": "own"}, 'or "layer"'),
        ({"input": (0, np.inf)}, "give the values of black and white"),
    ):
        with pytest.raises(traitlets.TraitError) as caught:
            viewer.image_ranges = wrong
        assert words in str(caught.value)
    viewer.close()


def classifier(last_layer: nn.Module) -> tuple[Plan, np.ndarray]:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Conv2d(3, 2, 3), nn.Flatten(), nn.Linear(504, 7), last_layer)
    return nbglcnn.compile(model.eval(), X), X


def longest_bar(picture: Any) -> int:
    """The pixels of the longest coloured bar in the picture of a vector."""
    pixels = np.asarray(picture).astype(int)
    return int((np.ptp(pixels, axis=-1) > 40).sum(1).max())


def test_bars_behind_a_softmax_go_from_0_to_1_in_python() -> None:
    plan, x = classifier(nn.Softmax(1))
    with Session(plan) as session:
        session.run(x)
        most = session.read("output")[0].max()
        assert most < 0.6
        for key in ("3", "output"):
            picture = session.picture(key)
            room = picture.width - 13
            assert longest_bar(picture) == pytest.approx(most * room, abs=4)
        # The longest bar of scores is as long as the room on its side.
        assert longest_bar(session.picture("2")) == pytest.approx(room / 2, abs=4)
