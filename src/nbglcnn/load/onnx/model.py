"""ONNX models: nodes are checked against operator schemas, then folded and assigned keys."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from nbglcnn.class_names import parse_names
from nbglcnn.errors import (
    InputError,
    ModelError,
    UnsupportedModel,
    UnsupportedOperator,
    suggest_names,
)
from nbglcnn.graph import PYTHON_OP, Array, Attribute, Graph, Node, PythonFallback, ValueKey
from nbglcnn.inputs.arguments import InputSpec, to_input_arrays
from nbglcnn.load.draft import (
    DTYPES_CAST_TO_FLOAT32,
    FLOAT32,
    OPSET,
    GraphDraft,
    UnknownOutputError,
    describe_node,
)
from nbglcnn.load.noise import add_noise_inputs, resolve_noise
from nbglcnn.load.onnx.branches import GuardedNode, inline_branches
from nbglcnn.load.onnx.functions import inline_functions, normalize_domain
from nbglcnn.load.onnx.microsoft_operators import CONVERSION_RULES, MICROSOFT_DOMAIN, convert_node
from nbglcnn.load.onnx.model_file import DataFolder, read_model, tensor_array
from nbglcnn.load.passes.build_graph import build_graph
from nbglcnn.load.passes.fold import NOISE_DISTRIBUTIONS, fold_draft
from nbglcnn.load.passes.infer import check_arity, numpy_type, schema_of
from nbglcnn.load.size_limits import quote_name, validate_shape

if TYPE_CHECKING:
    from onnx import AttributeProto, GraphProto, ModelProto, NodeProto

OLDEST_OPSET = 6  # minimum opset
MAX_NAME_LENGTH = 300  # characters of a value's name to keep
CLASS_METADATA_KEYS = (
    "names",
    "classes",
    "labels",
)  # metadata entries that may contain class names
EXAMPLE_INPUT_HINT = "Give an example input x to fix it"
MAX_RANDOM_ELEMENTS = 2**22  # up to this size, an input without an example is random; else zeros
# Inputs that are settings if they are float constants: (operator, positions; None: all).
NON_WEIGHT_INPUTS: dict[str, tuple[int, ...] | None] = {
    **dict.fromkeys(("Clip", "Resize", "Upsample", "Pad", "Range", "OneHot", "Dropout")),
    **dict.fromkeys(("Cast", "Shape", "ConstantOfShape", "Expand", "Tile", "Slice")),
    "Pow": (1,),
}


def load_onnx(source: Any, x: Any) -> tuple[Graph, tuple[Array, ...]]:
    """Load a ModelProto, bytes or file as a Graph with the shapes of `x`, and `x` as arrays."""
    model, name, folder = read_model(source)
    return _load(GraphDraft(name=name[:MAX_NAME_LENGTH], framework="onnx"), model, folder, x)


@dataclass(frozen=True)
class PartialLoad:
    """The loadable part of a model: its Graph, its inputs, and the unsupported nodes with errors.

    `names` are the names of all values, in the file's order.
    """

    graph: Graph
    input_arrays: tuple[Array, ...]
    unsupported_nodes: list[tuple[Node, UnsupportedModel]]
    names: list[str]


PythonOutputs = Mapping[str, tuple[Array, str]]


def load_partial(source: Any, x: Any, python_outputs: PythonOutputs) -> PartialLoad:
    """Load the supported part of a model.

    Python computes the nodes whose outputs are in `python_outputs`, which maps them to reasons.

    Raises the errors of `load_onnx` that don't concern a single node.
    """
    model, name, folder = read_model(source)
    draft = GraphDraft(
        name=name[:MAX_NAME_LENGTH],
        framework="onnx",
        unsupported_nodes=[],
        python_outputs=python_outputs,
    )
    graph, arrays = _load(draft, model, folder, x)
    assert draft.unsupported_nodes is not None
    return PartialLoad(
        graph, arrays, draft.unsupported_nodes, [o for p in model.graph.node for o in p.output]
    )


def _load(
    draft: GraphDraft, model: ModelProto, folder: DataFolder | None, x: Any
) -> tuple[Graph, tuple[Array, ...]]:
    names = _ShortNames()
    _add_constants(draft, model, names, folder)
    specs, written = _input_specs(draft, model, names)
    draft.noise_candidates = _noise_candidates(model, names)
    own, noise = _split_noise(x, len(specs), draft.noise_candidates)
    arrays = _example_inputs(specs, written) if own is None else to_input_arrays(own, specs)
    for spec, array in zip(specs, arrays, strict=True):
        shape = validate_shape(f"the input {quote_name(spec.name)}", array.shape)
        draft.inputs[spec.name] = shape, array.dtype
    produced = _add_nodes(draft, model, names, folder)
    _sort_nodes(draft)
    draft.outputs = [names[output.name] for output in model.graph.output]
    if not draft.outputs:
        raise ModelError("the graph has no outputs")
    for name in draft.outputs:
        if not name or name not in produced:
            raise ModelError(f"the output {quote_name(name)} is not produced by any node")
    _set_parameters(draft)
    done = fold_draft(draft)
    for name, array in draft.noise_defaults.items():
        draft.inputs[name] = array.shape, array.dtype
    arrays += resolve_noise(noise, [*draft.noise_defaults], [*draft.noise_defaults.values()])
    draft.outputs = [name for name in draft.outputs if name not in draft.unavailable_values]
    for name in draft.outputs:
        if done.resolve(name) in done.sequences:
            raise UnsupportedModel(f"the output {quote_name(name)} is a sequence of tensors")
    keys = _make_keys(
        draft, done.aliases, {name for _, node in done.nodes for name in node.outputs}
    )
    draft.outputs = [done.resolve(name) for name in draft.outputs]
    draft.class_names = _read_class_names(model)
    graph = build_graph(draft, done, tuple(node for _, node in done.nodes), keys)
    return add_noise_inputs(graph, [*draft.noise_defaults.values()]), arrays


def _noise_candidates(model: ModelProto, names: _ShortNames) -> frozenset[str]:
    """Outputs of the file's random nodes, which ONNX Runtime accepts as inputs."""
    drawn = (
        n.output[0]
        for n in model.graph.node
        if n.op_type in NOISE_DISTRIBUTIONS and len(n.output) == 1
    )
    return frozenset(name for name in drawn if name and names[name] == name)


