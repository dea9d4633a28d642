"""All passes over a recorded program before translation, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbglcnn.load.module_keys import ModuleCall
from nbglcnn.load.torch.record.active_dropout import refuse_dropouts, refuse_new_layers
from nbglcnn.load.torch.record.aliasing import remove_unneeded_aliases
from nbglcnn.load.torch.record.recorder import RecordedProgram, Recorder
from nbglcnn.load.torch.rewrite.adaptive_pools import rewrite_adaptive_pools
from nbglcnn.load.torch.rewrite.masked_assignment import (
    has_masks,
    masks_to_where,
    refuse_dynamic_sizes,
)
from nbglcnn.load.torch.rewrite.max_unpool import rewrite_max_unpools
from nbglcnn.load.torch.rewrite.onnxscript_fixes import (
    apply_divisor_override,
    list_all_dims,
    make_attention_4d,
    promote_types,
    remove_ignored_squeezes,
    unify_clamp_types,
)
from nbglcnn.load.torch.translate.decompositions import find_decomposition

if TYPE_CHECKING:
    import torch


def rewrite_program(
    program: RecordedProgram, model_copy: torch.nn.Module, root: ModuleCall
) -> None:
    """Rewrite a program with operators that can be translated.

    `model_copy` is the copy that ran and `root` its call tree.

    Raises:
        UnsupportedModel: If an operator has no fixed result, or no fixed size.
    """
    remove_unneeded_aliases(program, root)
    if has_masks(program):
        masks_to_where(program)
    refuse_dropouts(program, model_copy)
    refuse_new_layers(program)
    refuse_dynamic_sizes(program)
    rewrite_adaptive_pools(program)
    apply_divisor_override(program)
    unify_clamp_types(program)
    make_attention_4d(program)
    rewrite_max_unpools(program)
    _decompose_operators(program)
    list_all_dims(program)
    remove_ignored_squeezes(program)
    promote_types(program)


def _decompose_operators(program: RecordedProgram) -> None:
    """Decompose operators that have no ONNX equivalent and that no other pass handles."""
    from torch import fx

    graph = program.graph
    for node in list(graph.nodes):
        if node.op != "call_function" or (rule := find_decomposition(node.target)) is None:
            continue
        sources = node.all_input_nodes
        values = {one: one.meta["val"] for one in sources}
        recorder = Recorder(dict, find_decomposition)
        for one, value in values.items():
            recorder.add_input(one.name, value)
        args, kwargs = fx.map_arg((node.args, node.kwargs), values.__getitem__)
        with recorder.recording():
            found = rule(*args, **kwargs)
        if found is NotImplemented:
            continue
        part = recorder.make_program([recorder.current_node(found)])
        same = dict(zip(part.inputs, sources, strict=True))
        for one, tensor in part.placeholder_tensors.items():
            first = next(iter(graph.nodes))
            with graph.inserting_before(first):
                same[one] = graph.placeholder(one.name)
            same[one].meta = dict(one.meta)
            program.placeholder_tensors[same[one]] = tensor
        with graph.inserting_before(node):
            for one in part.graph.nodes:
                if one.op == "call_function":
                    same[one] = graph.node_copy(one, same.__getitem__)
                    same[one].meta = {**node.meta, "val": one.meta["val"]}
        node.replace_all_uses_with(same[part.outputs[0]])
        graph.erase_node(node)
