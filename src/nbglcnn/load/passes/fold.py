"""Constant folding in one walk over the nodes: values known at load time become constants."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from nbglcnn.errors import ModelError, NbglcnnError, UnsupportedModel, UnsupportedOperator
from nbglcnn.graph import Array, Node
from nbglcnn.load.draft import (
    DTYPES_CAST_TO_FLOAT32,
    FLOAT32,
    HALF,
    OPSET,
    DependsOnUnsupportedError,
    FoldState,
    GraphDraft,
    describe_node,
    int_attr,
)
from nbglcnn.load.noise import Distribution, draw_noise
from nbglcnn.load.passes.evaluate import evaluate
from nbglcnn.load.passes.infer import element_type, infer, numpy_type
from nbglcnn.load.passes.linear_algebra import CUSTOM_DOMAIN, LINEAR_ALGEBRA_EVALUATORS
from nbglcnn.load.passes.rewrite import rewrite_node
from nbglcnn.load.size_limits import MAX_FOLDED_BYTES, quote_name

NOISE_DISTRIBUTIONS: dict[str, Distribution] = {
    "RandomNormal": "normal",
    "RandomNormalLike": "normal",
    "RandomUniform": "uniform",
    "RandomUniformLike": "uniform",
}
RANDOM_OPERATORS = {*NOISE_DISTRIBUTIONS, "Bernoulli", "Multinomial"}
INTEGER_OVERFLOW_HINT = (
    "; compute it in another type, as x.to(torch.int64) or x.float(), which never wraps around"
)
ONNX_FLOAT = 1  # onnx.TensorProto.FLOAT
MAX_NOISE_ELEMENTS = 2**22  # noise numbers per file: a small file may request terabytes
# Operators with a cost proportional to input and output size; others fold only if small.
CHEAP_OPERATORS = frozenset(
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
VIEW_OPERATORS = ("Constant", "ConstantOfShape", "Expand")  # results are views
MAX_FOLDED_MATMUL_MACS = 2**28  # MACs in a folded matrix product: 0.1 s
MAX_FOLDED_CONV_MACS = 2**27  # MACs in a folded convolution of two kernels: 0.5 s
MAX_COSTLY_ELEMENTS = 2**16  # elements in and out, for folding any other operator


def fold_draft(draft: GraphDraft) -> FoldState:
    """Fold constants, remove aliases, and infer a concrete shape for every value."""
    state = FoldState(
        draft, constants=dict(draft.constants), derived_constants=set(draft.parameters.values())
    )
    # The folding budget grows with the file, so that a large file may derive weights from its
    # weights.
    state.fold_budget_bytes = MAX_FOLDED_BYTES + 4 * sum(c.nbytes for c in draft.constants.values())
    for name, (shape, dtype) in draft.inputs.items():
        state.shapes[name], state.dtypes[name] = shape, dtype
    for position, original in enumerate(draft.nodes):
        draft.current_module = original.module
        try:
            _simplify_node(position, original, state)
        except UnsupportedModel as error:
            draft.mark_unsupported(original, error)
        except ModelError as error:
            if draft.describe_source is None or not original.torch_operator:
                raise
            refusal = UnsupportedOperator(
                f"{draft.describe_source(original.outputs[0])} cannot be translated to ONNX: "
                f"{error}"
                + (
                    INTEGER_OVERFLOW_HINT
                    if re.search(r"unsupported type: tensor\(u?int", str(error))
                    else ""
                )
            )
            refusal.__cause__ = error
            draft.mark_unsupported(original, refusal)
    needed = [*draft.outputs, *draft.keep_alive]
    if draft.unsupported_nodes is not None:  # keep what unsupported nodes read
        needed += [name for node, _ in draft.unsupported_nodes for name in node.inputs]
        needed = [name for name in needed if state.is_known(state.resolve(name))]
    _drop_unused(state, [state.resolve(name) for name in needed])
    return state


def _simplify_node(position: int, original: Node, state: FoldState) -> None:
    """Simplify one node of a GraphDraft."""
    draft = state.draft
    guards = draft.guards[position] if draft.guards else ()
    if draft.unsupported_nodes is not None and any(
        state.resolve(c) not in state.constants for c, _ in guards
    ):
        raise DependsOnUnsupportedError("unknown: inside an If branch that cannot run")
    if not all(_is_branch_taken(*guard, state) for guard in guards):
        return
    if lost := draft.unavailable_values.intersection(original.inputs):
        if original.op == "If" and original.inputs[0] not in lost:
            _is_branch_taken(original.inputs[0], True, state)
        raise DependsOnUnsupportedError(
            f"unknown: its input {quote_name(min(lost))} comes from a node that cannot run"
        )
    if original.op == "If" and not original.domain:
        _select_branch(original, state)
        return
    node = replace(original, inputs=tuple(state.resolve(i) for i in original.inputs))
    for name in node.inputs:
        if name and not state.is_known(name):
            raise ModelError(
                f"{describe_node(node)}: its input {quote_name(name)} is not produced by any node"
            )
    if node.python_fallback is not None:
        for name in filter(None, node.outputs):
            shape, dtype = draft.declared_types[name]
            state.shapes[name], state.dtypes[name] = (
                shape,
                FLOAT32 if dtype in DTYPES_CAST_TO_FLOAT32 else dtype,
            )
        state.nodes.append((position, _without_sequences(node, state)))
        return
    for step in _rewrite_node(node, draft.opsets[position] if draft.opsets else OPSET, state):
        step = replace(step, inputs=tuple(state.resolve(i) for i in step.inputs))
        _fold_or_keep(step, position, state)


def _without_sequences(node: Node, state: FoldState) -> Node:
    """Replace sequences in a Python node's inputs by the tensors they were split from."""
    made = {name: state.sequences[name].source for name in node.inputs if name in state.sequences}
    if not made or node.python_fallback is None:
        return node
    inputs = tuple(made.get(name, name) for name in node.inputs)
    return replace(node, inputs=inputs, python_fallback=replace(node.python_fallback, node=None))


