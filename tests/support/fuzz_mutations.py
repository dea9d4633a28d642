"""Ways to damage a model: change a few bytes of its file, or a few parts of its structure."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

SIZES = (0, 1, 2, 3, 4, 5, 7, 8, 12, 16, 64, 255, 1000, 4096, 65_536, 2**20, 2**24, 2**28)
EXTREME_INTEGERS = (
    -1,
    -2,
    -3,
    -8,
    2**31 - 1,
    2**31,
    2**32,
    2**40,
    2**62,
    2**63 - 1,
    -(2**31),
    -(2**63),
)
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 1e-45, 1e-8, 1e6, 3e38, float("inf"), float("nan"))
NAMES = (
    *("", "x", "y", "w1", "<img src=x onerror=alert(1)>", "</script>", "__proto__", "constructor"),
    *("new\nline", "null\0byte", "\u202eevil", "é☃😀", "n" * 5000, "ai.onnx", "*/ #define x"),
)
ATTRIBUTE_STRINGS = (
    "nearest",
    "linear",
    "cubic",
    "reflect",
    "edge",
    "constant",
    "SAME_LOWER",
    "VALID",
    "CRD",
)
OPERATORS = tuple(sorted({s.name for s in onnx.defs.get_all_schemas() if not s.domain}))


def mutate_bytes(data: bytes, random: Random) -> bytes:
    """Flip, replace, delete, duplicate or insert bytes in one to three places."""
    changed = bytearray(data)
    for _ in range(random.randint(1, 3)):
        if not changed:
            break
        at = random.randrange(len(changed))
        size = random.choice((1, 1, 2, 4, 8, random.randrange(1, 200)))
        match random.randrange(8):
            case 0:
                changed[at] ^= 1 << random.randrange(8)
            case 1:
                changed[at] = random.randrange(256)
            case 2:
                changed[at] = (changed[at] + random.choice((-1, 1))) % 256
            case 3:
                del changed[at : at + size]
            case 4:
                changed[at:at] = random.randbytes(size)
            case 5:  # a number as a protobuf varint or in eight bytes
                number = random.choice((*SIZES, *EXTREME_INTEGERS)) % 2**64
                wide = struct.pack("<Q", number)
                text = random.choice((wide, _varint(number)))
                changed[at : at + random.choice((0, 1, len(text)))] = text
            case 6:  # copies a piece to another place
                start = random.randrange(len(changed))
                changed[at:at] = changed[start : start + size]
            case _:
                del changed[at:]
    return bytes(changed)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number % 128 | 128)
        number //= 128
    return bytes([*out, number])


def mutate_structure(data: bytes, random: Random) -> bytes:
    """Return the model with one to four changes, each of which alone leaves a readable file."""
    model = onnx.load_model_from_string(data)
    for _ in range(random.choice((1, 1, 2, 3, 4))):
        random.choice(MUTATIONS)(model, random)
    return model.SerializeToString()


def _mutate_integer(random: Random, old: int = 0) -> int:
    near = (old + 1, old - 1, old * 2, -old, random.randint(-4, 9))
    number = random.choice((*near, *near, *SIZES, *EXTREME_INTEGERS))
    return max(-(2**63), min(number, 2**63 - 1))


def _mutate_float(random: Random, old: float = 1.0) -> float:
    return random.choice((*FLOATS, old / 2, -old, random.uniform(-3, 3)))


def _value_names(model: ModelProto) -> list[str]:
    """The names of all values, except those of outputs that were removed."""
    graph = model.graph
    names = [v.name for v in (*graph.input, *graph.initializer)]
    return [*names, *(name for node in graph.node for name in node.output)] or ["x"]


def _random_node(model: ModelProto, random: Random) -> NodeProto:
    if not model.graph.node:
        model.graph.node.append(helper.make_node("Relu", ["x"], ["y"]))
    return random.choice(model.graph.node)


def _schema(operator: str) -> Any:
    return onnx.defs.get_schema(operator, onnx.defs.onnx_opset_version())


def _random_tensor(model: ModelProto, random: Random) -> TensorProto:
    tensors = [*model.graph.initializer]
    tensors += [a.t for node in model.graph.node for a in node.attribute if a.HasField("t")]
    return random.choice(tensors) if tensors else TensorProto()


def _decode_array(tensor: TensorProto) -> np.ndarray | None:
    """The elements of a constant, or None if an earlier change made them unreadable."""
    try:
        return numpy_helper.to_array(tensor)
    except Exception:
        return None


def _mutate_list(items: list[Any], random: Random, make_item: Callable[..., Any]) -> list[Any]:
    """Return the list with one item changed, inserted, removed or duplicated."""
    at = random.randrange(len(items) + 1)
    match random.randrange(6):
        case 0:
            items.insert(at, make_item(random))
        case 1:
            del items[at : at + 1]
        case 2:
            items[at:at] = items[at : at + 1]
        case 3:
            random.shuffle(items)
        case _:
            if items:
                at = random.randrange(len(items))
                items[at] = make_item(random, items[at])
    return items


def _change_items(items: Any, random: Random, make_item: Callable[..., Any]) -> None:
    """Apply `_mutate_list` to a repeated protobuf field."""
    changed = _mutate_list(list(items), random, make_item)
    del items[:]
    items.extend(changed)


def change_input_dims(model: ModelProto, random: Random) -> None:
    """Change an input's size or rank, or give it a symbolic dimension."""
    if model.graph.input:
        shape = random.choice(model.graph.input).type.tensor_type.shape
        dims = _mutate_list([d.dim_value for d in shape.dim], random, _mutate_integer)
        del shape.dim[:]
        for size in dims:
            shape.dim.add(dim_value=size)
        if dims and random.random() < 0.05:
            random.choice(shape.dim).dim_param = random.choice(NAMES)


