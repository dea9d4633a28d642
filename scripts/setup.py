"""Prepares a checkout: .venv, an editable install, the front-end; skips completed steps."""

import sys

if sys.version_info < (3, 11):  # noqa: UP036  # pip's own check would come too late
    sys.exit(f"nbglcnn needs Python 3.11 or newer; this is {sys.version.split()[0]}.")

import argparse
import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

from bundle import bundle, hash_files, is_bundle_current

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"
VENV_SCRIPTS = VENV / ("Scripts" if os.name == "nt" else "bin")
PYTHON = VENV_SCRIPTS / "python"

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
OPENGL_PACKAGES = ("libegl1", "libegl-mesa0", "libgl1", "libgles2", "libgl1-mesa-dri")


def main() -> None:
    """Run all steps; `--tests` adds the tests' needs: a browser, OpenGL and trained networks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tests", action="store_true", help="Chromium, OpenGL and weights too")
    tests = parser.parse_args().tests
    if tests:
        install_system_packages(missing_test_packages())
    create_environment()
    if tests:
        run([str(PYTHON), str(ROOT / "notebooks" / "pretrained.py")])
    if not is_bundle_current(ROOT):
        print("Bundling the front-end", flush=True)
        bundle(ROOT, os.pathsep.join([str(VENV_SCRIPTS), os.environ.get("PATH", os.defpath)]))


def create_environment() -> None:
    """Create or update .venv; recreate it if the checkout moved: its scripts have full paths."""
    stamp = VENV / "nbglcnn-installed"
    inputs = hash_files(
        ROOT / name for name in ("pyproject.toml", "constraints.txt", "hatch_build.py")
    )
    want = [str(VENV), inputs]
    have = stamp.read_text().splitlines() if stamp.exists() else []
    if have == want:
        return
    if have[:1] != want[:1]:
        if importlib.util.find_spec("ensurepip") is None:  # Debian's Python may lack it
            install_system_packages(["python3-venv"])
        print("Creating .venv", flush=True)
        run([sys.executable, "-m", "venv", *(["--clear"] if have else []), str(VENV)])
    print("Installing nbglcnn and what it needs into .venv (the first time takes minutes)")
    sys.stdout.flush()
    pip = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", "install"]
    run([*pip, "-c", "constraints.txt", "-e", ".[test]"])
    stamp.write_text("\n".join(want))


def missing_test_packages() -> list[str]:
    """The required Debian packages that aren't installed."""
    missing = [] if any(map(shutil.which, BROWSERS)) else ["chromium"]
    if sys.platform != "linux":
        return missing  # Windows and macOS include OpenGL
    if shutil.which("dpkg-query") is None:
        return missing  # not Debian, so unknown; the tests' errors name missing packages
    known = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", *OPENGL_PACKAGES],
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    return missing + [name for name in OPENGL_PACKAGES if f"{name} installed" not in known]


def install_system_packages(packages: list[str]) -> None:
    """Install packages by apt as root; without root or apt, print what to install and exit."""
    if not packages:
        return
    names = " ".join(packages)
    if shutil.which("apt-get") is None:
        sys.exit(f"Please install what Debian calls {names}, then run this again.")
    if os.geteuid() != 0:
        sys.exit(f"Please run `sudo apt-get install {names}`, then run this again.")
    print(f"Installing through apt: {names}", flush=True)
    os.environ["DEBIAN_FRONTEND"] = "noninteractive"
    run(["apt-get", "-qq", "update"])
    run(["apt-get", "-qq", "-y", "--no-install-recommends", "install", *packages])


def run(command: list[str]) -> None:
    """Run a command in the checkout; if it fails, exit with its status."""
    status = subprocess.run(command, cwd=ROOT).returncode
    if status:
        sys.exit(f"`{' '.join(command)}` failed with exit status {status}.")


if __name__ == "__main__":
    main()
