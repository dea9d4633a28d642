"""ONNX models: nodes are checked against their operators' schemas, then folded and keyed."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from nbglcnn.classes import names_in
from nbglcnn.errors import InputError, ModelError, UnsupportedModel, UnsupportedOperator, nearest
from nbglcnn.graph import OWN, Array, Attribute, Graph, InPython, Key, Node
from nbglcnn.inputs.arguments import Spec, as_arrays
from nbglcnn.load.bounds import checked_shape, shown
from nbglcnn.load.draft import FLOAT32, OPSET, WIDE, Draft, Unknown, label
from nbglcnn.load.noise import chosen, with_noise
from nbglcnn.load.onnx.branches import Guarded, unbranched
from nbglcnn.load.onnx.file import Folder, read_model, tensor_array
from nbglcnn.load.onnx.functions import domain_of, inlined
from nbglcnn.load.onnx.microsoft import KNOWN, MICROSOFT, translated
from nbglcnn.load.passes.finish import finish
from nbglcnn.load.passes.fold import NOISE, simplify
from nbglcnn.load.passes.infer import check_arity, numpy_type, schema_of

if TYPE_CHECKING:
    from onnx import AttributeProto, GraphProto, ModelProto, NodeProto

OLDEST = 6  # operator set
LONGEST = 300  # characters of a value's name that are kept
CLASSES = ("names", "classes", "labels")  # entries of the metadata that may hold class names
GIVE_X = "Give an example input x, which fixes it"
MADE_UP = 2**22  # numbers of an input that are drawn when no example is given; else it is zeros
# Where a float constant is a setting and not a weight: (operator, positions; all where None).
SETTINGS: dict[str, tuple[int, ...] | None] = {
    **dict.fromkeys(("Clip", "Resize", "Upsample", "Pad", "Range", "OneHot", "Dropout")),
    **dict.fromkeys(("Cast", "Shape", "ConstantOfShape", "Expand", "Tile", "Slice")),
    "Pow": (1,),
}


def load_onnx(source: Any, x: Any) -> tuple[Graph, tuple[Array, ...]]:
    """The Graph of a ModelProto, bytes or a file, with shapes fixed by `x`, and `x` as arrays."""
    model, name, folder = read_model(source)
    return _loaded(Draft(name=name[:LONGEST], source="onnx"), model, folder, x)


@dataclass(frozen=True)
class Part:
    """What of a model can be loaded: its Graph for inputs, and the nodes that cannot, and why.

    `names` are all values in the file's order.
    """

    graph: Graph
    arrays: tuple[Array, ...]
    refused: list[tuple[Node, UnsupportedModel]]
    names: list[str]


Given = Mapping[str, tuple[Array, str]]


def load_partly(source: Any, x: Any, given: Given) -> Part:
    """What of a model can be loaded; nodes whose outputs are `given` (and why) Python computes.

    Raises what `load_onnx` does where that isn't about a single node.
    """
    model, name, folder = read_model(source)
    draft = Draft(name=name[:LONGEST], source="onnx", refused=[], given=given)
    graph, arrays = _loaded(draft, model, folder, x)
    assert draft.refused is not None
    return Part(graph, arrays, draft.refused, [o for p in model.graph.node for o in p.output])


def _loaded(
    draft: Draft, model: ModelProto, folder: Folder | None, x: Any
) -> tuple[Graph, tuple[Array, ...]]:
    names = _Names()
    _constants(draft, model, names, folder)
    specs, written = _input_specs(draft, model, names)
    draft.may_draw = _may_draw(model, names)
    own, noise = _parted(x, len(specs), draft.may_draw)
    arrays = _made_up(specs, written) if own is None else as_arrays(own, specs)
    for spec, array in zip(specs, arrays, strict=True):
        shape = checked_shape(f"the input {shown(spec.name)}", array.shape)
        draft.inputs[spec.name] = shape, array.dtype
    produced = _nodes(draft, model, names, folder)
    _sort(draft)
    draft.outputs = [names[output.name] for output in model.graph.output]
    if not draft.outputs:
        raise ModelError("the graph has no outputs")
    for name in draft.outputs:
        if not name or name not in produced:
            raise ModelError(f"the output {shown(name)} is produced by nothing")
    _parameters(draft)
    done = simplify(draft)
    for name, array in draft.noise.items():
        draft.inputs[name] = array.shape, array.dtype
    arrays += chosen(noise, [*draft.noise], [*draft.noise.values()])
    draft.outputs = [name for name in draft.outputs if name not in draft.lost]
    for name in draft.outputs:
        if done.resolve(name) in done.sequences:
            raise UnsupportedModel(f"the output {shown(name)} is a sequence of tensors")
    keys = _keys(draft, done.aliases, {name for _, node in done.nodes for name in node.outputs})
    draft.outputs = [done.resolve(name) for name in draft.outputs]
    draft.classes = _classes(model)
    graph = finish(draft, done, tuple(node for _, node in done.nodes), keys)
    return with_noise(graph, [*draft.noise.values()]), arrays


def _may_draw(model: ModelProto, names: _Names) -> frozenset[str]:
    """Values that the file's own nodes draw: ONNX Runtime can be given others in their place."""
    drawn = (n.output[0] for n in model.graph.node if n.op_type in NOISE and len(n.output) == 1)
    return frozenset(name for name in drawn if name and names[name] == name)


