"""The differences of a model in training mode from eval mode, in which it is loaded.

A torch module is loaded from a copy in eval mode, and its modules' training behaviour is stored
separately. In an ONNX file each Dropout becomes a product with a constant 1, which training can
replace with a mask.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from nbglcnn.errors import UnsupportedModel
from nbglcnn.graph import Array, Graph, Node
from nbglcnn.load.model import Model
from nbglcnn.load.size_limits import quote_name

if TYPE_CHECKING:
    import torch

    from nbglcnn.load.onnx.onnx_model import OnnxModel

DROPOUT_SUFFIX = " kept"  # suffix of the constants of 1 that replace Dropouts


@dataclass(frozen=True, slots=True)
class DropoutSpec:
    """A module's random dropout, with probability p per element, channel or example.

    Dropped values become `fill`; then all values become `scale` · x + `shift`.
    """

    p: float
    granularity: Literal["elements", "channels", "examples"] = "elements"
    scale: float = 1.0
    fill: float = 0.0
    shift: float = 0.0


def make_dropout(
    p: float,
    granularity: Literal["elements", "channels", "examples"] = "elements",
    *,
    rescale: bool = True,
) -> DropoutSpec:
    """Return a DropoutSpec; with `rescale`, kept values are divided by 1 − p."""
    return DropoutSpec(p, granularity, 1 / (1 - p) if rescale and p < 1 else 1.0)


@dataclass(frozen=True, slots=True)
class BatchNormSpec:
    """A BatchNorm's update of statistics: running = (1 − momentum) · running + momentum · new.

    If momentum is None, the statistics are the mean of all batches, `batch_count` of them so far.
    """

    momentum: float | None
    batch_count: int = 0


@dataclass(frozen=True, slots=True)
class TrainingMode:
    """A model as loaded for training, with its differences from eval mode.

    `dropouts` are keyed by module path, or for an ONNX file by the name of the constant 1 that
    replaces a Dropout. `norms` are keyed by the path of each BatchNorm that uses batch statistics
    (None: all do). `frozen` are parameters with requires_grad=False. `module` is the user's own
    module, None for an ONNX file.
    """

    model: Model
    dropouts: Mapping[str, DropoutSpec] = field(default_factory=dict)
    norms: Mapping[str, BatchNormSpec] | None = None
    frozen: frozenset[str] = frozenset()
    module: torch.nn.Module | None = None

    def norm_spec(self, node: Node) -> BatchNormSpec | None:
        """A BatchNormalization node's statistics update; None if the statistics are fixed."""
        if self.norms is not None:
            return self.norms.get(node.module)
        momentum = node.attributes.get("momentum", 0.9)
        assert isinstance(momentum, int | float)
        return BatchNormSpec(1 - momentum)


def onnx_training_mode(model: OnnxModel) -> TrainingMode:
    """An ONNX file with its Dropouts replaced with products by 1."""
    import numpy as np
    from onnx import numpy_helper

    from nbglcnn.load.onnx.model_file import embed_external_data, read_model
    from nbglcnn.load.onnx.onnx_model import OnnxModel

    proto, _, folder = read_model(model.user_model)
    if not any(node.op_type == "Dropout" for node in proto.graph.node):
        return TrainingMode(model)
    own = embed_external_data(proto, folder)
    dropouts: dict[str, DropoutSpec] = {}
    taken = {name for node in own.graph.node for name in (*node.input, *node.output)}
    for node in own.graph.node:
        if node.op_type != "Dropout" or node.domain not in ("", "ai.onnx"):
            continue
        p = _dropout_ratio(own, node)
        if p <= 0 or any(node.output[1:]):
            continue
        one = f"{node.output[0]}{DROPOUT_SUFFIX}"
        while one in taken:
            one += "'"
        taken.add(one)
        dropouts[one] = make_dropout(p)
        own.graph.initializer.append(numpy_helper.from_array(np.array(1, np.float32), one))
        source = node.input[0]
        del node.input[:], node.attribute[:]
        node.input.extend([source, one])
        node.op_type = "Mul"
    return TrainingMode(OnnxModel(own), dropouts)


def _dropout_ratio(proto: Any, node: Any) -> float:
    """A Dropout's probability: an attribute, or an input since opset 12; default 0.5."""
    from onnx import numpy_helper

    for attribute in node.attribute:
        if attribute.name == "ratio":
            return float(attribute.f)
    if len(node.input) < 2 or not node.input[1]:
        return 0.5
    for tensor in proto.graph.initializer:
        if tensor.name == node.input[1]:
            return float(numpy_helper.to_array(tensor))
    for other in proto.graph.node:
        if node.input[1] in other.output and other.op_type == "Constant":
            return float(numpy_helper.to_array(other.attribute[0].t))
    raise UnsupportedModel(
        f"{quote_name(node.name or node.output[0])}: the ratio of this Dropout is computed; "
        "training needs a constant ratio"
    )


def dropout_keys(mode: TrainingMode, graph: Graph) -> dict[str, DropoutSpec]:
    """The dropout of each layer key that has one, by key name."""
    found = {}
    for key in graph.keys:
        path = re.sub(r":\d+$", "", key.module_call or "")
        own = mode.dropouts.get(key.module_call or "") or mode.dropouts.get(path)
        if own is not None and key.kind == "layer":
            found[key.name] = own
    return found


def check_training(
    mode: TrainingMode, arrays: Sequence[Array], parameters: Collection[str]
) -> None:
    """Raise UnsupportedModel if a torch module's own code behaves differently in training mode.

    Also if code modifies the gradients of these parameters.
    """
    if mode.module is not None:
        from nbglcnn.load.torch.checks.training_mode import check_training_mode

        check_training_mode(mode, arrays, parameters)