def _split_noise(x: Any, input_count: int, noise_names: Container[str]) -> tuple[Any, Any]:
    """Split an example input into the model's inputs and the noise."""
    if isinstance(x, Mapping):
        return {n: a for n, a in x.items() if n not in noise_names}, {
            n: a for n, a in x.items() if n in noise_names
        }
    if isinstance(x, tuple) and noise_names and len(x) > input_count:
        return x[:input_count], x[input_count:]
    return x, ()


def _read_class_names(model: ModelProto) -> tuple[str, ...]:
    """The class names in a file's metadata; the weights don't depend on them."""
    written = {entry.key: entry.value for entry in model.metadata_props}
    found = (parse_names(written[key]) for key in CLASS_METADATA_KEYS if key in written)
    return next(filter(None, found), ())


class _ShortNames(dict[str, str]):
    """Value names, truncated if very long."""

    def __missing__(self, name: str) -> str:
        kept = name if len(name) <= MAX_NAME_LENGTH else f"{name[:MAX_NAME_LENGTH]}…{len(self)}"
        self[name] = kept
        return kept


def _add_constants(
    draft: GraphDraft, model: ModelProto, names: _ShortNames, folder: DataFolder | None
) -> None:
    if model.graph.sparse_initializer:
        raise UnsupportedModel("sparse initializers are not supported; store them as dense tensors")
    for tensor in model.graph.initializer:
        if not tensor.name:
            raise ModelError("an initializer has no name")
        if names[tensor.name] in draft.constants:
            raise ModelError(f"two initializers are named {quote_name(tensor.name)}")
        if tensor.data_type == tensor.STRING and tensor.name not in _consumed_names(model.graph):
            continue  # class names, as some tools store them
        draft.constants[names[tensor.name]] = tensor_array(tensor, tensor.name, folder)


