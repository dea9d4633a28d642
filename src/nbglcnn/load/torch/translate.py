"""What was recorded as ONNX's operators, each by the function that onnxscript has for it."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch import fx

from nbglcnn.load.draft import OPSET
from nbglcnn.load.torch.memory import FxNode
from nbglcnn.load.torch.recorder import Program
from nbglcnn.load.torch.tables import built

Values = Any  # an onnx_ir Value, or a sequence of them


class Untranslatable(Exception):
    """A node that cannot be translated: `missing` where there is no function for its operator."""

    def __init__(self, node: FxNode, missing: bool) -> None:
        super().__init__(str(node.target))
        self.node, self.missing = node, missing


@cache
def registry() -> Any:
    """Onnxscript's functions by ATen operator, with ours; what they take is looked up when used."""
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    from nbglcnn.load.torch.extra import translations

    made, pending = built(ONNXRegistry.from_torchlib, OPSET)
    for target, function in translations().items():
        made.register_op(target, function, is_complex=False)
    return made, pending


def known(target: Any) -> bool:
    """Whether there is a function for an operator."""
    if target is operator.getitem:
        return True
    schema = getattr(target, "_schema", None)
    if schema is None:
        return False
    name = f"{schema.name}.{schema.overload_name}".removesuffix(".")
    return bool(registry()[0].functions.get(name)) or name.startswith("onnx::")


def translated(program: Program) -> tuple[list[tuple[Any, FxNode]], dict[FxNode, Values]]:
    """Each of ONNX's nodes with the recorded one that it is of, and the values of all.

    Raises:
        Untranslatable: there is no function for a node, or it fails.
    """
    import onnxscript
    from torch.onnx._internal.exporter import _core
    from torch.onnx._internal.exporter._building import OpRecorder
    from torch.onnx._internal.exporter._core import _set_shape_type, torch_dtype_to_onnx_dtype
    from torch.onnx._internal.exporter._tensors import SymbolicTensor

    values: dict[FxNode, Values] = {}
    nodes: list[tuple[Any, FxNode]] = []
    constants: dict[Any, Any] = {}
    opset = onnxscript.values.Opset("", OPSET)

    def given(one: Any) -> Any:
        if isinstance(one, fx.Node):
            return values[one]
        if isinstance(one, list | tuple):
            return [given(each) for each in one]
        if isinstance(one, torch.device | torch.memory_format | torch.layout):
            return str(one)
        return torch_dtype_to_onnx_dtype(one) if isinstance(one, torch.dtype) else one

    for node in program.graph.nodes:
        if node.op == "placeholder":
            values[node] = SymbolicTensor(opset=opset, name=node.name)
            _set_shape_type(values[node], node.meta["val"], complex_to_float=True)
            continue
        if node.op != "call_function":
            continue
        if node.target is operator.getitem and isinstance(values[node.args[0]], Sequence):
            values[node] = values[node.args[0]][node.args[1]]
            values[node].name = node.name
            continue
        args = [given(one) for one in node.args]
        kwargs = {
            name: -1 if name == "dtype" and one is None else given(one)
            for name, one in node.kwargs.items()
        }
        function = _function(node)
        tracer: Any = OpRecorder(opset, constants)  # type: ignore[abstract]
        core: Any = _core
        core.current_tracer = tracer  # symbolic operators look there
        try:
            with onnxscript.evaluator.default_as(tracer):
                made = function(*args, **kwargs)
        except Exception as error:
            raise Untranslatable(node, missing=False) from error
        finally:
            core.current_tracer = None
        found = node.meta["val"]
        if isinstance(made, Sequence):
            for at, (value, one) in enumerate(zip(made, found, strict=False)):
                _set_shape_type(value, one, complex_to_float=True)
                value.name = f"{node.name}__{at}"
        else:
            _set_shape_type(made, found, complex_to_float=True)
            made.name = node.name
        values[node] = made
        nodes += [(one, node) for one in tracer.nodes]
    return nodes, values


def _function(node: fx.Node) -> Any:
    import onnxscript
    from torch.onnx._internal.exporter import _dispatching

    table, pending = registry()
    for one in table.get_decomps(node.target):
        if (infer := pending.pop(id(one), None)) is not None:
            infer(one)
    function, _ = _dispatching.dispatch(node, table)
    if function is None:
        raise Untranslatable(node, missing=True)
    return _inlined(function) if isinstance(function, onnxscript.OnnxFunction) else function


def _inlined(function: Any) -> Callable[..., Any]:
    """A function of ONNX's own as the operators that it is made of."""
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
