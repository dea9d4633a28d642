"""nbglcnn.train: losses, optimizers and data handling, compared with PyTorch's training."""

import signal
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import nbglcnn
from nbglcnn import losses
from nbglcnn.errors import DeviceError, InputError, UnsupportedModel, UnsupportedOperator
from training_checks import assert_trained, train_in_torch

pytestmark = pytest.mark.filterwarnings("error")


def sgd(lr: float = 0.1, **options: Any) -> Callable[[Any], torch.optim.Optimizer]:
    return lambda parameters: torch.optim.SGD(parameters, lr, **options)


@pytest.fixture(autouse=True)
def _seed_torch() -> None:
    torch.manual_seed(0)


def small_cnn(outputs: int = 5, last_layer: nn.Module | None = None) -> nn.Module:
    """A small CNN with odd sizes and an output (batch, outputs)."""
    layers = [nn.Conv2d(2, 3, 3, 2), nn.Tanh(), nn.Flatten(), nn.Linear(27, outputs)]
    return nn.Sequential(*layers, *([last_layer] if last_layer else []))


def random_inputs(count: int = 8) -> Tensor:
    return torch.randn(count, 2, 7, 7)


LOSSES: dict[str, tuple[Any, Any, nn.Module | None, Callable[[], Tensor]]] = {
    "mse": ("mse", F.mse_loss, None, lambda: torch.randn(8, 5)),
    "l1": ("l1", F.l1_loss, None, lambda: torch.randn(8, 5)),
    "smooth l1": ("smooth_l1", F.smooth_l1_loss, None, lambda: 2 * torch.randn(8, 5)),
    "smooth l1, beta": (
        losses.smooth_l1(0.3), lambda a, b: F.smooth_l1_loss(a, b, beta=0.3), None,
        lambda: torch.randn(8, 5),
    ),
    "bce": ("bce", F.binary_cross_entropy, nn.Sigmoid(), lambda: torch.rand(8, 5)),
    "bce of 0 and 1": (
        "bce", F.binary_cross_entropy, nn.Hardsigmoid(), lambda: torch.rand(8, 5).round()
    ),
    "bce with logits": (
        "bce_with_logits", F.binary_cross_entropy_with_logits, None, lambda: torch.rand(8, 5)
    ),
    "cross entropy": ("cross_entropy", F.cross_entropy, None, lambda: torch.randint(0, 5, (8,))),
    "cross entropy, smoothed": (
        losses.cross_entropy(label_smoothing=0.2),
        lambda a, b: F.cross_entropy(a, b, label_smoothing=0.2), None,
        lambda: torch.randint(0, 5, (8,)),
    ),
    "cross entropy of probabilities": (
        "cross_entropy", F.cross_entropy, None, lambda: torch.rand(8, 5)
    ),
    "cross entropy of probabilities, smoothed": (
        nn.CrossEntropyLoss(label_smoothing=0.3), nn.CrossEntropyLoss(label_smoothing=0.3), None,
        lambda: torch.rand(8, 5),
    ),
    "module": (nn.SmoothL1Loss(beta=2.0), nn.SmoothL1Loss(beta=2.0), None,
               lambda: 3 * torch.randn(8, 5)),
}  # fmt: skip


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("size", [4, 3])  # full batches, and 8 = 3 + 3 + 2
def test_losses(name: str, size: int) -> None:
    loss, of_torch, last, target = LOSSES[name]
    assert_trained(small_cnn(last_layer=last), (random_inputs(), target()), loss, of_torch,
                   nbglcnn.SGD(0.1), sgd(), size=size)  # fmt: skip


@pytest.mark.parametrize("size", [4, 3])
def test_cross_entropy_of_each_pixel(size: int) -> None:
    model = nn.Sequential(nn.Conv2d(2, 5, 3), nn.Tanh(), nn.Conv2d(5, 3, 1))
    data = random_inputs(), torch.randint(0, 3, (8, 5, 5))
    assert_trained(model, data, "cross_entropy", F.cross_entropy, nbglcnn.SGD(0.1), sgd(),
                   size=size)  # fmt: skip


