"""Constant folding in one walk over the nodes: what is known at load time leaves the graph."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from nbglcnn.errors import ModelError, NbglcnnError, UnsupportedModel, UnsupportedOperator
from nbglcnn.graph import Array, Node
from nbglcnn.load.bounds import MAX_FOLDED_BYTES, shown
from nbglcnn.load.draft import (
    FLOAT32,
    HALF,
    OPSET,
    WIDE,
    DependsOnRefused,
    Draft,
    State,
    integer,
    label,
)
from nbglcnn.load.noise import Kind, seeded
from nbglcnn.load.passes.algebra import DOMAIN, RULES
from nbglcnn.load.passes.evaluate import evaluate
from nbglcnn.load.passes.infer import element_type, infer, numpy_type
from nbglcnn.load.passes.rewrite import rewritten

NOISE: dict[str, Kind] = {
    "RandomNormal": "normal",
    "RandomNormalLike": "normal",
    "RandomUniform": "uniform",
    "RandomUniformLike": "uniform",
}
RANDOM = {*NOISE, "Bernoulli", "Multinomial"}
INTEGERS = (
    "; compute it in another type, as x.to(torch.int64) or x.float(), which never wraps around"
)
FLOAT = 1  # onnx.TensorProto.FLOAT
MOST_NOISE = 2**22  # numbers of all that a file draws: it may be small and ask for terabytes
# Operators whose time is in proportion to what they read and write; others fold when small.
LIGHT = frozenset(
    """
    Constant ConstantOfShape Expand Shape Size Cast Reshape Flatten Squeeze Unsqueeze
    Transpose Concat Split Slice Gather GatherElements Pad Tile Range Where Not And
    Or Xor Equal Less Greater LessOrEqual GreaterOrEqual Add Sub Mul Div Pow Mod Neg Abs
    Sqrt Reciprocal Floor Ceil Round Sign Exp Log Min Max Sum Mean Clip Relu Sigmoid Tanh
    Softplus ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL2 ReduceSumSquare
    ReduceL1 Sin Cos IsNaN IsInf Identity ArgMax ArgMin DepthToSpace SpaceToDepth Softmax
    GatherND LogSoftmax LayerNormalization LeakyRelu Elu Erf Gelu HardSigmoid HardSwish
    """.split()  # noqa: SIM905
)
FREE = ("Constant", "ConstantOfShape", "Expand")  # views of what is there
MAX_PRODUCTS = 2**28  # MACs of matrices that are folded: a tenth of a second
MAX_TAPS = 2**27  # of kernels convolved with kernels: half a second
MAX_HEAVY = 2**16  # elements in and out of another operator that is folded


def simplify(draft: Draft) -> State:
    """Fold, drop what only renames, and give every value a concrete shape."""
    state = State(draft, constants=dict(draft.constants), derived=set(draft.parameters.values()))
    # A small file cannot ask for much; a large one may have its weights turned and scaled.
    state.may_fold = MAX_FOLDED_BYTES + 4 * sum(c.nbytes for c in draft.constants.values())
    for name, (shape, dtype) in draft.inputs.items():
        state.shapes[name], state.dtypes[name] = shape, dtype
    for position, original in enumerate(draft.nodes):
        draft.at = original.module
        try:
            _simplify(position, original, state)
        except UnsupportedModel as error:
            draft.refuse(original, error)
        except ModelError as error:
            if draft.place is None or not original.torch_operator:
                raise
            refusal = UnsupportedOperator(
                f"{draft.place(original.outputs[0])} cannot be translated to ONNX: {error}"
                + (INTEGERS if re.search(r"unsupported type: tensor\(u?int", str(error)) else "")
            )
            refusal.__cause__ = error
            draft.refuse(original, refusal)
    needed = [*draft.outputs, *draft.keep]
    if draft.refused is not None:  # what can run before them is wanted too
        needed += [name for node, _ in draft.refused for name in node.inputs]
        needed = [name for name in needed if state.known(state.resolve(name))]
    _drop_unused(state, [state.resolve(name) for name in needed])
    return state


def _simplify(position: int, original: Node, state: State) -> None:
    """One node of a Draft."""
    draft = state.draft
    guards = draft.guards[position] if draft.guards else ()
    if draft.refused is not None and any(
        state.resolve(c) not in state.constants for c, _ in guards
    ):
        raise DependsOnRefused("cannot be told: in a branch of an If that cannot run")
    if not all(_holds(*guard, state) for guard in guards):
        return
    if lost := draft.lost.intersection(original.inputs):
        if original.op == "If" and original.inputs[0] not in lost:
            _holds(original.inputs[0], True, state)
        raise DependsOnRefused(
            f"cannot be told: its input {shown(min(lost))} comes from what cannot run"
        )
    if original.op == "If" and not original.domain:
        _choose(original, state)
        return
    node = replace(original, inputs=tuple(state.resolve(i) for i in original.inputs))
    for name in node.inputs:
        if name and not state.known(name):
            raise ModelError(f"{label(node)}: its input {shown(name)} is produced by nothing")
    if node.python is not None:
        for name in filter(None, node.outputs):
            shape, dtype = draft.declared[name]
            state.shapes[name], state.dtypes[name] = shape, FLOAT32 if dtype in WIDE else dtype
        state.nodes.append((position, _of_tensors(node, state)))
        return
    for step in _rewritten(node, draft.versions[position] if draft.versions else OPSET, state):
        step = replace(step, inputs=tuple(state.resolve(i) for i in step.inputs))
        _one(step, position, state)


def _of_tensors(node: Node, state: State) -> Node:
    """A node that Python computes, reading tensors alone: of a sequence what it was cut from."""
    made = {name: state.sequences[name].source for name in node.inputs if name in state.sequences}
    if not made or node.python is None:
        return node
    inputs = tuple(made.get(name, name) for name in node.inputs)
    return replace(node, inputs=inputs, python=replace(node.python, node=None))


def _holds(condition: str, wanted: bool, state: State) -> bool:
    """Whether a branch is taken; conditions must be known by now."""
    data = state.constants.get(state.resolve(condition))
    if data is None:
        nodes = state.draft.nodes
        branching = next(n for n in nodes if n.op == "If" and n.inputs[0] == condition)
        inputs = [shown(name) for name in _behind(condition, state)]
        which = f"input{'s' * (len(inputs) > 1)} {' and '.join(inputs[:3])}" if inputs else "input"
        constant = inputs[0] if inputs else "'name'"
        raise UnsupportedOperator(
            f"{label(branching)}: control flow whose condition {shown(condition)} depends on the "
            f"numbers of the {which} is not supported; a network must be one fixed graph. Export "
            "the branch alone; or, where that input never changes, make it a constant: "
            f"model.graph.initializer.append(onnx.numpy_helper.from_array(array, {constant}))"
        )
    return bool(data.reshape(-1)[:1].any()) == wanted


def _behind(name: str, state: State) -> list[str]:
    """The inputs whose numbers a value depends on."""
    made = {out: node for node in state.draft.nodes for out in node.outputs}
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        name = waiting.pop()
        if name not in seen and state.resolve(name) not in state.constants:
            seen.add(name)
            waiting += made[name].inputs if name in made else ()
    return [name for name in state.draft.inputs if name in seen]


def _choose(node: Node, state: State) -> None:
    """The outputs of an If are those of the branch that its condition takes."""
    count = len(node.outputs)
    first = 1 if _holds(node.inputs[0], True, state) else 1 + count
    for out, name in zip(node.outputs, node.inputs[first : first + count], strict=True):
        if not state.known(state.resolve(name)):
            raise ModelError(f"{label(node)}: its branch's {shown(name)} is produced by nothing")
        if out:
            state.aliases[out] = state.resolve(name)


def _rewritten(node: Node, version: int, state: State) -> list[Node]:
    """`rewritten`, of which the rules may trust a node: onnx's rules look at it only afterwards."""
    try:
        return rewritten(node, version, state)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        if isinstance(error, NbglcnnError):
            raise
        raise ModelError(
            f"{label(node)}: its inputs and attributes don't fit together ({str(error)[:300]})"
        ) from error


