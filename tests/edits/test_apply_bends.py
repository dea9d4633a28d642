"""Edits replayed outside OpenGL: hooks, `apply_bends` and `verify` compute the edited network."""

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx.reference import ReferenceEvaluator
from torch import nn
from torch.nn import functional

import nbglcnn
from assertions import assert_all_equal, assert_equal
from bend_models import add_random_bends, bend_by_hooks, random_network
from nbglcnn import InputError, Session, transforms
from nbglcnn.features.edits.records import Edit
from nbglcnn.features.edits.reference import apply_edits
from nbglcnn.features.edits.replay import edit_replay
from nbglcnn.load import ComparisonModel, ComparisonSide, load
from nbglcnn.load import wrap_model as as_model
from nbglcnn.load.module_keys import tensor_leaves
from nbglcnn.load.onnx import onnx_runtime
from nbglcnn.lowering.lower import lower
from nbglcnn.reference import compute_reference
from onnx_models import model_of, node, randn


def output_tensors(output: Any) -> list[torch.Tensor]:
    return [one for _, one in tensor_leaves(output, lambda one: isinstance(one, torch.Tensor))]


@pytest.mark.parametrize("seed", range(12))
def test_a_session_hooks_and_both_replays_agree_in_random_networks(seed: int) -> None:
    net, x = random_network(seed)
    graph, arrays = load(net, x)
    plan = lower(graph)
    with Session(plan) as session:
        add_random_bends(session, seed)
        found = session.run(x.numpy())
        store = session.bends.store
        true = bend_by_hooks(net, x, plan, store.edits, store.arrays)
        assert found.keys() == true.keys()
        assert_all_equal(found, true, where="a Session")
        bends = edit_replay(plan, store.edits, store.arrays)
        assert_all_equal(
            compute_reference(net, graph, arrays, bends=bends), true, where="the reference"
        )

        seen: dict[str, np.ndarray] = {}

        def look(path: str, output: Any) -> None:
            number = sum(key.startswith(f"{path}|") for key in seen)
            seen[f"{path}|{number}"] = np.empty(0)  # one more call of it
            name = f"{path}:{number}" if number else path
            for suffix, one in tensor_leaves(output, lambda one: isinstance(one, torch.Tensor)):
                seen[name + suffix] = one.numpy().copy()

        for path, module in net.named_modules():
            if path:
                module.register_forward_hook(lambda _, __, out, path=path: look(path, out))
        replayed = nbglcnn.apply_bends(net, session.bends)
        with torch.no_grad():
            output = output_tensors(replayed(x))
        for one, key in zip(output, plan.header.outputs, strict=True):
            assert_equal(one.numpy(), true[key], name=f"{key} of apply_bends")
        if not any(v.key in bends and v.key not in seen and v.kind == "layer" for v in plan.values):
            # The user's own hooks run before ours: each sees its layer's value before the layer's
            # edits.
            before = {key: session.read(key, unbent=True) for key in seen if "|" not in key}
            assert_all_equal({key: seen[key] for key in before}, before, where="a hook in it")


class Net(nn.Module):
    """Functional operators between modules, a module called twice, a tuple, two inputs."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first = nn.Conv2d(3, 6, 3, padding=1)
        self.block = nn.Sequential(nn.Conv2d(6, 6, 3, padding=1), nn.ReLU())
        self.last = nn.Conv2d(6, 4, 1)
        self.eval()

    def forward(self, image: torch.Tensor, shift: torch.Tensor) -> Any:
        h = torch.relu(self.first(image)) + shift
        h = self.block(self.block(h))
        return self.last(h), functional.gelu(h)


IMAGE, SHIFT = torch.from_numpy(randn(2, 3, 7, 9)), torch.from_numpy(randn(2, 6, 7, 9))


@pytest.fixture
def bent_session() -> Iterator[SimpleNamespace]:
    net = Net()
    with Session(nbglcnn.compile(net, (IMAGE, SHIFT))) as session:
        yield SimpleNamespace(net=net, session=session, bend=session.bend)


def assert_bends_applied(bent: SimpleNamespace, replayed: nn.Module) -> None:
    """Check that the replayed model's outputs are those of the Session with bends."""
    found = bent.session.run(IMAGE.numpy(), SHIFT.numpy())
    with torch.no_grad():
        first, second = replayed(IMAGE, SHIFT)
    assert_equal(first.numpy(), found["output[0]"])
    assert_equal(second.numpy(), found["output[1]"])


