"""A Session's profile of its layers, and its choice of EGL device."""

import threading
import time
from collections.abc import Callable

import numpy as np
import pytest
import torch
from msgspec.structs import replace
from torch import nn

import nbglcnn
from assertions import assert_equal
from nbglcnn import DeviceError, InputError, Plan, Session
from nbglcnn.lowering.lower import lower
from nbglcnn.plan.schema import Pass
from nbglcnn.runtime import device, profiling
from recurrent import (
    INITIAL_STATE,
    INPUTS,
    cross_section_graph,
    cross_section_values,
    leaky_integrator,
    numpy_step,
)

X = np.random.default_rng(0).standard_normal((2, 3, 64, 64)).astype(np.float32)


@pytest.fixture(scope="module")
def model() -> nn.Sequential:
    """Layers of little, much and no work."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 24, 3, padding=1), nn.ReLU(), nn.Conv2d(24, 48, 5, padding=2),
        nn.Identity(), nn.Conv2d(48, 2, 1),
    ).eval()  # fmt: skip


@pytest.fixture(scope="module")
def plan(model: nn.Sequential) -> Plan:
    return nbglcnn.compile(model, X)


def test_each_layer_has_its_time_and_its_share(plan: Plan) -> None:
    with Session(plan) as session:
        session.run(X)
        found = session.profile()
        assert found.renderer == session.renderer
    assert [row.layer for row in found.rows] == [layer.name for layer in plan.layers]
    assert sum(row.share for row in found.rows) == pytest.approx(1)
    assert found.slowest is not None and found.slowest.layer == "2"
    times = {row.layer: row.ms for row in found.rows}
    assert times["2"] > 3 * times["1"] > 0
    assert times["3"] == 0 and found.rows[3].passes == 0
    # On a quiet machine a full run takes about as long as the layers' sum.
    assert 0.2 * found.ms < sum(times.values()) < 5 * found.ms


def test_a_layer_that_is_computed_in_anothers_pass_has_no_time_of_its_own(
    model: nn.Sequential,
) -> None:
    fused = nbglcnn.compile(model, X, observe="outputs")
    with Session(fused) as session:
        session.run(X)
        found = session.profile()
    assert sum(row.passes for row in found.rows) == len(fused.header.passes)
    assert {row.layer for row in found.rows if row.passes == 0} >= {"1", "3"}


def test_a_profile_is_printed_as_a_table_that_names_its_clock(plan: Plan) -> None:
    with Session(plan) as session:
        session.run(X)
        found = session.profile()
    lines = str(found).splitlines()
    assert lines[0].split() == ["layer", "type", "ms", "share"]
    assert len(lines) == 1 + len(plan.layers) + 1
    clock = (
        "the wall clock"
        if device.SOFTWARE_RENDERERS.search(found.renderer)
        else "the GPU's own timer"
    )
    assert f"per run on {found.renderer}, by {clock}" in lines[-1]
    assert lines[-1] in found._repr_html_()


def test_a_profile_leaves_the_values_of_a_run(plan: Plan) -> None:
    with Session(plan) as session:
        before = session.run(X)
        session.profile()
        for key, value in before.items():
            np.testing.assert_array_equal(session.read(key), value, err_msg=key)
    with Session(
        lower(cross_section_graph(), observe="outputs")
    ) as session:  # whose layers share textures
        session.run(INPUTS[0])
        session.profile()
        assert_equal(session.read("y"), cross_section_values(INPUTS[0]))


def test_passes_that_are_measured_in_another_order_leave_the_values_of_a_run() -> None:
    """Last layer's pass is measured in the middle; other passes overwrite the texture it reads."""
    torch.manual_seed(0)
    chain = nn.Sequential(*(nn.Conv2d(4, 4, 3, padding=1) for _ in range(5))).eval()
    x = X[:, :1].repeat(4, 1)
    plan = nbglcnn.compile(chain, x, observe="outputs")
    steps = zip(plan.header.passes, (0, 1, 3, 4, 2), strict=True)
    passes = tuple(replace(step, layer=layer) for step, layer in steps)
    assert len({step.output for step in passes}) < 4
    with Session(Plan(replace(plan.header, passes=passes), plan.uniforms, plan.blobs)) as session:
        expected = session.run(x)["output"]
        session.profile()
        np.testing.assert_array_equal(session.read("output"), expected)


def test_a_profile_is_no_step_of_a_state() -> None:
    with Session(lower(leaky_integrator(), observe="outputs")) as session:
        session.run(INPUTS[0])
        session.profile()
        session.commit()
        s = numpy_step(INPUTS[0], INITIAL_STATE)["next"]
        session.profile()
        session.commit()  # no effect: the profile's step is void
        assert_equal(session.run(INPUTS[1])["y"], numpy_step(INPUTS[1], s)["y"])


