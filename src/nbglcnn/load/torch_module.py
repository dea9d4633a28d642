"""PyTorch modules: a hooked export, so that every key's value is the very tensor a forward hook sees."""

from __future__ import annotations

import contextlib
import copy
import inspect
import io
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from nbglcnn.errors import InputError, NbglcnnError, UnsupportedModel, UnsupportedOperator
from nbglcnn.graph import Array, Attribute, Graph, Key, Node
from nbglcnn.load.bounds import shown
from nbglcnn.load.draft import OPSET, Draft
from nbglcnn.load.fold import simplify
from nbglcnn.load.names import Call, parts, place, torch_keys, walk

if TYPE_CHECKING:
    import torch

ROOT = "model"  # the user's module inside the wrapper that is exported


def load_module(model: torch.nn.Module, arrays: Sequence[Array]) -> Graph:
    """The Graph of an eval-mode module for inputs of these shapes. `model` is left as it is."""
    import torch

    model = unwrapped(model)
    check_module(model)
    names = input_names(model, len(arrays))
    twin, notes = detached_copy(model)
    tensors = tuple(torch.from_numpy(np.array(a)) for a in arrays)
    seen, calls = run_hooked(twin, tensors)
    tap = _tap(twin)
    program = _export(tap, tensors)
    if [c.name for c in walk(tap.root)] != [c.name for c in walk(calls)]:
        raise UnsupportedModel(
            f"{type(model).__name__}: its modules were called in another order when it was exported "
            "than when it ran; does forward depend on something besides its input?"
        )
    draft, captured, initializers = _draft(type(model).__name__, program, tap.root, names, arrays)
    draft.notes += notes
    _add_parameters(draft, twin, initializers)
    for value, array in zip(captured, seen, strict=True):
        draft.shapes[value] = array.shape
    done = simplify(draft)
    placed = place(tap.root, done.nodes)
    found = [done.resolve(v) for v in captured]
    keys = torch_keys(
        {n: done.resolve(v) for n, v in zip(names, draft.inputs, strict=True)},
        tap.root,
        found,
        placed,
        lambda value: value in done.constants,
    )
    nodes = tuple(
        replace(node, module=call.path, module_type=call.module_type, call=call.name)
        for _, node, call in placed
    )
    draft.outputs = [found[index] for _, index in tap.root.outputs]
    return finish(draft, done, nodes, keys)


def unwrapped(model: torch.nn.Module) -> torch.nn.Module:
    """The module inside torch.compile and DataParallel wrappers; an error for TorchScript."""
    import torch

    while True:
        if isinstance(model, torch.jit.ScriptModule):
            raise UnsupportedModel(
                f"{type(model).__name__} is TorchScript, which hides its layers; "
                "give the torch.nn.Module that it was made from"
            )
        inner = getattr(model, "_orig_mod", None)
        if inner is None and isinstance(model, torch.nn.DataParallel):
            inner = model.module
        if not isinstance(inner, torch.nn.Module):
            return model
        model = inner


def check_module(model: torch.nn.Module) -> None:
    """Refuse a module that is not on the CPU, not initialised, or in training mode where it matters."""
    import torch
    from torch.nn.parameter import is_lazy

    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if is_lazy(tensor):
            raise UnsupportedModel(
                f"{shown(name)} has no shape yet (a lazy module); call the model once on an input"
            )
        if tensor.device.type != "cpu":
            raise UnsupportedModel(
                f"the model is on {tensor.device} ({shown(name)}); call model.cpu() first"
            )
        if tensor.is_sparse or tensor.is_quantized or tensor.is_complex():
            kind = "complex" if tensor.is_complex() else "sparse or quantized"
            raise UnsupportedModel(
                f"{shown(name)} is {kind}; only dense real tensors are supported"
            )
    strayed = [(name or "the model itself", m) for name, m in model.named_modules() if _trains(m)]
    if strayed:
        some = ", ".join(f"{name} ({type(m).__name__})" for name, m in strayed[:3])
        more = f" and {len(strayed) - 3} more" if len(strayed) > 3 else ""
        norm = torch.nn.modules.batchnorm._NormBase
        why = []
        if any(isinstance(m, norm) for _, m in strayed):
            why.append("BatchNorm would normalise by this batch and change its running statistics")
        if any("Drop" in type(m).__name__ for _, m in strayed):
            why.append("Dropout would drop values at random")
        what = "; ".join(why) or "they compute something else while training"
        raise UnsupportedModel(
            f"in training mode: {some}{more}. {what[0].upper()}{what[1:]}. "
            "Call model.eval() first (and model.train() afterwards, to go on training)"
        )


