"""Dropouts that model.eval() leaves on: each call has another mask, so that no graph is theirs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nbglcnn.errors import UnsupportedModel
from nbglcnn.load.noise import OUTSIDE
from nbglcnn.load.torch.source import line_of_node, module_of

ATTENTION = "scaled_dot_product_attention"
# What draws a mask, by its name as a function or an operator: the function of
# torch.nn.functional to write, and the module.
MASKS: Mapping[str, tuple[str, str]] = {
    "dropout": ("dropout", "Dropout"),
    "native_dropout": ("dropout", "Dropout"),
    "dropout1d": ("dropout1d", "Dropout1d"),
    "dropout2d": ("dropout2d", "Dropout2d"),
    "dropout3d": ("dropout3d", "Dropout3d"),
    "feature_dropout": ("dropout2d", "Dropout2d"),
    "alpha_dropout": ("alpha_dropout", "AlphaDropout"),
    "feature_alpha_dropout": ("feature_alpha_dropout", "FeatureAlphaDropout"),
    "rrelu": ("rrelu", "RReLU"),
    "multi_head_attention_forward": ("multi_head_attention_forward", "MultiheadAttention"),
    ATTENTION: (ATTENTION, ""),
}


def left_on(place: str, name: str) -> str:
    """What to say of one at a place of the model's code."""
    function, module = MASKS[name]
    if name == ATTENTION:
        write = f"F.{function}(…, dropout_p=p if self.training else 0.0)"
    else:
        write = (
            f"F.{function}(…, training=self.training), or make nn.{module} in __init__: a module "
            "that forward makes is in training mode"
        )
    drawn = "slopes" if name == "rrelu" else "a mask"
    return (
        f"{place}: {name} draws {drawn} at random in each call, and model.eval() does not switch "
        f"it off. Write {write}. If the random numbers are meant, {OUTSIDE}"
    )


def refuse_masks(program: Any) -> None:
    """UnsupportedModel for a dropout in a traced program; Python would draw another mask, too."""
    for node in program.graph.nodes:
        schema = getattr(node.target, "_schema", None)
        if schema is None or not schema.name.startswith("aten::"):
            continue
        name = schema.name.removeprefix("aten::").strip("_")
        if name in MASKS and _draws({**_arguments(schema, node), **node.kwargs}):
            raise UnsupportedModel(left_on(f"{module_of(node)}{line_of_node(node)}", name))


def _draws(given: Mapping[str, Any]) -> bool:
    if "lower" in given:  # rrelu
        return bool(given["training"])
    share = given.get("p", given.get("dropout_p", 0.0))
    return share > 0 and given.get("train", True) is not False


def _arguments(schema: Any, node: Any) -> dict[str, Any]:
    """The arguments by name, with the defaults of those that are left out."""
    defaults = {one.name: one.default_value for one in schema.arguments}
    names = [one.name for one in schema.arguments]
    return {**defaults, **dict(zip(names, node.args, strict=False))}
