"""Unusable models and inputs raise an nbglcnn error that names the cause and the remedy."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import nbglcnn
from assertions import assert_equal
from nbglcnn import InputError, Session, UnsupportedModel, Viewer, errors
from nbglcnn.load import load

X = np.random.default_rng(2).normal(size=(1, 1, 6, 6)).astype(np.float32)


def small_cnn() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU()).eval()


def enter_session(session: Session, _: nn.Module) -> None:
    with session:
        pass


CLOSED_SESSION_CALLS: dict[str, Callable[[Session, nn.Module], Any]] = {
    "run": lambda session, _: session.run(X),
    "write": lambda session, _: session.write("input", X),
    "read": lambda session, _: session.read("0"),
    "verify": lambda session, model: nbglcnn.verify(session, model, X),
    "replace_weights": lambda session, _: session.replace_weights(session.plan),
    "with": enter_session,
}


@pytest.fixture(scope="module")
def closed_session() -> tuple[Session, nn.Module]:
    """A session that has run and was closed, and its model."""
    model = small_cnn()
    with Session(nbglcnn.compile(model, X)) as session:
        session.run(X)
    return session, model


@pytest.mark.parametrize("use", CLOSED_SESSION_CALLS)
def test_a_closed_session_says_so(closed_session: tuple[Session, nn.Module], use: str) -> None:
    with pytest.raises(errors.SessionClosed, match=r"Session of 'Sequential' was closed.*another"):
        CLOSED_SESSION_CALLS[use](*closed_session)
    closed_session[0].close()  # close() is idempotent


@pytest.mark.parametrize("observe", [None, "relu", 3, b"all", [None], [3], [["0"]], ("0", 1)])
@pytest.mark.parametrize("make", [nbglcnn.compile, Viewer])
def test_an_observe_of_another_kind_is_an_input_error(
    make: Callable[..., Any], observe: Any
) -> None:
    with pytest.raises(InputError, match=r"^observe=.*: expected .all., .outputs. or a list"):
        make(small_cnn(), X, observe=observe)


def test_an_observe_of_another_kind_is_one_of_compare_too() -> None:
    with pytest.raises(InputError, match="observe=None: expected"):
        nbglcnn.compare(small_cnn(), small_cnn(), X, observe=None)  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore")  # torch.jit and torch.ao announce their removal
@pytest.mark.parametrize("how", ["script", "trace"])
def test_a_torchscript_module_inside_a_model_is_named(how: str) -> None:
    given = (small_cnn(),) if how == "script" else (small_cnn(), torch.from_numpy(X))
    model = nn.Sequential(OrderedDict(first=nn.Identity(), inner=getattr(torch.jit, how)(*given)))
    with pytest.raises(UnsupportedModel, match=r"'inner' \(.*\) is TorchScript.* instead"):
        nbglcnn.compile(model.eval(), X)


@pytest.mark.filterwarnings("ignore")
def test_a_dynamically_quantized_module_is_named() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(36, 4)).eval()
    quantized = torch.ao.quantization.quantize_dynamic(model, {nn.Linear})
    with pytest.raises(
        UnsupportedModel, match=r"'1' \(.*dynamic.*Linear\) computes in 8 bits.*befo"
    ):
        nbglcnn.compile(quantized, X)


ODD_NAMES = [
    'a"b',
    "a\nb",
    "a\rb",
    "a\0b",
    "a\\",
    "a\\nb",
    "'\"",
    "a'b",
    "a b",
    "a\tb",
    "a[0]",
    "<b>",
    "ä",
    "a:1",
]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names_are_names(name: str) -> None:
    """PyTorch's exporter writes names into Python source, with quotes and line breaks unescaped."""
    torch.manual_seed(0)
    inner = nn.Sequential(OrderedDict({name: nn.Conv2d(1, 2, 3), name + "-": nn.Conv2d(2, 2, 1)}))
    model = nn.Sequential(OrderedDict(inner=inner, z=nn.ReLU())).eval()
    plan = nbglcnn.compile(model, X)
    assert [layer.name for layer in plan.layers] == [f"inner.{name}", f"inner.{name}-", "z"]
    assert set(load(model, X)[0].parameters) == set(model.state_dict())
    with nbglcnn.Session(plan) as session:
        found = session.run(X)
    seen = inner[0](torch.from_numpy(X))
    assert_equal(found[f"inner.{name}"], seen.detach().numpy(), name=repr(name))
    assert_equal(found["output"], model(torch.from_numpy(X)).detach().numpy(), name=repr(name))


def test_parameters_whose_names_become_alike_stay_apart() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for number, name in enumerate(('a"', "a\n", "a-", "a\\")):
                self.register_parameter(name, nn.Parameter(torch.tensor([[1.0, 10.0**number]])))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for parameter in self.parameters():
                x = x @ parameter.T @ parameter
            return x

    model = Scaled().eval()
    x = np.ones((1, 2), np.float32)
    with nbglcnn.Session(nbglcnn.compile(model, x)) as session:
        expected = model(torch.from_numpy(x)).detach().numpy()
        assert_equal(session.run(x)["output"], expected, name="output")


