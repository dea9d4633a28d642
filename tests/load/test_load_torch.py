"""Loading torch modules: keys and values match hooks, and the user's model is left unchanged."""

import copy
import io
import logging
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from numpy.testing import assert_allclose, assert_array_equal
from torch import nn

import nbglcnn
from asserting_models import AssertingModule
from nbglcnn.errors import InputError, UnsupportedModel, UnsupportedOperator
from nbglcnn.graph import Array, Graph, Node
from nbglcnn.inputs.arguments import to_input_arrays
from nbglcnn.load import convert_inputs, load, with_parameters
from nbglcnn.load.module_keys import ModuleCall, assign_calls, make_torch_keys
from nbglcnn.load.passes.evaluate import run_graph
from nbglcnn.lowering.lower import lower
from nbglcnn.reference import compute_reference


def named_tensors(value: Any, suffix: str = "") -> list[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        return [(suffix, value)]
    items: list[tuple[str, torch.Tensor]] = []
    pairs = value.items() if isinstance(value, Mapping) else enumerate(value or [])
    for name, item in pairs:
        items += named_tensors(item, f"{suffix}[{name!r}]")
    return items


def hook_values(model: nn.Module, inputs: Sequence[Array]) -> dict[str, Array]:
    """Values seen by forward hooks, in call order, containers first; independent of the loader."""
    order: list[str] = []
    seen: dict[str, list[tuple[str, Array]]] = {}
    counts: dict[str, int] = {}
    open_calls: list[str] = []

    def before(path: str) -> Callable[..., None]:
        def hook(*_: Any) -> None:
            count = counts[path] = counts.get(path, -1) + 1
            name = "output:module" if path == "output" else path
            open_calls.append(f"{name}:{count}" if count else name)
            order.append(open_calls[-1])

        return hook

    def after(_: nn.Module, __: Any, output: Any) -> None:
        name = open_calls.pop()
        seen[name] = [(name + s, t.detach().clone().numpy()) for s, t in named_tensors(output)]

    copied = copy.deepcopy(model)
    for path, module in copied.named_modules():
        if path:
            module.register_forward_pre_hook(before(path))
            module.register_forward_hook(after)
    with torch.no_grad():
        result = copied(*[torch.from_numpy(a.copy()) for a in inputs])
    found = {name: array for call in order for name, array in seen[call]}
    return found | {f"output{s}": t.numpy() for s, t in named_tensors(result)}


def compute_values(graph: Graph, inputs: Sequence[Array]) -> dict[str, Array]:
    """Compute every key of the Graph from its nodes."""
    known = dict(zip(graph.inputs, inputs, strict=True))
    computed = run_graph(graph, known, [key.value_name for key in graph.keys])
    return {key.name: computed[key.value_name] for key in graph.keys}


def load_and_compare(model: nn.Module, x: Any) -> tuple[Graph, tuple[Array, ...]]:
    """Load, and compare keys, order, shapes and numbers with those of hooks."""
    graph, arrays = load(model, x)
    expected, found, given = (
        hook_values(model, arrays),
        compute_values(graph, arrays),
        compute_reference(model, graph, arrays),
    )
    modules = [k.name for k in graph.keys if k.module_type and k.kind != "output"]
    ends = [k.name for k in graph.keys if k.kind == "output"]
    assert modules + ends == list(expected)
    names = [key.name for key in graph.keys]
    assert len(names) == len(set(names))
    assert list(given) == names
    for key in graph.keys:
        array = found[key.name]
        assert graph.shape(key.value_name) == array.shape == given[key.name].shape
        assert_allclose(array, given[key.name], rtol=1e-4, atol=1e-5, err_msg=key.name)
        if key.name in expected:
            assert array.shape == expected[key.name].shape
            assert_allclose(array, expected[key.name], rtol=1e-4, atol=1e-5, err_msg=key.name)
    return graph, arrays


def randn(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def randomize_weights(model: nn.Module) -> nn.Module:
    """Randomize all numbers of the model, so that no two parameters are equal."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if tensor.is_floating_point():
                tensor.copy_(torch.rand(tensor.shape, generator=generator) + 0.1)
                if not name.endswith("var"):
                    tensor.sub_(0.6)
    return model.eval()


def autoencoder() -> nn.Module:
    return nn.Sequential(
        nn.Sequential(
            nn.Conv2d(1, 4, 4, 2, 1, bias=False), nn.BatchNorm2d(4), nn.LeakyReLU(0.1, inplace=True)
        ),
        nn.Sequential(nn.ConvTranspose2d(4, 1, 4, 2, 1), nn.Sigmoid()),
    ).eval()


class Residual(nn.Module):
    """An in-place activation, a functional addition and a functional in-place relu."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)
        self.act = nn.ReLU(inplace=True)
        self.inner = nn.Sequential(nn.Conv2d(channels, channels, 1), nn.Identity(), nn.Dropout(0.3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.inner(self.act(self.conv(x)))
        y += x
        return F.relu(y, inplace=True)


class CallsTwice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = Residual(3)
        self.flat = nn.Flatten()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        before = torch.sigmoid(x)
        y = self.block(before)
        y = F.max_pool2d(y, 2)
        y = self.block(y)
        return self.flat(torch.cat([y, y.mean(1, keepdim=True)], 1))


def test_sequential_autoencoder() -> None:
    graph, _ = load_and_compare(randomize_weights(autoencoder()), randn(2, 1, 10, 14))
    assert [k.name for k in graph.keys] == [
        *("input", "0", "0.0", "0.1", "0.2", "1", "1.0", "1.1", "output")
    ]
    assert [n.op for n in graph.nodes] == [
        *("Conv", "BatchNormalization", "LeakyRelu", "ConvTranspose", "Sigmoid")
    ]


def test_nested_containers_reused_with_functional_operators_in_place() -> None:
    graph, _ = load_and_compare(randomize_weights(CallsTwice()), randn(2, 3, 8, 6))
    names = [k.name for k in graph.keys]
    assert names == [
        *("x", "sigmoid"),
        *("block", "block.conv", "block.act", "block.inner", "block.inner.0", "block.inner.1"),
        *("block.inner.2", "block: add", "block: relu", "max_pool2d"),
        *("block:1", "block.conv:1", "block.act:1", "block.inner:1", "block.inner.0:1"),
        *("block.inner.1:1", "block.inner.2:1", "block:1: add", "block:1: relu"),
        *("mean", "cat", "flat", "output"),
    ]
    kinds = {k.name: (k.kind, k.module_type) for k in graph.keys}
    assert kinds["block"] == ("module", "Residual")
    assert kinds["block.act:1"] == ("layer", "ReLU")
    assert kinds["block: add"] == ("layer", "")
    assert kinds["output"] == ("output", "CallsTwice")
    calls = {n.outputs[0]: n.module_call for n in graph.nodes}
    assert calls["add_1"] == "block:1"
    assert calls["sigmoid"] == ""


def test_the_models_output_is_called_output_whatever_a_value_in_between_is_called() -> None:
    root = ModuleCall("", 0, False, "Net", "", [("", 0), ("[1]", 1)], end_index=3)
    names = ("output", "y", "output[1]")
    nodes = [(k, Node(str(k), "Relu", ("x",), (name,))) for k, name in enumerate(names)]
    keys = make_torch_keys(
        {"x": "x"}, root, ["y", "z"], assign_calls(root, nodes), lambda _, __, value: value
    )
    assert {key.name: key.value_name for key in keys} == {
        **{"x": "x", "output:1": "output", "y": "y", "output[1]:1": "output[1]"},
        **{"output": "y", "output[1]": "z"},
    }


def test_in_place_activation_leaves_the_value_before_it() -> None:
    model = randomize_weights(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(inplace=True)))
    graph, arrays = load_and_compare(model, randn(1, 3, 5, 5))
    assert (compute_values(graph, arrays)["0"] < 0).any()


class SharedModules(nn.Module):
    """One module under two names, and one weight in two modules."""

    def __init__(self) -> None:
        super().__init__()
        self.a = self.b = nn.Conv2d(3, 3, 1)
        self.c = nn.Conv2d(3, 3, 1)
        self.c.weight = self.a.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.c(self.b(self.a(x)))


def test_tied_weights_are_two_names_for_one_value() -> None:
    model = randomize_weights(SharedModules())
    graph, _ = load_and_compare(model, randn(1, 3, 4, 4))
    assert [k.name for k in graph.keys] == ["x", "a", "a:1", "c", "output"]
    assert set(graph.parameters) == set(model.state_dict())
    assert graph.parameters["a.weight"] == graph.parameters["b.weight"]
    assert graph.parameters["a.weight"] == graph.parameters["c.weight"]
    assert graph.parameters["a.bias"] != graph.parameters["c.bias"]
    state = dict(model.state_dict())
    state["c.weight"] = state["c.weight"] + 1
    with pytest.raises(InputError, match="share"):
        with_parameters(graph, state)


class NestedHeads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.pick = DictOutput()

    def forward(self, image: torch.Tensor, scale: torch.Tensor) -> dict[str, Any]:
        parts = self.pick(image, scale)
        mean, rest = parts["mean"], parts["rest"]
        return {"mean": mean, "pair": (rest[0] + 1, rest[1]), "none": None}


class DictOutput(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.split = nn.Conv2d(2, 4, 1)

    def forward(self, x: torch.Tensor, scale: torch.Tensor) -> dict[str, Any]:
        a, b = self.split(x).chunk(2, 1)
        return {"mean": a * scale, "rest": [b, a]}


def test_tuples_and_dicts_and_several_inputs() -> None:
    graph, _ = load_and_compare(
        randomize_weights(NestedHeads()), (randn(2, 2, 3, 3), randn(2, 1, 1, 1))
    )
    names = [k.name for k in graph.keys if k.kind != "layer" or k.module_type]
    assert names == [
        *("image", "scale", "pick['mean']", "pick['rest'][0]", "pick['rest'][1]", "pick.split"),
        *("output['mean']", "output['pair'][0]", "output['pair'][1]"),
    ]
    assert [k.kind for k in graph.keys].count("output") == 3
    assert len(graph.outputs) == 3


class OddNames(nn.Module):
    """Submodules named like attributes, inputs and outputs."""

    def __init__(self) -> None:
        super().__init__()
        for name in ("code", "input", "output", "x", "0", "forward_", "model", "graph", "conv2d"):
            self.add_module(name, nn.Conv2d(2, 2, 1))
        self.odd = nn.ModuleDict(
            {"a b": nn.Conv2d(2, 2, 1), "__proto__": nn.Tanh(), "é<b>": nn.ReLU()}
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for name, module in self.named_children():
            if name != "odd":
                x = module(x)
        for module in self.odd.values():
            x = F.conv2d(module(x), self.code.weight)
        return x


def test_names_that_clash_with_others() -> None:
    model = randomize_weights(OddNames())
    graph, _ = load_and_compare(model, randn(1, 2, 3, 3))
    names = [k.name for k in graph.keys]
    assert names[:3] == ["x:1", "code", "input"]
    assert names[-1] == "output"
    assert {"output:module", "x", "0", "odd.a b", "odd.__proto__", "odd.é<b>"} < set(names)
    assert set(graph.parameters) == set(model.state_dict())


class OutputNamed(nn.Module):
    """A module `output` with a child, called twice on an input `output`."""

    def __init__(self) -> None:
        super().__init__()
        self.output = nn.Sequential(nn.Linear(3, 3), nn.Tanh())

    def forward(self, output: torch.Tensor) -> torch.Tensor:
        return 2 * self.output(self.output(output))


def test_the_networks_output_keeps_its_name_from_a_module_and_an_input() -> None:
    model, x = randomize_weights(OutputNamed()), randn(2, 3)
    graph, arrays = load_and_compare(model, x)
    assert [key.name for key in graph.keys] == [
        *("output:1", "output:module", "output.0", "output.1"),
        *("output:module:1", "output.0:1", "output.1:1", "mul", "output"),
    ]
    found = compute_values(graph, arrays)
    with torch.no_grad():
        once = model.output(torch.as_tensor(x))
        assert_allclose(found["output:module"], once, rtol=1e-5, atol=1e-6)
        assert_allclose(found["output:module:1"], model.output(once), rtol=1e-5, atol=1e-6)
        assert_allclose(found["output"], model(torch.as_tensor(x)), rtol=1e-5, atol=1e-6)
    assert set(graph.parameters) == {"output.0.weight", "output.0.bias"}


@pytest.mark.parametrize("shape", [(1, 8, 6, 3), (8, 6, 3)])
def test_a_picture_with_its_channels_last_is_told_how_to_turn_it(shape: tuple[int, ...]) -> None:
    model, x = randomize_weights(nn.Sequential(nn.Conv2d(3, 2, 3))), np.zeros(shape, np.float32)
    with pytest.raises(InputError, match="takes 3 channels; channels first: ") as error:
        load(model, x)
    turned = eval(str(error.value).split("channels first: ")[1].split(", for")[0], {"x": x})
    assert turned.shape == (1, 3, 8, 6)
    with pytest.raises(InputError, match="to have 3 channels, but got 8 channels"):
        load(model, np.zeros((1, 8, 6, 4), np.float32))


@pytest.mark.parametrize(
    "name",
    ["code", "input", "output", "graph", "training_", "T", "0", "self", "class", "None", "in-"],
)
def test_a_submodule_of_the_root_may_have_any_name(name: str) -> None:
    model = nn.Sequential()
    model.add_module(name, nn.Linear(3, 2))
    graph, _ = load_and_compare(randomize_weights(model), randn(4, 3))
    assert set(graph.parameters) == {f"{name}.weight", f"{name}.bias"}


class ShadowsMethod(nn.Module):
    """Has a tensor attribute with the name of a method that each module has."""

    def __init__(self, name: str, *, mask: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.name, self.mask = name, mask
        setattr(self, name, torch.tensor(0.5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x) * getattr(self, self.name)
        if self.mask:
            y = y.clone()
            y[y < 0] = 0.25
        return y


@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize("name", ["half", "float", "cpu", "to", "type", "register_buffer"])
def test_a_tensor_may_be_called_as_a_method_of_modules(name: str, mask: bool) -> None:
    graph, _ = load_and_compare(ShadowsMethod(name, mask=mask).eval(), randn(4, 3))
    assert set(graph.parameters) == {"linear.weight", "linear.bias"}


def test_a_fresh_batch_norm_keeps_four_tensors_and_is_not_folded() -> None:
    model = nn.Sequential(nn.Conv2d(2, 3, 1, bias=False), nn.BatchNorm2d(3)).eval()
    graph, _ = load_and_compare(model, randn(1, 2, 4, 4))
    norm = graph.nodes[-1]
    assert norm.op == "BatchNormalization"
    assert list(norm.inputs[1:]) == ["1.weight", "1.bias", "1.running_mean", "1.running_var"]
    assert_array_equal(graph.constant_data("0.weight"), model[0].weight.detach())


class DerivedWeights(nn.Module):
    """Weights computed from parameters: folded values must be recomputed for new ones."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.utils.parametrizations.weight_norm(nn.Conv2d(2, 3, 3))
        self.old = nn.utils.spectral_norm(nn.Conv2d(3, 3, 1))
        self.scale = nn.Parameter(torch.ones(3))
        self.register_buffer("index", torch.tensor([2, 0, 1]))
        self.unused = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.old(self.conv(x)) * torch.exp(self.scale).view(1, 3, 1, 1)
        return y[:, self.index]


def test_with_parameters_computes_what_was_folded_again() -> None:
    model = randomize_weights(DerivedWeights())
    graph, arrays = load_and_compare(model, randn(2, 2, 5, 6))
    assert graph.folded_nodes
    other = copy.deepcopy(model)
    with torch.no_grad():
        for tensor in other.state_dict().values():
            if tensor.is_floating_point():
                tensor.mul_(1.5).add_(0.1)
    changed = with_parameters(graph, other.state_dict())
    found, expected = compute_values(changed, arrays), hook_values(other, arrays)
    assert_allclose(found["output"], expected["output"], rtol=1e-4, atol=1e-5)
    assert not np.allclose(found["output"], compute_values(graph, arrays)["output"])
    as_numpy = {n: t.numpy() for n, t in other.state_dict().items()}
    assert_array_equal(
        compute_values(with_parameters(graph, as_numpy), arrays)["output"], found["output"]
    )
    assert_array_equal(compute_reference(model, changed, arrays)["conv"], expected["conv"])


class AltersOutput(nn.Module):
    """Changes a module's output after its hook has run, and adds values that no hook sees."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(inplace=True))
        self.last = nn.Conv2d(6, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x)
        return self.last(torch.cat([y + 1, y], 1)).mul_(2)


def test_a_few_values_are_what_they_are_among_all() -> None:
    model = randomize_weights(AltersOutput())
    graph, arrays = load(model, randn(1, 2, 5, 6))
    expected = compute_reference(model, graph, arrays)
    for name, array in hook_values(model, arrays).items():
        assert_array_equal(expected[name], array)
    assert any(key.kind == "layer" and not key.module_type for key in graph.keys)
    for name in expected:
        found = compute_reference(model, graph, arrays, {name})
        assert list(found) == [name]
        assert_array_equal(found[name], expected[name])


def test_with_parameters_says_what_does_not_fit() -> None:
    graph, _ = load(autoencoder(), randn(1, 1, 8, 8))
    state = autoencoder().state_dict()
    with_parameters(graph, state)
    bad = {n.replace("1.0.weight", "1.0.wieght"): t for n, t in state.items()}
    bad["0.0.weight"] = torch.zeros(1, 2, 3, 4)
    with pytest.raises(InputError) as error:
        with_parameters(graph, bad)
    text = str(error.value)
    assert "missing: 1.0.weight" in text
    assert "1.0.wieght (near: 1.0.weight" in text
    assert "0.0.weight: shape (1, 2, 3, 4) was given; expected (4, 1, 4, 4)" in text


@pytest.mark.parametrize(
    ("model", "x", "pattern"),
    [
        (
            nn.Sequential(nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1)),
            (1, 1, 2, 2),
            r"1 \(BatchNorm2d\).*",
        ),
        (nn.Sequential(nn.Dropout(0.5)), (1, 2), r"0 \(Dropout\)\. Dropout would drop"),
        (nn.Sequential(nn.RReLU()), (1, 2), r"0 \(RReLU\)"),
        (nn.InstanceNorm2d(1, track_running_stats=True), (1, 1, 2, 2), "the model itself"),
    ],
)
def test_training_mode_is_refused_where_it_matters(
    model: nn.Module, x: tuple[int, ...], pattern: str
) -> None:
    with pytest.raises(UnsupportedModel, match=rf"training mode: {pattern}.*model\.eval\(\)"):
        load(model.train(), randn(*x))


def test_training_mode_is_accepted_where_it_makes_no_difference() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 1), nn.ReLU(), nn.Dropout(0.0)).train()
    load(model, randn(1, 1, 2, 2))
    assert all(module.training for module in model.modules())


class Sampler(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.randn_like(x) if self.training else x * 2


def test_a_module_that_asks_whether_it_trains_counts_too() -> None:
    with pytest.raises(UnsupportedModel, match="Sampler"):
        load(Sampler(), randn(1, 2))
    load_and_compare(Sampler().eval(), randn(1, 2))


class CountsAndDropout(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
        self.conv = nn.Conv2d(1, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.conv(x) + F.dropout(torch.ones(1), 0.0)


def test_the_users_model_is_untouched() -> None:
    model = CountsAndDropout().eval()
    model.conv.train()
    model.conv.bias.requires_grad_(False)
    model.conv.register_forward_hook(lambda *_: None)
    before = copy.deepcopy(model.state_dict())
    torch.manual_seed(3)
    random = torch.get_rng_state()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(model, randn(1, 1, 2, 2))
    assert_array_equal(torch.get_rng_state(), random)
    for name, tensor in model.state_dict().items():
        assert_array_equal(tensor, before[name])
    assert not model.training
    assert model.conv.training
    assert [p.requires_grad for p in model.parameters()] == [True, False]
    assert len(model.conv._forward_hooks) == 1
    assert not model._forward_hooks
    assert not model._forward_pre_hooks


def test_the_graph_does_not_share_memory_with_the_model() -> None:
    model = nn.Linear(2, 2).eval()
    graph, _ = load(model, randn(1, 2))
    kept = graph.constant_data("weight").copy()
    with torch.no_grad():
        model.weight.add_(1)
    assert_array_equal(graph.constant_data("weight"), kept)


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    level = logging.getLogger("torch.onnx").level
    load(autoencoder(), randn(1, 1, 8, 8))
    out, err = capfd.readouterr()
    assert out + err == ""
    assert logging.getLogger("torch.onnx").level == level


def test_hooks_of_the_user_that_only_look_are_not_called_with_fakes() -> None:
    model = nn.Sequential(nn.Conv2d(1, 1, 1), nn.ReLU()).eval()
    seen: list[Any] = []
    model[0].register_forward_hook(lambda _, __, y: seen.append(y.detach().numpy()))
    load_and_compare(model, randn(1, 1, 2, 2))
    assert all(isinstance(array, np.ndarray) for array in seen)


def test_hooks_of_the_user_that_change_the_output_count() -> None:
    model = nn.Sequential(nn.Conv2d(1, 1, 1), nn.ReLU()).eval()
    model[0].register_forward_hook(lambda _, __, y: y * 2)
    load_and_compare(model, randn(1, 1, 2, 2))


def test_a_model_on_another_device_is_refused() -> None:
    with pytest.raises(UnsupportedModel, match=r"on the meta device.*model\.to_empty\("):
        load(nn.Linear(2, 2, device="meta"), randn(1, 2))


def test_half_and_double_weights_are_computed_in_float32() -> None:
    for dtype in (torch.float16, torch.float64, torch.bfloat16):
        model = nn.Linear(3, 2).to(dtype).eval()
        graph, arrays = load(model, randn(2, 3))
        assert str(dtype).removeprefix("torch.") in graph.notes[0]
        assert graph.constant_data("weight").dtype == np.float32
        expected = model.float()(torch.from_numpy(arrays[0])).detach()
        assert_allclose(compute_values(graph, arrays)["output"], expected, rtol=1e-5, atol=1e-6)


def test_nan_weights_are_allowed() -> None:
    model = nn.Conv2d(1, 2, 1).eval()
    with torch.no_grad():
        model.weight[0] = float("nan")
        model.bias[1] = float("inf")
    graph, _ = load(model, randn(1, 1, 2, 2))
    assert np.isnan(graph.constant_data("weight")[0]).all()


class InputDependent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = BranchOnMean()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)


class BranchOnMean(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.mean() > 0 else x


def test_control_flow_that_depends_on_numbers_is_explained() -> None:
    with pytest.raises(UnsupportedModel) as error:
        load(InputDependent().eval(), randn(1, 2))
    text = str(error.value)
    assert len(text) < 600
    assert "depends on the input's values" in text
    assert "inner" in text
    assert re.search(r"line \d+ of test_load_torch\.py: `return x \* 2 if x\.mean\(\) > 0", text)
    assert error.value.__cause__ is not None


class WhileLoop(nn.Module):
    """Repeats a step until nothing changes, as kornia's Canny does."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def changes(x: torch.Tensor) -> torch.Tensor:
            return (x > 1).any()

        return torch.while_loop(changes, lambda x: (x / 2,), (x,))[0]


class CondOperator(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (WhileLoop, r"while_loop: its control flow depends on the input's values.*a Python `for`"),
        (CondOperator, r"cond: its control flow depends on the input's values.*with torch\.where"),
    ],
)
def test_loops_and_branches_of_pytorchs_own_name_their_module_and_line(
    module: type[nn.Module], words: str
) -> None:
    with pytest.raises(UnsupportedOperator, match=words) as error:
        load(nn.Sequential(nn.Identity(), module()).eval(), randn(2, 3))
    kind = module.__name__
    assert re.match(rf"1 \({kind}\) at line \d+ of test_load_torch.py: `", str(error.value))


def test_an_operator_without_onnx_form_is_named() -> None:
    class Median(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.svd(x)[1]

    with pytest.raises(UnsupportedModel, match="svd") as error:
        load(nn.Sequential(nn.Identity(), Median()).eval(), randn(3, 3))
    assert len(str(error.value)) < 600
    assert "1 (Median) at line" in str(error.value)
    assert "`return torch.linalg.svd(x)[1]`" in str(error.value)


def test_an_input_that_the_model_cannot_take_is_an_input_error() -> None:
    with pytest.raises(InputError, match=r"\[1, 2, 4, 4\].*expected input"):
        load(autoencoder(), randn(1, 2, 4, 4))
    with pytest.raises(InputError, match="needs an example input"):
        load(autoencoder())
    with pytest.raises(InputError, match="'scale'"):
        load(NestedHeads().eval(), randn(1, 2, 3, 3))
    with pytest.raises(InputError, match="takes 1 input"):
        load(autoencoder(), (randn(1, 1, 8, 8), randn(1)))


class CountsCalls(nn.Module):
    """Counts the calls of all copies."""

    calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        CountsCalls.calls += 1
        return x


def test_a_value_that_no_texture_holds_is_refused_by_the_first_run() -> None:
    CountsCalls.calls = 0
    model = nn.Sequential(
        CountsCalls(), nn.ReLU(), nn.Upsample(scale_factor=2**7), nn.ReLU()
    ).eval()
    words = r"^2 \(Upsample\): its output of shape \[1, 17, 4096, 4096\] needs 1,140,850,688 bytes"
    with pytest.raises(UnsupportedModel, match=words):
        load(model, np.zeros((1, 17, 32, 32), np.float32))
    assert CountsCalls.calls == 1  # not called again, nor by the exporter


class BernoulliNoise(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.bernoulli(x)


@pytest.mark.filterwarnings("ignore:the outputs of two equal calls")
def test_random_choices_inside_a_model_are_refused_with_advice() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Sigmoid(), BernoulliNoise()).eval()
    graph, _ = load(model, randn(1, 1, 5, 5))
    with pytest.raises(UnsupportedOperator, match=r"2 .BernoulliNoise.: .*pass them as an input"):
        lower(graph)


class StarArguments(nn.Module):
    def forward(self, *images: torch.Tensor) -> torch.Tensor:
        return images[0] + images[1]


class KeywordOnly(nn.Module):
    def forward(self, x: torch.Tensor, *, gain: torch.Tensor) -> torch.Tensor:
        return x * gain


def test_star_arguments_and_keywords() -> None:
    graph, _ = load_and_compare(StarArguments().eval(), (randn(1, 2), randn(1, 2)))
    assert [k.name for k in graph.keys] == ["images[0]", "images[1]", "add", "output"]
    with pytest.raises(UnsupportedModel, match="keyword 'gain'"):
        load(KeywordOnly().eval(), randn(1, 2))


def test_wrappers_are_opened_and_torchscript_is_refused() -> None:
    model = nn.Sequential(nn.Linear(2, 2)).eval()
    graph, _ = load(nn.DataParallel(model).eval(), randn(1, 2))
    assert [k.name for k in graph.keys] == ["input", "0", "output"]
    graph, _ = load(torch.compile(model), randn(1, 2))
    assert [k.name for k in graph.keys] == ["input", "0", "output"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scripted = torch.jit.trace(model, torch.zeros(1, 2))
    with pytest.raises(UnsupportedModel, match="TorchScript"):
        load(scripted, randn(1, 2))


def test_lazy_modules_are_explained() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = nn.LazyConv2d(3, 1)
    with pytest.raises(UnsupportedModel, match="call the model once"):
        load(model.eval(), randn(1, 1, 2, 2))


def test_a_pool_with_ceil_mode_has_pytorchs_width() -> None:
    model = nn.Sequential(nn.AvgPool2d(3, 3, 1, ceil_mode=True), nn.ReLU()).eval()
    graph, _ = load(model, randn(1, 2, 58, 56))
    assert graph.shape("relu") == (1, 2, 20, 19)

    class Functional(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.relu(F.max_pool2d(x, 3, 3, 1, ceil_mode=True)) + 1

    load_and_compare(Functional().eval(), randn(1, 2, 58, 56))


def test_pictures_become_batches_of_the_models_channels() -> None:
    from PIL import Image

    pixels = np.arange(60, dtype=np.uint8).reshape(4, 5, 3)
    picture = Image.fromarray(pixels)
    (array,) = to_input_arrays(picture)
    assert array.dtype == np.float32
    assert_allclose(array, pixels.transpose(2, 0, 1)[None] / 255)
    _, (array,) = load(autoencoder(), [picture.resize((8, 12)), picture.resize((8, 12))])
    assert array.shape == (2, 1, 12, 8)
    _, (array,) = load(nn.Conv2d(3, 1, 1).eval(), picture.convert("L"))
    assert array.shape == (1, 3, 4, 5)
    graph, _ = load(nn.Conv2d(3, 1, 1).eval(), randn(1, 3, 4, 5))
    assert convert_inputs(graph, picture.convert("RGBA"))[0].shape == (1, 3, 4, 5)
    with pytest.raises(InputError, match=r"input: shape \(1, 3, 5, 4\) was given"):
        convert_inputs(graph, picture.rotate(90, expand=True))
    with pytest.raises(InputError, match="one shape"):
        to_input_arrays([picture, picture.resize((2, 2))])
    deep = Image.fromarray(np.array([[0, 65535]], np.uint16))
    assert_allclose(to_input_arrays(deep)[0], [[[[0, 1]]]])


def test_arrays_and_tensors_are_copied_and_checked() -> None:
    x = np.zeros((1, 2))
    (array,) = to_input_arrays(x)
    assert array.dtype == np.float32
    tensor = torch.zeros(1, 2, requires_grad=True)
    (array,) = to_input_arrays(tensor)
    with torch.no_grad():
        tensor.add_(1)
    assert array.max() == 0
    with pytest.raises(InputError, match=r"uint8.*astype\('float32'\) / 255"):
        to_input_arrays(np.zeros((1, 2), np.uint8))
    with pytest.raises(InputError, match="dtype complex64"):
        to_input_arrays(np.zeros((1, 2), np.complex64))
    with pytest.raises(InputError, match="on the meta device"):
        to_input_arrays(torch.zeros(1, device="meta"))
    for wrong in (None, "picture.png", [], [[1, 2], [3]], {"x": 1}, io.BytesIO()):
        with pytest.raises(InputError):
            to_input_arrays(wrong)
    graph, _ = load(nn.Linear(2, 2).eval(), x)
    with pytest.raises(InputError, match=r"shape \(2,\) was given; expected \(1, 2\); add the"):
        convert_inputs(graph, np.zeros(2))
    with pytest.raises(InputError, match="dtype int64"):
        convert_inputs(graph, np.zeros((1, 2), np.int64))
    with pytest.raises(InputError, match="2 inputs were given; the model takes 1"):
        convert_inputs(graph, (x, x))


class Median(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.median(1)[0] + x.median()


class Distances(nn.Module):
    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cdist(x, x.flip(1) + 0.5, self.p)


class MinMaxScaled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        low = x.amin()
        return (x - low) / (x.amax(keepdim=True) - low)


class Clamped(nn.Module):
    """Integer and float bounds in one clamp, which the exporter cannot translate."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.clamp(0, 0.5) + x.clamp(min=-0.25, max=1) + torch.clamp(x, 0, 1)


def test_an_assert_that_fails_and_a_choice_are_still_refused() -> None:
    with pytest.raises(InputError, match="AssertionError: small"):
        load(AssertingModule(), torch.full((2, 3), 200.0))

    class Chosen(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2 if x.max() <= 100 else x

    with pytest.raises(UnsupportedModel, match="depends on the input's values"):
        load(Chosen(), torch.ones(2, 3))


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(2, 4)
        self.qkv = nn.Conv2d(4, 12, 1)
        self.shuffle = nn.ChannelShuffle(2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, c, h, w = x.shape
        q, k, v = self.qkv(self.norm(x)).reshape(n, 3, c, h * w).unbind(1)
        weights = torch.softmax(q.transpose(1, 2) @ k / c**0.5, -1)
        first, second = self.shuffle((v @ weights).reshape(n, c, h, w)).chunk(2, 1)
        return torch.cat([second, first], 1) + x


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        (nn.Sequential(nn.AvgPool2d(2, divisor_override=3), nn.ReLU()), (1, 2, 4, 5)),
        (nn.Sequential(nn.AdaptiveMaxPool2d((3, 5)), nn.ReLU()), (1, 2, 7, 9)),
        (nn.Sequential(nn.AdaptiveMaxPool1d(4)), (1, 2, 7)),
        (nn.Sequential(nn.RReLU()), (2, 3)),
        (nn.Sequential(nn.BatchNorm2d(3, track_running_stats=False)), (2, 3, 4, 4)),
        (nn.Sequential(nn.GRU(3, 4)), (5, 2, 3)),
        (Median(), (2, 5)),
        (MinMaxScaled(), (2, 3, 4)),
        (Clamped(), (2, 3, 4)),
        (AssertingModule(), (2, 3, 4)),
        *((Distances(p), (2, 6, 3)) for p in (0.0, 1.0, 2.0, 3.0, float("inf"))),
        (Attention(), (1, 4, 3, 5)),
    ],
    ids=lambda value: type(value[0] if isinstance(value, nn.Sequential) else value).__name__,
)
def test_what_the_exporter_drops_or_cannot_write(model: nn.Module, shape: tuple[int, ...]) -> None:
    graph, _ = load_and_compare(randomize_weights(model), randn(*shape))
    operators = {n.op for n in graph.nodes}
    assert not operators & {"SplitToSequence", "SequenceAt", "Identity", "CastLike", "Shape"}


def test_average_pools_that_cannot_be_put_right_are_refused() -> None:
    model = nn.Sequential(nn.AvgPool2d(2, divisor_override=3, ceil_mode=True)).eval()
    with pytest.raises(UnsupportedModel, match=r"0 \(AvgPool2d\): .*divisor_override"):
        load(model, randn(1, 1, 5, 5))


@dataclass
class ModelResult:
    """A structured return value of a model."""

    mean: torch.Tensor
    count: int


class OddOutputs(nn.Module):
    """Changes one input in place, ignores another, and returns the third unchanged."""

    def forward(
        self, x: torch.Tensor, unused: torch.Tensor, returned: torch.Tensor
    ) -> tuple[ModelResult, torch.Tensor]:
        x.mul_(2)
        return ModelResult(x.mean(), 3), returned


def test_inputs_that_are_changed_unused_or_returned() -> None:
    x = randn(1, 3) + 1
    graph, arrays = load(OddOutputs().eval(), (x, randn(2), randn(4)))
    assert_array_equal(arrays[0], x)
    assert [k.name for k in graph.keys] == [
        *("x", "unused", "returned", "mul", "mean.mean", "mean", "output[0].mean", "output[1]")
    ]
    found = compute_values(graph, arrays)
    assert_allclose(found["output[0].mean"], 2 * x.mean(), rtol=1e-6)
    assert_array_equal(found["output[1]"], randn(4))
    expected = compute_reference(OddOutputs().eval(), graph, arrays)
    assert_array_equal(expected["x"], x)
    graph, _ = load_and_compare(nn.Identity().eval(), randn(1, 2))
    assert not graph.nodes
    assert [(k.name, k.value_name) for k in graph.keys] == [("input", "input"), ("output", "input")]


class NoOutputs(nn.Module):
    def forward(self, x: torch.Tensor) -> str:
        return "nothing"


class FunctionModule(nn.Module):
    """Wraps a function of its input."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)


@pytest.mark.parametrize(
    ("function", "shape", "words"),
    [
        (
            lambda x: F.interpolate(
                x, size=(3, 3), mode="bilinear", antialias=True, align_corners=True
            ),
            (1, 1, 5, 5),
            "antialias=True and align_corners=True",
        ),
        (
            lambda x: F.multilabel_margin_loss(x, torch.tensor([[3, 0, -1, 1, 1]])),
            (1, 5),
            "multilabel_margin_loss",
        ),
    ],
)
def test_what_the_exporter_would_compute_wrongly_is_refused(
    function: Callable[[Any], Any], shape: tuple[int, ...], words: str
) -> None:
    with pytest.raises(UnsupportedOperator, match=words):
        load(FunctionModule(function).eval(), np.zeros(shape, np.float32))


def test_a_model_that_gives_no_tensor_is_refused() -> None:
    with pytest.raises(UnsupportedModel, match="NoOutputs returns neither a tensor"):
        load(NoOutputs().eval(), randn(1, 2))


def test_an_operator_that_was_registered_after_an_export_is_taken_apart() -> None:
    x = torch.randn(1, 2, 5, 5)
    load(nn.ReLU(), x)
    library = torch.library.Library("nbglcnn_tests", "FRAGMENT")
    library.define("twice_and(Tensor x, Tensor y) -> Tensor")
    library.impl("twice_and", lambda x, y: 2 * x + y, "CompositeImplicitAutograd")

    class Composite(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.ops.nbglcnn_tests.twice_and(x, torch.relu(x))

    graph, _ = load(Composite(), x)
    assert {node.op for node in graph.nodes} == {"Mul", "Add", "Relu"}


class SharedBuffers(nn.Module):
    """A convolution that is called twice, spectral norm with its two vectors, and a mask."""

    def __init__(self) -> None:
        super().__init__()
        self.twice = nn.Conv2d(3, 3, 3, padding=1)
        self.normed = nn.utils.parametrizations.spectral_norm(nn.Conv2d(3, 4, 3))
        self.norm = nn.BatchNorm2d(4)
        self.register_buffer("mask", torch.rand(6, 6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.normed(self.twice(self.twice(x)))) * self.mask


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        (SharedBuffers(), (1, 3, 8, 8)),
        (nn.MultiheadAttention(8, 2, batch_first=True), [(1, 5, 8), (1, 7, 8), (1, 7, 8)]),
        (nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (1, 5, 8)),
    ],
    ids=["shared and buffers", "attention to others", "encoder layer"],
)
def test_the_layers_count_each_trained_number_once(model: nn.Module, shape: Any) -> None:
    shapes = shape if isinstance(shape, list) else [shape]
    x = tuple(torch.randn(one) for one in shapes)
    layers = nbglcnn.compile(model.eval(), x, observe="all").layers
    counted = sum(layer.parameters - layer.shared for layer in layers)
    assert counted == sum(p.numel() for p in model.parameters())
    if isinstance(model, SharedBuffers):
        assert [layers[name].parameters for name in ("twice", "twice:1", "normed")] == [84, 84, 112]
        assert [layers[name].shared for name in ("twice", "twice:1", "normed")] == [0, 84, 0]


def test_a_layer_in_double_precision_is_named_where_forward_feeds_it_doubles() -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.wide = nn.Linear(4, 4).double()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.wide(x.double()).float()

    words = r"in wide, a Linear.*weights given as float64 are computed in float32.*\.double\(\)"
    with pytest.raises(InputError, match=words):
        load(Mixed(), torch.zeros(1, 4))


@pytest.mark.parametrize(
    ("heads", "own"), [((6,), 3), ((6,), 2), ((6,), 1), ((4,), 4)], ids=lambda one: str(one)
)
@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 0.3}], ids=str)
def test_grouped_queries_have_the_keys_of_their_group(
    heads: tuple[int], own: int, options: dict[str, Any]
) -> None:
    class Grouped(nn.Module):
        def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            return F.scaled_dot_product_attention(q, k, v, enable_gqa=True, **options)

    random = np.random.default_rng(own)
    x = tuple(
        random.normal(size=(2, count, 5, 4)).astype(np.float32) for count in (*heads, own, own)
    )
    expected = Grouped()(*map(torch.from_numpy, x)).numpy()
    with nbglcnn.Session(nbglcnn.compile(Grouped().eval(), x)) as session:
        assert_allclose(session.run(*x)["output"], expected, rtol=1e-5, atol=1e-5)
