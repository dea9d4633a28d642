"""Sections and carries in the page: both renderers step as numpy does; a run commits no step."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from playwright.sync_api import Error, Page

from assertions import assert_equal
from engine_page import EnginePage
from nbglcnn.lowering.lower import lower
from recurrent import INITIAL_STATE, INPUTS, SHAPE, leaky_integrator, numpy_step
from webgl_page import ONE_RENDERER, GlPage

LOSE_CONTEXT_SCRIPT = """async () => {
  const lose = gl.lose();
  lose.loseContext();
  await new Promise((resolve) => setTimeout(resolve, 20));
  lose.restoreContext();
}"""
PROFILE_SECTIONS_SCRIPT = """async (k) => {
  const found = [];
  const told = (layer, { passes }) => found.push([layer, passes]);
  await gl.the(k).profile(told, new AbortController().signal);
  return found;
}"""
VALUE_KEYS = ("scaled", "next", "squashed", "y")


@pytest.fixture
def gl(
    gl_page: Callable[..., Page], static_site: tuple[str, dict[str, bytes]], backend: str
) -> GlPage:
    return GlPage(gl_page(backend, allow="CONTEXT_LOST_WEBGL|context lost"), static_site[1])


def read_values(gl: GlPage, session: int) -> dict[str, np.ndarray]:
    return {key: gl.read(session, key) for key in VALUE_KEYS}


@ONE_RENDERER
@pytest.mark.parametrize("committed", [False, True])
def test_what_runs_again_changes_nothing(gl: GlPage, committed: bool) -> None:
    """Repeated runs, sections, timing, profiles, reads change nothing, also before a commit."""
    session = gl.open(lower(leaky_integrator()))
    gl.write(session, "x", INPUTS[0])
    gl.run(session)
    gl.commit(session)
    gl.write(session, "x", INPUTS[1])
    gl.run(session)
    once = read_values(gl, session)
    s = numpy_step(INPUTS[0], INITIAL_STATE)["next"]
    assert_equal(once["y"], numpy_step(INPUTS[1], s)["y"])
    if committed:
        gl.commit(session)
    else:
        for section in (None, "forward", "post", "forward"):
            gl.run(session, section)
    for ask in (
        lambda: gl.page.evaluate("k => gl.the(k).measureRun(1e4)", session),
        lambda: gl.page.evaluate(PROFILE_SECTIONS_SCRIPT, session),
        lambda: gl.statistics(session, "y"),
    ):
        ask()
        for key, value in read_values(gl, session).items():
            np.testing.assert_array_equal(value, once[key], err_msg=key)
    state = once["next"] if committed else s
    assert_equal(gl.read(session, "s"), state)
    gl.write(session, "x", INPUTS[2])
    assert_equal(gl.read(session, "y"), numpy_step(INPUTS[2], state)["y"])


@ONE_RENDERER
def test_a_profile_leaves_what_a_commit_takes(gl: GlPage) -> None:
    """The profile runs layers' passes alone, over textures that hold other values by then."""
    session = gl.open(lower(leaky_integrator(), observe="outputs"))
    gl.write(session, "x", INPUTS[0])
    gl.run(session)
    gl.page.evaluate(PROFILE_SECTIONS_SCRIPT, session)
    gl.commit(session)
    gl.page.evaluate(PROFILE_SECTIONS_SCRIPT, session)
    gl.write(session, "x", INPUTS[1])
    s = numpy_step(INPUTS[0], INITIAL_STATE)["next"]
    assert_equal(gl.read(session, "y"), numpy_step(INPUTS[1], s)["y"])


@ONE_RENDERER
def test_a_section_runs_alone_and_what_it_follows_from_when_that_is_old(gl: GlPage) -> None:
    session = gl.open(lower(leaky_integrator()))
    gl.write(session, "x", INPUTS[0])
    assert gl.run(session, "forward")["sections"] == ["forward"]
    found = gl.run(session, "post")
    assert (found["sections"], found["passes"]) == (["post"], 2)
    gl.write(session, "x", INPUTS[1])
    assert gl.run(session, "post")["sections"] == ["forward", "post"]
    assert_equal(gl.read(session, "y"), numpy_step(INPUTS[1], INITIAL_STATE)["y"])
    with pytest.raises(Error, match='no section "train"; this Plan has "forward" and "post"'):
        gl.run(session, "train")


