"""Times nbglcnn on this machine's OpenGL and PyTorch, and prints a Markdown table.

    python bench/gpu.py [--only NAME ...] [--rounds 20]

It needs no browser: it uses the local OpenGL session through EGL, which runs on the graphics card
if its driver supports OpenGL 4.3. If the renderer is a processor (llvmpipe), the table says so.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

sys.path += [str(Path(__file__).parent)]

from models import MODELS
from nbglcnn import Session, compile, errors
from nbglcnn.tables import table
from portable_model import INPUT_COUNT

NETWORK_NAMES = ("resnet18", "mobilenet_v2", "pix2pix64", "fashion autoencoder")
SOFTWARE_RENDERERS = ("llvmpipe", "softpipe", "swiftshader", "software")
WARM_UP_ROUNDS = 3
SLOW_CALL_S = 1.0  # slower calls get three timed rounds only


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="*", default=[], help="networks whose name contains one")
    parser.add_argument("--rounds", type=int, default=20)
    given = parser.parse_args()
    names = [n for n in NETWORK_NAMES if not given.only or any(part in n for part in given.only)]
    cuda = torch.cuda.is_available()
    rows = []
    for name in names:
        try:
            rows.append(measure_row(name, given.rounds, cuda))
        except errors.OpenGLUnavailable as error:
            raise SystemExit(f"nothing to measure: {error}") from None
    renderer = rows[0][0]
    print(f"\nOpenGL: {renderer}. PyTorch {torch.__version__}: {device_name(cuda)}.\n")
    if any(word in renderer.lower() for word in SOFTWARE_RENDERERS):
        print(
            "**No OpenGL driver of a graphics card is here: nbglcnn was drawn by the processor.** "
            "On a machine with one, EGL finds it (NVIDIA: the driver's libEGL_nvidia; in a "
            "container, NVIDIA_DRIVER_CAPABILITIES=graphics,compute).\n"
        )
    engines = ["PyTorch CPU", "PyTorch CUDA"] if cuda else ["PyTorch CPU"]
    heads = ["network", "nbglcnn ms", *(f"{one} ms" for one in engines)]
    heads += [*(f"nbglcnn / {one}" for one in engines), "largest error"]
    print(table(heads, [cells for _, cells in rows], "markdown"))


def measure_row(name: str, rounds: int, cuda: bool) -> tuple[str, list[str]]:
    """The renderer's name and a row of the table, with each input uploaded and each output read."""
    model = MODELS[name]
    network = model.build()
    generator = torch.Generator().manual_seed(11)
    ring = [torch.randn(model.shape, generator=generator) for _ in range(INPUT_COUNT)]
    arrays = [x.numpy() for x in ring]
    with torch.no_grad(), Session(compile(network, ring[0], observe="outputs")) as session:
        expected = network(ring[0]).numpy()
        [found] = session.run(arrays[0]).values()
        error = float(abs(found - expected).max() / abs(expected).max())
        runs: dict[str, Callable[[int], object]] = {
            "nbglcnn": lambda k: session.run(arrays[k]),
            "cpu": lambda k: network(ring[k]).numpy(),
        }
        if cuda:
            there = model.build().cuda()
            runs["cuda"] = lambda k: there(ring[k].cuda()).cpu().numpy()
        ms = measure_interleaved(runs, rounds)
        renderer = session.renderer
    ratios = [ms["nbglcnn"] / ms[other] for other in runs if other != "nbglcnn"]
    numbers = [f"{value:.2f}" for value in (*ms.values(), *ratios)]
    return renderer, [name, *numbers, f"{error:.0e}"]


def measure_interleaved(
    functions: dict[str, Callable[[int], object]], rounds: int
) -> dict[str, float]:
    """The median milliseconds of each, measured in turns, with another input at every call."""
    calls: dict[str, list[float]] = {name: [] for name in functions}
    for turn in range(WARM_UP_ROUNDS + rounds):
        for name, run in functions.items():
            if turn > WARM_UP_ROUNDS + 2 and calls[name][-1] > SLOW_CALL_S * 1000:
                continue
            start = time.perf_counter()
            run(turn % INPUT_COUNT)
            calls[name].append((time.perf_counter() - start) * 1000)
    return {name: statistics.median(ms[WARM_UP_ROUNDS:]) for name, ms in calls.items()}


def device_name(cuda: bool) -> str:
    """The name of PyTorch's compute device."""
    threads = f"{torch.get_num_threads()} threads of {platform.processor() or platform.machine()}"
    return f"{torch.cuda.get_device_name()}, and {threads}" if cuda else f"{threads}, no CUDA"


if __name__ == "__main__":
    main()