def _parted(x: Any, count: int, may_draw: Container[str]) -> tuple[Any, Any]:
    """An example input without what stands for random numbers, and that."""
    if isinstance(x, Mapping):
        return {n: a for n, a in x.items() if n not in may_draw}, {
            n: a for n, a in x.items() if n in may_draw
        }
    if isinstance(x, tuple) and may_draw and len(x) > count:
        return x[:count], x[count:]
    return x, ()


def _classes(model: ModelProto) -> tuple[str, ...]:
    """The class names in a file's metadata; of the network's weights nothing depends on them."""
    written = {entry.key: entry.value for entry in model.metadata_props}
    found = (names_in(written[key]) for key in CLASSES if key in written)
    return next(filter(None, found), ())


class _Names(dict[str, str]):
    """Values' names as they are kept: the file's own, but not a megabyte of it."""

    def __missing__(self, name: str) -> str:
        kept = name if len(name) <= LONGEST else f"{name[:LONGEST]}…{len(self)}"
        self[name] = kept
        return kept


def _constants(draft: Draft, model: ModelProto, names: _Names, folder: Folder | None) -> None:
    if model.graph.sparse_initializer:
        raise UnsupportedModel("sparse initializers are not supported; store them as dense tensors")
    for tensor in model.graph.initializer:
        if not tensor.name:
            raise ModelError("an initializer has no name")
        if names[tensor.name] in draft.constants:
            raise ModelError(f"two initializers are called {shown(tensor.name)}")
        if tensor.data_type == tensor.STRING and tensor.name not in _read_names(model.graph):
            continue  # class names, as some tools leave them
        draft.constants[names[tensor.name]] = tensor_array(tensor, tensor.name, folder)


def needed_nodes(graph: GraphProto, outputs: Iterable[str]) -> list[NodeProto]:
    """The nodes that some values follow from, in the file's order."""
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
                    waiting += _read_names(inner)
    return [node for at, node in enumerate(graph.node) if at in kept]


def _read_names(graph: GraphProto) -> set[str]:
    """What nodes of a graph and of those inside it read, and its outputs."""
    found = {output.name for output in graph.output}
    for node in graph.node:
        found.update(node.input)
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                found |= _read_names(inner)
    return found