def ancestor_nodes(graph: GraphProto, outputs: Iterable[str]) -> list[NodeProto]:
    """The nodes that these values depend on, in the file's order."""
    made = {name: at for at, node in enumerate(graph.node) for name in node.output if name}
    kept: set[int] = set()
    waiting = list(outputs)
    while waiting:
        at = made.get(waiting.pop())
        if at is not None and at not in kept:
            kept.add(at)
            node = graph.node[at]
            waiting += node.input
            for attribute in node.attribute:
                for inner in (attribute.g, *attribute.graphs):
                    waiting += _consumed_names(inner)
    return [node for at, node in enumerate(graph.node) if at in kept]


def _consumed_names(graph: GraphProto) -> set[str]:
    """The names that a graph reads: inputs of its nodes, also in subgraphs, and its outputs."""
    found = {output.name for output in graph.output}
    for node in graph.node:
        found.update(node.input)
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                found |= _consumed_names(inner)
    return found


def _input_specs(
    draft: GraphDraft, model: ModelProto, names: _ShortNames
) -> tuple[list[InputSpec], list[str]]:
    """Run-time inputs, without the initializers that old files list, and their shapes as text."""
    specs: list[InputSpec] = []
    written: list[str] = []
    for value in model.graph.input:
        name = names[value.name]
        if name in draft.constants:
            continue
        if not value.name or name in {s.name for s in specs}:
            raise ModelError(
                f"an input has no name, or the name of another input: {quote_name(value.name)}"
            )
        if not value.type.HasField("tensor_type"):
            raise UnsupportedModel(f"the input {quote_name(value.name)} is not a tensor")
        tensor = value.type.tensor_type
        dtype = numpy_type(tensor.elem_type)
        if dtype in DTYPES_CAST_TO_FLOAT32:
            draft.notes.append(f"the input {quote_name(name)} is {dtype} and computed in float32")
            dtype = FLOAT32
        if not tensor.HasField("shape"):
            specs.append(InputSpec(name, None, dtype))
            written.append("of any rank")
            continue
        # Some exporters write -1 for a dynamic dimension.
        dims = [d.dim_value if d.HasField("dim_value") else -1 for d in tensor.shape.dim]
        if any(d < -1 for d in dims):
            raise ModelError(f"the input {quote_name(name)} has the shape {dims}")
        validate_shape(f"the input {quote_name(name)}", [max(d, 0) for d in dims])
        specs.append(InputSpec(name, tuple(None if d < 0 else d for d in dims), dtype))
        symbols = (
            str(size) if size >= 0 else d.dim_param or "?"
            for size, d in zip(dims, tensor.shape.dim, strict=True)
        )
        written.append(quote_name("(" + ", ".join(symbols) + ")")[1:-1])
    return specs, written


def _example_inputs(specs: Sequence[InputSpec], shape_texts: Sequence[str]) -> tuple[Array, ...]:
    """Example inputs for static shapes: random in 0..1 with a fixed seed, so that layers differ."""
    generator = np.random.default_rng(0)
    arrays: list[Array] = []
    for spec, dims in zip(specs, shape_texts, strict=True):
        if spec.shape is None or None in spec.shape:
            raise InputError(
                f"the input {quote_name(spec.name)} has no fixed shape: {dims}. "
                f"{EXAMPLE_INPUT_HINT}"
            )
        shape = tuple(d for d in spec.shape if d is not None)
        validate_shape(f"the input {quote_name(spec.name)}", shape)
        if spec.dtype == FLOAT32 and np.prod(shape, dtype=object) <= MAX_RANDOM_ELEMENTS:
            arrays.append(generator.random(shape, np.float32))
        else:  # a broadcast view: filling a gigabyte would take seconds
            arrays.append(np.broadcast_to(np.zeros((), spec.dtype), shape))
    return tuple(arrays)


def input_specs(source: Any) -> list[InputSpec]:
    """The inputs that a model's file declares; only its constants are read besides."""
    return _read_inputs(source)[0]


