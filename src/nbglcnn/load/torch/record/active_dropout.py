"""Dropouts that model.eval() leaves active: each call draws a new mask, so no graph is fixed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbglcnn.errors import UnsupportedModel
from nbglcnn.load.noise import DRAW_OUTSIDE_HINT
from nbglcnn.load.torch.isolation.source_lines import describe_module, line_of_node

if TYPE_CHECKING:
    import torch

ATTENTION = "scaled_dot_product_attention"
# Functions and operators that draw a mask, by name: the torch.nn.functional function and the module
# that the error recommends.
RECOMMENDED_DROPOUTS: Mapping[str, tuple[str, str]] = {
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


def active_dropout_message(location: str, name: str, model: torch.nn.Module) -> str:
    """The error message for an active dropout at a place in the model's code."""
    function, module = RECOMMENDED_DROPOUTS[name]
    drawn = "slopes" if name == "rrelu" else "a mask"
    if found := list(_unregistered_dropouts(model)):
        return (
            f"{location}: {name} samples {drawn} in each call, and model.eval() does not turn it "
            f"off: it does not reach {'; '.join(found[:3])}"
        )
    if name == ATTENTION:
        write = f"F.{function}(…, dropout_p=p if self.training else 0.0)"
    else:
        write = (
            f"F.{function}(…, training=self.training), or create nn.{module} in __init__: a "
            "module created in forward is in training mode"
        )
    return (
        f"{location}: {name} samples {drawn} in each call, and model.eval() does not turn it off. "
        f"Write {write}. If you need the random numbers, {DRAW_OUTSIDE_HINT}"
    )


def _unregistered_dropouts(model: torch.nn.Module) -> Iterator[str]:
    """Active dropout modules that are not registered in the model, each with how to register it."""
    import torch

    reached = {id(module) for module in model.modules()}

    def drops(value: Any) -> bool:
        return isinstance(value, torch.nn.Module) and any(
            id(one) not in reached and one.training and type(one).__name__ in _DROPOUT_MODULE_NAMES
            for one in value.modules()
        )

    for path, module in model.named_modules():
        prefix = f"{path}." if path else ""
        for name, value in vars(module).items():
            if name == "_modules" or not isinstance(value, list | tuple | dict):
                continue
            kind = "ModuleDict" if isinstance(value, dict) else "ModuleList"
            items = value.items() if isinstance(value, dict) else enumerate(value)
            for key, one in items:
                if drops(one):
                    yield (
                        f"{prefix}{name}[{key!r}] ({type(one).__name__}), which is in a plain "
                        f"{type(value).__name__}. Write self.{name} = nn.{kind}(…)"
                    )
        forward = type(module).forward
        if (code := getattr(forward, "__code__", None)) is None:
            continue
        for name in code.co_names:
            value = forward.__globals__.get(name)
            if drops(value):
                yield (
                    f"{name} ({type(value).__name__}), a global of {Path(code.co_filename).name}. "
                    f"Make it an attribute of the module in __init__, or call {name}.eval()"
                )
        for name, cell in zip(code.co_freevars, forward.__closure__ or (), strict=True):
            if name != "__class__" and drops(value := cell.cell_contents):
                yield (
                    f"{name} ({type(value).__name__}), a variable of an enclosing function. Make "
                    f"it an attribute of the module in __init__, or call {name}.eval()"
                )


_DROPOUT_MODULE_NAMES = frozenset(module for _, module in RECOMMENDED_DROPOUTS.values() if module)


def refuse_dropouts(program: Any, model: torch.nn.Module) -> None:
    """Raise UnsupportedModel for an active dropout. Python fallback would draw another mask, too.

    A dropout whose result is not used is removed, with the nodes computed from it.
    """
    used, dropped = _used_nodes(program), set[Any]()
    for node in program.graph.nodes:
        schema = getattr(node.target, "_schema", None)
        if schema is None or not schema.name.startswith("aten::"):
            continue
        name = schema.name.removeprefix("aten::").strip("_")
        if name in RECOMMENDED_DROPOUTS and _is_active_dropout(
            {**_arguments(schema, node), **node.kwargs}
        ):
            if node in used:
                place = f"{describe_module(node)}{line_of_node(node)}"
                raise UnsupportedModel(active_dropout_message(place, name, model))
            dropped.add(node)
    for node in program.graph.nodes:
        if not dropped.isdisjoint(node.all_input_nodes):
            dropped.add(node)
    for node in reversed(program.graph.nodes):
        if node in dropped:
            program.graph.erase_node(node)


def refuse_new_layers(program: Any) -> None:
    """Raise UnsupportedModel for a layer created in forward: each call redraws its weights."""
    import torch

    for node in program.graph.nodes:
        if torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
            continue
        if node.meta.get("parameter"):
            raise UnsupportedModel(
                f"{describe_module(node)}{line_of_node(node)}: a layer created in forward has "
                "new random weights at each call; create it in __init__"
            )


def _used_nodes(program: Any) -> set[Any]:
    """The nodes that an output or an in-place write depends on."""
    used = set[Any]()
    for node in reversed(program.graph.nodes):
        schema = getattr(node.target, "_schema", None)
        if node in used or node.op == "output" or (schema is not None and schema.is_mutable):
            used.update((node, *node.all_input_nodes))
    return used


def _is_active_dropout(arguments: Mapping[str, Any]) -> bool:
    if "lower" in arguments:  # `rrelu` draws slopes, not a mask
        return bool(arguments["training"])
    share = arguments.get("p", arguments.get("dropout_p", 0.0))
    return share > 0 and arguments.get("train", True) is not False


def _arguments(schema: Any, node: Any) -> dict[str, Any]:
    """The arguments by name, with the defaults of omitted ones."""
    defaults = {one.name: one.default_value for one in schema.arguments}
    names = [one.name for one in schema.arguments]
    return {**defaults, **dict(zip(names, node.args, strict=False))}