def _input_specs(draft: Draft, model: ModelProto, names: _Names) -> tuple[list[Spec], list[str]]:
    """The run-time inputs (old files list initializers among them), and their shapes as written."""
    specs: list[Spec] = []
    written: list[str] = []
    for value in model.graph.input:
        name = names[value.name]
        if name in draft.constants:
            continue
        if not value.name or name in {s.name for s in specs}:
            raise ModelError(f"two inputs, or none, are called {shown(value.name)}")
        if not value.type.HasField("tensor_type"):
            raise UnsupportedModel(f"the input {shown(value.name)} is not a tensor")
        tensor = value.type.tensor_type
        dtype = numpy_type(tensor.elem_type)
        if dtype in WIDE:
            draft.notes.append(f"the input {shown(name)} is {dtype} and computed in float32")
            dtype = FLOAT32
        if not tensor.HasField("shape"):
            specs.append(Spec(name, None, dtype))
            written.append("of any rank")
            continue
        # Some exporters write -1 for a dimension that is not fixed.
        dims = [d.dim_value if d.HasField("dim_value") else -1 for d in tensor.shape.dim]
        if any(d < -1 for d in dims):
            raise ModelError(f"the input {shown(name)} has the shape {dims}")
        checked_shape(f"the input {shown(name)}", [max(d, 0) for d in dims])
        specs.append(Spec(name, tuple(None if d < 0 else d for d in dims), dtype))
        symbols = (
            str(size) if size >= 0 else d.dim_param or "?"
            for size, d in zip(dims, tensor.shape.dim, strict=True)
        )
        written.append(shown("(" + ", ".join(symbols) + ")")[1:-1])
    return specs, written


def _made_up(specs: Sequence[Spec], written: Sequence[str]) -> tuple[Array, ...]:
    """Example inputs for static shapes: numbers in 0..1 by a fixed seed, so that layers differ."""
    generator = np.random.default_rng(0)
    arrays: list[Array] = []
    for spec, dims in zip(specs, written, strict=True):
        if spec.shape is None or None in spec.shape:
            raise InputError(f"the input {shown(spec.name)} has no fixed shape: {dims}. {GIVE_X}")
        shape = tuple(d for d in spec.shape if d is not None)
        checked_shape(f"the input {shown(spec.name)}", shape)
        if spec.dtype == FLOAT32 and np.prod(shape, dtype=object) <= MADE_UP:
            arrays.append(generator.random(shape, np.float32))
        else:  # a view of one number, for a gigabyte of them would take seconds
            arrays.append(np.broadcast_to(np.zeros((), spec.dtype), shape))
    return tuple(arrays)


def input_specs(source: Any) -> list[Spec]:
    """The inputs of a model as its file says them, without reading the rest of it."""
    return _read_inputs(source)[0]


def inputs_of_shapes(source: Any, shapes: Sequence[tuple[int, ...]]) -> tuple[Array, ...]:
    """Example inputs of these shapes, one for each input, in the types that the file gives them.

    Raises:
        InputError: there are more or fewer shapes than inputs.
    """
    specs, written = _read_inputs(source)
    if len(shapes) != len(specs):
        inputs = ", ".join(shown(spec.name) for spec in specs) or "none"
        count = "1 input" if len(specs) == 1 else f"{len(specs)} inputs"
        raise InputError(
            f"the model has {count} ({inputs}): give a shape for each, not {len(shapes)} of them"
        )
    own = [replace(spec, shape=shape) for spec, shape in zip(specs, shapes, strict=True)]
    return _made_up(own, written)


def _read_inputs(source: Any) -> tuple[list[Spec], list[str]]:
    model, name, folder = read_model(source)
    draft, names = Draft(name=name[:LONGEST], source="onnx"), _Names()
    _constants(draft, model, names, folder)
    return _input_specs(draft, model, names)


def _nodes(draft: Draft, model: ModelProto, names: _Names, folder: Folder | None) -> set[str]:
    """Checked nodes into the Draft; gives the names of all values."""
    produced = {*draft.constants, *draft.inputs}
    newest = _newest()
    names[""] = ""
    steps = _needed(unbranched(inlined(model), model), [o.name for o in model.graph.output])
    for proto, opsets, guards in steps:
        domain = domain_of(proto.domain)
        version = opsets.get(domain, 0)
        node = Node(
            name=proto.name[:LONGEST],
            op=proto.op_type,
            inputs=tuple(names[i] for i in proto.input),
            outputs=tuple(names[o] for o in proto.output),
            domain=domain,
        )
        if not domain and not OLDEST <= version <= newest:
            raise UnsupportedModel(
                f"operator set {version}; {OLDEST} to {newest} can be read"
                + ("" if version < OLDEST else " (by the onnx that is installed)")
            )
        try:
            left = _left_to_python(draft, node, proto, version, folder)
            added = left or _read(node, proto, version, folder)
        except UnsupportedModel as error:
            draft.refuse(node, error)
            produced.update(filter(None, node.outputs))
            continue
        for step, of in added:
            _produced(step, produced)
            draft.nodes.append(step)
            draft.versions.append(of)
            draft.guards.append(tuple((names[name], wanted) for name, wanted in guards))
    return produced


