"""A Session used by several threads, and its errors for invalid use."""

import copy
import gc
import pickle
import threading
from collections.abc import Callable, Iterator

import numpy as np
import onnx
import pytest

import nbglcnn
from assertions import assert_equal
from nbglcnn import InputError, ModelError, Plan, Session, SessionClosed, Viewer
from onnx_models import model_of, node, randn

SHAPE = (1, 4, 16, 16)


def convolution_model() -> onnx.ModelProto:
    return model_of(
        [
            node("Conv", ["x", "w"], ["hidden"], kernel_shape=[3, 3], pads=[1] * 4),
            node("Relu", ["hidden"], ["rest"]),
            node("Add", ["rest", "x"], ["y"]),
        ],
        {"x": SHAPE},
        ["y"],
        constants={"w": randn(4, 4, 3, 3)},
    )


@pytest.fixture(scope="module")
def plan() -> Plan:
    return nbglcnn.compile(convolution_model(), np.zeros(SHAPE, "float32"))


@pytest.fixture
def session(plan: Plan) -> Iterator[Session]:
    with Session(plan) as made:
        yield made


def run_concurrently(*works: Callable[[], None]) -> list[BaseException]:
    """Run each in a separate thread, concurrently; return the exceptions."""
    raised: list[BaseException] = []
    ready = threading.Barrier(len(works))

    def run(work: Callable[[], None]) -> None:
        try:
            ready.wait()
            work()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
        assert not thread.is_alive(), "a thread waits for ever"
    return raised


def test_each_thread_gets_the_numbers_of_its_own_input(session: Session) -> None:
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(SHAPE).astype("float32") for _ in range(4)]
    expected = [session.run(x) for x in inputs]

    def work(number: int) -> None:
        for _ in range(10):
            for key, found in session.run(inputs[number]).items():
                np.testing.assert_array_equal(found, expected[number][key], err_msg=key)

    # One thread verifies meanwhile, with a separate input.
    model, x = convolution_model(), rng.standard_normal(SHAPE).astype("float32")

    def verify() -> None:
        assert nbglcnn.verify(session, model, x).ok

    assert not run_concurrently(*(lambda k=k: work(k) for k in range(4)), verify)  # type: ignore[misc]


def test_a_session_that_is_closed_while_another_thread_runs_it_ends_that_run_first(
    plan: Plan,
) -> None:
    session = Session(plan)
    x = np.ones(SHAPE, "float32")
    expected = session.run(x)["y"]
    runs = 0
    some = threading.Event()

    def work() -> None:
        nonlocal runs
        while True:
            assert_equal(session.run(x)["y"], expected)
            runs += 1
            some.set()

    raised = run_concurrently(work, work, lambda: some.wait(50) and session.close())
    assert runs and [type(error) for error in raised] == [SessionClosed] * 2


def test_a_session_that_is_freed_on_the_devices_own_thread_closes(plan: Plan) -> None:
    session, other = Session(plan), Session(plan)
    before = session.run(np.ones(SHAPE, "float32"))["y"]

    # As a Viewer in a reference cycle that is collected during a draw.
    def collected() -> None:
        other.close()
        gc.collect()

    assert not run_concurrently(lambda: session._device.run_on_thread(collected))
    assert "closed" in repr(other)
    assert_equal(session.run(np.ones(SHAPE, "float32"))["y"], before)


@pytest.mark.parametrize(
    "given", ["a.onnx", convolution_model(), None], ids=["path", "model", "None"]
)
def test_what_is_no_plan_is_refused_and_says_how_to_get_one(given: object) -> None:
    name = type(given).__name__
    with pytest.raises(ModelError, match=rf"{name} was given. Give nbglcnn.compile\(model"):
        Session(given)  # type: ignore[arg-type]


def test_a_name_that_is_not_there_is_answered_with_near_ones(plan: Plan, session: Session) -> None:
    session.run(np.ones(SHAPE, "float32"))
    for read in (plan.layers.__getitem__, session.read):
        with pytest.raises(KeyError, match=r"'hiden' is not a (layer|value) .* near: 'hidden'"):
            read("hiden")
    with pytest.raises(InputError, match="no input 'z'"):
        session.write("z", 0)


def test_a_run_gives_the_values_that_are_asked_for(session: Session) -> None:
    x = randn(*SHAPE)
    found = session.run(x)
    assert list(found) == ["x", "hidden", "rest", "y"]
    asked = session.run(2 * x, read=["y", "hidden"])
    assert list(asked) == ["hidden", "y"], "in the Plan's order"
    assert_equal(asked["hidden"], 2 * found["hidden"])
    assert_equal(session.read("rest"), 2 * found["rest"])  # computed anyway
    assert session.run(x, read=()) == {}
    assert_equal(session.read("y"), found["y"])
    both = session.run(np.concatenate([x, -x]), read="rest")
    assert_equal(both.pop("rest")[:1], found["rest"])
    assert both == {}
    with pytest.raises(KeyError, match="'hiden' is not a value of this network; near: 'hidden'"):
        session.run(-x, read=["y", "hiden"])
    with pytest.raises(KeyError, match="read: this run does not compute 'w'; it computes 'x'"):
        session.run(-x, read="w")
    assert_equal(session.read("x"), -x[:1])  # of the second piece: not overwritten since


def test_a_layer_table_has_the_names_that_it_takes(plan: Plan) -> None:
    for layer in plan.layers:
        assert layer.name in plan.layers and layer in plan.layers
        assert plan.layers[layer.name] is layer
    assert "x" not in plan.layers and "hiden" not in plan.layers and 0 not in plan.layers


