"""Differences in training mode: BatchNorm, Dropout, frozen, tied and parametrized weights."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations

import nbglcnn
from nbglcnn.errors import UnsupportedModel
from nbglcnn.features.training import Training
from training_checks import assert_trained, train_in_torch

pytestmark = pytest.mark.filterwarnings("error")
TRAIN_OPTIONS: Any = {"shuffle": False, "progress": False}


@pytest.fixture(autouse=True)
def _seed_torch() -> None:
    torch.manual_seed(0)


def sgd(lr: float = 0.1) -> Callable[[Any], torch.optim.Optimizer]:
    return lambda parameters: torch.optim.SGD(parameters, lr)


def conv_with_norm(norm: nn.Module, channels: int = 3) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, channels, 3), norm, nn.Tanh(), nn.Flatten(), nn.Linear(channels * 20, 4)
    )


def with_random_statistics(norm: Any) -> Any:
    """Set non-trivial running statistics and affine parameters."""
    nn.init.uniform_(norm.running_mean, -0.5, 0.5)
    nn.init.uniform_(norm.running_var, 0.5, 2)
    if norm.weight is not None:
        nn.init.uniform_(norm.weight, 0.5, 1.5)
        nn.init.uniform_(norm.bias, -0.5, 0.5)
    return norm


def pictures(count: int = 8) -> Tensor:
    return torch.randn(count, 2, 6, 7)


# BatchNorm


NORMS: dict[str, Callable[[], nn.Module]] = {
    "usual": lambda: nn.BatchNorm2d(3),
    "momentum": lambda: nn.BatchNorm2d(3, eps=1e-2, momentum=0.4),
    "mean of all batches": lambda: nn.BatchNorm2d(3, momentum=None),
    "without an affine part": lambda: nn.BatchNorm2d(3, affine=False),
}


@pytest.mark.parametrize("size", [4, 3])
@pytest.mark.parametrize("name", NORMS)
def test_batchnorm_trains_by_its_batch_and_keeps_statistics(name: str, size: int) -> None:
    model = conv_with_norm(with_random_statistics(NORMS[name]()))
    data = pictures(), torch.randn(8, 4)
    result = assert_trained(model, data, "mse", F.mse_loss, nbglcnn.SGD(0.1), sgd(), size=size)
    assert int(result.state_dict()["1.num_batches_tracked"]) == 4


def test_a_mean_of_all_batches_goes_on() -> None:
    norm = with_random_statistics(nn.BatchNorm2d(3, momentum=None))
    norm.num_batches_tracked += 5
    assert_trained(conv_with_norm(norm), (pictures(), torch.randn(8, 4)), "mse", F.mse_loss,
                   nbglcnn.SGD(0.1), sgd())  # fmt: skip


@pytest.mark.parametrize("size", [4, 3])
def test_batchnorm_of_vectors_signals_and_volumes(size: int) -> None:
    vectors = nn.Sequential(
        nn.Linear(5, 6), with_random_statistics(nn.BatchNorm1d(6)), nn.Linear(6, 4)
    )
    assert_trained(vectors, (torch.randn(8, 5), torch.randn(8, 4)), "mse", F.mse_loss,
                   nbglcnn.SGD(0.1), sgd(), size=size)  # fmt: skip
    signals = nn.Sequential(
        nn.Conv1d(2, 5, 3), with_random_statistics(nn.BatchNorm1d(5)), nn.Tanh()
    )
    assert_trained(signals, (torch.randn(8, 2, 9), torch.randn(8, 5, 7)), "mse", F.mse_loss,
                   nbglcnn.SGD(0.1), sgd(), size=size)  # fmt: skip
    volumes = nn.Sequential(
        nn.Conv3d(1, 3, 2), with_random_statistics(nn.BatchNorm3d(3)), nn.Tanh()
    )
    data = torch.randn(8, 1, 3, 4, 3), torch.randn(8, 3, 2, 3, 2)
    assert_trained(volumes, data, "mse", F.mse_loss, nbglcnn.SGD(0.1), sgd(), size=size)


def test_a_norm_that_is_called_twice_keeps_statistics_of_both_calls() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = nn.Conv2d(2, 2, 1), with_random_statistics(nn.BatchNorm2d(2))

        def forward(self, x: Tensor) -> Tensor:
            return self.norm(torch.tanh(self.norm(self.conv(x))) * 2)  # type: ignore[no-any-return]

    result = nbglcnn.train(Twice(), (x := pictures(), y := torch.randn(8, 2, 6, 7)), "mse",
                           nbglcnn.SGD(0.1), 4, steps=3, **TRAIN_OPTIONS)  # fmt: skip
    torch.manual_seed(0)
    right = train_in_torch(Twice(), x, y, F.mse_loss, sgd(), steps=3, size=4, dtype=torch.float64)
    np.testing.assert_allclose(result.losses, right.losses, rtol=1e-5)
    for name in ("norm.running_mean", "norm.running_var"):
        np.testing.assert_allclose(result.state_dict()[name], right.model.state_dict()[name],
                                   rtol=1e-5, atol=1e-6)  # fmt: skip


def test_frozen_norms_stay_as_they_are() -> None:
    def prepared(model: nn.Module) -> nn.Module:
        model.train()
        model[1].eval()  # type: ignore[index]
        return model

    model = prepared(conv_with_norm(with_random_statistics(nn.BatchNorm2d(3))))
    data = pictures(), torch.randn(8, 4)
    result = assert_trained(model, data, "mse", F.mse_loss, nbglcnn.SGD(0.1), sgd(),
                            prepared=prepared, size=3)  # fmt: skip
    assert torch.equal(result.state_dict()["1.running_mean"], model.state_dict()["1.running_mean"])
    plain = conv_with_norm(nn.BatchNorm2d(3, track_running_stats=False))
    assert_trained(plain, data, "mse", F.mse_loss, nbglcnn.SGD(0.1), sgd())


def test_one_number_for_each_channel_has_no_variance() -> None:
    model = nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6))
    with pytest.raises(UnsupportedModel, match="single value per channel"):
        nbglcnn.train(model, (torch.randn(4, 5), torch.randn(4, 6)), batch_size=1, steps=1)
    with pytest.raises(UnsupportedModel, match="last batch of an epoch, which has 1 example"):
        nbglcnn.train(model, (torch.randn(5, 5), torch.randn(5, 6)), batch_size=4, steps=1)


# Dropout


class MaskedModule(nn.Module):
    """Replaces a stochastic module by a function of its input and the next recorded mask."""

    def __init__(self, of: Callable[[Tensor, Tensor], Tensor], masks: list[Tensor]) -> None:
        super().__init__()
        self.of, self.masks = of, masks

    def forward(self, x: Tensor) -> Tensor:
        return self.of(x, self.masks.pop(0).to(x.dtype))


def scale_by_keep_probability(p: float) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda x, mask: x * mask / (1 - p)


def alpha_dropout(p: float) -> Callable[[Tensor, Tensor], Tensor]:
    """Alpha dropout (Klambauer et al. 2017), which preserves mean 0 and variance 1."""
    fill = -1.0507009873554805 * 1.6732632423543772
    scale = ((1 - p) * (1 + p * fill**2)) ** -0.5
    return lambda x, mask: scale * (x * mask + fill * (1 - mask)) - scale * fill * p


class DropPath(nn.Module):
    """timm's DropPath: drops whole examples."""

    def __init__(self, drop_prob: float, scale_by_keep: bool = True) -> None:
        super().__init__()
        self.drop_prob, self.scale_by_keep = drop_prob, scale_by_keep

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or not self.drop_prob:
            return x
        keep = 1 - self.drop_prob
        mask = torch.bernoulli(torch.full((len(x), *[1] * (x.ndim - 1)), keep))
        return x * mask / (keep if self.scale_by_keep else 1)


