"""Scheduling of the page's runs: in slices or at once, never blocking the page, never too often."""

import time
from typing import Literal

import msgspec
import numpy as np
import pytest
import torch
from torch import nn

import nbglcnn
from assertions import assert_equal
from bundle import bundle_script
from layout_plans import LAYOUTS, layout_plan
from webgl_page import ONE_RENDERER, GlPage, decode, encode

X = np.random.default_rng(12).standard_normal((1, 3, 40, 52)).astype(np.float32)


@pytest.fixture(scope="module")
def model() -> nn.Sequential:
    torch.manual_seed(4)
    return nn.Sequential(
        nn.Conv2d(3, 16, 5, 2, 2),
        nn.ReLU(),
        nn.Conv2d(16, 16, 1),
        nn.ConvTranspose2d(16, 3, 4, 2, 1),
    ).eval()


@pytest.fixture(scope="module")
def plan(model: nn.Sequential) -> nbglcnn.Plan:
    return nbglcnn.compile(model, X)


def with_cost(plan: nbglcnn.Plan, cost: int) -> nbglcnn.Plan:
    """The same Plan with a higher declared cost, so that its runs are sliced."""
    passes = tuple(msgspec.structs.replace(one, cost=cost) for one in plan.header.passes)
    header = msgspec.structs.replace(plan.header, passes=passes)
    return nbglcnn.Plan(header, plan.uniforms, plan.blobs)


def test_a_run_in_slices_and_bands_gives_the_same_bits(gl: GlPage, plan: nbglcnn.Plan) -> None:
    plain, sliced = gl.open(plan), gl.open(with_cost(plan, 10**9))
    for session in (plain, sliced):
        gl.write(session, "input", X)
    gl.run(plain)
    progress = gl.page.evaluate(
        """async (k) => {
          const seen = [];
          await gl.the(k).run({ onProgress: (p) => seen.push(p) });
          return seen;
        }""",
        sliced,
    )
    bands = sum(max(one.viewport) for one in plan.header.passes)
    assert len(progress) > len(plan.header.passes) * 10
    assert len(progress) <= bands + len(plan.header.passes)
    assert [one["done"] for one in progress] == list(range(1, len(progress) + 1))
    assert {(one["stage"], one["total"]) for one in progress} == {("run", len(progress))}
    for value in plan.header.values:
        one, other = gl.read(plain, value.key), gl.read(sliced, value.key)
        np.testing.assert_array_equal(one, other, err_msg=value.key)


@ONE_RENDERER
def test_a_long_run_leaves_the_page_free(gl: GlPage) -> None:
    torch.manual_seed(2)
    wide = nn.Sequential(*(nn.Conv2d(48, 48, 3, padding=1) for _ in range(8))).eval()
    x = torch.randn(1, 48, 96, 96)
    plan = nbglcnn.compile(wide, x, observe="outputs")
    session = gl.open(plan)
    gl.write(session, "x" if plan.header.inputs[0].key == "x" else "input", x.numpy())
    found = gl.page.evaluate(
        """async (k) => {
          const ticks = [performance.now()];
          const timer = setInterval(() => ticks.push(performance.now()), 4);
          const infos = [];
          for (let run = 0; run < 3; run++) infos.push(await gl.the(k).run());
          ticks.push(performance.now());
          clearInterval(timer);
          const gaps = ticks.slice(1).map((t, i) => t - ticks[i]);
          return { infos, longest: Math.max(...gaps), total: ticks.at(-1) - ticks[0] };
        }""",
        session,
    )
    assert [info["sequence"] for info in found["infos"]] == [1, 2, 3]
    assert found["longest"] < max(200, found["total"] / 6), found
    with torch.inference_mode():
        assert_equal(gl.read(session, plan.header.outputs[0]), wide(x).numpy(), rtol=2e-5)


@ONE_RENDERER
def test_runs_share_and_a_write_leads_to_one_more(
    gl: GlPage, model: nn.Sequential, plan: nbglcnn.Plan
) -> None:
    session = gl.open(plan)
    gl.write(session, "input", X)
    found = gl.page.evaluate(
        """async ([k, x]) => {
          const s = gl.the(k);
          const data = gl.floats(x);
          const runs = [s.run(), s.run()];
          for (const scale of [2, 3, 4]) {
            s.write("input", data.map((v) => v * scale));
            runs.push(s.run(), s.run({ urgent: true }));
          }
          return (await Promise.all(runs)).map((info) => info.sequence);
        }""",
        [session, encode(X)],
    )
    assert found == [1, 1, 2, 2, 2, 2, 2, 2]
    with torch.inference_mode():
        expected = model(torch.from_numpy(X * 4)).numpy()
    assert_equal(gl.read(session, plan.header.outputs[0]), expected)
    assert gl.page.evaluate("k => gl.the(k).sequence", session) == 2, "the read ran again"
    assert gl.run(session)["sequence"] == 3


