"""What PyTorch's exporter gets wrong, put right in the traced program before it translates that."""

from __future__ import annotations

import keyword
import re
from math import prod
from typing import Any

from nbglcnn.errors import UnsupportedOperator
from nbglcnn.load.torch.source import line_of_node, module_of, path_of

# What ends a string in double quotes, or its line, where it is written as it is.
_UNWRITABLE = re.compile(r'["\n\r\x00\\]')


def with_writable_names(program: Any) -> dict[str, str]:
    """Give parameters other names that the exporter cannot write; gives new name: old.

    It writes Python text with their paths, `self.heads.class.weight`, and compiles it: no part may
    be a keyword. With a name that is no identifier it writes getattr, and the name in double quotes
    as it is. It makes modules with these attributes: no part may be one that each module has.
    """
    renamed: dict[str, str] = {}
    taken = {spec.target.partition(".")[0] for spec in program.graph_signature.input_specs
             if spec.target is not None}  # fmt: skip
    for spec in program.graph_signature.input_specs:
        old = spec.target
        if old is None or not (_UNWRITABLE.search(old) or any(map(_is_taken, old.split(".")))):
            continue
        number = len(renamed)
        while f"renamed-{number}" in taken:
            number += 1
        spec.target = f"renamed-{number}"
        taken.add(spec.target)
        renamed[spec.target] = old
        for table in (program.state_dict, program.constants):
            if old in table:
                table[spec.target] = table.pop(old)
    return renamed


def _is_taken(part: str) -> bool:
    """Whether it is a keyword or a method of modules, as `half` or `to`."""
    import torch

    return keyword.iskeyword(part) or hasattr(torch.nn.Module, part)


def correct_average_pools(program: Any) -> None:
    """Divide as divisor_override says, which the exporter silently ignores."""
    import torch

    aten = torch.ops.aten
    pools = {aten.avg_pool2d.default: 2, aten.avg_pool3d.default: 3}
    for node in list(program.graph.nodes):
        if node.op != "call_function" or node.target not in pools:
            continue
        arguments = dict(zip(_POOL, node.args, strict=False)) | dict(node.kwargs)
        divisor = arguments.pop("divisor_override", None)
        if divisor is None:
            continue
        if arguments.get("ceil_mode"):
            raise _refusal(
                node, f"{module_of(node)}: average pooling with both ceil_mode and divisor_override"
            )
        size = arguments["kernel_size"]
        area = size[0] ** pools[node.target] if len(size) == 1 else 1
        for length in size if len(size) > 1 else ():
            area *= length
        arguments["count_include_pad"] = True
        node.args = (arguments.pop("input"), arguments.pop("kernel_size"))
        node.kwargs = {n: arguments[n] for n in _POOL if n in arguments}
        with program.graph.inserting_after(node):
            scaled = program.graph.call_function(aten.mul.Tensor, (node, area / divisor))
        scaled.meta = dict(node.meta)
        node.replace_all_uses_with(scaled)
        scaled.args = (node, area / divisor)


def normalize_by_the_batch(program: Any) -> None:
    """Take the running statistics from a batch norm in training mode, which ignores them.

    In training mode is also a module that forward makes, nn.BatchNorm2d(3)(x). The exporter would
    normalize by the running statistics.
    """
    import torch

    aten = torch.ops.aten
    norms = (aten.batch_norm.default, aten.native_batch_norm.default)
    legit = aten._native_batch_norm_legit.default
    for node in program.graph.nodes:
        if node.op != "call_function" or node.target not in (*norms, legit):
            continue
        names = [one.name for one in node.target._schema.arguments]
        given = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
        if given["training"] is not True:
            continue
        for name in ("running_mean", "running_var"):
            if given[name] is not None and any(user > node for user in given[name].users):
                raise _refusal(
                    node,
                    f"{module_of(node)}{line_of_node(node)}: batch_norm in training mode changes "
                    f"its {name}, which is read again behind it; that isn't supported. Call it in "
                    "one mode, or give it a clone of the statistics",
                )
            given[name] = None
        node.args, node.kwargs = tuple(given[name] for name in names), {}


