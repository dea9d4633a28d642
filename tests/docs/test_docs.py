"""The documentation is true: code runs, messages exist, tables match the records."""

import ast
import builtins
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from playwright.sync_api import Page

import draw_architecture
import generate_docs
import nbglcnn

ROOT = Path(__file__).parents[2]
DOCUMENTATION_PAGES = [
    ROOT / "README.md",
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]
DOCUMENTATION_PAGES = list(dict.fromkeys(DOCUMENTATION_PAGES))

# Runs a page's ```python blocks in order in one namespace; `await` is allowed, as in a notebook.
RUN_CODE_BLOCKS_PROGRAM = """
import ast, asyncio, inspect, re, sys
names = {}
for block in re.findall(r"^```python\\n(.*?)^```", open(sys.argv[1]).read(), re.M | re.S):
    code = compile(block, "block", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    result = eval(code, names)
    if inspect.iscoroutine(result):
        asyncio.run(result)
"""


def run_blocks(page: Path, folder: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", RUN_CODE_BLOCKS_PROGRAM, str(page)],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    # A slow machine shows a training's progress bar.
    words = [line for line in re.split(r"[\r\n]+", run.stderr) if line.strip() and "%|" not in line]
    assert words == [], "a newcomer's script should end without a word on stderr"


def pages_with_python(pages: list[Path]) -> list[Path]:
    return [page for page in pages if "\n```python\n" in page.read_text()]


@pytest.fixture(scope="module")
def run_page_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Path]:
    """run_page_once(page): the folder in which the page's code has run, once for all tests."""

    @cache
    def folder(page: Path) -> Path:
        made = tmp_path_factory.mktemp(page.stem)
        run_blocks(page, made)
        return made

    return folder


@pytest.mark.parametrize("page", pages_with_python(DOCUMENTATION_PAGES), ids=lambda page: page.name)
def test_the_code_on_a_page_runs(page: Path, run_page_once: Callable[[Path], Path]) -> None:
    run_page_once(page)


def test_the_documented_web_page_shows_the_output_of_its_plan(
    run_page_once: Callable[[Path], Path],
    gl_page: Callable[..., Page],
    static_site: tuple[str, dict[str, bytes]],
) -> None:
    answers = ROOT / "docs" / "how-do-i.md"
    folder = run_page_once(answers)
    [html] = re.findall(r"^```html\n(.*?)^```", answers.read_text(), re.M | re.S)
    _, files = static_site
    # The empty favicon keeps the browser from requesting /favicon.ico.
    files["/answers/index.html"] = html.replace("<p", '<link rel="icon" href="data:,"><p').encode()
    for name in ("model.plan", "runtime.js"):
        files[f"/answers/{name}"] = (folder / name).read_bytes()
    page = gl_page("swiftshader", path="/answers/index.html")
    page.wait_for_function("() => document.getElementById('result').textContent !== ''")
    words = page.inner_text("#result")
    match = re.fullmatch(r"10 numbers, the first (-?\d+\.\d+)", words)
    assert match, words


UNWRAPPED_PREFIXES = ("|", "#", "![", "<!--")  # tables, headings, pictures, comments


