"""Display names of operators outside modules, taken from the model's own source code.

PyTorch's decomposed operators have internal names (`_unsafe_view`).
"""

from __future__ import annotations

import ast
import operator
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from nbglcnn.graph import Node
from nbglcnn.load.torch.isolation.source_lines import user_lines
from nbglcnn.load.torch.translate.aten_translations import OnnxNode

REPLACED_OPERATOR_KEY = (
    "pkg.nbglcnn.stands_for"  # on symbolic ONNX nodes in a recorded program: the replaced operator
)
GETITEM = "getitem"  # PyTorch's name for one of several results
MAX_OPERAND_LENGTH = 24  # longest operand name shown, in characters

# Possible spellings of an operator in source code, the most likely last.
SOURCE_SPELLINGS: Mapping[str, tuple[str, ...]] = {
    "reshape": ("flatten", "unflatten", "view_as", "view", "reshape_as", "reshape"),
    "transpose": ("swapaxes", "swapdims", "transpose"),
    "permute": ("movedim", "moveaxis", "permute"),
    "cat": ("hstack", "vstack", "concatenate", "concat", "cat"),
    "split": ("tensor_split", "chunk", "split"),
    "where": ("masked_fill", "where"),
    "clamp": ("relu6", "hardtanh", "clip", "clamp"),
    "pad": ("pad",),
    **{pool: ("interpolate", pool) for pool in map("adaptive_avg_pool{}d".format, (1, 2, 3))},
}
# Common names of PyTorch's internal operators.
COMMON_NAMES = {
    "view": "reshape", "unsafe_view": "reshape", "reshape_alias": "reshape", "t": "transpose",
    "mm": "matmul", "bmm": "matmul", "addmm": "linear", "baddbmm": "matmul", "dot": "matmul",
    "mv": "matmul", "convolution": "conv", "native_batch_norm_legit_no_training": "batch_norm",
    "max_pool1d_with_indices": "max_pool1d", "max_pool2d_with_indices": "max_pool2d",
    "max_pool3d_with_indices": "max_pool3d", "to_copy": "to", "constant_pad_nd": "pad",
    "split_with_sizes": "split", "clamp_min": "clamp", "clamp_max": "clamp", "hardtanh": "clamp",
    "masked_fill": "where", "truediv": "div", "rsub": "sub", "unsafe_split": "split",
    "safe_softmax": "softmax",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class FunctionalName:
    """An operator's display name, and the names of its final values, not of intermediate ones."""

    text: str
    value_names: Mapping[str, str]  # by value, such as `split[1]`

    def name_of(self, value: str, op: str) -> str:
        """The name of a value that the ONNX operator `op` returns."""
        return self.value_names.get(value) or (
            f"{self.text}.{_snake(op)}" if self.text else _snake(op)
        )


def functional_names(
    nodes: Iterable[tuple[OnnxNode, Any]], name_by_id: Mapping[int, str]
) -> list[FunctionalName]:
    """A name for each ONNX node, given with the recorded node that it implements.

    `name_by_id` are the GraphDraft's value names, by id() of the ONNX value.
    """
    found: list[FunctionalName] = []
    text_by_node: dict[Any, str] = {}  # names by recorded node
    given: Counter[tuple[Any, str]] = Counter()  # output counts by recorded node and operator
    products: Counter[tuple[str, ...]] = Counter()
    for node, recorded in nodes:
        if recorded not in text_by_node:
            text_by_node[recorded] = _operator_text(recorded, text_by_node, products)
        own = {}
        for value in (one for one in node.outputs if id(one) in name_by_id):
            piece = given[recorded, node.op]
            given[recorded, node.op] += 1
            if value.name == recorded.name:
                own[name_by_id[id(value)]] = text_by_node[recorded]
            elif len(node.outputs) > 1 or value.name.startswith(GETITEM):
                own[name_by_id[id(value)]] = f"{text_by_node[recorded]}[{piece}]"
        found.append(FunctionalName(text_by_node[recorded], own))
    return found


def _operator_text(
    node: Any, text_by_node: Mapping[Any, str], matmul_counts: Counter[tuple[str, ...]]
) -> str:
    if node.target is operator.getitem and node.args[0] in text_by_node:
        return f"{text_by_node[node.args[0]]}[{node.args[1]}]"
    schema = getattr(node.target, "_schema", None)
    name = str(schema.name).rpartition("::")[2] if schema else node.target.__name__
    bare = name.strip("_").removeprefix("upsample_")
    properties = zip(
        node.kwargs.get("metadata_props_keys", ()),
        node.kwargs.get("metadata_props_values", ()),
        strict=True,
    )
    bare = str(dict(properties).get(REPLACED_OPERATOR_KEY, bare))
    word: str = "interpolate" if "upsample_" in name else COMMON_NAMES.get(bare, bare)
    lines = user_lines(node)
    if word == "matmul" and lines:
        return _find_matmul_text(lines, matmul_counts) or word
    if word in SOURCE_SPELLINGS and lines:
        called = re.findall(r"\b(\w+)\(", lines[-1][2])
        return next(
            (one for one in SOURCE_SPELLINGS[word] if one in called), SOURCE_SPELLINGS[word][-1]
        )
    return word


def _find_matmul_text(
    lines: list[tuple[str, int, str]], matmul_counts: Counter[tuple[str, ...]]
) -> str:
    """`q @ k.T` if the source line has it; several products in a line are matched in order."""
    written = _parse_matmuls(lines[-1][2])
    if not written:
        return ""
    place = tuple(f"{file}:{number}" for file, number, _ in lines)
    turn = matmul_counts[place]
    matmul_counts[place] += 1
    return written[turn % len(written)]


@cache
def _parse_matmuls(line: str) -> tuple[str, ...]:
    """All matrix products of a line in order of computation; "" for one without short names."""
    try:
        tree = ast.parse(line.strip())
    except (SyntaxError, ValueError):
        return ()
    found: list[str] = []

    def visit(node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            visit(child)
        match node:
            case ast.BinOp(left=left, op=ast.MatMult(), right=right):
                found.append(_format_matmul(left, right))
            case ast.Call(func=ast.Attribute(attr="matmul" | "bmm"), args=[left, right]):
                found.append(_format_matmul(left, right))

    visit(tree)
    return tuple(found)


def _format_matmul(left: ast.expr, right: ast.expr) -> str:
    a, b = _operand(left), _operand(right)
    return f"{a} @ {b}" if a and b else ""


def _operand(node: ast.expr) -> str:
    """An operand's name, its transpose as .T; "" for other expressions and long names."""
    match node:
        case ast.Name(id=name):
            return name if len(name) <= MAX_OPERAND_LENGTH else ""
        case ast.Attribute(value=value, attr="T" | "mT" | "H" | "mH"):
            return f"{inner}.T" if (inner := _operand(value)) else ""
        case ast.Attribute(attr=name):
            return name if len(name) <= MAX_OPERAND_LENGTH else ""
        case ast.Call(func=ast.Attribute(value=value, attr="transpose" | "swapaxes" | "t")):
            return f"{inner}.T" if (inner := _operand(value)) else ""
    return ""


def _snake(op: str) -> str:
    op = op.removeprefix("Reduce").replace("MatMul", "Matmul")
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", op).lower()


def node_names(nodes: Iterable[tuple[Node, FunctionalName]]) -> list[str]:
    """A unique name for each node, as used in errors: `relu in blocks.0`."""
    taken: Counter[str] = Counter()
    found = []
    for node, word in nodes:
        text = word.name_of(next(iter(node.outputs), ""), node.op)
        name = f"{text} in {node.module}" if node.module else text
        found.append(f"{name}:{taken[name]}" if taken[name] else name)
        taken[name] += 1
    return found