def _one(node: Node, position: int, state: State) -> None:
    same = _alias(node, state)
    if same is not None:
        name = node.outputs[0]
        if name not in state.draft.apart or same not in state.shapes:
            state.aliases[name] = same
            return
        state.shapes[name], state.dtypes[name] = state.shapes[same], state.dtypes[same]
        node = replace(node, op="Identity", domain="", inputs=(same,), attributes={})
        state.nodes.append((position, node))
    elif node.op in ("Shape", "Size") and len(node.inputs) == 1 and node.inputs[0]:
        state.constants[node.outputs[0]] = _shape_of(node, state)
    elif _foldable(node, state):
        _fold(node, state)
    else:
        node = replace(node, inputs=tuple(_narrow(i, state) for i in node.inputs))
        infer(node, state)
        if _is_noise(node, state):
            return
        state.nodes.append((position, node))


def _is_noise(node: Node, state: State) -> bool:
    """Whether what a node draws becomes an input; its numbers are in the Draft then."""
    draft, name = state.draft, node.outputs[0]
    if node.op not in NOISE or node.domain or name not in draft.may_draw:
        return False
    kind, shape = NOISE[node.op], state.shapes[name]
    count = prod(shape) + sum(array.size for array in draft.noise.values())
    if integer(node, "dtype", FLOAT) != FLOAT or not prod(shape) or count > MOST_NOISE:
        return False
    first, second = ("mean", "scale") if kind == "normal" else ("low", "high")
    low, high = (_number(node, n, k) for n, k in ((first, 0.0), (second, 1.0)))
    drawn = seeded(draft.generator, kind, shape)
    scale = high if kind == "normal" else high - low
    with np.errstate(over="ignore", invalid="ignore"):
        draft.noise[name] = drawn * np.float32(scale) + np.float32(low)
    return True


