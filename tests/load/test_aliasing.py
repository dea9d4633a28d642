"""Modules that return their input: readers of the output are distinguished from the input's."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import nbglcnn
from assertions import assert_all_equal, assert_equal
from hook_changes import change_after_key, evaluate_outputs, outputs_by_hook, run_model
from nbglcnn.graph import Graph, call_return_order, is_inside_call
from nbglcnn.load import ComparisonModel, ComparisonSide, load, with_parameters, wrap_model
from nbglcnn.lowering.lower import lower
from nbglcnn.python_fallback import load_with_fallback
from nbglcnn.reference import compute_reference
from nbglcnn.runtime.session import Session
from onnx_models import small_model

SHAPE = (1, 3, 2, 3)


def assert_hooks_act_alike(model: nn.Module, *keys: str) -> Graph:
    """Check that hooks on each key's module change the same outputs in the Graph; return it."""
    model.eval()
    x = torch.rand(SHAPE) - 0.5
    graph, arrays = load(model, x)
    plain = run_model(model, (x,))
    for one, expected in zip(evaluate_outputs(graph, arrays), plain, strict=True):
        assert_equal(one, expected)
    tried = set()
    for key in graph.keys:
        wanted = outputs_by_hook(model, (x,), key)
        if wanted is None:
            continue
        tried.add(key.name)
        given = evaluate_outputs(change_after_key(graph, key), arrays)
        for one, expected in zip(given, wanted, strict=True):
            assert_equal(one, expected, name=f"{key.name} changed")
    assert tried.issuperset(keys), tried
    return graph


