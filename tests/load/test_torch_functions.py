"""Functions of PyTorch between modules, against PyTorch: types, constants, masks, reductions."""

from collections.abc import Callable
from math import inf, nan

import pytest
import torch
import torch.nn.functional as F
from numpy.testing import assert_allclose
from torch import nn

from nbglcnn import Session, compile
from nbglcnn.errors import InputError, UnsupportedModel, UnsupportedOperator
from nbglcnn.load import load, with_parameters
from nbglcnn.lowering.lower import lower

Function = Callable[..., torch.Tensor]
X = torch.tensor([[0.3, -0.7, 1.4, 0.0, -2.2]])
NONFINITE = torch.tensor([[0.3, nan, inf, -inf, -2.2]])
MASK = torch.tensor([True, False, True, True, False])
OTHER_OPERAND = torch.tensor([[1.0, nan, -2.0, 5.0, nan]])
TARGET_CLASSES = torch.tensor([2])
CLASS_WEIGHTS = torch.arange(1.0, 6.0)
GATHER_INDEX = torch.tensor([[0, 1, 0, 3]])


class FunctionModule(nn.Module):
    mask: torch.Tensor

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function
        self.register_buffer("mask", MASK.clone())
        self.register_buffer("lowest", torch.full((2, 5), -inf))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self, x)


def assert_equals_torch(function: Function, x: torch.Tensor) -> None:
    model = FunctionModule(function).eval()
    with torch.no_grad():
        wanted = model(x)
    with Session(compile(model, x)) as session:
        found = session.run(x.numpy())["output"]
    assert found.shape == tuple(wanted.shape)
    assert (found.dtype.kind == "f") == wanted.is_floating_point()
    assert_allclose(found, wanted.numpy(), rtol=1e-5, atol=1e-6)


DTYPE_FUNCTIONS: dict[str, Function] = {
    "expm1": lambda m, x: torch.expm1(x),
    "erfc": lambda m, x: torch.erfc(x),
    "sub of ints": lambda m, x: torch.sub((x * 3).int(), 1, alpha=2),
    "sub of a float": lambda m, x: torch.sub((x * 3).long(), 1.5, alpha=2),
    "sub of doubles": lambda m, x: torch.sub(x.double(), 1, alpha=2).float(),
    "rsub of ints": lambda m, x: torch.rsub((x * 3).int(), 1, alpha=2),
    "range of mixed ends": lambda m, x: x + torch.arange(-2, 3.0),
    "sum of bools": lambda m, x: (x > 0) + (x > 1),
    "sum of a bool and True": lambda m, x: (x > 1) + True,
    "sum of bools and floats": lambda m, x: x + ((x > 0) + (x > 1)),
    "1 - bool item": lambda m, x: x * (1 - (x > 0).all().item()),
    "sum of bool items": lambda m, x: x * ((x > 0).any().item() + (x < 1).any().item()),
    "clamp of ints by a float": lambda m, x: x.long().clamp(0.5, 2),
    "clamp of ints from below": lambda m, x: x.long().clamp(min=0.5),
    "rounded ints": lambda m, x: x.int().floor() + x.int().ceil() + (x * 3).long().trunc(),
    "round of ints": lambda m, x: (x * 3).int().round(),
    "ints that are numbers": lambda m, x: x * x.int().isfinite() + x.long().isnan(),
    "int32 indices": lambda m, x: x[:, torch.tensor([1, 0], dtype=torch.int32)],
    "int32 indices of the input": lambda m, x: x[:, x[0, :2].abs().int()],
    "int32 indices of a write": lambda m, x: (x * 2).index_put(
        (torch.tensor([0], dtype=torch.int32), torch.tensor([3], dtype=torch.int32)),
        torch.tensor(7.0),
    ),
}


@pytest.mark.parametrize("name", DTYPE_FUNCTIONS)
def test_numbers_of_several_types_are_converted_as_pytorch_does(name: str) -> None:
    assert_equals_torch(DTYPE_FUNCTIONS[name], X)


