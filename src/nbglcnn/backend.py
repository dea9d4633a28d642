"""ONNX's standard Backend interface on local OpenGL, for tools and tests that use it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, defs, helper, numpy_helper, shape_inference
from onnx.backend.base import Backend, BackendRep, namedtupledict

from nbglcnn.errors import InputError, ModelError, OpenGLUnavailable
from nbglcnn.graph import Array
from nbglcnn.inputs.arguments import check_input_count
from nbglcnn.inputs.arrays import native_array
from nbglcnn.load import is_rewritten_on_load, load, shape_input_indices
from nbglcnn.lowering.lower import lower
from nbglcnn.ops import OPERATORS
from nbglcnn.plan.schema import Plan
from nbglcnn.runtime.session import Session

# Operators whose output depends on the shape of the input, not on its values.
SHAPE_OPERATORS = {"Shape", "Size"}
INTEGER_TYPES = {TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL}


def shape_inputs(model: ModelProto) -> set[str]:
    """Return the model's inputs that a shape depends on, directly or by integer arithmetic.

    A Plan is compiled for one value of each of these inputs.
    """
    asked: set[str] = set()
    direct: set[str] = set()
    for node in reversed(model.graph.node):
        record = OPERATORS.get(node.op_type)
        positions = record.shape_inputs if record else shape_input_indices(node.op_type)
        direct.update(name for k, name in enumerate(node.input) if k in positions)
        if node.op_type not in SHAPE_OPERATORS and any(o in asked | direct for o in node.output):
            asked.update(node.input)
    whole = {i.name for i in model.graph.input if i.type.tensor_type.elem_type in INTEGER_TYPES}
    return {i.name for i in model.graph.input if i.name in direct or i.name in asked & whole}


def unsupported_operators(model: ModelProto) -> set[str]:
    """Return the operators that cannot run, among those that depend on the inputs' values."""
    functions = {(function.domain, function.name) for function in model.functions}
    constants = {tensor.name for tensor in model.graph.initializer}
    computed = {i.name for i in model.graph.input} - constants
    found = set()
    for node in model.graph.node:
        if node.op_type in SHAPE_OPERATORS or not computed.intersection(node.input):
            continue
        computed.update(node.output)
        domain = "" if node.domain == "ai.onnx" else node.domain
        runs = not domain and node.op_type in OPERATORS
        if not (
            runs
            or is_rewritten_on_load(node.op_type, domain)
            or (domain, node.op_type) in functions
        ):
            found.add(node.op_type)
    return found


def bind_inputs(model: ModelProto, values: Mapping[str, Array]) -> ModelProto:
    """Return a copy of the model in which these inputs are constants."""
    copy = ModelProto()
    copy.CopyFrom(model)
    del copy.graph.input[:]
    copy.graph.input.extend(i for i in model.graph.input if i.name not in values)
    del copy.graph.initializer[:]
    copy.graph.initializer.extend(t for t in model.graph.initializer if t.name not in values)
    for name, array in values.items():
        copy.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
    return copy


def named_inputs(model: ModelProto, inputs: Any) -> dict[str, Array]:
    """Return the arrays of a call by name: from a mapping, in the model's order, or one array."""
    if isinstance(inputs, Mapping):
        return {name: native_array(array, name) for name, array in inputs.items()}
    arrays = [inputs] if isinstance(inputs, np.ndarray) else list(inputs)
    initialized = {tensor.name for tensor in model.graph.initializer}
    names = [i.name for i in model.graph.input]
    # Files of IR version 3 list weights among the inputs; a call may pass or omit them.
    needed = names if len(arrays) == len(names) else [n for n in names if n not in initialized]
    check_input_count(len(arrays), needed)
    return {name: native_array(array, name) for name, array in zip(needed, arrays, strict=True)}


def compile_call(model: ModelProto, inputs: Mapping[str, Array]) -> tuple[Plan, tuple[Array, ...]]:
    """Return the Plan for a call's shapes and shape inputs, and the arrays to pass at run time."""
    shapes = shape_inputs(model)
    initialized = {tensor.name for tensor in model.graph.initializer}
    constants = {n: a for n, a in inputs.items() if n in shapes or n in initialized}
    fixed = bind_inputs(model, constants) if constants else model
    initialized.update(constants)
    arrays = tuple(inputs[i.name] for i in fixed.graph.input if i.name not in initialized)
    graph, prepared = load(fixed, arrays)
    return lower(graph, observe="outputs"), prepared


