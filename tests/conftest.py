"""Browsers that the tests drive: Chromium on two software renderers; console errors fail a test."""

import asyncio
import gc
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Error,
    Frame,
    Page,
    Playwright,
    ViewportSize,
    expect,
    sync_playwright,
)

import nbglcnn
from browsers import (
    EMPTY_PAGE,
    RENDERERS,
    chromium_arguments,
    collect_console_errors,
    find_chromium,
    serve_files,
    watch_browser_requests,
)
from jupyter_lab import LabServer, running_lab
from nbglcnn import Plan
from readability import WIDTHS
from views_page import ViewsPage, reset_page
from webgl_page import GlPage

BACKENDS = tuple(RENDERERS)
Arrays = tuple[np.ndarray, ...]
STATIC_FOLDER = Path(nbglcnn.__file__).with_name("static")
# Mesa's CPU renderer skips LLVM's optimizer, here and in the browsers: shaders run only a few times
# on small maps, so compilation dominates.
os.environ.setdefault("GALLIVM_PERF", "nopt")
expect.set_options(timeout=20_000)  # default 5 s: too short for a busy machine
VIEWPORT: ViewportSize = {"width": 1280, "height": 720}  # Playwright's default
external_requests: list[list[str]] = []  # requests to other machines, by pages of the open browsers


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--sweep`: `make sweep` runs more cases, on the other renderer, at every step."""
    parser.addoption(
        "--sweep",
        choices=BACKENDS,
        help="test_page_fault_sweep.py's renderer; "
        "test_viewer_disconnects.py kills a kernel at every step, "
        "test_ops.py takes each case to both renderers, test_strips.py cuts each into strips, "
        "test_opsets.py has every operator set, "
        "test_page_statistics.py more networks, "
        "test_receptive_fields.py hundreds of them, test_extreme_values.py all of torch.nn, "
        "test_views_layout.py and others every view at every width, the notebooks of test_tour.py, "
        "test_viewer_reads_lab.py and test_viewer_lifecycle.py run on SwiftShader too, as what is "
        "not the renderer's of test_engine.py, test_metamorphic.py, test_page_*.py",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests' tiers, and deselect tests that only `make sweep` runs.

    The tests in JupyterLab come first. Each worker starts with a contiguous third of the tests, so
    one worker gets all of the JupyterLab tests, with one server and its warm kernels. These tests
    mostly wait, and the other workers compute meanwhile.
    """
    in_lab: set[Path] = set()  # files whose first test in JupyterLab was found
    for item in items:
        if _is_thorough(item, in_lab):
            item.add_marker(pytest.mark.thorough)
    if config.getoption("--sweep") is None:
        left = [item for item in items if item.get_closest_marker("sweep")]
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in set(left)]
    items.sort(key=lambda item: "lab" not in getattr(item, "fixturenames", ()))


# Folders whose pages show a user's views or files. In the other folders a page computes the same
# numbers as local OpenGL.
USER_FACING_FOLDERS = ("cli", "docs", "export", "project", "views")


def _is_thorough(item: pytest.Item, in_lab: set[Path]) -> bool:
    """Whether a test runs in `make test-all` only, not in `make test`.

    `make test` runs the first test of each file on a notebook or a feature in JupyterLab
    (test_…_notebook.py, test_…_lab.py). Of the tests with a page it runs those on one renderer, in
    the folders whose pages a user sees.
    """
    fixtures = getattr(item, "fixturenames", ())
    if "lab" in fixtures:
        first = item.path not in in_lab and item.path.stem.endswith(("_lab", "_notebook"))
        in_lab.add(item.path)
        return not first
    if "playwright" not in fixtures:
        return False
    given = getattr(getattr(item, "callspec", None), "params", {})
    return "swiftshader" in given.values() or item.path.parent.name not in USER_FACING_FOLDERS


@pytest.fixture(scope="session")
def chromium_path() -> str:
    """The system's Chromium, or the one that Playwright installed."""
    if found := find_chromium():
        return found
    pytest.fail("No Chromium: `apt-get install chromium`, or `playwright install chromium`.")


@pytest.fixture(scope="session")
def browser_args() -> Callable[[str], list[str]]:
    """Chromium's arguments for a renderer: browser_args("swiftshader") or ("llvmpipe").

    With llvmpipe the page is composited on the CPU, because GPU compositing took llvmpipe three
    times as long as WebGL itself. With SwiftShader it is composited as with a graphics card.
    """
    more = {"llvmpipe": ["--disable-gpu-compositing"], "swiftshader": []}
    return lambda backend: [*chromium_arguments(backend), *more[backend]]


@pytest.fixture(params=BACKENDS, scope="module")
def sweep_backend(request: pytest.FixtureRequest) -> str:
    """llvmpipe, in `make sweep` SwiftShader: for slow tests of what others cover on both."""
    if request.param == "swiftshader" and request.config.getoption("--sweep") is None:
        pytest.skip("make sweep")
    return str(request.param)


@pytest.fixture
def sweep_widths(request: pytest.FixtureRequest) -> Callable[..., tuple[int, ...]]:
    """sweep_widths(620, 1120): these widths; in `make sweep` all measured widths."""
    return lambda *some: WIDTHS if request.config.getoption("--sweep") else some


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    """Run the test on each renderer."""
    return str(request.param)


@pytest.fixture(scope="module", autouse=True)
def freeze_imported_objects() -> None:
    """Exclude PyTorch and other imported objects from garbage collection."""
    gc.freeze()


@pytest.fixture(scope="session")
def playwright(chromium_path: str) -> Iterator[Playwright]:
    """One Playwright per process. `chromium_path` comes first: it opens a Playwright too."""
    with sync_playwright() as started:
        external_requests[:] = [watch_browser_requests(started.chromium)]
        yield started
        assert not external_requests[0], f"a page asked other machines: {external_requests[0]}"


# While Playwright is open, its event loop counts as running in this thread, so asyncio.run() fails.
@pytest.fixture(autouse=True)
def without_running_loop(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let a test without a page run its own event loop."""
    if "playwright" in request.fixturenames:
        yield
        return
    playwrights = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    yield
    asyncio._set_running_loop(playwrights)


@pytest.fixture(autouse=True)
def forbid_external_requests() -> Iterator[None]:
    """Fail the test if any page requests anything outside this machine."""
    yield
    found = external_requests[0] if external_requests else []
    outside = found.copy()
    found.clear()
    assert not outside, f"a page asked other machines: {outside}"


@pytest.fixture(scope="session")
def browsers(playwright: Playwright) -> Iterator[dict[str, Browser]]:
    """The started browsers, by renderer."""
    started: dict[str, Browser] = {}
    yield started
    for one in started.values():
        one.close()


@pytest.fixture(scope="module")
def browser(
    playwright: Playwright,
    browsers: dict[str, Browser],
    chromium_path: str,
    browser_args: Callable[[str], list[str]],
) -> Iterator[Callable[[str], Browser]]:
    """browser("llvmpipe"): a headless Chromium on that renderer, without pages at first."""

    def get(backend: str) -> Browser:
        if backend not in browsers or not browsers[backend].is_connected():
            browsers[backend] = playwright.chromium.launch(
                executable_path=chromium_path, args=browser_args(backend)
            )
        return browsers[backend]

    yield get
    for one in browsers.values():
        for context in one.contexts:
            context.close()


@pytest.fixture
def new_page(browser: Callable[[str], Browser]) -> Iterator[Callable[..., Page]]:
    """new_page("swiftshader", **context options): a page in a new browser context."""
    opened: list[Page] = []

    def open_page(backend: str, **options: object) -> Page:
        opened.append(browser(backend).new_context(**options).new_page())
        return opened[-1]

    yield open_page
    for page in opened:
        page.context.close()


@pytest.fixture
def exported_page(new_page: Callable[..., Page]) -> Iterator[Callable[..., Page]]:
    """exported_page(path, "llvmpipe"): a file's page, with the network off; errors fail the test.

    `script` runs before the page's own scripts; other options are those of the browser context.
    """
    errors: list[str] = []

    def open_file(
        path: Path, backend: str = "llvmpipe", *, script: str = "", **options: object
    ) -> Page:
        page = new_page(backend, offline=True, **options)
        page.on("console", lambda m: errors.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        if script:
            page.add_init_script(script)
        page.goto(path.as_uri())
        return page

    yield open_file
    assert not errors, errors


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    """A running JupyterLab, whose kernels are forked from a warm process on Linux."""
    warm = hasattr(os, "pidfd_open")
    with running_lab(tmp_path_factory.mktemp("lab"), warm=warm) as lab:
        yield lab


@pytest.fixture(scope="session")
def static_site() -> Iterator[tuple[str, dict[str, bytes]]]:
    """The address of a local server, and its extra files besides "/" and the bundles."""
    files = {"/": EMPTY_PAGE}

    def find(path: str) -> bytes | None:
        bundled = STATIC_FOLDER / Path(path).name
        if path.startswith("/static/") and path not in files and bundled.is_file():
            return bundled.read_bytes()
        return files.get(path)

    with serve_files(find) as address:
        yield address, files


@pytest.fixture(scope="module")
def idle_pages(browser: Callable[[str], Browser]) -> dict[str, list[Page]]:
    """Empty pages left by a module's tests, by renderer: opening a page takes as long as a test.

    Pages of the kind "views" have the views' script, a GL context and the last network's shaders.
    """
    return {kind: [] for kind in (*BACKENDS, "views")}


@pytest.fixture
def fresh_page() -> None:
    """Give this test's `gl_page`, and fixtures built on it, an unused page."""


@pytest.fixture
def gl_page(
    request: pytest.FixtureRequest,
    new_page: Callable[..., Page],
    browser: Callable[[str], Browser],
    idle_pages: dict[str, list[Page]],
    static_site: tuple[str, dict[str, bytes]],
) -> Iterator[Callable[..., Page]]:
    """gl_page("llvmpipe"): an empty page, served with the bundles (/static/runtime.js, widget.js).

    Any console error that doesn't match `allow` fails the test at its end. The document is new;
    with `views` it may be one whose views were reset. The page may be one that the previous test
    used: a test that changes state that outlives a document (the clock, the media, an init script)
    uses the fixture `fresh_page`.
    """
    errors: list[str] = []
    taken: list[tuple[str, Page, bool, Callable[[ConsoleMessage], None], Callable[[Error], None]]]
    taken = []

    def open_page(
        backend: str, *, allow: str = "(?!)", path: str = "/", views: bool = False
    ) -> Page:
        def on_console(message: ConsoleMessage) -> None:
            # Chromium reports an invalid WebGL call only as a warning.
            wrong = message.type == "error" or re.search("INVALID_|GL_OUT_OF", message.text)
            if wrong and not re.search(allow, message.text):
                errors.append(message.text)

        def on_page_error(error: Error) -> None:
            if not re.search(allow, str(error)):
                errors.append(str(error))

        if "fresh_page" in request.fixturenames:
            page = new_page(backend)
        else:
            idle = (views and idle_pages["views"]) or idle_pages[backend]
            page = idle.pop() if idle else browser(backend).new_context().new_page()
            taken.append((backend, page, views, on_console, on_page_error))
            if page.viewport_size != VIEWPORT:
                page.set_viewport_size(VIEWPORT)
        page.on("console", on_console)
        page.on("pageerror", on_page_error)
        if page.url != static_site[0] + path:
            page.goto(static_site[0] + path)
        return page

    yield open_page
    for backend, page, views, on_console, on_page_error in taken:
        try:
            kept = views and page.url == static_site[0] + "/" and not reset_page(page)
            if not kept:
                page.goto(static_site[0] + "/")
        except Error:  # the page was closed or hangs
            page.context.close()
            continue
        page.remove_listener("console", on_console)
        page.remove_listener("pageerror", on_page_error)
        idle_pages["views" if kept else backend].append(page)
    assert not errors, f"the page's console has {errors}"


@pytest.fixture
def gl(
    gl_page: Callable[..., Page], static_site: tuple[str, dict[str, bytes]], backend: str
) -> GlPage:
    """The GL layer in a page, on each renderer."""
    return GlPage(gl_page(backend), static_site[1])


@pytest.fixture(scope="module")
def run_in_pages(
    browser: Callable[[str], Browser], static_site: tuple[str, dict[str, bytes]]
) -> Callable[[Plan, Arrays], dict[str, dict[str, np.ndarray]]]:
    """run_in_pages(plan, arrays): a Plan's values from one page per renderer, shared by a module.

    The first Plan stays open in the page, so that resources shared by all Sessions are built once.
    """
    opened: dict[str, tuple[GlPage, list[str]]] = {}

    def open_page(backend: str, plan: Plan) -> tuple[GlPage, list[str]]:
        page = browser(backend).new_context().new_page()
        errors = collect_console_errors(page)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(static_site[0])
        gl = GlPage(page, static_site[1])
        gl.open(plan)
        return gl, errors

    def compute(plan: Plan, arrays: Arrays) -> dict[str, dict[str, np.ndarray]]:
        found = {}
        for name in BACKENDS:
            if name not in opened:
                opened[name] = open_page(name, plan)
            gl, errors = opened[name]
            found[name] = gl.run_plan(plan, arrays)
            assert not errors, f"the console of {name}'s page has {errors[:10]}"
        return found

    return compute


@pytest.fixture
def show(
    gl_page: Callable[..., Page], static_site: tuple[str, dict[str, bytes]]
) -> Callable[..., ViewsPage]:
    """show(plan, input, …): the views of a network, 1200 px wide, on the faster-compiling renderer.

    test_page_draw.py tests pictures on both renderers.
    """

    def open_views(plan: Plan, *inputs: np.ndarray, width: int = 1200) -> ViewsPage:
        page = gl_page("llvmpipe", views=True)
        page.set_viewport_size({"width": width, "height": 1000})
        return ViewsPage(page, static_site[1], plan, *inputs)

    return open_views


@pytest.fixture
def iframes(
    gl_page: Callable[..., Page], static_site: tuple[str, dict[str, bytes]]
) -> Callable[[int], list[Frame]]:
    """frames(2): that number of iframes in one page, each with its own document."""

    def make(count: int) -> list[Frame]:
        page = gl_page("llvmpipe")  # compiles shaders fastest
        page.evaluate(
            """count => {
              for (let k = 0; k < count; k++) {
                const frame = document.createElement("iframe");
                frame.src = "/";
                frame.style = "width: 900px; height: 500px";
                document.body.append(frame);
              }
            }""",
            count,
        )
        page.wait_for_function("count => window.frames.length === count", arg=count)
        found = [frame for frame in page.frames if frame != page.main_frame]
        for frame in found:
            frame.wait_for_load_state()
        return found

    return make