def inputs_of_shapes(source: Any, shapes: Sequence[tuple[int, ...]]) -> tuple[Array, ...]:
    """Make example inputs of these shapes, one per input, in the types that the file declares.

    Raises:
        InputError: If the number of shapes is not the number of inputs.
    """
    specs, written = _read_inputs(source)
    if len(shapes) != len(specs):
        inputs = ", ".join(quote_name(spec.name) for spec in specs) or "none"
        count = "1 input" if len(specs) == 1 else f"{len(specs)} inputs"
        raise InputError(
            f"the model has {count} ({inputs}): give a shape for each; {len(shapes)} were given"
        )
    own = [replace(spec, shape=shape) for spec, shape in zip(specs, shapes, strict=True)]
    return _example_inputs(own, written)


def _read_inputs(source: Any) -> tuple[list[InputSpec], list[str]]:
    model, name, folder = read_model(source)
    draft, names = GraphDraft(name=name[:MAX_NAME_LENGTH], framework="onnx"), _ShortNames()
    _add_constants(draft, model, names, folder)
    return _input_specs(draft, model, names)


def _add_nodes(
    draft: GraphDraft, model: ModelProto, names: _ShortNames, folder: DataFolder | None
) -> set[str]:
    """Add checked nodes to the GraphDraft; return the names of all values."""
    produced = {*draft.constants, *draft.inputs}
    newest = _newest_opset()
    names[""] = ""
    steps = _required_nodes(
        inline_branches(inline_functions(model), model), [o.name for o in model.graph.output]
    )
    for proto, opsets, guards in steps:
        domain = normalize_domain(proto.domain)
        version = opsets.get(domain, 0)
        node = Node(
            name=proto.name[:MAX_NAME_LENGTH],
            op=proto.op_type,
            inputs=tuple(names[i] for i in proto.input),
            outputs=tuple(names[o] for o in proto.output),
            domain=domain,
        )
        if not domain and not OLDEST_OPSET <= version <= newest:
            raise UnsupportedModel(
                f"operator set {version}; {OLDEST_OPSET} to {newest} are supported"
                + ("" if version < OLDEST_OPSET else " (by the installed onnx)")
            )
        try:
            left = _python_fallback_node(draft, node, proto, version, folder)
            added = left or _parse_node(node, proto, version, folder)
        except UnsupportedModel as error:
            draft.mark_unsupported(node, error)
            produced.update(filter(None, node.outputs))
            continue
        for step, of in added:
            _mark_produced(step, produced)
            draft.nodes.append(step)
            draft.opsets.append(of)
            draft.guards.append(tuple((names[name], wanted) for name, wanted in guards))
    return produced


def _python_fallback_node(
    draft: GraphDraft, node: Node, proto: NodeProto, version: int, folder: DataFolder | None
) -> list[tuple[Node, int]]:
    """Return the node as a Python fallback if all of its outputs are given, else []."""
    outputs = list(filter(None, node.outputs))
    if not outputs or not all(name in draft.python_outputs for name in outputs):
        return []
    for name in outputs:
        array, reason = draft.python_outputs[name]
        draft.declared_types[name] = array.shape, array.dtype
    read = None
    if not node.domain:
        today, own = (schema_of(node.op, "", of).since_version for of in (OPSET, version))
        if today == own:  # else the current opset may compute something else
            read = _parse_node(node, proto, version, folder)[0][0]
    python = PythonFallback(node.op, reason, read)
    return [(replace(node, op=PYTHON_OP, domain="", python_fallback=python), OPSET)]


