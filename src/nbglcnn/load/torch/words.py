"""What people call an operator that belongs to no module: what stands in the model's own code.

The exporter names values by operators of its own (`_unsafe_view`, `val_19`) and numbers them.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from nbglcnn.graph import Node
from nbglcnn.load.torch.source import users_lines

FX_NODE = "pkg.torch.onnx.fx_node"
STACK = "pkg.torch.onnx.stack_trace"
OPERATOR = "pkg.nbglcnn.torch_operator"  # what was called in forward, before it was decomposed
STANDS_FOR = "pkg.nbglcnn.stands_for"  # of ONNX's own nodes in a traced program: whose place
PICKED = "getitem"  # what PyTorch calls a piece that is taken from several
LONGEST = 24  # characters of an operand that is named

# PyTorch's operator, and what may stand in the code for it, the likeliest last.
WRITTEN: Mapping[str, tuple[str, ...]] = {
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
PLAIN = {
    "view": "reshape", "unsafe_view": "reshape", "reshape_alias": "reshape", "t": "transpose",
    "mm": "matmul", "bmm": "matmul", "addmm": "linear", "baddbmm": "matmul", "dot": "matmul",
    "mv": "matmul", "convolution": "conv", "native_batch_norm_legit_no_training": "batch_norm",
    "max_pool1d_with_indices": "max_pool1d", "max_pool2d_with_indices": "max_pool2d",
    "max_pool3d_with_indices": "max_pool3d", "to_copy": "to", "constant_pad_nd": "pad",
    "split_with_sizes": "split", "clamp_min": "clamp", "clamp_max": "clamp", "hardtanh": "clamp",
    "masked_fill": "where", "truediv": "div", "rsub": "sub", "unsafe_split": "split",
    "safe_softmax": "softmax",
}  # fmt: skip


def note_operators(program: Any, graph: Any) -> None:
    """Note for each of the exporter's nodes which of PyTorch's operators forward has called.

    `program` is the translated one, whose nodes know what they were decomposed from.
    """
    called = {node.name: _called(node) for node in program.graph.nodes}
    for node in graph:
        if traced := re.match(r"%(\w+)", node.metadata_props.get(FX_NODE, "")):
            node.metadata_props[OPERATOR] = called.get(traced[1], "")


def _called(node: Any) -> str:
    """`max.dim` of an fx node that calls aten.max.dim, or that comes of one."""
    target, sources = node.target, node.meta.get("from_node") or ()
    while sources:
        target = sources[0].target
        sources = sources[0].from_node
    return str(target).removeprefix("aten.")


@dataclass(frozen=True, slots=True)
class Word:
    """What an operator is called, and its own values: others are on the way to these."""

    text: str
    own: Mapping[str, str]  # `split[1]`, by the value

    def of(self, value: str, op: str) -> str:
        """The word for a value that `op` gives."""
        return self.own.get(value) or (f"{self.text}.{_snake(op)}" if self.text else _snake(op))


def words_of(nodes: Iterable[Any], names: Mapping[str, str]) -> list[Word]:
    """A word for each of the exporter's nodes; `names` are the Draft's for its values."""
    found: list[Word] = []
    told: dict[str, str] = {}  # by the name of what PyTorch traced
    given: Counter[tuple[str, str]] = Counter()  # pieces, by that and the operator
    products: Counter[tuple[str, ...]] = Counter()
    for node in nodes:
        fx_node = node.metadata_props.get(FX_NODE, "")
        traced = re.match(r"%(\w+)", fx_node)
        name = traced[1] if traced else ""
        if name not in told:
            told[name] = _word(node, fx_node, told, products)
        own = {}
        for value in node.outputs:
            piece = given[name, node.op_type]
            given[name, node.op_type] += 1
            if value.name == name:
                own[names[name]] = told[name]
            elif len(node.outputs) > 1 or value.name.startswith(PICKED):
                own[names[value.name]] = f"{told[name]}[{piece}]"
        found.append(Word(told[name], own))
    return found


def _word(
    node: Any, fx_node: str, told: Mapping[str, str], products: Counter[tuple[str, ...]]
) -> str:
    target = re.search(
        r"target=(?:torch\.ops\.\w+\.|operator\.|math\.|<built-in function )?(\w+)", fx_node
    )
    if target is None:
        return ""
    picked = re.search(r"args = \(%(\w+), (\d+)\)", fx_node)
    if target[1] == PICKED and picked and picked[1] in told:
        return f"{told[picked[1]]}[{picked[2]}]"
    bare = target[1].strip("_").removeprefix("upsample_")
    bare = node.metadata_props.get(STANDS_FOR, bare)
    word = "interpolate" if "upsample_" in target[1] else PLAIN.get(bare, bare)
    lines = users_lines(node.metadata_props.get(STACK, ""))
    if word == "matmul" and lines:
        return _product(lines, products) or word
    if word in WRITTEN and lines:
        called = re.findall(r"\b(\w+)\(", lines[-1][2])
        return next((one for one in WRITTEN[word] if one in called), WRITTEN[word][-1])
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
                found.append(_joined(left, right))
            case ast.Call(func=ast.Attribute(attr="matmul" | "bmm"), args=[left, right]):
                found.append(_joined(left, right))

    visit(tree)
    return tuple(found)


def _joined(left: ast.expr, right: ast.expr) -> str:
    a, b = _operand(left), _operand(right)
    return f"{a} @ {b}" if a and b else ""


def _operand(node: ast.expr) -> str:
    """A name as it stands there, its transpose as .T; "" for what is computed on the spot."""
    match node:
        case ast.Name(id=name):
            return name if len(name) <= LONGEST else ""
        case ast.Attribute(value=value, attr="T" | "mT" | "H" | "mH"):
            return f"{inner}.T" if (inner := _operand(value)) else ""
        case ast.Attribute(attr=name):
            return name if len(name) <= LONGEST else ""
        case ast.Call(func=ast.Attribute(value=value, attr="transpose" | "swapaxes" | "t")):
            return f"{inner}.T" if (inner := _operand(value)) else ""
    return ""


def _snake(op: str) -> str:
    op = op.removeprefix("Reduce").replace("MatMul", "Matmul")
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", op).lower()


def node_names(nodes: Iterable[tuple[Node, Word]]) -> list[str]:
    """A name of its own for each node, as errors say it: `relu in blocks.0`."""
    taken: Counter[str] = Counter()
    found = []
    for node, word in nodes:
        text = word.of(next(iter(node.outputs), ""), node.op)
        name = f"{text} in {node.module}" if node.module else text
        found.append(f"{name}:{taken[name]}" if taken[name] else name)
        taken[name] += 1
    return found
