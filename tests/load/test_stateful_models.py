"""Models whose forward changes their state, precision or gradients."""

import copy
import random
import warnings

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from torch import nn

import nbglcnn
from nbglcnn.load import load
from nbglcnn.lowering.lower import lower
from nbglcnn.reference import compute_reference

X = np.random.default_rng(0).standard_normal((1, 3, 6, 5)).astype(np.float32)
UNEQUAL_OUTPUTS_PATTERN = "^the outputs of two equal calls of forward differ$"


class CountsCalls(nn.Module):
    """Multiplies by the number of its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 2, 3)
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.conv(x) * self.calls


class CountsInABuffer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 2, 3)
        self.register_buffer("count", torch.ones(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return self.conv(x) * self.count


class AppendsToList(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[torch.Tensor] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.append(x)
        return x * len(self.seen)


class PopsFromList(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left = [2.0]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.left.pop()


class DecaysWeight(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self.weight.mul_(0.5)
        return x * self.weight


class CountsAndAsks(nn.Module):
    """A model that is traced twice: in the first trace its buffer has no value."""

    def __init__(self) -> None:
        super().__init__()
        self.k = 0
        self.register_buffer("flag", torch.tensor(True))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.k += 1
        return x * self.k if self.flag else x


STATEFUL_MODELS = [
    CountsCalls,
    CountsInABuffer,
    AppendsToList,
    PopsFromList,
    DecaysWeight,
    CountsAndAsks,
]


@pytest.mark.parametrize("make", STATEFUL_MODELS)
def test_each_run_starts_from_the_state_that_the_user_gave(make: type[nn.Module]) -> None:
    torch.manual_seed(0)
    model = make().eval()
    with torch.no_grad():
        first = copy.deepcopy(model)(torch.from_numpy(X)).numpy()
    state = copy.deepcopy({**model.state_dict(), "attributes": str(vars(model))})
    known: dict[str, np.ndarray] = {}
    with pytest.warns(UserWarning, match=UNEQUAL_OUTPUTS_PATTERN) as caught:
        graph, arrays = load(model, X, known)
    assert caught[0].filename == __file__
    truth = compute_reference(model, graph, arrays)
    with nbglcnn.Session(lower(graph)) as session:
        found = session.run(*arrays)
    for values in (known, truth, found):
        assert_allclose(values["output"], first, rtol=1e-5, atol=1e-6)
    for name, value in state.items():
        now = str(vars(model)) if name == "attributes" else model.state_dict()[name]
        assert now == value if name == "attributes" else torch.equal(now, value)


class PythonRandom(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * random.random()


class RandomBernoulli(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.bernoulli(torch.full((100,), 0.5)).sum()


@pytest.mark.parametrize("make", [PythonRandom, RandomBernoulli])
def test_random_outputs_are_told_and_the_generator_stays(make: type[nn.Module]) -> None:
    before = torch.get_rng_state()
    with pytest.warns(UserWarning, match=UNEQUAL_OUTPUTS_PATTERN):
        load(make().eval(), X)
    assert_array_equal(torch.get_rng_state(), before)


class SeedsGenerator(nn.Module):
    """Random, but with the same numbers in each call."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(5)
        return x + torch.rand(1).item()


class ForksGenerator(nn.Module):
    """Seeds twice and restores the generator, like code that makes constants."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(5)
            first = torch.rand(1).item()
            torch.manual_seed(5)
            return x + first + torch.rand(1).item()


class StableOutputs(nn.Module):
    """Draws, counts and stores values, but returns the same result: with NaN and integers."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.calls += 1
        return torch.sqrt(x) + 0 * len(str(self.calls)), x.argmax(1)


def test_models_whose_calls_are_equal_get_no_warning() -> None:
    seed = torch.initial_seed()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(StableOutputs().eval(), X)
        load(SeedsGenerator().eval(), X)
        load(ForksGenerator().eval(), X)
    assert torch.initial_seed() == seed


class HalfCast(nn.Module):
    """Runs a part in bfloat16; `deep` is a module's output there, the rest are functions."""

    def __init__(self, deep: bool) -> None:
        super().__init__()
        self.deep = deep
        self.conv = nn.Conv2d(3, 4, 3)
        self.last = nn.Conv2d(4 if deep else 3, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            y = self.conv(x).relu() if self.deep else (x @ x.transpose(2, 3)) @ x
        return self.last(y.float())


class WithoutAutocast(nn.Module):
    def __init__(self, model: HalfCast) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        m = self.model
        return m.last(m.conv(x).relu() if m.deep else (x @ x.transpose(2, 3)) @ x)


@pytest.mark.parametrize("deep", [True, False])
def test_autocast_is_computed_in_float32_and_says_so(deep: bool) -> None:
    model = HalfCast(deep).eval()
    known: dict[str, np.ndarray] = {}
    graph, _ = load(model, X, known)
    assert graph.notes == ("operations under torch.autocast run in float32",)
    with torch.no_grad():
        true = WithoutAutocast(model)(torch.from_numpy(X)).numpy()
    assert_allclose(known["output"], true, rtol=1e-6, atol=1e-7)
    with nbglcnn.Session(nbglcnn.compile(model, X)) as session:
        report = nbglcnn.verify(session, model, X)
        assert report.ok, report
        assert "(in float32, without forward's autocast)" in str(report)
        assert_allclose(session.read("output"), true, rtol=1e-5, atol=1e-6)
    assert not torch.is_autocast_enabled("cpu")


class Bfloat16Output(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.relu(x.bfloat16())


def test_bfloat16_that_forward_asks_for_is_refused_with_advice() -> None:
    with pytest.raises(nbglcnn.UnsupportedModel, match=r"type bfloat16 .* with \.float\(\)"):
        load(Bfloat16Output().eval(), X)


class RequiresGrad(nn.Module):
    """Its output requires grad, even under no_grad."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 2, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            return self.conv(x.detach().requires_grad_(True))


class GradientStep(nn.Module):
    """A gradient descent step on a sum of squares."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            x = x.detach().requires_grad_(True)
            (slope,) = torch.autograd.grad((x.tanh() ** 2).sum(), x)
        return x - 0.1 * slope


def test_an_output_that_requires_grad_is_read_like_any_other() -> None:
    model = RequiresGrad().eval()
    true = model(torch.from_numpy(X)).detach().numpy()
    with nbglcnn.Session(nbglcnn.compile(model, X)) as session:
        assert_allclose(session.run(X)["output"], true, rtol=1e-5, atol=1e-6)
        assert nbglcnn.verify(session, model, X).ok


def test_a_forward_that_computes_gradients_runs() -> None:
    model, other = (
        GradientStep().eval(),
        np.random.default_rng(1).normal(size=X.shape).astype("float32"),
    )
    with nbglcnn.Session(nbglcnn.compile(model, X)) as session:
        true = model(torch.from_numpy(other)).detach().numpy()
        assert_allclose(session.run(other)["output"], true, rtol=1e-5, atol=1e-6)
