"""What people call an operator that belongs to no module: what stands in the model's own code.

PyTorch has names of its own for what it takes operators apart into (`_unsafe_view`).
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
    "pkg.nbglcnn.stands_for"  # of ONNX's own nodes in a recorded program: whose place
)
GETITEM = "getitem"  # what PyTorch calls a piece that is taken from several
MAX_OPERAND_LENGTH = 24  # characters of an operand that is named

# PyTorch's operator, and what may stand in the code for it, the likeliest last.
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
# Operators of PyTorch's below those that are written.
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
    """What an operator is called, and its own values: others are on the way to these."""

    text: str
    value_names: Mapping[str, str]  # `split[1]`, by the value

    def name_of(self, value: str, op: str) -> str:
        """The word for a value that `op` gives."""
        return self.value_names.get(value) or (
            f"{self.text}.{_snake(op)}" if self.text else _snake(op)
        )


def functional_names(
    nodes: Iterable[tuple[OnnxNode, Any]], names: Mapping[int, str]
) -> list[FunctionalName]:
    """A word for each of ONNX's nodes, which come with the recorded ones that they are of.

    `names` are the GraphDraft's, by the identity of ONNX's values.
    """
    found: list[FunctionalName] = []
    told: dict[Any, str] = {}  # by the recorded node
    given: Counter[tuple[Any, str]] = Counter()  # pieces, by that and the operator
    products: Counter[tuple[str, ...]] = Counter()
    for node, recorded in nodes:
        if recorded not in told:
            told[recorded] = _operator_text(recorded, told, products)
        own = {}
        for value in (one for one in node.outputs if id(one) in names):
            piece = given[recorded, node.op]
            given[recorded, node.op] += 1
            if value.name == recorded.name:
                own[names[id(value)]] = told[recorded]
            elif len(node.outputs) > 1 or value.name.startswith(GETITEM):
                own[names[id(value)]] = f"{told[recorded]}[{piece}]"
        found.append(FunctionalName(told[recorded], own))
    return found


def _operator_text(node: Any, told: Mapping[Any, str], products: Counter[tuple[str, ...]]) -> str:
    if node.target is operator.getitem and node.args[0] in told:
        return f"{told[node.args[0]]}[{node.args[1]}]"
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
        return _product(lines, products) or word
    if word in SOURCE_SPELLINGS and lines:
        called = re.findall(r"\b(\w+)\(", lines[-1][2])
        return next(
            (one for one in SOURCE_SPELLINGS[word] if one in called), SOURCE_SPELLINGS[word][-1]
        )
    return word


def _product(lines: list[tuple[str, int, str]], products: Counter[tuple[str, ...]]) -> str:
    """`q @ k.T` where that is written so; of several in one line each in its turn."""
    written = _products(lines[-1][2])
    if not written:
        return ""
    place = tuple(f"{file}:{number}" for file, number, _ in lines)
    turn = products[place]
    products[place] += 1
    return written[turn % len(written)]


@cache
def _products(line: str) -> tuple[str, ...]:
    """All products of a line in the order in which they are computed; "" for one too long."""
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
                found.append(_product_text(left, right))
            case ast.Call(func=ast.Attribute(attr="matmul" | "bmm"), args=[left, right]):
                found.append(_product_text(left, right))

    visit(tree)
    return tuple(found)


def _product_text(left: ast.expr, right: ast.expr) -> str:
    a, b = _operand(left), _operand(right)
    return f"{a} @ {b}" if a and b else ""


def _operand(node: ast.expr) -> str:
    """A name as it stands there, its transpose as .T; "" for what is computed on the spot."""
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
    """A name of its own for each node, as errors say it: `relu in blocks.0`."""
    taken: Counter[str] = Counter()
    found = []
    for node, word in nodes:
        text = word.name_of(next(iter(node.outputs), ""), node.op)
        name = f"{text} in {node.module}" if node.module else text
        found.append(f"{name}:{taken[name]}" if taken[name] else name)
        taken[name] += 1
    return found