class OpenGLRep(BackendRep):
    """A model ready to run, recompiled for new shapes or new values that a shape depends on.

    It keeps the Plan of the last call.
    """

    def __init__(self, model: ModelProto) -> None:
        self._model = model
        self._constant_inputs = shape_inputs(model) | {t.name for t in model.graph.initializer}
        self._session: Session | None = None
        self._compiled_for: object = None

    def run(self, inputs: Any, **_: Any) -> tuple[Any, ...]:
        """Return the outputs in the model's order and declared types, also accessible by name."""
        given = named_inputs(self._model, inputs)
        made_for = [
            (name, array.shape, array.tobytes() if name in self._constant_inputs else None)
            for name, array in given.items()
        ]
        if self._session is None or self._compiled_for != made_for:
            plan, arrays = compile_call(self._model, given)
            self.close()
            self._session, self._compiled_for = Session(plan), made_for
        else:
            takes = {record.key for record in self._session.plan.header.inputs}
            arrays = tuple(array for name, array in given.items() if name in takes)
        return declared_outputs(self._model, self._session.plan, self._session.run(*arrays))

    def close(self) -> None:
        """Free the device memory of the last call."""
        if self._session is not None:
            self._session.close()
            self._session = None


def declared_outputs(model: ModelProto, plan: Plan, values: Mapping[str, Array]) -> tuple[Any, ...]:
    """Return a Plan's values as the outputs that the model declares: order, types and names."""
    names = list(dict.fromkeys(output.name for output in model.graph.output))
    keys = dict(zip(names, plan.header.outputs, strict=True))
    arrays = []
    for output in model.graph.output:
        element = output.type.tensor_type.elem_type
        array = values[keys[output.name]]
        arrays.append(array.astype(helper.tensor_dtype_to_np_dtype(element)) if element else array)
    return namedtupledict("Outputs", [o.name for o in model.graph.output])(*arrays)


class OpenGLBackend(Backend):
    """Run ONNX models on this machine's OpenGL, without a window."""

    @classmethod
    def is_compatible(cls, model: ModelProto, device: str = "CPU", **_: Any) -> bool:
        """Whether the model compiles, as far as its nodes show before its inputs are known."""
        if not cls.supports_device(device):
            return False
        if unsupported_operators(model):
            return False
        if shape_inputs(model):
            return True
        try:
            lower(load(model)[0], observe="outputs")
        except InputError:  # no fixed shape: known at the first run
            return True
        except ModelError:
            return False
        return True

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **_: Any) -> OpenGLRep:
        """Return a model that can be run repeatedly; it compiles when its shapes are known."""
        if not cls.supports_device(device):
            raise OpenGLUnavailable(f"device {device!r}: nbglcnn.backend has 'CPU', local OpenGL")
        return OpenGLRep(model)

    @classmethod
    def run_model(
        cls, model: ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any
    ) -> tuple[Any, ...]:
        """Return the outputs of a model for these inputs."""
        rep = cls.prepare(model, device, **kwargs)
        try:
            return rep.run(inputs)
        finally:
            rep.close()

    @classmethod
    def run_node(
        cls,
        node: NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype[Any], tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Return the outputs of one operator; `opset_version` is the newest by default.

        Raises onnx.checker.ValidationError if the node is invalid.
        """
        version: Any = kwargs.pop("opset_version", defs.onnx_opset_version())
        super().run_node(node, inputs, device, outputs_info, opset_version=version)
        given = [name for name in dict.fromkeys(node.input) if name]
        if isinstance(inputs, Mapping):
            arrays = [native_array(inputs[name], name) for name in given]
        else:
            several = [inputs] if isinstance(inputs, np.ndarray) else inputs
            arrays = [native_array(array, "an input") for array in several]
        model = _single_node_model(
            node, dict(zip(given, arrays, strict=True)), version, outputs_info
        )
        return cls.run_model(model, arrays, device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether the device is "CPU", ONNX's name for the host; OpenGL may still use a GPU."""
        return device.split(":")[0] == "CPU"


def _single_node_model(
    node: NodeProto,
    inputs: Mapping[str, Array],
    version: int,
    outputs_info: Sequence[tuple[np.dtype[Any], tuple[int, ...]]] | None,
) -> ModelProto:
    """Build a model of one node, with the output types passed or inferred."""
    types = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in inputs.items()
    ]
    names = [name for name in node.output if name]
    if outputs_info is None:
        outputs = [helper.make_empty_tensor_value_info(name) for name in names]
    else:
        outputs = [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(np.dtype(d)), shape)
            for n, (d, shape) in zip(names, outputs_info, strict=True)
        ]
    graph = helper.make_graph([node], node.op_type, types, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(node.domain, version)])
    return model if outputs_info is not None else shape_inference.infer_shapes(model)


prepare = OpenGLBackend.prepare
run_model = OpenGLBackend.run_model
run_node = OpenGLBackend.run_node
supports_device = OpenGLBackend.supports_device
is_compatible = OpenGLBackend.is_compatible
