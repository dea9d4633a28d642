"""Workarounds for errors in onnxscript's functions, applied to the recorded program first."""

from __future__ import annotations

from functools import cache
from math import prod
from typing import Any

from nbglcnn.errors import UnsupportedOperator
from nbglcnn.load.torch.isolation.source_lines import describe_module, line_of_node, module_path
from nbglcnn.load.torch.translate.aten_translations import TRANSLATIONS


def apply_divisor_override(program: Any) -> None:
    """Apply divisor_override as a factor, since onnxscript silently ignores it."""
    import torch

    aten = torch.ops.aten
    pools = {aten.avg_pool2d.default: 2, aten.avg_pool3d.default: 3}
    for node in list(program.graph.nodes):
        if node.op != "call_function" or node.target not in pools:
            continue
        arguments = dict(zip(_AVG_POOL_ARGUMENTS, node.args, strict=False)) | dict(node.kwargs)
        divisor = arguments.pop("divisor_override", None)
        if divisor is None:
            continue
        if arguments.get("ceil_mode"):
            raise _refusal(
                node,
                f"{describe_module(node)}: average pooling with both ceil_mode and "
                "divisor_override is not supported",
            )
        size = arguments["kernel_size"]
        area = size[0] ** pools[node.target] if len(size) == 1 else 1
        for length in size if len(size) > 1 else ():
            area *= length
        arguments["count_include_pad"] = True
        node.args = (arguments.pop("input"), arguments.pop("kernel_size"))
        node.kwargs = {n: arguments[n] for n in _AVG_POOL_ARGUMENTS if n in arguments}
        with program.graph.inserting_after(node):
            scaled = program.graph.call_function(aten.mul.Tensor, (node, area / divisor))
        scaled.meta = dict(node.meta)
        node.replace_all_uses_with(scaled)
        scaled.args = (node, area / divisor)


def unify_clamp_types(program: Any) -> None:
    """Make the bounds of clamp(x, 0, 0.5) floats: onnxscript converts an int bound separately."""
    import torch

    for node in program.graph.nodes:
        if node.target is not torch.ops.aten.clamp.default:
            continue
        x, *ends = node.args
        if not x.meta["val"].is_floating_point():
            continue
        # Bools and symbols stay as they are.
        node.args = (x, *(float(end) if type(end) is int else end for end in ends))
        node.kwargs = {n: float(v) if type(v) is int else v for n, v in node.kwargs.items()}


_AVG_POOL_ARGUMENTS = (
    *("input", "kernel_size", "stride", "padding", "ceil_mode", "count_include_pad"),
    "divisor_override",
)


def _refusal(node: Any, message: str) -> UnsupportedOperator:
    refusal = UnsupportedOperator(message)
    refusal.module = module_path(node)
    return refusal


def make_attention_4d(program: Any) -> None:
    """Reshape attention to (examples, heads, tokens, features), the only layout that ONNX has."""
    import torch

    aten, graph = torch.ops.aten, program.graph

    def reshaped(value: Any, shape: list[int]) -> Any:
        made = graph.call_function(aten.reshape.default, (value, shape))
        made.meta = {**node.meta, "val": value.meta["val"].reshape(shape)}
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
                spread.meta = {**node.meta, "val": mask.meta["val"].expand(whole)}
                mask = reshaped(spread, [*examples, *whole[-2:]])
            given = dict(node.kwargs) | dict(zip(_ATTENTION_ARGUMENTS, others, strict=False))
            given |= {"attn_mask": mask} if mask is not None else {}
            attended = graph.call_function(node.target, (q, k, v), given)
            width = v.meta["val"].shape[-1]
            value = node.meta["val"].reshape([*examples, length, width])
            attended.meta = {**node.meta, "val": value}
            back = reshaped(attended, [*before, length, width])
        back.meta = {**node.meta}
        node.replace_all_uses_with(back)
        graph.erase_node(node)


_ATTENTION_ARGUMENTS = ("attn_mask", "dropout_p", "is_causal")


