"""A model in one form, whatever was given: what loading, references and features ask of it."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from nbglcnn.errors import NbglcnnError
from nbglcnn.graph import Array, Graph
from nbglcnn.inputs.preprocess import Preprocess

if TYPE_CHECKING:
    from nbglcnn.load.onnx.model import Given, Part
    from nbglcnn.load.prepared import Pictured
    from nbglcnn.load.training import TrainingMode

Loaded = tuple[Graph, tuple[Array, ...]]
Known = dict[str, Array]
# Loads a module or a file for an example input; what is computed of that on the way is put into
# the last argument.
Problems = Callable[[Graph], Mapping[str, str]]
Missing = Callable[[str], str | None]
Read = Callable[["Leaf", Any, "Known | None"], Loaded]


class Model(ABC):
    """A torch module or an ONNX file, one of these behind a Preprocess, or two that are compared.

    `model_of` makes it of what the user gives; nothing else asks which kind that is.
    """

    preprocess: Preprocess | None = None
    sides: tuple[Side, ...] = ()  # of a comparison

    @property
    @abstractmethod
    def leaves(self) -> tuple[Leaf, ...]:
        """The modules and files in it."""

    @property
    def source(self) -> Any:
        """The module or file as the user gave it; None for a comparison."""
        return None

    @property
    def name(self) -> str:
        """The class of what the user gave."""
        return type(self.source).__name__

    @abstractmethod
    def load(self, x: Any, known: Known | None = None, read: Read | None = None) -> Loaded:
        """The Graph and all its inputs, for an example input `x`; see `nbglcnn.load.load`.

        `read` loads each of the `leaves`, by default their own `read`.
        """

    def partly(self, x: Any, given: Given = MappingProxyType({})) -> Part | None:
        """Of an ONNX file with nodes that cannot be loaded: the Graph of the others, these and why.

        Nodes whose outputs are `given`, each with the reason, are left to Python. None for other
        models.
        """
        return None

    def modules_alone(self, x: Any) -> Sequence[tuple[str, str, Graph | NbglcnnError]]:
        """Each module of a torch module loaded by itself: path, type, Graph or why there is none.

        Nothing for other models.
        """
        return ()

    def check_gradients(
        self, x: Any, graph: Graph, wrt: Collection[str], *, every: bool = False
    ) -> None:
        """Raise UnsupportedModel where a torch module's own code changes a gradient.

        Args:
            x: the example input that it was loaded with.
            graph: the loaded network.
            wrt: names of the Graph's values whose gradients are asked for.
            every: those of all inputs and parameters are.
        """
        return

    def as_loaded(self, state_dict: Mapping[str, Any]) -> Mapping[str, Any]:
        """The numbers that a state_dict gives it: a module may have code of its own to load it."""
        return state_dict

    def state_dict(self, numbers: Mapping[str, Array]) -> dict[str, Any]:
        """These numbers by name: of a torch module tensors, with all others of its state_dict."""
        return dict(numbers)

    def all_arrays(self, numbers: Mapping[str, Array]) -> dict[str, Array]:
        """The same as arrays: of a torch module its whole state_dict."""
        return dict(numbers)

    @abstractmethod
    def initial(self, seed: int) -> dict[str, Any]:
        """A torch module's weights by name, drawn by the `reset_parameters` of its modules.

        The model and the process's random numbers stay as they are.

        Raises:
            InputError: a module doesn't draw its own; an ONNX file doesn't say how its were drawn.
        """

    @abstractmethod
    def write_onnx(
        self, graph: Graph, weights: Mapping[str, Array], path: str | os.PathLike[str]
    ) -> Path:
        """Write an ONNX file of it with these weights; `graph` is what it was loaded as.

        An ONNX model's own file is written again; PyTorch's exporter makes one of a torch module,
        for inputs of the Graph's shapes.
        """

    @abstractmethod
    def training_mode(self) -> TrainingMode:
        """It as it is loaded for training; the model itself stays as it is.

        A torch module trains as after `model.train()`; where it is in training mode already, its
        modules that are in eval mode stay in that.

        Raises:
            UnsupportedModel: a module does something else in training than can be had.
        """


class Leaf(Model):
    """A torch module or an ONNX file."""

    kind: Literal["torch", "onnx"]

    def __init__(self, source: Any) -> None:
        self._source = source

    @property
    def source(self) -> Any:
        """The module or file as the user gave it."""
        return self._source

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """Itself."""
        return (self,)

    def load(self, x: Any, known: Known | None = None, read: Read | None = None) -> Loaded:
        """The Graph and all its inputs, for an example input `x`."""
        return self.read(x, known) if read is None else read(self, x, known)

    @abstractmethod
    def read(
        self,
        x: Any,
        known: Known | None = None,
        problems: Problems | None = None,
        missing: Missing | None = None,
    ) -> Loaded:
        """The Graph and all its inputs; UnsupportedModel for what cannot be loaded.

        `problems` says of the nodes of a torch module's Graph why they cannot run: they, or the
        modules that hold what cannot be recorded, are left to Python then. `missing` says so of an
        operator by its name.
        """

    @abstractmethod
    def pictured(self, preprocess: Preprocess, x: Any) -> Pictured:
        """Its inputs behind a Preprocess, of `x`: pictures, or zeros of its size."""


@dataclass(frozen=True)
class Side:
    """One of two that are compared: its model, the Graph with its weights, and its input."""

    model: Model
    graph: Graph
    arrays: tuple[Array, ...]