def test_the_model_stays_as_it_is(bent_session: SimpleNamespace) -> None:
    bent_session.bend("block:1", transforms.flip_h())
    calls: list[tuple[int, ...]] = []
    bent_session.net.block.register_forward_hook(lambda _, __, out: calls.append(tuple(out.shape)))
    before = [t.clone() for t in bent_session.net(IMAGE, SHIFT)]
    replayed = nbglcnn.apply_bends(bent_session.net, bent_session.session.bends)
    assert_bends_applied(bent_session, replayed)
    assert len(calls) == 4
    assert all(map(torch.equal, bent_session.net(IMAGE, SHIFT), before))
    assert len(bent_session.net.block._forward_hooks) == 1
    assert not bent_session.net.block._forward_pre_hooks and not bent_session.net._forward_hooks
    assert list(replayed.state_dict()) == [
        f"model.{name}" for name in bent_session.net.state_dict()
    ]


def test_hooks_go_when_the_model_fails(bent_session: SimpleNamespace) -> None:
    bent_session.bend("block", transforms.flip_h())
    replayed = nbglcnn.apply_bends(bent_session.net, bent_session.session.bends)
    replayed(IMAGE, SHIFT)
    bent_session.net.last.forward = lambda _: 1 / 0
    with pytest.raises(ZeroDivisionError):
        replayed(IMAGE, SHIFT)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in bent_session.net.modules())


@pytest.mark.parametrize("key", ["image", "relu", "add", "block:1", "output[1]"])
def test_all_kinds_of_values_are_replayed_from_data_alone(
    bent_session: SimpleNamespace, key: str
) -> None:
    bent_session.bend(key, transforms.rotate(20), channels=[0, 2], mix=0.5)
    bent_session.bend(key, transforms.add(0.2))
    bent_session.bend("block", transforms.noise(0.3, 5), channels=slice(1, None, 2))
    replayed = nbglcnn.apply_bends(bent_session.net, bent_session.session.bends.to_dict())
    assert_bends_applied(bent_session, replayed)
    assert nbglcnn.verify(bent_session.session, bent_session.net, (IMAGE, SHIFT)).ok


def test_another_batch_is_bent_example_by_example(bent_session: SimpleNamespace) -> None:
    bent_session.bend("relu", transforms.blur(1.0))
    bent_session.bend("block:1", transforms.scale(1.3), channels=[0, 5])
    replayed = nbglcnn.apply_bends(bent_session.net, bent_session.session.bends)
    with torch.no_grad():
        whole = replayed(IMAGE, SHIFT)
        alone = replayed(image=IMAGE[1:], shift=SHIFT[1:])
        three = replayed(torch.cat([IMAGE[1:], IMAGE]), torch.cat([SHIFT[1:], SHIFT]))
    for one, some, more in zip(whole, alone, three, strict=True):
        assert_equal(some.numpy(), one[1:].numpy())
        assert_equal(more.numpy(), torch.cat([one[1:], one]).numpy())


def test_weights_of_now_count(bent_session: SimpleNamespace) -> None:
    bent_session.bend("relu", transforms.invert())
    replayed = nbglcnn.apply_bends(bent_session.net, bent_session.session.bends)
    assert_bends_applied(bent_session, replayed)
    with torch.no_grad():
        bent_session.net.last.bias += 1
        bent_session.net.first.weight *= 2
    bent_session.session.replace_weights(nbglcnn.compile(bent_session.net, (IMAGE, SHIFT)))
    assert_bends_applied(bent_session, replayed)


