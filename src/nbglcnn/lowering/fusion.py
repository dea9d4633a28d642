"""Fusion of unobserved nodes into the pass of the preceding convolution or Concat."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np

from nbglcnn.codegen.builder import Epilogue
from nbglcnn.graph import Array, Graph, Node
from nbglcnn.ops import ACTIVATION_EPILOGUE_OPERATORS, EPILOGUE_OPERATORS, UNARY_OPERATORS
from nbglcnn.ops.matmul import is_product_of_rows
from nbglcnn.ops.operator import float_attr


def fuse(graph: Graph, observed: set[str]) -> tuple[tuple[Node, ...], dict[str, Epilogue]]:
    """Return the remaining nodes, and the epilogue of each convolution.

    A value is eliminated only if it has a single consumer and isn't `observed`. The remaining nodes
    stay in topological order: a fused convolution moves to the position of its last fused node,
    where a residual is available.
    """
    readers: dict[str, list[Node]] = {}
    for node in graph.nodes:
        for name in node.inputs:
            if name:
                readers.setdefault(name, []).append(node)
    uses = Counter({name: len(nodes) for name, nodes in readers.items()})
    fused_nodes: set[str] = set()
    epilogues: dict[str, Epilogue] = {}
    moved: dict[str, Node] = {}  # name of the last fused node -> the convolution

    def next_of(value: str) -> Node | None:
        if value in observed or uses[value] != 1 or readers[value][0].name in fused_nodes:
            return None
        return readers[value][0]

    for node in graph.nodes:
        if node.op not in EPILOGUE_OPERATORS or node.name in fused_nodes:
            continue
        value = node.outputs[0]
        chain: list[Node] = []
        normalization = activation = None
        bias = residual = ""
        after = next_of(value)
        alone = node.op in ACTIVATION_EPILOGUE_OPERATORS
        if node.op == "MatMul" and not is_product_of_rows(graph, node):
            continue
        if alone and not _can_fuse_activation(graph, node):
            continue
        if after is not None and after.op == "Add" and node.op == "MatMul":
            other = _other_operand(after, value)
            if graph.shape(other) == graph.shape(value)[-1:]:
                bias = other
                chain.append(after)
                value = after.outputs[0]
                after = next_of(value)
        if (
            not alone
            and after is not None
            and after.op == "BatchNormalization"
            and after.inputs[0] == value
            and not after.attributes.get("training_mode")
            and (node.op != "MatMul" or len(graph.shape(value)) == 2)
            and all(
                graph.values[name].is_constant
                for name in (*node.inputs[1:], bias, *after.inputs[1:])
                if name
            )
            and _has_finite_scale(graph, after)
        ):
            normalization = after
            chain.append(after)
            value = after.outputs[0]
            after = next_of(value)
        if after is not None and after.op == "Add" and not alone:
            other = _other_operand(after, value)
            same = graph.shape(other) == graph.shape(value)
            if same and not graph.values[other].is_constant and other != value:
                residual = other
                chain.append(after)
                value = after.outputs[0]
                after = next_of(value)
        if after is not None and after.op in UNARY_OPERATORS and after.inputs[0] == value:
            activation = after
            chain.append(after)
            value = after.outputs[0]
        if chain:
            epilogues[node.name] = Epilogue(value, bias, normalization, residual, activation)
            fused_nodes.update(n.name for n in chain)
            moved[chain[-1].name] = node
    nodes: list[Node] = []
    for node in graph.nodes:
        if node.name in moved:
            nodes.append(moved[node.name])
        elif node.name not in fused_nodes and node.name not in epilogues:
            nodes.append(node)
    return tuple(nodes), epilogues


def _other_operand(node: Node, value: str) -> str:
    """The operand of an Add that isn't `value`, or `value` if both are."""
    return node.inputs[1] if node.inputs[0] == value else node.inputs[0]


def has_positive_variance(variance: Array, epsilon: float) -> bool:
    """Whether each channel has variance + epsilon > 0; otherwise a factor is infinite.

    Folded into a convolution's weights, infinite factors would cancel to NaN.
    """
    return bool((variance.astype(np.float64) + epsilon > 0).all())


def _has_finite_scale(graph: Graph, normalization: Node) -> bool:
    variance = graph.values[normalization.inputs[4]].data
    assert variance is not None
    return has_positive_variance(variance, float_attr(normalization, "epsilon", 1e-5))


def _can_fuse_activation(graph: Graph, node: Node) -> bool:
    """Whether a Concat has a pass that computes in floats."""
    filled = sum(bool(math.prod(graph.shape(name))) for name in node.inputs)
    return filled > 1 and graph.values[node.outputs[0]].dtype.kind == "f"
