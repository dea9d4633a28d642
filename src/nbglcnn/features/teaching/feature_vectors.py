"""The features of pictures: a layer's value in a Network, and the Plan that computes it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from nbglcnn.errors import InputError
from nbglcnn.features.edits.records import active_edits, edits_to_dicts
from nbglcnn.features.sources.images import Images
from nbglcnn.features.teaching.head import new_id, parse_head
from nbglcnn.features.teaching.lesson import Example, Lesson
from nbglcnn.features.teaching.records import MAX_FEATURES, FeatureVersion, TeachingRecord
from nbglcnn.graph import Array, Graph
from nbglcnn.local_backend import LocalBackend
from nbglcnn.lowering import lower
from nbglcnn.plan.schema import Input, Plan, Value, content_hash

if TYPE_CHECKING:
    from nbglcnn.widget.network import Network

LINEAR_OPS = ("Gemm", "MatMul")  # the ops of a Linear in a Graph


class FeatureExtractor:
    """The extractor of the value `layer` of a network, for pictures at its input `input_key`.

    If `averaged`, the features are the value's means over height and width. `feature_count` is
    their number. `shape` is a picture's, (channels, height, width). The caller must reduce the
    network to one example, which keeps these shapes.

    Raises:
        KeyError: If `layer` doesn't exist.
        InputError: If the network takes no pictures, its layers are computed in Python, or `layer`
            has too many numbers.
    """

    def __init__(self, network: Network, feature_layer: str | None) -> None:
        self._network = network
        record, value, averaged = find_feature_layer(network, feature_layer)
        self.input_key, self.layer, self.averaged = record.key, value.key, averaged
        channels, height, width = record.shape[1:]
        self.shape = channels, height, width
        self.feature_count = value.shape[1] if averaged else int(np.prod(value.shape[1:]))
        self._weights_name: tuple[Graph | None, str] = None, ""
        self._cached_plan: tuple[Graph, list[str], Plan] | None = None
        self._runs = 0
        self._local = LocalBackend(network.loaded_model)

    def ensure_observed(self) -> None:
        """Recompile the network if it doesn't keep the value or the input."""
        self._network.ensure_observed(self.input_key)
        self._network.ensure_observed(self.layer)

    def to_record(self, teaching_id: str) -> TeachingRecord:
        """Build the record of a teaching with this id for pages."""
        return TeachingRecord(
            teaching_id,
            self.layer,
            self.input_key,
            self.shape,
            self.feature_count,
            self.averaged,
            self.weights_hash,
        )

    def make_lesson(
        self, classes: Iterable[str], examples: Mapping[str, Any] | None, head: Any
    ) -> Lesson:
        """Build the initial lesson; InputError if an argument doesn't fit."""
        lesson = Lesson(self.shape, self.feature_count)
        for name in initial_classes(classes, examples):
            lesson.add_class(name)
        for name, pictures in (examples or {}).items():
            self.add_examples(lesson, name, pictures)
        if head is not None:
            lesson.head = parse_head(head, tuple(lesson.class_names_by_id), self.feature_count)
        return lesson

    def add_examples(self, lesson: Lesson, class_name: str, data: Any) -> None:
        """Add examples to a class, which is created if it doesn't exist."""
        known = class_name in lesson.class_names_by_id.values()
        if not known:
            lesson.validate_class_name(class_name)
        pictures = self.to_pictures(data)
        lesson.check_capacity(len(pictures))
        features, network = self.compute(pictures), self.current_version()
        key = lesson.find_class_id(class_name) if known else lesson.add_class(class_name)
        for picture, numbers in zip(pictures, features, strict=True):
            one = Example(new_id(), key, picture, numbers, network)
            lesson.examples[one.id] = one

    @property
    def weights_hash(self) -> str:
        """A hash of the current weights."""
        graph, name = self._weights_name
        if graph is not self._network.graph:
            graph = self._network.graph
            parts = [f"{graph.name} {len(graph.nodes)}".encode()]
            for parameter, value in sorted(graph.parameters.items()):
                array = graph.constant_data(value)
                parts.append(parameter.encode())
                parts.append(b"" if array is None else np.ascontiguousarray(array).tobytes())
            self._weights_name = graph, (name := content_hash(*parts))
        return name

    def current_version(self) -> FeatureVersion:
        """Return the current version: the weights' hash and the active edits."""
        acts = active_edits(self._network.edits)
        return FeatureVersion(self.weights_hash, json.dumps(edits_to_dicts(acts)) if acts else "")

    def is_current(self, version: FeatureVersion) -> bool:
        """Whether features of this version are still valid."""
        if version.weights_hash != self.weights_hash:
            return False
        acts = edits_to_dicts(active_edits(self._network.edits))
        try:
            return bool(json.loads(version.edits or "[]") == acts)
        except (ValueError, RecursionError):
            return False

    def to_pictures(self, data: Any) -> Array:
        """Convert data as for `Images` to uint8 (N, channels, height, width), or InputError."""
        record = next(one for one in self._network.plan.inputs if one.key == self.input_key)
        if isinstance(data, np.ndarray) and data.size == 0:
            return np.zeros((0, *self.shape), np.uint8)
        images = data if isinstance(data, Images) else Images(data)
        blocks = images.open_blobs(record)
        found = []
        for k in range(len(images)):
            tensor = blocks.input_array(k)[0]
            if not np.isfinite(tensor).all() or tensor.min() < 0 or tensor.max() > 1:
                raise InputError(
                    f"picture {k} has values from {tensor.min():g} to {tensor.max():g}; give "
                    "uint8, or floats from 0 to 1"
                )
            found.append(np.rint(tensor * 255).astype(np.uint8))
        return np.stack(found)

    def compute(self, pictures: Array) -> Array:
        """Compute the features of pictures in this process; (N, features), float32."""
        network, plan, found = self._network, self._feature_plan(), []
        for picture in pictures:
            self._runs += 1
            own = {
                **network.inputs,
                self.input_key: (picture / np.float32(255))[None].astype(np.float32),
            }
            arrays = [own[record.key] for record in plan.inputs]
            values = self._local.compute_values(
                plan, network.graph, arrays, self._runs, (), (), network.edits, network.injected
            )
            found.append(self.extract_features(values[self.layer])[0])
        self._local.close()
        return np.array(found, np.float32).reshape(-1, self.feature_count)

    def extract_features(self, array: Array) -> Array:
        """Extract the features from the value; (examples, features), float32."""
        if self.averaged:
            means: Array = array.mean((2, 3), dtype=np.float64).astype(np.float32)
            return means
        return array.reshape(len(array), -1).astype(np.float32)

    def _feature_plan(self) -> Plan:
        """Return a cached Plan that keeps the feature layer and all edited layers."""
        network, feature_layer = self._network, self.layer
        edited = sorted({edit.layer for edit in network.edits})
        known = self._cached_plan
        if known is not None and known[0] is network.graph and known[1] == edited:
            return known[2]
        keys = [feature_layer, *(layer for layer in edited if layer != feature_layer)]
        plan = lower.lower(network.graph, observe=keys, precision=network.precision)
        self._local.replace_model(network.loaded_model)
        self._cached_plan = network.graph, edited, plan
        return plan


