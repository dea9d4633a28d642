"""Models whose code refers to their own modules and tensors: closures, globals, hooks, defaults."""

import functools
import threading
import types
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from assertions import assert_equal
from nbglcnn import (
    InputError,
    UnsupportedModel,
    Viewer,
    apply_bends,
    compile,
    gradient,
    transforms,
)
from nbglcnn.load import load, with_parameters
from nbglcnn.load.torch.isolation.copies import detached_copy
from nbglcnn.load.torch.record.module_calls import run_hooked
from nbglcnn.lowering.lower import lower
from nbglcnn.reference import compute_reference
from nbglcnn.runtime.session import Session

X = torch.randn(2, 2, 6, 6, generator=torch.Generator().manual_seed(0))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 3, 3)
        self.head = nn.Conv2d(3, 3, 1)
        self.block = nn.Sequential(nn.Conv2d(3, 3, 1), nn.ReLU())
        self.register_buffer("scale", torch.tensor([2.0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.block(self.head(self.conv(x)).relu()) * self.scale


class FunctionHolder(nn.Module):
    """Holds functions of its own layers as plain attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 3, 3)
        self.head = nn.Conv2d(3, 3, 1)
        self.steps = {"conv": lambda y: self.conv(y), "bias": lambda y: y + self.head.bias.mean()}
        self.partial = functools.partial(F.conv2d, weight=self.head.weight)
        self.listed = [self.conv.weight, self.conv.bias]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.partial(self.steps["bias"](self.steps["conv"](x)))
        return y * F.conv2d(x, *self.listed)


class ViewHolder(nn.Module):
    """Holds views of its own parameters that share their memory."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 3, 3)
        self.data = self.conv.weight.data
        self.flat = self.conv.weight.view(3, -1)
        self.two = self.conv.bias[:2]
        self.turned = self.conv.weight[:, 1].transpose(1, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(x) * self.flat.sum() + F.conv2d(x, self.data)
        return y + self.two.sum() + self.turned.mean()


class Product(torch.autograd.Function):
    @staticmethod
    def forward(_: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.conv2d(x, weight)


def forward_in_a_closure(m: Any) -> None:
    forward = m.forward
    m.forward = lambda x: forward(x * 2)


def a_method_put_on_a_module(m: Any) -> None:
    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        return F.conv2d(x, self.weight * m.conv.bias.mean(), self.bias)

    m.head.forward = types.MethodType(forward, m.head)


def a_hook_that_reads_another_layer(m: Any) -> None:
    m.conv.register_forward_hook(lambda _, __, y: y + m.head.bias.view(1, -1, 1, 1))


def a_hook_with_another_layers_tensor(m: Any) -> None:
    bias = m.head.bias
    m.conv.register_forward_hook(lambda _, __, y: y + bias.view(1, -1, 1, 1))


def default_arguments(m: Any) -> None:
    def forward(x: torch.Tensor, weight: Any = m.conv.weight, layer: Any = m.head) -> torch.Tensor:
        return layer(F.conv2d(x, weight))

    m.forward = lambda x: forward(x)


def weak_references(m: Any) -> None:
    here, proxy = weakref.ref(m), weakref.proxy(m)
    m.forward = lambda x: here().conv(x) + proxy.head.bias.mean()


def a_list_of_layers(m: Any) -> None:
    block, conv = m.block, m.conv
    m.forward = lambda x: functools.reduce(lambda y, layer: layer(y), [conv, *block], x)


def a_state_dict(m: Any) -> None:
    state = m.state_dict()
    m.forward = lambda x: F.conv2d(x, state["conv.weight"], state["conv.bias"]) * state["scale"]


def a_list_of_parameters(m: Any) -> None:
    weight, bias, *_ = m.parameters()
    m.forward = lambda x: F.conv2d(x, weight, bias)


def numpys_view_of_a_weight(m: Any) -> None:
    weight = torch.from_numpy(m.conv.weight.detach().numpy())
    m.forward = lambda x: F.conv2d(x, weight)


def an_autograd_function(m: Any) -> None:
    weight = m.conv.weight
    m.forward = lambda x: Product.apply(x, weight)


def a_scripted_function(m: Any) -> None:
    weight = m.conv.weight

    def double(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.conv2d(x, weight) * 2

    scripted = torch.jit.script(double)
    m.forward = lambda x: scripted(x, weight)


def functional_calls(m: Any) -> None:
    state, inner = m.state_dict(), m.block
    own = {n.removeprefix("block."): t for n, t in state.items() if n.startswith("block.")}
    m.forward = lambda x: torch.func.functional_call(inner, own, (m.conv(x),))


def a_weight_norm(m: Any) -> None:
    torch.nn.utils.parametrizations.weight_norm(m.conv)
    forward = m.conv.forward
    m.conv.forward = lambda x: forward(x) * m.conv.weight.mean()


GLOBAL_MODEL: Any = None


def a_global(m: Any) -> None:
    global GLOBAL_MODEL
    GLOBAL_MODEL = m
    m.forward = lambda x: GLOBAL_MODEL.head(GLOBAL_MODEL.conv(x)) + GLOBAL_MODEL.scale


def unchanged(_: Any) -> None:
    """Leave the module as it is."""


MODEL_CHANGES: list[tuple[type[nn.Module], Callable[[Any], None]]] = [
    (FunctionHolder, unchanged),
    (ViewHolder, unchanged),
    *(
        (Net, change)
        for change in (
            *(forward_in_a_closure, a_method_put_on_a_module, a_hook_that_reads_another_layer),
            *(a_hook_with_another_layers_tensor, default_arguments, weak_references),
            *(a_list_of_layers, a_state_dict, a_list_of_parameters, numpys_view_of_a_weight),
            *(an_autograd_function, a_scripted_function, functional_calls, a_weight_norm, a_global),
        )
    ),
]
CHANGE_NAMES = [
    made.__name__ if change is unchanged else change.__name__ for made, change in MODEL_CHANGES
]


def changed_model(change: Callable[[Any], None], make_model: type[nn.Module] = Net) -> Any:
    torch.manual_seed(3)
    model = make_model().eval()
    change(model)
    return model


def other_weights(model: nn.Module) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(5)
    return {
        name: torch.randn(tensor.shape, generator=generator)
        for name, tensor in model.state_dict().items()
    }


def torch_output(model: nn.Module, x: torch.Tensor = X) -> np.ndarray:
    with torch.no_grad():
        return model(x).numpy()


@pytest.mark.parametrize(("made", "change"), MODEL_CHANGES, ids=CHANGE_NAMES)
def test_new_weights_reach_forward_however_it_holds_its_parameters(
    made: type[nn.Module], change: Callable[[Any], None]
) -> None:
    model = changed_model(change, made)
    graph, arrays = load(model, X)
    state = other_weights(model)
    follows = with_parameters(graph, state)
    seen = compute_reference(model, follows, arrays, ["output"])["output"]
    model.load_state_dict(state)
    wanted = torch_output(model)
    assert_equal(seen, wanted)
    with Session(lower(follows)) as session:
        assert_equal(session.run(*arrays)["output"], wanted)


@pytest.mark.parametrize(
    ("change", "layers"),
    [
        (forward_in_a_closure, {"conv", "head", "block", "block.0", "block.1"}),
        (default_arguments, {"head"}),
        (weak_references, {"conv"}),
        (a_list_of_layers, {"conv", "block.0", "block.1"}),
        (a_global, {"conv", "head"}),
    ],
)
def test_layers_that_a_closure_calls_keep_their_names(
    change: Callable[[Any], None], layers: set[str]
) -> None:
    graph, arrays = load(model := changed_model(change), X)
    named = {key.name for key in graph.keys if key.module_type and key.kind != "output"}
    assert named == layers
    seen: dict[str, np.ndarray] = {}
    for name in layers:
        model.get_submodule(name).register_forward_hook(
            lambda _, __, y, name=name: seen.update({name: y.detach().clone().numpy()})
        )
    torch_output(model)
    found = compute_reference(model, graph, arrays)
    for name in layers:
        assert_equal(found[name], seen[name], name=name)


def test_new_weights_of_sixteen_bits_reach_a_closure() -> None:
    model = changed_model(forward_in_a_closure).half()
    bias, forward = model.head.bias, model.forward
    flat = model.conv.weight.data.view(-1)
    model.forward = lambda x: forward(x.to(model.conv.weight.dtype)) + bias.mean() + flat.sum()
    graph, arrays = load(model, X)
    state = {name: tensor.half() for name, tensor in other_weights(model).items()}
    found = compute_reference(model, with_parameters(graph, state), arrays, ["output"])["output"]
    model.load_state_dict(state)
    wanted = torch_output(model)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=0.02 * np.abs(wanted).max())


def test_the_gradient_of_a_weight_in_a_closure_is_pytorchs() -> None:
    model = changed_model(a_hook_with_another_layers_tensor)
    found = gradient(model, X.numpy(), wrt=("head.bias", "conv.weight"))
    model(X).sum().backward()
    assert_equal(found["head.bias"], model.head.bias.grad.numpy())
    assert_equal(found["conv.weight"], model.conv.weight.grad.numpy())


def test_a_weight_set_in_a_viewer_reaches_a_closure(tmp_path: Path) -> None:
    model = changed_model(forward_in_a_closure)
    viewer = Viewer(model, X)
    try:
        viewer.set_weight("conv.bias", 0, 5.0)
        path = viewer.to_onnx(tmp_path / "net.onnx")
        with torch.no_grad():
            model.conv.bias[0] = 5.0
        wanted = torch_output(model)
        assert_equal(viewer.activations["output"], wanted)
        session = onnxruntime.InferenceSession(path)
        (name,) = (one.name for one in session.get_inputs())
        assert_equal(session.run(None, {name: X.numpy()})[0], wanted)
    finally:
        viewer.close()


def test_edits_of_layers_in_a_closure_are_replayed_with_the_weights_of_now() -> None:
    model = changed_model(forward_in_a_closure)

    def edited(session: Session) -> np.ndarray:
        session.bend("relu", transforms.invert())
        session.bend("conv", transforms.multiply(3.0))
        return session.run(X.numpy())["output"]

    with Session(compile(model, X)) as session:
        edited(session)
        bent = apply_bends(model, session.bends)
    model.load_state_dict(other_weights(model))
    with Session(compile(model, X)) as session:
        assert_equal(edited(session), torch_output(bent))


def test_a_model_with_closures_stays_as_it_is() -> None:
    model = changed_model(unchanged)
    model.calls = 0

    def forward(x: torch.Tensor) -> torch.Tensor:
        model.calls = model.calls + 1
        model.last = model.conv(x)
        return model.last

    model.forward = forward
    load(model, X)
    assert model.calls == 0
    assert not hasattr(model, "last")
    assert "__getattribute__" not in vars(nn.Module)


def test_another_thread_runs_the_original_while_its_copy_runs() -> None:
    model = changed_model(unchanged)
    before = torch_output(model)
    found: list[np.ndarray] = []

    def forward(x: torch.Tensor) -> torch.Tensor:
        if threading.current_thread() is threading.main_thread():
            with torch.no_grad():  # of the copy only
                model.conv.weight.mul_(0)
            other = threading.Thread(target=lambda: found.append(torch_output(model)))
            other.start()
            other.join()
        return Net.forward(model, x)

    model.forward = forward
    run_hooked(detached_copy(model)[0], [X])
    assert found
    for one in found:
        assert_equal(one, before)


class ArrayHolder(nn.Module):
    """Keeps NumPy views of its weight."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(3, 4, 3, bias=False)
        self.array = self.conv.weight.detach().numpy()
        self.halves: list[Any] = [self.array[:2], {"rest": self.array[2:]}]


class FromNumpy(ArrayHolder):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.conv2d(x, torch.from_numpy(self.array))


class FromHalves(ArrayHolder):
    def __init__(self) -> None:
        super().__init__()
        del self.array

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second = self.halves[0], self.halves[1]["rest"]
        return F.conv2d(x, torch.cat([torch.tensor(first), torch.as_tensor(second)]))


class ByNumpy(ArrayHolder):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x) * float(self.array.mean())  # type: ignore[no-any-return]


def an_array_in_a_closure() -> nn.Module:
    model: Any = ArrayHolder()
    array = model.array
    del model.array, model.halves
    model.forward = lambda x: F.conv2d(x, torch.from_numpy(2 * array))
    return model  # type: ignore[no-any-return]


@pytest.mark.parametrize("made", [FromNumpy, FromHalves, ByNumpy, an_array_in_a_closure])
def test_a_weight_that_numpy_reads_is_refused_other_numbers(made: Callable[[], nn.Module]) -> None:
    model, x = made().eval(), torch.randn(1, 3, 5, 6)
    graph, arrays = load(model, x)
    with Session(lower(graph)) as session:
        assert_equal(session.run(*arrays)["output"], torch_output(model, x))
    assert with_parameters(graph, model.state_dict()) is not None  # unchanged
    with pytest.raises(InputError, match=r"conv\.weight: the .+ or a NumPy array that shares"):
        with_parameters(graph, other_weights(model))
    viewer = Viewer(model, x)
    try:
        with pytest.raises(InputError, match="a NumPy array that shares its memory"):
            viewer.set_weight("conv.weight", (0, 0, 0, 0), 5.0)
    finally:
        viewer.close()


def test_an_array_of_its_own_leaves_a_weight_free() -> None:
    model: Any = ArrayHolder().eval()
    model.array, model.halves = model.array.copy(), []
    model.forward = lambda x: model.conv(x) * float(model.array.mean())
    x = torch.randn(1, 3, 5, 6)
    graph, arrays = load(model, x)
    state = other_weights(model)
    with Session(lower(with_parameters(graph, state))) as session:
        found = session.run(*arrays)["output"]
    model.load_state_dict(state)
    assert_equal(found, torch_output(model, x))


def test_a_number_that_python_reads_of_a_weight_in_a_closure_is_named() -> None:
    model = changed_model(unchanged)
    scale, forward = model.scale, model.forward
    model.forward = lambda x: forward(x) * float(scale)
    graph, _ = load(model, X)
    with pytest.raises(InputError, match="scale: the computation depends on its values"):
        with_parameters(graph, other_weights(model))


def test_a_view_that_a_copy_cannot_follow_is_refused_by_name() -> None:
    model = changed_model(unchanged)
    bits = model.conv.weight.data.view(torch.int32)
    model.forward = lambda x: model.conv(x) + bits.float().mean() * 1e-12
    with pytest.raises(UnsupportedModel, match=r"shares memory with .conv.weight. .*in forward"):
        load(model, X)
