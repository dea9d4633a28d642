"""Translation of recorded operators to ONNX: by our translations, or by onnxscript's functions."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import fx

from nbglcnn.errors import UnsupportedOperator
from nbglcnn.graph import Attribute
from nbglcnn.load.draft import OPSET
from nbglcnn.load.size_limits import quote_name
from nbglcnn.load.torch.isolation.source_lines import module_path
from nbglcnn.load.torch.record.recorder import RecordedProgram, bind_by_position
from nbglcnn.load.torch.record.tensor_memory import FxNode
from nbglcnn.load.torch.translate.aten_translations import (
    NUMPY_DTYPES,
    TRANSLATIONS,
    OnnxNode,
    OnnxTensor,
    OperatorCall,
)
from nbglcnn.load.torch.translate.onnxscript_table import build_table

OnnxValues = Any  # an OnnxTensor, or a sequence of them


class TranslationError(Exception):
    """A node that cannot be translated; `missing`: no function exists for its operator."""

    def __init__(self, node: FxNode, missing: bool) -> None:
        super().__init__(str(node.target))
        self.node, self.missing = node, missing


@cache
def onnxscript_registry() -> Any:
    """The functions of onnxscript by ATen operator, with our overrides; signatures are lazy."""
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    from nbglcnn.load.torch.translate.exporter_overrides import exporter_translations

    made, pending = build_table(ONNXRegistry.from_torchlib, OPSET)
    for target, function in exporter_translations().items():
        made.register_op(target, function, is_complex=False)
    return made, pending


def has_onnx_form(target: Any) -> bool:
    """Whether an operator can be translated to ONNX."""
    if target is operator.getitem or target in TRANSLATIONS:
        return True
    schema = getattr(target, "_schema", None)
    if schema is None:
        return False
    name = f"{schema.name}.{schema.overload_name}".removesuffix(".")
    return bool(onnxscript_registry()[0].functions.get(name)) or name.startswith("onnx::")


def translate_program(
    program: RecordedProgram,
) -> tuple[list[tuple[OnnxNode, FxNode]], dict[FxNode, OnnxValues]]:
    """Return the ONNX nodes with their recorded nodes, and the values of all recorded nodes.

    Raises:
        TranslationError: If a node has no translation, or its translation fails.
    """
    values: dict[FxNode, OnnxValues] = {}
    steps: list[tuple[OnnxNode, FxNode]] = []
    like: dict[OnnxTensor, torch.Tensor] = {}
    onnxscript: _OnnxscriptTranslator | None = None

    def given(one: Any) -> Any:
        return values[one] if isinstance(one, fx.Node) else one

    def describe(value: OnnxTensor, one: Any, name: str) -> None:
        value.name = name
        if not isinstance(one, torch.Tensor):  # a sequence
            return
        like[value] = one
        if one.layout is torch.strided:
            value.shape = (*one.shape, 2) if one.is_complex() else tuple(one.shape)
            value.dtype = np.dtype(np.float32) if one.is_complex() else NUMPY_DTYPES.get(one.dtype)

    for node in program.graph.nodes:
        if node.op == "placeholder":
            values[node] = OnnxTensor()
            describe(values[node], node.meta["val"], node.name)
            continue
        if node.op != "call_function":
            continue
        if node.target is operator.getitem and isinstance(values[node.args[0]], Sequence):
            pieces, at = values[node.args[0]], node.args[1]
            if at >= len(pieces):  # a translation that omits this output
                raise TranslationError(node, missing=True)
            values[node] = pieces[at]
            values[node].name = node.name
            continue
        call = OperatorCall(node.meta["val"], like, [])
        made = None
        if (form := TRANSLATIONS.get(node.target)) is not None:
            args, kwargs = bind_by_position(node.target, node.kwargs, node.args)
            made = form(call, *fx.map_arg(args, given), **fx.map_arg(kwargs, given))
        if made is None:
            onnxscript = onnxscript or _OnnxscriptTranslator(like)
            made, own = onnxscript.translate_node(node, values)
        else:
            own = call.nodes
        found = node.meta["val"]
        if isinstance(made, Sequence):
            for at, (value, one) in enumerate(zip(made, found, strict=False)):
                describe(value, one, f"{node.name}__{at}")
        else:
            describe(made, found, node.name)
        values[node] = made
        steps += [(one, node) for one in own]
    return steps, values


class _OnnxscriptTranslator:
    """Runs onnxscript's functions, and converts between its tensors and ours."""

    def __init__(self, like: Mapping[OnnxTensor, torch.Tensor]) -> None:
        import onnxscript

        self._like = like
        self._opset = onnxscript.values.Opset("", OPSET)
        self._constants: dict[Any, Any] = {}
        self._theirs: dict[OnnxTensor, Any] = {}
        self._ours: dict[int, OnnxTensor] = {}

    def translate_node(
        self, node: fx.Node, values: Mapping[FxNode, OnnxValues]
    ) -> tuple[Any, list[OnnxNode]]:
        """The translated outputs of a node, and its ONNX nodes."""
        import onnxscript
        from torch.onnx._internal.exporter import _core
        from torch.onnx._internal.exporter._core import (
            _set_shape_type,
            torch_dtype_to_onnx_dtype,
        )

        def given(one: Any) -> Any:
            if isinstance(one, fx.Node):
                found = values[one]
                if isinstance(found, Sequence):
                    return [self._to_symbolic(each) for each in found]
                return self._to_symbolic(found)
            if isinstance(one, list | tuple):
                return [given(each) for each in one]
            if isinstance(one, torch.device | torch.memory_format | torch.layout):
                return str(one)
            return torch_dtype_to_onnx_dtype(one) if isinstance(one, torch.dtype) else one

        args = [given(one) for one in node.args]
        kwargs = {
            name: -1 if name == "dtype" and one is None else given(one)
            for name, one in node.kwargs.items()
        }
        function = _onnxscript_function(node)
        tracer = _typed_recorder()(self._opset, self._constants)
        core: Any = _core
        core.current_tracer = tracer  # symbolic operators look up the tracer there
        try:
            with onnxscript.evaluator.default_as(tracer):
                made = function(*args, **kwargs)
            steps = [self._to_onnx_node(node, one) for one in tracer.nodes]
        except UnsupportedOperator:
            raise
        except Exception as error:
            raise TranslationError(node, missing=False) from error
        finally:
            core.current_tracer = None
        found = node.meta["val"]
        if isinstance(made, Sequence):
            for value, one in zip(made, found, strict=False):
                _set_shape_type(value, one, complex_to_float=True)
            return [self._from_symbolic(one) for one in made], steps
        _set_shape_type(made, found, complex_to_float=True)
        return self._from_symbolic(made), steps

    def _to_symbolic(self, tensor: OnnxTensor) -> Any:
        """The onnxscript tensor of an OnnxTensor."""
        from torch.onnx._internal.exporter._core import _set_shape_type
        from torch.onnx._internal.exporter._tensors import SymbolicTensor

        if tensor not in self._theirs:
            made = SymbolicTensor(opset=self._opset, name=tensor.name)
            _set_shape_type(made, self._like[tensor], complex_to_float=True)
            self._theirs[tensor] = made
            self._ours[id(made)] = tensor
        return self._theirs[tensor]

    def _from_symbolic(self, value: Any) -> OnnxTensor:
        if id(value) not in self._ours:
            made = OnnxTensor(value.name or "")
            if value.shape is not None and value.shape.is_static() and value.dtype is not None:
                made.shape = tuple(int(length) for length in value.shape)
                made.dtype = np.dtype(value.dtype.numpy())
            self._ours[id(value)], self._theirs[made] = made, value
        return self._ours[id(value)]

    def _to_onnx_node(self, node: fx.Node, step: Any) -> OnnxNode:
        return OnnxNode(
            step.op_type,
            [None if one is None else self._from_symbolic(one) for one in step.inputs],
            [self._from_symbolic(one) for one in step.outputs],
            {name: _attribute(node, step, one) for name, one in step.attributes.items()},
            step.domain,
            step.version or OPSET,
        )