def decaying_rate(step: int) -> float:
    return 0.1 / (1 + step)


def clip_norm(model: nn.Module) -> None:
    nn.utils.clip_grad_norm_(model.parameters(), 0.3)


def clip_value(model: nn.Module) -> None:
    nn.utils.clip_grad_value_(model.parameters(), 0.02)


def clip_both(model: nn.Module) -> None:
    clip_value(model)
    nn.utils.clip_grad_norm_(model.parameters(), 0.05)


OPTIMIZERS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "SGD": (nbglcnn.SGD(0.1), sgd(), {}),
    "momentum": (nbglcnn.SGD(0.1, momentum=0.9), sgd(momentum=0.9), {}),
    "Nesterov": (
        nbglcnn.SGD(0.1, 0.8, nesterov=True), sgd(momentum=0.8, nesterov=True), {}
    ),
    "weight decay": (
        nbglcnn.SGD(0.1, 0.8, weight_decay=0.05), sgd(momentum=0.8, weight_decay=0.05), {}
    ),
    "Adam": (nbglcnn.Adam(), torch.optim.Adam, {}),
    "Adam, its numbers": (
        nbglcnn.Adam(1e-2, betas=(0.7, 0.95), eps=1e-3, weight_decay=0.05),
        lambda p: torch.optim.Adam(p, 1e-2, betas=(0.7, 0.95), eps=1e-3, weight_decay=0.05), {},
    ),
    "AdamW": (nbglcnn.AdamW(1e-2), lambda p: torch.optim.AdamW(p, 1e-2), {}),
    "AdamW, decay": (
        nbglcnn.AdamW(1e-2, weight_decay=0.3),
        lambda p: torch.optim.AdamW(p, 1e-2, weight_decay=0.3), {},
    ),
    "schedule": (nbglcnn.SGD(decaying_rate), sgd(), {"rate": decaying_rate}),
    "schedule of Adam": (nbglcnn.Adam(decaying_rate, eps=1e-3),
                         lambda p: torch.optim.Adam(p, eps=1e-3), {"rate": decaying_rate}),
    "norm": (nbglcnn.SGD(0.1, clip_norm=0.3), sgd(), {"clip": clip_norm}),
    "a norm that is large enough": (nbglcnn.SGD(0.1, clip_norm=1e6), sgd(), {}),
    "value": (nbglcnn.SGD(0.1, clip_value=0.02), sgd(), {"clip": clip_value}),
    "both": (nbglcnn.SGD(0.1, clip_value=0.02, clip_norm=0.05), sgd(), {"clip": clip_both}),
}  # fmt: skip


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(name: str) -> None:
    ours, theirs, more = OPTIMIZERS[name]
    # `gradients` are the ones before clipping, which autograd doesn't keep.
    data = random_inputs(), torch.randn(8, 5)
    result = nbglcnn.train(small_one := small_cnn(), data, "mse", ours, 4, steps=6, shuffle=False,
                           progress=False)  # fmt: skip
    right = train_in_torch(small_one, *data, F.mse_loss, theirs, steps=6, size=4,
                           dtype=torch.float64, **more)  # fmt: skip
    np.testing.assert_allclose(result.losses, right.losses, rtol=1e-5)
    for name, tensor in right.model.state_dict().items():
        found = result.state_dict()[name].numpy()
        np.testing.assert_allclose(found, tensor.numpy(), atol=1e-5, err_msg=name)


# Data


class PairDataset(torch.utils.data.Dataset[tuple[Tensor, Tensor]]):
    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.x, self.y = x, y

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.x[index], self.y[index]