def list_all_dims(program: Any) -> None:
    """List all dimensions of x.amax() explicitly, since onnxscript requires them."""
    import torch

    aten = torch.ops.aten
    for node in program.graph.nodes:
        if node.target in (aten.amax.default, aten.amin.default):
            given = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", ())
            if not given and "dim" not in node.kwargs:
                every = list(range(node.args[0].meta["val"].ndim))
                node.args = (node.args[0], every, *node.args[2:])


def remove_ignored_squeezes(program: Any) -> None:
    """Drop squeezed dimensions other than 1: PyTorch ignores them, ONNX's Squeeze rejects them."""
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


def promote_types(program: Any) -> None:
    """Convert each operator's operands to one dtype, as PyTorch does implicitly."""
    import torch

    graph = program.graph
    mixed = [node for node in graph.nodes if _is_operator(node) and not _is_float32(node)]
    if not mixed:
        return
    from torch.onnx._internal.fx import type_utils
    from torch.onnx._internal.fx.passes import type_promotion

    table = _type_promotion_table()

    def value(one: Any) -> Any:
        return one.meta["val"] if isinstance(one, torch.fx.Node) else one

    def converted(one: Any, dtype: Any, node: Any) -> Any:
        if dtype is None or one is None:
            return one
        if isinstance(one, list | tuple):
            return type(one)([converted(each, dtype, node) for each in one])
        found = value(one)
        if isinstance(found, torch.Tensor):
            if found.dtype == dtype:
                return one
            call = torch.ops.prims.convert_element_type.default, (one,), {"dtype": dtype}
            like = found.to(dtype)
        else:
            own = type_utils.from_scalar_type_to_torch_dtype(type(found))
            if own is None or own == dtype:
                return one
            call = torch.ops.aten.scalar_tensor.default, (found,), {"dtype": dtype}
            like = torch.empty((), dtype=dtype, device="meta")
        with graph.inserting_before(node):
            made = graph.call_function(*call)
        made.meta = {**node.meta, "val": like}
        return made

    for node in mixed:
        rule = type_promotion.get_type_promotion_rule(node, table)
        if rule is None:
            continue
        args, kwargs = torch.fx.map_arg(node.args, value), torch.fx.map_arg(node.kwargs, value)
        wanted = rule.preview_type_promotion(args, kwargs)
        new = tuple(
            converted(one, wanted.args_dtypes.get(at), node) for at, one in enumerate(node.args)
        )
        named = {n: converted(one, wanted.kwargs_dtypes.get(n), node)
                 for n, one in node.kwargs.items()}  # fmt: skip
        if new == node.args and named == dict(node.kwargs):
            continue
        before = node.meta["val"]
        node.args, node.kwargs = new, named
        args, kwargs = torch.fx.map_arg(new, value), dict(torch.fx.map_arg(named, value))
        try:
            node.target = type_promotion.find_compatible_op_overload(
                node.target.overloadpacket, args, kwargs
            )
            after = node.target(*args, **kwargs)
        except RuntimeError as error:
            raise _refusal(
                node,
                f"{describe_module(node)}{line_of_node(node)}: {node.meta['called']} with values "
                "of different types can't be exported to ONNX; convert them to one type first, "
                "as with .float()",
            ) from error
        if isinstance(before, torch.Tensor) and after.dtype != before.dtype:
            with graph.inserting_after(node):
                back = graph.call_function(
                    torch.ops.prims.convert_element_type.default, (node,), {"dtype": before.dtype}
                )
            back.meta = dict(node.meta)
            node.meta = {**node.meta, "val": after}
            node.replace_all_uses_with(back)
            back.args = (node,)


def _is_float32(node: Any) -> bool:
    """Whether all operands are float32 in an operator of TRANSLATIONS (takes Python numbers)."""
    import torch

    found = [node, *node.all_input_nodes]
    values = [one.meta["val"] for one in found]
    return node.target in TRANSLATIONS and all(
        isinstance(one, torch.Tensor) and one.dtype is torch.float32 for one in values
    )


def _is_operator(node: Any) -> bool:
    return node.op == "call_function" and hasattr(node.target, "overloadpacket")


@cache
def _type_promotion_table() -> Any:
    from torch.onnx._internal.fx.passes.type_promotion import TypePromotionTable

    return TypePromotionTable()