@cache
def _typed_recorder() -> Any:
    """PyTorch's recorder of ONNX operators, extended with the dtype of each output.

    A Python number gets the dtype of another operand only if that dtype is known.
    """
    from torch.onnx._internal.exporter._building import OpRecorder

    class TypedRecorder(OpRecorder):
        def _call_op(
            self, op_signature: Any, named_inputs: Any, named_attrs: Any, num_outputs: int
        ) -> Any:
            outputs = super()._call_op(op_signature, named_inputs, named_attrs, num_outputs)
            for value, formal in zip(outputs, op_signature.outputs, strict=False):
                if value.type is None:
                    value.type = _output_type(op_signature, formal, named_inputs, named_attrs)
            return outputs

    return TypedRecorder


def _output_type(
    signature: Any, output_parameter: Any, inputs: Mapping[str, Any], attributes: Mapping[str, Any]
) -> Any:
    """The type of an operator's output by its schema; None if the schema leaves it open."""
    import onnx_ir as ir

    def attribute(name: str) -> Any:
        found = attributes.get(name)
        return found.value if isinstance(found, ir.Attr) else found

    if signature.name == "Cast":
        return ir.TensorType(ir.DataType(attribute("to")))
    if signature.name in ("Constant", "ConstantOfShape") and attribute("value") is not None:
        return ir.TensorType(attribute("value").dtype)
    for name, given in inputs.items():
        if signature.params_map[name].type_constraint == output_parameter.type_constraint:
            for one in given if isinstance(given, Sequence) else [given]:
                if isinstance(one, ir.Value) and one.type is not None:
                    return one.type
    allowed = output_parameter.type_constraint.allowed_types
    return next(iter(allowed)) if len(allowed) == 1 else None


