"""What cannot be used is an error of our own that names it and says what to do."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import nbglcnn
from nbglcnn import InputError, Session, UnsupportedModel, Viewer, errors
from viewer_models import autoencoder, pictures

X = np.random.default_rng(2).normal(size=(1, 1, 6, 6)).astype(np.float32)


def small() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU()).eval()


def enter(session: Session, _: nn.Module) -> None:
    with session:
        pass


USES: dict[str, Callable[[Session, nn.Module], Any]] = {
    "run": lambda session, _: session.run(X),
    "write": lambda session, _: session.write("input", X),
    "draw": lambda session, _: session.draw(),
    "read": lambda session, _: session.read("0"),
    "verify": lambda session, model: session.verify(model, X),
    "replace_weights": lambda session, _: session.replace_weights(session.plan),
    "with": enter,
}


@pytest.fixture(scope="module")
def closed() -> tuple[Session, nn.Module]:
    """A session that has run and was closed, and its model."""
    model = small()
    with Session(nbglcnn.compile(model, X)) as session:
        session.run(X)
    return session, model


@pytest.mark.parametrize("use", USES)
def test_a_closed_session_says_so(closed: tuple[Session, nn.Module], use: str) -> None:
    with pytest.raises(errors.SessionClosed, match=r"Session of 'Sequential' was closed.*another"):
        USES[use](*closed)
    closed[0].close()  # a second time does nothing


@pytest.mark.parametrize("observe", [None, "relu", 3, b"all", [None], [3], [["0"]], ("0", 1)])
@pytest.mark.parametrize("make", [nbglcnn.compile, Viewer])
def test_an_observe_of_another_kind_is_an_input_error(
    make: Callable[..., Any], observe: Any
) -> None:
    with pytest.raises(InputError, match=r"^observe=.*: expected .all., .outputs. or a list"):
        make(small(), X, observe=observe)


def test_an_observe_of_another_kind_is_one_of_compare_too() -> None:
    with pytest.raises(InputError, match="observe=None: expected"):
        nbglcnn.compare(small(), small(), X, observe=None)  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore")  # torch.jit and torch.ao say that they will go
@pytest.mark.parametrize("how", ["script", "trace"])
def test_a_torchscript_module_inside_a_model_is_named(how: str) -> None:
    given = (small(),) if how == "script" else (small(), torch.from_numpy(X))
    model = nn.Sequential(OrderedDict(first=nn.Identity(), inner=getattr(torch.jit, how)(*given)))
    with pytest.raises(UnsupportedModel, match=r"'inner' \(.*\) is TorchScript.* in its place"):
        nbglcnn.compile(model.eval(), X)


@pytest.mark.filterwarnings("ignore")
def test_a_dynamically_quantized_module_is_named() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(36, 4)).eval()
    quantized = torch.ao.quantization.quantize_dynamic(model, {nn.Linear})
    with pytest.raises(
        UnsupportedModel, match=r"'1' \(.*dynamic.*Linear\) computes in 8 bits.*befo"
    ):
        nbglcnn.compile(quantized, X)


@pytest.mark.parametrize("name", ['a"b', "a\nb", "a\rb", "a\0b", "a\\", "'\""])
def test_a_name_that_the_exporter_cannot_write_is_shown_escaped(name: str) -> None:
    inner = nn.Sequential(OrderedDict({name: nn.Conv2d(1, 2, 3)}))
    with pytest.raises(UnsupportedModel) as error:
        nbglcnn.compile(nn.Sequential(OrderedDict(inner=inner)).eval(), X)
    assert str(error.value).startswith(f"the name {'inner.' + name!r} has a double quote, ")
    assert "give the module or parameter another name" in str(error.value)


@pytest.mark.parametrize("name", ["a'b", "a b", "a\tb", "a[0]", "a\\b", "<b>", "ä", "a:1"])
def test_other_odd_names_are_names(name: str) -> None:
    model = nn.Sequential(OrderedDict({name: nn.Conv2d(1, 2, 3), "z": nn.ReLU()})).eval()
    plan = nbglcnn.compile(model, X)
    assert [layer.name for layer in plan.layers] == [name, "z"]


class Through(nn.Module):
    """A function of the tensor, as a module."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


GIVEN: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], str]] = {
    "sparse": (torch.Tensor.to_sparse, "x.to_dense()"),
    "quantized": (
        lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8),
        "x.dequantize()",
    ),
    "complex": (torch.fft.fft2, "torch.view_as_real(x)"),
}


@pytest.mark.filterwarnings("ignore:.*quantize:UserWarning")
@pytest.mark.parametrize("kind", GIVEN)
def test_a_module_that_gives_another_kind_of_tensor_is_named(kind: str) -> None:
    function, dense = GIVEN[kind]
    model = nn.Sequential(OrderedDict(conv=nn.Conv2d(1, 2, 3), odd=Through(function))).eval()
    with pytest.raises(UnsupportedModel) as error:
        nbglcnn.compile(model, X)
    assert str(error.value) == (
        f"odd (Through) gives a {kind} tensor; only dense real ones can be drawn: "
        f"convert it in forward, with {dense}"
    )


class Deciding(nn.Module):
    """A module that cannot be exported: what it does depends on numbers."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.sum() > 0 else x


def test_check_reports_each_module_of_a_model_that_cannot_be_exported() -> None:
    model = nn.Sequential(
        OrderedDict(
            conv=nn.Conv2d(1, 2, 3),
            inner=nn.Sequential(nn.ReLU(), Deciding()),
            last=nn.Conv2d(2, 1, 1),
        )
    ).eval()
    with pytest.raises(UnsupportedModel) as error:
        nbglcnn.compile(model, X)
    report = nbglcnn.check(model, X)
    assert [(row.layer, row.operator, row.ok) for row in report.rows] == [
        ("conv", "Conv", True),
        ("inner.0", "Relu", True),
        ("inner.1", "Deciding", False),
        ("last", "Conv", True),
        ("Sequential", "the whole", False),
    ]
    assert report.first_diverging == "inner.1"
    assert "depends on the input's numbers" in report.rows[2].reason
    assert report.rows[-1].reason == str(error.value)


def test_check_reports_beside_a_module_that_gives_a_sparse_tensor() -> None:
    model = nn.Sequential(
        nn.Conv2d(1, 2, 3), Through(torch.Tensor.to_sparse), Through(torch.Tensor.to_dense)
    ).eval()
    report = nbglcnn.check(model, X)
    assert [(row.layer, row.ok) for row in report.rows] == [
        ("0", True),
        ("1", False),
        ("Sequential", False),
    ]
    assert "x.to_dense()" in report.rows[1].reason


def test_check_refuses_what_compile_refuses_before_any_module_runs() -> None:
    with pytest.raises(UnsupportedModel, match="in training mode"):
        nbglcnn.check(autoencoder(3).train(), pictures(3))