def test_what_is_injected_and_frozen_is_replayed(bent_session: SimpleNamespace) -> None:
    bent_session.session.run(IMAGE.numpy() + 1, SHIFT.numpy())
    bent_session.session.freeze("relu")
    bent_session.session.inject("block", randn(2, 2, 7, 9), channels=[1, 4])
    bent_session.bend("block", transforms.flip_v(), channels=[4, 5])
    assert_bends_applied(
        bent_session, nbglcnn.apply_bends(bent_session.net, bent_session.session.bends)
    )
    assert nbglcnn.verify(bent_session.session, bent_session.net, (IMAGE, SHIFT)).ok
    with pytest.raises(InputError, match="relu is frozen, and these bends contain no arrays"):
        nbglcnn.apply_bends(bent_session.net, bent_session.session.bends.store.edits)


def test_one_injected_example_fits_any_batch_and_two_only_two(
    bent_session: SimpleNamespace,
) -> None:
    replay = {}
    for name, array in {"one": randn(1, 6, 7, 9), "two": randn(2, 6, 7, 9)}.items():
        bent_session.session.inject("block:1", array)
        replay[name] = nbglcnn.apply_bends(bent_session.net, bent_session.session.bends)
    with torch.no_grad():
        output, _ = replay["one"](torch.cat([IMAGE, IMAGE]), torch.cat([SHIFT, SHIFT]))
    assert torch.equal(output[0], output[3])
    with pytest.raises(InputError, match=r"block:1: the injected array is \(2, 6, 7, 9\); for"):
        replay["two"](IMAGE[:1], SHIFT[:1])


def test_a_thread_that_calls_the_model_itself_gets_it_unbent(bent_session: SimpleNamespace) -> None:
    bent_session.bend("block:1", transforms.ablate())
    replayed = nbglcnn.apply_bends(bent_session.net, bent_session.session.bends)
    inside, go = threading.Event(), threading.Event()

    def pause(*_: Any) -> None:
        if threading.current_thread() is other:
            inside.set()
            go.wait(30)

    handle = bent_session.net.first.register_forward_hook(pause)
    results = []
    other = threading.Thread(target=lambda: results.append(replayed(IMAGE, SHIFT)[1]))
    with torch.no_grad():
        other.start()
        assert inside.wait(30)  # now its hooks are registered
        plain = bent_session.net(IMAGE, SHIFT)[1]
        go.set()
        other.join()
        handle.remove()
    assert plain.abs().max() > 0.1
    assert not results[0].any()


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_the_output_has_the_models_type(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()).eval().to(dtype)
    edits = [Edit(layer="0", name="a", transform="flip_h")]
    x = IMAGE.to(dtype)
    with torch.no_grad():
        found = nbglcnn.apply_bends(net, edits)(x)
        true = torch.relu(net[0](x).flip(3))
    assert found.dtype == dtype
    assert torch.equal(found, true)


def test_gradients_pass_what_pytorch_computes_and_others_say_so(
    bent_session: SimpleNamespace,
) -> None:
    bent_session.bend("block", transforms.multiply(2), channels=[0, 3], mix=0.5)
    bent_session.bend("relu", transforms.flip_v())
    replayed = nbglcnn.apply_bends(bent_session.net, bent_session.session.bends)
    replayed(IMAGE, SHIFT)[0].sum().backward()
    gradient = bent_session.net.first.weight.grad
    assert gradient is not None
    with torch.no_grad():
        before = replayed(IMAGE, SHIFT)[0].double().sum()
        step = 1e-2 * gradient / gradient.norm()
        bent_session.net.first.weight += step
        after = replayed(IMAGE, SHIFT)[0].double().sum()
    assert abs(float(after - before) / float((gradient * step).sum()) - 1) < 0.05
    bent_session.bend("block", transforms.rotate(10), name="tilt")
    blocked = nbglcnn.apply_bends(bent_session.net, bent_session.session.bends)
    with pytest.raises(InputError, match=r"the bend 'tilt' \(rotate\) of block.* has no gradient"):
        blocked(IMAGE, SHIFT)[0].sum().backward()


