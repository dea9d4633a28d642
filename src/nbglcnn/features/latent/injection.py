"""A network that a latent cuts: the code in its layer's place, and what is skipped for that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from nbglcnn.errors import InputError
from nbglcnn.features.edits.records import Edit
from nbglcnn.features.edits.skipped_passes import not_run, skipped
from nbglcnn.features.latent import latent as latents
from nbglcnn.graph import Array, Graph
from nbglcnn.plan.schema import Plan


class Cut:
    """Mixin: a Network cut at a layer. `latent` is the edit that puts a code in its place."""

    plan: Plan
    graph: Graph
    edits: tuple[Edit, ...]
    injected: Mapping[str, Array]
    revision: int

    def _begin_cut(self) -> None:
        self.latent: Edit | None = None
        self._code: Mapping[str, Array] = {}
        self._skipped: tuple[tuple[str, str], frozenset[str]] = ("", ""), frozenset()

    def cut(self, layer: str | None, code: Any = ()) -> None:
        """Put a latent's code in a layer's place, and skip what only leads there; None ends it.

        KeyError or InputError where it cannot be, as `sources.latent.checked_layer` says; nothing
        is changed then.
        """
        if layer is None:
            made, arrays = None, {}
        else:
            value = latents.checked_layer(self.plan, layer)
            numbers = latents.checked_code(layer, code, latents.numbers_of(self.plan, value))
            if self.plan.in_python and (found := self.graph.python_behind(layer)):
                raise InputError(
                    f"Latent({layer!r}): {found}, which follows from it, is computed in Python, "
                    "where no code reaches; cut at a layer behind that one"
                )
            times = value.read.count // numbers.size
            made = latents.latent_edit(layer)
            arrays = {made.array: np.tile(numbers, times).reshape(value.nchw)}
        self.latent, self._code = made, arrays
        self.revision += 1

    @property
    def acting(self) -> tuple[Edit, ...]:
        """All edits that act: a latent's code, and what is edited behind it."""
        return self.edits if self.latent is None else (self.latent, *self.edits)

    @property
    def arrays_given(self) -> Mapping[str, Array]:
        """The arrays that these put in the place of values."""
        return {**self.injected, **self._code}

    @property
    def skipped(self) -> frozenset[str]:
        """The keys that have no value now: a latent skips their layers."""
        if self.latent is None:
            return frozenset()
        now = self.plan.hash, self.latent.layer
        if self._skipped[0] != now:
            values = skipped(self.plan.header, [self.latent]).values
            self._skipped = now, frozenset(self.plan.values[one].key for one in values)
        return self._skipped[1]

    def check_computed(self, keys: Iterable[str]) -> None:
        """KeyError for one that has no value now."""
        for key in keys:
            if key in self.skipped:
                raise KeyError(not_run(key))
