"""The browsers of conftest.py are what they say, and a page that misbehaves fails its test."""

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page

pytest_plugins = ["pytester"]

DRAW = """() => {
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
    drawn = gl_page(backend).evaluate(DRAW)
    assert backend in drawn["renderer"].lower()
    assert drawn["float"]
    assert drawn["pixels"][:2] == [0.5, 0.5]
    assert drawn["pixels"][12:14] == [1.5, 1.5]
    assert drawn["pixels"][14] == -1e6
    assert drawn["pixels"][15] == pytest.approx(3e-5, rel=1e-6)


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


def take_conftest(pytester: pytest.Pytester) -> None:
    """Put this folder's conftest.py, and what it imports, into the test's own project."""
    tests = Path(__file__).parent
    pytester.makeconftest((tests / "conftest.py").read_text(encoding="utf-8"))
    folders = [str(tests), str(tests / "support"), str(tests.parent / "scripts")]
    pytester.makepyprojecttoml(f"[tool.pytest.ini_options]\npythonpath = {folders}")


@pytest.mark.parametrize("words", MISBEHAVIOURS)
def test_a_page_that_misbehaves_fails_its_test(pytester: pytest.Pytester, words: str) -> None:
    take_conftest(pytester)
    allow = "ERR_NAME" if words.startswith("other machines") else "(?!)"
    pytester.makepyfile(
        f"""
        def test_page(gl_page):
            gl_page("swiftshader", allow={allow!r}).evaluate({MISBEHAVIOURS[words]!r})
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines([f"*{words}*"])


def test_a_page_opened_in_any_way_may_ask_only_this_machine(pytester: pytest.Pytester) -> None:
    take_conftest(pytester)
    asking = "evaluate(\"fetch('http://example.org/').catch(() => 0)\")"
    pytester.makepyfile(
        f"""
        def test_bare(browser):
            browser("swiftshader").new_page().{asking}

        def test_context(browser):
            browser("swiftshader").new_context().new_page().{asking}

        def test_itself(browser):
            page = browser("swiftshader").new_page()
            page.goto("data:text/html,<p>mine")
            page.evaluate("fetch(URL.createObjectURL(new Blob(['x']))).then((got) => got.text())")
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=3, errors=2)
    result.stdout.fnmatch_lines(["*ERROR at teardown of test_bare*", "*http://example.org*"])


def test_no_event_loop_is_left_running_for_the_next_module(pytester: pytest.Pytester) -> None:
    take_conftest(pytester)
    pytester.makepyfile(
        test_a="def test_page(gl_page): gl_page('swiftshader')",
        test_b="""
        import asyncio

        async def answer(): return 42

        def test_loop(): assert asyncio.run(answer()) == 42
        """,
    )
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=2)
