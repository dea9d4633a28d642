"""Conversion of PyTorch modules to Graphs by recording a run; each key is a tensor in a hook."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from nbglcnn.errors import UnsupportedModel, user_stacklevel
from nbglcnn.graph import Array, Graph, Node, ValueKey, assign_to_python
from nbglcnn.load.arguments import ForwardArguments
from nbglcnn.load.draft import OPSET, GraphDraft, free_name
from nbglcnn.load.model import CheckNodesFn, CheckOperatorFn
from nbglcnn.load.module_keys import (
    ModuleCall,
    assign_calls,
    make_torch_keys,
    map_call_parents,
    walk_calls,
)
from nbglcnn.load.noise import add_noise_inputs
from nbglcnn.load.passes.build_graph import build_graph
from nbglcnn.load.passes.fold import fold_draft
from nbglcnn.load.torch.conversion import ConvertedRun
from nbglcnn.load.torch.isolation.forward_signature import input_names
from nbglcnn.load.torch.isolation.module_checks import check_module
from nbglcnn.load.torch.isolation.source_lines import describe_call
from nbglcnn.load.torch.isolation.source_lines import module_path as source_path
from nbglcnn.load.torch.isolation.tensor_redirection import shared_with_numpy
from nbglcnn.load.torch.model_runs import ModelRuns
from nbglcnn.load.torch.record.aliasing import preserved_aliases, remove_unneeded_identities
from nbglcnn.load.torch.record.module_calls import values_by_key
from nbglcnn.load.torch.record.module_substitution import (
    extend_python_reasons,
    find_unsupported_recurrent,
    split_unsupported_nodes,
)
from nbglcnn.load.torch.record.random_draws import Noise
from nbglcnn.load.torch.translate.aten_translations import OnnxNode, OnnxTensor
from nbglcnn.load.torch.translate.functional_names import (
    FunctionalName,
    functional_names,
    node_names,
)

if TYPE_CHECKING:
    import torch

UNEQUAL_OUTPUTS_MESSAGE = "the outputs of two equal calls of forward differ"


def load_module(
    model: torch.nn.Module,
    arrays: Sequence[Array],
    collected_values: dict[str, Array] | None = None,
    check_nodes: CheckNodesFn | None = None,
    check_operator: CheckOperatorFn | None = None,
    noise: Noise | None = None,
    arguments: ForwardArguments | None = None,
) -> tuple[Graph, tuple[Array, ...]]:
    """Return the Graph of an eval-mode module for these inputs. `model` is not modified.

    The result is the Graph and all its input arrays.

    The random tensors that the model draws become further inputs, taken from the user's `noise` or
    seeded; they are returned with `arrays`. `collected_values` receives the modules' outputs for
    these inputs by key, since loading runs the modules anyway. `check_nodes` returns the reasons
    why nodes of a Graph cannot run. If it is set, Python computes these nodes, and also the
    innermost modules that contain code which cannot be recorded. `check_operator` does the same for
    a single operator.
    """
    check_module(model)
    noise = Noise(()) if noise is None else noise
    reasons = {} if check_operator is None else find_unsupported_recurrent(model, check_operator)
    first = True  # warnings are issued on the first attempt only
    while True:
        try:
            graph = _build_graph(
                ModelRuns(model, arrays, noise, reasons, first, arguments), collected_values
            )
        except UnsupportedModel as error:
            more = None if check_nodes is None else extend_python_reasons(model, reasons, error)
            if more is None:
                raise
            reasons, first = more, False
            continue
        wrong = check_nodes(graph) if check_nodes is not None else {}
        nodes = {node.name: (node, wrong[node.name]) for node in graph.nodes if node.name in wrong}
        cut, alone = split_unsupported_nodes(model, nodes)
        if not cut:
            return assign_to_python(graph, alone), (*arrays, *noise.arrays)
        reasons, first = {**reasons, **cut}, False


def _build_graph(runs: ModelRuns, collected_values: dict[str, Array] | None) -> Graph:
    """Build the Graph; Python computes the modules in `reasons`."""
    model, first, arguments = runs.model, runs.is_first_attempt, runs.arguments
    names = (
        input_names(model, len(runs.model_inputs))
        if arguments is None
        else [*arguments.input_names]
    )
    recording, seen = runs.record_and_run()
    arrays, names = runs.all_input_arrays, [*names, *runs.noise.names]
    if first and not seen.is_repeatable:
        warnings.warn(UNEQUAL_OUTPUTS_MESSAGE, UserWarning, stacklevel=user_stacklevel())
    if not seen.root.outputs:
        raise UnsupportedModel(
            f"{type(model).__name__} returns neither a tensor nor a tuple, list, dict or "
            "dataclass of tensors"
        )
    if seen.non_tensors and first:
        warnings.warn(
            _ignored_outputs_message(seen.non_tensors), UserWarning, stacklevel=user_stacklevel()
        )
    found, seen = runs.convert_recording(recording, seen)
    recording, root = found.recorded_run, found.recorded_run.root
    draft, captured, words = _draft(found, names, arrays)
    draft.notes += runs.notes
    draft.constant_reads = frozenset(recording.recorder.constant_reads) | shared_with_numpy(model)
    for value, array in zip(captured, seen.captured_arrays, strict=True):
        draft.shapes[value] = array.shape
    try:
        done = fold_draft(draft)
    except UnsupportedModel as error:
        error.module = error.module or draft.current_module
        raise
    parameter_nodes = remove_unneeded_identities(
        done, assign_calls(root, done.nodes), root, captured
    )
    values = [done.resolve(v) for v in captured]
    keys = make_torch_keys(
        {n: done.resolve(v) for n, v in zip(names, draft.inputs, strict=True)},
        root,
        values,
        [
            one for one in parameter_nodes if one[1].op != "Identity"
        ],  # Identity nodes have module keys
        lambda at, node, value: words[at].name_of(value, node.op),
    )
    nodes = tuple(
        replace(node, module=call.path, module_type=call.module_type, module_call=call.name)
        for _, node, call in parameter_nodes
    )
    draft.outputs = [values[index] for _, index in root.outputs]
    graph = replace(
        build_graph(draft, done, nodes, keys),
        call_parents=map_call_parents(root),
        input_structure=arguments,
    )
    graph = replace(graph, shared_modules=_shared_module_keys(model, keys))
    graph = add_noise_inputs(graph, runs.noise.default_arrays)
    if collected_values is not None:
        collected_values.update(values_by_key(graph, arrays, seen.captured_arrays, seen.root))

    return replace(graph, batch_dependences=runs.batch_dependences(graph, recording, seen))


def _shared_module_keys(
    model: torch.nn.Module, keys: Sequence[ValueKey]
) -> Mapping[str, tuple[str, ...]]:
    """The keys of modules that are registered more than once, by the modules' other paths."""
    first = {id(module): path for path, module in model.named_modules()}
    found: dict[str, tuple[str, ...]] = {}
    for path, module in model.named_modules(remove_duplicate=False):
        own = first[id(module)]
        if path == own:
            continue
        calls = re.compile(re.escape(own) + r"(:\d+)?")
        values = tuple(
            one.name for one in keys if one.module_call and calls.fullmatch(one.module_call)
        )
        if values:
            found[path] = values
    return MappingProxyType(found)


