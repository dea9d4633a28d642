"""Measures Python's milliseconds from a changed parameter element to the page's message.

`python bench/patches.py`: for every parameter of resnet18, with all values observed and with
outputs only.
"""

import time

import numpy as np

from models import MODELS
from nbglcnn.tables import table
from nbglcnn.widget.network import Network

REPEATS = 5


def main() -> None:
    """Print the table."""
    model = MODELS["resnet18"].build()
    x = np.zeros((1, 3, 224, 224), np.float32)
    rows = []
    for observe in ("all", "outputs"):
        network = Network(model, x, observe=observe, precision="float32")
        found = []
        for name, parameter in model.named_parameters():
            index = tuple(size // 2 for size in parameter.shape)
            for turn in range(REPEATS):
                begun = time.perf_counter()
                patches = network.patch_parameter(name, index, float(turn + 1))
                found.append(((time.perf_counter() - begun) * 1000, name, len(patches)))
        times = [ms for ms, *_ in found]
        most, name, _ = max(found)
        whole = sum(not count for *_, count in found)
        median, high = np.percentile(times, [50, 99])
        rows.append([observe, f"{median:.2f}", f"{high:.2f}", f"{most:.2f}", name, str(whole)])
    titles = ["observe", "median ms", "99th percentile", "largest", "of", "not patches"]
    print(table(titles, rows))


if __name__ == "__main__":
    main()