@pytest.mark.parametrize("function", [torch.isneginf, torch.isposinf], ids=["-inf", "inf"])
def test_one_sign_of_infinity_is_found(function: Function) -> None:
    assert_equals_torch(lambda m, x: function(x), NONFINITE)


def test_numbers_that_are_none_are_replaced() -> None:
    assert_equals_torch(lambda m, x: torch.nan_to_num(x), NONFINITE)
    assert_equals_torch(lambda m, x: torch.nan_to_num(x, 0.5, 2), NONFINITE)


MASK_FUNCTIONS: dict[str, Function] = {
    "constant": lambda m, x: x[:, torch.tensor([True, False, True, True, False])],
    "buffer": lambda m, x: x[:, m.mask],
    "computed": lambda m, x: x[:, m.mask.float() < 1],
    "bytes": lambda m, x: x[:, m.mask.to(torch.uint8)],
    "selected": lambda m, x: torch.masked_select(x, m.mask),
    "places": lambda m, x: x[:, m.mask.nonzero()[:, 0]],
    "where": lambda m, x: x[:, torch.where(m.mask)[0]],
    "changed": lambda m, x: write_masked(m, x, lambda y: y * 2 + 1),
    "one number": lambda m, x: write_masked(m, x, lambda y: 7.0),
    "several numbers": lambda m, x: write_masked(m, x, lambda y: torch.tensor([5.0, 6.0, 7.0])),
}


def write_masked(
    m: FunctionModule, x: torch.Tensor, change: Callable[[torch.Tensor], object]
) -> torch.Tensor:
    y = x.clone()
    y[:, m.mask] = change(y[:, m.mask])
    return y


@pytest.mark.parametrize("name", MASK_FUNCTIONS)
def test_a_mask_that_does_not_depend_on_the_input_is_an_index(name: str) -> None:
    assert_equals_torch(MASK_FUNCTIONS[name], X)
    assert_equals_torch(MASK_FUNCTIONS[name], torch.cat([X, X + 1]))


def test_another_mask_needs_another_network() -> None:
    model = FunctionModule(MASK_FUNCTIONS["buffer"]).eval()
    graph, _ = load(model, X)
    state = model.state_dict() | {"mask": ~MASK}
    with pytest.raises(InputError, match="mask: the computation depends on its values"):
        with_parameters(graph, state)


def test_numbers_that_an_index_picks_from_parameters_follow_the_parameters() -> None:
    model = FunctionModule(lambda m, x: x + m.lowest[:, m.mask].sum()).eval()
    graph, arrays = load(model, X)
    graph = with_parameters(graph, model.state_dict() | {"lowest": torch.ones(2, 5)})
    with Session(lower(graph)) as session:
        assert_allclose(session.run(*arrays)["output"], X.numpy() + 6, rtol=1e-6)


def test_a_mask_of_the_input_is_refused_with_its_line() -> None:
    model = FunctionModule(lambda m, x: x[:, x[0] > 0]).eval()
    with pytest.raises(UnsupportedModel, match=r"line \d+ of test_torch_functions.py.*the size of"):
        compile(model, X)


CREATED_TENSORS: dict[str, Function] = {
    "hamming": lambda m, x: x[:, :4] * torch.hamming_window(4),
    "hann": lambda m, x: x * torch.hann_window(5, periodic=False),
    "kaiser": lambda m, x: x * torch.kaiser_window(5, True, 3.0),
    "linspace": lambda m, x: x * torch.linspace(-1, 3, 5),
    "logspace": lambda m, x: x * torch.logspace(0, 1, 5, base=2.0),
    "eye": lambda m, x: x @ torch.eye(5, 3),
    "triangle": lambda m, x: x[:, torch.tril_indices(3, 3).sum(0)],
    "range of rows": lambda m, x: x + torch.arange(x.shape[0])[:, None],
    "written into": lambda m, x: filled_range(x),
}


def filled_range(x: torch.Tensor) -> torch.Tensor:
    made = torch.arange(5.0)
    made.mul_(2)
    made[0] = x[0, 0]
    return x + made


