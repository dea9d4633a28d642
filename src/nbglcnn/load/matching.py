"""Matching the layers of two networks: by name and shape, else by order and shape."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from difflib import SequenceMatcher

from nbglcnn.graph import Graph, Key

KeyPairs = list[tuple[Key, Key]]


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
    for describe in (_operator_and_shape, _shape):
        _match_in_order(a, b, partner, describe)
    for kind in ("input", "output"):
        ends = ([key for key in graph.keys if key.kind == kind] for graph in (a, b))
        for left, right in zip(*ends, strict=False):
            if left.name not in partner and _have_same_shape(a, left, b, right):
                partner[left.name] = right.name
    kept = {key.name: key for key in a.keys if key.name in partner}  # an output can be an input
    return [(key, names[partner[name]]) for name, key in kept.items()]


def _have_same_shape(a: Graph, left: Key, b: Graph, right: Key) -> bool:
    shape = a.shape(left.value)
    return shape == b.shape(right.value) and math.prod(shape) > 0


def _match_in_order(
    a: Graph,
    b: Graph,
    partner: dict[str, str],
    describe: Callable[[Graph, Sequence[Key]], list[Hashable]],
) -> None:
    """Match equal runs of unmatched layers that lie between matched layers."""
    back = {right: left for left, right in partner.items()}
    left, right = _layers(a), _layers(b)
    known = {name: name for name in partner}
    rows_a = _sequence_tokens(left, describe(a, left), known)
    rows_b = _sequence_tokens(right, describe(b, right), back)
    matcher = SequenceMatcher(None, rows_a, rows_b, autojunk=False)
    for i, j, length in matcher.get_matching_blocks():
        for one, other in zip(left[i : i + length], right[j : j + length], strict=True):
            if one.name not in partner and _have_same_shape(a, one, b, other):
                partner[one.name] = other.name


def _layers(graph: Graph) -> list[Key]:
    """The layers; the last layer of an ONNX file may exist only as an output."""
    layers = [key for key in graph.keys if key.kind == "layer"]
    known = {key.value for key in graph.keys if key.kind != "output"}
    return layers + [key for key in graph.keys if key.kind == "output" and key.value not in known]


def _sequence_tokens(
    keys: Sequence[Key], words: Sequence[Hashable], known: Mapping[str, str]
) -> list[Hashable]:
    """Tokens for sequence matching; a matched layer's token is its partner's name."""
    named = zip(keys, words, strict=True)
    return [("=", known[key.name]) if key.name in known else each for key, each in named]


def _shape(graph: Graph, keys: Sequence[Key]) -> list[Hashable]:
    return [graph.shape(key.value) for key in keys]


def _operator_and_shape(graph: Graph, keys: Sequence[Key]) -> list[Hashable]:
    operators = {name: node.op for node in graph.nodes for name in node.outputs}
    return [(operators.get(key.value, ""), graph.shape(key.value)) for key in keys]
