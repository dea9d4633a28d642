"""Loading: the only place that knows torch, onnx and the file system. Gives a Graph and its inputs.

Nothing of torch or onnx is imported before a model is given.
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
from nbglcnn.load.parameters import parameters_of, replace_elements, unwrap_names, with_parameters
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
    "is_rewritten",
    "load",
    "load_lock",
    "model_of",
    "parameters_of",
    "replace_elements",
    "rewritten_shape_inputs",
    "run_preprocess",
    "snapshot_tensors",
    "strip_preprocess",
    "unwrap_names",
    "with_parameters",
]


def model_of(model: Any, preprocess: Any = None) -> Model:
    """The Model of what the user gives: the only place that tells its kinds apart.

    Args:
        model: a torch.nn.Module, an ONNX ModelProto, its bytes or its file's path; or a Model.
        preprocess: what `nbglcnn.compile` takes.

    Raises:
        ModelError: `model` is none of these.
        InputError: `preprocess` isn't known, or the model has one already.
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


def load(model: Any, x: Any = None, known: ValuesByKey | None = None) -> LoadResult:
    """The Graph of a torch module, an ONNX ModelProto, its bytes or its file, and all its inputs.

    `x` is an example input (a tuple for several, or a dict by name); only an ONNX model with static
    shapes can do without. Behind its arrays come those that stand for what forward draws. `known`
    receives by key what was computed of `x` on the way: of a torch module the values that its
    modules gave, else nothing.
    """
    return model_of(model).load(x, known)


def is_rewritten(op: str, domain: str = "") -> bool:
    """Whether an operator is put into others, or nothing, while an ONNX model is loaded."""
    from nbglcnn.load.onnx.microsoft import CONVERTIBLE, MICROSOFT
    from nbglcnn.load.passes.decompose import DECOMPOSITIONS
    from nbglcnn.load.passes.rewrite import ALWAYS_REWRITTEN, SHAPE_INPUTS, UPGRADES

    if domain:
        return domain == MICROSOFT and op in CONVERTIBLE
    return op in ("Identity", "If", *ALWAYS_REWRITTEN, *UPGRADES, *DECOMPOSITIONS, *SHAPE_INPUTS)


def rewritten_shape_inputs(op: str) -> tuple[int, ...]:
    """Which inputs are shapes, of an operator that has no record because loading rewrites it."""
    from nbglcnn.load.passes.rewrite import SHAPE_INPUTS

    return SHAPE_INPUTS.get(op, ())


def find_tensors(model: Any, graph: Graph) -> ModelTensors:
    """The tensors of a torch module that a Graph has as its parameters; InputError without them."""
    from nbglcnn.load.torch.weights.parameter_snapshots import ModelTensors

    shapes = {name: graph.shape(value) for name, value in graph.parameters.items()}
    return ModelTensors(model, shapes, graph.name)


def snapshot_tensors(tensors: Mapping[str, Any]) -> TensorSnapshot:
    """Tensors as they are now, to be asked for later."""
    from nbglcnn.load.torch.weights.parameter_snapshots import TensorSnapshot

    return TensorSnapshot(tensors)


def is_module(model: Any) -> bool:
    """Whether it is a torch.nn.Module, told without importing torch."""
    names = {(c.__module__, c.__name__) for c in type(model).__mro__}
    return ("torch.nn.modules.module", "Module") in names