def test_arrays_datasets_and_loaders_are_the_same_data() -> None:
    model, x, y = small_cnn(), random_inputs(7), torch.randint(0, 5, (7,))
    pairs = PairDataset(x, y)
    loader = torch.utils.data.DataLoader(pairs, batch_size=3)
    dropping = torch.utils.data.DataLoader(pairs, batch_size=3, drop_last=True)
    options: Any = {"loss": "cross_entropy", "optimizer": nbglcnn.SGD(0.1), "progress": False}
    right = nbglcnn.train(model, (x, y), batch_size=3, epochs=2, shuffle=False, **options)
    assert right.losses.shape == (6,)
    for data in ((x.numpy(), y.numpy().astype(np.uint8)), pairs):
        found = nbglcnn.train(model, data, batch_size=3, epochs=2, shuffle=False, **options)
        np.testing.assert_array_equal(found.losses, right.losses)
    found = nbglcnn.train(model, loader, epochs=2, **options)
    np.testing.assert_array_equal(found.losses, right.losses)
    assert len(nbglcnn.train(model, dropping, epochs=2, **options).losses) == 4
    assert len(nbglcnn.train(model, dropping, steps=5, **options).losses) == 5


def test_pictures_of_bytes_become_numbers_from_0_to_1() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.Conv2d(2, 1, 1), nn.Sigmoid())
    pictures = torch.randint(0, 256, (4, 6, 5), dtype=torch.uint8)
    numbers = pictures.float()[:, None] / 255
    options: Any = {"batch_size": 2, "steps": 3, "shuffle": False, "progress": False}
    found = nbglcnn.train(model, pictures.numpy(), **options)
    right = nbglcnn.train(model, (numbers, numbers), **options)
    np.testing.assert_allclose(found.losses, right.losses, rtol=1e-6)
    colour = nn.Sequential(nn.Conv2d(3, 3, 1))
    last = torch.randint(0, 256, (4, 6, 5, 3), dtype=torch.uint8)
    found = nbglcnn.train(colour, last.numpy(), **options)
    right = nbglcnn.train(colour, last.permute(0, 3, 1, 2).float() / 255, **options)
    np.testing.assert_allclose(found.losses, right.losses, rtol=1e-6)


def test_each_epoch_has_an_order_of_its_own_and_a_seed_fixes_it() -> None:
    class Told(nn.Module):
        """Its loss is the example's number."""

        def __init__(self) -> None:
            super().__init__()
            self.zero = nn.Parameter(torch.zeros(1))

        def forward(self, x: Tensor) -> Tensor:
            return (x + 0 * self.zero).mean()

    def orders(**options: Any) -> list[list[float]]:
        data = torch.arange(5.0)[:, None]
        found = nbglcnn.train(Told(), data, "output", nbglcnn.SGD(0.1), 1, epochs=3,
                              progress=False, **options)  # fmt: skip
        return found.losses.reshape(3, 5).tolist()

    first = orders()
    assert all(sorted(one) == [0, 1, 2, 3, 4] for one in first)
    assert first[0] != first[1]
    assert orders() == first != orders(seed=1)
    assert orders(shuffle=False) == [[0, 1, 2, 3, 4]] * 3


class TwoInputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(2, 3, 3), nn.Linear(4, 3)

    def forward(self, picture: Tensor, numbers: Tensor) -> Tensor:
        return self.first(picture).mean((2, 3)) * self.second(numbers)


def test_several_inputs_are_a_tuple() -> None:
    model, x, numbers, y = TwoInputs(), random_inputs(6), torch.randn(6, 4), torch.randn(6, 3)
    found = nbglcnn.train(model, ((x, numbers), y), "mse", nbglcnn.SGD(0.1), 6, steps=2,
                          progress=False, shuffle=False)  # fmt: skip
    loss = F.mse_loss(model(x, numbers), y)
    assert found.losses[0] == pytest.approx(loss.item(), rel=1e-6)
    with pytest.raises(InputError, match="numbers"):
        nbglcnn.train(model, (x, y), steps=1, progress=False)


# Losses computed by the model