class StochasticDepth(nn.Module):
    """torchvision's StochasticDepth."""

    def __init__(self, p: float, mode: str) -> None:
        super().__init__()
        self.p, self.mode = p, mode

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or not self.p:
            return x
        return (
            x
            * torch.bernoulli(torch.full((len(x), *[1] * (x.ndim - 1)), 1 - self.p))
            / (1 - self.p)
        )


def test_the_padding_row_of_an_embedding_is_not_trained() -> None:
    torch.manual_seed(2)
    model = nn.Sequential(nn.Embedding(4, 3, padding_idx=1), nn.Flatten(), nn.Linear(9, 2))
    nn.init.ones_(model[0].weight)  # type: ignore[arg-type]
    x, y = torch.tensor([[0, 1, 2], [1, 1, 3]]), torch.randn(2, 2)
    own = copy.deepcopy(model)
    optimizer = torch.optim.SGD(own.parameters(), 0.1)
    result = nbglcnn.train(model, (x, y), "mse", nbglcnn.SGD(0.1), 2, steps=3, **TRAIN_OPTIONS)
    for _ in range(3):
        optimizer.zero_grad()
        F.mse_loss(own(x), y).backward()
        optimizer.step()
    found = result.state_dict()["0.weight"]
    assert (found[1] == 1).all()
    np.testing.assert_allclose(found, own[0].weight.detach(), atol=1e-5)


