"""Control flow that depends on numbers: evaluated once for weights, refused for the input."""

from collections.abc import Callable, Mapping

import numpy as np
import pytest
import torch
from torch import nn

import nbglcnn
from asserting_models import catch_input_assert, catch_weight_assert, require_positive
from assertions import assert_equal
from nbglcnn import InputError, Session, UnsupportedModel, Viewer, compile

X = torch.tensor([[1.0, 2.0]])
Forward = Callable[[nn.Module, torch.Tensor], torch.Tensor]


class FunctionModule(nn.Module):
    """Calls a function of the module and x, and has a buffer k."""

    def __init__(self, function: Forward, k: object = 1.0) -> None:
        super().__init__()
        self.function = function
        self.register_buffer("k", torch.as_tensor(k))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self, x)


def assert_equals_torch(model: nn.Module, x: torch.Tensor = X) -> None:
    """Check that the output is PyTorch's."""
    with torch.no_grad():
        expected = model.eval()(x).numpy()
    with Session(compile(model, x)) as session:
        assert_equal(session.run(x)["output"], expected)


WEIGHT_DEPENDENT: Mapping[str, tuple[Forward, object, object]] = {
    "nonzero": (lambda m, x: x * (m.k > 0).nonzero().shape[0], [1.0, -1.0], [1.0, 1.0]),
    "mask": (lambda m, x: x * m.k[m.k > 0].numel(), [1.0, -1.0], [1.0, 1.0]),
    "unique": (lambda m, x: x * len(torch.unique(m.k)), [1.0, -1.0], [1.0, 1.0]),
    "repeats": (lambda m, x: x.repeat_interleave(m.k, 1).sum(1), [1, 1], [2, 1]),
    "constructor": (lambda m, x: x * torch.FloatTensor([m.k[0]]), [2.0], [5.0]),
    "text": (lambda m, x: x * float(f"{m.k[0]:.3f}"), [2.0], [5.0]),
}


@pytest.mark.parametrize("name", WEIGHT_DEPENDENT)
def test_new_numbers_of_a_weight_that_decided_something_are_refused(name: str) -> None:
    function, first, second = WEIGHT_DEPENDENT[name]
    model = FunctionModule(function, first)
    assert_equals_torch(model)
    viewer = Viewer(model, X)
    viewer.load_state_dict({"k": torch.as_tensor(first)})
    with pytest.raises(InputError, match="k: the computation depends on its values"):
        viewer.load_state_dict({"k": torch.as_tensor(second)})
    viewer.close()


def test_a_weight_that_is_indexed_by_places_takes_new_numbers() -> None:
    model = FunctionModule(lambda m, x: x * m.k[torch.tensor([1])], [1.0, 2.0])
    viewer = Viewer(model, X)
    viewer.load_state_dict({"k": torch.tensor([3.0, 4.0])})
    assert_equal(viewer.output, X.numpy() * 4)
    viewer.close()


FORMATTED_INPUT_READS: Mapping[str, Forward] = {
    "format": lambda m, x: x * float(f"{x.mean():.3f}"),
    "str of an item": lambda m, x: x * (2 if str(x.mean().item()).startswith("-") else 3),
    "repr": lambda m, x: x * len(repr(x[0, 0] * 1e3)),
    "an assert that is caught": catch_input_assert,
}


@pytest.mark.parametrize("name", FORMATTED_INPUT_READS)
@pytest.mark.parametrize("sign", [1, -1])
def test_what_a_text_or_an_assert_decides_is_refused(name: str, sign: int) -> None:
    with pytest.raises(UnsupportedModel, match=r"string of the input's values"):
        compile(FunctionModule(FORMATTED_INPUT_READS[name]).eval(), X * sign)


