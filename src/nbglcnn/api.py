"""The public functions that need no page: compile a model, and check which layers can run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from nbglcnn.engine_disagreements import known_disagreement
from nbglcnn.errors import InputError, NbglcnnError, UnsupportedModel
from nbglcnn.features.edits.replay import check_replayable, edit_replay
from nbglcnn.graph import Graph
from nbglcnn.load import Model, wrap_model
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
        model: A `torch.nn.Module` in eval mode and on the CPU, an `onnx.ModelProto` or its bytes,
            or the path of an `.onnx` file. It is not changed.
        x: An example input: an array, tensor, picture or list of pictures; for several inputs a
            tuple, or a dict by name. Its shape fixes the shapes of the Plan. Optional only for an
            ONNX model with static shapes, and with `preprocess`. Random numbers that `forward`
            draws are additional inputs `noise`, `noise_1`, …; if omitted, they are seeded.
        observe: The values that can be read after a run. `"all"` (default) keeps every layer.
            `"outputs"` keeps the outputs only, which is fastest: other layers are fused and share
            textures. A list of names keeps these layers and the outputs.
        target: The limits of the device. Default: WebGL 2's guaranteed minimums, with textures of
            up to 4096 texels per side.
        precision: The storage of activations and weights. `"float32"` (default), or `"float16"`,
            which halves the memory and keeps about three digits; numbers beyond 65504 become
            infinite.
        preprocess: The steps from a picture to the model's input, as layers before the model: a
            `Preprocess`, a torchvision transform or a timm config. `x` is then the picture: a
            Pillow image of any size, or an array. Default: no steps.

    Returns:
        The compiled network. `Session(plan)` runs it, and `plan.save(path)` writes it to a file.

    Raises:
        UnsupportedOperator: If a layer uses an operator that cannot run. The message names the
            layer.
        UnsupportedModel: If the model cannot run as it is, for example in training mode.
        InputError: If `x` is missing or doesn't fit, or `precision` or `preprocess` is not known.
        KeyError: If `observe` contains an unknown name.
        ModelError: If `model` is not a model, or its file is damaged or unsafe.

    Example:
        >>> plan = nbglcnn.compile(model, x, observe="outputs")
        >>> plan.save("model.plan")
    """
    graph, _ = wrap_model(model, preprocess).load(x)
    return lower(graph, observe=observe, target=target, precision=precision)


def check(model: Any, x: Any = None, *, preprocess: Any = None) -> Report[Support]:
    """Report for each layer whether it can run, without running the network.

    Layers that cannot run on the GPU but that a Viewer computes in Python are marked as such.
    `compile` refuses them, so `report.ok` is False.

    If a torch module can be neither compiled nor computed that way (its `forward` cannot be
    exported, it is in training mode, or it contains TorchScript or 8-bit weights), each submodule
    is tested separately in eval mode. The last row gives the reason for the whole module. For an
    ONNX model, layers after an unsupported one may be missing from the report.

    Args:
        model: The network, as for `compile`.
        x: An example input, as for `compile`.
        preprocess: The steps from a picture to the model's input, as for `compile`.

    Returns:
        A Report with one `Support` row per layer: `layer`, `operator`, `ok`, `reason`, `in_python`.

    Raises:
        InputError: If `x` is missing or doesn't fit, or `preprocess` is not known.
        ModelError: If `model` is not a model, or its file is damaged or unsafe.

    Example:
        >>> nbglcnn.check(model, x).ok
        True
    """
    model = wrap_model(model, preprocess)
    try:
        graph, _ = load_with_fallback(model, x)
    except UnsupportedModel as error:
        with contextlib.suppress(UnsupportedModel):  # if the failure isn't about single nodes
            if (found := model.load_partial(x)) is not None:
                return Report(tuple(_rows_in_file_order(found)), "can run")
        whole = Support(type(model.user_model).__name__, "the whole", False, str(error))
        return Report((*_module_rows(model, x), whole), "can run")
    return Report(tuple(_layer_rows(graph)), "can run")


