"""What training gives: losses, weights, the optimizer's state, gradients of the last step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nbglcnn.errors import unknown_name_message
from nbglcnn.graph import Array
from nbglcnn.load import Model


class LazyArrays(Mapping[str, Array]):
    """Arrays of the last step by name; those that weren't kept are computed when asked for."""

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
    """What `nbglcnn.train` gives.

    Attributes:
        losses: one for each step, float32.
        gradients: of the loss of the last step, by the names of inputs, layers and parameters;
            arrays of their shapes. Those of parameters are at hand, others are computed once more
            on the batch and the weights of that step.
        activations: what the layers gave in the last step, in training mode, by name, and what each
            Dropout let through, as "<layer>.mask" (1, or 0 where it dropped).
        optimizer_state: arrays by name, for `train(…, optimizer_state=…)` to go on with: "step",
            and for each parameter torch.optim's tensors ("exp_avg of encoder.0.weight").
        stopped: why it stopped before its end; "" where it didn't.
        memory: bytes of textures that it took.
        renderer: the OpenGL device that it ran on.
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
        """The weights and buffers: of a torch module tensors that it loads, else arrays by name.

        The model itself is as it was; `model.load_state_dict(result.state_dict())` changes it.
        """
        return self._model.state_dict({n: np.array(one) for n, one in self._weights.items()})

    def __repr__(self) -> str:
        count = len(self.losses)
        ends = "" if not count else f", loss {self.losses[0]:.4g} → {self.losses[-1]:.4g}"
        stopped = f", stopped: {self.stopped}" if self.stopped else ""
        return f"Training({count} step{'' if count == 1 else 's'}{ends}{stopped})"