def _left_to_python(
    draft: Draft, node: Node, proto: NodeProto, version: int, folder: Folder | None
) -> list[tuple[Node, int]]:
    """The node as one that Python computes, where all of its outputs are given."""
    outputs = list(filter(None, node.outputs))
    if not outputs or not all(name in draft.given for name in outputs):
        return []
    for name in outputs:
        array, reason = draft.given[name]
        draft.declared[name] = array.shape, array.dtype
    read = None
    if not node.domain:
        today, own = (schema_of(node.op, "", of).since_version for of in (OPSET, version))
        if today == own:  # else it may compute something else today
            read = _read(node, proto, version, folder)[0][0]
    python = InPython(node.op, reason, read)
    return [(replace(node, op=OWN, domain="", python=python), OPSET)]


def _read(
    node: Node, proto: NodeProto, version: int, folder: Folder | None
) -> list[tuple[Node, int]]:
    """A checked node with its attributes, or the nodes that it stands for; their operator sets."""
    # Also of a node that is left to ONNX Runtime: no tensor in it may be in another file.
    given = {a.name: _attribute(node, a, folder) for a in proto.attribute} if node.domain else {}
    if node.domain == MICROSOFT and node.op in KNOWN:
        return [(step, OPSET) for step in translated(node, given)]
    if node.domain:
        own = "" if node.domain != MICROSOFT else f", and of this one {', '.join(sorted(KNOWN))}"
        near = nearest(node.op, list(KNOWN)) if node.domain == MICROSOFT else ""
        raise Unknown(
            f"{label(node)}: of the operator set {shown(node.domain)}; ONNX's own are supported"
            f"{own}{near}"
        )
    if node.op != "If":  # unbranched has checked it, and left it no attributes
        _check(node, proto, version)
    attributes = {a.name: _attribute(node, a, folder) for a in proto.attribute}
    return [(replace(node, attributes=MappingProxyType(attributes)), version)]


def _needed(steps: Sequence[Guarded], outputs: Sequence[str]) -> list[Guarded]:
    """The nodes that some output needs: what the others are is nobody's concern.

    One that gives nothing at all is broken, and refused with the others.
    """
    made: dict[str, list[int]] = {}
    for at, (proto, _, _) in enumerate(steps):
        for name in filter(None, proto.output):
            made.setdefault(name, []).append(at)
    kept: set[int] = set()
    waiting = list(outputs)
    while waiting:
        for at in made.pop(waiting.pop(), ()):
            if at not in kept:
                kept.add(at)
                proto, _, guards = steps[at]
                waiting += [*proto.input, *(condition for condition, _ in guards)]
    return [step for at, step in enumerate(steps) if at in kept or not any(step[0].output)]


def _produced(node: Node, produced: set[str]) -> None:
    for output in filter(None, node.outputs):
        if output in produced:
            raise ModelError(f"{label(node)}: its output {shown(output)} is produced twice")
        produced.add(output)


def _newest() -> int:
    import onnx

    return onnx.defs.onnx_opset_version()


def _check(node: Node, proto: NodeProto, version: int) -> None:
    """Arity and attributes, by the schema of the node's own operator set."""
    if not node.op:
        raise ModelError(f"node {shown(node.name)} has no operator")
    schema = schema_of(node.op, "", version)
    check_arity(node, schema)
    seen = set()
    for attribute in proto.attribute:
        expected = schema.attributes.get(attribute.name)
        if expected is None or attribute.name in seen or attribute.ref_attr_name:
            raise ModelError(
                f"{label(node)}: attribute {shown(attribute.name)} is not allowed here"
            )
        seen.add(attribute.name)
        if attribute.type != expected.type.value:
            raise ModelError(
                f"{label(node)}: attribute {attribute.name} is not of type {expected.type.name}"
            )
    for name, expected in schema.attributes.items():
        if expected.required and name not in seen:
            raise ModelError(f"{label(node)}: attribute {name} is missing")


