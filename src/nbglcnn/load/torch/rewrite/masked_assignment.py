"""Rewriting boolean mask assignments: `y[y < 0] = 0` becomes torch.where(y < 0, 0, y).

Indexing with a mask selects as many rows as the mask has ones, which depends on the input's values.
If the selection is changed only elementwise and assigned under the same mask, computing all
elements and then choosing with `where` gives the same result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nbglcnn.errors import UnsupportedOperator
from nbglcnn.load.torch.isolation.source_lines import describe_module, line_of_node, module_path


@dataclass(frozen=True, slots=True)
class _MaskedElements:
    """The full-size value of a masked selection: a node of the same shape as the indexed tensor."""

    mask: Any
    all_elements: Any
    trailing_dims: int  # dimensions after those of the mask


def has_masks(program: Any) -> bool:
    """Whether the program has an assignment under a boolean mask."""
    return any(
        _aten_name(node) == "index_put" and _find_mask(node) for node in _call_nodes(program)
    )


def masks_to_where(program: Any) -> None:
    """Rewrite a program's masked assignments with torch.where."""
    graph = program.graph
    selected: dict[Any, _MaskedElements] = {}
    for node in list(graph.nodes):
        if node.op != "call_function":
            continue
        if _aten_name(node) == "index" and (found := _find_mask(node)):
            selected[node] = _MaskedElements(found[0], node.args[0], found[1])
        elif _aten_name(node) == "index_put" and (found := _find_mask(node)):
            _replace_by_where(program, node, *found, selected)
        elif any(source in selected for source in node.all_input_nodes):
            one = _compute_everywhere(graph, node, selected)
            if one is not None:
                selected[node] = one
    graph.eliminate_dead_code()  # removes selections that are no longer used


def _call_nodes(program: Any) -> Any:
    return (node for node in program.graph.nodes if node.op == "call_function")


def _aten_name(node: Any) -> str:
    """The bare name of an ATen operator, such as index_put; "" for other operators."""
    schema = getattr(node.target, "_schema", None)
    domain, _, name = str(schema.name).partition("::") if schema else ("", "", "")
    return name if domain == "aten" else ""


def _find_mask(node: Any) -> tuple[Any, int] | None:
    """The only boolean mask in a node's indices, and how many dimensions follow it; else None."""
    import torch

    given = [index for index in node.args[1] if index is not None]
    if len(given) != 1 or "val" not in getattr(given[0], "meta", {}):
        return None
    mask = given[0].meta["val"]
    if mask.dtype is not torch.bool or not mask.ndim:
        return None
    before = next(k for k, index in enumerate(node.args[1]) if index is not None)
    return given[0], node.args[0].meta["val"].ndim - before - mask.ndim


def _replace_by_where(
    program: Any, node: Any, mask: Any, trailing_dims: int, selected: dict[Any, _MaskedElements]
) -> None:
    """Replace an assignment with `where`, if the assigned value is known for all elements."""
    import torch

    target, _, value = node.args[:3]
    accumulate = node.args[3] if len(node.args) > 3 else node.kwargs.get("accumulate", False)
    found = selected.get(value)
    if found is not None:
        if not _is_same_mask(found.mask, mask) or found.trailing_dims != trailing_dims:
            return
        value = found.all_elements
    elif not _can_broadcast(value, trailing_dims):
        return
    aten, graph = torch.ops.aten, program.graph
    with graph.inserting_before(node):
        place = mask
        for _ in range(trailing_dims):
            value_of = place.meta["val"].unsqueeze(-1)
            place = graph.call_function(aten.unsqueeze.default, (place, -1))
            place.meta = {**node.meta, "val": value_of}
        if accumulate:
            total = graph.call_function(aten.add.Tensor, (target, value))
            total.meta = dict(node.meta)
            value = total
        chosen = graph.call_function(aten.where.self, (place, value, target))
    chosen.meta = dict(node.meta)
    node.replace_all_uses_with(chosen)
    graph.erase_node(node)


def _compute_everywhere(
    graph: Any, node: Any, selected: dict[Any, _MaskedElements]
) -> _MaskedElements | None:
    """Apply an elementwise operator to all elements instead of the selected ones."""
    import torch

    sources = [selected[s] for s in node.all_input_nodes if s in selected]
    first = sources[0]
    fits = (
        torch.Tag.pointwise in getattr(node.target, "tags", ())
        and all(
            _is_same_mask(s.mask, first.mask) and s.trailing_dims == first.trailing_dims
            for s in sources
        )
        and all(
            s in selected or _can_broadcast(s, first.trailing_dims) for s in node.all_input_nodes
        )
    )
    value = node.meta.get("val")
    if not fits or not isinstance(value, torch.Tensor):
        return None
    with graph.inserting_before(node):
        whole = graph.node_copy(node, lambda s: selected[s].all_elements if s in selected else s)
    whole.meta = {
        **node.meta,
        "val": torch.empty_like(first.all_elements.meta["val"], dtype=value.dtype),
    }
    return _MaskedElements(first.mask, whole, first.trailing_dims)


def _can_broadcast(value: Any, trailing_dims: int) -> bool:
    """Whether a value is equal for all selected rows: one number, or only trailing dimensions."""
    shape = value.meta["val"].shape if "val" in getattr(value, "meta", {}) else None
    if shape is None:
        return False
    return len(shape) <= trailing_dims or all(isinstance(d, int) and d == 1 for d in shape)


def _is_same_mask(a: Any, b: Any) -> bool:
    """Whether two masks are one node or equal computations: y[y < 0] = y[y < 0] * 2."""
    if a is b:
        return True
    nodes = all(hasattr(n, "all_input_nodes") and n.op == "call_function" for n in (a, b))
    return (
        nodes
        and a.target is b.target
        and dict(a.kwargs) == dict(b.kwargs)
        and len(a.args) == len(b.args)
        and all(
            x is y or x == y or _is_same_mask(x, y) for x, y in zip(a.args, b.args, strict=True)
        )
    )


def refuse_dynamic_sizes(program: Any) -> None:
    """Raise UnsupportedOperator if a result's size depends on the input's values: x[x > 0]."""
    import torch

    for node in program.graph.nodes:
        tags = getattr(node.target, "tags", ())
        if torch.Tag.dynamic_output_shape in tags and any(
            map(_depends_on_input, _size_sources(node))
        ):
            refusal = UnsupportedOperator(
                f"{describe_module(node)}{line_of_node(node)}: the size of {_aten_name(node)}'s "
                "result depends on the input's values, so it has no fixed graph. Write "
                "torch.where with both results, or a sum over all elements with a mask: (x * "
                "mask).sum()"
            )
            refusal.module = module_path(node)
            raise refusal


def _size_sources(node: Any) -> list[Any]:
    """The nodes that determine the size of an operator's result."""
    if _aten_name(node) == "index":
        return [one for one in node.args[1] if one is not None and _is_mask(one)]
    if _aten_name(node) == "masked_select":
        return [node.args[1]]
    return list(node.all_input_nodes)


def _is_mask(node: Any) -> bool:
    import torch

    return node.meta["val"].dtype in (torch.bool, torch.uint8)


def _depends_on_input(node: Any) -> bool:
    return bool(node.meta["varies"])
