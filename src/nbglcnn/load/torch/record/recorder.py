"""One run of a module as a graph: each ATen operator call, with its module and source line.

The recorder intercepts operators before PyTorch decomposes any (at the dispatch key PreDispatch,
where torch.export traces too), and then runs them. So names, values, constants and parameters are
those of the run. In-place writes are recorded as out-of-place operators.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, cast

import torch
from torch import fx
from torch._dispatch.python import enable_pre_dispatch, enable_python_dispatcher
from torch._subclasses.schema_check_mode import SchemaCheckMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from nbglcnn.errors import UnsupportedModel, UnsupportedOperator
from nbglcnn.load.torch.isolation.source_lines import is_user_file
from nbglcnn.load.torch.record.assertions import is_in_assert
from nbglcnn.load.torch.record.tensor_memory import FxNode, TensorMemory

# The file whose frames surround the model's own code: `_user_lines` stops there.
_OUTERMOST_FILE = str(Path(__file__).with_name("recording.py"))
# A decomposition: computes an operator's result with other operators; NotImplemented if it does not
# apply.
Decomposition = Callable[..., Any]
# Returns the open module calls: key → (path, type).
OpenCalls = Callable[[], Mapping[str, tuple[str, str]]]


FUNC_TRANSFORM_MESSAGE = (
    "torch.vmap and the other transforms of torch.func have no fixed graph. Call layers on the "
    "whole batch, and write a function of one example as a loop: torch.stack([f(one) for one in x])"
)


class InputReadError(Exception):
    """Python reads a value that is random or depends on the input, in the way `read_method`."""

    def __init__(self, read_method: str) -> None:
        super().__init__(read_method)
        self.message = _READ_MESSAGES.get(read_method, _CONTROL_FLOW_MESSAGE)
        self.is_control_flow = self.message != _READ_MESSAGES[".numpy()"]


_CONTROL_FLOW_MESSAGE = (
    "its computation depends on the input's values (an `if`, a loop or a size read from a "
    "tensor), so it has no fixed graph. Make that choice outside the model, or with torch.where; "
    "instead of int(t) and t.item() compute with the tensor itself"
)
_READ_MESSAGES = {
    "float": (
        "it reads a number that depends on the input's values, as float(t) does. Compute with "
        "the tensor itself: x * x.mean(), and torch.sqrt(t) instead of math.sqrt(t)"
    ),
    ".numpy()": (
        "it calls .numpy() on a tensor, in forward or in a hook; "
        "use torch operators, or remove the hook"
    ),
}


@dataclass(frozen=True)
class RecordedProgram:
    """A recorded program.

    `graph` has a placeholder for each input and for each of `placeholder_tensors`.
    `parameter_names` are the names of parameters and buffers, by placeholder; the other tensors are
    constants. Each node's `meta` has a meta tensor of its value (`val`), the open module calls
    (`nn_module_stack`), the lines of the user's code (`lines`: file and number), and the operator
    that forward called (`called`).
    """

    graph: fx.Graph
    inputs: Sequence[FxNode]
    placeholder_tensors: dict[FxNode, torch.Tensor]
    parameter_names: Mapping[FxNode, str]

    @property
    def outputs(self) -> Sequence[FxNode]:
        """The output nodes of the program."""
        node: FxNode = self.graph.output_node()
        return list(node.args[0])


@dataclass(eq=False)
class Recorder:
    """Records the operators that run within `recording`.

    `open_calls` returns the open calls. `find_decomposition` returns how to decompose an operator
    during recording. `constants` are copies of tensors that existed before the run or were created
    without an operator. `constant_reads` are the names of parameters and buffers whose values
    Python has read. `has_created_constants`: some constants are not attributes of modules.
    `has_formatted_input`: Python formatted values that depend on the input, or asserted a condition
    on them. `has_item_tensors`: x.item() returned a tensor.
    """

    open_calls: OpenCalls
    find_decomposition: Callable[[Any], Decomposition | None]
    graph: fx.Graph = field(default_factory=fx.Graph)
    inputs: list[FxNode] = field(default_factory=list)
    placeholder_tensors: dict[FxNode, torch.Tensor] = field(default_factory=dict)
    parameter_names: dict[FxNode, str] = field(default_factory=dict)
    constant_reads: set[str] = field(default_factory=set)
    read_error: InputReadError | None = None
    constants: list[tuple[FxNode, torch.Tensor]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._memory = TensorMemory(self._add_call, self._add_constant)
        self.paused = False
        self.changed_model = False
        self.has_formatted_input = False
        self.has_item_tensors = False
        self.has_created_constants = False
        self._attributes: set[int] = set()
        self._first_call_node: FxNode | None = None  # new placeholders are inserted before it
        self._decomposing: list[Any] = []  # stack of operators being decomposed
        self._varying: list[FxNode] = []
        self._model_tensors: dict[
            FxNode, torch.Tensor
        ] = {}  # the model's tensors, and their original memory
        self._original_storage: dict[FxNode, torch.Tensor] = {}

    def add_input(self, name: str, tensor: torch.Tensor) -> FxNode:
        """Add the network's next input."""
        node = self._placeholder(name, tensor)
        self.inputs.append(node)
        node.meta |= {"varies": True, "parameters": frozenset()}
        self._memory.add(tensor, node)
        return node

    def note_overwrite(self, tensor: torch.Tensor, node: FxNode) -> None:
        """Record that code which was not recorded has overwritten a tensor."""
        self._memory.record_write(tensor, node)

    def note_alias(self, tensor: torch.Tensor) -> None:
        """Record that a call has returned this alias of a tensor."""
        self._memory.note_alias(tensor)

    def pause(self) -> None:
        """Pause recording until `resume`."""
        _set_recording(False)
        self.paused = True

    def resume(self) -> None:
        """Resume recording after `pause`."""
        self.paused = False
        _set_recording(True)

    def add_model(self, model: torch.nn.Module) -> None:
        """Register the model's parameters and buffers by name."""
        modules = list(model.modules())
        self._attributes |= {id(one) for module in modules for one in vars(module).values()}
        for name, tensor in (
            *model.named_parameters(remove_duplicate=False),
            *model.named_buffers(remove_duplicate=False),
        ):
            if self._memory.is_known(tensor):
                continue
            node = self._placeholder(name.replace(".", "_"), tensor)
            self.placeholder_tensors[node], self.parameter_names[node] = tensor.detach(), name
            if tensor.layout is torch.strided:
                self._model_tensors[node], self._original_storage[node] = tensor, tensor.detach()
            node.meta |= {"varies": False, "parameters": frozenset([name])}
            self._memory.add(tensor, node)

    def current_node(self, tensor: torch.Tensor) -> FxNode:
        """The node that has a tensor's current values."""
        found = self._memory.current_node(tensor)
        return self._add_unregistered_constant(tensor) if found is None else found

    def make_program(self, outputs: Sequence[FxNode]) -> RecordedProgram:
        """Return the recorded program with these outputs, without unused nodes."""
        self.graph.output(tuple(outputs))
        for node in reversed(self.graph.nodes):
            varies = node in self._varying
            if node.op == "call_function" and not node.users and not varies:
                self.graph.erase_node(node)
        tensors = dict(self.placeholder_tensors)
        for node in list(tensors):
            if not node.users and node not in self.parameter_names:
                del tensors[node]
                self.graph.erase_node(node)
        return RecordedProgram(self.graph, self.inputs, tensors, self.parameter_names)

    @contextmanager
    def recording(self) -> Iterator[None]:
        """A context in which this thread's operators are recorded."""
        mode = _RecordingMode(self)
        reads = _PythonReadMode(self)
        with enable_python_dispatcher(), enable_pre_dispatch(), cast(Any, mode), reads:
            yield

    @contextmanager
    def record_model(self, model: torch.nn.Module) -> Iterator[None]:
        """Record a run of the model, and restore its parameters and buffers afterwards.

        `changed_model` is set if the run changed them.
        """
        self.add_model(model)
        tables: list[tuple[Any, dict[str, Any]]] = [
            (table, dict(table)) for m in model.modules() for table in (m._parameters, m._buffers)
        ]
        try:
            with self.recording():
                yield
        finally:
            for table, content in tables:
                if len(table) != len(content) or any(
                    table.get(n) is not content[n] for n in content
                ):
                    self.changed_model = True
                    table.clear()
                    table.update(content)
            with torch.no_grad():
                for node, tensor in self._model_tensors.items():
                    if tensor.data_ptr() != self._original_storage[node].data_ptr():
                        tensor.data, self.changed_model = self._original_storage[node], True
                    if node.meta.get("kept"):
                        tensor.copy_(self.placeholder_tensors[node])
                        self.changed_model = True

    def check_read(self, tensors: Sequence[torch.Tensor], read_method: str) -> None:
        """Check that Python may read the values of these tensors.

        Raises:
            InputReadError: If they depend on the input's values.
        """
        for tensor in tensors:
            node = self.current_node(tensor)
            if node.meta["varies"]:
                if read_method == "item" and tensor.is_floating_point():
                    read_method = "float"
                self.read_error = InputReadError(read_method)
                raise self.read_error
            self.constant_reads |= node.meta["parameters"]

    def note_formatting(self, tensor: torch.Tensor) -> None:
        """Note that Python formats a tensor's values, which may or may not affect control flow."""
        node = self.current_node(tensor)
        if node.meta["varies"]:
            self.has_formatted_input = True
        else:
            self.constant_reads |= node.meta["parameters"]

    def evaluate_assert(self, tensor: torch.Tensor) -> bool | None:
        """The truth value of an assert's condition if it depends on the input; else None."""
        if not self.current_node(tensor).meta["varies"]:
            return None
        self.has_formatted_input = True
        with unrecorded():
            return bool(tensor)

    def record_call(self, mode: Any, function: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
        """Run an operator and record it."""
        tags = getattr(function, "tags", ())
        schema = getattr(function, "_schema", None)
        if any(map(torch._C._functorch.is_functorch_wrapped_tensor, _tensors((args, kwargs)))):
            raise UnsupportedModel(FUNC_TRANSFORM_MESSAGE)
        if schema is None:  # a higher-order operator
            return function(*args, **kwargs)
        if torch.Tag.data_dependent_output in tags or function in _READING_OPERATORS:
            self.check_read(list(_tensors((args, kwargs))), str(schema.name).rpartition("::")[2])
            return function(*args, **kwargs)
        if self._is_constant(function, tags, args, kwargs):
            with unrecorded():
                found = function(*args, **kwargs)
            for one in _tensors(found):
                self._memory.add(one, self._add_constant(one))
            return found
        if function in _INDEX_OPERATORS:
            args = self._without_masks(args)
        rule = self.find_decomposition(function)
        if rule is not None and function not in self._decomposing:
            found = self._decompose(mode, function, rule, args, kwargs)
            if found is not NotImplemented:
                return found
        if schema.is_mutable:
            return self._record_write(function, schema, tags, args, kwargs)
        nodes = self._to_nodes((args, kwargs))
        given = list(_tensors((args, kwargs)))
        found = function(*args, **kwargs)
        if any(one is found for one in given):
            return found  # contiguous(), or to() with the same dtype
        made = self._add_call(function, *nodes, like=found)
        self._track_outputs(made, found, given)
        return found

    def _is_constant(self, function: Any, tags: Any, args: Any, kwargs: Any) -> bool:
        """Whether an operator's result is stored as a constant instead of a computed node.

        True for results created without tensor arguments, and for results whose size depends on
        constants.
        """
        given = list(_tensors((args, kwargs)))
        if not given:
            name = function.overloadpacket.__name__
            seeded = torch.Tag.nondeterministic_seeded in tags
            on_meta = torch.device(kwargs.get("device") or "cpu").type == "meta"  # has no values
            return not (seeded or on_meta or name in _FILL_FUNCTIONS)
        if torch.Tag.dynamic_output_shape not in tags or function in _SELECT_OPERATORS:
            return False
        if any(self.current_node(one).meta["varies"] for one in given):
            return False
        self.check_read(given, "a size")
        return True

    def _without_masks(self, args: Any) -> Any:
        """Replace constant masks in an indexing operation with index tensors."""
        x, indices, *rest = args
        if rest and rest[0].numel() == 1:  # a single value: torch.where handles it
            return args
        found: list[torch.Tensor | None] = []
        for one in indices:
            if (
                one is None
                or one.dtype not in _MASK_DTYPES
                or self.current_node(one).meta["varies"]
            ):
                found.append(one)
                continue
            self.check_read([one], "a mask")
            with unrecorded():
                places = one.nonzero().unbind(1) if one.ndim else ()
            for place in places:
                self._memory.add(place, self._add_constant(place))
            found += places or [one]
        return (x, found, *rest)

    def _decompose(
        self, mode: Any, function: Any, rule: Decomposition, args: Any, kwargs: Mapping[str, Any]
    ) -> Any:
        """Run an operator's decomposition, which is recorded in its place."""
        self._decomposing.append(function)
        try:
            with mode:
                return rule(*args, **kwargs)
        finally:
            self._decomposing.pop()

    def _track_outputs(self, node: FxNode, outputs: Any, arguments: Sequence[torch.Tensor]) -> None:
        """Track an operator's outputs, some of which may be views of its arguments."""
        if isinstance(outputs, torch.Tensor):
            self._memory.add_result(outputs, node, arguments)
            return
        for at, one in enumerate(outputs if isinstance(outputs, list | tuple) else ()):
            if isinstance(one, torch.Tensor):
                picked = self._add_call(operator.getitem, (node, at), {}, like=one)
                self._memory.add_result(one, picked, arguments, at)

    def _record_write(
        self, function: Any, schema: Any, tags: Any, args: Any, kwargs: Mapping[str, Any]
    ) -> Any:
        """Run an in-place operator, and record its out-of-place version."""
        named = {one.name: value for one, value in zip(schema.arguments, args, strict=False)}
        named |= kwargs
        written = [
            named[one.name]
            for one in schema.arguments
            if one.alias_info is not None and one.alias_info.is_write and one.name in named
        ]
        written = [one for one in written if isinstance(one, torch.Tensor)]
        if torch.Tag.inplace_view in tags:  # t_(), squeeze_(): another shape, the same values
            before = self._memory.find(written[0]) if written else None
            found = function(*args, **kwargs)
            if before is not None:
                self._memory.note_reshape(written[0], before)
            return found
        plain, own = _functionalize(function, schema, named)
        nodes = self._to_nodes(own)
        for one in written:
            self._preserve_constant(one)
        found = function(*args, **kwargs)
        value = _infer_result(plain, own, written)
        made = self._add_call(plain, *nodes, like=value)
        made.meta["parameter"] = any(isinstance(one, torch.nn.Parameter) for one in written)
        several = isinstance(value, list | tuple)
        many = value if several else [value]
        # The written tensors follow the operator's own results, or are its only results.
        first = len(many) - len(written) if plain.__name__.endswith("_functional.default") else 0
        for at, one in enumerate(found if several else ()):
            if not any(one is other for other in written):
                node = self._add_call(operator.getitem, (made, at), {}, like=one)
                self._memory.add(one, node)
        for at, (one, given) in enumerate(zip(written, many[first:], strict=False), first):
            node = made
            if several:
                node = self._add_call(operator.getitem, (made, at), {}, like=given)
            if given.dtype != one.dtype:
                node = self._add_call(
                    torch.ops.aten._to_copy.default, (node,), {"dtype": one.dtype},
                    like=given.to(one.dtype),
                )  # fmt: skip
            if given.shape != one.shape:
                like = torch.empty(one.shape, dtype=one.dtype, device="meta")
                node = self._add_call(
                    torch.ops.aten.expand.default, (node, list(one.shape)), {}, like=like
                )
            self._memory.record_write(one, node)
        return found

    def _preserve_constant(self, tensor: torch.Tensor) -> None:
        """Copy a constant's values before the first write to it."""
        place = self._memory.base_node(tensor)
        if place is not None and place in self.placeholder_tensors and not place.meta.get("kept"):
            self.placeholder_tensors[place] = self.placeholder_tensors[place].clone()
            place.meta["kept"] = True

    def _to_nodes(self, tree: Any) -> Any:
        if isinstance(tree, torch.Tensor):
            return self.current_node(tree)
        if isinstance(tree, list | tuple):
            return type(tree)([self._to_nodes(one) for one in tree])
        if isinstance(tree, Mapping):
            return {name: self._to_nodes(one) for name, one in tree.items()}
        return tree

    def _add_unregistered_constant(self, tensor: torch.Tensor) -> FxNode:
        node = self._add_constant(tensor)
        self._memory.add(tensor, node)
        self.constants.append((node, tensor.detach().clone()))
        self.has_created_constants = (
            self.has_created_constants or id(tensor) not in self._attributes
        )
        return node

    def _add_constant(self, tensor: torch.Tensor) -> FxNode:
        node = self._placeholder("constant", tensor)
        self.placeholder_tensors[node] = tensor.detach()
        node.meta |= {"varies": False, "parameters": frozenset()}
        return node

    @property
    def has_drawn(self) -> bool:
        """Whether a random operator was recorded."""
        seeded = torch.Tag.nondeterministic_seeded
        return any(seeded in getattr(node.target, "tags", ()) for node in self.graph.nodes)

    def _placeholder(self, name: str, tensor: torch.Tensor) -> FxNode:
        before = self._first_call_node or next(
            (n for n in self.graph.nodes if n.op != "placeholder"), None
        )
        if before is None:
            node = self.graph.placeholder(name)
        else:
            self._first_call_node = before
            with self.graph.inserting_before(before):
                node = self.graph.placeholder(name)
        node.meta |= {"val": _to_meta(tensor)}
        return node

    def _add_call(
        self, function: Any, args: Any, kwargs: Mapping[str, Any], *, like: Any
    ) -> FxNode:
        """Add an operator call node; `like` is its result."""
        name = getattr(getattr(function, "overloadpacket", function), "__name__", None)
        node = self.graph.create_node("call_function", function, args, dict(kwargs), name)
        sources, tags = node.all_input_nodes, getattr(function, "tags", ())
        node.meta = {
            "val": _to_meta(like),
            "nn_module_stack": self.open_calls(),
            "lines": _user_lines(),
            "called": str(self._decomposing[0] if self._decomposing else function).removeprefix(
                "aten."
            ),
            "varies": _depends_on_input(function, tags, args, sources),
            "parameters": frozenset().union(*(one.meta["parameters"] for one in sources)),
        }
        if torch.Tag.dynamic_output_shape in tags and node.meta["varies"]:
            self._varying.append(node)
        return node


class _RecordingMode(SchemaCheckMode):
    """The mode at PreDispatch; PyTorch admits only its own mode classes there."""

    def __init__(self, recorder: Recorder) -> None:
        TorchDispatchMode.__init__(self, torch._C.DispatchKey.PreDispatch)  # type: ignore[no-untyped-call]
        self._recorder = recorder

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # otherwise PyTorch imports dynamo, which takes seconds

    def __enter__(self) -> Any:
        enter: Any = TorchDispatchMode.__enter__
        return enter(self)

    def __exit__(self, *error: Any) -> None:
        leave: Any = TorchDispatchMode.__exit__
        leave(self, *error)

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return self._recorder.record_call(self, function, args, kwargs or {})


# Methods that return values to Python without an operator.
_TO_PYTHON_METHODS = {
    "numpy": ".numpy()", "__array__": ".numpy()", "tolist": ".tolist()", "__dlpack__": "DLPack",
}  # fmt: skip
_READING_OPERATORS = frozenset((torch.ops.aten.is_nonzero.default, torch.ops.aten.item.default))


class _PythonReadMode(TorchFunctionMode):
    """Intercepts calls that return a tensor's values to Python without an operator.

    `x.item()` of a value that varies with the input returns a tensor, so that Python computes with
    the tensor.
    """

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if self._recorder.paused:
            return function(*args, **(kwargs or {}))
        name = getattr(function, "__name__", "")
        if name in _TO_PYTHON_METHODS and args and isinstance(args[0], torch.Tensor):
            with torch._C.DisableTorchFunction():
                self._recorder.check_read(args[:1], _TO_PYTHON_METHODS[name])
        elif name == "item" and isinstance(args[0], torch.Tensor) and args[0].numel() == 1:
            with torch._C.DisableTorchFunction():
                if self._recorder.current_node(args[0]).meta["varies"]:
                    item: Any = args[0].detach().reshape(())
                    if item.dtype is torch.bool:  # Python's True is 1: 1 - t.item() is a number
                        item = item.long()
                    item.nbglcnn_is_item = True  # it is formatted as a number
                    self._recorder.has_item_tensors = True
                    return item
        elif name == "__deepcopy__":
            return args[0].clone()
        elif name in ("__repr__", "__format__"):
            with torch._C.DisableTorchFunction():
                self._recorder.note_formatting(args[0])
            with torch._C.DisableTorchFunction(), unrecorded():
                if name == "__repr__" and hasattr(args[0], "nbglcnn_is_item"):
                    return repr(args[0].item())
                return function(*args, **(kwargs or {}))
        elif name == "__bool__" and is_in_assert():
            with torch._C.DisableTorchFunction():
                if (found := self._recorder.evaluate_assert(args[0])) is not None:
                    return found
        return function(*args, **(kwargs or {}))


@contextmanager
def unrecorded() -> Iterator[None]:
    """A context in which operators are not recorded."""
    included = torch._C._dispatch_tls_is_dispatch_key_included(torch._C.DispatchKey.PreDispatch)
    _set_recording(False)
    try:
        yield
    finally:
        _set_recording(included)


def _set_recording(is_enabled: bool) -> None:
    """Set whether this thread's operators reach the recording mode."""
    torch._C._dispatch_tls_set_dispatch_key_included(torch._C.DispatchKey.PreDispatch, is_enabled)


def _to_meta(value: Any) -> Any:
    """The same value with meta tensors, also inside lists, tuples and dicts."""
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided:
            return value
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
    if isinstance(value, list | tuple):
        return [_to_meta(one) for one in value]
    if isinstance(value, dict):
        return {name: _to_meta(one) for name, one in value.items()}
    return value


def _user_lines() -> list[tuple[str, int]]:
    """The running lines of the user's code, innermost last."""
    found = []
    frame = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename != _OUTERMOST_FILE:
        if is_user_file(frame.f_code.co_filename):
            found.append((frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back  # type: ignore[assignment]
    return found[::-1]


def _tensors(tree: Any) -> Iterator[torch.Tensor]:
    if isinstance(tree, torch.Tensor):
        yield tree
    elif isinstance(tree, list | tuple):
        for one in tree:
            yield from _tensors(one)
    elif isinstance(tree, Mapping):
        for one in tree.values():
            yield from _tensors(one)


# Operators that fill a tensor with one value: kept as nodes, which are small at any tensor size.
_FILL_FUNCTIONS = frozenset(
    ("zeros", "ones", "full", "empty", "empty_strided", "empty_permuted", "scalar_tensor")
)
_INDEX_OPERATORS = frozenset(
    (
        *(torch.ops.aten.index.Tensor, torch.ops.aten.index_put.default),
        torch.ops.aten.index_put_.default,
    )
)
_SELECT_OPERATORS = frozenset((*_INDEX_OPERATORS, torch.ops.aten.masked_select.default))
_MASK_DTYPES = (torch.bool, torch.uint8)
# Operators that use only the shape or dtype of this argument, not its values.
_SHAPE_ONLY_ARGUMENT_INDEX = {
    **dict.fromkeys(("zeros_like", "ones_like", "full_like", "empty_like"), 0),
    **dict.fromkeys(("new_zeros", "new_ones", "new_full", "new_empty"), 0),
    **dict.fromkeys(("type_as", "view_as", "reshape_as", "expand_as"), 1),
}
# Operators with uninitialized results.
_UNINITIALIZED_FUNCTIONS = frozenset(
    ("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided")
)


def _depends_on_input(function: Any, tags: Any, args: Any, sources: Sequence[FxNode]) -> bool:
    """Whether an operator's result is random or depends on the input's values."""
    name = getattr(getattr(function, "overloadpacket", function), "__name__", "")
    if name in _UNINITIALIZED_FUNCTIONS or (
        torch.Tag.nondeterministic_seeded in tags and name != "dropout"
    ):
        return True
    shown = (
        args[_SHAPE_ONLY_ARGUMENT_INDEX[name]]
        if name in _SHAPE_ONLY_ARGUMENT_INDEX and _SHAPE_ONLY_ARGUMENT_INDEX[name] < len(args)
        else None
    )
    return any(one.meta["varies"] for one in sources if one is not shown)


@cache
def _out_of_place(function: Any) -> Any:
    """The out-of-place overload: add for add_ and for add with `out`; None if there is none."""
    name = str(function._schema.name).rpartition("::")[2]
    namespace = getattr(torch.ops, function.namespace)
    overload = function._overloadname
    if name.endswith("_") and not name.endswith("__"):
        packet = getattr(namespace, name[:-1], None)
        found = getattr(packet, overload, None) if packet is not None else None
        return found
    if (packet := getattr(namespace, f"{name}_functional", None)) is not None:
        return packet.default
    packet = getattr(namespace, name)
    given = [one.name for one in function._schema.arguments if not _is_out(one)]
    for other in packet.overloads():
        one = getattr(packet, other)
        if [a.name for a in one._schema.arguments] == given and not one._schema.is_mutable:
            return one
    return None


def _is_out(argument: Any) -> bool:
    return argument.alias_info is not None and argument.alias_info.is_write and argument.kwarg_only


def _functionalize(
    function: Any, schema: Any, arguments: Mapping[str, Any]
) -> tuple[Any, tuple[tuple[Any, ...], dict[str, Any]]]:
    """The out-of-place operator and its arguments."""
    aten = torch.ops.aten
    if function is aten.fill_.Scalar:
        return aten.full_like.default, ((arguments["self"], arguments["value"]), {})
    if function is aten.zero_.default:
        return aten.zeros_like.default, ((arguments["self"],), {})
    if function is aten.copy_.default:
        return aten._to_copy.default, ((arguments["src"],), {"dtype": arguments["self"].dtype})
    plain = _out_of_place(function)
    if plain is None and torch.Tag.nondeterministic_seeded in function.tags:
        plain = function  # random operators are refused later by name
    if plain is None:
        raise UnsupportedOperator(
            f"PyTorch's operator {function} writes in place, and PyTorch has no out-of-place "
            "version; write the result into a new tensor"
        )
    mine = [one.name for one in schema.arguments if not _is_out(one)]
    names = [one.name for one in plain._schema.arguments]  # dropout: `input`, dropout_: `self`
    own = {n: arguments[own] for n, own in zip(names, mine, strict=True) if own in arguments}
    return plain, bind_by_position(plain, own)


def bind_by_position(
    function: Any, named_arguments: Mapping[str, Any], args: Sequence[Any] = ()
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Bind arguments as the dispatcher does: by position where possible, the others by name."""
    placed, kwargs = [*args], dict(named_arguments)
    for one in function._schema.arguments[len(placed) :]:
        if one.kwarg_only or one.name not in kwargs:
            break
        placed.append(kwargs.pop(one.name))
    return tuple(placed), kwargs


def _infer_result(
    operator_overload: Any, arguments: tuple[Any, Any], written: Sequence[torch.Tensor]
) -> Any:
    """The result as meta tensors; like the written tensors if the operator has no meta kernel."""
    args, kwargs = _to_meta(arguments)
    try:
        return operator_overload(*args, **kwargs)
    except Exception:
        return _to_meta(written[0] if len(written) == 1 else list(written))