def _is_branch_taken(condition: str, wanted: bool, state: FoldState) -> bool:
    """Whether a branch is taken; UnsupportedOperator if its condition is not constant."""
    data = state.constants.get(state.resolve(condition))
    if data is None:
        nodes = state.draft.nodes
        branching = next(n for n in nodes if n.op == "If" and n.inputs[0] == condition)
        inputs = [quote_name(name) for name in _input_ancestors(condition, state)]
        which = f"input{'s' * (len(inputs) > 1)} {' and '.join(inputs[:3])}" if inputs else "input"
        constant = inputs[0] if inputs else "'name'"
        raise UnsupportedOperator(
            f"{describe_node(branching)}: control flow whose condition {quote_name(condition)} "
            f"depends on the values of the {which} is not supported; a network must be one fixed "
            "graph. Export only the branch; or, if that input never changes, make it a constant: "
            f"model.graph.initializer.append(onnx.numpy_helper.from_array(array, {constant}))"
        )
    return bool(data.reshape(-1)[:1].any()) == wanted


def _input_ancestors(name: str, state: FoldState) -> list[str]:
    """The inputs that a value depends on."""
    made = {out: node for node in state.draft.nodes for out in node.outputs}
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        name = waiting.pop()
        if name not in seen and state.resolve(name) not in state.constants:
            seen.add(name)
            waiting += made[name].inputs if name in made else ()
    return [name for name in state.draft.inputs if name in seen]


def _select_branch(node: Node, state: FoldState) -> None:
    """Alias the outputs of an If to the outputs of its taken branch."""
    count = len(node.outputs)
    first = 1 if _is_branch_taken(node.inputs[0], True, state) else 1 + count
    for out, name in zip(node.outputs, node.inputs[first : first + count], strict=True):
        if not state.is_known(state.resolve(name)):
            raise ModelError(
                f"{describe_node(node)}: its branch's {quote_name(name)} is not produced by any "
                "node"
            )
        if out:
            state.aliases[out] = state.resolve(name)


def _rewrite_node(node: Node, version: int, state: FoldState) -> list[Node]:
    """Call `rewrite_node` safely: its rules run before onnx checks the node, so they may fail."""
    try:
        return rewrite_node(node, version, state)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        if isinstance(error, NbglcnnError):
            raise
        raise ModelError(
            f"{describe_node(node)}: its inputs and attributes don't fit together "
            f"({str(error)[:300]})"
        ) from error


def _fold_or_keep(node: Node, position: int, state: FoldState) -> None:
    same = _aliased_input(node, state)
    if same is not None:
        name = node.outputs[0]
        if name not in state.draft.preserved_aliases or same not in state.shapes:
            state.aliases[name] = same
            return
        state.shapes[name], state.dtypes[name] = state.shapes[same], state.dtypes[same]
        node = replace(node, op="Identity", domain="", inputs=(same,), attributes={})
        state.nodes.append((position, node))
    elif node.op in ("Shape", "Size") and len(node.inputs) == 1 and node.inputs[0]:
        state.constants[node.outputs[0]] = _shape_of(node, state)
    elif _is_foldable(node, state):
        _fold(node, state)
    else:
        node = replace(node, inputs=tuple(_cast_to_float32(i, state) for i in node.inputs))
        infer(node, state)
        if _make_noise_input(node, state):
            return
        state.nodes.append((position, node))


def _make_noise_input(node: Node, state: FoldState) -> bool:
    """Turn a random node into a noise input and store its default; return whether it was done."""
    draft, name = state.draft, node.outputs[0]
    if node.op not in NOISE_DISTRIBUTIONS or node.domain or name not in draft.noise_candidates:
        return False
    kind, shape = NOISE_DISTRIBUTIONS[node.op], state.shapes[name]
    count = prod(shape) + sum(array.size for array in draft.noise_defaults.values())
    if (
        int_attr(node, "dtype", ONNX_FLOAT) != ONNX_FLOAT
        or not prod(shape)
        or count > MAX_NOISE_ELEMENTS
    ):
        return False
    first, second = ("mean", "scale") if kind == "normal" else ("low", "high")
    low, high = (_float_attribute(node, n, k) for n, k in ((first, 0.0), (second, 1.0)))
    drawn = draw_noise(draft.generator, kind, shape)
    scale = high if kind == "normal" else high - low
    with np.errstate(over="ignore", invalid="ignore"):
        draft.noise_defaults[name] = drawn * np.float32(scale) + np.float32(low)
    return True