def _parse_node(
    node: Node, proto: NodeProto, version: int, folder: DataFolder | None
) -> list[tuple[Node, int]]:
    """Return the checked node with its attributes, or its replacements, with their opsets."""
    # Also for nodes left to ONNX Runtime: their tensors must not be in other files.
    given = {a.name: _attribute(node, a, folder) for a in proto.attribute} if node.domain else {}
    if node.domain == MICROSOFT_DOMAIN and node.op in CONVERSION_RULES:
        return [(step, OPSET) for step in convert_node(node, given)]
    if node.domain:
        own = (
            ""
            if node.domain != MICROSOFT_DOMAIN
            else f", and of this one {', '.join(sorted(CONVERSION_RULES))}"
        )
        near = (
            suggest_names(node.op, list(CONVERSION_RULES))
            if node.domain == MICROSOFT_DOMAIN
            else ""
        )
        raise UnknownOutputError(
            f"{describe_node(node)}: of the operator set {quote_name(node.domain)}; ONNX's own are "
            f"supported{own}{near}"
        )
    if node.op != "If":  # inline_branches has checked it and removed its attributes
        _check_schema(node, proto, version)
    attributes = {a.name: _attribute(node, a, folder) for a in proto.attribute}
    return [(replace(node, attributes=MappingProxyType(attributes)), version)]


def _required_nodes(nodes: Sequence[GuardedNode], outputs: Sequence[str]) -> list[GuardedNode]:
    """The nodes that the outputs depend on; other nodes are not checked.

    Nodes without any output are invalid; they are kept, so that the check rejects them.
    """
    made: dict[str, list[int]] = {}
    for at, (proto, _, _) in enumerate(nodes):
        for name in filter(None, proto.output):
            made.setdefault(name, []).append(at)
    kept: set[int] = set()
    waiting = list(outputs)
    while waiting:
        for at in made.pop(waiting.pop(), ()):
            if at not in kept:
                kept.add(at)
                proto, _, guards = nodes[at]
                waiting += [*proto.input, *(condition for condition, _ in guards)]
    return [step for at, step in enumerate(nodes) if at in kept or not any(step[0].output)]


def _mark_produced(node: Node, produced: set[str]) -> None:
    for output in filter(None, node.outputs):
        if output in produced:
            raise ModelError(
                f"{describe_node(node)}: its output {quote_name(output)} is produced twice"
            )
        produced.add(output)


def _newest_opset() -> int:
    import onnx

    return onnx.defs.onnx_opset_version()


def _check_schema(node: Node, proto: NodeProto, version: int) -> None:
    """Check the number of inputs and the attributes by the schema of the node's own opset."""
    if not node.op:
        raise ModelError(f"node {quote_name(node.name)} has no operator")
    schema = schema_of(node.op, "", version)
    check_arity(node, schema)
    seen = set()
    for attribute in proto.attribute:
        expected = schema.attributes.get(attribute.name)
        if expected is None or attribute.name in seen or attribute.ref_attr_name:
            raise ModelError(
                f"{describe_node(node)}: attribute {quote_name(attribute.name)} is not allowed here"
            )
        seen.add(attribute.name)
        if attribute.type != expected.type.value:
            raise ModelError(
                f"{describe_node(node)}: attribute {attribute.name} is not of type "
                f"{expected.type.name}"
            )
    for name, expected in schema.attributes.items():
        if expected.required and name not in seen:
            raise ModelError(f"{describe_node(node)}: attribute {name} is missing")


def _attribute(node: Node, attribute: AttributeProto, folder: DataFolder | None) -> Attribute:
    kind = attribute.type
    if kind == attribute.INT:
        return int(attribute.i)
    if kind == attribute.FLOAT:
        return float(attribute.f)
    if kind == attribute.STRING:
        return _decode_text(node, attribute.s)
    if kind == attribute.INTS:
        return tuple(attribute.ints)
    if kind == attribute.FLOATS:
        return tuple(attribute.floats)
    if kind == attribute.STRINGS:
        return tuple(_decode_text(node, s) for s in attribute.strings)
    if kind == attribute.TENSOR:
        return tensor_array(attribute.t, node.outputs[0] if node.outputs else node.name, folder)
    if kind in (attribute.GRAPH, attribute.GRAPHS):
        raise UnsupportedOperator(
            f"{describe_node(node)}: control flow is not supported; a network must be one fixed "
            "graph"
        )
    raise UnsupportedOperator(
        f"{describe_node(node)}: attribute {quote_name(attribute.name)} has an unknown type"
    )


