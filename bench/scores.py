"""Compares two ways to get a classifier's largest scores: full readback, or top-k on the GPU.

    python bench/scores.py [--renderers swiftshader llvmpipe] [--classes 10 1000 21841]

Each frame is a new input, a run, and the ten largest scores in JavaScript. The script also reports
what the programs would add to each classifier's Plan if they were one of its sections: bytes, and
compilation time before the first picture.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path

BENCH_FOLDER = Path(__file__).parent
ROOT = BENCH_FOLDER.parent
sys.path += [str(ROOT / "scripts"), str(ROOT / "tests/support")]

import torch  # noqa: E402
from playwright.sync_api import sync_playwright  # noqa: E402
from torch import nn  # noqa: E402

import nbglcnn  # noqa: E402
from browsers import EMPTY_PAGE, chromium_arguments, find_chromium, serve_files  # noqa: E402
from nbglcnn.codegen.glsl import FragmentShader, program_source  # noqa: E402
from nbglcnn.plan.layout import Layout  # noqa: E402
from webgl_page import GlPage  # noqa: E402

FRAME_COUNT = 40
ROUNDS = 3  # of both ways in turn; the faster round of each counts
# The milliseconds per frame of one way, for a session.
TIME_FRAMES_SCRIPT = """async ([k, picked, frames, scores]) => {
  const session = gl.the(k);
  const x = Float32Array.from({ length: 64 }, (_, i) => Math.sin(i));
  const value = session.value("output");
  const [w, h] = value.readback.draw_pass.viewport;
  const times = [];
  for (let frame = 0; frame < frames; frame++) {
    x[0] = frame;
    session.write("input", x);
    await session.run({ urgent: true });
    const start = performance.now();
    if (picked) await session.topk("output", 10, 0);
    else {
      const all = (await session.sample("output", [[0, 0, w, h]])).subarray(0, scores);
      const key = (i) => Number.isNaN(all[i]) ? -Infinity : all[i];
      Array.from(all, (_, i) => i).sort((a, b) => key(b) === key(a) ? a - b : key(b) - key(a));
    }
    times.push(performance.now() - start);
  }
  return times;
}"""
TIME_FIRST_USE_SCRIPT = """async (k) => {
  const start = performance.now();
  await gl.the(k).topk("output", 10, 0);
  return performance.now() - start;
}"""


def classifier_plan(class_count: int) -> nbglcnn.Plan:
    """A single dense layer, so that the scores dominate the time."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, class_count)).eval()
    return nbglcnn.compile(model, torch.zeros(1, 1, 8, 8))


def topk_section_bytes() -> int:
    """The bytes of two programs with their preludes; their passes take less than 1 kB."""
    text = (ROOT / "js" / "src" / "webgl" / "shaders" / "topk.glsl").read_text("utf-8")
    common = (ROOT / "js" / "src" / "webgl" / "shaders" / "common.glsl").read_text("utf-8")
    kernel = FragmentShader("largest", common + text, has_pixel_function=False)
    return sum(
        len(json.dumps(program_source(kernel, ["x0", "a"], Layout((1, 4, 1, 1)), {"MERGES": k})))
        for k in (0, 1)
    )


def main() -> None:
    """Measure, and print a line for each number."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--renderers", nargs="+", default=["swiftshader", "llvmpipe"])
    parser.add_argument("--classes", nargs="+", type=int, default=[10, 1000, 21_841])
    given = parser.parse_args()
    plans = {n: classifier_plan(n) for n in given.classes}
    for n, plan in plans.items():
        weights = sum(blob.nbytes for blob in plan.blobs.values())
        print(f"Plan of {n} classes without weights: {len(plan.to_bytes()) - weights:,} bytes")
    print(f"a section would add {topk_section_bytes():,} bytes to each")
    files: dict[str, bytes] = {"/": EMPTY_PAGE}
    with serve_files(files.get) as address, sync_playwright() as playwright:
        for renderer in given.renderers:
            browser = playwright.chromium.launch(
                executable_path=find_chromium(), args=chromium_arguments(renderer)
            )
            page = browser.new_page()
            page.goto(address)
            gl = GlPage(page, files)
            built = None
            for n, plan in plans.items():
                session = gl.open(plan)
                gl.write(session, "input", torch.zeros(1, 1, 8, 8).numpy())
                gl.run(session)
                if n > 10 and built is None:
                    built = page.evaluate(TIME_FIRST_USE_SCRIPT, session)
                found: dict[bool, list[float]] = {True: [], False: []}
                for _ in range(ROUNDS):
                    for picked in (False, True):
                        times = page.evaluate(TIME_FRAMES_SCRIPT, [session, picked, FRAME_COUNT, n])
                        found[picked].append(statistics.median(times))
                brought = f"{renderer}, {n} classes: all read and sorted {min(found[False]):.2f} ms"
                print(f"{brought}, picked out {min(found[True]):.2f} ms")
                gl.close(session)
            print(f"{renderer}: the programs' first use takes {built or 0:.0f} ms")
            browser.close()


if __name__ == "__main__":
    main()