def test_what_cannot_be_replayed_is_refused_by_name(bent_session: SimpleNamespace) -> None:
    bend = bent_session.bend("block", transforms.glsl("y = x * x"), name="square")
    for call in (
        lambda: nbglcnn.apply_bends(bent_session.net, bent_session.session.bends),
        lambda: nbglcnn.verify(bent_session.session, bent_session.net, (IMAGE, SHIFT)),
    ):
        with pytest.raises(InputError, match=r"'square' of block is written in GLSL.*disable it"):
            call()
    bend.enabled = False
    assert_bends_applied(
        bent_session, nbglcnn.apply_bends(bent_session.net, bent_session.session.bends)
    )
    assert nbglcnn.verify(bent_session.session, bent_session.net, (IMAGE, SHIFT)).ok
    with pytest.raises(InputError, match=r"apply_bends expects a torch.nn.Module, not ModelProto"):
        nbglcnn.apply_bends(onnx.ModelProto(), bent_session.session.bends)
    with pytest.raises(InputError, match="expected the dict of a to_dict"):
        nbglcnn.apply_bends(bent_session.net, {})
    flip = {"name": "a", "transform": "flip_h"}
    for layer, channels, error, words in (
        ("blok", None, KeyError, "'blok' is not a value.*near: 'block'"),
        ("block", [6], InputError, "block has channels 0 to 5, not 6"),
    ):
        edits = {"bends": [{**flip, "layer": layer, "channels": channels}]}
        with pytest.raises(error, match=words):
            nbglcnn.apply_bends(bent_session.net, edits)(IMAGE, SHIFT)
    bent_session.net.first.train()
    nn.init.zeros_(bent_session.net.last.weight)
    bent_session.net.add_module("drop", nn.Dropout())
    with pytest.raises(nbglcnn.UnsupportedModel, match="in training mode: drop"):
        nbglcnn.apply_bends(bent_session.net.train(), {"bends": [{**flip, "layer": "block"}]})(
            IMAGE, SHIFT
        )