def find_feature_layer(network: Network, feature_layer: str | None) -> tuple[Input, Value, bool]:
    """Find the input for pictures, the value with the features, and whether to average it."""
    pictured = [one for one in network.plan.inputs if one.fit and one.dtype == "float32"]
    if not pictured:
        own = network.plan.inputs
        found = ", ".join(f"{one.key} is {one.dtype} of {one.shape}" for one in own)
        raise InputError(
            f"teach needs a network that takes pictures, float32 of (n, 1, 3 or 4, height, "
            f"width); {found}"
        )
    if network.plan.in_python:
        names = ", ".join(layer.name for layer in network.plan.layers if layer.python)
        raise InputError(
            f"teach: {names} run in Python, which computes them only for the last input set from "
            "Python, so the page can't compute features of its own pictures"
        )
    if network.latent_edit is not None:
        raise InputError(
            "teach: an active latent skips part of the network: set viewer.source = None first"
        )
    key = default_feature_layer(network) if feature_layer is None else feature_layer
    if key not in {one.name for one in network.graph.keys}:
        network.value_records([key])  # raises KeyError with similar names
    network.ensure_observed(key)
    [value] = network.value_records([key])
    if value.kind in ("input", "parameter") or value.dtype != "float32":
        raise InputError(
            f"teach: cut={key!r} is {value.dtype}, of kind {value.kind}; expected a layer with "
            f"float32 values, as {default_feature_layer(network)!r}"
        )
    numbers = value.readback.count // _batch_size(value, network)
    averaged = numbers > MAX_FEATURES and len(value.shape) == 4
    count = value.shape[1] if averaged else numbers
    if not 1 <= count <= MAX_FEATURES:
        raise InputError(
            f"teach: cut={key!r} has {count:,} values per picture, and a classifier takes at "
            f"most {MAX_FEATURES:,}; choose a smaller layer, as "
            f"{default_feature_layer(network)!r}"
        )
    return pictured[0], value, averaged


def default_feature_layer(network: Network) -> str:
    """Return the default key for features: the input of the last Linear.

    Without a Linear it is the layer with the fewest elements, of several the last.
    """
    graph = network.graph
    makers = {output: node for node in graph.nodes for output in node.outputs}
    keys: dict[str, str] = {}
    for one in graph.keys:
        if one.kind in ("layer", "module"):
            keys.setdefault(one.value_name, one.name)
    for node in reversed(graph.nodes):
        if node.op not in LINEAR_OPS or graph.constant_data(node.inputs[1]) is None:
            continue
        name = node.inputs[0]
        # Skip nodes that only move elements, such as a functional flatten, which has no key.
        while name not in keys and name in makers and makers[name].inputs:
            name = makers[name].inputs[0]
        if name in keys:
            return keys[name]
    sizes = [
        (int(np.prod(graph.values[one.value_name].shape)), -at, one.name)
        for at, one in enumerate(graph.keys)
        if one.kind == "layer" and graph.values[one.value_name].dtype == np.float32
    ]
    usable = [size for size in sizes if size[0] > 1] or sizes
    if not usable:
        raise InputError("teach: the network has no layer with float32 values")
    return min(usable)[2]


def _batch_size(value: Value, network: Network) -> int:
    batch = network.plan.header.batch
    return batch if value.shape and value.shape[0] == batch else 1


def initial_classes(classes: Iterable[str], examples: Mapping[str, Any] | None) -> list[str]:
    """Return the names of the initial classes; InputError for a string instead of a list."""
    if isinstance(classes, str) or not isinstance(classes, Iterable):
        raise InputError(
            f"teach: classes={classes!r:.80}; expected a list of names, as ['cup', 'hand']"
        )
    if examples is not None and not isinstance(examples, Mapping):
        raise InputError(
            f"teach: examples is {type(examples).__name__}; expected a dict from names to "
            "pictures, as teaching.examples"
        )
    names = list(classes)
    names += [name for name in examples or {} if name not in names]
    return names or ["class 1", "class 2"]
