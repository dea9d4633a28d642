"""The lifecycle of the page's session: weights, lost contexts, failures, and freed resources."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from playwright.sync_api import Page
from torch import nn

import nbglcnn
from assertions import assert_equal
from layout_plans import LAYOUTS, layout_plan
from webgl_page import DRAW_JOB, ONE_RENDERER, GlPage, decode, encode

RANDOM = np.random.default_rng(11)
X = RANDOM.standard_normal((1, 3, 9, 7)).astype(np.float32)


@pytest.fixture
def gl(
    gl_page: Callable[..., Page], static_site: tuple[str, dict[str, bytes]], backend: str
) -> GlPage:
    return GlPage(gl_page(backend, allow="CONTEXT_LOST_WEBGL|context lost"), static_site[1])


@pytest.fixture(scope="module")
def model() -> nn.Sequential:
    torch.manual_seed(5)
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1), nn.Sigmoid(), nn.ConvTranspose2d(6, 2, 4, 2, 1)
    ).eval()


@pytest.fixture(scope="module")
def plan(model: nn.Sequential) -> nbglcnn.Plan:
    return nbglcnn.compile(model, X)


def torch_output(model: nn.Sequential, x: np.ndarray) -> np.ndarray:
    with torch.inference_mode():
        return np.asarray(model(torch.from_numpy(x)))


def output_key(plan: nbglcnn.Plan) -> str:
    return plan.header.outputs[0]


@ONE_RENDERER
def test_replaced_weights_are_used_and_nothing_is_compiled(
    gl: GlPage, model: nn.Sequential, plan: nbglcnn.Plan
) -> None:
    session = gl.open(plan)
    gl.write(session, "input", X)
    key = output_key(plan)
    assert_equal(gl.read(session, key), torch_output(model, X))
    torch.manual_seed(6)
    other = nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1), nn.Sigmoid(), nn.ConvTranspose2d(6, 2, 4, 2, 1)
    ).eval()
    gl.page.evaluate(
        """() => {
          globalThis.compiled = 0;
          const link = WebGL2RenderingContext.prototype.linkProgram;
          WebGL2RenderingContext.prototype.linkProgram = function (program) {
            globalThis.compiled += 1;
            return link.call(this, program);
          };
        }"""
    )
    for weight, rows in zip(
        plan.header.weights, nbglcnn.compile(other, X).blobs.values(), strict=True
    ):
        gl.set_weight(session, weight.texture, rows)
    assert_equal(gl.read(session, key), torch_output(other, X))
    assert_equal(gl.read(session, "0.weight"), other[0].weight.detach().numpy())
    assert gl.page.evaluate("globalThis.compiled") == 0


@ONE_RENDERER
def test_a_lost_context_is_rebuilt_with_inputs_weights_and_pictures(
    gl: GlPage, model: nn.Sequential, plan: nbglcnn.Plan
) -> None:
    session = gl.open(plan)
    gl.write(session, "input", X)
    key = output_key(plan)
    before = gl.read(session, key)
    job = {"key": "0", "channels": [0, 1, 2], "columns": 3}
    [picture] = gl.draw(session, job)
    statistics = gl.statistics(session, "1")
    alive = gl.count_live_objects()
    for times in (1, 2):
        gl.page.evaluate(
            """async () => {
              const lose = gl.lose();
              lose.loseContext();
              await new Promise((resolve) => setTimeout(resolve, 20));
              lose.restoreContext();
            }"""
        )
        gl.page.wait_for_function("n => gl.events.length === 2 * n", arg=times)
        assert not gl.page.evaluate("gl.opened().isLost")
        np.testing.assert_array_equal(gl.draw(session, job)[0], picture)
        np.testing.assert_array_equal(gl.read(session, key), before)
        assert gl.statistics(session, "1")["layer"] == statistics["layer"]
        assert gl.count_live_objects() == alive
    gl.write(session, "input", X * 2)
    assert_equal(gl.read(session, key), torch_output(model, X * 2))
    assert gl.page.evaluate("gl.events") == ["lost", "restored"] * 2


def test_replaced_weights_survive_a_lost_context(
    gl: GlPage, model: nn.Sequential, plan: nbglcnn.Plan
) -> None:
    session = gl.open(plan)
    gl.write(session, "input", X)
    gl.run(session)
    torch.manual_seed(6)
    other = nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1), nn.Sigmoid(), nn.ConvTranspose2d(6, 2, 4, 2, 1)
    ).eval()
    rows = nbglcnn.compile(other, X).blobs.values()
    for weight, changed in zip(plan.header.weights, rows, strict=True):
        gl.set_weight(session, weight.texture, changed)
    gl.run(session)
    gl.lose_and_restore()
    gl.page.wait_for_function("gl.events.length === 2")
    assert_equal(gl.read(session, output_key(plan)), torch_output(other, X))


@pytest.mark.usefixtures("fresh_page")
def test_a_context_that_never_comes_back_is_replaced(
    gl: GlPage, model: nn.Sequential, plan: nbglcnn.Plan
) -> None:
    gl.page.clock.install()
    session = gl.open(plan)
    gl.write(session, "input", X)
    gl.page.evaluate("gl.lose().loseContext()")
    gl.page.clock.run_for(1000)
    with pytest.raises(Exception, match="ContextLostError: the graphics context was lost"):
        gl.read(session, output_key(plan))
    assert gl.page.evaluate("gl.opened().isLost")
    gl.page.clock.run_for(6000)
    gl.page.clock.resume()
    gl.page.wait_for_function("gl.events.length === 2")
    assert_equal(gl.read(session, output_key(plan)), torch_output(model, X))


# Counts WebGL calls from now on, and calls `strike` at the n-th.
COUNT_CALLS_SCRIPT = """((n, strike) => {
  const target = gl.opened().gl;
  const own = Object.getPrototypeOf(target);
  const methods = Object.getOwnPropertyNames(own).filter((name) =>
    typeof Object.getOwnPropertyDescriptor(own, name).value === "function"
    && name !== "isContextLost");
  const counted = {
    calls: 0,
    undo: () => { for (const name of methods) delete target[name]; },
  };
  for (const name of methods) {
    target[name] = function (...given) {
      counted.calls += 1;
      if (counted.calls === n) strike();
      return own[name].apply(target, given);
    };
  }
  return counted;
})"""

# Loses the context before the n-th WebGL call (0: never). Returns the number of calls.
LOSE_AT_CALL_SCRIPT = """async ([n, session, x, key, job]) => {
  const lose = gl.lose();
  const counted = COUNTED(n, () => lose.loseContext());
  const canvas = document.createElement("canvas");
  const results = [];
  const s = gl.the(session);
  for (const scale of [1, 2]) {
    s.write(key, gl.floats(x).map((v) => v * scale));
    const steps = [
      () => s.run().then(() => "ran"),
      () => s.measureRun(60_000).then(() => "timed"),
      () => s.draw([{ ...job, canvas }]),
      () => s.read(key).then((data) => gl.base64(data)),
      () => s.statistics(key).then((found) => found.layer.mean),
      () => s.histogram(key, 20).then((found) => found.counts.join()),
    ];
    for (const step of steps) {
      try {
        results.push({ value: await step() });
      } catch (error) {
        results.push({ error: error.name });
      }
    }
  }
  counted.undo();
  if (n > 0) {
    await new Promise((resolve) => setTimeout(resolve));
    lose.restoreContext();
    while (gl.opened().isLost) await new Promise((resolve) => setTimeout(resolve, 4));
  }
  return { calls: counted.calls, results, last: gl.base64(await s.read(key)) };
}""".replace("COUNTED", COUNT_CALLS_SCRIPT)


@ONE_RENDERER
def test_a_loss_at_any_call_gives_the_right_numbers_or_an_error(gl: GlPage) -> None:
    session = gl.open(layout_plan(LAYOUTS["odd"]))
    x = RANDOM.standard_normal(LAYOUTS["odd"].nchw)
    job = DRAW_JOB | {"key": "x", "channels": [0]}

    def losing(n: int) -> dict[str, Any]:
        return dict(gl.page.evaluate(LOSE_AT_CALL_SCRIPT, [n, session, encode(x), "x", job]))

    losing(0)
    right = losing(0)
    assert all("value" in result for result in right["results"])
    assert right["calls"] > 100
    lost = 0
    # Each context loss recompiles all programs, a second on SwiftShader, so sample the calls.
    for n in range(1, right["calls"], right["calls"] // 25):
        found = losing(n)
        assert found["last"] == right["last"], f"after a loss at call {n}"
        for result, expected in zip(found["results"], right["results"], strict=True):
            if "error" in result:
                assert result["error"] == "ContextLostError"
                lost += 1
            else:
                assert result == expected, f"stale after a loss at call {n}"
    assert lost > 10


def test_dispose_frees_everything_and_what_is_the_same_is_shared(
    gl: GlPage, plan: nbglcnn.Plan
) -> None:
    def use(session: int) -> None:
        gl.write(session, "input", X)
        gl.draw(session, {"key": "input", "channels": [0]})
        gl.histogram(session, "input", 20)

    first = gl.open(plan)
    use(first)
    one = gl.count_live_objects()
    assert all(count > 0 for count in one.values())
    second = gl.open(plan)
    use(second)
    both = gl.count_live_objects()
    assert both["programs"] == one["programs"]
    assert both["textures"] == 2 * one["textures"] - len(plan.header.weights)
    gl.page.evaluate("k => gl.the(k).dispose()", first)
    assert gl.count_live_objects() == one
    for _ in range(5):
        again = gl.open(plan)
        use(again)
        gl.page.evaluate("k => gl.the(k).dispose()", again)
    assert gl.count_live_objects() == one
    with pytest.raises(Exception, match="SessionClosed"):
        gl.read(first, "input")
    gl.page.evaluate("k => gl.the(k).dispose()", second)
    assert gl.count_live_objects() == dict.fromkeys(one, 0)


# Opens a session, sends it a request, and closes it after the n-th WebGL call (0: never). Returns
# the number of calls, and the result of the request.
CLOSE_AT_CALL_SCRIPT = """async ([n, url, x, question]) => {
  const s = gl.the(await gl.open(url));
  s.write("input", gl.floats(x));
  await s.run();
  const counted = COUNTED(n, () => void Promise.resolve().then(() => s.dispose()));
  s.write("input", gl.floats(x));
  const what = question === "sample" ? [[0, 0, 2]] : 20;
  const said = await s[question]("input", what).then(() => "done", (error) => error.name);
  counted.undo();
  s.dispose();
  return [counted.calls, said];
}""".replace("COUNTED", COUNT_CALLS_SCRIPT)


@ONE_RENDERER
@pytest.mark.parametrize("question", ["run", "read", "sample", "statistics", "histogram"])
def test_a_session_closed_during_a_question_leaves_nothing(
    gl: GlPage, plan: nbglcnn.Plan, question: str
) -> None:
    # Another session keeps the compiled programs; its histogram's resources are part of `before`
    # too.
    kept = gl.open(plan)
    gl.write(kept, "input", X)
    gl.histogram(kept, "input", 20)
    before = gl.count_live_objects()
    url = gl.serve_file(plan.to_bytes())

    def closing(n: int) -> tuple[int, str]:
        calls, said = gl.page.evaluate(CLOSE_AT_CALL_SCRIPT, [n, url, encode(X), question])
        return int(calls), str(said)

    calls, said = closing(0)
    assert said == "done"
    for n in range(1, calls + 1, max(1, calls // 15)):
        assert closing(n)[1] in ("done", "SessionClosed"), f"closed behind call {n}"
        gl.wait_alive(before)
    gl.close(kept)
    assert gl.count_live_objects() == dict.fromkeys(before, 0)


@ONE_RENDERER
@pytest.mark.parametrize("question", ["sample", "statistics"])
def test_an_input_that_comes_during_a_question_leaves_nothing(
    gl: GlPage, plan: nbglcnn.Plan, question: str
) -> None:
    session = gl.open(plan)
    gl.write(session, "input", X)
    gl.histogram(session, "input", 20)
    before = gl.count_live_objects()
    asked = """async ([session, question, x]) => {
      const s = gl.the(session);
      const what = question === "sample" ? [[0, 0, 2]] : 0;
      for (let waits = 0; waits < 12; waits++) {
        s.write("input", gl.floats(x));
        const answer = s[question]("input", what);
        for (let k = 0; k < waits; k++) await null;
        s.write("input", gl.floats(x).map((v) => v * waits));
        await answer;
      }
    }"""
    gl.page.evaluate(asked, [session, question, encode(X)])
    gl.wait_alive(before)


@ONE_RENDERER
def test_each_read_passes_through_read_pixels(gl: GlPage, plan: nbglcnn.Plan) -> None:
    session = gl.open(plan)
    gl.write(session, "input", X)
    gl.page.evaluate(
        """() => {
          globalThis.seen = [];
          const read = WebGL2RenderingContext.prototype.readPixels;
          WebGL2RenderingContext.prototype.readPixels = function (...given) {
            read.apply(this, given);
            seen.push(gl.base64(given[6].slice()));
          };
        }"""
    )
    for value in plan.header.values:
        data = gl.read(session, value.key)
        seen = [decode(text) for text in gl.page.evaluate("seen.splice(0)")]
        assert any(np.array_equal(one[: data.size], data.ravel()) for one in seen), value.key


@ONE_RENDERER
def test_wrong_names_and_lengths_say_what_is_right(gl: GlPage, plan: nbglcnn.Plan) -> None:
    session = gl.open(plan)
    with pytest.raises(Exception, match='nothing was written to input "input" yet'):
        gl.read(session, "0")
    with pytest.raises(Exception, match='no input "x"; this network has "input"'):
        gl.write(session, "x", X)
    with pytest.raises(Exception, match=r'"input" has 189 numbers \(1×3×9×7\), not 3'):
        gl.write(session, "input", X[0, 0, 0, :3])
    with pytest.raises(Exception, match='no value "9"; this network has "input", "0"'):
        gl.page.evaluate("k => gl.read(k, '9')", session)
    [output_texture] = {v.texture for v in plan.header.values if v.key == "1"}
    with pytest.raises(Exception, match="holds no weight"):
        gl.set_weight(session, output_texture, X)
    gl.write(session, "input", X)
    assert gl.read(session, "input").tolist() == X.tolist()


def test_a_refused_shader_shows_its_lines_and_frees_everything(gl: GlPage) -> None:
    whole = layout_plan(LAYOUTS["odd"])
    program = whole.header.programs[0]
    broken = msgspec.structs.replace(
        program, source=program.source.replace("return v;", "return wrong;")
    )
    before = gl.count_live_objects()
    with pytest.raises(Exception, match=r'refuses the shader "unflatten"[\s\S]*\d+ >   return wr'):
        gl.open(layout_plan(LAYOUTS["odd"], programs=(broken, *whole.header.programs[1:])))
    assert gl.count_live_objects() == before
    assert gl.page.evaluate("gl.opened().capabilities.renderer")


@ONE_RENDERER
def test_a_plan_for_a_larger_device_is_refused_by_name(gl: GlPage) -> None:
    whole = layout_plan(LAYOUTS["odd"])
    large = (msgspec.structs.replace(whole.header.textures[0], width=10**6),)
    with pytest.raises(Exception, match=r"PlanError: this device is too small.*1000000"):
        gl.open(layout_plan(LAYOUTS["odd"], textures=large + whole.header.textures[1:]))
    assert gl.count_live_objects() == dict.fromkeys(gl.count_live_objects(), 0)


WEBGL_UNAVAILABLE_SCRIPTS = {
    "no-webgl2": "OffscreenCanvas.prototype.getContext = HTMLCanvasElement.prototype.getContext"
    " = () => null",
    "no-float-textures": "WebGL2RenderingContext.prototype.getExtension = () => null",
    "lost-at-birth": "WebGL2RenderingContext.prototype.isContextLost = () => true",
}


@ONE_RENDERER
@pytest.mark.parametrize("reason", WEBGL_UNAVAILABLE_SCRIPTS)
def test_a_browser_that_cannot_says_why(gl: GlPage, reason: str) -> None:
    found = gl.page.evaluate(
        f"""() => {{
          {WEBGL_UNAVAILABLE_SCRIPTS[reason]};
          try {{ gl.opened(); }} catch (e) {{
            return {{ name: e.name, reason: e.reason, message: e.message, detail: e.detail }};
          }}
        }}"""
    )
    assert found["name"] == "DeviceUnavailable"
    assert found["reason"] == reason
    assert found["message"] and found["detail"]


def test_capabilities_tell_what_was_found(gl: GlPage, backend: str) -> None:
    found = gl.page.evaluate("gl.opened().capabilities")
    assert backend in found["renderer"].lower()
    assert found["isSoftware"] is True
    assert found["precision"] == "float32"
    target = msgspec.convert(json.loads(json.dumps(found["target"])), nbglcnn.Target)
    assert target.max_texture_size >= 4096
    assert target.max_draw_buffers >= 4