def _trains(module: torch.nn.Module) -> bool:
    """Whether the module is in training mode and would compute something else in eval mode."""
    import torch

    if not module.training:
        return False
    nn = torch.nn
    if isinstance(module, nn.modules.batchnorm._NormBase):
        return module.track_running_stats
    if isinstance(module, nn.modules.dropout._DropoutNd):
        return module.p > 0
    if isinstance(module, nn.RReLU):
        return module.lower != module.upper
    if isinstance(module, nn.MultiheadAttention | nn.RNNBase):
        return module.dropout > 0
    if type(module).__module__.startswith("torch."):
        return False
    code = getattr(getattr(type(module), "forward", None), "__code__", None)
    return code is not None and "training" in code.co_names


def input_names(model: torch.nn.Module, count: int) -> list[str]:
    """forward's names for the first `count` inputs: `x`, or `inputs[0]` where it takes *inputs."""
    name = type(model).__name__
    names: list[str] = []
    allowed = 0
    for parameter in inspect.signature(model.forward).parameters.values():
        missing = parameter.default is parameter.empty
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}[{i}]" for i in range(count - len(names))]
            return names
        if parameter.kind is parameter.KEYWORD_ONLY and missing:
            raise UnsupportedModel(
                f"{name}.forward needs the keyword {parameter.name!r}; inputs are given by position, "
                "so wrap the model in a module whose forward passes it"
            )
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            allowed += 1
            if len(names) < count:
                names.append(parameter.name)
            elif missing:
                raise InputError(
                    f"{name}.forward needs an input {parameter.name!r}; {count} "
                    f"{'was' if count == 1 else 'were'} given. Give a tuple with one array for each input"
                )
    if count > allowed:
        raise InputError(f"{name}.forward takes {allowed} inputs; {count} were given")
    return names


def image_channels(model: torch.nn.Module) -> int | None:
    """How many channels the first convolution takes: what a picture is converted to."""
    for module in model.modules():
        channels = getattr(module, "in_channels", None)
        if isinstance(channels, int):
            return channels
    return None


def detached_copy(model: torch.nn.Module) -> tuple[torch.nn.Module, list[str]]:
    """A copy in eval mode and float32, without the user's hooks that only look; and what was changed."""
    import torch

    memo: dict[int, Any] = {}
    for module in model.modules():
        for value in vars(module).values():
            # A plain attribute that is a result (weight_norm's weight) refuses to be deep-copied.
            if isinstance(value, torch.Tensor) and not value.is_leaf:
                memo[id(value)] = value.detach().clone()
    try:
        twin = copy.deepcopy(model, memo)
    except Exception as error:
        raise UnsupportedModel(
            f"{type(model).__name__} cannot be copied ({type(error).__name__}: {error}); "
            "does it hold a file, a generator or a result that needs a gradient?"
        ) from error
    twin.eval()
    notes = []
    other = {t.dtype for t in (*twin.parameters(), *twin.buffers()) if t.is_floating_point()}
    other.discard(torch.float32)
    if other:
        names = ", ".join(sorted(str(d).removeprefix("torch.") for d in other))
        notes.append(f"weights given as {names} are computed in float32")
        twin.float()
    return twin, notes


def run_hooked(model: torch.nn.Module, tensors: Sequence[torch.Tensor]) -> tuple[list[Array], Call]:
    """Run once and give what forward hooks see: copies of all calls' tensors, and the tree of calls."""
    import torch

    try:
        # Outside fork_rng a model that draws random numbers would move the user's generator.
        with torch.random.fork_rng(devices=[]), torch.no_grad(), _quiet():
            captured, root = hooked(model, tuple(t.clone() for t in tensors))
    except NbglcnnError:
        raise
    except Exception as error:
        shapes = ", ".join(
            f"{list(t.shape)} {str(t.dtype).removeprefix('torch.')}" for t in tensors
        )
        raise InputError(
            f"{type(model).__name__} fails on this input ({shapes}): {type(error).__name__}: {error}"
        ) from error
    return [t.numpy() for t in captured], root