def _attribute(node: fx.Node, ir_node: Any, attribute: Any) -> Attribute:
    import onnx_ir as ir

    kind, value = attribute.type, attribute.value
    if kind in (ir.AttributeType.INT, ir.AttributeType.FLOAT, ir.AttributeType.STRING):
        return value  # type: ignore[no-any-return]
    if kind in (ir.AttributeType.INTS, ir.AttributeType.FLOATS, ir.AttributeType.STRINGS):
        return tuple(value)
    if kind is ir.AttributeType.TENSOR:
        return np.asarray(value.numpy())
    raise UnsupportedOperator(
        f"{ir_node.op_type} (in module {quote_name(module_path(node))}): control flow that depends "
        "on the input's values has no fixed graph"
    )


def _onnxscript_function(node: fx.Node) -> Any:
    import onnxscript
    from torch.onnx._internal.exporter import _dispatching

    table, pending = onnxscript_registry()
    for one in table.get_decomps(node.target):
        if (infer := pending.pop(id(one), None)) is not None:
            infer(one)
    function, _ = _dispatching.dispatch(node, table)
    if function is None:
        raise TranslationError(node, missing=True)
    return _inline_function(function) if isinstance(function, onnxscript.OnnxFunction) else function


def _inline_function(function: Any) -> Callable[..., Any]:
    """Return the Python body of an ONNX function, which emits the operators it consists of."""
    body = function.function
    floats = {
        name: one
        for name, one in inspect.signature(body).parameters.items()
        if one.annotation in (float, "float")
    }

    def called(*args: Any, **kwargs: Any) -> Any:
        bound = inspect.signature(body).bind(*args, **kwargs)
        for name in floats.keys() & bound.arguments.keys():
            bound.arguments[name] = float(bound.arguments[name])
        return body(*bound.args, **bound.kwargs)

    return called
