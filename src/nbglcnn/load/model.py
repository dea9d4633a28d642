"""The interface of a model: its operations for loading, references and features."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from nbglcnn.errors import NbglcnnError
from nbglcnn.graph import Array, Graph

if TYPE_CHECKING:
    from nbglcnn.load.onnx.model import PartialLoad
    from nbglcnn.load.onnx.onnx_model import OnnxModel
    from nbglcnn.load.torch.model import TorchModel
    from nbglcnn.load.training import TrainingMode

LoadResult = tuple[Graph, tuple[Array, ...]]
ValuesByKey = dict[str, Array]
CheckNodesFn = Callable[[Graph], Mapping[str, str]]
CheckOperatorFn = Callable[[str], str | None]
# Loads a module or a file for an example input; the last argument receives the values that are
# computed of it on the way.
BaseLoader = Callable[["TorchModel | OnnxModel", Any, ValuesByKey | None], LoadResult]


@runtime_checkable
class Model(Protocol):
    """A torch module, an ONNX file, one of these behind a Preprocess, or two that are compared.

    `model_of` makes it; TorchModel, OnnxModel, PreprocessedModel and Joined are the four kinds.
    """

    @property
    def source(self) -> Any:
        """The module or file as the user gave it; None for a comparison."""

    @property
    def base_models(self) -> tuple[TorchModel | OnnxModel, ...]:
        """The modules and files in it."""

    def load(
        self, x: Any, known: ValuesByKey | None = None, load_base: BaseLoader | None = None
    ) -> LoadResult:
        """The Graph and all its inputs, for an example input `x`; see `nbglcnn.load.load`.

        `load_base` loads each of the `base_models`, by default their own `load_base`.
        """

    def load_partial(self, x: Any) -> PartialLoad | None:
        """Of an ONNX file with nodes that cannot be loaded: the Graph of the others, these and why.

        None for other models.
        """

    def load_each_module(self, x: Any) -> Sequence[tuple[str, str, Graph | NbglcnnError]]:
        """Each module of a torch module loaded by itself: path, type, Graph or the error.

        Empty for other models.
        """

    def check_gradients(
        self, x: Any, graph: Graph, wrt: Collection[str], *, check_all: bool = False
    ) -> None:
        """Raise UnsupportedModel where a torch module's own code changes a gradient.

        Args:
            x: the example input that it was loaded with.
            graph: the loaded network.
            wrt: names of the Graph's values whose gradients are asked for.
            check_all: those of all inputs and parameters are.
        """

    def convert_state_dict(self, state_dict: Mapping[str, Any]) -> Mapping[str, Any]:
        """The numbers that a state_dict gives it: a module may have code of its own to load it."""

    def state_dict(self, numbers: Mapping[str, Array]) -> dict[str, Any]:
        """These numbers by name: of a torch module tensors, with all others of its state_dict."""

    def state_dict_arrays(self, numbers: Mapping[str, Array]) -> dict[str, Array]:
        """The same as arrays: of a torch module its whole state_dict."""

    def initial_weights(self, seed: int) -> dict[str, Any]:
        """A torch module's weights by name, drawn by the `reset_parameters` of its modules.

        The model and the process's random numbers stay as they are.

        Raises:
            InputError: a module doesn't draw its own; an ONNX file doesn't say how its were drawn.
        """

    def write_onnx(
        self, graph: Graph, weights: Mapping[str, Array], path: str | os.PathLike[str]
    ) -> Path:
        """Write an ONNX file of it with these weights; `graph` is what it was loaded as.

        An ONNX model's own file is written again; PyTorch's exporter makes one of a torch module,
        for inputs of the Graph's shapes.
        """

    def training_mode(self) -> TrainingMode:
        """It as it is loaded for training; the model itself stays as it is.

        A torch module trains as after `model.train()`; where it is in training mode already, its
        modules that are in eval mode stay in that.

        Raises:
            UnsupportedModel: a module does something else in training than can be had.
        """


# Methods of models without code of their own: ONNX files, and two networks in one Graph.


def no_modules(model: Model, x: Any) -> tuple[()]:
    """Empty: the model has no modules."""
    return ()


def no_gradient_checks(
    model: Model, x: Any, graph: Graph, wrt: Collection[str], *, check_all: bool = False
) -> None:
    """Check nothing: no code of the model can change a gradient."""


def return_state_dict(model: Model, state_dict: Mapping[str, Any]) -> Mapping[str, Any]:
    """The state_dict itself: the model has no code that loads it."""
    return state_dict


def copy_arrays(model: Model, numbers: Mapping[str, Array]) -> dict[str, Any]:
    """These numbers, in a new dict."""
    return dict(numbers)


@dataclass(frozen=True)
class ComparisonSide:
    """One of two that are compared: its model, the Graph with its weights, and its input."""

    model: Model
    graph: Graph
    arrays: tuple[Array, ...]