def hooked(
    model: torch.nn.Module, inputs: Sequence[torch.Tensor]
) -> tuple[list[torch.Tensor], Call]:
    """Call the model with hooks on each module; the same in eager mode and while exporting."""
    import torch

    captured: list[torch.Tensor] = []
    counts: dict[str, int] = {}
    stack: list[Call] = []
    finished: list[Call] = []

    def is_tensor(value: Any) -> bool:
        return isinstance(value, torch.Tensor)

    def before(path: str) -> Callable[..., None]:
        def hook(module: torch.nn.Module, _: Any) -> None:
            number = counts.get(path, 0)
            counts[path] = number + 1
            call = Call(path, number, _is_leaf(module), type(module).__name__, _describe(module))
            if stack:
                stack[-1].children.append(call)
            stack.append(call)

        return hook

    def after(_: torch.nn.Module, __: Any, output: Any) -> None:
        call = stack.pop()
        for suffix, tensor in parts(output, is_tensor):
            call.outputs.append((suffix, len(captured)))
            captured.append(tensor.detach().clone())
        finished.append(call)

    handles = []
    try:
        for path, module in model.named_modules():
            handles.append(module.register_forward_pre_hook(before(path), prepend=True))
            handles.append(module.register_forward_hook(after))
        model(*inputs)
    finally:
        for handle in handles:
            handle.remove()
    return captured, finished[-1]


def _is_leaf(module: torch.nn.Module) -> bool:
    return not any(name != "parametrizations" for name, _ in module.named_children())


def _describe(module: torch.nn.Module) -> str:
    try:
        return module.extra_repr()
    except Exception:
        return ""


def _tap(twin: torch.nn.Module) -> Any:
    """The wrapper to export: its outputs are all captured tensors; `root` is the tree of calls."""
    import torch

    class Tap(torch.nn.Module):
        root: Call

        def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
            captured, self.__dict__["root"] = hooked(getattr(self, ROOT), inputs)
            return tuple(captured)

    tap = Tap()
    tap.add_module(ROOT, twin)
    return tap.eval()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Nothing that a model or the exporter prints or logs reaches the notebook."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                logger.setLevel(logging.CRITICAL)
                yield
            finally:
                logger.setLevel(before)


def _export(tap: Any, tensors: tuple[torch.Tensor, ...]) -> Any:
    import torch

    with _quiet(), torch.no_grad(), torch.random.fork_rng(devices=[]):
        try:
            program = torch.export.export(tap, tensors, strict=False)
        except NbglcnnError:
            raise
        except Exception as error:
            raise UnsupportedModel(_explain(tap, error)) from error
        try:
            # optimize=True would fold BatchNorm into Conv and merge equal parameters.
            return torch.onnx.export(
                program, dynamo=True, optimize=False, opset_version=OPSET, verbose=False
            )
        except Exception as error:
            raise UnsupportedOperator(_explain(tap, error)) from error


def _explain(tap: Any, error: BaseException) -> str:
    name = type(getattr(tap, ROOT)).__name__
    chain = [error]
    while (inner := chain[-1].__cause__ or chain[-1].__context__) and inner not in chain:
        chain.append(inner)
    first = str(chain[-1]).strip().splitlines() or [type(chain[-1]).__name__]
    return f"{name} cannot be exported: {type(chain[-1]).__name__}: {first[0][:300]}"