def test_what_a_session_and_a_viewer_are_is_said_also_when_they_are_closed(plan: Plan) -> None:
    session = Session(plan)
    opened = repr(session)
    assert opened.startswith("Session of 'g' (0.") and plan.memory in opened
    assert session.renderer in opened and "closed" not in opened
    session.close()
    assert repr(session).endswith(", closed")
    x = np.ones(SHAPE, "float32")
    comparison = nbglcnn.compare(convolution_model(), convolution_model(), x, 2 * x)
    for viewer in (Viewer(convolution_model(), x), comparison):
        assert "closed" not in repr(viewer) and "MB" in repr(viewer)
        viewer.close()
        assert "(closed)" in repr(viewer).splitlines()[0]


def test_sessions_and_viewers_cannot_be_pickled_and_plans_can(plan: Plan, session: Session) -> None:
    viewer = Viewer(convolution_model(), np.ones(SHAPE, "float32"))
    for use, made in (
        (pickle.dumps, viewer),
        *((use, session) for use in (pickle.dumps, copy.copy, copy.deepcopy)),
    ):
        with pytest.raises(TypeError, match=r"cannot be pickled or copied.* Plan"):
            use(made)
    viewer.close()
    again = pickle.loads(pickle.dumps(plan))
    x = randn(*SHAPE)
    with Session(again) as other:
        assert_equal(other.run(x)["y"], session.run(x)["y"])


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("count", [0, 1, 3, 4, 9])
def test_a_batch_of_any_size_runs_in_pieces(batch: int, count: int) -> None:
    model = model_of(
        [
            node("Conv", ["x", "w"], ["a"], kernel_shape=[3, 3]),
            node("Relu", ["a"], ["r"]),
            node("ReduceMean", ["r"], ["y"], axes=[2, 3], keepdims=0),
        ],
        {"x": (batch, 4, 6, 5)},
        ["y"],
        constants={"w": randn(5, 4, 3, 3)},
        opset=17,
    )
    x = randn(count, 4, 6, 5)
    with Session(nbglcnn.compile(model)) as session:
        found = session.run(x)
        apart = [session.run(np.repeat(one[None], batch, 0)) for one in x]
    assert {key: len(value) for key, value in found.items()} == dict.fromkeys("xary", count)
    for key, value in found.items():
        expected = [one[key][0] for one in apart]
        np.testing.assert_array_equal(value, np.reshape(expected, value.shape))


def test_inputs_without_examples_go_with_each_piece() -> None:
    x, bias = randn(7, 3, 5), randn(5)
    with Session(nbglcnn.compile(products_model(2))) as session:
        gain = randn(7, 1, 1)
        found = session.run(x, gain, bias)["y"]
    np.testing.assert_allclose(found, x * gain + bias, rtol=1e-6)
    with Session(nbglcnn.compile(products_model(1))) as session:
        one = randn(1, 1, 1)  # compiled for one example; a single one broadcasts
        found = session.run(x, one, bias)["y"]
    np.testing.assert_allclose(found, x * one + bias, rtol=1e-6)


def products_model(batch: int) -> onnx.ModelProto:
    nodes = [node("Mul", ["x", "gain"], ["scaled"]), node("Add", ["scaled", "bias"], ["y"])]
    shapes = {"x": (batch, 3, 5), "gain": (batch, 1, 1), "bias": (5,)}
    return model_of(nodes, shapes, ["y"])


def test_pieces_that_cannot_be_are_refused_before_anything_runs() -> None:
    x, gain, bias = randn(6, 3, 5), randn(6, 1, 1), randn(5)
    with Session(nbglcnn.compile(products_model(2))) as session:
        with pytest.raises(InputError, match="different numbers of examples: 6 for 'x', 5 for"):
            session.run(x, gain[:5], bias)
        session.run(x[:2], gain[:2], bias)
        with pytest.raises(InputError, match="'gain' has 2 examples from an earlier run"):
            session.run(x)
        with pytest.raises(InputError, match=r"shape \(6, 3, 4\) was given; expected \(2, 3, 5\)"):
            session.run(x[..., :4], gain, bias)
    total = model_of([node("ReduceSum", ["x"], ["total"], keepdims=0)], {"x": (1, 3)}, ["total"])
    words = r"'total' computes across the batch, or depends on its size: compile"
    with Session(nbglcnn.compile(total)) as session, pytest.raises(InputError, match=words):
        session.run(randn(4, 3))


@pytest.mark.parametrize("op", ["Gather", "GatherND", "GatherElements"])
def test_an_index_outside_of_its_axis_gives_nan(op: str) -> None:
    shape = {"Gather": (3,), "GatherND": (3, 1), "GatherElements": (3, 2)}[op]
    nodes = [node("Cast", ["f"], ["i"], to=7), node(op, ["x", "i"], ["y"])]
    model = model_of(nodes, {"x": (4, 2), "f": shape}, ["y"])
    x, rows = randn(4, 2), np.float32([1, 4, -4])
    indices = np.broadcast_to(rows.reshape(-1, *[1] * (len(shape) - 1)), shape)
    with Session(nbglcnn.compile(model)) as session:
        found = session.run(x, indices)["y"]
        later = session.run(x, np.zeros(shape, np.float32))["y"]
    np.testing.assert_array_equal(found, np.stack([x[1], np.full(2, np.nan), x[0]]))
    np.testing.assert_array_equal(later, np.stack([x[0]] * 3))
