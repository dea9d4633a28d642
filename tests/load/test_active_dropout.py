"""Dropouts that model.eval() leaves active, and networks meant to run in training mode."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import nbglcnn
from assertions import assert_equal
from nbglcnn import Session, UnsupportedModel, Viewer, compile
from nbglcnn.load import load
from nbglcnn.python_fallback import load_with_fallback

X = torch.randn(2, 4, 6, 6, generator=torch.Generator().manual_seed(0))
Function = Callable[[nn.Module, torch.Tensor], torch.Tensor]


class FunctionThenConv(nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function
        self.conv = nn.Conv2d(4, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(self.function(self, x))


class InputDependentBranch(FunctionThenConv):
    """Cannot be traced, so a Viewer computes it in Python."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) if x.sum() > 1e9 else self.function(self, x)


class AlwaysTraining(nn.Dropout):
    def train(self, mode: bool = True) -> Any:
        return super().train(True)


def scripted_dropout(x: torch.Tensor) -> torch.Tensor:
    return F.dropout(x, 0.5, True)


SCRIPTED_DROPOUT = torch.jit.script(scripted_dropout)

# A function, its name in the message, and the call that the message suggests.
ACTIVE_DROPOUTS: dict[str, tuple[Function, str, str]] = {
    "dropout": (lambda m, x: F.dropout(x, 0.5), "dropout", "F.dropout"),
    "in place": (lambda m, x: F.dropout(x * 1, 0.5, inplace=True), "dropout", "F.dropout"),
    "everything": (lambda m, x: F.dropout(x, 1.0), "dropout", "F.dropout"),
    "dropout1d": (lambda m, x: F.dropout1d(x[0], 0.5)[None], "dropout1d", "F.dropout1d"),
    "dropout2d": (lambda m, x: F.dropout2d(x, 0.5), "dropout2d", "F.dropout2d"),
    "dropout3d": (lambda m, x: F.dropout3d(x[None], 0.5)[0], "dropout3d", "F.dropout3d"),
    "alpha": (lambda m, x: F.alpha_dropout(x, 0.5, True), "alpha_dropout", "F.alpha_dropout"),
    "feature alpha": (
        lambda m, x: F.feature_alpha_dropout(x, 0.5, True),
        "feature_alpha_dropout",
        "F.feature_alpha_dropout",
    ),
    "torch": (lambda m, x: torch.dropout(x, 0.5, True), "dropout", "F.dropout"),
    "operator": (lambda m, x: torch.native_dropout(x, 0.5, True)[0], "native_dropout", "F.dropout"),
    "made in forward": (lambda m, x: nn.Dropout(0.5)(x), "dropout", "nn.Dropout in __init__"),
    "made in 2d": (lambda m, x: nn.Dropout2d(0.5)(x), "dropout2d", "nn.Dropout2d in __init__"),
    "without eval": (lambda m, x: AlwaysTraining(0.5)(x), "dropout", "F.dropout"),
    "attention": (
        lambda m, x: F.scaled_dot_product_attention(x, x, x, dropout_p=0.5),
        "scaled_dot_product_attention",
        "dropout_p=p if self.training else 0.0",
    ),
    "rrelu": (lambda m, x: F.rrelu(x, training=True), "rrelu", "F.rrelu"),
    "rrelu, positive": (lambda m, x: F.rrelu(x.abs(), training=True), "rrelu", "F.rrelu"),
    "TorchScript": (lambda m, x: SCRIPTED_DROPOUT(x), "dropout", "F.dropout"),
}


@pytest.mark.parametrize("door", [load, load_with_fallback])
@pytest.mark.parametrize("kind", ACTIVE_DROPOUTS)
def test_a_dropout_that_eval_leaves_on_is_refused_with_its_line(
    kind: str, door: Callable[..., Any]
) -> None:
    function, name, write = ACTIVE_DROPOUTS[kind]
    model = nn.Sequential(nn.Conv2d(4, 4, 1), FunctionThenConv(function)).eval()
    before = torch.get_rng_state()
    with pytest.raises(UnsupportedModel) as error:
        door(model, X)
    words = str(error.value)
    assert " of test_active_dropout.py: `" in words
    assert f": {name} samples " in words
    assert "model.eval() does not turn it off. Write" in words
    assert write in words
    assert words.endswith("sample them outside the model and pass them as an input")
    assert torch.equal(torch.get_rng_state(), before)


GLOBAL_DROPOUT = nn.Dropout(0.5)
CLOSURE_DROPOUT = nn.Dropout2d(0.5)


