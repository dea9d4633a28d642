"""What the framework computes of an exported page's example, in samples that the page carries."""

from __future__ import annotations

from functools import partial

import numpy as np

from nbglcnn.errors import NbglcnnError
from nbglcnn.features.edits.replay import Bending, bending, check_replayed, jumps
from nbglcnn.features.export.messages import Samples
from nbglcnn.graph import Array
from nbglcnn.plan.schema import Plan
from nbglcnn.report import ATOL, RTOL, allowed_from_float64, compared
from nbglcnn.widget.network import Network
from nbglcnn.widget.parity import LARGEST, MOST, apart_in, bands_of, pick, verified

TEXELS = 4  # of a stretch; four elements each
# MACs of an ONNX file, at most, for a judge in float64: onnx.reference is slow.
EXACT_MACS = 10**8


def samples_of(network: Network, plan: Plan) -> tuple[Samples | None, Array, str]:
    """The record and its numbers for a page that shows the network with this Plan.

    In words why there are none, "" where there are.
    """
    nothing = np.zeros(0, np.float32)
    if network.is_another_each_time:
        return None, nothing, "a latent or a training is on"
    if plan.gpu_bytes > LARGEST:
        return None, nothing, "the network is too large"
    edits, injected = network.edits, network.injected
    try:
        check_replayed(edits, injected)
        bends = bending(plan, edits, injected)
        if any(jumps(edit) for some in bends.edits.values() for edit in some):
            return None, nothing, "a threshold may decide by an element's last digit"
        return (*_sampled(network, plan, bends), "")
    except NbglcnnError as error:
        return None, nothing, str(error)


def _sampled(network: Network, plan: Plan, bends: Bending) -> tuple[Samples, Array]:
    graph, arrays = network.graph, network.arrays
    expected, framework = network.local.reference(graph, arrays, bends)
    own = [key for key in plan.computed if key in expected and key not in plan.from_python][:MOST]
    known = {key: expected[key] for key in own}
    exact = partial(network.local.exact, graph, arrays, bends=bends)
    macs = sum(layer.macs for layer in plan.layers)
    wide = exact(own) if graph.source == "torch" or macs <= EXACT_MACS else {}
    rounded = graph.rounded() if plan.precision == "float32" else ()
    # The framework beside itself: what is not finite, and what leaves 16 bits.
    report = compared(plan, known, known, framework, rounded=rounded, bent=bool(bends))
    told = verified(0, report, framework)
    values = {value.key: value for value in plan.values}
    numbers, bands, allowed = [], [], []
    for key in own:
        array = known[key]
        rtol = RTOL["float16" if key in rounded else plan.precision]
        most = float(np.abs(array[np.isfinite(array)].astype(np.float64)).max(initial=0.0))
        most_off = rtol * most + ATOL
        if plan.precision == "float32" and key in wide and array.dtype.kind == "f":
            most_off = max(most_off, allowed_from_float64(array, wide[key]))
        bands.append(bands_of(values[key], TEXELS))
        numbers.append(pick(values[key], array.reshape(-1), bands[-1]).astype(np.float32))
        allowed.append(most_off)
    apart = {key for key, _, _ in apart_in(plan, arrays, known)}
    samples = Samples(
        framework,
        tuple(own),
        tuple(bands),
        tuple(allowed),
        tuple(key for key in own if key not in apart),
        told.flawed,
        told.beyond,
    )
    return samples, np.concatenate([np.zeros(0, np.float32), *numbers])
