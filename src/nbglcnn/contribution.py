"""A feature's extension of a network's Plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from nbglcnn.graph import Graph


class CarriedWeights(Protocol):
    """Weights that runs in a page change, by the carries of a contribution.

    `busy_message` describes the page's activity and `stop_hint` how to end it, for the errors of
    calls that must wait.
    """

    busy_message: str
    stop_hint: str

    def set_parameter(self, name: str, index: Any, numbers: Any) -> None:
        """Accept numbers that Python sets at an index of a parameter."""

    def publish_weights(self) -> None:
        """Send the weights that Python has set to pages."""


@dataclass(frozen=True)
class Contribution:
    """A feature's extension of a network's Plan.

    Args:
        extend: Adds nodes, sections, inputs, carries, and keys of kind "contributed" to a Graph;
            the network's own inputs, outputs and layers don't change.
        carried_weights: The weights that the added carries change; None without such carries. If
            set, only the Plan of pages has this contribution, with the weights' initial values, and
            Python computes with the Plan without it.
    """

    extend: Callable[[Graph], Graph]
    carried_weights: CarriedWeights | None = None
