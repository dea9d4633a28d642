"""Small environments for other versions of ipykernel, and for marimo.

Each is stored in .cache/hosts and sees this environment's packages through a .pth file, so that
PyTorch isn't installed a second time. Packages that it installs itself take precedence.
"""

import subprocess
import sys
import sysconfig
from pathlib import Path

CACHE_FOLDER = Path(__file__).resolve().parents[2] / ".cache" / "hosts"


def ensure_environment(name: str, requirement: str) -> Path:
    """Return the Python of an environment that meets a requirement; create it if missing."""
    folder = CACHE_FOLDER / name
    scripts = "Scripts" if sys.platform == "win32" else "bin"
    python = folder / scripts / "python"
    stamp = folder / "installed"
    expected_stamp = f"{requirement}\n{sys.executable}\n{folder}"
    if stamp.exists() and stamp.read_text() == expected_stamp:
        return python
    print(
        f"Installing {requirement} into {folder.relative_to(CACHE_FOLDER.parents[2])}", flush=True
    )
    _run([sys.executable, "-m", "venv", "--clear", "--without-pip", str(folder)])
    shared = sysconfig.get_path("purelib")
    site_packages = sysconfig.get_path(
        "purelib", vars={"base": str(folder), "platbase": str(folder)}
    )
    # addsitedir, not a bare path: it also processes the .pth of an editable install.
    Path(site_packages, "shared.pth").write_text(f"import site; site.addsitedir({shared!r})\n")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]
    _run([*pip, "install", "--quiet", requirement])
    stamp.write_text(expected_stamp)
    return python


def package_version(python: Path, package: str) -> str:
    """The installed version of a package in an environment."""
    code = f"import importlib.metadata; print(importlib.metadata.version({package!r}))"
    found = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=True)
    return found.stdout.strip()


def _run(command: list[str]) -> None:
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if run.returncode:
        raise SystemExit(f"`{' '.join(command)}` failed:\n{run.stdout[-4000:]}")
