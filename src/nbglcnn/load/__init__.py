"""Loading a model to a Graph and its inputs. No other package uses torch, onnx or the file system.

torch and onnx are imported only when a model needs them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nbglcnn.errors import InputError
from nbglcnn.graph import Graph
from nbglcnn.inputs.known_transforms import to_preprocess
from nbglcnn.load.comparison_model import ComparisonModel
from nbglcnn.load.model import ComparisonSide, LoadResult, Model, ValuesByKey
from nbglcnn.load.module_keys import convert_inputs
from nbglcnn.load.parameters import (
    match_state_dict_names,
    parameters_of,
    replace_elements,
    with_parameters,
)
from nbglcnn.load.preprocessed_model import PreprocessedModel, run_preprocess, strip_preprocess
from nbglcnn.load.torch.isolation.process_state import load_lock

if TYPE_CHECKING:
    from nbglcnn.load.torch.weights.parameter_snapshots import ModelTensors, TensorSnapshot

__all__ = [
    "ComparisonModel",
    "ComparisonSide",
    "LoadResult",
    "Model",
    "PreprocessedModel",
    "ValuesByKey",
    "convert_inputs",
    "find_tensors",
    "is_module",
    "is_rewritten_on_load",
    "load",
    "load_lock",
    "match_state_dict_names",
    "parameters_of",
    "replace_elements",
    "run_preprocess",
    "shape_input_indices",
    "snapshot_tensors",
    "strip_preprocess",
    "with_parameters",
    "wrap_model",
]


def wrap_model(model: Any, preprocess: Any = None) -> Model:
    """Wrap the user's model as a Model; the only place that distinguishes the kinds of models.

    Args:
        model: A torch.nn.Module, an ONNX ModelProto, its bytes, the path of its file, or a Model.
        preprocess: The argument of `nbglcnn.compile`.

    Raises:
        ModelError: If the type of `model` is not supported.
        InputError: If `preprocess` is not supported, or the model already has one.
    """
    found: Model
    if is_module(model):
        from nbglcnn.load.torch.model import TorchModel

        found = TorchModel(model)
    elif isinstance(model, Model):
        found = model
    else:
        from nbglcnn.load.onnx.onnx_model import OnnxModel

        found = OnnxModel(model)
    if preprocess is None:
        return found
    if isinstance(found, PreprocessedModel | ComparisonModel):
        raise InputError("preprocess: this model already has one")
    [leaf] = found.base_models
    return PreprocessedModel(leaf, to_preprocess(preprocess))


def load(model: Any, x: Any = None, collected_values: ValuesByKey | None = None) -> LoadResult:
    """Load a torch module, an ONNX ModelProto, its bytes or its file as a Graph and all its inputs.

    `x` is an example input (a tuple for several, or a dict by name); only an ONNX model with static
    shapes can be loaded without it. The arrays that replace forward's random numbers follow the
    arrays of `x`. `collected_values` receives values that were computed for `x` while loading, by
    key: the outputs of a torch module's modules, nothing for ONNX.
    """
    return wrap_model(model).load(x, collected_values)


def is_rewritten_on_load(op: str, domain: str = "") -> bool:
    """Whether loading an ONNX model replaces an operator by others, or removes it."""
    from nbglcnn.load.onnx.microsoft_operators import CONVERSION_RULES, MICROSOFT_DOMAIN
    from nbglcnn.load.passes.decompose import DECOMPOSITIONS
    from nbglcnn.load.passes.rewrite import ALWAYS_REWRITTEN, SHAPE_INPUTS, UPGRADES

    if domain:
        return domain == MICROSOFT_DOMAIN and op in CONVERSION_RULES
    return op in ("Identity", "If", *ALWAYS_REWRITTEN, *UPGRADES, *DECOMPOSITIONS, *SHAPE_INPUTS)


def shape_input_indices(op: str) -> tuple[int, ...]:
    """Indices of the inputs that are shapes, for an operator that loading rewrites."""
    from nbglcnn.load.passes.rewrite import SHAPE_INPUTS

    return SHAPE_INPUTS.get(op, ())


def find_tensors(model: Any, graph: Graph) -> ModelTensors:
    """Find a torch module's tensors for a Graph's parameters; InputError if any are missing."""
    from nbglcnn.load.torch.weights.parameter_snapshots import ModelTensors

    shapes = {name: graph.shape(value) for name, value in graph.parameters.items()}
    return ModelTensors(model, shapes, graph.name)


def snapshot_tensors(tensors: Mapping[str, Any]) -> TensorSnapshot:
    """Take a snapshot of tensors; its arrays are fetched later, on demand."""
    from nbglcnn.load.torch.weights.parameter_snapshots import TensorSnapshot

    return TensorSnapshot(tensors)


def is_module(model: Any) -> bool:
    """Whether an object is a torch.nn.Module; checked without importing torch."""
    names = {(c.__module__, c.__name__) for c in type(model).__mro__}
    return ("torch.nn.modules.module", "Module") in names
