"""An ONNX model as a Model: a file's path, its bytes, or an onnx.ModelProto."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from nbglcnn.errors import InputError, ModelError
from nbglcnn.graph import Array, Graph
from nbglcnn.inputs.preprocess import Preprocess
from nbglcnn.load.model import (
    BaseLoader,
    LoadResult,
    ValuesByKey,
    copy_arrays,
    return_no_modules,
    return_state_dict,
    skip_gradient_checks,
)
from nbglcnn.load.preprocessed_model import RawInputs, raw_inputs
from nbglcnn.load.torch.isolation.process_state import load_lock

if TYPE_CHECKING:
    from nbglcnn.load.onnx.model import PartialLoad, PythonOutputs
    from nbglcnn.load.training_mode import TrainingMode


@dataclass(frozen=True, eq=False)
class OnnxModel:
    """An ONNX model: a file's path, its bytes, or an onnx.ModelProto."""

    user_model: Any

    def __post_init__(self) -> None:
        _check_model_type(self.user_model)

    @property
    def base_models(self) -> tuple[OnnxModel]:
        """The model itself."""
        return (self,)

    def load(
        self,
        x: Any,
        collected_values: ValuesByKey | None = None,
        load_base: BaseLoader | None = None,
    ) -> LoadResult:
        """Load the Graph and all its inputs; a model with static shapes needs no `x`."""
        return self.load_base(x) if load_base is None else load_base(self, x, collected_values)

    def load_base(self, x: Any) -> LoadResult:
        """Load the Graph and all its inputs; UnsupportedModel if a node is not supported."""
        from nbglcnn.load.onnx.model import load_onnx

        with load_lock():
            return load_onnx(self.user_model, x)

    def raw_inputs(self, preprocess: Preprocess, x: Any) -> RawInputs:
        """Convert `x` to the inputs before a Preprocess: pictures, or zeros of its size."""
        from nbglcnn.load.onnx.model import input_specs

        specs = input_specs(self.user_model)
        if not specs:
            raise InputError("preprocess: the model has no inputs")
        drawn: Mapping[str, Any] | tuple[Any, ...] = ()
        if isinstance(x, Mapping):
            names = {spec.name for spec in specs}
            drawn = {name: one for name, one in x.items() if name not in names}
            x = {name: one for name, one in x.items() if name in names}
        elif isinstance(x, tuple):
            x, drawn = x[: len(specs)], x[len(specs) :]
        return raw_inputs(preprocess, x, specs, None, "the model", drawn)

    def load_partial(
        self, x: Any, python_outputs: PythonOutputs = MappingProxyType({})
    ) -> PartialLoad:
        """Load the supported nodes as a Graph; return the others with their errors.

        Nodes whose outputs are in `python_outputs`, which maps them to reasons, are left to Python.
        """
        from nbglcnn.load.onnx.model import load_partial

        with load_lock():
            return load_partial(self.user_model, x, python_outputs)

    load_each_module = return_no_modules
    check_gradients = skip_gradient_checks
    convert_state_dict = return_state_dict
    state_dict = copy_arrays
    state_dict_arrays = copy_arrays

    def initial_weights(self, seed: int) -> dict[str, Any]:
        """Raise InputError: a file doesn't contain the initialization of its weights."""
        raise InputError(
            'weights="random": an ONNX model doesn\'t define how its weights are initialised; '
            'give the torch.nn.Module that it was exported from, or use weights="given"'
        )

    def write_onnx(
        self, graph: Graph, weights: Mapping[str, Array], path: str | os.PathLike[str]
    ) -> Path:
        """Write the model's own file with these weights."""
        from nbglcnn.load.onnx.write import write_onnx

        return write_onnx(self.user_model, weights, path)

    def training_mode(self) -> TrainingMode:
        """Return the model with its Dropouts replaced by products with 1."""
        from nbglcnn.load.training_mode import onnx_training_mode

        return onnx_training_mode(self)


def _check_model_type(model: Any) -> None:
    """Raise ModelError if it is not an ONNX model; the message says what to pass."""
    if isinstance(model, str | os.PathLike | bytes | bytearray | memoryview) or _is_proto(model):
        return
    if hasattr(model, "read"):
        raise ModelError(
            f"{type(model).__name__} is not a model: give the file's path, or its bytes, as "
            "file.read() returns them"
        )
    if isinstance(model, type):
        name = model.__name__
        raise ModelError(f"{name} is a class, not a model: give an instance of it, {name}(…)")
    if isinstance(model, Mapping):
        raise ModelError(
            f"{type(model).__name__} is not a model: it contains weights. Build their module, "
            "call module.load_state_dict(weights), and give the module"
        )
    raise ModelError(
        f"{type(model).__name__} is not a model: give a torch.nn.Module, an onnx.ModelProto or "
        "a path to an .onnx file"
    )


def _is_proto(model: Any) -> bool:
    """Whether an object is an onnx.ModelProto; checked without importing onnx."""
    return getattr(getattr(model, "DESCRIPTOR", None), "full_name", "") == "onnx.ModelProto"