def _attribute(node: Node, attribute: AttributeProto, folder: Folder | None) -> Attribute:
    kind = attribute.type
    if kind == attribute.INT:
        return int(attribute.i)
    if kind == attribute.FLOAT:
        return float(attribute.f)
    if kind == attribute.STRING:
        return _text(node, attribute.s)
    if kind == attribute.INTS:
        return tuple(attribute.ints)
    if kind == attribute.FLOATS:
        return tuple(attribute.floats)
    if kind == attribute.STRINGS:
        return tuple(_text(node, s) for s in attribute.strings)
    if kind == attribute.TENSOR:
        return tensor_array(attribute.t, node.outputs[0] if node.outputs else node.name, folder)
    if kind in (attribute.GRAPH, attribute.GRAPHS):
        raise UnsupportedOperator(
            f"{label(node)}: control flow is not supported; a network must be one fixed graph"
        )
    raise UnsupportedOperator(
        f"{label(node)}: attribute {shown(attribute.name)} is of no known type"
    )


def _text(node: Node, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ModelError(f"{label(node)}: an attribute is not UTF-8 text") from None


def _sort(draft: Draft) -> None:
    """Topological order, as near to the file's as it can be; a cycle is refused."""
    waiting: dict[str, list[int]] = {}
    missing = [0] * len(draft.nodes)
    known = {*draft.constants, *draft.inputs, *draft.lost, ""}
    producer = {o: at for at, node in enumerate(draft.nodes) for o in node.outputs if o}
    for at, node in enumerate(draft.nodes):
        for name in {*node.inputs, *(guard for guard, _ in draft.guards[at])} - known:
            if name not in producer:
                raise ModelError(f"{label(node)}: its input {shown(name)} is produced by nothing")
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
        raise ModelError(f"{label(draft.nodes[stuck])}: the graph has a cycle")
    draft.nodes = [draft.nodes[at] for at in order]
    draft.versions = [draft.versions[at] for at in order]
    draft.guards = [draft.guards[at] for at in order]


def _parameters(draft: Draft) -> None:
    """Float initializers and Constant nodes that are weights; half and double ones in float32.

    A file doesn't say which of them are trained: all but the statistics of BatchNormalizations.
    """
    weights: dict[str, None] = {}
    for node in draft.nodes:
        settings = SETTINGS.get(node.op, ())
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
        if data.dtype in WIDE:
            narrowed[str(data.dtype)] = None
            data = data.astype(np.float32)
        draft.constants[name] = data
        draft.parameters[name] = name
    kept = [
        step
        for step in zip(draft.nodes, draft.versions, draft.guards, strict=True)
        if not (step[0].op == "Constant" and step[0].outputs[0] in draft.parameters)
    ]
    draft.nodes, draft.versions = [step[0] for step in kept], [step[1] for step in kept]
    draft.guards = [step[2] for step in kept]
    normalized = [node.inputs for node in draft.nodes if node.op == "BatchNormalization"]
    statistics = {name for inputs in normalized for name in inputs[3:5]}
    draft.buffers.update(statistics & draft.parameters.keys())
    if narrowed:
        kinds = " and ".join(narrowed)
        draft.notes.append(f"weights stored as {kinds} are computed in float32")


def _keys(draft: Draft, aliases: Mapping[str, str], computed: Iterable[str]) -> list[Key]:
    """Inputs, then every value that a node computes under its own name, then outputs.

    An output that is an input is there as both, under the one name that the file has for it.
    """
    live = {*computed, *draft.inputs}
    outputs = dict.fromkeys(draft.outputs)
    keys = [Key(name, name, "input") for name in draft.inputs]
    for node in draft.nodes:
        for name in node.outputs:
            value = aliases.get(name, name)
            if name and name not in outputs and name not in draft.inputs and value in live:
                keys.append(Key(name, value, "layer"))
    return keys + [Key(name, aliases.get(name, name), "output") for name in outputs]