def verify(session: Session, model: Any, x: Any = None, *, preprocess: Any = None) -> Report[Match]:
    """Run `x` on local OpenGL and in the model's framework, and compare all values of the Plan.

    A layer is ok if max|a − b| <= 1e-5 · max|b| + 1e-6, where b is the value from PyTorch or ONNX
    Runtime (for float16: 2e-2 · max|b| + 1e-6). Otherwise it is also ok in two cases, because
    networks amplify rounding:

    - It is about as close to the float64 result of the model as the reference's own float32 is
      (ONNX models: up to 1e10 multiply–accumulate operations).
    - All layers before it are ok, and it is that close to the float64 result for its own inputs.

    These two rules excuse rounding only: a layer whose loaded form differs from the model on the
    same inputs by more than 100 times the error of float32 is not ok. A torch module is called
    twice with equal inputs; layers that differ between the calls are not ok. Differences far below
    1e-6 always pass: scale the model's output to compare such values. If the session has bends, the
    model is compared with the same bends replayed.

    Args:
        session: The Session that runs the Plan. Values that `observe` excluded are not compared.
        model: The model that the Plan was compiled from.
        x: An input, as for `compile`. Noise that is omitted is seeded.
        preprocess: The `preprocess` that the Plan was compiled with. Here numpy computes it.

    Returns:
        A Report with one `Match` row per value: the largest and the mean absolute error, the
        largest error relative to the layer's largest value, and `ok`. `report.ok` is the verdict;
        `report.first_diverging` is the first layer that is not ok.

    Raises:
        InputError: If `session` is not a Session, `x` is missing or doesn't fit the Plan, the Plan
            was compiled from another model, or an active bend cannot be replayed (GLSL code runs on
            a graphics device only).
        SessionClosed: If the session is closed.

    Example:
        >>> with nbglcnn.Session(plan) as session:
        ...     print(nbglcnn.verify(session, model, x))
    """
    from nbglcnn.runtime.session import Session

    if not isinstance(session, Session):
        raise InputError(
            f"verify expects a Session, the model and x; got {type(session).__name__}: with "
            "nbglcnn.Session(nbglcnn.compile(model, x)) as session: nbglcnn.verify(session, "
            "model, x)"
        )
    plan = session.plan
    session.check_open()
    store = session.bends.store
    edits, injected = store.edits, store.arrays
    check_replayable(edits, injected)
    model = wrap_model(model, preprocess)
    graph, arrays = model.load(x)
    found = session.run(*arrays)
    bends = edit_replay(plan, edits, injected, found)
    notes = ReferenceNotes()
    expected = compute_reference(model, graph, arrays, bends=bends, notes=notes)
    if missing := [k for k in plan.computed if k not in expected and k not in notes.uncomputable]:
        raise InputError(
            f"{type(model.user_model).__name__} has no layer {missing[0]!r}: "
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
        disagreement_of=partial(known_disagreement, graph),
        notes=notes,
        has_bends=bool(bends),
        is_float64_by_model=graph.framework == "torch",
    )


def _module_rows(model: Model, x: Any) -> Iterator[Support]:
    """Return a row for each module of a model, each loaded separately."""
    for path, kind, found in model.load_each_module(x):
        if isinstance(found, NbglcnnError):
            yield Support(path, kind, False, str(found))
            continue
        own = _layer_rows(found)
        reasons = dict.fromkeys(row.reason for row in own if not row.ok)
        operators = " + ".join(dict.fromkeys(row.operator for row in own)) or kind
        yield Support(path, operators, not reasons, "; ".join(reasons))


def _rows_in_file_order(partial_load: PartialLoad) -> list[Support]:
    """Return a row for each loaded and each unsupported layer, in the order of the file."""
    rows = _layer_rows(partial_load.graph)
    rows += [
        Support(
            next(filter(None, node.outputs), node.name),
            pytorch_spelling(node.op),
            False,
            str(error),
        )
        for node, error in partial_load.unsupported_nodes
    ]
    place = {name: at for at, name in enumerate(partial_load.names)}
    return sorted(rows, key=lambda row: place.get(row.layer, len(place)))


def _layer_rows(graph: Graph) -> list[Support]:
    """Return a row for each layer of a graph."""
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
    for node in graph.nodes:  # nodes outside layers, as in the body of a loop or If
        if node.name in problems and node.name not in told:
            rows.append(
                Support(layer_name(node), pytorch_spelling(node.op), False, problems[node.name])
            )
    return rows
