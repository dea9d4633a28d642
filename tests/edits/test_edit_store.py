"""The edits of one network: undo steps, limits on their number, arrays in use."""

import time
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
from torch import nn

import nbglcnn
from nbglcnn import InputError, transforms
from nbglcnn.features.edits import records
from nbglcnn.features.edits.records import MAX_EDITS, Edit, validate_edits
from nbglcnn.features.edits.store import COALESCE_S, MAX_UNDO_STEPS, EditSnapshot, EditStore
from nbglcnn.features.edits.transforms import MAX_PARAMETERS, TRANSFORM_KINDS
from nbglcnn.plan.schema import Plan, content_hash


@pytest.fixture(scope="module")
def plan() -> Plan:
    """Two layers of 3 and 4 channels, for a batch of 2."""
    model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.Conv2d(3, 4, 1)).eval()
    return nbglcnn.compile(model, np.zeros((2, 1, 6, 7), np.float32))


@pytest.fixture
def advance_clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """advance_clock(s): advance the mocked clock by s seconds."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def later(seconds: float) -> None:
        now[0] += seconds

    return later


def make_store(plan: Plan, applied: list[EditSnapshot] | None = None) -> EditStore:
    """A store without a device; `applied` collects the applied snapshots."""
    apply: Callable[[EditSnapshot], Any] = (applied if applied is not None else []).append
    return EditStore(lambda: plan, apply, lambda _: np.zeros((2, 3, 4, 5), np.float32))


def make_edit(name: str, **fields: Any) -> Edit:
    """Return a bend of the first layer."""
    usual = {"layer": "0", "name": name, "transform": "multiply", "parameters": (2.0,)}
    return Edit(**usual | fields)


def store_after_steps(store: EditStore, change_count: int) -> EditStore:
    """Make this number of changes: after change k the only edit is named k."""
    for k in range(1, change_count + 1):
        store.set_edits([make_edit(str(k))])
    return store


def current_edit_names(store: EditStore) -> list[str]:
    """The names of the current edits."""
    return [one.name for one in store.edits]


def test_fifty_steps_can_be_undone_down_to_the_beginning(plan: Plan) -> None:
    store = store_after_steps(make_store(plan), MAX_UNDO_STEPS)
    assert len(store.undo_stack) == MAX_UNDO_STEPS == 50
    assert all(store.undo() for _ in range(MAX_UNDO_STEPS))
    assert current_edit_names(store) == [] and not store.undo()
    assert len(store.redo_stack) == MAX_UNDO_STEPS
    assert all(store.redo() for _ in range(MAX_UNDO_STEPS)) and not store.redo()
    assert current_edit_names(store) == ["50"]


def test_beyond_fifty_the_oldest_steps_go(plan: Plan) -> None:
    store = store_after_steps(make_store(plan), MAX_UNDO_STEPS + 2)
    assert len(store.undo_stack) == MAX_UNDO_STEPS
    store.undo()
    assert current_edit_names(store) == ["51"]
    while store.undo():
        pass
    assert current_edit_names(store) == ["2"]


def test_of_a_pages_steps_the_last_fifty_are_kept(plan: Plan) -> None:
    store = make_store(plan)
    states = [EditSnapshot((make_edit(str(k)),)) for k in range(MAX_UNDO_STEPS + 1)]
    store.restore(EditSnapshot(), states, states)
    assert store.undo_stack == states[1:] and store.redo_stack == states[1:]
    store.restore(EditSnapshot((make_edit("other"),)), None, None)
    assert store.undo_stack == states[1:] and current_edit_names(store) == ["other"]


def test_changes_of_one_number_within_a_second_are_one_step(
    plan: Plan, advance_clock: Callable[[float], None]
) -> None:
    store = make_store(plan)
    lengths = []
    for seconds, step in (
        (0, "a"),
        (0.99, "a"),
        (0.99, "a"),
        (COALESCE_S, "a"),
        (0.5, "b"),
        (0, ""),
    ):
        advance_clock(seconds)
        store.set_edits([make_edit("one", parameters=(float(len(lengths)),))], step)
        lengths.append(len(store.undo_stack))
    assert lengths == [1, 1, 1, 2, 3, 4]
    advance_clock(0)
    store.set_edits([make_edit("one", parameters=(9.0,))])
    assert len(store.undo_stack) == 5, "without a name each is one"


def test_a_change_behind_an_undo_is_a_step_of_its_own(
    plan: Plan, advance_clock: Callable[[float], None]
) -> None:
    store = make_store(plan)
    store.set_edits([make_edit("a")], "drag")
    store.set_edits([make_edit("b")], "drag")
    store.undo()
    assert current_edit_names(store) == []
    store.set_edits([make_edit("c")], "drag")
    assert (len(store.undo_stack), store.redo_stack) == (1, [])
    store.set_edits([make_edit("c")], "another")
    assert len(store.undo_stack) == 1, "the same edits are no step"


def test_what_cannot_be_applied_changes_nothing(plan: Plan) -> None:
    def refuse(state: EditSnapshot) -> None:
        if any(one.name == "bad" for one in state.edits):
            raise InputError("no")

    store = EditStore(lambda: plan, refuse, lambda _: np.zeros(1))
    heard: list[int] = []
    store.listeners.append(lambda: heard.append(len(store.undo_stack)))
    store.set_edits([make_edit("a")])
    with pytest.raises(InputError):
        store.set_edits([make_edit("bad")])
    assert (current_edit_names(store), len(store.undo_stack), heard) == (["a"], 1, [1])


def test_other_weights_take_the_steps_of_weights_away(plan: Plan) -> None:
    store = make_store(plan)
    store.set_weight_edit_count(1)
    store.set_edits([make_edit("a")])
    store.set_weight_edit_count(2)
    store.set_weight_edit_count(3)
    store.undo()
    store.clear_weight_edits()
    assert (store.current, store.redo_stack) == (EditSnapshot((make_edit("a"),)), [])
    assert store.undo_stack == [EditSnapshot()]


def test_steps_keep_what_fits_another_plan(plan: Plan) -> None:
    plans = [plan]
    store = EditStore(lambda: plans[0], lambda _: None, lambda _: np.zeros(1))
    store.set_edits([make_edit("a"), make_edit("b", layer="1", channels=(3,))])
    store.set_edits([make_edit("a"), make_edit("b", layer="1", channels=(2,))])
    small = nn.Sequential(nn.Conv2d(1, 3, 3), nn.Conv2d(3, 3, 1)).eval()
    plans[0] = nbglcnn.compile(small, np.zeros((2, 1, 6, 7), np.float32))
    assert store.reapply() == []
    assert current_edit_names(store) == ["a", "b"]
    assert [[one.name for one in state.edits] for state in store.undo_stack] == [[], ["a"]]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8, np.int64, np.bool_])
def test_an_array_of_any_numbers_is_injected_as_float32(plan: Plan, dtype: Any) -> None:
    store = make_store(plan)
    array = (np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5) % 7).astype(dtype)
    name = store.add_injection("0", array).array_hash
    found = store.arrays[name]
    assert found.dtype == np.float32 and found.flags.c_contiguous
    np.testing.assert_array_equal(found, array.astype(np.float32))
    assert name == content_hash(found.data.cast("B"))


def test_one_example_is_injected_into_all(plan: Plan) -> None:
    store = make_store(plan)
    one = np.random.default_rng(0).random((3, 4, 5)).astype(np.float32)
    for given in (one, one[None], np.stack([one, one])):
        array = store.arrays[store.add_injection("0", given).array_hash]
        np.testing.assert_array_equal(array, np.stack([one, one]))
    some = store.arrays[store.add_injection("0", one[:1], [2]).array_hash]
    assert some.shape == (2, 1, 4, 5)
    for wrong in (one[:2], one[..., :4], np.stack([one] * 3), np.array("a")):
        with pytest.raises(InputError, match="inject into 0"):
            store.add_injection("0", wrong)


def test_an_array_stays_as_long_as_a_step_needs_it(plan: Plan) -> None:
    store = make_store(plan)
    one = np.ones((2, 3, 4, 5), np.float32)
    first = store.add_injection("0", one).array_hash
    second = store.add_injection("0", one * 2).array_hash  # the last one wins
    assert [one.array_hash for one in store.edits] == [second]
    assert store.prune_unused_arrays().keys() == {first, second}
    same = store.add_injection("1", np.ones((2, 4, 4, 5), np.float32)).array_hash
    store.remove_injection("0")
    assert store.prune_unused_arrays().keys() == {first, second, same}
    for k in range(MAX_UNDO_STEPS - 1):
        store.set_edits([make_edit(f"step {k}")])
    assert store.prune_unused_arrays().keys() == {second, same}, (
        "only the first is in no step any more"
    )
    for k in range(3):
        store.set_edits([make_edit(f"more {k}")])
    assert not store.prune_unused_arrays()


def test_a_batchs_arrays_become_those_of_its_first_example(plan: Plan) -> None:
    plans = [plan]
    store = EditStore(lambda: plans[0], lambda _: None, lambda _: np.zeros(1))
    array = np.random.default_rng(1).random((2, 3, 4, 5)).astype(np.float32)
    store.add_injection("0", array)
    store.set_edits([*store.edits, make_edit("a")])
    model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.Conv2d(3, 4, 1)).eval()
    plans[0] = nbglcnn.compile(model, np.zeros((1, 1, 6, 7), np.float32))
    store.reduce_to_one_example(2)
    assert store.reapply() == []
    assert current_edit_names(store) == ["inject", "a"]
    [found] = store.arrays.values()
    np.testing.assert_array_equal(found, array[:1])
    store.undo()
    assert current_edit_names(store) == ["inject"]


def test_an_injection_that_was_undone_can_be_redone_for_the_first_example(plan: Plan) -> None:
    plans = [plan]
    store = EditStore(lambda: plans[0], lambda _: None, lambda _: np.zeros(1))
    array = np.random.default_rng(1).random((2, 3, 4, 5)).astype(np.float32)
    store.add_injection("0", array)
    store.undo()
    model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.Conv2d(3, 4, 1)).eval()
    plans[0] = nbglcnn.compile(model, np.zeros((1, 1, 6, 7), np.float32))
    store.reduce_to_one_example(2)
    assert store.reapply() == []
    assert store.redo()
    [edit] = store.edits
    np.testing.assert_array_equal(store.prune_unused_arrays()[edit.array_hash], array[:1])


def test_a_thousand_edits_are_possible_and_no_more(plan: Plan) -> None:
    many = [make_edit(str(k)) for k in range(MAX_EDITS)]
    assert len(validate_edits(many, plan)) == MAX_EDITS == 1000
    with pytest.raises(InputError, match="1001 edits; at most 1000"):
        validate_edits([*many, make_edit("more")], plan)


@pytest.mark.parametrize(
    ("transform", "position", "parameter"),
    [
        (name, position, parameter)
        for name, kind in TRANSFORM_KINDS.items()
        for position, parameter in enumerate(kind.parameters)
    ],
    ids=lambda one: getattr(one, "name", one),
)
def test_a_parameter_is_taken_at_its_bounds_and_not_beyond(
    plan: Plan, transform: str, position: int, parameter: Any
) -> None:
    model = nn.Identity()
    coloured = nbglcnn.compile(model, np.zeros((1, 3, 6, 7), np.float32))
    usual = [float(one.default) for one in TRANSFORM_KINDS[transform].parameters]

    def bent(number: float) -> tuple[Edit, ...]:
        numbers = [*usual[:position], number, *usual[position + 1 :]]
        one = make_edit("a", layer="output", transform=transform, parameters=tuple(numbers))
        return validate_edits([move_to_input(one, coloured)], coloured)

    step = 1.0 if parameter.integer else 2.0**-10
    if parameter.least is None:
        bent(-1e6 if not parameter.integer else -(10**6))
    elif parameter.above:
        bent(parameter.least + step)
        with pytest.raises(InputError, match=f"a number > {parameter.least}"):
            bent(parameter.least)
    else:
        bent(parameter.least)
        with pytest.raises(InputError, match=f"a number ≥ {parameter.least}"):
            bent(parameter.least - step)
    if parameter.most is None:
        bent(10**6)
    else:
        bent(parameter.most)
        with pytest.raises(InputError, match=f"a number ≤ {parameter.most}"):
            bent(parameter.most + step)
    if parameter.integer:
        with pytest.raises(InputError, match="an integer"):
            bent(usual[position] + 0.5)
    for wrong in (float("nan"), float("inf")):
        with pytest.raises(InputError, match="finite"):
            bent(wrong)


def move_to_input(edit: Edit, plan: Plan) -> Edit:
    """Return the same edit, on the network's input."""
    return msgspec.structs.replace(edit, layer=plan.header.inputs[0].key)


