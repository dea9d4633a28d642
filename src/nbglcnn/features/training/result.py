"""The results of a training: losses, weights, optimizer state, gradients of the last step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nbglcnn.errors import unknown_name_message
from nbglcnn.graph import Array
from nbglcnn.load import Model


class LazyArrays(Mapping[str, Array]):
    """A mapping of arrays by name. Arrays that were not stored are computed on demand.

    Args:
        names: The names of all arrays.
        known: The stored arrays.
        compute: Computes an array by name.
    """

    def __init__(self, names: list[str], known: dict[str, Array],
                 compute: Callable[[str], Array]) -> None:  # fmt: skip
        self._names, self._known, self._compute = names, known, compute

    def __getitem__(self, name: str) -> Array:
        if name not in self._names:
            raise KeyError(unknown_name_message(name, self._names))
        if name not in self._known:
            self._known[name] = self._compute(name)
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._names)})"


@dataclass(frozen=True, eq=False)
class Training:
    """The result of `nbglcnn.train`.

    Attributes:
        losses: The loss of each step, shape (steps,), float32.
        gradients: The gradients of the last step's loss, by the names of inputs, layers and
            parameters, in their shapes. Gradients of parameters are stored; the others are computed
            on demand for the batch and weights of that step.
        activations: The values of the last step in training mode, by name, and the mask of each
            Dropout, "<layer>.mask" (1 for kept, 0 for dropped elements).
        optimizer_state: Arrays by name, for `train(…, optimizer_state=…)`: "step", and for each
            parameter torch.optim's tensors ("exp_avg of encoder.0.weight").
        stopped: Why the training ended early; `""` otherwise.
        memory: The memory of its textures in bytes.
        renderer: The name of the OpenGL device.
    """

    losses: Array
    gradients: Mapping[str, Array]
    activations: Mapping[str, Array]
    optimizer_state: Mapping[str, Array]
    stopped: str
    memory: int
    renderer: str
    _model: Model = field(repr=False)
    _weights: Mapping[str, Array] = field(repr=False)

    def state_dict(self) -> dict[str, Any]:
        """Return the trained parameters and buffers.

        The model itself is not changed; load them by `model.load_state_dict(result.state_dict())`.

        Returns:
            A dict by name: tensors that the torch module loads, or arrays for an ONNX model.
        """
        return self._model.state_dict({n: np.array(one) for n, one in self._weights.items()})

    def __repr__(self) -> str:
        count = len(self.losses)
        ends = "" if not count else f", loss {self.losses[0]:.4g} → {self.losses[-1]:.4g}"
        stopped = f", stopped: {self.stopped}" if self.stopped else ""
        return f"Training({count} step{'' if count == 1 else 's'}{ends}{stopped})"