def change_tensor_dims(model: ModelProto, random: Random) -> None:
    """Change the shape of a constant so that its bytes no longer fit."""
    tensor = _random_tensor(model, random)
    _change_items(tensor.dims, random, _mutate_integer)


def change_tensor_shape(model: ModelProto, random: Random) -> None:
    """Change the shape of a constant and resize its data to fit."""
    tensor = _random_tensor(model, random)
    dims = _mutate_list(list(tensor.dims), random, lambda random, _=0: random.randrange(0, 9))
    old = _decode_array(tensor)
    if old is not None and 0 < np.prod(dims) <= 4096 and old.size and min(dims, default=1) >= 0:
        new = np.resize(old, dims)
        tensor.CopyFrom(numpy_helper.from_array(new, tensor.name))


def change_integers(model: ModelProto, random: Random) -> None:
    """Change a number in an integer constant: axes, sizes, pads, indices."""
    tensors = [t for t in model.graph.initializer if t.data_type == TensorProto.INT64]
    if tensors:
        tensor = random.choice(tensors)
        count = len(tensor.raw_data) // 8
        numbers = list(struct.unpack(f"<{count}q", tensor.raw_data[: 8 * count]))
        at = random.randrange(count) if count else 0
        numbers[at : at + 1] = [_mutate_integer(random, *numbers[at : at + 1])]
        tensor.raw_data = struct.pack(f"<{len(numbers)}q", *numbers)
        if not count and len(tensor.dims) == 1:
            tensor.dims[0] = 1


