"""All passes over a recorded program, in their order, before it is translated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbglcnn.load.names import Call
from nbglcnn.load.torch.record.active_dropout import refuse_masks, refuse_new_layers
from nbglcnn.load.torch.record.aliasing import without_idle_names
from nbglcnn.load.torch.record.recorder import Program, Recorder
from nbglcnn.load.torch.rewrite.adaptive_pools import pool_adaptively
from nbglcnn.load.torch.rewrite.masked_assignment import (
    choose_by_masks,
    has_masks,
    refuse_by_size,
)
from nbglcnn.load.torch.rewrite.max_unpool import unpool_by_windows
from nbglcnn.load.torch.rewrite.onnxscript_fixes import (
    attend_in_four_dimensions,
    clamp_by_one_type,
    correct_average_pools,
    name_all_dimensions,
    promote_types,
    without_idle_squeezes,
)
from nbglcnn.load.torch.translate.decompositions import rule_of

if TYPE_CHECKING:
    import torch


def rewrite(program: Program, twin: torch.nn.Module, root: Call) -> None:
    """Write a program's operators as those that can be translated.

    `twin` is the copy that ran and `root` the tree of its calls.

    Raises:
        UnsupportedModel: an operator has no fixed result, or no fixed size.
    """
    without_idle_names(program, root)
    if has_masks(program):
        choose_by_masks(program)
    refuse_masks(program, twin)
    refuse_new_layers(program)
    refuse_by_size(program)
    pool_adaptively(program)
    correct_average_pools(program)
    clamp_by_one_type(program)
    attend_in_four_dimensions(program)
    unpool_by_windows(program)
    _take_apart(program)
    name_all_dimensions(program)
    without_idle_squeezes(program)
    promote_types(program)


def _take_apart(program: Program) -> None:
    """Put others in the place of operators that ONNX has no form for and no pass knows."""
    from torch import fx

    graph = program.graph
    for node in list(graph.nodes):
        if node.op != "call_function" or (rule := rule_of(node.target)) is None:
            continue
        sources = node.all_input_nodes
        values = {one: one.meta["val"] for one in sources}
        recorder = Recorder(dict, rule_of)
        for one, value in values.items():
            recorder.add_input(one.name, value)
        args, kwargs = fx.map_arg((node.args, node.kwargs), values.__getitem__)
        with recorder.recording():
            found = rule(*args, **kwargs)
        if found is NotImplemented:
            continue
        part = recorder.program([recorder.node(found)])
        same = dict(zip(part.inputs, sources, strict=True))
        for one, tensor in part.tensors.items():
            first = next(iter(graph.nodes))
            with graph.inserting_before(first):
                same[one] = graph.placeholder(one.name)
            same[one].meta = dict(one.meta)
            program.tensors[same[one]] = tensor
        with graph.inserting_before(node):
            for one in part.graph.nodes:
                if one.op == "call_function":
                    same[one] = graph.node_copy(one, same.__getitem__)
                    same[one].meta = {**node.meta, "val": one.meta["val"]}
        node.replace_all_uses_with(same[part.outputs[0]])
        graph.erase_node(node)