def test_texts_and_asserts_that_decide_nothing_stay() -> None:
    seen = []

    def forward(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
        seen.append(f"mean {x.mean():.2f}, {x.sum().item()}")
        return require_positive(m, x)

    assert_equals_torch(FunctionModule(forward))
    assert seen[0] == "mean 1.50, 3.0"


def test_an_assert_of_a_weight_is_as_the_weight_is() -> None:
    assert_equals_torch(FunctionModule(catch_weight_assert, -1.0))
    assert_equals_torch(FunctionModule(catch_weight_assert, 1.0))


@pytest.mark.parametrize(
    "forward",
    [
        lambda m, x: x * 2 if isinstance(x.mean().item(), float) else x * 3,
        lambda m, x: x * len({one.item() for one in (x * 0).flatten()}),
    ],
    ids=["its type", "as a key"],
)
def test_an_item_that_is_asked_for_more_than_its_number_is_refused(forward: Forward) -> None:
    with pytest.raises(UnsupportedModel, match=r"while being recorded.*x\.item\(\)"):
        compile(FunctionModule(forward).eval(), X)


def test_forward_sees_which_parameters_need_gradients() -> None:
    class Asks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.free = nn.Parameter(torch.ones(2))
            self.frozen = nn.Parameter(torch.ones(2), requires_grad=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * (2 if self.free.requires_grad else 3) + (
                5 if self.frozen.requires_grad else 7
            )

    assert_equals_torch(Asks())


def test_no_gradient_passes_an_item() -> None:
    model = FunctionModule(lambda m, x: x * x.sum().item()).eval()
    assert_equals_torch(model)
    with pytest.raises(UnsupportedModel, match=r"calls x\.item\(\)"):
        nbglcnn.gradient(model, X, wrt=("x",))


def test_a_call_of_the_models_own_is_refused() -> None:
    class Doubled(nn.Module):
        def __call__(self, *args: torch.Tensor) -> torch.Tensor:
            return super().__call__(*args) * 2

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

    with pytest.raises(UnsupportedModel, match="Doubled overrides __call__"):
        compile(Doubled().eval(), X)


class TriplesOnLoad(FunctionModule):
    def _load_from_state_dict(self, state: dict, prefix: str, *rest: object) -> None:
        super()._load_from_state_dict({n: v * 3 for n, v in state.items()}, prefix, *rest)


def double_on_load(module: FunctionModule, _: object) -> None:
    module.k.mul_(2)


def with_load_hook(registration: str) -> nn.Module:
    model = FunctionModule(lambda m, x: x * m.k)
    if registration == "before":
        model.register_load_state_dict_pre_hook(
            lambda module, state, *_: state.update({n: v * 2 for n, v in state.items()})
        )
    else:
        model.register_load_state_dict_post_hook(double_on_load)
    return model


CUSTOM_LOADERS = {
    "its own": lambda: TriplesOnLoad(lambda m, x: x * m.k),
    "a hook before": lambda: with_load_hook("before"),
    "a hook behind": lambda: with_load_hook("behind"),
}


@pytest.mark.parametrize("name", CUSTOM_LOADERS)
def test_weights_are_loaded_by_the_models_own_code(name: str) -> None:
    model, state = CUSTOM_LOADERS[name]().eval(), {"k": torch.tensor(5.0)}
    viewer = Viewer(model, X)
    comparison = nbglcnn.compare(model, state, X)
    viewer.load_state_dict(state)
    other = CUSTOM_LOADERS[name]()
    other.load_state_dict({"k": torch.tensor(5.0)})
    assert_equal(viewer.output, other(X).numpy())
    assert_equal(comparison.activations["B.output"], other(X).numpy())
    comparison.close()
    viewer.close()


def test_a_state_that_is_more_than_numbers_is_refused() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.factor = 2

        def get_extra_state(self) -> dict[str, int]:
            return {"factor": self.factor}

        def set_extra_state(self, state: dict[str, int]) -> None:
            self.factor = state["factor"]

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.factor

    viewer = Viewer(Scaled().eval(), X)
    viewer.load_state_dict({"_extra_state": {"factor": 2}})
    with pytest.raises(InputError, match="Scaled has set_extra_state"):
        viewer.load_state_dict({"_extra_state": {"factor": 5}})
    viewer.close()


def written_in_place(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
    y = x * 1
    y[0] = 0
    return y


@pytest.mark.parametrize(
    ("forward", "reason"),
    [
        (written_in_place, "computes across the batch"),
        (lambda m, x: torch.arange(len(x)) * 1.0, "or depends on its size"),
        (lambda m, x: (x * 2, torch.zeros(1, 3)), "no batch axis"),
    ],
    ids=["an example is written", "counts them", "a constant beside them"],
)
def test_an_output_without_examples_is_not_put_together_from_pieces(
    forward: Forward, reason: str
) -> None:
    with (
        Session(compile(FunctionModule(forward).eval(), X)) as session,
        pytest.raises(InputError, match=reason),
    ):
        session.run(np.ones((3, 2), np.float32))
