"""`viewer.activations`: every value of the network by name, read on lookup."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from nbglcnn.errors import unknown_name_message
from nbglcnn.graph import Array
from nbglcnn.plan.schema import Value
from nbglcnn.tables import table
from nbglcnn.widget.network import Network
from nbglcnn.widget.reader import Reader


class Activations(Mapping[str, Array]):
    """A mapping from the names of values to arrays, in call order: inputs, layers, outputs.

    Each lookup reads from the page (or computes on local OpenGL without one), so store the array
    instead of reading it twice. An unknown name raises a KeyError with the nearest names, and so
    does a value that a Latent skips. `viewer.activations` has values after their edits,
    `viewer.unbent` each value before its own edits.

    Args:
        network: The network of the Viewer.
        reader: Reads values for the Viewer.
        unbent: Whether values are read before their own edits. Default: False.

    Example:
        >>> viewer.activations["encoder.0"].shape
    """

    def __init__(self, network: Network, reader: Reader, *, unbent: bool = False) -> None:
        self._network = network
        self._reader = reader
        self._before_edits = unbent

    @property
    def source(self) -> str:
        """The result of `read(*keys)`: an array for a single key, otherwise a dict."""
        return self._reader.backend_name()

    def to_dict(self, *, timeout: float | None = None) -> dict[str, Array]:
        """Read all values in one round trip.

        Args:
            timeout: The time in seconds without a message from the page after which this fails.
                Default: the Viewer's own.

        Returns:
            A dict of arrays by name.

        Raises:
            PageError: If the page cannot reply.
        """
        keys = list(self)
        return dict(zip(keys, self._read(keys, timeout), strict=True))

    def read(self, *keys: str | Iterable[str], timeout: float | None = None) -> Any:
        """Read values in one round trip.

        Args:
            *keys: Names of values, or lists of names.
            timeout: The time in seconds without a message from the page after which this fails.
                Default: the Viewer's own.

        Returns:
            The array for a single name; otherwise a dict of arrays by name.

        Raises:
            KeyError: If a value doesn't exist or isn't kept.
            PageError: If the page cannot reply.
        """
        return array_or_dict(keys, self._read(flatten_keys(keys), timeout))

    def _read(self, keys: Sequence[str], timeout: float | None = None) -> list[Array]:
        return self._reader.read(keys, timeout, before_edits=self._before_edits).arrays

    def __getitem__(self, key: str) -> Array:
        self._network.check_not_skipped([key])
        if key not in self:
            raise KeyError(
                unknown_name_message(
                    key, list(self), shared=self._network.plan.header.shared_modules
                )
            )
        return self._read([key])[0]

    def __iter__(self) -> Iterator[str]:
        return (value.key for value in self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: object) -> bool:
        return any(value.key == key for value in self._values)

    @property
    def _values(self) -> Sequence[Value]:
        skipped = self._network.skipped_keys
        return [value for value in self._network.plan.values if value.key not in skipped]

    def _rows(self) -> list[tuple[str, str, str, str]]:
        return [
            (v.key, v.kind, "×".join(map(str, v.shape)) or "scalar", v.dtype) for v in self._values
        ]

    def __repr__(self) -> str:
        rows = [("", key, shape) for key, _, shape, _ in self._rows()]
        what = "values before their own edits" if self._before_edits else "values"
        head = f"Activations: {len(self)} {what}, read on access"
        return "\n".join([head, table((), rows)])

    def _repr_html_(self) -> str:
        return table(("key", "kind", "shape", "type"), self._rows(), "html")


def flatten_keys(keys: Iterable[str | Iterable[str]]) -> list[str]:
    """The names in the arguments of `read`, each a key or a list of keys."""
    return [name for key in keys for name in ([key] if isinstance(key, str) else key)]


def array_or_dict(keys: Sequence[str | Iterable[str]], arrays: Sequence[Array]) -> Any:
    """Flatten the arguments of `read`, keys or lists of keys, to a list of keys."""
    if len(keys) == 1 and isinstance(keys[0], str):
        return arrays[0]
    return dict(zip(flatten_keys(keys), arrays, strict=True))
