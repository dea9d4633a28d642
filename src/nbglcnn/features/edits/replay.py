"""Replay of edits on a network's values by key, without a graphics device."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import msgspec
import numpy as np

from nbglcnn.errors import InputError
from nbglcnn.features.edits.records import Edit, active_edits, edits_from_dicts, edits_to_dicts
from nbglcnn.features.edits.reference import apply_edits, group_by_layer
from nbglcnn.features.edits.transforms import GLSL, INJECT
from nbglcnn.graph import Array, Attribute, Node
from nbglcnn.plan.layout import NCHW
from nbglcnn.plan.schema import Plan

EDIT_NODE_DOMAIN = "nbglcnn.features.edits"  # domain of the nodes that represent edits in a Graph
# Relative to a value's maximum: two correct results may differ by this and straddle a threshold.
ROUNDING_TOLERANCE = 1e-5
MIN_RELATIVE_JUMP = 1e-4  # relative to the edited value's maximum: larger changes aren't rounding


@dataclass(frozen=True)
class EditReplay:
    """The active edits of a network by key, the nchw shapes of their values, and injected arrays.

    `device_values` are a device's values after the bends: if an element is within rounding of a
    threshold, either result is correct, and the device's is used.
    """

    edits: Mapping[str, tuple[Edit, ...]] = field(default_factory=lambda: MappingProxyType({}))
    nchw_shapes: Mapping[str, NCHW] = field(default_factory=lambda: MappingProxyType({}))
    injected_arrays: Mapping[str, Array] = field(default_factory=lambda: MappingProxyType({}))
    device_values: Mapping[str, Array] = field(default_factory=lambda: MappingProxyType({}))

    def __bool__(self) -> bool:
        return bool(self.edits)

    def __contains__(self, key: object) -> bool:
        return key in self.edits

    def apply(self, key: str, array: Array) -> Array:
        """Return a value after its edits, unchanged if it has none."""
        if key not in self.edits:
            return array
        made = apply_edits(array, self.nchw_shapes[key], self.edits[key], self.injected_arrays)
        if key not in self.device_values or not any(
            is_discontinuous(edit) for edit in self.edits[key]
        ):
            return made
        return _resolve_ties(array, made, self, key)

    def without(self, keys: Iterable[str]) -> EditReplay:
        """Return the replay without the edits of some keys."""
        own = self.edits.keys() - set(keys)
        return EditReplay(
            {key: self.edits[key] for key in self.edits if key in own},
            {key: self.nchw_shapes[key] for key in own},
            self.injected_arrays,
            {key: self.device_values[key] for key in own if key in self.device_values},
        )

    def for_prefix(
        self, prefix: str, renamed_keys: Mapping[str, str] = MappingProxyType({})
    ) -> EditReplay:
        """Return one side's edits of a comparison, under its own keys or `renamed_keys`."""
        own = {
            key: renamed_keys.get(key, key.removeprefix(prefix))
            for key in self.edits
            if key in renamed_keys or key.startswith(prefix)
        }
        return EditReplay(
            {own[key]: self.edits[key] for key in own},
            {own[key]: self.nchw_shapes[key] for key in own},
            self.injected_arrays,
            {own[key]: self.device_values[key] for key in own if key in self.device_values},
        )


EMPTY_REPLAY = EditReplay()


def is_discontinuous(edit: Edit) -> bool:
    """Whether a rounding error of an element can change the result by a large amount."""
    return edit.transform == "threshold"


def _resolve_ties(array: Array, edited: Array, bends: EditReplay, key: str) -> Array:
    """Return the edited value, with the device's result where rounding decides a threshold."""
    nchw_shapes, edits, arrays = bends.nchw_shapes[key], bends.edits[key], bends.injected_arrays
    near = array.dtype.type(ROUNDING_TOLERANCE * _max_magnitude(array) + 1e-6)
    low, high = (
        apply_edits(one, nchw_shapes, edits, arrays) for one in (array - near, array + near)
    )
    found, bound = bends.device_values[key], MIN_RELATIVE_JUMP * _max_magnitude(edited)
    least, most = np.fmin(np.fmin(low, high), edited), np.fmax(np.fmax(low, high), edited)
    unsure = (most - least > bound) & (found >= least - bound) & (found <= most + bound)
    return np.where(unsure, found, edited).astype(edited.dtype)


def _max_magnitude(array: Array) -> float:
    finite = np.abs(array[np.isfinite(array)])
    return float(finite.max(initial=0.0))


def edit_replay(
    plan: Plan,
    edits: Iterable[Edit],
    injected_arrays: Mapping[str, Array],
    device_values: Mapping[str, Array] = MappingProxyType({}),
) -> EditReplay:
    """Build the replay of a Plan's edits; InputError names one that can't be replayed."""
    check_replayable(edits := active_edits(edits), injected_arrays)
    layers = {layer: tuple(some) for layer, some in group_by_layer(edits).items()}
    nchw_shapes = {value.key: value.nchw for value in plan.values if value.key in layers}
    own = {key: device_values[key] for key in layers if key in device_values}
    return EditReplay(layers, nchw_shapes, dict(injected_arrays), own)


def check_replayable(edits: Iterable[Edit], injected_arrays: Mapping[str, Array]) -> None:
    """Raise InputError for an active edit that needs a GPU, or whose array is missing."""
    for edit in active_edits(edits):
        if edit.transform == GLSL:
            raise InputError(
                f"the bend {edit.name!r} of {edit.layer} is written in GLSL, which runs only on "
                "a GPU: disable it (enabled = False) or remove it"
            )
        if edit.transform == INJECT and edit.array_hash not in injected_arrays:
            what = "is frozen" if edit.is_frozen else "has an injected array"
            raise InputError(
                f"{edit.layer} {what}, and these bends contain no arrays: give the Viewer's or "
                "Session's own bends instead of a dict"
            )


def make_bend_node(key: str, input_name: str, output_name: str, bends: EditReplay) -> Node:
    """Return a Graph node that applies the edits of a key to a value."""
    edits = bends.edits[key]
    arrays = {
        f"array {one.array_hash}": bends.injected_arrays[one.array_hash]
        for one in edits
        if one.array_hash
    }
    attributes: dict[str, Attribute] = {
        "edits": msgspec.json.encode(edits_to_dicts(edits)).decode(),
        "shown": tuple(bends.nchw_shapes[key]),
        **arrays,
        **({"found": bends.device_values[key]} if key in bends.device_values else {}),
    }
    return Node(
        f"bends of {key}",
        "Bend",
        (input_name,),
        (output_name,),
        attributes,
        domain=EDIT_NODE_DOMAIN,
    )


def evaluate_bend_node(node: Node, array: Array) -> Array:
    """Compute such a node in the precision of its input."""
    attributes = node.attributes
    text, nchw_shapes = attributes["edits"], attributes["shown"]
    assert isinstance(text, str)
    assert isinstance(nchw_shapes, tuple)
    n, c, h, w = (int(size) for size in nchw_shapes)
    prefix = "array "
    arrays = {
        name.removeprefix(prefix): np.asarray(data)
        for name, data in attributes.items()
        if name.startswith(prefix)
    }
    edits = edits_from_dicts(msgspec.json.decode(text))
    found = {"": np.asarray(attributes["found"])} if "found" in attributes else {}
    return EditReplay({"": edits}, {"": (n, c, h, w)}, arrays, found).apply("", array)