@pytest.mark.parametrize("page", DOCUMENTATION_PAGES, ids=lambda page: page.name)
def test_lines_of_prose_wrap_at_100_columns(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    prose = (line for line in text.splitlines() if not line.startswith(UNWRAPPED_PREFIXES))
    assert [line for line in prose if len(line) > 100] == []


def test_the_readme_has_at_most_150_lines() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


def test_operators_md_is_current() -> None:
    written = generate_docs.OPERATORS_FILE.read_text(encoding="utf-8")
    assert written == generate_docs.operators_page(), "run `python scripts/generate_docs.py`"


def test_architecture_drawing_is_current() -> None:
    written = draw_architecture.SVG_FILE.read_text(encoding="utf-8")
    assert written == draw_architecture.draw_svg(), "run `python scripts/generate_docs.py`"


def test_a_layer_imports_lower_layers_alone() -> None:
    imports = {"cli": {"widget"}, "widget": {"plan", "edits"}, "edits": {"plan", "widget"}}
    drawn = draw_architecture.sort_into_layers({**imports, "plan": set()}, {("edits", "widget")})
    assert drawn == [["plan"], ["edits"], ["widget"], ["cli"]]


@pytest.mark.parametrize(
    ("imports", "upward", "message"),
    [
        ({"edits": {"widget"}, "widget": {"edits"}}, set(), "is a cycle"),
        ({"edits": set(), "widget": set()}, {("edits", "widget")}, "it is no import"),
        ({"widget": {"edits"}, "edits": set()}, {("widget", "edits")}, "it closes no cycle"),
    ],
)
def test_the_drawing_marks_imports_that_close_a_cycle(
    imports: dict[str, set[str]], upward: set[tuple[str, str]], message: str
) -> None:
    with pytest.raises(SystemExit, match=message):
        draw_architecture.sort_into_layers(imports, upward)


def test_source_quoted_in_contributing_is_the_source() -> None:
    folders = ["src/nbglcnn", "tests/cases", "tests/edits", "tests/page", "js/src/features/sources"]
    own = ("ops", "ops/shaders", "features/edits", "features/sources")
    folders += [f"src/nbglcnn/{one}" for one in own]
    files = [file for folder in folders for file in (ROOT / folder).iterdir() if file.is_file()]
    lines = {line.strip() for file in files for line in file.read_text("utf-8").splitlines()}
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(?:py|glsl|ts)\n(.*?)^```", page, re.M | re.S)
    quoted = [line.strip() for block in blocks for line in block.splitlines()]
    assert len(quoted) > 10
    assert [line for line in quoted if line not in lines] == []


def string_constants(file: Path) -> Iterator[str]:
    """Yield a source file's string constants, with … for the values in an f-string."""
    source = file.read_text(encoding="utf-8")
    if file.suffix != ".py":
        joined = re.sub(r'"\s*\+\s*(["`])', "", source).replace('" +\n', "")
        yield from (re.sub(r"\$\{[^}]*\}", "…", text) for text in joined.splitlines())
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values
            )


SOURCE_FILES = [
    file
    for folder in ("src", "scripts", "js/src")
    for file in (ROOT / folder).rglob("*")
    if file.suffix in (".py", ".ts", ".tsx")
]


KNOWN_CLASS_NAMES = {
    *nbglcnn.__all__,
    *vars(builtins),
    "TraitError",
    "DatasetUnavailable",
    "PlanError",
}


def test_every_message_in_the_troubleshooting_is_said_somewhere() -> None:
    said = [text for file in SOURCE_FILES for text in string_constants(file)]
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (.*?) \| .*? \| .*? \|$", page, re.M)
    quoted = [quote for row in rows for quote in re.findall(r"`([^`]+)`", row)]
    quoted = [quote for quote in quoted if quote not in KNOWN_CLASS_NAMES]
    assert len(quoted) > 80

    def found(quote: str) -> bool:
        parts = [part.strip() for part in quote.split("…") if part.strip(" .;:()")]
        pattern = re.compile(r"[\s\S]*".join(map(re.escape, parts)))
        return any(pattern.search(text) for text in said)

    unknown = [quote for quote in quoted if not found(quote)]
    assert not unknown, "\n".join(unknown)


def test_links_between_pages_lead_somewhere() -> None:
    def anchors(page: Path) -> set[str]:
        titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.M)
        return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}

    broken = []
    for page in DOCUMENTATION_PAGES:
        text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
        for target in re.findall(r"\]\(([^)]+)\)", text):
            if target.startswith("http"):
                continue
            path, _, anchor = target.partition("#")
            file = (page.parent / path).resolve() if path else page
            if not file.exists() or (anchor and anchor not in anchors(file)):
                broken.append(f"{page.name}: {target}")
    assert not broken


def test_runtimes_md_names_every_member_of_the_interface() -> None:
    text = (ROOT / "js" / "src" / "plan" / "runtime.ts").read_text(encoding="utf-8")
    page = (ROOT / "docs" / "runtimes.md").read_text(encoding="utf-8")
    table = page.partition("**Serving the page**")[2].partition("\n## ")[0]
    named = set(re.findall(r"`(\w+)`", table))
    members = {
        name
        for interface in ("Runtime", "Device", "Session")
        for name in re.findall(
            r"^  (?:readonly )?(\w+)[(:]",
            re.findall(rf"^export interface {interface} \{{(.*?)^\}}", text, re.M | re.S)[0],
            re.M,
        )
    }
    assert len(members) > 35
    assert members <= named