def _ignored_outputs_message(non_tensors: Sequence[tuple[str, Any]]) -> str:
    """The warning about non-tensor outputs of forward, by the names that keys would have."""
    some = ", ".join(
        f"output{suffix} ({type(value).__name__})" for suffix, value in non_tensors[:5]
    )
    more = f" and {len(non_tensors) - 5} more" if len(non_tensors) > 5 else ""
    return f"forward also returns values that are not tensors, which are ignored: {some}{more}"


def _draft(
    converted: ConvertedRun, input_names: Sequence[str], arrays: Sequence[Array]
) -> tuple[GraphDraft, list[str], list[FunctionalName]]:
    """Return a GraphDraft of ONNX nodes, the captured values in order, and each node's name."""
    recorded = converted.recorded_run
    twin, root, program, cut = (
        recorded.model_copy,
        recorded.root,
        recorded.program,
        recorded.python_calls,
    )
    draft = GraphDraft(name=type(twin).__name__, framework="torch")
    names: dict[int, str] = {}  # names in the GraphDraft, by id() of the ONNX value
    taken: set[str] = set()

    def rename(value: OnnxTensor, new: str) -> str:
        names[id(value)] = free_name(new, taken)
        return names[id(value)]

    values = [converted.onnx_values[node] for node in program.inputs]
    for value, wanted, array in zip(values, input_names, arrays, strict=False):
        draft.inputs[rename(value, wanted)] = array.shape, array.dtype
    keys = [call.name + suffix for call in cut.calls for suffix, _ in call.outputs]
    python_output_names = []
    for value, wanted in zip(values[len(arrays) :], keys, strict=True):
        python_output_names.append(rename(value, wanted))
        if value.shape is None or value.dtype is None:
            raise UnsupportedModel(
                f"{wanted} runs in Python and returns a type that NumPy doesn't have; convert "
                "the values, as with .float()"
            )
        draft.declared_types[python_output_names[-1]] = value.shape, value.dtype
    parameter_nodes = {name: node for node, name in program.parameter_names.items()}
    first = _tied_weight_names(twin)
    for name, same in first.items():
        if name.rpartition(".")[2] == "num_batches_tracked":
            continue
        if same in draft.parameters:
            draft.parameters[name] = draft.parameters[same]
            continue
        node = parameter_nodes.pop(same)
        draft.parameters[name] = rename(converted.onnx_values[node], name)
        draft.constants[draft.parameters[name]] = _to_constant_array(
            program.placeholder_tensors[node]
        )
    draft.buffers.update(draft.parameters.keys() & dict(twin.named_buffers(remove_duplicate=False)))
    for node, tensor in program.placeholder_tensors.items():
        value = converted.onnx_values[node]
        if id(value) not in names and node.users:
            # float64 constants stay float64, so that folding computes with PyTorch's precision.
            name = rename(value, program.parameter_names.get(node, node.name))
            draft.constants[name] = _to_constant_array(tensor, wide=True)
    paths = {id(module): path for path, module in reversed(list(twin.named_modules()))}
    path_of = {path: paths[id(m)] for path, m in twin.named_modules(remove_duplicate=False)}
    used = {id(value) for step, _ in converted.nodes for value in step.inputs}
    used |= {id(value) for value in converted.outputs}
    recorded_of = {}
    for step, recorded in converted.nodes:
        module = source_path(recorded)
        outputs = list(step.outputs)
        while len(outputs) > _fewest_outputs(step) and id(outputs[-1]) not in used:
            outputs.pop()
        for value in outputs:
            name = rename(value, value.name or f"{recorded.name}.{step.op}")
            if value.shape is not None and value.dtype is not None:
                draft.declared_types[name] = value.shape, value.dtype
        draft.nodes.append(
            Node(
                name="",
                op=step.op,
                inputs=tuple(names[id(v)] if v is not None else "" for v in step.inputs),
                outputs=tuple(names[id(v)] for v in outputs),
                attributes=MappingProxyType(step.attributes),
                module=path_of.get(module, module),
                torch_operator=recorded.meta["called"],
                domain=step.domain,
            )
        )
        draft.opsets.append(step.version)
        recorded_of[draft.nodes[-1].outputs[0]] = recorded
    draft.describe_source = lambda output: describe_call(recorded_of[output])
    words = functional_names(converted.nodes, names)
    named = node_names(zip(draft.nodes, words, strict=True))
    draft.nodes = [replace(node, name=name) for node, name in zip(draft.nodes, named, strict=True)]
    given = [names[id(v)] for v in converted.outputs]
    count = sum(len(c.outputs) for c in walk_calls(root))
    captured, given = given[-count:], given[:-count]
    read = given[len(given) - sum(map(len, cut.argument_nodes)) :]
    for made in cut.make_nodes(python_output_names, read, draft.parameters):
        # Insert the node before its first reader; without a reader, after its last source.
        readers = [
            k for k, n in enumerate(draft.nodes) if not set(made.outputs).isdisjoint(n.inputs)
        ]
        sources = [
            k for k, n in enumerate(draft.nodes) if not set(made.inputs).isdisjoint(n.outputs)
        ]
        at = readers[0] if readers else max(sources, default=-1) + 1
        draft.nodes.insert(at, made)
        draft.opsets.insert(at, OPSET)
        words.insert(at, FunctionalName("", {}))
    produced = {out: i for i, node in enumerate(draft.nodes) for out in node.outputs}
    draft.keep_alive = list(captured)
    draft.preserved_aliases = preserved_aliases(root, captured, draft.nodes, cut.reasons)
    latest = 0
    for call in _calls_by_return(root):
        ends = [produced.get(captured[index], -1) + 1 for _, index in call.outputs]
        latest = call.end_index = max([latest, *ends])
    return draft, captured, words