def operators(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


class SkipAround(nn.Module):
    """One of two readers reads the passed-on output."""

    def __init__(self, passthrough: nn.Module) -> None:
        super().__init__()
        self.passes, self.conv = passthrough, nn.Conv2d(3, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(x)
        return self.conv(self.passes(h)) + h


class Contiguous(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.contiguous()


class CopiesInput(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x.clone()]).float()


class PassthroughWithHead(nn.Module):
    """Returns its input, and a value computed from it."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Conv2d(3, 3, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x, self.head(x)


PASSTHROUGH_MODULES = {
    "Dropout": nn.Dropout(),
    "Dropout2d": nn.Dropout2d(),
    "AlphaDropout": nn.AlphaDropout(),
    "Identity": nn.Identity(),
    "Flatten of the last axis": nn.Flatten(3),
    "Sequential of nothing": nn.Sequential(),
    "Sequential of such": nn.Sequential(nn.Identity(), nn.Sequential(nn.Dropout(), nn.Identity())),
    "contiguous()": Contiguous(),
    "copies": CopiesInput(),
}


@pytest.mark.parametrize("name", PASSTHROUGH_MODULES)
def test_a_skip_from_before_a_module_that_computes_nothing_stays_before_it(name: str) -> None:
    graph = assert_hooks_act_alike(SkipAround(PASSTHROUGH_MODULES[name]), "x", "passes", "conv")
    assert operators(graph) == ["Relu", "Identity", "Conv", "Add"]
    assert graph.key("passes").value_name != graph.key("relu").value_name
    assert [key.name for key in graph.keys if key.module_call is None] == ["x", "relu", "add"]


@pytest.mark.parametrize("name", PASSTHROUGH_MODULES)
def test_where_all_read_behind_it_the_value_is_the_same(name: str) -> None:
    model = nn.Sequential(nn.Conv2d(3, 3, 1), PASSTHROUGH_MODULES[name], nn.ReLU())
    graph = assert_hooks_act_alike(model, "0", "1", "2")
    assert operators(graph) == ["Conv", "Relu"]
    assert graph.key("0").value_name == graph.key("1").value_name


class ReturnsPassthrough(nn.Module):
    def __init__(self, *, before: bool) -> None:
        super().__init__()
        self.drop, self.before = nn.Dropout(), before

    def forward(self, x: Tensor) -> Any:
        h = torch.relu(x)
        return (self.drop(h), h) if self.before else self.drop(h)


@pytest.mark.parametrize("before", [False, True])
def test_a_value_that_is_returned_is_so_before_or_behind(before: bool) -> None:
    graph = assert_hooks_act_alike(ReturnsPassthrough(before=before), "drop")
    assert len(set(graph.outputs)) == 1 + before


class UnusedTap(nn.Module):
    """A module whose output is unused."""

    def __init__(self) -> None:
        super().__init__()
        self.tap, self.conv = nn.Identity(), nn.Conv2d(3, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        self.tap(x)
        return self.conv(x)


class SameTensorTwice(nn.Module):
    """One tensor as two outputs, each with a reader."""

    def __init__(self) -> None:
        super().__init__()
        self.pair, self.conv = AliasedOutputs(), nn.Conv2d(3, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        given = self.pair(x)
        return self.conv(given["last"]) - given["all"][0]


class AliasedOutputs(nn.Module):
    def forward(self, x: Tensor) -> dict[str, Any]:
        y = x * 3
        return {"last": y, "all": [y, x]}


class NestedAliases(nn.Module):
    """An inner module reads a value that its enclosing module returns; that one is called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.passthrough, self.drop = PassthroughWithHead(), nn.Dropout()

    def forward(self, x: Tensor) -> Tensor:
        y, a = self.passthrough(x)
        z, b = self.passthrough(self.drop(y) + x)
        return y * a + z * b + x


class StoredTensor(nn.Module):
    """A module returns a tensor stored by another module, whatever its input."""

    def __init__(self) -> None:
        super().__init__()
        self.storing_module, self.returning_module = KeepsTensor(), ReturnsStored()
        self.conv = nn.Conv2d(3, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(self.storing_module(x))
        return self.returning_module(y, self.storing_module) + y + x


class KeepsTensor(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        self.kept = x
        return x


class ReturnsStored(nn.Module):
    def forward(self, x: Tensor, keeps: KeepsTensor) -> Tensor:
        return keeps.kept


class ReturnsInputTwice(nn.Module):
    """Returns its input twice, after reading it."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x, x


class DuplicatedOutput(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.same, self.conv = ReturnsInputTwice(), nn.Conv2d(3, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        a, b = self.same(x.sigmoid())
        return self.conv(a) - b


@pytest.mark.parametrize(
    "kind",
    [
        UnusedTap,
        SameTensorTwice,
        DuplicatedOutput,
        NestedAliases,
        StoredTensor,
        PassthroughWithHead,
    ],
)
def test_hooks_act_alike_in(kind: type[nn.Module]) -> None:
    assert_hooks_act_alike(kind())


def test_what_is_written_into_what_was_passed_on_is_written_into_both() -> None:
    class Writes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.passes, self.act = nn.Identity(), nn.ReLU(inplace=True)

        def forward(self, x: Tensor) -> Tensor:
            h = x * 3
            y = self.act(self.passes(h))
            y += 1
            return h - 2 * y

    x = torch.randn(SHAPE)
    model = Writes().eval()
    graph, arrays = load(model, x)
    [given] = evaluate_outputs(graph, arrays)
    assert_equal(given, run_model(model, (x,))[0])


class MultipliesInPlace(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mul_(2)


class WritesSlice(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[:, :1].mul_(2)


class KeepsTensor(nn.Module):
    """Stores its output, as a skip connection does; other code reads it."""

    def forward(self, x: Tensor) -> Tensor:
        self.kept = x * 2
        return self.kept


class WritesBuffer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kept", torch.ones(SHAPE))

    def forward(self, x: Tensor) -> Tensor:
        self.kept.mul_(0).add_(x)
        return self.kept


class ReadsBeforeAndAfter(nn.Module):
    """Reads a tensor that a module writes in place or stores, and the module's output."""

    def __init__(self, act: nn.Module) -> None:
        super().__init__()
        self.conv, self.act, self.head = nn.Conv2d(3, 3, 1), act, nn.Conv2d(3, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        before = self.conv(x)
        after = self.act(before)
        if hasattr(self.act, "kept"):
            before = self.act.kept
        return self.head(before) - 3 * after


IN_PLACE_MODULES: dict[str, Callable[[], nn.Module]] = {
    "ReLU": lambda: nn.ReLU(inplace=True),
    "Hardswish": lambda: nn.Hardswish(inplace=True),
    "a product": MultipliesInPlace,
    "a part": WritesSlice,
    "what is kept": KeepsTensor,
    "a buffer": WritesBuffer,
}


@pytest.mark.parametrize("name", IN_PLACE_MODULES)
def test_what_a_module_gives_is_apart_from_what_it_writes_into_or_keeps(name: str) -> None:
    model, x = ReadsBeforeAndAfter(IN_PLACE_MODULES[name]()), torch.rand(SHAPE) - 0.5
    graph = assert_hooks_act_alike(model, "conv", "act", "head")
    with Session(lower(graph)) as session:
        session.bend("act", nbglcnn.transforms.multiply(-3))
        report = nbglcnn.verify(session, model, x)
    assert report.ok, report


def test_an_attribute_of_what_a_module_gives_is_there_where_it_is_read() -> None:
    class Scales(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            y = x * 2
            y.scale = 3
            return y

    class Reads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scales = Scales()

        def forward(self, x: Tensor) -> Any:
            y = self.scales(x)
            return y * y.scale

    x = torch.rand(SHAPE)
    graph, arrays = load(Reads().eval(), x)
    [given] = evaluate_outputs(graph, arrays)
    assert_equal(given, (6 * x).numpy())


def test_a_chain_of_modules_in_place_has_the_values_of_one_that_is_not() -> None:
    def chain(inplace: bool) -> nn.Module:
        torch.manual_seed(0)
        block = nn.Sequential(nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3), nn.ReLU(inplace))
        return nn.Sequential(block, nn.Conv2d(3, 3, 1), nn.ReLU6(inplace)).eval()

    x = torch.rand(SHAPE) - 0.5
    plans = [lower(load(chain(inplace), x)[0]) for inplace in (True, False)]
    one, other = ([value.key for value in plan.values] for plan in plans)
    assert one == other
    assert len(plans[0].header.passes) == len(plans[1].header.passes)
    assert len(plans[0].header.textures) == len(plans[1].header.textures)


def test_a_list_that_a_module_adds_to_and_returns_is_still_its_callers() -> None:
    class Adds(nn.Module):
        def forward(self, found: list[Tensor]) -> list[Tensor]:
            found.append(found[-1].sigmoid())
            return found

    class Lists(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.adds = Adds()

        def forward(self, x: Tensor) -> Tensor:
            found = [x]
            self.adds(found)
            self.adds(found)
            return torch.cat(found)

    x = torch.randn(SHAPE)
    graph, arrays = load(Lists().eval(), x)
    assert_equal(evaluate_outputs(graph, arrays)[0], run_model(Lists(), (x,))[0])


def test_a_model_is_left_as_it_was() -> None:
    model = SkipAround(nn.Identity()).eval()
    load(model, torch.rand(SHAPE))
    for module in model.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks
        assert "forward" not in vars(module)


@pytest.mark.parametrize("observe", ["all", "outputs", ["conv"], ["passes"]])
def test_telling_readers_apart_costs_no_pass_and_no_texture(observe: Any) -> None:
    class Plain(SkipAround):
        def forward(self, x: Tensor) -> Tensor:
            h = torch.relu(x)
            return self.conv(h) + h

    x = torch.randn(SHAPE)
    model = SkipAround(nn.Dropout()).eval()
    graph, arrays = load(model, x)
    plan = lower(graph, observe=observe)
    kept = ["relu"] if observe == ["passes"] else observe
    plain = lower(load(Plain(nn.Dropout()).eval(), x)[0], observe=kept)
    assert len(plan.header.passes) == len(plain.header.passes)
    assert len(plan.header.textures) == len(plain.header.textures)
    with Session(plan) as session:
        assert_all_equal(session.run(*arrays), compute_reference(model, graph, arrays))


def test_the_layer_table_says_what_reads_behind_the_module() -> None:
    plan = lower(load(SkipAround(nn.Dropout()).eval(), torch.rand(SHAPE))[0])
    rows = {row.name: row for row in plan.header.layers}
    assert list(rows) == ["relu", "passes", "conv", "add"]
    assert (rows["passes"].role, rows["passes"].type) == ("alias", "Dropout")
    assert rows["passes"].inputs == ("relu",)
    assert rows["conv"].inputs == ("passes",)
    assert rows["add"].inputs == ("conv", "relu")


def test_new_weights_reach_what_reads_behind_the_module() -> None:
    model, other = SkipAround(nn.Dropout()).eval(), SkipAround(nn.Dropout()).eval()
    x = torch.randn(SHAPE)
    graph, arrays = load(model, x)
    weights = {name: tensor.numpy() for name, tensor in other.state_dict().items()}
    graph = with_parameters(graph, weights)
    assert_equal(evaluate_outputs(graph, arrays)[0], run_model(other, (x,))[0])


def test_two_networks_in_one_graph_keep_their_readers_apart() -> None:
    x = torch.randn(SHAPE)
    model, other = SkipAround(nn.Dropout()).eval(), NestedAliases().eval()
    sides = (ComparisonSide(wrap_model(one), *load(one, x)) for one in (model, other))
    joined = ComparisonModel(*sides, shared_input=False, shared_weights=False)
    graph, arrays = load(joined)
    for prefix, own in (("A.", model), ("B.", other)):
        for key in graph.keys:
            if key.kind == "input" or not key.name.startswith(prefix):
                continue
            bare = replace(key, name=key.name.removeprefix(prefix))
            bare = replace(
                bare, module_call=key.module_call and key.module_call.removeprefix(prefix)
            )
            wanted = outputs_by_hook(own, (x,), bare)
            if wanted is None:
                continue
            at = "AB".index(prefix[0])
            assert_equal(
                evaluate_outputs(change_after_key(graph, key), arrays)[at], wanted[0], name=key.name
            )


def test_a_difference_is_that_of_changed_outputs() -> None:
    x = torch.randn(SHAPE)
    model = SkipAround(nn.Dropout()).eval()
    sides = (ComparisonSide(wrap_model(model), *load(model, x)) for _ in "AB")
    graph, _ = load(ComparisonModel(*sides, shared_input=True, shared_weights=True))
    read = [n for n in graph.nodes if graph.key("A.output").value_name in n.inputs]
    assert read
    assert not any(is_inside_call(graph, node, graph.key("A.output")) for node in read)
    adds = [node for node in graph.nodes if node.op == "Add"]
    assert [is_inside_call(graph, node, graph.key("A.output")) for node in adds] == [True, False]


class CallsForeignModule(nn.Module):
    """Calls a module outside its own tree, and an inner one twice."""

    def __init__(self, foreign_module: nn.Module) -> None:
        super().__init__()
        self.inner, self.elsewhere = nn.Sequential(nn.Conv2d(3, 3, 1)), foreign_module

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(self.elsewhere(self.inner(x).sigmoid())) * 2


class NestedCalls(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 3, 1)
        self.around = CallsForeignModule(self.first)

    def forward(self, x: Tensor) -> Tensor:
        return self.around(self.around(self.first(x)).relu())


def test_a_node_is_inside_the_calls_around_it_and_no_others() -> None:
    graph, _ = load(NestedCalls().eval(), torch.rand(SHAPE))
    found = {
        key.name: "".join(".#"[is_inside_call(graph, node, key)] for node in graph.nodes)
        for key in graph.keys
    }
    assert operators(graph) == [
        "Conv", *["Conv", "Sigmoid", "Conv", "Conv", "Mul"], "Relu",
        *["Conv", "Sigmoid", "Conv", "Conv", "Mul"],
    ]  # fmt: skip
    assert found == {
        "x": "............",
        "first": "#...........",
        "around": ".#####......",
        "around.inner": ".#..........",
        "around.inner.0": ".#..........",
        "around: sigmoid": "............",
        "first:1": "...#........",
        "around.inner:1": "....#.......",
        "around.inner.0:1": "....#.......",
        "around: mul": "............",
        "relu": "............",
        "around:1": ".......#####",
        "around.inner:2": ".......#....",
        "around.inner.0:2": ".......#....",
        "around:1: sigmoid": "............",
        "first:2": ".........#..",
        "around.inner:3": "..........#.",
        "around.inner.0:3": "..........#.",
        "around:1: mul": "............",
        "output": "############",
    }


def test_keys_of_one_value_are_in_order_of_the_hooks_on_their_modules() -> None:
    inner = nn.Sequential(nn.Dropout(), nn.Sequential(nn.Identity()))
    model = nn.Sequential(nn.Conv2d(3, 3, 1), inner, nn.Dropout()).eval()
    told: list[str] = []
    for path, module in model.named_modules():
        module.register_forward_hook(lambda *_, path=path: told.append(path or "output"))
    x = torch.rand(SHAPE)
    model(x)
    hooked, told = told, []
    graph, _ = load(model, x)
    assert len({key.value_name for key in graph.keys if key.kind != "input"}) == 1
    turn = call_return_order(graph)
    keys = sorted(graph.keys, key=lambda key: turn[key.module_call])
    assert [key.name for key in keys] == ["input", *hooked]


def test_nothing_is_inside_a_value_of_a_file() -> None:
    """An ONNX file has no module calls: each reader reads a value from its operator."""
    graph, _ = load(small_model())
    assert not any(is_inside_call(graph, node, key) for node in graph.nodes for key in graph.keys)


class PythonFallbackNet(nn.Module):
    """Has a layer computed in Python, between modules that compute nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.drop, self.gru = nn.Dropout(), nn.GRU(3, 3, batch_first=True)
        self.passes, self.linear = nn.Identity(), nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = x[0].relu()
        y, _ = self.gru(self.drop(h))
        return self.linear(self.passes(y)) + y + h


def test_what_python_computes_reads_behind_a_module_and_is_read_before_one() -> None:
    graph, _ = load_with_fallback(PythonFallbackNet().eval(), torch.rand(SHAPE))
    [gru] = [node for node in graph.nodes if node.python_fallback is not None]
    assert gru.inputs[0] == graph.key("drop").value_name != graph.key("relu").value_name
    assert gru.outputs[0] == graph.key("gru[0]").value_name != graph.key("passes").value_name
    before, after = ([n.op for n in graph.nodes if graph.key(name).value_name in n.inputs]
                      for name in ("gru[0]", "passes"))  # fmt: skip
    assert (before, after) == (["Identity", "Add"], ["MatMul"])


class RandomProgram(nn.Module):
    """Random modules and operators on tensors of one shape; returns one or two tensors."""

    def __init__(self, random: random.Random, depth: int = 2) -> None:
        super().__init__()
        kinds = [
            *(lambda: nn.Conv2d(3, 3, 1), nn.ReLU, nn.Identity, nn.Identity, nn.Dropout),
            *(lambda: nn.Flatten(3), Contiguous, CopiesInput),
            lambda: nn.Sequential(nn.Dropout(), nn.Identity()),
            *([lambda: RandomProgram(random, depth - 1)] * (3 if depth else 0)),
        ]
        self.own = nn.ModuleList(random.choice(kinds)() for _ in range(4))
        self.steps = [
            (random.choice(["call", "call", "add", "sigmoid"]), random.random(), random.random())
            for _ in range(7)
        ]
        self.given = [random.random() for _ in range(random.choice([1, 2]))]

    def forward(self, x: Tensor) -> Any:
        known = [x]

        def one(chance: float) -> Tensor:
            return known[int(chance * len(known))]

        for step, first, second in self.steps:
            if step == "call":
                given = self.own[int(second * len(self.own))](one(first))
                known += given if isinstance(given, tuple) else [given]
            else:
                known.append(one(first) + one(second) if step == "add" else one(first).sigmoid())
        given = tuple(one(chance) for chance in self.given)
        return given if len(given) > 1 else given[0]


@pytest.mark.parametrize("seed", range(12))
def test_hooks_act_alike_in_random_modules(seed: int) -> None:
    torch.manual_seed(seed)
    assert_hooks_act_alike(RandomProgram(random.Random(seed)))