class FunctionModule(nn.Module):
    """Wraps a function of the tensor as a module."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


UNSUPPORTED_TENSORS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], str]] = {
    "sparse": (torch.Tensor.to_sparse, "x.to_dense()"),
    "quantized": (
        lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8),
        "x.dequantize()",
    ),
    "complex": (torch.fft.fft2, "torch.view_as_real(x)"),
}


@pytest.mark.filterwarnings("ignore:.*quantize:UserWarning")
@pytest.mark.parametrize("kind", UNSUPPORTED_TENSORS)
def test_a_module_that_gives_another_kind_of_tensor_is_named(kind: str) -> None:
    function, dense = UNSUPPORTED_TENSORS[kind]
    model = nn.Sequential(OrderedDict(conv=nn.Conv2d(1, 2, 3), odd=FunctionModule(function))).eval()
    with pytest.raises(UnsupportedModel) as error:
        nbglcnn.compile(model, X)
    assert str(error.value) == (
        f"odd (FunctionModule) returns a {kind} tensor; only dense real tensors are supported: "
        f"convert it in forward, with {dense}"
    )


class InputDependentBranch(nn.Module):
    """A module that cannot be exported: its control flow depends on values."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.sum() > 0 else x


def test_check_reports_each_module_of_a_model_that_cannot_be_exported() -> None:
    model = nn.Sequential(
        OrderedDict(
            conv=nn.Conv2d(1, 2, 3),
            inner=nn.Sequential(nn.ReLU(), InputDependentBranch()),
            last=nn.Conv2d(2, 1, 1),
        )
    ).eval()
    with pytest.raises(UnsupportedModel) as error:
        nbglcnn.compile(model, X)
    report = nbglcnn.check(model, X)
    assert [(row.layer, row.operator, row.ok) for row in report.rows] == [
        ("conv", "Conv", True),
        ("inner.0", "ReLU", True),
        ("inner.1", "InputDependentBranch", False),
        ("last", "Conv", True),
        ("Sequential", "the whole", False),
    ]
    assert report.first_diverging == "inner.1"
    assert "depends on the input's values" in report.rows[2].reason
    assert report.rows[-1].reason == str(error.value)


def test_check_reports_beside_a_module_that_gives_a_sparse_tensor() -> None:
    model = nn.Sequential(
        nn.Conv2d(1, 2, 3),
        FunctionModule(torch.Tensor.to_sparse),
        FunctionModule(torch.Tensor.to_dense),
    ).eval()
    report = nbglcnn.check(model, X)
    assert [(row.layer, row.ok) for row in report.rows] == [
        ("0", True),
        ("1", False),
        ("Sequential", False),
    ]
    assert "x.to_dense()" in report.rows[1].reason


def make_unsupported(kind: str) -> nn.Module:
    """A model that cannot be compiled, for a reason in the model itself."""
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(32, 3))
    match kind:
        case "training":
            return model.train()
        case "script":
            return torch.jit.script(model.eval())
        case "script inside":
            return nn.Sequential(torch.jit.script(model[0]), *model[1:]).eval()
        case "quantized":
            return torch.ao.quantization.quantize_dynamic(model.eval(), {nn.Linear})
        case "meta":
            return model.eval().to("meta")
        case _:
            return nn.Sequential(nn.LazyConv2d(2, 3), *model[1:]).eval()


# check's result: which modules can run, and the advice for the whole model.
UNSUPPORTED_REASONS = {
    "training": ([True] * 4, "Call model.eval() first"),
    "script": ([], "give the original torch.nn.Module"),
    "script inside": ([], "use the original torch.nn.Module instead"),
    "quantized": ([True, True, True, False], "give the model from before quantize_dynamic"),
    "meta": ([False] * 2, 'Call model.to_empty(device="cpu") and model.load_state_dict(weights)'),
    "lazy": ([], "call the model once on an input"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", UNSUPPORTED_REASONS)
def test_check_reports_what_is_a_property_of_the_model(kind: str) -> None:
    model = make_unsupported(kind)
    kept = {name: module.training for name, module in model.named_modules()}
    report = nbglcnn.check(model, X)
    alone, remedy = UNSUPPORTED_REASONS[kind]
    assert [row.ok for row in report.rows] == [*alone, False]
    assert not report.ok
    assert (report.rows[-1].layer, report.rows[-1].operator) == (type(model).__name__, "the whole")
    assert remedy in report.rows[-1].reason
    assert kept == {name: module.training for name, module in model.named_modules()}
    with pytest.raises(UnsupportedModel) as error:
        nbglcnn.compile(model, X)
    assert str(error.value) == report.rows[-1].reason


class NonTensorOutputs(nn.Module):
    """A model that returns text and numbers besides its maps."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3)

    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        y = self.conv(x)
        return {"maps": y, "label": "cat", "nothing": None, "more": (y.mean(), [1.5, 2])}


def test_what_a_model_gives_besides_tensors_is_told() -> None:
    with pytest.warns(UserWarning) as warned:
        plan = nbglcnn.compile(NonTensorOutputs().eval(), X)
    assert [str(warning.message) for warning in warned] == [
        "forward also returns values that are not tensors, which are ignored: "
        "output['label'] (str), output['more'][1][0] (float), output['more'][1][1] (int)"
    ]
    assert warned[0].filename == __file__
    assert list(plan.header.outputs) == ["output['maps']", "output['more'][0]"]


def test_an_encoder_that_computes_with_nested_tensors_names_the_setting_that_ends_it() -> None:
    class Padded(nn.Module):
        def __init__(self, **options: bool) -> None:
            super().__init__()
            layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, 1, **options)

        def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return self.encoder(x, src_key_padding_mask=mask)

    x = torch.randn(2, 3, 8), torch.tensor([[False, False, True], [False] * 3])
    with pytest.raises(UnsupportedModel, match=r"encoder .* enable_nested_tensor=False"):
        nbglcnn.compile(Padded().eval(), x)
    dense = Padded(enable_nested_tensor=False).eval()
    with Session(nbglcnn.compile(dense, x)) as session:
        assert_equal(session.run(x)["output"], dense(*x).detach().numpy())
