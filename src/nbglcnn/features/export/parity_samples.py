"""Parity samples: the framework's values of an exported page's example, stored in the page."""

from __future__ import annotations

from functools import partial

import numpy as np

from nbglcnn.errors import NbglcnnError
from nbglcnn.features.edits.replay import (
    EditReplay,
    check_replayable,
    edit_replay,
    is_discontinuous,
)
from nbglcnn.features.export.messages import ParitySamples
from nbglcnn.graph import Array
from nbglcnn.plan.schema import Plan
from nbglcnn.report import ATOL, RTOL, compare_values, max_error_from_float64
from nbglcnn.widget.network import Network
from nbglcnn.widget.parity import (
    MAX_PLAN_BYTES,
    MAX_VALUES,
    example_mismatches,
    make_verify_result,
    take_spans,
    value_spans,
)

TEXELS_PER_SPAN = 4  # texels of a span; four elements each
# The most MACs of an ONNX file for a float64 reference: onnx.reference is slow.
MAX_FLOAT64_MACS = 10**8


def make_samples(network: Network, plan: Plan) -> tuple[ParitySamples | None, Array, str]:
    """Return the samples and their numbers for a page that runs the network with this Plan.

    The third item is the reason for missing samples, "" if there are samples.
    """
    nothing = np.zeros(0, np.float32)
    if network.is_changing_continuously:
        return None, nothing, "a latent is active, or the network is training"
    if plan.gpu_bytes > MAX_PLAN_BYTES:
        return None, nothing, "the network is too large"
    edits, injected = network.edits, network.injected
    try:
        check_replayable(edits, injected)
        bends = edit_replay(plan, edits, injected)
        if any(is_discontinuous(edit) for some in bends.edits.values() for edit in some):
            return None, nothing, "a threshold may decide by an element's last digit"
        return (*_sample_values(network, plan, bends), "")
    except NbglcnnError as error:
        return None, nothing, str(error)


def _sample_values(network: Network, plan: Plan, bends: EditReplay) -> tuple[ParitySamples, Array]:
    graph, arrays = network.graph, network.input_arrays
    expected, framework = network.local.compute_reference(graph, arrays, bends)
    own = [key for key in plan.computed if key in expected and key not in plan.from_python][
        :MAX_VALUES
    ]
    known = {key: expected[key] for key in own}
    exact = partial(network.local.compute_float64, graph, arrays, bends=bends)
    macs = sum(layer.macs for layer in plan.layers)
    float64_values = exact(own) if graph.framework == "torch" or macs <= MAX_FLOAT64_MACS else {}
    rounded = graph.float16_keys() if plan.precision == "float32" else ()
    # Compare the framework with itself, to find non-finite values and those beyond float16.
    report = compare_values(
        plan, known, known, framework, float16_keys=rounded, has_bends=bool(bends)
    )
    verify_result = make_verify_result(0, report, framework)
    values = {value.key: value for value in plan.values}
    numbers, bands, allowed = [], [], []
    for key in own:
        array = known[key]
        rtol = RTOL["float16" if key in rounded else plan.precision]
        most = float(np.abs(array[np.isfinite(array)].astype(np.float64)).max(initial=0.0))
        tolerance = rtol * most + ATOL
        if plan.precision == "float32" and key in float64_values and array.dtype.kind == "f":
            tolerance = max(tolerance, max_error_from_float64(array, float64_values[key]))
        bands.append(value_spans(values[key], TEXELS_PER_SPAN))
        numbers.append(take_spans(values[key], array.reshape(-1), bands[-1]).astype(np.float32))
        allowed.append(tolerance)
    mismatching_keys = {key for key, _, _ in example_mismatches(plan, arrays, known)}
    samples = ParitySamples(
        framework,
        tuple(own),
        tuple(bands),
        tuple(allowed),
        tuple(key for key in own if key not in mismatching_keys),
        verify_result.non_finite,
        verify_result.float16_overflow,
    )
    return samples, np.concatenate([np.zeros(0, np.float32), *numbers])