@ONE_RENDERER
def test_a_value_of_an_old_section_is_computed_when_it_is_read(gl: GlPage) -> None:
    session = gl.open(lower(leaky_integrator()))
    gl.write(session, "x", INPUTS[0])
    gl.run(session, "forward")
    assert_equal(gl.read(session, "y"), numpy_step(INPUTS[0], INITIAL_STATE)["y"])
    gl.commit(session)
    gl.run(session, "forward")  # only the state differs
    twice = numpy_step(INPUTS[0], numpy_step(INPUTS[0], INITIAL_STATE)["next"])
    assert_equal(gl.read(session, "y"), twice["y"])


@ONE_RENDERER
def test_a_run_behind_a_commit_is_a_step_of_its_own(gl: GlPage) -> None:
    session = gl.open(lower(leaky_integrator()))
    gl.write(session, "x", INPUTS[0])
    gl.page.evaluate(
        """async (k) => {
          const session = gl.the(k);
          await session.run();
          const shared = [session.run(), session.run()];
          session.commit();
          await Promise.all([...shared, session.run(), session.run()]);
        }""",
        session,
    )
    twice = numpy_step(INPUTS[0], numpy_step(INPUTS[0], INITIAL_STATE)["next"])
    assert_equal(gl.read(session, "next"), twice["next"])


@ONE_RENDERER
def test_a_step_that_a_profile_joins_stays_a_step(gl: GlPage) -> None:
    session = gl.open(lower(leaky_integrator()))
    gl.write(session, "x", INPUTS[0])
    gl.page.evaluate(
        """async (k) => {
          const session = gl.the(k);
          await session.run();
          const flight = session.run({ section: "forward" });
          session.commit();
          const step = session.run({ section: "forward" });
          const profile = session.profile(() => undefined, new AbortController().signal);
          await Promise.all([flight, step, profile]);
        }""",
        session,
    )
    twice = numpy_step(INPUTS[0], numpy_step(INPUTS[0], INITIAL_STATE)["next"])
    assert_equal(gl.read(session, "next"), twice["next"])


@ONE_RENDERER
def test_a_profile_draws_nothing_once_its_session_is_closed(gl: GlPage) -> None:
    session = gl.open(lower(leaky_integrator()))
    gl.write(session, "x", INPUTS[0])
    gl.run(session)
    ended, error = gl.page.evaluate(
        """async (k) => {
          const session = gl.the(k);
          const close = () => setTimeout(() => session.dispose(), 20); // while a layer is timed
          const profile = session.profile(close, new AbortController().signal);
          const ended = await profile.then(() => "to its end", (error) => error.message);
          return [ended, gl.opened().gl.getError()];
        }""",
        session,
    )
    assert ended == "this session was closed"
    assert error == 0  # else the next session's memory check would find it


@pytest.mark.parametrize("waits", [False, True])
def test_a_lost_context_restores_the_initial_contents(gl: GlPage, waits: bool) -> None:
    session = gl.open(lower(leaky_integrator()))
    for x in INPUTS[:2]:
        gl.write(session, "x", x)
        gl.run(session)
        gl.commit(session)
    if not waits:
        gl.run(session)
    gl.page.evaluate(LOSE_CONTEXT_SCRIPT)
    gl.page.wait_for_function("() => gl.events.length === 2")
    anew = numpy_step(INPUTS[1], INITIAL_STATE)
    assert_equal(gl.read(session, "y"), anew["y"])
    assert_equal(gl.read(session, "s"), INITIAL_STATE)
    gl.commit(session)  # a rebuilt state is no step
    assert_equal(gl.read(session, "s"), INITIAL_STATE)
    gl.run(session)
    gl.commit(session)
    gl.write(session, "x", INPUTS[2])
    assert_equal(gl.read(session, "y"), numpy_step(INPUTS[2], anew["next"])["y"])