def change_floats(model: ModelProto, random: Random) -> None:
    """Put a special number into a float constant: weights, scales, limits."""
    tensors = [t for t in model.graph.initializer if t.data_type == TensorProto.FLOAT]
    if tensors:
        tensor = random.choice(tensors)
        array = np.frombuffer(tensor.raw_data[: len(tensor.raw_data) // 4 * 4], "<f4").copy()
        if array.size:
            with np.errstate(all="ignore"):
                array[random.randrange(array.size)] = _mutate_float(random)
            tensor.raw_data = array.tobytes()


def change_tensor_type(model: ModelProto, random: Random) -> None:
    """Change a constant's element type, converting its numbers or leaving its bytes as they are."""
    tensor = _random_tensor(model, random)
    if random.random() < 0.3:
        tensor.data_type = random.randrange(-1, 27)
        return
    kind = random.choice(("f2", "f4", "f8", "i1", "u1", "i2", "i4", "i8", "u8", "?"))
    array = _decode_array(tensor)
    if array is not None and array.dtype.kind in "fiub":
        with np.errstate(all="ignore"):
            tensor.CopyFrom(numpy_helper.from_array(array.astype(kind), tensor.name))


def change_tensor_storage(model: ModelProto, random: Random) -> None:
    """Store too many or too few bytes, or use a second field, another file or segments."""
    tensor = _random_tensor(model, random)
    match random.randrange(5):
        case 0:
            tensor.raw_data = tensor.raw_data[: -random.randint(1, 9)]
        case 1:
            tensor.raw_data = tensor.raw_data + random.randbytes(random.randint(1, 9))
        case 2:
            tensor.float_data.append(_mutate_float(random))
        case 3:
            tensor.segment.begin = _mutate_integer(random)
        case _:
            tensor.data_location = TensorProto.EXTERNAL
            tensor.external_data.add(key="location", value=random.choice(NAMES))


def change_attribute(model: ModelProto, random: Random) -> None:
    """Change the value of an attribute."""
    node = _random_node(model, random)
    if not node.attribute:
        return add_attribute(model, random)
    attribute = random.choice(node.attribute)
    match attribute.type:
        case AttributeProto.INT:
            attribute.i = _mutate_integer(random, attribute.i)
        case AttributeProto.FLOAT:
            attribute.f = _mutate_float(random, attribute.f)
        case AttributeProto.STRING:
            words = (*NAMES, *ATTRIBUTE_STRINGS)
            attribute.s = random.choice((random.choice(words).encode(), random.randbytes(3)))
        case AttributeProto.INTS:
            _change_items(attribute.ints, random, _mutate_integer)
        case AttributeProto.FLOATS:
            _change_items(attribute.floats, random, _mutate_float)
        case _:
            attribute.type = random.randrange(0, 15)
    return None


def change_attribute_kind(model: ModelProto, random: Random) -> None:
    """Rename, retype, remove or duplicate an attribute."""
    node = _random_node(model, random)
    if not node.attribute:
        return
    at = random.randrange(len(node.attribute))
    match random.randrange(5):
        case 0:
            del node.attribute[at]
        case 1:
            node.attribute.add().CopyFrom(node.attribute[at])
        case 2:
            node.attribute[at].name = random.choice((*NAMES, "axis", "axes", "group", "mode"))
        case 3:
            node.attribute[at].type = random.randrange(0, 15)
        case _:
            node.attribute[at].ref_attr_name = random.choice(NAMES)


def add_attribute(model: ModelProto, random: Random) -> None:
    """Add an attribute that the operator defines and the node lacks, with a value of its type."""
    _add_attribute(_random_node(model, random), random)


def _add_attribute(node: NodeProto, random: Random) -> None:
    if node.op_type not in OPERATORS:
        return
    schema = _schema(node.op_type)
    given = {a.name for a in node.attribute}
    free = sorted(name for name in schema.attributes if name not in given)
    if not free:
        return
    name = random.choice(free)
    count = random.choice((0, 1, 2, 3, 4, 6))
    values: dict[str, Any] = {
        "INT": _mutate_integer(random, 1),
        "FLOAT": _mutate_float(random),
        "STRING": random.choice(ATTRIBUTE_STRINGS),
        "INTS": [random.choice((0, 1, 2, 3, _mutate_integer(random))) for _ in range(count)],
        "FLOATS": [_mutate_float(random) for _ in range(count)],
        "STRINGS": [random.choice(ATTRIBUTE_STRINGS) for _ in range(count)],
        "TENSOR": numpy_helper.from_array(np.arange(count, dtype=np.int64), "t"),
    }
    kind = schema.attributes[name].type
    if kind.name in values:
        made = helper.make_attribute(name, values[kind.name], attr_type=kind.value)
        node.attribute.append(made)


def change_input_edge(model: ModelProto, random: Random) -> None:
    """Change a node's inputs: another value, one more, one fewer, or another order."""
    _change_names(_random_node(model, random).input, random, (*_value_names(model), "", "none"))


def change_output_edge(model: ModelProto, random: Random) -> None:
    """Change a node's outputs: another name, one more or one fewer."""
    _change_names(_random_node(model, random).output, random, (*_value_names(model), "new", ""))


def _change_names(items: Any, random: Random, names: Sequence[str]) -> None:
    _change_items(items, random, lambda random, *_: random.choice(names))


def change_operator(model: ModelProto, random: Random) -> None:
    """Change a node's operator, mostly to another ONNX operator, or its domain."""
    node = _random_node(model, random)
    if random.random() < 0.1:
        node.domain = random.choice(("ai.onnx", "com.microsoft", *NAMES))
    elif random.random() < 0.1:
        node.op_type = random.choice(NAMES)
    else:
        node.op_type = random.choice(OPERATORS)
        if random.random() < 0.5:
            del node.attribute[:]


def insert_node(model: ModelProto, random: Random) -> None:
    """Insert a node of a random operator on an edge, with as many inputs as the operator allows."""
    names = _value_names(model)
    schema = _schema(random.choice(OPERATORS))
    count = random.randint(min(schema.min_input, 6), min(schema.max_input, 6))
    user = _random_node(model, random)
    inputs = [random.choice(names) for _ in range(count)]
    if user.input:
        at = random.randrange(len(user.input))
        inputs[:1] = [user.input[at]]
        user.input[at] = "inserted"
    node = helper.make_node(schema.name, inputs, ["inserted"])
    for _ in range(random.randrange(4)):
        _add_attribute(node, random)
    model.graph.node.insert(random.randrange(len(model.graph.node) + 1), node)


def move_nodes(model: ModelProto, random: Random) -> None:
    """Remove or duplicate a node, or reorder all nodes."""
    nodes = list(model.graph.node)
    if not nodes:
        return
    at = random.randrange(len(nodes))
    match random.randrange(3):
        case 0:
            del nodes[at]
        case 1:
            nodes.insert(random.randrange(len(nodes) + 1), nodes[at])
        case _:
            random.shuffle(nodes)
    copies = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del model.graph.node[:]
    model.graph.node.extend(copies)


def change_name(model: ModelProto, random: Random) -> None:
    """Give an odd name to a node, the graph or a value, either in one place or at every use."""
    name = random.choice(NAMES)
    match random.randrange(4):
        case 0:
            _random_node(model, random).name = name
        case 1:
            model.graph.name = name
        case 2:
            _random_tensor(model, random).name = name
        case _:
            old = random.choice(_value_names(model))
            for value in (*model.graph.input, *model.graph.output, *model.graph.initializer):
                if value.name == old:
                    value.name = name
            for node in model.graph.node:
                for names in (node.input, node.output):
                    for at, found in enumerate(names):
                        if found == old:
                            names[at] = name


def move_initializers(model: ModelProto, random: Random) -> None:
    """Remove or duplicate a constant, or declare it as an input or output too."""
    tensors = model.graph.initializer
    if not tensors:
        return
    at = random.randrange(len(tensors))
    match random.randrange(4):
        case 0:
            del tensors[at]
        case 1:
            tensors.add().CopyFrom(tensors[at])
        case 2:
            kind = helper.make_tensor_value_info(tensors[at].name, 1, list(tensors[at].dims)[:8])
            model.graph.input.append(kind)
        case _:
            model.graph.output.add(name=tensors[at].name)


def change_value_types(model: ModelProto, random: Random) -> None:
    """Change the declared type of an input or output."""
    values = [*model.graph.input, *model.graph.output]
    if not values:
        return
    kind = random.choice(values).type
    match random.randrange(4):
        case 0:
            kind.sequence_type.elem_type.tensor_type.elem_type = TensorProto.FLOAT
        case 1:
            kind.tensor_type.ClearField("shape")
        case _:
            kind.tensor_type.elem_type = random.choice((*range(27), 1, 7, 9, 10, 11))


def change_outputs_or_opset(model: ModelProto, random: Random) -> None:
    """Change, add or remove an output, or change the operator set."""
    match random.randrange(3):
        case 0:
            model.graph.output.add(name=random.choice(_value_names(model)))
        case 1:
            if model.graph.output:
                del model.graph.output[random.randrange(len(model.graph.output))]
        case _:
            model.opset_import[0].version = random.choice((*range(30), *EXTREME_INTEGERS))


MUTATIONS: tuple[Callable[[ModelProto, Random], None], ...] = (
    *(change_input_dims, change_tensor_dims, change_tensor_shape, change_integers, change_integers),
    *(change_floats, change_tensor_type, change_tensor_storage, change_attribute, change_attribute),
    *(change_attribute_kind, add_attribute, add_attribute, change_input_edge, change_input_edge),
    *(change_output_edge, change_operator, change_operator, insert_node, insert_node, move_nodes),
    *(change_name, move_initializers, change_value_types, change_outputs_or_opset),
)