@pytest.mark.parametrize("name", CREATED_TENSORS)
def test_what_is_made_without_a_tensor_has_pytorchs_numbers(name: str) -> None:
    assert_equals_torch(CREATED_TENSORS[name], X)
    assert_equals_torch(CREATED_TENSORS[name], torch.cat([X, X + 1]))


@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False], ids=["with self", "without self"])
def test_scatter_reduce_reduces_as_pytorch(reduce: str, include_self: bool) -> None:
    how = {"reduce": reduce, "include_self": include_self}

    def over_rows(m: FunctionModule, x: torch.Tensor) -> torch.Tensor:  # fewer indices than sources
        columns = x.reshape(5, 1).expand(5, 3)
        return columns.scatter_reduce(0, torch.tensor([[0, 1, 0], [0, 4, 4]]), columns[1:], **how)

    def in_place(m: FunctionModule, x: torch.Tensor) -> torch.Tensor:
        return (x * 2).scatter_reduce_(1, GATHER_INDEX, x[:, :4], **how)

    assert_equals_torch(
        lambda m, x: torch.full((1, 5), 0.5).scatter_reduce(1, GATHER_INDEX, x[:, :4], **how), X
    )
    if reduce in ("sum", "mean"):
        assert_equals_torch(
            lambda m, x: (x * 9).long().scatter_reduce(1, GATHER_INDEX, x[:, 1:].long(), **how), X
        )
    assert_equals_torch(over_rows, X)
    assert_equals_torch(in_place, X)
    if reduce != "sum":
        assert_equals_torch(
            lambda m, x: (x * 2).index_reduce(1, GATHER_INDEX[0], x[:, :4], **how), X
        )


LOSSES: dict[str, Function] = {
    "probabilities": lambda m, x: F.cross_entropy(x, x.flip(1).softmax(1)),
    "smoothed": lambda m, x: F.cross_entropy(x, x.softmax(1), label_smoothing=0.1),
    "weights": lambda m, x: F.cross_entropy(
        x, x.softmax(1), weight=CLASS_WEIGHTS, reduction="none"
    ),
    "classes": lambda m, x: F.cross_entropy(x, TARGET_CLASSES),
    "classes, smoothed": lambda m, x: F.cross_entropy(x, TARGET_CLASSES, label_smoothing=0.1),
    "ignored": lambda m, x: F.cross_entropy(
        x.repeat(3, 1), torch.tensor([2, 1, -100]), weight=CLASS_WEIGHTS, label_smoothing=0.1
    ),
    "one example": lambda m, x: F.cross_entropy(x[0], TARGET_CLASSES[0]),
    "pixels": lambda m, x: F.cross_entropy(
        x.repeat(2, 1)[..., None, None].expand(2, 5, 2, 2), torch.tensor([[[0, 1], [4, 2]]] * 2)
    ),
    "likelihood": lambda m, x: F.nll_loss(x.log_softmax(1), TARGET_CLASSES, reduction="sum"),
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_in_forward_is_pytorchs(name: str) -> None:
    assert_equals_torch(LOSSES[name], X)


RANDOM_MAPS = torch.randn(2, 3, 4, 3, generator=torch.Generator().manual_seed(0))
ATTENTION_MASK = torch.zeros(len(X), len(X)).index_fill(0, torch.tensor([0]), -inf)

OTHER_FUNCTIONS: dict[str, Function] = {
    "fmax": lambda m, x: torch.fmax(x, OTHER_OPERAND),
    "fmin": lambda m, x: torch.fmin(OTHER_OPERAND, x),
    "fmax of ints": lambda m, x: torch.fmax(x.int(), -x.int()),
    "hypot": lambda m, x: torch.hypot(x, x + 1),
    "hypot of large": lambda m, x: torch.hypot(x * 1e25, x * 1e25) / 1e25,
    "hypot of 0": lambda m, x: torch.hypot(x * 0, x),
    "copysign": lambda m, x: torch.copysign(x + 1, x),
    "copysign of a number": lambda m, x: torch.copysign(x, -2),
    "copysign of -0": lambda m, x: torch.copysign(x, torch.tensor(-0.0)),
    "cross by the first axis of length 3": lambda m, x: torch.cross(
        RANDOM_MAPS * x.sum(), RANDOM_MAPS.flip(0, 3), None
    ),
    "cross by an axis": lambda m, x: torch.cross(RANDOM_MAPS * x.sum(), RANDOM_MAPS.flip(0, 3), 3),
    "median beside NaN": lambda m, x: torch.cat([*torch.where(x > 0, x, nan).median(1)]),
    "median": lambda m, x: x.median(1)[0],
    "remainder by infinity": lambda m, x: torch.remainder(x, inf),
    "remainder by infinities": lambda m, x: torch.remainder(x, -inf * x.abs()),
    "remainder": lambda m, x: torch.remainder(x * 5, torch.tensor(-0.7)),
    "attention that a float mask forbids": lambda m, x: F.scaled_dot_product_attention(
        x[None, None], x[None, None], x[None, None], ATTENTION_MASK
    ),
    "trace": lambda m, x: torch.einsum("ii", x.T @ x),
    "diagonal": lambda m, x: torch.einsum("ii->i", x.T @ x),
    "diagonals": lambda m, x: torch.einsum("iij, j", torch.stack([x.T @ x] * 5, 2), x[0]),
    "diagonal of three": lambda m, x: torch.einsum(
        "aaa->a", x[0, :, None, None] * x[0, None, :, None] * x
    ),
    "logs of sums of -inf": lambda m, x: x + torch.logsumexp(m.lowest, 1).sum(),
    "logs of sums along two axes": lambda m, x: x + torch.logsumexp(m.lowest, (0, 1), True),
    "logs of cumulated sums": lambda m, x: torch.logcumsumexp(torch.cat([x, m.lowest], 0), 1),
    "sums under an operator's name": lambda m, x: (x * 2).scatter(
        1, GATHER_INDEX, x[:, :4], reduce="add"
    ),
}


@pytest.mark.parametrize("name", OTHER_FUNCTIONS)
def test_a_function_that_onnx_lacks_is_written_with_others(name: str) -> None:
    assert_equals_torch(OTHER_FUNCTIONS[name], X)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 4], ids=["no padding", "padding"])