class UsesGlobal(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return GLOBAL_DROPOUT(x)


def uses_closure(dropout: nn.Module) -> nn.Module:
    class Around(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return dropout(x)

    return Around()


class UsesContainer(nn.Module):
    def __init__(self, drops: Any, key: Any) -> None:
        super().__init__()
        self.drops, self.key = drops, key

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.drops[self.key](x)


UNREGISTERED_DROPOUTS: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "list": (
        lambda: UsesContainer([nn.Identity(), nn.Dropout(0.5)], 1),
        "it does not reach 1.drops[1] (Dropout), which is in a plain list. Write self.drops = "
        "nn.ModuleList(…)",
    ),
    "dict": (
        lambda: UsesContainer({"a": nn.Sequential(nn.Dropout2d(0.5))}, "a"),
        "it does not reach 1.drops['a'] (Sequential), which is in a plain dict. Write self.drops = "
        "nn.ModuleDict(…)",
    ),
    "global": (
        UsesGlobal,
        "it does not reach GLOBAL_DROPOUT (Dropout), a global of test_active_dropout.py. Make it "
        "an attribute of the module in __init__, or call GLOBAL_DROPOUT.eval()",
    ),
    "closure": (
        lambda: uses_closure(CLOSURE_DROPOUT),
        "reach dropout (Dropout2d), a variable of an enclosing function. Make it an attribute of "
        "the module in __init__, or call dropout.eval()",
    ),
}


@pytest.mark.parametrize("kind", UNREGISTERED_DROPOUTS)
def test_a_dropout_that_eval_does_not_reach_is_named_with_its_place(kind: str) -> None:
    make, words = UNREGISTERED_DROPOUTS[kind]
    with pytest.raises(UnsupportedModel) as error:
        load(nn.Sequential(nn.Conv2d(4, 4, 1), make()).eval(), X)
    assert str(error.value).endswith(words)


# Code in forward that discards a dropout's result and returns another value of the block.
UNUSED_DROPOUTS: dict[str, Function] = {
    "dropout": lambda m, x: (F.dropout(x), x)[1],
    "rrelu": lambda m, x: (F.rrelu(x, training=True), x)[1],
    "attention": lambda m, x: (F.scaled_dot_product_attention(x, x, x, dropout_p=0.5), x)[1],
    "a module in forward": lambda m, x: (nn.Dropout(0.5)(x), x)[1],
    "what is computed of it": lambda m, x: (F.dropout(x).relu().sum() + 1, x)[1],
}


@pytest.mark.parametrize("kind", UNUSED_DROPOUTS)
def test_a_dropout_whose_result_is_not_used_changes_nothing(kind: str) -> None:
    model = nn.Sequential(nn.Conv2d(4, 4, 1), FunctionThenConv(UNUSED_DROPOUTS[kind])).eval()
    with Session(compile(model, X)) as session, torch.no_grad():
        assert_equal(session.run(X.numpy())["output"], model(X).numpy())


def write_in_place(
    x: torch.Tensor, write: Callable[[torch.Tensor, torch.Tensor], object]
) -> torch.Tensor:
    y = x.clone()
    write(y, F.dropout(x))
    return y


USED_DROPOUTS: dict[str, Function] = {
    "a layer": lambda m, x: (m.conv(F.dropout(x)), x)[1],
    "in place": lambda m, x: write_in_place(x, lambda y, dropped: y.add_(dropped)),
    "of a view": lambda m, x: write_in_place(
        x, lambda y, dropped: y.view(-1).add_(dropped.view(-1))
    ),
    "an item": lambda m, x: write_in_place(x, lambda y, dropped: y.__setitem__(0, dropped[0])),
    "out": lambda m, x: write_in_place(x, lambda y, dropped: torch.add(x, dropped, out=y)),
    "a number": lambda m, x: x * F.dropout(x).mean().item(),
}


@pytest.mark.parametrize("kind", USED_DROPOUTS)
def test_a_dropout_whose_result_is_used_in_any_way_is_refused(kind: str) -> None:
    model = nn.Sequential(nn.Conv2d(4, 4, 1), FunctionThenConv(USED_DROPOUTS[kind])).eval()
    with pytest.raises(UnsupportedModel, match="dropout samples a mask in each call"):
        load(model, X)


def test_python_computes_no_layer_that_drops_at_random() -> None:
    block = InputDependentBranch(lambda m, x: F.dropout(x, 0.5))
    model = nn.Sequential(nn.Conv2d(4, 4, 1), block).eval()
    with pytest.raises(
        UnsupportedModel, match=r"in 1, a InputDependentBranch.*: dropout samples a mask"
    ):
        Viewer(model, X)
    report = nbglcnn.check(model, X)
    assert not report.ok
    assert "dropout samples a mask" in report.rows[-1].reason


def test_python_computes_no_layer_that_reads_a_number_of_what_was_dropped() -> None:
    block = InputDependentBranch(lambda m, x: x * F.dropout(x).mean().item())
    with pytest.raises(UnsupportedModel, match="dropout samples a mask"):
        load_with_fallback(nn.Sequential(nn.Conv2d(4, 4, 1), block).eval(), X)


INACTIVE_DROPOUTS: dict[str, Function] = {
    "self.training": lambda m, x: F.dropout(x, 0.5, m.training),
    "p=0": lambda m, x: F.dropout(x, 0.0),
    "attention": lambda m, x: F.scaled_dot_product_attention(
        x, x, x, dropout_p=0.5 if m.training else 0.0
    ),
    "rrelu": lambda m, x: F.rrelu(x, training=m.training),
}


@pytest.mark.parametrize("kind", INACTIVE_DROPOUTS)
def test_a_dropout_that_eval_switches_off_changes_nothing(kind: str) -> None:
    model = nn.Sequential(nn.Conv2d(4, 4, 1), FunctionThenConv(INACTIVE_DROPOUTS[kind])).eval()
    with Session(compile(model, X)) as session, torch.no_grad():
        assert_equal(session.run(X.numpy())["output"], model(X).numpy())


def generator() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.ConvTranspose2d(6, 3, 3), nn.Tanh()
    )


def test_a_generator_that_normalises_by_its_batch_runs_as_the_message_says() -> None:
    model = generator().train()
    with torch.no_grad():
        wanted = model(X).numpy()
    with pytest.raises(UnsupportedModel, match=r"Pix2Pix and CycleGAN .*track_running_stats=False"):
        load(model, X)
    for norm in model.modules():
        if isinstance(norm, nn.BatchNorm2d):
            norm.track_running_stats = False
            norm.running_mean = norm.running_var = None
    model.eval()
    with Session(compile(model, X)) as session:
        assert_equal(session.run(X.numpy())["output"], wanted, rtol=1e-4)
    only_eval = generator().eval()(X).detach().numpy()
    assert np.abs(wanted - only_eval).max() > 0.05