def clamp_by_one_type(program: Any) -> None:
    """Give clamp(x, 0, 0.5) two floats: the exporter makes a tensor of the whole number alone."""
    import torch

    for node in program.graph.nodes:
        if node.target is not torch.ops.aten.clamp.default:
            continue
        x, *ends = node.args
        if not x.meta["val"].is_floating_point():
            continue
        # A bool or symbol stays what it is.
        node.args = (x, *(float(end) if type(end) is int else end for end in ends))
        node.kwargs = {n: float(v) if type(v) is int else v for n, v in node.kwargs.items()}


_POOL = (
    *("input", "kernel_size", "stride", "padding", "ceil_mode", "count_include_pad"),
    "divisor_override",
)


def refuse_wrong_translations(program: Any) -> None:
    """Refuse what the exporter takes apart into other numbers than PyTorch's."""
    import torch

    for node in program.graph.nodes:
        if node.target is torch.ops.aten.multilabel_margin_loss.default:
            raise _refusal(
                node,
                f"{module_of(node)}{line_of_node(node)}: PyTorch's exporter translates "
                "multilabel_margin_loss to ONNX wrongly; compute the loss outside the network",
            )


def _refusal(node: Any, words: str) -> UnsupportedOperator:
    refusal = UnsupportedOperator(words)
    refusal.module = path_of(node)
    return refusal


def attend_in_four_dimensions(program: Any) -> None:
    """Give scaled_dot_product_attention (examples, heads, tokens, features), all that ONNX has."""
    import torch

    aten, graph = torch.ops.aten, program.graph

    def reshaped(value: Any, shape: list[int]) -> Any:
        made = graph.call_function(aten.reshape.default, (value, shape))
        made.meta = {**value.meta, "val": value.meta["val"].reshape(shape)}
        return made

    for node in list(graph.nodes):
        if node.target is not aten.scaled_dot_product_attention.default:
            continue
        *before, length, _ = node.args[0].meta["val"].shape
        if len(before) == 2:
            continue
        *several, heads = [1, 1, *before][-max(2, len(before)) :]
        examples = [prod(several), heads]
        with graph.inserting_before(node):
            q, k, v = (reshaped(x, [*examples, *x.meta["val"].shape[-2:]]) for x in node.args[:3])
            others = list(node.args[3:])
            mask = others[0] if others else node.kwargs.get("attn_mask")
            if mask is not None and mask.meta["val"].ndim > 2:
                whole = [*before, *mask.meta["val"].shape[-2:]]
                spread = graph.call_function(aten.expand.default, (mask, whole))
                spread.meta = {**mask.meta, "val": mask.meta["val"].expand(whole)}
                mask = reshaped(spread, [*examples, *whole[-2:]])
            given = dict(node.kwargs) | dict(zip(_ATTENTION, others, strict=False))
            given |= {"attn_mask": mask} if mask is not None else {}
            attended = graph.call_function(node.target, (q, k, v), given)
            width = v.meta["val"].shape[-1]
            value = node.meta["val"].reshape([*examples, length, width])
            attended.meta = {**node.meta, "val": value}
            back = reshaped(attended, [*before, length, width])
        back.meta = {**node.meta}
        node.replace_all_uses_with(back)
        for spec in program.graph_signature.output_specs:
            if getattr(spec.arg, "name", None) == node.name:
                spec.arg.name = back.name
        graph.erase_node(node)


_ATTENTION = ("attn_mask", "dropout_p", "is_causal")


def name_all_dimensions(program: Any) -> None:
    """Write out the dimensions of x.amax(), which the exporter wants although it means all."""
    import torch

    aten = torch.ops.aten
    for node in program.graph.nodes:
        if node.target in (aten.amax.default, aten.amin.default):
            given = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", ())
            if not given and "dim" not in node.kwargs:
                every = list(range(node.args[0].meta["val"].ndim))
                node.args = (node.args[0], every, *node.args[2:])


def without_idle_squeezes(program: Any) -> None:
    """x.squeeze(1) leaves a dimension that isn't 1 as it is, where ONNX's Squeeze is refused."""
    import torch

    aten = torch.ops.aten
    for node in program.graph.nodes:
        if node.target in (aten.squeeze.dim, aten.squeeze.dims) and len(node.args) > 1:
            shape, given = node.args[0].meta["val"].shape, node.args[1]
            dims = [given] if isinstance(given, int) else list(given)
            kept = [dim for dim in dims if not shape or shape[dim] == 1]
            if kept == dims:
                continue
            node.target = aten.squeeze.dims if kept else aten.clone.default
            node.args = (node.args[0], kept) if kept else (node.args[0],)