def test_a_profile_needs_an_input(plan: Plan) -> None:
    with Session(plan) as session, pytest.raises(InputError, match="'input' has no value yet"):
        session.profile()


class _FakeClock:
    """A clock of 1 ms per pass; the first and last of a layer's three tries are disturbed."""

    name: profiling.ClockName = "GPU timer"

    def __init__(self, drawn: list[Pass]) -> None:
        self._drawn = drawn
        self._calls = 0

    def measure_ms(self, work: Callable[[], None]) -> float:
        before = len(self._drawn)
        work()
        self._calls += 1
        disturbed = 50.0 if self._calls % 5 in (3, 0) else 0.0
        return (len(self._drawn) - before) * 1.0 + disturbed


def test_the_shortest_of_several_times_counts(plan: Plan) -> None:
    drawn: list[Pass] = []
    found = profiling.profile_layers(plan.header, drawn.append, _FakeClock(drawn), "a card")
    assert found.ms == len(plan.header.passes)
    assert [row.ms for row in found.rows] == [1, 1, 1, 0, 1]
    assert str(found).endswith(
        "4.000 ms per run on a card, by the GPU's own timer; 0 takes most, 25 %"
    )


def test_the_devices_timer_measures_what_is_drawn(plan: Plan) -> None:
    """If there is a timer; on the CPU nothing uses it, but it must not fail."""
    with Session(plan) as session:
        session.run(X)
        own = session._device

        def work() -> tuple[float, float]:
            timer, start = device._GpuTimer(own.context), time.perf_counter()
            ms = timer.measure_ms(lambda: session._run_sections([0]))
            return ms, (time.perf_counter() - start) * 1000

        ms, wall = own.run_on_thread(work)
    assert 0 <= ms <= wall


def test_while_it_is_measured_other_threads_get_their_own_numbers(plan: Plan) -> None:
    inputs = [X, -X, 2 * X]
    with Session(plan) as session:
        expected = [session.run(x)["output"] for x in inputs]
        found: list[np.ndarray] = [X] * len(inputs)
        profiles: list[profiling.Profile] = []

        def run(number: int) -> None:
            for _ in range(3):
                found[number] = session.run(inputs[number])["output"]

        threads = [threading.Thread(target=run, args=(k,)) for k in range(len(inputs))]
        threads.append(threading.Thread(target=lambda: profiles.append(session.profile())))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(100)
            assert not thread.is_alive()
    for value, right in zip(found, expected, strict=True):
        np.testing.assert_array_equal(value, right)
    assert len(profiles) == 1 and profiles[0].ms > 0


def test_a_session_is_made_used_and_closed_by_different_threads(plan: Plan) -> None:
    """As with a notebook's main thread, its callbacks and its garbage collector."""
    made: list[Session] = []
    values: list[np.ndarray] = []
    for work in (
        lambda: made.append(Session(plan)),
        lambda: values.append(made[0].run(X)["output"]),
        lambda: values.append(made[0].read("output")),
        lambda: made[0].close(),
    ):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join(100)
    np.testing.assert_array_equal(*values)
    assert "closed" in repr(made[0])


def test_the_first_device_is_the_one_that_is_taken_by_default(plan: Plan) -> None:
    with Session(plan, device=0) as one, Session(plan) as other:
        assert one._device is other._device
        np.testing.assert_array_equal(one.run(X)["output"], other.run(X)["output"])


def test_a_device_that_is_not_there_is_named_with_how_many_there_are(plan: Plan) -> None:
    count = device.device_count()
    assert count is not None and count >= 1
    has = "has 1 device, device 0" if count == 1 else f"has {count} devices, counted from 0"
    for number in (count, count + 100, -1):
        with pytest.raises(DeviceError, match=f"no OpenGL device {number}: EGL {has}"):
            Session(plan, device=number)
    for wrong in (True, "0", 0.0):
        with pytest.raises(InputError, match="expected a device index"):
            Session(plan, device=wrong)  # type: ignore[arg-type]


def test_the_environments_device_is_checked_and_gives_way_to_the_argument(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(device.DEVICE_INDEX_VARIABLE, "1000")
    with pytest.raises(DeviceError, match="no OpenGL device 1000: EGL has"):
        Session(plan)
    monkeypatch.setattr(device, "_devices", {})  # so that it is opened again
    with Session(plan, device=0) as session:
        assert session.run(X)["output"].shape == (2, 2, 64, 64)
    assert device.os.environ[device.DEVICE_INDEX_VARIABLE] == "1000"
