"""Tensor reads in Python during tracing: constants are read at their value at that time."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import nbglcnn
from assertions import assert_equal
from nbglcnn import Session, UnsupportedModel
from nbglcnn.load import load

ChooseBranch = Callable[["ConditionalNet", Tensor], object]


class ConditionalNet(nn.Module):
    """Multiplies by selected choices; has buffers, two with equal numbers, and an attribute."""

    def __init__(self, *choices: ChooseBranch) -> None:
        super().__init__()
        self.register_buffer("numbers", torch.arange(3.0))
        self.register_buffer("part", self.numbers[1:])
        self.register_buffer("alone", torch.arange(3.0))
        self.register_buffer("many", torch.ones(5000))
        self.weight = nn.Parameter(torch.ones(3))
        self.plain = torch.arange(3.0)
        self.choices = choices

    def forward(self, x: Tensor) -> Tensor:
        found = 0
        for k, choice in enumerate(self.choices):
            found += 2**k * int(bool(choice(self, x)))
        return x * found


class ForwardOnly(nn.Module):
    """Has only a forward."""

    def forward(self, x: Tensor) -> Tensor:
        w = torch.linspace(0, 1, 5)
        return x * 2 if w[1] < 0.3 else x


def element(m: ConditionalNet, x: Tensor) -> object:
    t = m.numbers.clone()
    t[0] = x.sum()
    return t[0] > 3


def view(m: ConditionalNet, x: Tensor) -> object:
    t = m.numbers.clone()
    v = t[0:1]
    v += x.sum()
    return t[0] > 3


def view_of_a_view(m: ConditionalNet, x: Tensor) -> object:
    t = m.numbers.clone()
    t.unsqueeze(0)[:, 1:].copy_(x[:, 1:])
    return t[2] > 3


def write_to_base(m: ConditionalNet, x: Tensor) -> object:
    t = m.numbers.clone()
    v = t[1:]
    t.mul_(x[0])
    return v[0] > 3


def through_out_argument(m: ConditionalNet, x: Tensor) -> object:
    t = m.numbers.clone()
    torch.add(m.numbers, x[0], out=t)
    return t[0] > 3


def through_index_put(m: ConditionalNet, x: Tensor) -> object:
    t = m.numbers.clone()
    t.index_put_((torch.tensor([0]),), x.sum())
    return t[0] > 3


def through_detach(m: ConditionalNet, x: Tensor) -> object:
    t = m.numbers.clone()
    t.detach().add_(x[0])
    return t[0] > 3


def through_data(m: ConditionalNet, x: Tensor) -> object:
    t = m.numbers.clone()
    t.data = x[0] + 1
    return t[0] > 3


def buffer(m: ConditionalNet, x: Tensor) -> object:
    m.numbers = x[0] + 1
    return m.numbers[0] > 3


def buffer_in_place(m: ConditionalNet, x: Tensor) -> object:
    m.part += x.sum()
    return m.numbers[1] > 3


def attribute(m: ConditionalNet, x: Tensor) -> object:
    m.plain[0] = x.sum()
    return m.plain[0] > 3


def view_of_an_attribute(m: ConditionalNet, x: Tensor) -> object:
    v, _ = torch.broadcast_tensors(m.plain, x[0])
    v.add_(x.sum())
    return m.plain[0] > 3


def bypassing_torch_function(m: ConditionalNet, x: Tensor) -> object:
    t = m.numbers.clone()
    with torch._C.DisableTorchFunction():
        t.add_(x.sum())
    return t[0] > 3


def write_in_inference_mode(m: ConditionalNet, x: Tensor) -> object:
    with torch.inference_mode():
        t = m.numbers * 2
        t[0:1].add_(x.sum())
        return t[0] > 3


def new_tensor(m: ConditionalNet, x: Tensor) -> object:
    t = x.new_zeros(3)
    t[1:] += x[0, 1:]
    return t[2] > 3


def random_integers(m: ConditionalNet, x: Tensor) -> object:
    return torch.randint(9, (3,))[0] >= 0


def random_of_a_buffer(m: ConditionalNet, x: Tensor) -> object:
    return torch.bernoulli(m.numbers / 2)[1] >= 0


def uninitialized(m: ConditionalNet, x: Tensor) -> object:
    return torch.empty(3, dtype=torch.uint8)[0] >= 0


@pytest.mark.parametrize(
    "choice",
    [
        *(
            element,
            view,
            view_of_a_view,
            write_to_base,
            through_out_argument,
            through_index_put,
            through_detach,
            through_data,
            buffer,
        ),
        *(
            buffer_in_place,
            attribute,
            view_of_an_attribute,
            bypassing_torch_function,
            write_in_inference_mode,
            new_tensor,
        ),
        *(random_integers, random_of_a_buffer, uninitialized),
    ],
    ids=lambda choice: choice.__name__,
)
def test_no_old_number_is_read_of_what_the_input_was_written_to(choice: ChooseBranch) -> None:
    with pytest.raises(UnsupportedModel, match="depends on the input's values"):
        load(ConditionalNet(choice).eval(), torch.full((1, 3), 2.0))


def write_to_clone(m: ConditionalNet, x: Tensor) -> object:
    t = m.numbers.clone()
    v = t[0:2]
    t[0] = 5
    v += 1  # 6, 2, 2
    v[1].copy_(m.numbers[2])
    torch.add(t, m.weight.detach(), out=t)  # 7, 3, 3
    t.unsqueeze(0)[:, 2] *= 3
    return t.tolist() == [7, 3, 9] and v[0] == 7 and v.sum().item() == 10


def write_to_buffers(m: ConditionalNet, x: Tensor) -> object:
    before = m.alone
    m.alone[0] += 1
    m.alone = m.alone * 2
    found = m.alone[0] == 2 and before[0] == 1
    before[0] -= 1
    m.alone = before
    return found


def write_to_attribute(m: ConditionalNet, x: Tensor) -> object:
    t = m.plain
    m.plain = m.plain + 1
    found = m.plain[0] == 1 and t[0] == 0
    m.plain = t
    return found


def read_in_inference_mode(m: ConditionalNet, x: Tensor) -> object:
    with torch.inference_mode():
        t = m.numbers + 1
        t[0] = 5
        return t.sum() == 10


def factories(m: ConditionalNet, x: Tensor) -> object:
    n = x.shape[1]
    return (
        torch.arange(n)[2] == 2
        and torch.linspace(0, n - 1, steps=n, dtype=x.dtype).min() <= 0
        and torch.eye(n).sum() == 3
        and torch.full((n,), 2.5)[1] > 2
        and torch.tensor([1, 2])[1] == 2
        and torch.as_tensor([1.0, n])[1] == 3
        and torch.hann_window(4)[0] == 0
    )


def from_shapes(m: ConditionalNet, x: Tensor) -> object:
    t = x.new_zeros(4, 3)
    for k, row in enumerate(t):
        row.copy_(torch.arange(3).to(x) - k)
    return (
        t[3].sum() == -6
        and torch.ones_like(x).sum() == 3
        and x.new_tensor([4, 5])[1] == 5
        and torch.arange(3).type_as(x).view_as(x)[0, 2] == 2
        and torch.full_like(x, m.numbers[2].item())[0, 0] == 2
    )


def several_outputs(m: ConditionalNet, x: Tensor) -> object:
    low, high = m.numbers.chunk(2)
    largest, at = m.numbers.max(0)
    return [int(k) for k in m.numbers] == [0, 1, 2] and low[1] + high[0] + at == 2 + largest - 1 + 2


def compare_tensors(m: ConditionalNet, x: Tensor) -> object:
    return torch.equal(m.numbers[1:], m.part) and 2 in m.numbers and m.weight[1] == 1


CONSTANT_CHOICES = (
    *(write_to_clone, write_to_attribute, read_in_inference_mode, factories, from_shapes),
    *(several_outputs, compare_tensors, write_to_buffers),
)


def test_what_follows_from_constants_alone_is_read_as_it_is_at_the_time() -> None:
    model, x = ConditionalNet(*CONSTANT_CHOICES).eval(), torch.rand(1, 3)
    expected = ConditionalNet(*CONSTANT_CHOICES).eval()(x).detach()
    assert_equal(expected.numpy(), x.numpy() * (2 ** len(CONSTANT_CHOICES) - 1))  # all are true
    graph, arrays = load(model, x)
    assert graph.constant_reads == {"numbers", "part", "alone", "weight"}
    with Session(nbglcnn.compile(model, x)) as session:
        assert_equal(session.run(*arrays)["output"], expected.numpy())
    assert model.numbers.tolist() == model.plain.tolist() == [0, 1, 2]


def test_a_module_without_buffers_and_parameters_may_read_what_it_makes() -> None:
    graph, _ = load(ForwardOnly().eval(), torch.rand(1, 3))
    assert [node.op for node in graph.nodes] == ["Mul"]


@pytest.mark.parametrize(
    "choice",
    [
        lambda m, x: m.many.sum() > 3,
        lambda m, x: m.many[0].item() > 3,
        lambda m, x: torch.arange(9000)[1] > 3,
    ],
)
def test_numbers_of_large_constants_are_read_too(choice: ChooseBranch) -> None:
    model, x = ConditionalNet(choice).eval(), torch.rand(1, 3)
    graph, arrays = load(model, x)
    assert graph.constant_reads <= {"many"}
    with Session(nbglcnn.compile(model, x)) as session:
        assert_equal(session.run(*arrays)["output"], model(x).detach().numpy())
