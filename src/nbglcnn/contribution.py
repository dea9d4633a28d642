"""What a feature adds to a network's Plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from nbglcnn.graph import Graph


class CarriedWeights(Protocol):
    """Weights that runs in a page change, by the carries of a contribution.

    `busy_message` says what the page does and `how_to_end` what ends it, for the errors of calls
    that have to wait.
    """

    busy_message: str
    how_to_end: str

    def set_parameter(self, name: str, index: Any, numbers: Any) -> None:
        """Take numbers at an index of a parameter that Python sets."""

    def publish_weights(self) -> None:
        """Bring pages up to date with what Python has set."""


@dataclass(frozen=True)
class Contribution:
    """What a feature adds to a network's Plan.

    Args:
        extend: adds nodes, sections, inputs, carries, and keys of kind "contributed" to a Graph;
            the network's own inputs, outputs and layers stay as they are.
        carried_weights: the weights that the added carries change; None without such carries. The
            Plan of pages alone has this contribution then, with the weights that they began with,
            and Python computes by the Plan without it.
    """

    extend: Callable[[Graph], Graph]
    carried_weights: CarriedWeights | None = None