def test_mix_channels_and_parameters_are_taken_within_their_bounds(plan: Plan) -> None:
    for mix in (0, 1, 0.5):
        validate_edits([make_edit("a", mix=mix)], plan)
    for mix in (-1e-6, 1 + 1e-6, float("nan")):
        with pytest.raises(InputError, match="mix"):
            validate_edits([make_edit("a", mix=mix)], plan)
    validate_edits([make_edit("a", channels=(0, 2))], plan)
    for channels in ((3,), (-1,), (True,)):
        with pytest.raises(InputError, match="0"):
            validate_edits([make_edit("a", channels=channels)], plan)
    assert records.validate_channels([2, 0, 2], plan.values[1]) == (0, 2)
    with pytest.raises(InputError, match="takes 1 parameters, not 2"):
        validate_edits([make_edit("a", parameters=(1.0, 2.0))], plan)
    with pytest.raises(InputError, match="already"):
        validate_edits([make_edit("a"), make_edit("a")], plan)


def test_a_text_of_ones_own_has_at_most_eight_parameters_of_at_most_31_letters() -> None:
    names = {f"p{k}": 1.0 for k in range(MAX_PARAMETERS)}
    assert transforms.glsl("y = x * p0;", **names).parameters == names
    with pytest.raises(InputError, match="at most 8 parameters, not 9"):
        transforms.glsl("y = x * p0;", **names, more=1.0)
    transforms.glsl("y = x;", **{"a" * 31: 1.0})
    with pytest.raises(InputError, match="not a valid parameter name"):
        transforms.glsl("y = x;", **{"a" * 32: 1.0})


def test_a_bends_name_has_1_to_100_letters_and_is_free(plan: Plan) -> None:
    store = make_store(plan)
    assert store.add_bend("0", transforms.invert(), name="a" * 100).name == "a" * 100
    for name in ("", "a" * 101):
        with pytest.raises(InputError, match="1 to 100 characters"):
            store.add_bend("0", transforms.invert(), name=name)
    names = [store.add_bend("0", transforms.invert()).name for _ in range(3)]
    assert names == ["invert", "invert-2", "invert-3"]
    with pytest.raises(InputError, match="already"):
        store.add_bend("0", transforms.invert(), name="invert-2")