DROPOUTS: dict[str, tuple[nn.Module, Any, tuple[int, ...]]] = {
    "Dropout": (nn.Dropout(0.3), scale_by_keep_probability(0.3), (6, 3, 4, 5)),
    "Dropout2d": (nn.Dropout2d(0.4), scale_by_keep_probability(0.4), (6, 3, 1, 1)),
    "AlphaDropout": (nn.AlphaDropout(0.3), alpha_dropout(0.3), (6, 3, 4, 5)),
    "FeatureAlphaDropout": (nn.FeatureAlphaDropout(0.3), alpha_dropout(0.3), (6, 3, 1, 1)),
    "DropPath": (DropPath(0.4), scale_by_keep_probability(0.4), (6, 1, 1, 1)),
    "DropPath without scale": (DropPath(0.4, False), lambda x, mask: x * mask, (6, 1, 1, 1)),
    "StochasticDepth": (StochasticDepth(0.4, "row"), scale_by_keep_probability(0.4), (6, 1, 1, 1)),
}


@pytest.mark.parametrize("name", DROPOUTS)
def test_what_masks_let_through_is_what_pytorch_makes_of_them(name: str) -> None:
    drop, of, shape = DROPOUTS[name]
    model = conv_with_norm(drop)
    x, y = pictures(6), torch.randn(6, 4)
    result = nbglcnn.train(model, (x, y), "mse", nbglcnn.SGD(0.1), 6, steps=1, **TRAIN_OPTIONS)
    mask = result.activations["1.mask"]
    assert mask.shape == shape and set(np.unique(mask)) == {0, 1}
    own = copy.deepcopy(model).double()
    own[1] = MaskedModule(of, [torch.from_numpy(mask)])  # type: ignore[index]
    loss = F.mse_loss(own(x.double()), y.double())
    loss.backward()
    assert result.losses[0] == pytest.approx(loss.item(), rel=1e-5)
    for name, parameter in own.named_parameters():
        assert parameter.grad is not None
        np.testing.assert_allclose(result.gradients[name], parameter.grad, atol=1e-5 * float(
            parameter.grad.abs().max()
        ))  # fmt: skip


def draw_masks(seed: int, steps: int) -> dict[str, np.ndarray]:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.drop = nn.Linear(500, 500), nn.Dropout(0.25)

        def forward(self, x: Tensor) -> Tensor:
            return x + self.drop(torch.tanh(self.drop(self.linear(x))))

    torch.manual_seed(0)
    x = torch.randn(8, 500)
    result = nbglcnn.train(Two(), (x, x), batch_size=8, steps=steps, seed=seed, **TRAIN_OPTIONS)
    return {name: result.activations[name] for name in ("drop.mask", "drop:1.mask")}


def test_masks_are_independent_and_a_seed_fixes_them() -> None:
    found = [draw_masks(0, 1), draw_masks(0, 2), draw_masks(1, 1)]
    again = draw_masks(0, 1)
    assert all(np.array_equal(again[name], mask) for name, mask in found[0].items())
    flat = [mask.reshape(-1) for masks in found for mask in masks.values()]
    for mask in flat:
        assert mask.mean() == pytest.approx(0.75, abs=0.03)  # 4,000 values: 4 standard deviations
        assert abs(np.corrcoef(mask[:-1], mask[1:])[0, 1]) < 0.07
        assert abs(np.corrcoef(mask[:-500], mask[500:])[0, 1]) < 0.07
    shared = np.corrcoef(np.stack(flat))
    assert np.abs(shared - np.eye(len(flat))).max() < 0.07


