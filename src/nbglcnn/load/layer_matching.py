"""Matching the layers of two networks: by name and shape, else by order and shape."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from difflib import SequenceMatcher

from nbglcnn.graph import Graph, ValueKey

KeyPairs = list[tuple[ValueKey, ValueKey]]


def match_keys(a: Graph, b: Graph) -> KeyPairs:
    """Match keys of `a` and `b` whose values have the same shape, in the order of `a`.

    Keys with the same name match first. Between these, layers of the same operator match in order,
    then layers of the same shape. Remaining inputs and outputs match by position.
    """
    partner: dict[str, str] = {}
    names = {key.name: key for key in b.keys}
    for key in a.keys:
        other = names.get(key.name)
        if other is not None and _have_same_shape(a, key, b, other):
            partner[key.name] = other.name
    for describe in (_operator_shape_signatures, _shape_signatures):
        _match_in_order(a, b, partner, describe)
    for kind in ("input", "output"):
        ends = ([key for key in graph.keys if key.kind == kind] for graph in (a, b))
        for left, right in zip(*ends, strict=False):
            if left.name not in partner and _have_same_shape(a, left, b, right):
                partner[left.name] = right.name
    kept = {key.name: key for key in a.keys if key.name in partner}  # an output can be an input
    return [(key, names[partner[name]]) for name, key in kept.items()]


def _have_same_shape(a: Graph, left: ValueKey, b: Graph, right: ValueKey) -> bool:
    shape = a.shape(left.value_name)
    return shape == b.shape(right.value_name) and math.prod(shape) > 0


def _match_in_order(
    a: Graph,
    b: Graph,
    partner_by_name: dict[str, str],
    compute_signatures: Callable[[Graph, Sequence[ValueKey]], list[Hashable]],
) -> None:
    """Match equal runs of unmatched layers that lie between matched layers."""
    back = {right: left for left, right in partner_by_name.items()}
    left, right = _layer_keys(a), _layer_keys(b)
    known = {name: name for name in partner_by_name}
    rows_a = _sequence_tokens(left, compute_signatures(a, left), known)
    rows_b = _sequence_tokens(right, compute_signatures(b, right), back)
    matcher = SequenceMatcher(None, rows_a, rows_b, autojunk=False)
    for i, j, length in matcher.get_matching_blocks():
        for one, other in zip(left[i : i + length], right[j : j + length], strict=True):
            if one.name not in partner_by_name and _have_same_shape(a, one, b, other):
                partner_by_name[one.name] = other.name


def _layer_keys(graph: Graph) -> list[ValueKey]:
    """The layers; the last layer of an ONNX file may exist only as an output."""
    layers = [key for key in graph.keys if key.kind == "layer"]
    known = {key.value_name for key in graph.keys if key.kind != "output"}
    return layers + [
        key for key in graph.keys if key.kind == "output" and key.value_name not in known
    ]


def _sequence_tokens(
    keys: Sequence[ValueKey], signatures: Sequence[Hashable], partner_by_name: Mapping[str, str]
) -> list[Hashable]:
    """Tokens for sequence matching; a matched layer's token is its partner's name."""
    named = zip(keys, signatures, strict=True)
    return [
        ("=", partner_by_name[key.name]) if key.name in partner_by_name else each
        for key, each in named
    ]


def _shape_signatures(graph: Graph, keys: Sequence[ValueKey]) -> list[Hashable]:
    return [graph.shape(key.value_name) for key in keys]


def _operator_shape_signatures(graph: Graph, keys: Sequence[ValueKey]) -> list[Hashable]:
    operators = {name: node.op for node in graph.nodes for name in node.outputs}
    return [(operators.get(key.value_name, ""), graph.shape(key.value_name)) for key in keys]