def _fewest_outputs(step: OnnxNode) -> int:
    """The minimum number of outputs of an ONNX node: MaxPool's indices are optional."""
    import onnx

    if step.domain or len(step.outputs) == 1:
        return len(step.outputs)
    schema = onnx.defs.get_schema(step.op, step.version, "")
    optional = onnx.defs.OpSchema.FormalParameterOption.Optional
    fewest = len(step.outputs)
    while 1 < fewest <= len(schema.outputs) and schema.outputs[fewest - 1].option == optional:
        fewest -= 1
    return fewest


def _tied_weight_names(model_copy: torch.nn.Module) -> dict[str, str]:
    """Map each state_dict name to the first name of the same tensor; tied weights share one."""
    tensors = {
        n: t for n, t in model_copy.state_dict(keep_vars=True).items() if hasattr(t, "detach")
    }
    first: dict[int, str] = {}
    return {name: first.setdefault(id(tensor), name) for name, tensor in tensors.items()}


def _calls_by_return(call: ModuleCall) -> Iterator[ModuleCall]:
    for child in call.children:
        yield from _calls_by_return(child)
    yield call


def _to_constant_array(tensor: Any, *, wide: bool = False) -> Array:
    array = np.asarray(tensor.detach().resolve_conj().resolve_neg().numpy(), order="C")
    narrow = (np.float16,) if wide else (np.float64, np.float16)
    return array.astype(np.float32) if array.dtype in narrow else array