def _draft(
    name: str, program: Any, root: Call, input_names: Sequence[str], arrays: Sequence[Array]
) -> tuple[Draft, list[str], dict[str, str]]:
    """The exported graph as a Draft; the captured values in order; initializers' values by name."""
    graph = program.model.graph
    draft = Draft(name=name, source="torch")
    taken: set[str] = set()
    names: dict[str, str] = {}

    def rename(old: str, new: str) -> str:
        number, free = 0, new
        while free in taken:
            number += 1
            free = f"{new}.{number}"
        taken.add(free)
        names[old] = free
        return free

    for value, wanted, array in zip(graph.inputs, input_names, arrays, strict=True):
        draft.inputs[rename(value.name, wanted)] = array.shape, array.dtype
    initializers = {}
    for key, value in graph.initializers.items():
        new = rename(key, key.removeprefix(ROOT + "."))
        initializers[key] = new
        draft.constants[new] = _array(value.const_value)
    for node in graph:
        for value in node.outputs:
            rename(value.name, value.name)
            shape = value.shape
            if shape is not None and shape.is_static() and value.dtype is not None:
                known = tuple(int(d) for d in shape), np.dtype(value.dtype.numpy())
                draft.declared[names[value.name]] = known
    for node in graph:
        module = _module_path(node)
        draft.nodes.append(
            Node(
                name=node.name or "",
                op=node.op_type,
                inputs=tuple(names[v.name] if v is not None else "" for v in node.inputs),
                outputs=tuple(names[v.name] for v in node.outputs),
                attributes=MappingProxyType(
                    {n: _attribute(node, a) for n, a in node.attributes.items()}
                ),
                module=module,
                domain=node.domain,
            )
        )
    produced = {out: i for i, node in enumerate(draft.nodes) for out in node.outputs}
    captured = [names[v.name] for v in graph.outputs][-sum(len(c.outputs) for c in walk(root)) :]
    draft.keep = list(captured)
    latest = -1
    for call in _by_return(root):
        ends = [produced.get(captured[index], -1) for _, index in call.outputs]
        latest = call.end = max([latest, *ends])
    return draft, captured, initializers


def _by_return(call: Call) -> Iterator[Call]:
    for child in call.children:
        yield from _by_return(child)
    yield call


def _module_path(node: Any) -> str:
    """The innermost module that a node came from, from the exporter's metadata."""
    scopes = node.metadata_props.get("pkg.torch.onnx.name_scopes", "")
    import ast

    try:
        path = str(ast.literal_eval(scopes)[-2])
    except (SyntaxError, ValueError, IndexError, TypeError):
        return ""
    return path.removeprefix(ROOT).removeprefix(".")


def _array(tensor: Any) -> Array:
    array = np.ascontiguousarray(tensor.numpy())
    return array.astype(np.float32) if array.dtype in (np.float64, np.float16) else array


def _attribute(node: Any, attribute: Any) -> Attribute:
    import onnx_ir as ir

    kind, value = attribute.type, attribute.value
    if kind in (ir.AttributeType.INT, ir.AttributeType.FLOAT, ir.AttributeType.STRING):
        return value  # type: ignore[no-any-return]
    if kind in (ir.AttributeType.INTS, ir.AttributeType.FLOATS, ir.AttributeType.STRINGS):
        return tuple(value)
    if kind is ir.AttributeType.TENSOR:
        return np.asarray(value.numpy())
    raise UnsupportedOperator(
        f"{node.op_type} (in module {shown(_module_path(node))}): control flow that depends on "
        "the input's numbers cannot be drawn as a fixed network"
    )


def _add_parameters(draft: Draft, twin: torch.nn.Module, initializers: dict[str, str]) -> None:
    """Map every state_dict name to its value; tied weights are one value under two names."""
    values: dict[int, str] = {}
    state = twin.state_dict(keep_vars=True)
    tensors = {n: t for n, t in state.items() if hasattr(t, "detach")}
    for name, tensor in tensors.items():
        exported = initializers.get(f"{ROOT}.{name}")
        if exported is not None:
            values.setdefault(id(tensor), exported)
    for name, tensor in tensors.items():
        if name.rpartition(".")[2] == "num_batches_tracked":
            continue
        value = values.get(id(tensor))
        if value is None:  # not used by forward: kept so that load_state_dict can be strict
            value = values[id(tensor)] = name
            draft.constants[name] = _array(tensor.detach())
        draft.parameters[name] = value


def finish(draft: Draft, done: Any, nodes: tuple[Node, ...], keys: Sequence[Key]) -> Graph:
    """The Graph of what simplify left."""
    needed = dict.fromkeys(draft.inputs)
    for node in (*done.folded, *nodes):
        needed.update(dict.fromkeys((*node.inputs, *node.outputs)))
    needed.update(dict.fromkeys(key.value for key in keys))
    needed.update(dict.fromkeys(draft.parameters.values()))
    needed.pop("", None)
    return Graph(
        name=draft.name,
        nodes=nodes,
        values=MappingProxyType({name: done.value(name) for name in needed}),
        inputs=tuple(draft.inputs),
        outputs=tuple(draft.outputs),
        keys=tuple(keys),
        parameters=MappingProxyType(dict(draft.parameters)),
        folded=tuple(done.folded),
        source=draft.source,
        notes=tuple(draft.notes),
    )