def _decode_text(node: Node, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ModelError(f"{describe_node(node)}: an attribute is not UTF-8 text") from None


def _sort_nodes(draft: GraphDraft) -> None:
    """Sort topologically, as close to the file's order as possible; ModelError for a cycle."""
    waiting: dict[str, list[int]] = {}
    missing = [0] * len(draft.nodes)
    known = {*draft.constants, *draft.inputs, *draft.unavailable_values, ""}
    producer = {o: at for at, node in enumerate(draft.nodes) for o in node.outputs if o}
    for at, node in enumerate(draft.nodes):
        for name in {*node.inputs, *(guard for guard, _ in draft.guards[at])} - known:
            if name not in producer:
                raise ModelError(
                    f"{describe_node(node)}: its input {quote_name(name)} is not produced by any "
                    "node"
                )
            waiting.setdefault(name, []).append(at)
            missing[at] += 1
    order: list[int] = []
    for start in range(len(draft.nodes)):
        ready = [start] if missing[start] == 0 else []
        while ready:
            at = ready.pop()
            missing[at] = -1
            order.append(at)
            for name in draft.nodes[at].outputs:
                for user in waiting.pop(name, ()):
                    missing[user] -= 1
                    if missing[user] == 0 and user < start:
                        ready.append(user)
    if len(order) < len(draft.nodes):
        stuck = next(at for at, count in enumerate(missing) if count > 0)
        raise ModelError(f"{describe_node(draft.nodes[stuck])}: the graph has a cycle")
    draft.nodes = [draft.nodes[at] for at in order]
    draft.opsets = [draft.opsets[at] for at in order]
    draft.guards = [draft.guards[at] for at in order]


def _set_parameters(draft: GraphDraft) -> None:
    """Make float initializers and Constants that are weights parameters, in float32.

    A file doesn't declare which of them are trained; the statistics of BatchNormalizations become
    buffers.
    """
    weights: dict[str, None] = {}
    for node in draft.nodes:
        settings = NON_WEIGHT_INPUTS.get(node.op, ())
        for position, name in enumerate(node.inputs):
            if settings is not None and position not in settings:
                weights[name] = None
    constants = {
        node.outputs[0]: node.attributes["value"]
        for node in draft.nodes
        if node.op == "Constant" and "value" in node.attributes
    }
    narrowed: dict[str, None] = {}
    for name, data in (*draft.constants.items(), *constants.items()):
        if not isinstance(data, np.ndarray) or data.dtype.kind != "f" or name not in weights:
            continue
        if data.dtype in DTYPES_CAST_TO_FLOAT32:
            narrowed[str(data.dtype)] = None
            data = data.astype(np.float32)
        draft.constants[name] = data
        draft.parameters[name] = name
    kept = [
        step
        for step in zip(draft.nodes, draft.opsets, draft.guards, strict=True)
        if not (step[0].op == "Constant" and step[0].outputs[0] in draft.parameters)
    ]
    draft.nodes, draft.opsets = [step[0] for step in kept], [step[1] for step in kept]
    draft.guards = [step[2] for step in kept]
    normalized = [node.inputs for node in draft.nodes if node.op == "BatchNormalization"]
    statistics = {name for inputs in normalized for name in inputs[3:5]}
    draft.buffers.update(statistics & draft.parameters.keys())
    if narrowed:
        kinds = " and ".join(narrowed)
        draft.notes.append(f"weights stored as {kinds} are computed in float32")


def _make_keys(
    draft: GraphDraft, aliases: Mapping[str, str], computed_values: Iterable[str]
) -> list[ValueKey]:
    """The keys: inputs, every computed value under its own name, outputs.

    An output that is also an input has two keys with the file's name.
    """
    live = {*computed_values, *draft.inputs}
    outputs = dict.fromkeys(draft.outputs)
    keys = [ValueKey(name, name, "input") for name in draft.inputs]
    for node in draft.nodes:
        for name in node.outputs:
            value = aliases.get(name, name)
            if name and name not in outputs and name not in draft.inputs and value in live:
                keys.append(ValueKey(name, value, "layer"))
    return keys + [ValueKey(name, aliases.get(name, name), "output") for name in outputs]
