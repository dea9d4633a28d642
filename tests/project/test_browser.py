"""Browsers of conftest.py are the named renderers, and a page that misbehaves fails its test."""

import subprocess
import sys
import textwrap
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Page

DRAW_AND_READ_SCRIPT = """() => {
  const gl = document.createElement("canvas").getContext("webgl2");
  const shader = (type, text) => {
    const made = gl.createShader(type);
    gl.shaderSource(made, "#version 300 es\\n" + text);
    gl.compileShader(made);
    return made;
  };
  const program = gl.createProgram();
  gl.attachShader(program, shader(gl.VERTEX_SHADER,
    "void main() { gl_Position = vec4(gl_VertexID % 2 * 4 - 1, gl_VertexID / 2 * 4 - 1, 0, 1); }"));
  gl.attachShader(program, shader(gl.FRAGMENT_SHADER,
    "precision highp float; out vec4 o; void main() { o = vec4(gl_FragCoord.xy, -1e6, 3e-5); }"));
  gl.linkProgram(program);
  if (!gl.getProgramParameter(program, gl.LINK_STATUS)) throw Error(gl.getProgramInfoLog(program));
  const float = gl.getExtension("EXT_color_buffer_float") !== null;
  gl.bindTexture(gl.TEXTURE_2D, gl.createTexture());
  gl.texStorage2D(gl.TEXTURE_2D, 1, gl.RGBA32F, 2, 2);
  gl.bindFramebuffer(gl.FRAMEBUFFER, gl.createFramebuffer());
  const texture = gl.getParameter(gl.TEXTURE_BINDING_2D);
  gl.framebufferTexture2D(gl.FRAMEBUFFER, gl.COLOR_ATTACHMENT0, gl.TEXTURE_2D, texture, 0);
  gl.viewport(0, 0, 2, 2);
  gl.useProgram(program);
  gl.drawArrays(gl.TRIANGLES, 0, 3);
  const pixels = new Float32Array(16);
  gl.readPixels(0, 0, 2, 2, gl.RGBA, gl.FLOAT, pixels);
  const info = gl.getExtension("WEBGL_debug_renderer_info");
  return { float, renderer: gl.getParameter(info.UNMASKED_RENDERER_WEBGL), pixels: [...pixels] };
}"""


def test_each_renderer_draws_32_bit_floats(gl_page: Callable[..., Page], backend: str) -> None:
    drawn = gl_page(backend).evaluate(DRAW_AND_READ_SCRIPT)
    assert backend in drawn["renderer"].lower()
    assert drawn["float"]
    assert drawn["pixels"][:2] == [0.5, 0.5]
    assert drawn["pixels"][12:14] == [1.5, 1.5]
    assert drawn["pixels"][14] == -1e6
    assert drawn["pixels"][15] == pytest.approx(3e-5, rel=1e-6)


TestFailures = dict[str, list[tuple[str, str]]]

MISBEHAVIOURS = {
    "other machines*http://example.org": "fetch('http://example.org/').catch(() => 0)",
    "other machines*ws://example.org": "{ const made = new WebSocket('ws://example.org/');"
    " new Promise((yes) => { made.onerror = () => yes() }) }",
    "other machines*https://example.com": "{ const made = new Worker(URL.createObjectURL(new Blob(["
    "'fetch(\\'https://example.com/\\').catch(() => postMessage(0))'])));"
    " new Promise((yes) => { made.onmessage = yes; }) }",
    "console has": "console.error('that went wrong')",
    "uncaught": "setTimeout(() => { throw Error('uncaught') }); new Promise(r => setTimeout(r, 9))",
    "INVALID_ENUM": "document.createElement('canvas').getContext('webgl2').enable(1)",
}


EXTERNAL_REQUEST_CODE = "evaluate(\"fetch('http://example.org/').catch(() => 0)\")"
# A project with this folder's conftest.py: tests that misbehave, and correct neighbours.
REQUEST_TESTS_SOURCE = f"""
    def test_bare(browser):
        browser("swiftshader").new_page().{EXTERNAL_REQUEST_CODE}

    def test_context(browser):
        browser("swiftshader").new_context().new_page().{EXTERNAL_REQUEST_CODE}

    def test_itself(browser):
        page = browser("swiftshader").new_page()
        page.goto("data:text/html,<p>mine")
        page.evaluate("fetch(URL.createObjectURL(new Blob(['x']))).then((got) => got.text())")
"""
EVENT_LOOP_TEST_SOURCE = """
    import asyncio

    async def answer(): return 42

    def test_loop(): assert asyncio.run(answer()) == 42
"""


@pytest.fixture(scope="module")
def test_failures(tmp_path_factory: pytest.TempPathFactory) -> TestFailures:
    """The failure of each test of that project, by name: the phase that failed and its text.

    One run for all tests; each has a separate page, and isn't failed by the errors of others.
    """
    folder, tests = tmp_path_factory.mktemp("project"), Path(__file__).parents[1]
    folders = [str(tests), str(tests / "support"), str(tests.parent / "scripts")]
    (folder / "conftest.py").write_text((tests / "conftest.py").read_text("utf-8"))
    (folder / "pyproject.toml").write_text(f"[tool.pytest.ini_options]\npythonpath = {folders}")
    pages = [
        f"def test_{number}(gl_page):\n    gl_page('swiftshader', allow={allow!r})"
        f".evaluate({script!r})\n"
        for number, (words, script) in enumerate(MISBEHAVIOURS.items())
        for allow in ["ERR_NAME" if words.startswith("other machines") else "(?!)"]
    ]
    (folder / "test_a.py").write_text("\n".join(pages))
    (folder / "test_b.py").write_text(textwrap.dedent(EVENT_LOOP_TEST_SOURCE))
    (folder / "test_c.py").write_text(textwrap.dedent(REQUEST_TESTS_SOURCE))
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--junitxml=told.xml"]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    count = len(MISBEHAVIOURS)
    assert f"{count + 4} passed" in run.stdout and f"{count + 2} errors" in run.stdout, run.stdout
    found: TestFailures = {}
    for case in ElementTree.parse(folder / "told.xml").iter("testcase"):
        wrong = [(one.get("message") or "", one.text or "") for one in case if one.tag != "skipped"]
        found.setdefault(str(case.get("name")), []).extend(wrong)
    return found


@pytest.mark.parametrize("words", MISBEHAVIOURS)
def test_a_page_that_misbehaves_fails_its_test(test_failures: TestFailures, words: str) -> None:
    [(part, text)] = test_failures[f"test_{list(MISBEHAVIOURS).index(words)}"]
    assert part.startswith("failed on teardown")
    assert any(fnmatch(line, f"*{words}*") for line in text.splitlines()), text


def test_a_page_opened_in_any_way_may_ask_only_this_machine(test_failures: TestFailures) -> None:
    for name in ("test_bare", "test_context"):
        [(part, text)] = test_failures[name]
        assert part.startswith("failed on teardown") and "http://example.org" in text
    assert test_failures["test_itself"] == []


def test_no_event_loop_is_left_running_for_the_next_module(test_failures: TestFailures) -> None:
    assert test_failures["test_loop"] == []
