"""The public functions that need no page: compile a model, check what of it can run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from nbglcnn.engine_disagreements import known_disagreement
from nbglcnn.errors import InputError, NbglcnnError, UnsupportedModel
from nbglcnn.features.edits.replay import check_replayable, edit_replay
from nbglcnn.graph import Graph
from nbglcnn.load import Model, model_of
from nbglcnn.lowering.layers import layer_keys, layer_nodes, pytorch_spelling
from nbglcnn.lowering.lower import Observe, lower
from nbglcnn.lowering.shape_inference import infer_known_shapes, layer_name
from nbglcnn.plan.schema import Plan, Precision, Target
from nbglcnn.python_fallback import load_with_fallback
from nbglcnn.reference import (
    compute_float64,
    compute_reference,
    engine_name,
    is_faithful,
    recompute_layers,
)
from nbglcnn.report import Match, ReferenceNotes, Report, Support, compare_values

if TYPE_CHECKING:
    from nbglcnn.load.onnx.model import PartialLoad
    from nbglcnn.runtime.session import Session


def compile(
    model: Any,
    x: Any = None,
    *,
    observe: Observe = "all",
    target: Target | None = None,
    precision: Precision = "float32",
    preprocess: Any = None,
) -> Plan:
    """Compile a network into a Plan with its packed weights.

    Args:
        model: a torch.nn.Module in eval mode, an onnx.ModelProto or a path to an .onnx file.
        x: an example input (array, tensor, picture, list of pictures; for several inputs
            a tuple, or a dict by their names).
            Only an ONNX model with static shapes can do without. Random numbers that forward draws
            are further inputs `noise`, `noise_1`, …, seeded where none are given.
        observe: what can be read afterwards: "all" layers, "outputs" alone (fastest: the rest is
        fused
            and its textures reused), or a list of layer names (outputs are always kept).
        target: limits of the device; default are WebGL 2's guaranteed minimums and 4096 texels a
        side.
        precision: what activations and weights are stored in. "float16" takes half the memory and
        is right to about three digits; numbers beyond 65504 become infinite.
        preprocess: how a picture becomes what the model takes, as layers in front of it: a
        `Preprocess`, or a transform of torchvision or a config of timm. `x` is the picture then,
        of any size where it is a Pillow image; zeros without one.

    Raises:
        UnsupportedOperator, UnsupportedModel: naming the layer, before anything runs.
        InputError: `x` is missing or doesn't fit, `precision` is neither, or `preprocess` isn't
            known.
        ModelError: the file is damaged or unsafe.
    """
    graph, _ = model_of(model, preprocess).load(x)
    return lower(graph, observe=observe, target=target, precision=precision)


def check(model: Any, x: Any = None, *, preprocess: Any = None) -> Report[Support]:
    """Which layers can run and why the others can't, before anything runs.

    Takes what `compile` takes, `preprocess` too; raises what it raises for a file that is damaged
    or unsafe, and for an input that doesn't fit. Layers that cannot run, but that a Viewer has
    computed in Python, are marked so; `compile` refuses them, and `report.ok` is False. Of a torch
    module of which that cannot be told (its own forward cannot be exported, it is in training mode
    or holds what has no layers: TorchScript, 8-bit weights) each module is tried by itself in eval
    mode, and the last row says why the whole cannot run and what to do. Of an ONNX model each layer
    has its row; what lies behind one that neither can run nor be computed in Python may have to be
    left open.
    """
    model = model_of(model, preprocess)
    try:
        graph, _ = load_with_fallback(model, x)
    except UnsupportedModel as error:
        with contextlib.suppress(UnsupportedModel):  # where it isn't about single nodes
            if (found := model.load_partial(x)) is not None:
                return Report(tuple(_rows_in_file_order(found)), "can run")
        whole = Support(type(model.source).__name__, "the whole", False, str(error))
        return Report((*_module_rows(model, x), whole), "can run")
    return Report(tuple(_layer_rows(graph)), "can run")


def verify(session: Session, model: Any, x: Any = None, *, preprocess: Any = None) -> Report[Match]:
    """Run `x` on local OpenGL and by PyTorch or ONNX Runtime, and compare every value of the Plan.

    Args:
        session: runs the Plan; what `observe` left out isn't compared.
        model: what the Plan was compiled from.
        x: an input as in `compile`; noise is seeded unless it is given with it.
        preprocess: what the Plan was compiled with; computed by numpy here.

    A row of the report is a layer: largest and mean absolute error, the largest relative to the
    layer's largest value, and whether max|a - b| <= 1e-5 * max|b| + 1e-6 (for float16
    2e-2 * max|b| + 1e-6), or whether it is as near to what the model computes in float64 as the
    reference's own float32 is (an ONNX model of up to 1e10 MACs), or whether all layers before it
    are ok and it is that near to what float64 gives for its own inputs: networks enlarge the
    rounding of their first layers, in PyTorch as here. Float64 clears rounding alone: a layer that,
    as it was loaded, gives other numbers than the model on the same inputs (by more than 100 times
    the error of float32) is not ok. A torch module is called twice with equal inputs: layers that
    the second call computes differently are not ok either, and the report says so.
    `report.ok` is the verdict, `report.first_diverging` where to look. Where the session bends
    values, the model is compared with the same bends replayed.
    Numbers far below 1e-6 always match: scale the model's output to compare those.

    Raises:
        InputError: `session` is no Session, `x` is missing or doesn't fit the Plan, or a bend
            cannot be replayed (a text in GLSL runs on a graphics device alone): switch it off, or
            remove it.
        SessionClosed: the session was closed.
    """
    from nbglcnn.runtime.session import Session

    if not isinstance(session, Session):
        raise InputError(
            f"verify takes a Session, the model and x, and got {type(session).__name__}: "
            "with nbglcnn.Session(nbglcnn.compile(model, x)) as session: "
            "nbglcnn.verify(session, model, x)"
        )
    plan = session.plan
    session.check_open()
    store = session.bends.store
    edits, injected = store.edits, store.arrays
    check_replayable(edits, injected)
    model = model_of(model, preprocess)
    graph, arrays = model.load(x)
    found = session.run(*arrays)
    bends = edit_replay(plan, edits, injected, found)
    notes = ReferenceNotes()
    expected = compute_reference(model, graph, arrays, bends=bends, notes=notes)
    if missing := [k for k in plan.computed if k not in expected and k not in notes.uncomputable]:
        raise InputError(
            f"{type(model.source).__name__} has no layer {missing[0]!r}: "
            "give the model that this Plan was compiled from, and its preprocess if there was one"
        )
    return compare_values(
        plan,
        found,
        expected,
        f"{notes.engine or engine_name(model)} on {session.renderer}",
        compute_float64=partial(compute_float64, model, graph, arrays, bends=bends),
        recompute_layers=partial(recompute_layers, graph, found, bends=bends),
        float16_keys=graph.float16_keys(),
        is_faithful=partial(is_faithful, graph, expected, bends),
        disputed=partial(known_disagreement, graph),
        notes=notes,
        has_bends=bool(bends),
        by_model=graph.source == "torch",
    )


def _module_rows(model: Model, x: Any) -> Iterator[Support]:
    """A row for each module of a model, tried alone."""
    for path, kind, found in model.load_each_module(x):
        if isinstance(found, NbglcnnError):
            yield Support(path, kind, False, str(found))
            continue
        own = _layer_rows(found)
        reasons = dict.fromkeys(row.reason for row in own if not row.ok)
        operators = " + ".join(dict.fromkeys(row.operator for row in own)) or kind
        yield Support(path, operators, not reasons, "; ".join(reasons))


def _rows_in_file_order(part: PartialLoad) -> list[Support]:
    """A row for each layer of what could be loaded and of what couldn't, as in the file."""
    rows = _layer_rows(part.graph)
    rows += [
        Support(
            next(filter(None, node.outputs), node.name),
            pytorch_spelling(node.op),
            False,
            str(error),
        )
        for node, error in part.unsupported_nodes
    ]
    place = {name: at for at, name in enumerate(part.names)}
    return sorted(rows, key=lambda row: place.get(row.layer, len(place)))


def _layer_rows(graph: Graph) -> list[Support]:
    """A row for each layer of a graph."""
    _, problems = infer_known_shapes(graph)
    types = {key.name: key.module_type for key in layer_keys(graph)}
    rows: list[Support] = []
    told: set[str] = set()
    for layer, nodes in layer_nodes(graph).items():
        told.update(node.name for node in nodes)
        reasons = dict.fromkeys(problems[node.name] for node in nodes if node.name in problems)
        own = [node.python_fallback for node in nodes if node.python_fallback is not None]
        reasons |= dict.fromkeys(python.reason for python in own)
        called = (
            node.python_fallback.operator if node.python_fallback else pytorch_spelling(node.op)
            for node in nodes
        )
        operators = " + ".join(dict.fromkeys(called)) or types[layer]
        why = "; ".join(reasons)
        rows.append(Support(layer, operators or "Identity", not reasons, why, bool(own)))
    for node in graph.nodes:  # of no layer, as what a loop or a condition holds
        if node.name in problems and node.name not in told:
            rows.append(
                Support(layer_name(node), pytorch_spelling(node.op), False, problems[node.name])
            )
    return rows
