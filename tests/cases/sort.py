"""Top-k and sorting: ties keep their order, NaN is the largest."""

import numpy as np
import torch
from torch import nn

from cases.case import module, node

TIED_ROWS = np.float32([[2, 7, 7, -1, 7, 2, 2], [0, 0, 0, 0, 0, 0, 0], [1, 2, 3, 4, 5, 6, 7]])


def topk_case(name, x, k, **options):
    return node(f"TopK {name}", "TopK", [x, np.int64([k])], constants=[1], outputs=2, **options)


class SmallestThree(nn.Module):
    def forward(self, x):
        return torch.topk(x, 3, dim=1, largest=False)


class StableSort(nn.Module):
    """Values rounded to integers have ties: the first of equal numbers comes first."""

    def forward(self, x):
        halves = (x * 2).round()
        values, places = torch.sort(halves, dim=1, stable=True, descending=True)
        return values, places, torch.argsort(halves, dim=-1, stable=True)


CASES = [
    topk_case("last axis", (2, 3, 11), 4),
    topk_case("first axis", (5, 3, 2), 2, axis=0),
    topk_case("smallest channels", (2, 5, 3, 4), 5, axis=1, largest=0),
    topk_case("of equal ones", TIED_ROWS, 6),
    topk_case("smallest of equal ones", TIED_ROWS, 6, largest=0),
    topk_case("of infinities", np.float32([[np.inf, 1, -np.inf, np.inf, 0]]), 5),
    topk_case("one of 300", (1, 300), 1),
    topk_case("of more places than a pass looks at", (2, 4100), 3),
    module("smallest rows", SmallestThree, (2, 7, 3)),
    module("stable", StableSort, (2, 13, 5)),
]
