"""A graph on its way in: importers fill a Draft, `fold.simplify` makes it concrete."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nbglcnn.graph import Array, Node

OPSET = 21  # the one that operators are lowered from: GroupNormalization is whole, Attention is not


@dataclass(slots=True)
class Draft:
    """Nodes in topological order over named values, constants by name, and what is known of shapes.

    `parameters` names the values that `with_parameters` may replace. `keep` are values that must
    not vanish though no node reads them. `shapes` are trusted over inference, `declared` only
    without it.
    """

    name: str
    source: str
    nodes: list[Node] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    inputs: dict[str, tuple[tuple[int, ...], np.dtype[Any]]] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)
    parameters: dict[str, str] = field(default_factory=dict)
    keep: list[str] = field(default_factory=list)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    declared: dict[str, tuple[tuple[int, ...], np.dtype[Any]]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