def test_embedding_bags_are_pytorchs(mode: str, padding: int | None) -> None:
    rows = torch.tensor([0, 1, 2, 4, 4])
    table = torch.linspace(-1, 1, 15).reshape(5, 3)

    def bags(x: torch.Tensor, offsets: list[int], **more: bool) -> torch.Tensor:
        return F.embedding_bag(
            rows, table * x[0, 0], torch.tensor(offsets), mode=mode, padding_idx=padding, **more
        )

    assert_equals_torch(lambda m, x: bags(x, [0, 3]), X)
    assert_equals_torch(lambda m, x: bags(x, [0, 3, 3]), X)
    assert_equals_torch(lambda m, x: bags(x, [0, 3, 5], include_last_offset=True), X)
    assert_equals_torch(lambda m, x: F.embedding_bag(x.abs().long(), table, mode=mode), X)


def test_rows_of_an_embedding_bag_may_have_weights() -> None:
    table = torch.linspace(-1, 1, 15).reshape(5, 3)
    assert_equals_torch(
        lambda m, x: F.embedding_bag(x.abs().long(), table, per_sample_weights=x, mode="sum"), X
    )


def test_what_onnx_finds_wrong_names_the_module_and_the_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from nbglcnn.load.torch.translate.aten_translations import TRANSLATIONS

    monkeypatch.setitem(TRANSLATIONS, torch.ops.aten.sin.default, lambda call, x: call(
        "Add", x, call.constant(1)
    ))  # fmt: skip
    model = nn.Sequential(nn.ReLU(), FunctionModule(lambda m, x: torch.sin(x))).eval()
    with pytest.raises(UnsupportedOperator) as caught:
        compile(model, X)
    assert caught.value.module == "1"
    message = str(caught.value)
    assert (
        message.startswith("1 (FunctionModule) at line ") and "test_torch_functions.py" in message
    )
    assert "PyTorch's operator sin.default cannot be translated to ONNX: Add" in message