def _float_attribute(node: Node, name: str, default: float) -> float:
    value = node.attributes.get(name, default)
    if not isinstance(value, int | float):
        raise ModelError(f"{describe_node(node)}: attribute {name} is a {type(value).__name__}")
    return float(value)


def _aliased_input(node: Node, state: FoldState) -> str | None:
    """The input that the node's output always equals, or None."""
    first = node.inputs[0] if node.inputs else ""
    if not first:
        return None
    if node.op == "Identity" or (
        node.op in ("Concat", "Sum", "Max", "Min", "Mean") and len(node.inputs) == 1
    ):
        return first
    if node.op == "Cast":
        found, wanted = state.dtype(first), numpy_type(int_attr(node, "to", 1))
        if found == wanted:
            return first
        if first not in state.constants and {found, wanted} <= {
            *DTYPES_CAST_TO_FLOAT32,
            FLOAT32,
        } - {HALF}:
            return first
    return None


def _shape_of(node: Node, state: FoldState) -> Array:
    shape = state.shape(node.inputs[0])
    if node.op == "Size":
        return np.array(np.prod(shape, dtype=np.int64))
    start, end = int_attr(node, "start", 0), int_attr(node, "end", len(shape))
    return np.array(shape[start:end], np.int64)


def _is_foldable(node: Node, state: FoldState) -> bool:
    """Whether to fold the node; expensive nodes run on the GPU even with constant inputs."""
    known = all(not i or i in state.constants for i in node.inputs)
    if node.domain == CUSTOM_DOMAIN and node.op in LINEAR_ALGEBRA_EVALUATORS and not known:
        raise UnsupportedOperator(
            f"{describe_node(node)}: linear algebra of values that depend on the input is not "
            "supported; of weights alone it is computed at load time"
        )
    if node.op in RANDOM_OPERATORS or not known:
        return False
    if node.domain == CUSTOM_DOMAIN or node.op in VIEW_OPERATORS:
        return True
    if node.op in CHEAP_OPERATORS:
        return state.folded_bytes + infer(node, state) <= state.fold_budget_bytes
    arrays = [state.constants[i] for i in node.inputs if i]
    if node.op in ("MatMul", "Gemm"):
        inner = arrays[0].shape[-1] if arrays[0].ndim else 1
        infer(node, state)
        return prod(state.shapes[node.outputs[0]]) * inner <= MAX_FOLDED_MATMUL_MACS
    if node.op == "Conv" and infer(node, state) <= sum(array.nbytes for array in arrays):
        taps = prod(arrays[1].shape[1:])  # of kernel-by-kernel convolutions; pictures would grow
        return prod(state.shapes[node.outputs[0]]) * taps <= MAX_FOLDED_CONV_MACS
    if sum(array.size for array in arrays) > MAX_COSTLY_ELEMENTS:
        return False
    return infer(node, state) <= MAX_COSTLY_ELEMENTS * 4


def _fold(node: Node, state: FoldState) -> None:
    if node.domain == CUSTOM_DOMAIN:
        state.folded_bytes += sum(state.constants[i].nbytes for i in node.inputs if i)
    elif node.op not in VIEW_OPERATORS:
        state.folded_bytes += infer(node, state)
    results = evaluate(node, state.constants)
    for name, array in results.items():
        state.constants[name] = array
    if any(i in state.derived_constants for i in node.inputs):
        state.derived_constants.update(results)
        state.folded_nodes.append(node)


def _cast_to_float32(name: str, state: FoldState) -> str:
    """A float32 copy of a float64 or float16 constant, for a run-time node."""
    data = state.constants.get(name)
    if data is None or data.dtype not in DTYPES_CAST_TO_FLOAT32:
        return name
    node = Node(name, "Cast", (name,), (f"{name}.float32",), {"to": element_type(FLOAT32)})
    if node.outputs[0] not in state.constants:
        _fold(node, state)
    return node.outputs[0]


def _drop_unused(state: FoldState, needed: Sequence[str]) -> None:
    """Remove nodes that nothing reads."""
    live = set(needed)
    kept, folded = [], []
    for position, node in reversed(state.nodes):
        if any(out in live for out in node.outputs):
            live.update(i for i in node.inputs if i)
            kept.append((position, node))
    for node in reversed(state.folded_nodes):
        if any(out in live for out in node.outputs):
            live.update(i for i in node.inputs if i)
            folded.append(node)
    state.nodes, state.folded_nodes = kept[::-1], folded[::-1]