class ComputesLoss(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.model = small_cnn()

    def forward(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        found = self.model(x)
        return {"found": found, "cost": ((found - y) ** 2).sum(1).sqrt().mean()}


def test_a_scalar_output_of_the_model_is_a_loss() -> None:
    model, x, y = ComputesLoss(), random_inputs(), torch.randn(8, 5)
    found = nbglcnn.train(model, (x, y), "output['cost']", nbglcnn.SGD(0.1), 4, steps=4,
                          shuffle=False, progress=False)  # fmt: skip
    right = train_in_torch(model.model, x, y, lambda a, b: ((a - b) ** 2).sum(1).sqrt().mean(),
                           sgd(), steps=4, size=4, dtype=torch.float64)  # fmt: skip
    np.testing.assert_allclose(found.losses, right.losses, rtol=1e-5)
    with pytest.raises(InputError, match="batch_size that divides"):
        nbglcnn.train(model, (x, y), "output['cost']", batch_size=3, steps=1)
    with pytest.raises(InputError, match=r"has the shape \(4, 5\)"):
        nbglcnn.train(model, (x, y), "output['found']", batch_size=4, steps=1)
    with pytest.raises(InputError, match="neither a loss"):
        nbglcnn.train(model, (x, y), "output['coast']", batch_size=4, steps=1)


# Results


def test_gradients_and_activations_of_the_last_step() -> None:
    model, x, y = small_cnn(), random_inputs(), torch.randn(8, 5)
    result = nbglcnn.train(model, (x, y), "mse", nbglcnn.SGD(0.1), 8, steps=3, progress=False,
                           shuffle=False)  # fmt: skip
    own = train_in_torch(model, x, y, F.mse_loss, sgd(), steps=2, size=8, dtype=torch.float64).model
    own.zero_grad()
    given = x.double().requires_grad_()
    hidden = own[1](own[0](given))
    hidden.retain_grad()
    output = own[3](own[2](hidden))
    F.mse_loss(output, y.double()).backward()
    for name, right in {
        "input": given.grad, "1": hidden.grad, "0.weight": own[0].weight.grad,
        "3.bias": own[3].bias.grad,
    }.items():  # fmt: skip
        assert right is not None
        np.testing.assert_allclose(result.gradients[name], right, atol=1e-5 * float(
            right.abs().max()
        ))  # fmt: skip
    np.testing.assert_allclose(result.activations["1"], hidden.detach(), atol=1e-5)
    np.testing.assert_allclose(result.activations["output"], output.detach(), atol=1e-5)
    assert {"input", "0", "0.weight", "output"} <= {*result.gradients}
    with pytest.raises(KeyError, match=r"0\.weight"):
        result.gradients["0.wieght"]
    assert repr(result).startswith("Training(3 steps, loss ")


@pytest.mark.parametrize("ours", [nbglcnn.Adam(1e-2), nbglcnn.SGD(0.1, momentum=0.9)])
def test_training_goes_on_where_it_ended(ours: Any, tmp_path: Any) -> None:
    model, data = small_cnn(), (random_inputs(7), torch.randn(7, 5))
    options: Any = {"loss": "mse", "optimizer": ours, "batch_size": 3, "progress": False}
    whole = nbglcnn.train(model, data, steps=9, **options)
    half = nbglcnn.train(model, data, steps=4, **options)
    np.savez(tmp_path / "state.npz", **half.optimizer_state)
    half_trained = small_cnn()
    half_trained.load_state_dict(half.state_dict())
    with np.load(tmp_path / "state.npz") as state:
        rest = nbglcnn.train(half_trained, data, steps=5, optimizer_state=state, **options)
    np.testing.assert_array_equal(np.append(half.losses, rest.losses), whole.losses)
    for name, tensor in whole.state_dict().items():
        assert torch.equal(rest.state_dict()[name], tensor)
    assert rest.optimizer_state["step"] == 9
    with pytest.raises(InputError, match="is missing"):
        nbglcnn.train(model, data, steps=1, optimizer_state={"step": 3}, **options)


def test_no_step_changes_nothing() -> None:
    model = small_cnn()
    result = nbglcnn.train(model, (random_inputs(), torch.randn(8, 5)), steps=0, progress=False)
    assert result.losses.shape == (0,) and not [*result.gradients]
    assert all(torch.equal(t, model.state_dict()[n]) for n, t in result.state_dict().items())
    assert result.memory > 0 and result.renderer


# Errors during the run


def test_nan_stops_with_the_first_value_that_went_wrong() -> None:
    class Rooted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(3, 4, bias=False), nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.second(torch.sqrt(self.first(x)))

    model = Rooted()
    nn.init.constant_(model.first.weight, 0.1)
    x = torch.ones(8, 3)
    x[5] = -1  # square root of a negative number
    data = (x, torch.randn(8, 2))
    with pytest.warns(UserWarning, match=r"step 2: sqrt has NaN \(4 of 8\), the first"):
        result = nbglcnn.train(model, data, batch_size=2, steps=9, shuffle=False, progress=False)
    assert len(result.losses) == 2 and np.isfinite(result.losses).all()
    assert np.isnan(result.activations["sqrt"]).any(1).tolist() == [False, True]
    assert np.isnan(result.gradients["first.weight"]).all()
    assert "step 2" in result.stopped
    two = nbglcnn.train(model, data, batch_size=2, steps=2, shuffle=False, progress=False)
    for name, tensor in two.state_dict().items():
        assert torch.equal(result.state_dict()[name], tensor), name


def test_gradients_that_are_nan_are_named() -> None:
    class Rooted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(3, 4, bias=False)

        def forward(self, x: Tensor) -> Tensor:
            return torch.sqrt(self.first(x).square())

    model = Rooted()
    nn.init.zeros_(model.first.weight)
    data = (torch.ones(4, 3), torch.ones(4, 4))
    with pytest.warns(UserWarning, match=r"gradient of (pow|square|mul|first)"):
        result = nbglcnn.train(model, data, batch_size=4, steps=3, progress=False)
    assert len(result.losses) == 0
    assert torch.equal(result.state_dict()["first.weight"], model.first.weight)


def test_weights_that_explode_are_told_from_values() -> None:
    model = nn.Linear(3, 2)
    data = (1e3 * torch.ones(4, 3), torch.ones(4, 2))
    with pytest.warns(UserWarning, match="infinite|NaN") as told:
        result = nbglcnn.train(model, data, optimizer=nbglcnn.SGD(1e6), batch_size=4, steps=40,
                               progress=False)  # fmt: skip
    assert 0 < len(result.losses) < 40
    assert f"step {len(result.losses)}" in str(told[0].message)
    assert all(bool(t.isfinite().all()) for t in result.state_dict().values())


@pytest.fixture
def interrupt_after() -> Iterator[Callable[[float], None]]:
    timers: list[threading.Timer] = []

    def later(seconds: float) -> None:
        timers.append(threading.Timer(seconds, signal.raise_signal, (signal.SIGINT,)))
        timers[-1].start()

    yield later
    for timer in timers:
        timer.cancel()


def test_an_interrupt_keeps_what_was_learned() -> None:
    model, x, y = small_cnn(), random_inputs(), torch.randn(8, 5)
    stops_at = 7

    class Stopping(PairDataset):
        taken = 0

        def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
            self.taken += 1
            if self.taken == 8 + 4 * stops_at:  # the first batch is also read once beforehand
                signal.raise_signal(signal.SIGINT)
            return super().__getitem__(index)

    options: Any = {"batch_size": 4, "shuffle": False, "progress": False}
    result = nbglcnn.train(model, Stopping(x, y), steps=1000, **options)
    done = len(result.losses)
    assert done in (stops_at, stops_at + 1)
    assert "interrupted" in result.stopped
    right = nbglcnn.train(model, (x, y), steps=done, **options)
    np.testing.assert_array_equal(result.losses, right.losses)
    for name, tensor in right.state_dict().items():
        assert torch.equal(result.state_dict()[name], tensor), name
        np.testing.assert_array_equal(result.gradients[name], right.gradients[name])


def test_an_interrupt_at_any_time(interrupt_after: Callable[[float], None]) -> None:
    model, data = small_cnn(), (random_inputs(), torch.randn(8, 5))
    options: Any = {"batch_size": 4, "shuffle": False, "progress": False}
    nbglcnn.train(model, data, steps=1, **options)  # warm-up: import and compile everything
    interrupt_after(4.0)
    result = nbglcnn.train(model, data, steps=10**6, **options)
    assert "interrupted" in result.stopped and len(result.losses)
    right = nbglcnn.train(model, data, steps=len(result.losses), **options)
    np.testing.assert_array_equal(result.losses, right.losses)
    for name, tensor in right.state_dict().items():
        assert torch.equal(result.state_dict()[name], tensor), name


@pytest.mark.parametrize(("share", "least"), ((0.3, 1), (0.5, 8), (0.9, 20)))
def test_what_needs_more_memory_than_may_be_taken_is_refused_with_a_batch_that_fits(
    share: float, least: int
) -> None:
    model, data = small_cnn(), (random_inputs(64), torch.randn(64, 5))
    needs = nbglcnn.train(model, data, batch_size=30, steps=0, progress=False).memory
    most = int(needs * share)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*data), batch_size=30)
    for given, size in ((data, 30), (loader, None)):
        with pytest.raises(DeviceError, match=r"batch_size=30 needs .* are available") as error:
            nbglcnn.train(model, given, batch_size=size, steps=1, max_bytes=most, progress=False)
        fits = int(str(error.value).rpartition("batch_size=")[2].split()[0])
        assert least <= fits < 30
        run = nbglcnn.train(model, data, batch_size=fits, steps=1, max_bytes=most, progress=False)
        assert run.memory <= most
    with pytest.raises(DeviceError, match="for any batch size: train fewer"):
        nbglcnn.train(model, data, batch_size=64, steps=1, max_bytes=100, progress=False)