@ONE_RENDERER
def test_two_sessions_of_one_plan_have_states_of_their_own(gl: GlPage) -> None:
    plan = lower(leaky_integrator())
    one, other = gl.open(plan), gl.open(plan)
    for session in (one, other):
        gl.write(session, "x", INPUTS[0])
        gl.run(session)
    gl.commit(one)
    gl.run(one)
    gl.run(other)
    once = numpy_step(INPUTS[0], INITIAL_STATE)["next"]
    assert_equal(gl.read(other, "next"), once)
    assert_equal(gl.read(one, "next"), numpy_step(INPUTS[0], once)["next"])
    third = gl.open(plan)
    gl.write(third, "x", INPUTS[1])
    assert_equal(gl.read(third, "s"), INITIAL_STATE)
    # A network whose weights equal the initial state does not get the stepped state either.
    graph = leaky_integrator()
    values = {name: value for name, value in graph.values.items() if name != "s"}
    scaled = replace(graph.nodes[0], inputs=("s.initial", "decay"))
    nodes = (scaled, *graph.nodes[1:])
    constant = lower(replace(graph, nodes=nodes, values=values, carries=()))
    [initial] = [w.hash for w in plan.header.weights if w.texture == plan.header.carries[0].target]
    assert initial in {w.hash for w in constant.header.weights}
    fourth = gl.open(constant)
    gl.write(fourth, "x", INPUTS[1])
    gl.run(fourth)
    assert_equal(gl.read(fourth, "y"), numpy_step(INPUTS[1], INITIAL_STATE)["y"])


@ONE_RENDERER
def test_new_initial_contents_begin_the_state_anew(gl: GlPage) -> None:
    plan = lower(leaky_integrator())
    session = gl.open(plan)
    gl.write(session, "x", INPUTS[0])
    gl.run(session)
    [carry] = plan.header.carries
    [name] = [weight.hash for weight in plan.header.weights if weight.texture == carry.target]
    gl.set_weight(session, carry.target, -plan.blobs[name])
    gl.commit(session)  # no effect: the state was computed from replaced contents
    assert_equal(gl.read(session, "next"), numpy_step(INPUTS[0], -INITIAL_STATE)["next"])
    assert_equal(gl.read(session, "s"), -INITIAL_STATE)


@ONE_RENDERER
def test_an_engine_runs_sections_and_commits(gl_page: Callable[..., Page], backend: str) -> None:
    engine = EnginePage(gl_page(backend, allow="CONTEXT_LOST_WEBGL|context lost"))
    plan = lower(leaky_integrator())
    s = INITIAL_STATE
    for x in INPUTS[:3]:
        engine.show(plan, x)
        expected = numpy_step(x, s)
        assert_equal(engine.read("y").reshape(SHAPE), expected["y"])
        engine.page.evaluate("() => page.engine.commit()")
        s = expected["next"]
    content = engine.add_content(plan, INPUTS[3])
    engine.page.evaluate("a => page.engine.show(a, { section: 'forward' })", content)
    run = engine.page.evaluate("() => page.engine.signals.run.value")
    assert run["sections"] == ["forward"]
    assert_equal(engine.read("next").reshape(SHAPE), numpy_step(INPUTS[3], s)["next"])
    engine.page.evaluate("a => page.engine.show(a)", content)
    run = engine.page.evaluate("() => page.engine.signals.run.value")
    assert run["sections"] == ["forward", "post"]
    assert_equal(engine.read("y").reshape(SHAPE), numpy_step(INPUTS[3], s)["y"])
    with pytest.raises(Error, match='no section "train"'):
        engine.page.evaluate("a => page.engine.show(a, { section: 'train' })", content)
    assert engine.page.evaluate("() => page.engine.signals.isRunning.value") is False
    engine.page.evaluate("a => page.engine.show(a)", content)
    engine.page.evaluate("() => { page.lost = page.lose(); page.lost.loseContext(); }")
    engine.page.wait_for_function("() => page.told.includes('lost')")
    engine.page.evaluate("() => page.lost.restoreContext()")
    engine.page.wait_for_function("() => page.engine.currentContent !== undefined")
    assert_equal(engine.read("y").reshape(SHAPE), numpy_step(INPUTS[3], INITIAL_STATE)["y"])


@ONE_RENDERER
def test_pictures_are_of_the_section_that_ran_last(gl: GlPage) -> None:
    session = gl.open(lower(leaky_integrator()))
    gl.write(session, "x", INPUTS[0])
    gl.run(session)
    job = {"key": "y", "channels": [0, 4], "columns": 2}
    [before] = gl.draw(session, job)
    gl.commit(session)
    [waiting] = gl.draw(session, job)
    np.testing.assert_array_equal(waiting, before)
    gl.run(session)
    [after] = gl.draw(session, job)
    assert (after != before).any()