@ONE_RENDERER
def test_what_is_written_in_the_middle_of_a_run_is_computed_before_it_is_read(
    gl: GlPage, model: nn.Sequential, plan: nbglcnn.Plan
) -> None:
    session = gl.open(with_cost(plan, 10**9))
    gl.write(session, "input", X)
    found = gl.page.evaluate(
        """async ([k, x, key]) => {
          const s = gl.the(k);
          let wrote = 0;
          const onProgress = ({ done, total }) => {
            if (wrote === 0 && done > total / 2) {
              wrote = done;
              s.write("input", gl.floats(x));
            }
          };
          await s.run({ onProgress });
          return [wrote, gl.base64(await s.read(key))];
        }""",
        [session, encode(X * 2), plan.header.outputs[0]],
    )
    assert found[0] > 0
    with torch.inference_mode():
        expected = model(torch.from_numpy(X * 2)).numpy()
    assert_equal(decode(found[1]).reshape(expected.shape), expected)


def test_a_draw_right_after_a_short_run_shows_the_new_values(gl: GlPage) -> None:
    session = gl.open(layout_plan(LAYOUTS["odd"]))
    shape = LAYOUTS["odd"].nchw
    for _ in range(3):
        gl.write(session, "x", np.zeros(shape))
        gl.run(session)
    pixels = gl.page.evaluate(
        """([k, x]) => {
          gl.write(k, "x", x);
          gl.run(k);
          const range = { mode: "fixed", high: 1 };
          const job = { key: "x", channels: [0], columns: 1, gap: 0, scale: 1, colormap: "signed" };
          const [one] = gl.draw(k, [{ ...job, theme: "light", image: 0, range, drawMode: "maps" }]);
          return [...atob(one.pixels)].slice(0, 3).map((c) => c.charCodeAt(0));
        }""",
        [session, encode(np.ones(shape))],
    )
    assert pixels == [0x0B, 0x2F, 0x63]


@ONE_RENDERER
@pytest.mark.parametrize("hidden", [True, False])
def test_a_page_without_frames_still_runs(gl: GlPage, plan: nbglcnn.Plan, hidden: bool) -> None:
    gl.page.evaluate(
        """(hidden) => {
          Object.defineProperty(document, "hidden", { get: () => hidden });
          window.requestAnimationFrame = () => 0;
        }""",
        hidden,
    )
    session = gl.open(with_cost(plan, 10**7))
    gl.write(session, "input", X)
    assert gl.run(session)["sequence"] == 1
    gl.write(session, "input", -X)
    np.testing.assert_array_equal(gl.read(session, "input"), -X)


def test_time_is_measured_and_the_clock_named(gl: GlPage, plan: nbglcnn.Plan) -> None:
    session = gl.open(plan)
    gl.write(session, "input", X)
    infos = [gl.run(session) for _ in range(4)]
    assert all(0 < info["ms"] < 60_000 for info in infos)
    assert infos[0]["passes"] == len(plan.header.passes) + 1  # plus the input's
    assert infos[3]["passes"] == len(plan.header.passes)
    # A software renderer's timer query is unreliable; short runs are timed by waiting for them.
    assert {info["clock"] for info in infos} <= {"fence", "wall"}


def with_new_programs(plan: nbglcnn.Plan, comment: str) -> nbglcnn.Plan:
    """The same Plan with unique programs, so that its first run compiles them."""
    programs = tuple(
        msgspec.structs.replace(one, source=f"{one.source}\n// {comment}")
        for one in plan.header.programs
    )
    header = msgspec.structs.replace(plan.header, programs=programs)
    return nbglcnn.Plan(header, plan.uniforms, plan.blobs)


@ONE_RENDERER
def test_a_run_says_whether_it_built_shaders(gl: GlPage, plan: nbglcnn.Plan) -> None:
    session = gl.open(with_new_programs(plan, "of the builds"))
    gl.write(session, "input", X)
    assert [gl.run(session)["hasBuiltPipelines"] for _ in range(3)] == [True, False, False]


@ONE_RENDERER
@pytest.mark.parametrize("observe", ["all", "outputs"])
def test_timing_a_run_again_changes_nothing_but_its_time(
    gl: GlPage, model: nn.Sequential, observe: Literal["all", "outputs"]
) -> None:
    plan = nbglcnn.compile(model, X, observe=observe)
    session = gl.open(with_new_programs(plan, f"to be timed, {observe}"))
    gl.write(session, "input", X)
    first = gl.run(session)
    expected = gl.read(session, "output")
    timed, values = gl.page.evaluate(
        """async (k) => {
          const session = gl.the(k);
          const [, output] = await Promise.all(
            [session.measureRun(60_000), session.read("output")]);
          let timed;
          while (timed === undefined) timed = await session.measureRun(60_000);
          return [timed, gl.base64(output)];
        }""",
        session,
    )
    np.testing.assert_array_equal(decode(values).reshape(expected.shape), expected)
    assert first["hasBuiltPipelines"] and not timed["hasBuiltPipelines"]
    assert timed["sequence"] == first["sequence"] == 1
    assert gl.page.evaluate("k => gl.the(k).sequence", session) == 1
    assert timed["passes"] == len(plan.header.passes)
    assert 0 < timed["ms"] < first["ms"]
    # It would exceed the time limit.
    assert gl.page.evaluate("k => gl.the(k).measureRun(0)", session) is None
    gl.write(session, "input", -X)
    # After a new input the next regular run is measured instead.
    assert gl.page.evaluate("k => gl.the(k).measureRun(60_000)", session) is None
    assert_equal(gl.read(session, "output"), model(torch.from_numpy(-X)).detach().numpy())


