"""What a model does in training mode and not in eval mode, which is what gets loaded.

A torch module is loaded from a copy in eval mode, and what its modules say of training is kept
beside it. In an ONNX file each Dropout becomes a product with 1, in whose place masks can be put.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from nbglcnn.errors import UnsupportedModel
from nbglcnn.graph import Array, Graph, Node
from nbglcnn.load.bounds import quote_name
from nbglcnn.load.model import Model

if TYPE_CHECKING:
    import torch

    from nbglcnn.load.onnx.onnx_model import OnnxModel

DROPOUT_SUFFIX = " kept"  # ends the names of constants of 1 in the place of Dropouts


@dataclass(frozen=True, slots=True)
class DropoutSpec:
    """What a module drops at random, each with the probability p: elements, channels or examples.

    What is dropped becomes `fill`, and all is `scale` · x + `shift` then.
    """

    p: float
    granularity: Literal["elements", "channels", "examples"] = "elements"
    scale: float = 1.0
    fill: float = 0.0
    shift: float = 0.0


def make_dropout(
    p: float, of: Literal["elements", "channels", "examples"] = "elements", *, rescale: bool = True
) -> DropoutSpec:
    """What is left is divided by its share, where that is `rescale`."""
    return DropoutSpec(p, of, 1 / (1 - p) if rescale and p < 1 else 1.0)


@dataclass(frozen=True, slots=True)
class BatchNormSpec:
    """How a BatchNorm keeps its statistics: running = (1 − momentum) · running + momentum · new.

    Without a momentum they are the mean of all batches, of which there were `batch_count` before.
    """

    momentum: float | None
    batch_count: int = 0


@dataclass(frozen=True, slots=True)
class TrainingMode:
    """A model as it is loaded for training, and what is otherwise when it trains.

    `dropouts` are by the paths of modules, or by the names of the constants of 1 that stand in the
    place of an ONNX file's; `norms` are by the paths of the BatchNorms that use a batch's
    statistics (None: all of them do); `frozen` are parameters that ask for no gradient. `module`
    is the user's own, None for an ONNX file.
    """

    model: Model
    dropouts: Mapping[str, DropoutSpec] = field(default_factory=dict)
    norms: Mapping[str, BatchNormSpec] | None = None
    frozen: frozenset[str] = frozenset()
    module: torch.nn.Module | None = None

    def norm_spec(self, node: Node) -> BatchNormSpec | None:
        """How a BatchNormalization node keeps its statistics; None where they stay."""
        if self.norms is not None:
            return self.norms.get(node.module)
        momentum = node.attributes.get("momentum", 0.9)
        assert isinstance(momentum, int | float)
        return BatchNormSpec(1 - momentum)


def onnx_training_mode(model: OnnxModel) -> TrainingMode:
    """An ONNX file with products by 1 in the place of its Dropouts."""
    import numpy as np
    from onnx import numpy_helper

    from nbglcnn.load.onnx.file import embed_external_data, read_model
    from nbglcnn.load.onnx.onnx_model import OnnxModel

    proto, _, folder = read_model(model.source)
    if not any(node.op_type == "Dropout" for node in proto.graph.node):
        return TrainingMode(model)
    own = embed_external_data(proto, folder)
    dropouts: dict[str, DropoutSpec] = {}
    taken = {name for node in own.graph.node for name in (*node.input, *node.output)}
    for node in own.graph.node:
        if node.op_type != "Dropout" or node.domain not in ("", "ai.onnx"):
            continue
        p = _ratio(own, node)
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


def _ratio(proto: Any, node: Any) -> float:
    """A Dropout's probability: an attribute, or since operator set 12 an input; else 0.5."""
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
    """The keys of calls that drop something, by name."""
    found = {}
    for key in graph.keys:
        path = re.sub(r":\d+$", "", key.call or "")
        own = mode.dropouts.get(key.call or "") or mode.dropouts.get(path)
        if own is not None and key.kind == "layer":
            found[key.name] = own
    return found


def check_training(
    mode: TrainingMode, arrays: Sequence[Array], parameters: Collection[str]
) -> None:
    """UnsupportedModel where a torch module's own code does something else in training mode.

    So does code that changes the gradients of these parameters.
    """
    if mode.module is not None:
        from nbglcnn.load.torch.checks.training_mode import check_training_mode

        check_training_mode(mode, arrays, parameters)
