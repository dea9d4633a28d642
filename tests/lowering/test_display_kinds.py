"""The display kind of each value: signals, attention weights and their tokens, classes."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import nbglcnn
from display_kind_models import Segmenter, SignalClassifier, ViT, plans_with_damaged_tokens
from nbglcnn import ModelError, Plan
from nbglcnn.plan.schema import TokenGrid
from rank_networks import PerHeadAttention, TorchAttention


class FunctionNet(nn.Module):
    """A function as a network."""

    def __init__(self, do: Callable[..., Tensor], *parts: nn.Module) -> None:
        super().__init__()
        self.do, self.parts = do, nn.ModuleList(parts)

    def forward(self, x: Tensor) -> Tensor:
        return self.do(x, *self.parts)


def compile_network(model: nn.Module, *shape: int) -> Plan:
    torch.manual_seed(0)
    return nbglcnn.compile(model.eval(), torch.rand(*shape))


def display_kinds(plan: Plan) -> dict[str, str]:
    return {value.key: value.display_kind for value in plan.values}


def test_what_a_1d_convolution_reads_and_writes_is_a_signal() -> None:
    plan = compile_network(SignalClassifier(), 2, 2, 64)
    found = display_kinds(plan)
    for key in ("x", "features", "features.0", "features.1", "features.2", "features.3"):
        assert found[key] == "signal", key
    assert found["head"] == "maps"  # a vector


def test_tokens_are_no_signal_though_their_shape_is_one() -> None:
    plan = compile_network(nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.GELU()), 1, 16, 8)
    assert set(display_kinds(plan).values()) == {"maps"}
    # Nor is a value that mixes all positions of a signal.
    found = display_kinds(
        compile_network(nn.Sequential(nn.Conv1d(4, 4, 3, padding=1), nn.Linear(8, 8)), 1, 4, 8)
    )
    assert found == {"input": "signal", "0": "signal", "1": "maps", "output": "maps"}


def test_a_2d_convolution_with_one_row_or_column_makes_signals() -> None:
    for shape in ((1, 1, 1, 40), (1, 1, 40, 1)):
        plan = compile_network(nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU()), *shape)
        assert set(display_kinds(plan).values()) == {"signal"}
    plan = compile_network(nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU()), 1, 1, 40, 2)
    assert set(display_kinds(plan).values()) == {"maps"}


@pytest.mark.parametrize(
    ("model", "shape", "nchw"),
    [
        (PerHeadAttention(32, 4), (1, 9, 32), (1, 4, 9, 9)),
        (TorchAttention(32, 4), (1, 9, 32), (1, 4, 9, 9)),
        (FunctionNet(lambda x: (x @ x.transpose(-1, -2)).softmax(-1) @ x), (3, 9, 8), (3, 1, 9, 9)),
        (FunctionNet(lambda x: (x @ x.transpose(-1, -2)).softmax(-1) @ x), (9, 8), (1, 1, 9, 9)),
    ],
    ids=["by hand", "PyTorch's", "one head", "without a batch"],
)
def test_softmax_rows_that_weigh_values_are_attention(
    model: nn.Module, shape: tuple[int, ...], nchw: tuple[int, ...]
) -> None:
    found = [
        value
        for value in compile_network(model, *shape).values
        if value.display_kind == "attention"
    ]
    assert {value.nchw for value in found} == {nchw}


def test_other_softmaxes_are_no_attention() -> None:
    for model, shape in (
        (nn.Sequential(nn.Linear(8, 5), nn.Softmax(-1)), (2, 8)),
        (nn.Sequential(nn.Softmax(-1), nn.Linear(8, 5)), (2, 6, 8)),  # times weights, not values
        (
            FunctionNet(lambda x: x @ (x.transpose(-1, -2) @ x).softmax(-1)),
            (2, 6, 8),
        ),  # softmax on the right
        (FunctionNet(lambda x: (x @ x.transpose(-1, -2)).softmax(-2) @ x), (2, 6, 8)),  # by columns
    ):
        assert "attention" not in display_kinds(compile_network(model, *shape)).values()


def attention_tokens(plan: Plan) -> set[tuple[TokenGrid | None, TokenGrid | None]]:
    tokens = [*plan.header.tokens, None]
    found = [value for value in plan.values if value.display_kind == "attention"]
    assert found
    return {(tokens[value.tokens[0]], tokens[value.tokens[1]]) for value in found}


def test_tokens_of_a_vision_transformer_stand_for_patches_in_every_block() -> None:
    plan = compile_network(ViT(), 1, 3, 32, 48)
    patches = TokenGrid("x", 4, 6, (-1, *range(24)))  # -1: the class token
    assert attention_tokens(plan) == {(patches, patches)}


def test_tokens_of_pytorchs_own_encoder_stand_for_patches_too() -> None:
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    model = FunctionNet(
        lambda x, patch, encoder: encoder(patch(x).flatten(2).transpose(1, 2)).mean(1),
        nn.Conv2d(1, 16, 8, 8),
        nn.TransformerEncoder(layer, 2),
    )
    patches = TokenGrid("x", 3, 2, tuple(range(6)))
    assert attention_tokens(compile_network(model, 2, 1, 24, 16)) == {(patches, patches)}


def test_places_of_a_map_that_look_at_each_other_are_tokens_of_its_grid() -> None:
    def attend(x: Tensor, down: nn.Module) -> Tensor:
        y = down(x)
        n, c, h, w = y.shape
        tokens = y.flatten(2).transpose(1, 2)
        mixed = (tokens @ tokens.transpose(1, 2)).softmax(-1) @ tokens
        return mixed.transpose(1, 2).reshape(n, c, h, w) + y

    plan = compile_network(FunctionNet(attend, nn.Conv2d(3, 8, 3, 2, 1)), 1, 3, 16, 12)
    grid = TokenGrid("x", 8, 6, tuple(range(48)))
    assert attention_tokens(plan) == {(grid, grid)}


def test_tokens_of_windows_and_of_words_have_no_patches() -> None:
    def windows(x: Tensor, attend: nn.Module) -> Tensor:
        n, c, h, w = x.shape
        parts = x.reshape(n, c, h // 4, 4, w // 4, 4).permute(0, 2, 4, 3, 5, 1)
        return attend(parts.reshape(-1, 16, c)).reshape(n, -1)

    for model, shape in (
        (FunctionNet(windows, PerHeadAttention(3, 1)), (1, 3, 8, 8)),
        (PerHeadAttention(8, 2), (1, 6, 8)),
    ):
        assert attention_tokens(compile_network(model, *shape)) == {(None, None)}


def score_network(*after: nn.Module, channels: int = 5, stride: int = 1) -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, channels, 3, stride, 1), *after)


CLASS_MAP_CASES = {
    "half the size, enlarged": (Segmenter(), True),
    "a convolution": (score_network(), True),
    "a quarter of the size": (score_network(stride=4), True),
    "shares": (score_network(nn.Softmax(1)), True),
    "shares of three": (score_network(nn.Softmax2d(), channels=3), True),
    "a share for each": (score_network(nn.Sigmoid()), True),
    "the class itself": (FunctionNet(lambda x, a: a(x).argmax(1), score_network()), True),
    "a sum of scores": (
        FunctionNet(lambda x, a, b: a(x) + b(x), score_network(), score_network()),
        True,
    ),
    "a picture in colour": (score_network(channels=3), False),
    "a picture in grey": (score_network(channels=1), False),
    "features": (score_network(nn.ReLU()), False),
    "smaller features": (score_network(stride=16), False),
}


def test_an_output_of_scores_for_each_place_is_classes() -> None:
    class All(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = nn.ModuleList(model for model, _ in CLASS_MAP_CASES.values())

        def forward(self, x: Tensor) -> list[Tensor]:
            return [part(x) for part in self.parts]

    plan = compile_network(All(), 1, 3, 32, 48)
    found = {
        name: display_kinds(plan).get(f"output[{k}]") for k, name in enumerate(CLASS_MAP_CASES)
    }
    assert found == {
        name: "classes" if is_ else "maps" for name, (_, is_) in CLASS_MAP_CASES.items()
    }
    layers = {value.display_kind for value in plan.values if value.kind != "output"}
    assert "classes" not in layers, "layers keep their maps"


def test_a_plan_with_tokens_of_nothing_is_refused() -> None:
    for broken in plans_with_damaged_tokens(compile_network(ViT(), 1, 3, 16, 16)):
        with pytest.raises(ModelError, match="tokens"):
            Plan.from_bytes(broken.to_bytes())
