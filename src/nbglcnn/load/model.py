"""The interface of models: operations for loading, reference values and features."""

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
    from nbglcnn.load.training_mode import TrainingMode

LoadResult = tuple[Graph, tuple[Array, ...]]
ValuesByKey = dict[str, Array]
CheckNodesFn = Callable[[Graph], Mapping[str, str]]
CheckOperatorFn = Callable[[str], str | None]
# Loads a module or a file for an example input; the last argument receives values that are computed
# while loading.
BaseLoader = Callable[["TorchModel | OnnxModel", Any, ValuesByKey | None], LoadResult]


@runtime_checkable
class Model(Protocol):
    """A torch module, an ONNX file, either of them with a Preprocess, or a comparison of two.

    `wrap_model` makes it. The four implementations are TorchModel, OnnxModel, PreprocessedModel and
    ComparisonModel.
    """

    @property
    def user_model(self) -> Any:
        """The user's module or file; None for a comparison."""

    @property
    def base_models(self) -> tuple[TorchModel | OnnxModel, ...]:
        """The modules and files that the model consists of."""

    def load(
        self,
        x: Any,
        collected_values: ValuesByKey | None = None,
        load_base: BaseLoader | None = None,
    ) -> LoadResult:
        """Load the Graph and all its inputs for an example input `x`; see `nbglcnn.load.load`.

        `load_base` loads each of the `base_models`; the default is their own loading.
        """

    def load_partial(self, x: Any) -> PartialLoad | None:
        """Load the supported part of an ONNX file, with the unsupported nodes and their errors.

        None for other models.
        """

    def load_each_module(self, x: Any) -> Sequence[tuple[str, str, Graph | NbglcnnError]]:
        """Load each module of a torch module by itself: its path, type, and Graph or error.

        Empty for other models.
        """

    def check_gradients(
        self, x: Any, graph: Graph, wrt: Collection[str], *, check_all: bool = False
    ) -> None:
        """Raise UnsupportedModel if a torch module's own code changes a gradient.

        Args:
            x: The example input that the model was loaded with.
            graph: The loaded network.
            wrt: The names of the Graph's values to compute gradients for.
            check_all: Whether to check the gradients of all inputs and parameters.
        """

    def convert_state_dict(self, state_dict: Mapping[str, Any]) -> Mapping[str, Any]:
        """Convert a state_dict to the weights it loads; a module may have its own loading code."""

    def state_dict(self, weights: Mapping[str, Array]) -> dict[str, Any]:
        """Return a state_dict with these weights; for a torch module, complete and as tensors."""

    def state_dict_arrays(self, weights: Mapping[str, Array]) -> dict[str, Array]:
        """Return a state_dict with these weights as arrays; complete for a torch module."""

    def initial_weights(self, seed: int) -> dict[str, Any]:
        """Draw a torch module's initial weights by its modules' `reset_parameters`, by name.

        The model and the process's random state don't change.

        Raises:
            InputError: If a module cannot draw its weights, or the model is an ONNX file, which
                doesn't contain the initialization.
        """

    def write_onnx(
        self, graph: Graph, weights: Mapping[str, Array], path: str | os.PathLike[str]
    ) -> Path:
        """Write the model as an ONNX file with these weights; `graph` is its loaded Graph.

        An ONNX model's own file is rewritten. A torch module is exported by PyTorch, for inputs of
        the Graph's shapes.
        """

    def training_mode(self) -> TrainingMode:
        """Return the model as it is loaded for training; the model itself doesn't change.

        A torch module trains as after `model.train()`; if it is already in training mode, its
        modules in eval mode stay in eval mode.

        Raises:
            UnsupportedModel: If a module's behaviour in training mode is not supported.
        """


# Methods of models without code of their own: ONNX files and comparisons.


def return_no_modules(model: Model, x: Any) -> tuple[()]:
    """Return (): the model has no modules."""
    return ()


def skip_gradient_checks(
    model: Model, x: Any, graph: Graph, wrt: Collection[str], *, check_all: bool = False
) -> None:
    """Check nothing: the model has no code that could change a gradient."""


def return_state_dict(model: Model, state_dict: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the state_dict itself: the model has no loading code of its own."""
    return state_dict


def copy_arrays(model: Model, weights: Mapping[str, Array]) -> dict[str, Any]:
    """Return the arrays in a new dict."""
    return dict(weights)


@dataclass(frozen=True)
class ComparisonSide:
    """One side of a comparison: its model, the Graph with its weights, and its inputs."""

    model: Model
    graph: Graph
    input_arrays: tuple[Array, ...]