def test_the_gpu_timer_is_used_where_it_can_be_trusted(gl: GlPage, plan: nbglcnn.Plan) -> None:
    gl.page.evaluate("gl.opened().capabilities.isSoftware = false")
    session = gl.open(with_cost(plan, 10**6))
    gl.write(session, "input", X)
    start = time.perf_counter()
    infos = [gl.run(session) for _ in range(3)]
    seconds = time.perf_counter() - start
    assert {info["clock"] for info in infos} == {"gpu timer"}
    assert 0 < sum(info["ms"] for info in infos) < 1000 * seconds


@ONE_RENDERER
def test_opening_reports_its_progress(gl: GlPage, plan: nbglcnn.Plan) -> None:
    gl.open(plan)
    for stage, total in (
        ("compile", len(plan.header.programs)),
        ("upload", len(plan.header.weights)),
    ):
        seen = gl.page.evaluate("stage => gl.progress.filter((p) => p.stage === stage)", stage)
        done = [one["done"] for one in seen]
        assert done == sorted(done)
        assert done[0] == 0
        assert done[-1] == total
        assert {one["total"] for one in seen} == {total}


@ONE_RENDERER
def test_a_pass_takes_few_calls_of_webgl(gl: GlPage, plan: nbglcnn.Plan) -> None:
    session = gl.open(plan)
    gl.write(session, "input", X)
    for _ in range(3):
        gl.run(session)
    calls = gl.page.evaluate(
        """async (k) => {
          const target = gl.opened().gl;
          const own = Object.getPrototypeOf(target);
          const calls = [];
          for (const name of Object.getOwnPropertyNames(own)) {
            const method = Object.getOwnPropertyDescriptor(own, name).value;
            if (typeof method !== "function" || /Lost|Sync|flush|readPixels/.test(name)) continue;
            target[name] = (...given) => {
              calls.push(name);
              return method.apply(target, given);
            };
          }
          await gl.the(k).run();
          return calls;
        }""",
        session,
    )
    assert calls.count("drawArrays") >= len(plan.header.passes)
    assert len(calls) <= 10 * calls.count("drawArrays")


def test_the_runtime_alone_runs_a_plan_file(
    gl: GlPage, model: nn.Sequential, plan: nbglcnn.Plan, static_site: tuple[str, dict[str, bytes]]
) -> None:
    script = bundle_script("src/runtime.ts", "--format=esm", "--minify")
    static_site[1]["/alone.js"] = script
    url = gl.serve_file(plan.to_bytes())
    two = layout_plan(LAYOUTS["odd"])
    many = gl.serve_file(
        layout_plan(
            LAYOUTS["odd"],
            values=(
                *two.header.values,
                other := msgspec.structs.replace(two.header.values[0], key="__proto__"),
            ),
            outputs=("x", other.key),
        ).to_bytes()
    )
    found = gl.page.evaluate(
        """async ([url, many, x, y]) => {
          const { load } = await import("/alone.js");
          const bytes = async (from) => new Uint8Array(await (await fetch(from)).arrayBuffer());
          const session = await load(await bytes(url));
          const output = await session.run(gl.floats(x));
          const first = await session.read("0");
          const byName = await session.run({ input: gl.floats(x).map((v) => -v) });
          const wide = await load(await bytes(many));
          const outputs = await wide.run(gl.floats(y));
          session.close();
          const closed = await session.read("0").catch((error) => error.name);
          const after = await wide.read("x");
          wide.close();
          return {
            output: gl.base64(output), first: gl.base64(first), byName: gl.base64(byName), closed,
            inputs: session.inputs, outputs: session.outputs, values: session.values,
            keys: Object.keys(outputs), same: gl.base64(outputs["__proto__"]) === gl.base64(after),
          };
        }""",
        [url, many, encode(X), encode(np.ones(LAYOUTS["odd"].nchw))],
    )
    with torch.inference_mode():
        y = model(torch.from_numpy(X)).numpy()
        assert_equal(decode(found["output"]).reshape(y.shape), y)
        minus = model(torch.from_numpy(-X)).numpy()
        assert_equal(decode(found["byName"]).reshape(y.shape), minus)
        first = model[0](torch.from_numpy(X)).numpy()
        assert_equal(decode(found["first"]).reshape(first.shape), first)
    assert found["closed"] == "SessionClosed"
    assert found["inputs"] == [["input", [1, 3, 40, 52]]]
    assert found["outputs"] == [[plan.header.outputs[0], list(y.shape)]]
    assert found["values"] == [value.key for value in plan.header.values]
    assert found["keys"] == ["x", "__proto__"]
    assert found["same"]
