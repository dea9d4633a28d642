"""Einsum decomposed: sums, then a MatMul or Mul for each further operand."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

from nbglcnn.errors import ModelError, UnsupportedOperator
from nbglcnn.graph import Node
from nbglcnn.load.draft import FoldState, describe_node
from nbglcnn.load.passes.node_builder import NodeBuilder
from nbglcnn.load.size_limits import validate_shape

Labels = tuple[str, ...]  # per dimension: letters; "..." gives numbers from the right

_TERM_PATTERN = re.compile(r"([A-Za-z]*)(\.\.\.)?([A-Za-z]*)")


@dataclass(frozen=True, slots=True)
class EinsumTerm:
    """A value, and the labels of its dimensions."""

    value: str
    labels: Labels


def einsum(node: Node, state: FoldState) -> list[Node]:
    """Return the nodes that compute the output."""
    steps = NodeBuilder(node, state)
    operands, output, sizes = _parse_equation(node, state)
    operands = [_drop_broadcast_dims(o, sizes, steps) for o in operands]
    found, *rest = operands
    for number, operand in enumerate(rest):
        later = {name for o in rest[number + 1 :] for name in o.labels}
        found = _product(found, operand, later | set(output), sizes, steps)
    found = _sum_out(found, output, steps)
    turned = _permute(found, output, steps)
    steps.reshape(turned, [sizes[name] for name in output], output_name=node.outputs[0])
    return steps.nodes


def _parse_equation(
    node: Node, state: FoldState
) -> tuple[list[EinsumTerm], Labels, dict[str, int]]:
    """Parse the equation: the operands, the output's labels, and the size of each label."""
    text = re.sub(r"\s", "", str(node.attributes.get("equation", "")))
    given, arrow, wanted = text.partition("->")
    terms = given.split(",")
    if len(terms) != len(node.inputs) or not all(map(_TERM_PATTERN.fullmatch, [*terms, wanted])):
        raise ModelError(
            f"{describe_node(node)}: {text[:80]!r} is not an equation for {len(node.inputs)} inputs"
        )
    operands: list[EinsumTerm] = []
    sizes: dict[str, int] = {}
    for term, value in zip(terms, node.inputs, strict=True):
        shape = state.shape(value)
        labels = _labels(term, len(shape))
        if len(labels) != len(shape):
            raise ModelError(
                f"{describe_node(node)}: {term!r} does not fit the shape {list(shape)}"
            )
        if len(set(labels)) < len(labels):
            raise UnsupportedOperator(
                f"{describe_node(node)}: {term!r}, a diagonal, is not supported"
            )
        for name, size in zip(labels, shape, strict=True):
            if 1 not in (size, sizes.get(name, 1)) and size != sizes[name]:
                raise ModelError(
                    f"{describe_node(node)}: {name!r} is both {sizes[name]} and {size}"
                )
            if sizes.get(name, 1) == 1:
                sizes[name] = size
        operands.append(EinsumTerm(value, labels))
    hidden = sorted((n for n in sizes if n.isdigit()), key=int, reverse=True)
    if arrow:
        letters = _TERM_PATTERN.fullmatch(wanted)
        assert letters is not None
        output = (*letters[1], *(hidden if letters[2] else ()), *letters[3])
    else:
        output = (*hidden, *sorted(n for n in sizes if given.count(n) == 1 and n.isalpha()))
    if len(set(output)) < len(output) or not set(output) <= set(sizes):
        raise ModelError(
            f"{describe_node(node)}: the output {wanted[:80]!r} repeats a dimension, or has an "
            "unknown one"
        )
    return operands, output, sizes


def _labels(term: str, rank: int) -> Labels:
    found = _TERM_PATTERN.fullmatch(term)
    assert found is not None
    hidden = range(rank - len(found[1]) - len(found[3]) if found[2] else 0)
    return (*found[1], *map(str, reversed(hidden)), *found[3])


def _drop_broadcast_dims(
    operand: EinsumTerm, sizes: dict[str, int], builder: NodeBuilder
) -> EinsumTerm:
    """Remove dimensions of size 1 that broadcast against other operands."""
    shape = builder.state.shape(operand.value)
    kept = [k for k, name in enumerate(operand.labels) if shape[k] == sizes[name]]
    if len(kept) == len(shape):
        return operand
    value = builder.reshape(operand.value, [shape[k] for k in kept])
    return EinsumTerm(value, tuple(operand.labels[k] for k in kept))


def _product(
    a: EinsumTerm, b: EinsumTerm, needed: set[str], sizes: dict[str, int], builder: NodeBuilder
) -> EinsumTerm:
    """Multiply two operands, and sum over the labels that aren't needed any more."""
    a = _sum_out(a, needed | set(b.labels), builder)
    b = _sum_out(b, needed | set(a.labels), builder)
    shared = [name for name in a.labels if name in b.labels]
    both = tuple(name for name in shared if name in needed)
    inner = tuple(name for name in shared if name not in needed)
    left = tuple(name for name in a.labels if name not in shared)
    right = tuple(name for name in b.labels if name not in shared)

    def sized(operand: EinsumTerm, *order: Labels) -> str:
        turned = _permute(operand, sum(order, ()), builder)
        return builder.reshape(turned, [prod(sizes[n] for n in group) for group in order])

    first, second = sized(a, both, left, inner), sized(b, both, inner, right)
    value = builder("MatMul" if inner else "Mul", first, second)
    labels = (*both, *left, *right)
    shape = validate_shape(describe_node(builder.node), [sizes[name] for name in labels])
    return EinsumTerm(builder.reshape(value, shape), labels)


def _sum_out(operand: EinsumTerm, needed: Iterable[str], builder: NodeBuilder) -> EinsumTerm:
    kept = set(needed)
    axes = [k for k, name in enumerate(operand.labels) if name not in kept]
    if not axes:
        return operand
    value = builder("ReduceSum", operand.value, builder.constant(axes), keepdims=0)
    return EinsumTerm(value, tuple(name for name in operand.labels if name in kept))


def _permute(operand: EinsumTerm, order: Sequence[str], builder: NodeBuilder) -> str:
    permutation = tuple(operand.labels.index(name) for name in order)
    if permutation == tuple(range(len(permutation))):
        return operand.value
    return builder("Transpose", operand.value, perm=permutation)