def _number(node: Node, name: str, default: float) -> float:
    value = node.attributes.get(name, default)
    if not isinstance(value, int | float):
        raise ModelError(f"{label(node)}: attribute {name} is a {type(value).__name__}")
    return float(value)


def _alias(node: Node, state: State) -> str | None:
    """The input that the node's output equals, whatever the numbers are."""
    first = node.inputs[0] if node.inputs else ""
    if not first:
        return None
    if node.op == "Identity" or (
        node.op in ("Concat", "Sum", "Max", "Min", "Mean") and len(node.inputs) == 1
    ):
        return first
    if node.op == "Cast":
        found, wanted = state.dtype(first), numpy_type(integer(node, "to", 1))
        if found == wanted:
            return first
        if first not in state.constants and {found, wanted} <= {*WIDE, FLOAT32} - {HALF}:
            return first
    return None


def _shape_of(node: Node, state: State) -> Array:
    shape = state.shape(node.inputs[0])
    if node.op == "Size":
        return np.array(np.prod(shape, dtype=np.int64))
    start, end = integer(node, "start", 0), integer(node, "end", len(shape))
    return np.array(shape[start:end], np.int64)


def _foldable(node: Node, state: State) -> bool:
    """Whether to compute the node now; what is known but takes long is left to the GPU."""
    known = all(not i or i in state.constants for i in node.inputs)
    if node.domain == DOMAIN and node.op in RULES and not known:
        raise UnsupportedOperator(
            f"{label(node)}: linear algebra of numbers that depend on the input; only that of "
            "weights can be done, while the network is loaded"
        )
    if node.op in RANDOM or not known:
        return False
    if node.domain == DOMAIN or node.op in FREE:
        return True
    if node.op in LIGHT:
        return state.folded_bytes + infer(node, state) <= state.may_fold
    arrays = [state.constants[i] for i in node.inputs if i]
    if node.op in ("MatMul", "Gemm"):
        inner = arrays[0].shape[-1] if arrays[0].ndim else 1
        infer(node, state)
        return prod(state.shapes[node.outputs[0]]) * inner <= MAX_PRODUCTS
    if node.op == "Conv" and infer(node, state) <= sum(array.nbytes for array in arrays):
        taps = prod(arrays[1].shape[1:])  # of kernels with kernels: a picture would grow
        return prod(state.shapes[node.outputs[0]]) * taps <= MAX_TAPS
    if sum(array.size for array in arrays) > MAX_HEAVY:
        return False
    return infer(node, state) <= MAX_HEAVY * 4


def _fold(node: Node, state: State) -> None:
    if node.domain == DOMAIN:
        state.folded_bytes += sum(state.constants[i].nbytes for i in node.inputs if i)
    elif node.op not in FREE:
        state.folded_bytes += infer(node, state)
    results = evaluate(node, state.constants)
    for name, array in results.items():
        state.constants[name] = array
    if any(i in state.derived for i in node.inputs):
        state.derived.update(results)
        state.folded.append(node)


def _narrow(name: str, state: State) -> str:
    """The constant in float32, for a node that runs."""
    data = state.constants.get(name)
    if data is None or data.dtype not in WIDE:
        return name
    node = Node(name, "Cast", (name,), (f"{name}.float32",), {"to": element_type(FLOAT32)})
    if node.outputs[0] not in state.constants:
        _fold(node, state)
    return node.outputs[0]


def _drop_unused(state: State, needed: Sequence[str]) -> None:
    """Remove nodes that nothing reads."""
    live = set(needed)
    kept, folded = [], []
    for position, node in reversed(state.nodes):
        if any(out in live for out in node.outputs):
            live.update(i for i in node.inputs if i)
            kept.append((position, node))
    for node in reversed(state.folded):
        if any(out in live for out in node.outputs):
            live.update(i for i in node.inputs if i)
            folded.append(node)
    state.nodes, state.folded = kept[::-1], folded[::-1]