# Errors raised before anything runs


def refusal_message(*args: Any, **options: Any) -> str:
    with pytest.raises((InputError, KeyError, UnsupportedModel)) as error:
        nbglcnn.train(*args, **{"steps": 1, "progress": False, **options})
    return str(error.value)


def test_arguments_that_do_not_fit_are_refused() -> None:
    model, x, y = small_cnn(), random_inputs(4), torch.randn(4, 5)
    for words, _, options in (
        ("lr=-1", (), {"optimizer": lambda: nbglcnn.SGD(-1)}),
        ("betas", (), {"optimizer": lambda: nbglcnn.Adam(betas=(0.9, 1.0))}),
        ("nesterov", (), {"optimizer": lambda: nbglcnn.SGD(0.1, nesterov=True)}),
        ("clip_norm=0", (), {"optimizer": lambda: nbglcnn.SGD(0.1, clip_norm=0)}),
    ):
        with pytest.raises(InputError, match=words):
            options["optimizer"]()
    weights = list(model.parameters())
    for given, found in (
        (torch.optim.SGD, "the class torch.optim.SGD; give nbglcnn.SGD(0.001)"),
        (nbglcnn.Adam, "the class nbglcnn.Adam; give nbglcnn.Adam(0.001)"),
        ("adamw", "'adamw'; give nbglcnn.AdamW(0.001)"),
        (torch.optim.Adam(weights, 0.02), "torch.optim.Adam; give nbglcnn.Adam(0.02)"),
        (
            torch.optim.SGD(weights, 0.1, momentum=0.9, nesterov=True),
            "torch.optim.SGD; give nbglcnn.SGD(0.1, momentum=0.9, nesterov=True)",
        ),
        (
            torch.optim.AdamW(weights, betas=(0.8, 0.9), amsgrad=True),
            "nbglcnn.AdamW(0.001, betas=(0.8, 0.9)), which has no amsgrad",
        ),
        (torch.optim.RMSprop(weights), "torch.optim.RMSprop; give nbglcnn.SGD, nbglcnn.Adam or"),
    ):
        assert found in refusal_message(model, (x, y), optimizer=given)
    assert "epochs=… or steps=…" in refusal_message(model, (x, y), steps=None)
    assert "epochs=… or steps=…" in refusal_message(model, (x, y), epochs=1)
    assert "steps=-1" in refusal_message(model, (x, y), steps=-1)
    assert "batch_size=0" in refusal_message(model, (x, y), batch_size=0)
    assert "there are no examples" in refusal_message(model, (x[:0], y[:0]))
    assert "the same number of examples" in refusal_message(model, (x, y[:3]))
    assert "tuple of 3" in refusal_message(model, (x, y, y))
    assert "str was given" in refusal_message(model, "data")
    assert "dicts of image" in refusal_message(model, DictDataset())
    assert "for an output of shape (4, 5)" in refusal_message(model, (x, y[:, :3]))
    assert "reshape the targets to (-1, 5,)" in refusal_message(model, (x, y.reshape(4, 5, 1)))
    assert "the class 5;" in refusal_message(model, (x, torch.full((4,), 5)), "cross_entropy")
    assert "the class -1;" in refusal_message(model, (x, torch.full((4,), -1)), "cross_entropy")
    assert "expected 0 to 1" in refusal_message(
        small_cnn(last_layer=nn.Sigmoid()), (x, y * 9), "bce"
    )
    assert "neither a loss" in refusal_message(model, (x, y), "mes")
    words = refusal_message(model, (x, y), "crossentropy")
    assert words.startswith("loss='crossentropy' is unknown (near: cross_entropy): it is neither")
    assert words.endswith("all of the data (Sequential.forward takes 1 input; 2 were given)")
    assert "reduction='sum'" in refusal_message(model, (x, y), nn.MSELoss(reduction="sum"))
    assert "pos_weight" in refusal_message(
        model, (x, y), nn.BCEWithLogitsLoss(pos_weight=torch.ones(5))
    )
    ignoring = nn.CrossEntropyLoss(ignore_index=2)
    assert "ignore_index=2" in refusal_message(model, (x, torch.full((4,), 2)), ignoring)
    for hook in (
        "register_forward_hook",
        "register_forward_pre_hook",
        "register_full_backward_hook",
    ):
        hooked = nn.MSELoss()
        getattr(hooked, hook)(lambda *_: None)
        assert "MSELoss: a hook" in refusal_message(model, (x, y), hooked)
    replaced = nn.MSELoss()
    replaced.forward = lambda a, b: (a - b).abs().mean()
    assert "MSELoss: a hook or an overridden forward" in refusal_message(model, (x, y), replaced)
    assert "KLDivLoss" in refusal_message(model, (x, y), nn.KLDivLoss())
    assert "0.weight" in refusal_message(model, (x, y), parameters=["0.wieght"])
    body = nn.Sequential(OrderedDict(body=model, head=nn.Linear(5, 5))).eval()
    assert "(near: head.*" in refusal_message(body, (x, y), parameters=["haed.*"])
    assert "(near: head)" in refusal_message(body, (x, y), parameters=["haed"])
    assert "requires_grad" in refusal_message(small_cnn().requires_grad_(False), (x, y))
    assert "the model has none" in refusal_message(nn.Tanh(), (x, x))
    assert "outputs are" in refusal_message(ComputesLoss(), ((x, y), y))
    joined = nn.Sequential(nn.Flatten(0, 1), nn.Flatten(), nn.Linear(49, 3))
    message = refusal_message(joined, (torch.randn(5, 2, 7, 7), torch.randn(5, 3)), batch_size=2)
    assert "no axis of 2 examples" in message
    assert "lr(0) gave nan" in refusal_message(
        model, (x, y), optimizer=nbglcnn.SGD(lambda _: np.nan)
    )


class DictDataset(torch.utils.data.Dataset[dict[str, Tensor]]):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {"image": torch.zeros(2, 7, 7)}


def test_an_operator_without_a_gradient_is_named_before_anything_runs() -> None:
    onnx_model, x, name = model_without_gradient()
    with pytest.raises(UnsupportedOperator, match=f"{name}.*has no gradient"):
        nbglcnn.train(onnx_model, (x, x), steps=1, progress=False)


def model_without_gradient() -> tuple[Any, np.ndarray, str]:
    """An ONNX model with a weight before an operator that has no gradient."""
    from onnx import TensorProto, helper, numpy_helper

    weight = numpy_helper.from_array(np.ones((1, 3), np.float32), "w")
    nodes = [
        helper.make_node("Mul", ["x", "w"], ["scaled"], name="scale"),
        helper.make_node("Hardmax", ["scaled"], ["y"], name="hard"),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "g", [value("x", TensorProto.FLOAT, [2, 3])],
        [value("y", TensorProto.FLOAT, [2, 3])], [weight],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    return model, np.random.default_rng(0).random((2, 3), np.float32), "hard"