def test_a_dropout_beside_its_input_and_one_that_does_nothing() -> None:
    class Beside(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.drop, self.idle = nn.Conv2d(2, 3, 1), nn.Dropout(0.5), nn.Dropout(0.0)

        def forward(self, x: Tensor) -> Tensor:
            x = self.conv(x)
            return torch.tanh(x) + self.idle(x) * self.drop(x)

    model, x, y = Beside(), pictures(4), torch.randn(4, 3, 6, 7)
    result = nbglcnn.train(model, (x, y), batch_size=4, steps=1, **TRAIN_OPTIONS)
    mask = torch.from_numpy(result.activations["drop.mask"])
    made = model.conv(x)
    loss = F.mse_loss(torch.tanh(made) + made * made * mask * 2, y)
    assert result.losses[0] == pytest.approx(loss.item(), rel=1e-5)
    assert "idle.mask" not in result.activations


# Selected parameters


def count_passes(model: nn.Module, data: tuple[Tensor, Tensor], parameters: Any) -> int:
    return nbglcnn.train(model, data, batch_size=4, steps=0, parameters=parameters,
                         progress=False).memory  # fmt: skip


def test_frozen_parameters_stay_and_cost_nothing() -> None:
    model = conv_with_norm(nn.Tanh())
    data = pictures(), torch.randn(8, 4)
    result = nbglcnn.train(model, data, "mse", nbglcnn.SGD(0.1), 4, steps=3, parameters=["4"],
                           **TRAIN_OPTIONS)  # fmt: skip
    own = copy.deepcopy(model)
    own[0].requires_grad_(False)  # type: ignore[index]
    right = train_in_torch(own, *data, F.mse_loss, sgd(), steps=3, size=4, dtype=torch.float64)
    np.testing.assert_allclose(result.losses, right.losses, rtol=1e-5)
    assert torch.equal(result.state_dict()["0.weight"], model.state_dict()["0.weight"])
    assert {*result.optimizer_state} == {"step"}
    by_flag = nbglcnn.train(own, data, "mse", nbglcnn.SGD(0.1), 4, steps=3, **TRAIN_OPTIONS)
    np.testing.assert_array_equal(by_flag.losses, result.losses)
    by_pattern = nbglcnn.train(model, data, "mse", nbglcnn.SGD(0.1), 4, steps=3,
                               parameters=["4.*", "4.bias"], **TRAIN_OPTIONS)  # fmt: skip
    np.testing.assert_array_equal(by_pattern.losses, result.losses)
    assert count_passes(model, data, ["4"]) < count_passes(model, data, "all")
    assert count_passes(model, data, ["4.bias"]) < count_passes(model, data, ["4"])
    # Layers before a frozen layer are still trained.
    first = nbglcnn.train(model, data, "mse", nbglcnn.SGD(0.1), 4, steps=3, parameters=["0.*"],
                          **TRAIN_OPTIONS)  # fmt: skip
    assert torch.equal(first.state_dict()["4.weight"], model.state_dict()["4.weight"])
    assert not torch.equal(first.state_dict()["0.weight"], model.state_dict()["0.weight"])


def test_tied_weights_stay_tied() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.decoder = nn.Linear(6, 6), nn.Linear(6, 6, bias=False)
            self.decoder.weight = self.encoder.weight

        def forward(self, x: Tensor) -> Tensor:
            return self.decoder(torch.tanh(self.encoder(x)))  # type: ignore[no-any-return]

    x = torch.randn(8, 6)
    result = assert_trained(Tied(), (x, x), "mse", F.mse_loss, nbglcnn.SGD(0.1, momentum=0.9),
                            lambda p: torch.optim.SGD(p, 0.1, momentum=0.9))  # fmt: skip
    state = result.state_dict()
    assert torch.equal(state["encoder.weight"], state["decoder.weight"])
    np.testing.assert_array_equal(result.gradients["decoder.weight"],
                                  result.gradients["encoder.weight"])  # fmt: skip


def test_weight_norm_is_trained_through() -> None:
    model = nn.Sequential(
        parametrizations.weight_norm(nn.Conv2d(2, 3, 3)), nn.Tanh(), nn.Flatten(),
        parametrizations.weight_norm(nn.Linear(60, 4)),
    )  # fmt: skip
    assert_trained(model, (pictures(), torch.randn(8, 4)), "mse", F.mse_loss, nbglcnn.SGD(0.1),
                   sgd())  # fmt: skip


def test_parameters_that_nothing_depends_on_stay() -> None:
    class Unused(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.unused = nn.Linear(5, 4), nn.Linear(5, 4)

        def forward(self, x: Tensor) -> Tensor:
            return self.used(x) + torch.floor(self.unused(x))

    model = Unused()
    result = nbglcnn.train(model, (torch.randn(8, 5), torch.randn(8, 4)), "mse",
                           nbglcnn.SGD(0.1, weight_decay=0.5), 4, steps=2,
                           **TRAIN_OPTIONS)  # fmt: skip
    state = result.state_dict()
    assert torch.equal(state["unused.weight"], model.unused.weight)
    assert not torch.equal(state["used.weight"], model.used.weight)


# Errors


class GradientReversal(torch.autograd.Function):
    """Gradient reversal, as in adversarial domain adaptation."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Tensor:
        return -dy


def refusal_message(model: nn.Module, *, x: Tensor | None = None) -> str:
    x = pictures(4) if x is None else x
    with torch.no_grad():
        y = torch.randn_like(copy.deepcopy(model).eval()(x))
    with pytest.raises(UnsupportedModel) as error:
        nbglcnn.train(model, (x, y), batch_size=4, steps=1, progress=False)
    return str(error.value)


def test_what_trains_in_a_way_of_its_own_is_refused_by_name() -> None:
    class Functional(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.last = nn.Conv2d(2, 3, 1), nn.Conv2d(3, 2, 1)

        def forward(self, x: Tensor) -> Tensor:
            return self.last(F.dropout(self.conv(x), 0.1, self.training))  # type: ignore[no-any-return]

    class Asking(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(2, 3, 1)

        def forward(self, x: Tensor) -> Any:
            return self.conv(x) * (2 if self.training else 1)

    said = refusal_message(nn.Sequential(nn.Conv2d(2, 2, 1), Functional()))
    assert said.startswith("'1' (Functional) has its own code for training mode")

    class Detached(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + (torch.round(x) - x).detach()

    class Ungraded(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            with torch.no_grad():
                return x * 2

    class Data(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + x.data

    class Reversed(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return GradientReversal.apply(x)  # type: ignore[no-any-return]

    for cut, word in ((Detached(), "'1' calls detach()"), (Ungraded(), "'1' calls torch.no_grad"),
                      (Data(), "'1' calls .data"),
                      (Reversed(), "Function GradientReversal")):  # fmt: skip
        assert word in refusal_message(nn.Sequential(nn.Conv2d(2, 2, 1), cut))
    assert "'1' (Asking)" in refusal_message(nn.Sequential(nn.Conv2d(2, 2, 1), Asking()))
    assert "spectral_norm" in refusal_message(parametrizations.spectral_norm(nn.Conv2d(2, 3, 1)))
    assert "samples random slopes" in refusal_message(nn.Sequential(nn.Conv2d(2, 3, 1), nn.RReLU()))
    norm = nn.InstanceNorm2d(2, track_running_stats=True)
    assert "track_running_stats=False" in refusal_message(nn.Sequential(nn.Conv2d(2, 2, 1), norm))
    attention = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.1, batch_first=True)
    assert "contains a dropout of 0.1" in refusal_message(attention, x=torch.randn(4, 3, 4))
    mode = nn.Sequential(nn.Conv2d(2, 3, 1), StochasticDepth(0.5, "batch"))
    assert 'mode="row"' in refusal_message(mode)


# ONNX


def onnx_model(seed: int = 0) -> onnx.ModelProto:
    """An ONNX model: Conv, BatchNorm, ReLU, Dropout beside a skip, Gemm."""
    random = np.random.default_rng(seed)

    def tensor(name: str, *shape: int, least: float = -0.5) -> Any:
        return numpy_helper.from_array(
            random.uniform(least, least + 1, shape).astype(np.float32), name
        )

    weights = [
        tensor("w", 3, 2, 3, 3), tensor("scale", 3, least=0.5), tensor("shift", 3),
        tensor("mean", 3), tensor("var", 3, least=0.5), tensor("fc", 60, 4), tensor("bias", 4),
        numpy_helper.from_array(np.array(0.4, np.float32), "ratio"),
    ]  # fmt: skip
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv"),
        helper.make_node("BatchNormalization", ["c", "scale", "shift", "mean", "var"], ["n"],
                         name="norm", momentum=0.8),
        helper.make_node("Tanh", ["n"], ["t"], name="tanh"),
        helper.make_node("Dropout", ["t", "ratio"], ["d"], name="drop"),
        helper.make_node("Add", ["d", "t"], ["s"], name="sum"),
        helper.make_node("Flatten", ["s"], ["f"], name="flatten"),
        helper.make_node("Gemm", ["f", "fc", "bias"], ["y"], name="gemm"),
    ]  # fmt: skip
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "g", [value("x", TensorProto.FLOAT, ["n", 2, 6, 7])],
        [value("y", TensorProto.FLOAT, ["n", 4])], weights,
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


class TorchEquivalentModel(nn.Module):
    def __init__(self, model: onnx.ModelProto, masks: list[Tensor]) -> None:
        super().__init__()
        arrays = {one.name: torch.tensor(numpy_helper.to_array(one)).double()
                  for one in model.graph.initializer}  # fmt: skip
        self.w, self.fc, self.bias, self.scale, self.shift = (
            nn.Parameter(arrays[name]) for name in ("w", "fc", "bias", "scale", "shift")
        )
        self.mean, self.var = arrays["mean"], arrays["var"]
        self.masks = masks

    def forward(self, x: Tensor) -> Tensor:
        x = F.conv2d(x, self.w)
        x = F.batch_norm(x, self.mean, self.var, self.scale, self.shift, True, 0.2)
        x = torch.tanh(x)
        return (x * self.masks.pop(0) / 0.6 + x).flatten(1) @ self.fc + self.bias


def test_onnx_models_train_with_their_batchnorms_and_dropouts() -> None:
    model, x, y = onnx_model(), pictures(), torch.randn(8, 4)
    before = model.SerializeToString()

    def trained(steps: int) -> Training:
        return nbglcnn.train(
            model, (x, y), "mse", nbglcnn.SGD(0.1), 8, steps=steps, **TRAIN_OPTIONS
        )

    (name,) = (name for name in trained(1).activations if name.endswith(".mask"))
    masks = [torch.from_numpy(trained(k).activations[name]).double() for k in (1, 2)]
    assert model.SerializeToString() == before
    own = TorchEquivalentModel(model, [*masks])
    right = train_in_torch(own, x, y, F.mse_loss, sgd(), steps=2, size=8, dtype=torch.float64)
    result = trained(2)
    np.testing.assert_allclose(result.losses, right.losses, rtol=1e-5)
    state = result.state_dict()
    for key in ("w", "scale", "shift", "mean", "var", "fc", "bias"):
        found = getattr(right.model, key).detach().numpy()
        np.testing.assert_allclose(state[key], found, atol=1e-5, err_msg=key)
    assert {*state} == {"w", "scale", "shift", "mean", "var", "fc", "bias"}


def test_random_numbers_that_forward_draws_are_others_in_each_step() -> None:
    class Noisy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(40, 40)

        def forward(self, x: Tensor) -> Tensor:
            return self.linear(x) + torch.randn_like(x)

    model, x = Noisy(), torch.randn(4, 40)
    drawn = []
    for steps in (1, 2):
        result = nbglcnn.train(
            model, (x, x), "mse", nbglcnn.SGD(1e-9), 4, steps=steps, **TRAIN_OPTIONS
        )
        drawn.append(result.activations["noise"])
        loss = ((model.linear(x).detach().numpy() + drawn[-1] - x.numpy()) ** 2).mean()
        assert result.losses[-1] == pytest.approx(loss, rel=1e-5)
    assert abs(np.corrcoef(drawn[0].ravel(), drawn[1].ravel())[0, 1]) < 0.4
    assert drawn[0].std() == pytest.approx(1, abs=0.3)


@pytest.mark.parametrize("count", [8, 10])
def test_statistics_of_a_short_batch_that_others_would_fill_are_refused(count: int) -> None:
    def network() -> nn.Module:
        torch.manual_seed(0)
        norm = nn.BatchNorm2d(2, track_running_stats=False)
        return nn.Sequential(nn.Conv2d(1, 2, 3), norm, nn.Flatten(), nn.Linear(18, 3))

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(count, 1, 5, 5)).astype(np.float32), rng.integers(0, 3, count)

    def trained() -> Any:
        data, sgd = (x, y), nbglcnn.SGD(0.1)
        return nbglcnn.train(network(), data, "cross_entropy", sgd, 4, epochs=1, shuffle=False)

    if count % 4:
        with pytest.raises(
            nbglcnn.UnsupportedModel, match=r"^1: .* has 2 of 4\. Give a batch_size"
        ):
            trained()
        return
    model = network().train()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for k in range(0, count, 4):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(
            model(torch.tensor(x[k : k + 4])), torch.tensor(y[k : k + 4])
        )
        loss.backward()
        optimizer.step()
    for name, array in trained().state_dict().items():
        np.testing.assert_allclose(array, model.state_dict()[name], atol=1e-6)