def test_a_step_inside_an_operator_of_pytorchs_is_refused() -> None:
    class Attends(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return functional.scaled_dot_product_attention(x, x, x)

    x = torch.from_numpy(randn(1, 2, 5, 4))
    with Session(nbglcnn.compile(Attends().eval(), x)) as session:
        inner = [v.key for v in session.plan.values if v.key.endswith(".softmax")]
        session.bend(inner[0], transforms.invert())
        replayed = nbglcnn.apply_bends(Attends().eval(), session.bends)
        with pytest.raises(InputError, match="softmax cannot be replayed in PyTorch: it is a step"):
            replayed(x)
        assert nbglcnn.verify(session, Attends().eval(), x).ok


def test_another_model_is_told_from_the_one_that_was_bent(bent_session: SimpleNamespace) -> None:
    bent_session.bend("block:1", transforms.invert())

    class Once(Net):
        def forward(self, image: torch.Tensor, shift: torch.Tensor) -> Any:
            return self.last(self.block(self.first(image) + shift)), image

    with pytest.raises(InputError, match="Once did not compute 'block:1', which is bent"):
        nbglcnn.apply_bends(Once(), bent_session.session.bends)(IMAGE, SHIFT)


def test_verify_says_that_bends_were_replayed_and_finds_one_that_was_not_made(
    bent_session: SimpleNamespace,
) -> None:
    bent_session.bend("relu", transforms.erode(1))
    report = nbglcnn.verify(bent_session.session, bent_session.net, (IMAGE, SHIFT))
    assert report.ok
    count = len(bent_session.session.plan.layers)
    assert report.summary.startswith(f"{count} of {count} layers match PyTorch")
    assert report.summary.endswith(", with bends applied")
    bent_session.session.set_edits((), {})  # cleared on the device only; the record stays
    report = nbglcnn.verify(bent_session.session, bent_session.net, (IMAGE, SHIFT))
    assert report.first_diverging == "relu"


def test_a_threshold_at_a_value_itself_is_no_fault_but_a_missed_one_is() -> None:
    torch.manual_seed(3)
    net = nn.Sequential(nn.Conv2d(3, 5, 3), nn.Conv2d(5, 3, 3)).eval()
    with Session(nbglcnn.compile(net, IMAGE)) as session:
        value = session.run(IMAGE.numpy())["0"]
        true = compute_reference(net, *load(net, IMAGE))["0"]
        apart = np.argwhere(value != true)
        level = max(value[tuple(apart[0])], true[tuple(apart[0])])
        level = np.nextafter(level, np.float32(-np.inf))  # so only one of the two exceeds it
        session.bend("0", transforms.threshold(float(level)))
        report = nbglcnn.verify(session, net, IMAGE)
        assert report.ok, report
        session.bends[0].level = float(level) + 0.1
        session.set_edits((), {})
        assert not nbglcnn.verify(session, net, IMAGE).ok


def onnx_net() -> onnx.ModelProto:
    return model_of(
        [
            node("Conv", ["x", "w"], ["c"], kernel_shape=[3, 3], pads=[1] * 4),
            node("Relu", ["c"], ["r"]),
            node("Add", ["r", "c"], ["y"]),
            node("Mul", ["y", "r"], ["z"]),
        ],
        {"x": (2, 3, 5, 4)},
        ["y", "z"],
        constants={"w": randn(3, 3, 3, 3)},
    )


def run_operator(op: str, *arrays: np.ndarray, **attributes: Any) -> np.ndarray:
    """Run one operator with onnx.reference."""
    names = [f"i{k}" for k in range(len(arrays))]
    shapes = {name: array.shape for name, array in zip(names, arrays, strict=True)}
    model = model_of([node(op, names, ["o"], **attributes)], shapes, ["o"])
    return ReferenceEvaluator(model).run(None, dict(zip(names, arrays, strict=True)))[0]


@pytest.mark.parametrize("engine", ["ONNX Runtime", "onnx.reference"])
def test_an_onnx_file_runs_up_to_each_bent_value_and_on_from_it(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, x = onnx_net(), randn(2, 3, 5, 4)
    graph, arrays = load(model, x)
    with Session(lower(graph)) as session:
        for key in ("x", "c", "y"):
            session.bend(key, transforms.flip_h(), channels=[0, 2])
            session.bend(key, transforms.add(0.5), channels=[1], mix=0.5)
        store = session.bends.store
        bends = edit_replay(session.plan, store.edits, store.arrays)
        given: list[list[str]] = []
        if engine == "onnx.reference":
            monkeypatch.setattr("nbglcnn.reference.run_onnx_file", lambda *_: {})
        else:
            monkeypatch.setattr(
                "nbglcnn.reference.run_onnx_file",
                lambda *args: (
                    found := onnx_runtime.run_onnx_file(*args),
                    given.append(list(found)),
                )[0],
            )
        found = compute_reference(model, graph, arrays, bends=bends)

        def own(key: str, array: np.ndarray) -> np.ndarray:
            edits = [edit for edit in store.edits if edit.layer == key]
            return apply_edits(array, array.shape, edits, {}) if edits else array

        true = {"x": own("x", x)}
        conv = {"kernel_shape": [3, 3], "pads": [1] * 4}
        true["c"] = own("c", run_operator("Conv", true["x"], randn(3, 3, 3, 3), **conv))
        true["r"] = np.maximum(true["c"], 0)
        true["y"] = own("y", true["r"] + true["c"])
        true["z"] = true["y"] * true["r"]
        assert found.keys() == true.keys()
        assert_all_equal(found, true)
        assert_all_equal(session.run(x), true)
        assert nbglcnn.verify(session, model, x).ok
        if engine == "ONNX Runtime":
            assert set(given[0]) == {"c", "r", "y", "z"}


def test_two_networks_are_each_bent_and_their_differences_follow() -> None:
    sides = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()).eval()
        graph, arrays = load(net, IMAGE)
        sides.append(ComparisonSide(as_model(net), graph, arrays))
    joined = ComparisonModel(*sides, shared_input=True, shared_weights=False)
    with Session(lower(joined.graph)) as session:
        keys = [value.key for value in session.plan.values]
        for bent_keys in (["A.0"], ["A.input", "B.1"], ["difference.0", "A.1"]):
            session.bends.clear()
            for key in bent_keys:
                session.bend(key, transforms.flip_h())
                session.bend(key, transforms.multiply(0.5))
            report = nbglcnn.verify(session, joined)
            assert report.ok, report
            assert {row.layer for row in report.rows} == set(session.plan.computed) <= set(keys)
