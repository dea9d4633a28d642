"""A network with its weights and input, and its manifest for pages; independent of widgets."""

from __future__ import annotations

import copy
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Protocol

import msgspec
import numpy as np

from nbglcnn import class_names, load
from nbglcnn.contribution import CarriedWeights, Contribution
from nbglcnn.errors import DeviceError, InputError, NbglcnnError, unknown_name_message
from nbglcnn.features.edits.records import Edit, active_edits
from nbglcnn.features.edits.skipped_passes import find_skipped_passes, skipped_value_error
from nbglcnn.graph import Array, Graph, changed_value_names
from nbglcnn.inputs.arguments import check_not_empty
from nbglcnn.load.progress import report_step
from nbglcnn.local_backend import LocalBackend
from nbglcnn.lowering import lower
from nbglcnn.lowering.weight_patches import changed_elements, make_patches
from nbglcnn.plan.schema import Patch, Plan, Precision, Target, Value, content_hash, pack_file
from nbglcnn.python_fallback import compute_python_values, load_single_example, load_with_fallback
from nbglcnn.reference import cacheable_values
from nbglcnn.runtime.session import to_float32
from nbglcnn.widget import snapshot as pictures
from nbglcnn.widget.asset_manifest import AssetManifest

MAX_PATCH_BYTES = 2**22  # of all patches since the last hash of the weights; more are hashed again


class WeightSource(Protocol):
    """A source of weights that change by themselves, such as a loop in Python."""

    read_only_reason: str  # why other weights cannot be loaded or set meanwhile

    @property
    def has_newer(self) -> bool:
        """Whether it has newer weights than the network; called without a lock."""

    def take_newest(self) -> Mapping[str, Array]:
        """Return the newest weights and buffers, by name."""


def _no_op() -> None:
    return None


class Network:
    """The Graph, the Plan and the input of a Viewer.

    After a change, the caller sends the new result of `build_manifest` to the pages.

    `model` and `x` are the Viewer's arguments. `graph` has the current weights. `plan` is packed
    from it, except for `patches`: small changes, which `merge_weight_patches` merges into it.
    `revision` increases with every change of input or weights. `local` computes values in this
    process when no page does. `classes` are the names of the output's classes, () for none. Unless
    `strict`, the model's framework computes the layers that cannot run on the GPU: `python_values`
    are their values for the current input, in the Plan's order. `edits` are the current edits;
    `injected` are the arrays that replace values, in edits or in steps that can be undone.
    `latent_edit` is an edit before all others, which replaces a value by an array and skips the
    layers that only lead to this value. `batchnorm_counts` are the numbers of batches that
    BatchNorms have seen, by buffer.

    `lock` is held while weights change and pages are notified. While `weight_source` has newer
    weights, reading `graph` takes them. Only reads within one `hold_weights` are of the same
    moment.
    """

    plan: Plan

    def __init__(
        self,
        model: Any,
        x: Any,
        *,
        observe: str | Sequence[str],
        precision: Precision,
        classes: Any = None,
        strict: bool = False,
    ) -> None:
        if classes is not None:
            class_names.to_class_names(classes)  # fail before minutes of work
        known: dict[str, Array] = {}
        self.lock = threading.RLock()
        self.weight_source: WeightSource | None = None
        # Send pages the newest weights: at once, or as soon as they can take them.
        self.sync_pages_now: Callable[[], None] = _no_op
        self.sync_pages_soon: Callable[[], None] = _no_op
        self._hold_count = 0
        # The Graph that was sent to pages last, and the hash of its Plan.
        self.sent_graph: tuple[Graph, str] | None = None
        model = load.wrap_model(model)
        self.graph, arrays = (load.load if strict else load_with_fallback)(model, x, known)
        report_step("compiling it")
        self.observe = observe
        self._precision = precision
        self._strict = strict
        self.edits: tuple[Edit, ...] = ()
        self.injected: Mapping[str, Array] = {}
        self.latent_edit: Edit | None = None
        self._latent_arrays: Mapping[str, Array] = {}
        self._skipped_cache: tuple[tuple[str, str], frozenset[str]] = ("", ""), frozenset()
        self._contributions: dict[str, Contribution] = {}
        # (a Graph, the same with contributions)
        self._extended_graph: tuple[Graph, Graph] | None = None
        self._page_plan: tuple[Plan, memoryview] | None = None  # the pages' Plan, and its file
        self.batchnorm_counts: dict[str, int] = {}
        self.patches: list[Patch] = []
        self._patch_bytes = 0
        self._unhashed_values: set[str] = set()
        self._compile(None)
        self.input_arrays = self._validate_inputs(arrays)
        self.classes = self.resolve_class_names(classes)
        self.python_values = self._ordered_python_values(known)
        self.revision = 0
        pictured = {value.key for value in pictures.snapshot_values(self.plan)}
        self.local = LocalBackend(model, cacheable_values(self.graph, known, pictured))
        self._snapshot: tuple[tuple[int, int, int], bytes] | None = None

    @property
    def precision(self) -> Precision:
        """The requested precision; a page's device may support less."""
        return self._precision

    @property
    def loaded_model(self) -> load.Model:
        """The loaded model, with its preprocess if it has one."""
        return self.local.model

    # Weights that change by themselves

    @property
    def graph(self) -> Graph:
        """The network with its current weights."""
        if self.weight_source is not None and self.weight_source.has_newer:
            self.pull_weights()
        return self._graph

    @graph.setter
    def graph(self, graph: Graph) -> None:
        self._graph = graph

    @property
    def graph_snapshot(self) -> Graph:
        """The Graph that was taken last, without newer weights; needs no lock."""
        return self._graph

    def pull_weights(self) -> None:
        """Take the newest weights, unless `hold_weights` keeps the current ones."""
        with self.lock:
            source = self.weight_source
            if source is None or not source.has_newer or self._hold_count:
                return
            old = self._graph
            self._graph = load.with_parameters(old, source.take_newest())
            changed = changed_value_names(old, self._graph)
            if not changed:
                return
            self.revision += 1
            if lower.can_repack_weights(self.plan, self._with_contributions(self._graph), changed):
                self._unhashed_values |= changed
            else:
                self._compile(self.plan.header.target)

    @contextmanager
    def hold_weights(self) -> Iterator[None]:
        """Take the newest weights, and keep them here and in pages until the block ends."""
        with self.lock:
            self.pull_weights()
            self._hold_count += 1
        try:
            self.sync_pages_now()
            yield
        finally:
            with self.lock:
                self._hold_count -= 1
            if not self._hold_count:
                self.sync_pages_soon()

    @property
    def is_holding_weights(self) -> bool:
        """Whether the weights are being held for a read."""
        return self._hold_count > 0

    @property
    def is_changing_continuously(self) -> bool:
        """Whether the weights, or the skipped layers, change continuously."""
        return (
            self.latent_edit is not None
            or self._page_plan is not None
            or self.weight_source is not None
        )

    # Injection of a latent's array

    def set_latent_injection(
        self, edit: Edit | None, arrays: Mapping[str, Array] = MappingProxyType({})
    ) -> None:
        """Set an edit that applies before the user's, with its arrays; None removes it."""
        self.latent_edit, self._latent_arrays = edit, arrays
        self.revision += 1

    @property
    def active_edits(self) -> tuple[Edit, ...]:
        """All edits in effect: the latent's array, then the user's edits."""
        return self.edits if self.latent_edit is None else (self.latent_edit, *self.edits)

    @property
    def edit_arrays(self) -> Mapping[str, Array]:
        """The arrays that these edits inject."""
        return {**self.injected, **self._latent_arrays}

    @property
    def skipped_keys(self) -> frozenset[str]:
        """The keys without a current value, because their layers are skipped."""
        if self.latent_edit is None:
            return frozenset()
        now = self.plan.hash, self.latent_edit.layer
        if self._skipped_cache[0] != now:
            values = find_skipped_passes(self.plan.header, [self.latent_edit]).value_indices
            self._skipped_cache = now, frozenset(self.plan.values[one].key for one in values)
        return self._skipped_cache[1]

    def check_not_skipped(self, keys: Iterable[str]) -> None:
        """Raise KeyError for a key whose layer is skipped."""
        for key in keys:
            if key in self.skipped_keys:
                raise KeyError(skipped_value_error(key))

    # Changes

    @property
    def carried_weights(self) -> CarriedWeights | None:
        """The weights that runs in a page change; None if only Python changes weights."""
        found = (one.carried_weights for one in self._contributions.values())
        return next((one for one in found if one is not None), None)

    def compile_with(
        self,
        extend: Callable[[Graph], Graph],
        target: Target | None = None,
        precision: Precision | None = None,
    ) -> Plan:
        """Compile the network with one more contribution, without changing the network.

        `target` and `precision` default to the current ones.

        Raises:
            NbglcnnError: If the network cannot be compiled with it.
        """
        whole = extend(self._with_contributions(self.graph))
        return lower.lower(
            whole,
            observe=self.observe,
            target=target or self.plan.header.target,
            precision=precision or self._precision,
        )

    def set_contribution(
        self, feature_name: str, contribution: Contribution | None, plan: Plan | None = None
    ) -> None:
        """Compile the network with a feature's contribution; None removes it.

        Contributions apply in the order in which they were added, one that carries weights last.
        For such a contribution, `plan` is the result of `compile_with`.

        Raises:
            NbglcnnError: If the network cannot be compiled with it. Nothing is changed then.
            InputError: If another contribution carries weights.
        """
        before, extended, carrying = self._contributions, self._extended_graph, self._page_plan
        others = {key: one for key, one in before.items() if key != feature_name}
        for one in others.values():
            if one.carried_weights is not None:
                raise InputError(
                    f"{one.carried_weights.busy_message}; {one.carried_weights.stop_hint}"
                )
        self._contributions = (
            others if contribution is None else {**others, feature_name: contribution}
        )
        old = before.get(feature_name)
        try:
            if contribution is not None and contribution.carried_weights is not None:
                plan = plan or self.compile_with(contribution.extend)
                self._page_plan = plan, memoryview(pack_file(plan, {}))
            else:
                self._page_plan = None
            if any(one and one.carried_weights is None for one in (old, contribution)):
                self._extended_graph = None
                self._compile(self.plan.header.target)
        except BaseException:
            self._contributions, self._extended_graph, self._page_plan = before, extended, carrying
            raise
        self.revision += 1

    def _with_contributions(self, graph: Graph) -> Graph:
        """The Graph with all contributions except one that carries weights."""
        added = [one.extend for one in self._contributions.values() if one.carried_weights is None]
        if not added:
            return graph
        if self._extended_graph is None or self._extended_graph[0] is not graph:
            found = graph
            for extend in added:
                found = extend(found)
            self._extended_graph = graph, found
        return self._extended_graph[1]

    def replace_graph(self, graph: Graph) -> None:
        """Replace the Graph by one with other weights, without patches for pages."""
        self.graph = graph
        if lower.can_repack_weights(self.plan, self._with_contributions(graph)):
            self.plan = lower.repack_weights(self.plan, self._with_contributions(graph))
            self._clear_patches()
        else:
            self._compile(self.plan.header.target)
        self.revision += 1

    def weights(self) -> dict[str, Array]:
        """The current parameters and buffers, by name."""
        return load.parameters_of(self.graph)

    def set_input(self, x: Any) -> None:
        """Set the input; if `x` doesn't fit, raise InputError and keep the old input."""
        self._set_input_arrays(load.convert_inputs(self.graph, x, self.input_arrays))

    def set_input_array(self, input_index: int, array: Array) -> None:
        """Set the input at index `input_index`, to an array that a page's source has fed."""
        self._set_input_arrays(
            (*self.input_arrays[:input_index], array, *self.input_arrays[input_index + 1 :])
        )

    def _set_input_arrays(self, given: Sequence[Array]) -> None:
        arrays = self._validate_inputs(given)
        self.python_values = self._compute_python_values(self.graph, arrays)
        self.input_arrays = arrays
        self.revision += 1

    def reduce_to_one_example(self) -> None:
        """Reduce the network to one example, the batch's first, with the current weights.

        Raise InputError if it cannot run with one example.
        """
        try:
            model, graph, arrays = load_single_example(
                self.loaded_model,
                self.graph,
                self.input_arrays,
                self.plan.header.batch,
                strict=self._strict,
            )
            sent = self._ordered_python_values(compute_python_values(model, graph, arrays))
        except NbglcnnError as error:
            raise InputError(
                "a source gives one example at a time, which this network cannot run: " + str(error)
            ) from error
        self.graph = graph
        self.local.replace_model(model)
        self._compile(self.plan.header.target)
        self.input_arrays, self.python_values = self._validate_inputs(arrays), sent
        self.revision += 1

    def ensure_observed(self, key: str) -> None:
        """Compile again if the Plan doesn't keep this value, so that it can be read."""
        if all(value.key != key for value in self.plan.values):
            self.observe = [key] if isinstance(self.observe, str) else [*self.observe, key]
            self._compile(self.plan.header.target)

    def resolve_class_names(self, classes: Any) -> tuple[str, ...]:
        """Convert class names, one for each class of the output; InputError if they don't fit.

        None selects the model's own names, if it has any that fit.
        """
        counts = {v.key: v.nchw[1] for v in self.value_records(self.plan.header.outputs)}
        if classes is None:
            own = self.graph.class_names
            return own if len(own) in counts.values() else ()
        names = class_names.to_class_names(classes)
        return class_names.fit_to_outputs(names, counts, allow_partial=isinstance(classes, Mapping))

    def with_weights(self, weights: Mapping[str, Any]) -> Network:
        """A copy of the network with other weights; pages are not notified."""
        self.merge_weight_patches()
        other = copy.copy(self)
        other.lock = threading.RLock()
        other.weight_source, other.sent_graph, other._page_plan = None, None, None
        other._contributions = {
            k: one for k, one in self._contributions.items() if not one.carried_weights
        }
        other.sync_pages_now = other.sync_pages_soon = _no_op
        other._hold_count = 0
        other.local = LocalBackend(self.loaded_model)
        other._snapshot = None
        other._unhashed_values = set()
        other._clear_patches()
        other.load_state_dict(self.weights() | dict(weights))
        return other

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> list[Patch]:
        """Load weights; return patches if they cover all that has changed, otherwise []."""
        state_dict = load.match_state_dict_names(state_dict, self.graph.parameters)
        state_dict = self.loaded_model.convert_state_dict(state_dict)
        graph = load.with_parameters(self.graph, state_dict)
        if (carried_weights := self.carried_weights) is not None:
            own = load.parameters_of(graph)
            for name in state_dict:
                if name in own:
                    carried_weights.set_parameter(name, ..., own[name])
        return self._replace_weights(graph)

    def patch_parameter(self, name: str, index: Any, numbers: Any) -> list[Patch]:
        """Set the numbers at `index` of a parameter; return as `load_state_dict`."""
        graph = load.replace_elements(self.graph, name, index, numbers)
        if (carried_weights := self.carried_weights) is not None:
            carried_weights.set_parameter(name, index, numbers)
        return self._replace_weights(graph)

    def set_edits(self, edits: Sequence[Edit], arrays: Mapping[str, Array]) -> None:
        """Set edits that the Plan can run; InputError if GLSL code doesn't compile.

        Layers in Python must not depend on an edited value, because they would not follow its
        edits.
        """
        if self.plan.in_python:
            for one in active_edits(edits):
                if found := self.graph.python_consumer(one.layer):
                    raise InputError(
                        f"{one.layer} can't be edited: {found} depends on it and runs in Python, "
                        f"which can't apply edits. Edit a layer after {found}"
                    )
        self.local.check_glsl_edits(self.plan, edits)
        self.edits, self.injected = tuple(edits), dict(arrays)
        self.revision += 1

    @property
    def has_active_edits(self) -> bool:
        """Whether any edit has an effect."""
        return bool(active_edits(self.active_edits))

    def _replace_weights(self, graph: Graph) -> list[Patch]:
        if self.weight_source is not None:
            raise InputError(self.weight_source.read_only_reason)
        sent = self._compute_python_values(graph, self.input_arrays)
        before = self._with_contributions(self.graph)
        self.graph, after = graph, self._with_contributions(graph)
        changed = changed_elements(before, after)
        moved = [one.tobytes() for one in sent] != [one.tobytes() for one in self.python_values]
        self.python_values = sent
        self.revision += 1
        if not lower.can_repack_weights(self.plan, after, changed.keys()):
            self._compile(self.plan.header.target)
            return []
        found = make_patches(self.plan, before, after, changed)
        self._unhashed_values.update(changed)
        self._patch_bytes += sum(patch.data.nbytes for patch in found or ())
        if moved or found is None or self._patch_bytes > MAX_PATCH_BYTES:
            self.merge_weight_patches()
            return []
        self.patches += found
        return found

    def merge_weight_patches(self) -> bool:
        """Merge patches into the Plan's weights, with new hashes; return whether there were any.

        Pages that have not followed the patches get correct weights this way.
        """
        with self.lock:
            graph = self.graph
            if not self._unhashed_values:
                return False
            self.plan = lower.repack_weights(
                self.plan, self._with_contributions(graph), self._unhashed_values
            )
            self._clear_patches()
            return True

    def _merge_weight_source_changes(self) -> None:
        """Update the Plan's weights if a weight source has changed them without patches."""
        if self.weight_source is not None:
            self.merge_weight_patches()

    def _clear_patches(self) -> None:
        self._unhashed_values.clear()
        self.patches = []
        self._patch_bytes = 0

    def adapt_to_device(self, target: Target) -> bool:
        """Compile again if a device supports less than the Plan needs; return whether it was.

        For a device that cannot render float32, the Plan's precision becomes float16, here and in
        all pages.
        """
        old = self.plan.header.target
        if (carried_weights := self.carried_weights) is not None:
            least = msgspec.structs.asdict(old)
            if any(getattr(target, name) < number for name, number in least.items()):
                raise DeviceError(
                    f"{carried_weights.busy_message} whose device supports more than this page's; "
                    f"to see it here {carried_weights.stop_hint}"
                )
            return False
        least = {
            name: min(getattr(old, name), getattr(target, name))
            for name in msgspec.structs.asdict(old)
        }
        if Target(**least) == old:
            return False
        self._compile(Target(**least))
        return True

    def toggle_fast_kernels(self) -> None:
        """Compile again without the fast kernels, or with them if they were turned off."""
        target = self.plan.header.target
        self._compile(msgspec.structs.replace(target, fast_kernels=not target.fast_kernels))

    def set_precision(self, precision: Precision) -> None:
        """Compile again with this precision; a device without float32 rendering keeps float16.

        Raises:
            DeviceError: If a contribution carries weights.
            InputError: If the input doesn't fit this precision.
        """
        if (carried_weights := self.carried_weights) is not None:
            raise DeviceError(f"{carried_weights.busy_message}; {carried_weights.stop_hint}")
        before, self._precision = self._precision, precision
        try:
            self._compile(self.plan.header.target)
            self._validate_inputs(self.input_arrays)
        except NbglcnnError:
            self._precision = before
            self._compile(self.plan.header.target)
            raise
        self.revision += 1

    def _compile(self, target: Target | None) -> None:
        self.plan = lower.lower(
            self._with_contributions(self.graph),
            observe=self.observe,
            target=target,
            precision=self._precision,
        )
        self._clear_patches()
        self._plan_file = memoryview(pack_file(self.plan, {}))

    def _validate_inputs(self, arrays: Sequence[Array]) -> tuple[Array, ...]:
        keys = [record.key for record in self.plan.inputs]
        for key, array in zip(keys, check_not_empty(keys, arrays), strict=True):
            to_float32(key, array)  # InputError for numbers that float32 textures cannot hold
        return tuple(np.asarray(array, order="C") for array in arrays)

    def _compute_python_values(self, graph: Graph, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """Compute the values of the layers in Python for these inputs and weights."""
        if not self.plan.in_python:
            return ()
        return self._ordered_python_values(compute_python_values(self.loaded_model, graph, arrays))

    def _ordered_python_values(self, values_by_key: Mapping[str, Array]) -> tuple[Array, ...]:
        for record in self.plan.in_python:
            to_float32(record.key, values_by_key[record.key])
        return tuple(values_by_key[record.key] for record in self.plan.in_python)

    # Results

    def build_manifest(self, picture: bytes = b"") -> AssetManifest:
        """Build the manifest for pages; `picture` is a PNG for pages that cannot draw."""
        self.merge_weight_patches()
        self.sent_graph = self.graph, self.plan.hash
        plan, file = self._page_plan or (self.plan, self._plan_file)
        blobs: dict[str, memoryview] = {plan.hash: file}
        inputs = []
        for array in self.float32_inputs():
            data = byte_view(array)
            inputs.append(content_hash(data))
            blobs[inputs[-1]] = data
        weights = tuple(weight.hash for weight in plan.header.weights)
        blobs |= {name: byte_view(plan.blobs[name]) for name in weights}
        blobs |= {name: byte_view(array) for name, array in self.injected.items()}
        words = json.dumps(self.classes).encode() if self.classes else b""
        picture_name, words_name = (content_hash(b) if b else "" for b in (picture, words))
        blobs |= {n: memoryview(b) for n, b in ((words_name, words), (picture_name, picture)) if b}
        return AssetManifest(
            plan.hash,
            weights,
            tuple(inputs),
            blobs,
            picture_name,
            words_name,
            tuple(self.injected),
        )

    def portable_plan(self, precision: Precision | None = None) -> Plan:
        """The current Plan for any device: with WebGL 2's guaranteed minimums.

        Its precision is the Viewer's by default, whatever the pages' devices support.
        """
        self.merge_weight_patches()
        asked = precision or self._precision
        if self.plan.header.target == Target() and self.plan.precision == asked:
            return self.plan
        return lower.lower(
            self._with_contributions(self.graph), observe=self.observe, precision=asked
        )

    @property
    def inputs(self) -> dict[str, Array]:
        """The network's own current inputs, by key."""
        keys = (record.key for record in self.plan.inputs)
        return dict(zip(keys, self.input_arrays, strict=True))

    def float32_inputs(self) -> list[Array]:
        """The contents of the Plan's inputs as float32: the network's own, then Python's values."""
        records = (*self.plan.inputs, *self.plan.in_python)
        pairs = zip(records, (*self.input_arrays, *self.python_values), strict=True)
        return [to_float32(record.key, array) for record, array in pairs]

    def value_records(self, keys: Iterable[str]) -> list[Value]:
        """The Plan's records of these keys; KeyError for a key that it doesn't keep."""
        known = {value.key: value for value in self.plan.values}
        for key in keys:
            if key not in known:
                raise KeyError(
                    unknown_name_message(key, list(known), shared=self.plan.header.shared_modules)
                )
        return [known[key] for key in keys]

    def compute_values(self, keys: Sequence[str], *, before_edits: bool = False) -> list[Array]:
        """Current values, computed in this process; `before_edits`: each before its own edits."""
        found = self._local_values()
        if before_edits:
            return self.local.read_before_edits(
                keys, self.plan, self.graph, self.input_arrays, self.active_edits, self.edit_arrays
            )
        return [found[key].copy() for key in keys]

    def _local_values(self) -> Mapping[str, Array]:
        self._merge_weight_source_changes()
        return self.local.compute_values(
            self.plan,
            self.graph,
            self.input_arrays,
            self.revision,
            self.patches,
            self.python_values,
            self.active_edits,
            self.edit_arrays,
        )

    @property
    def backend_name(self) -> str:
        """The name of the backend that computes in this process."""
        return self.local.backend_name(self.plan)

    def snapshot(self, example: int, max_bytes: int = pictures.MAX_SNAPSHOT_BYTES) -> bytes:
        """A PNG of the values for one example of the input, of at most `max_bytes` bytes."""
        self._merge_weight_source_changes()
        now = self.revision, example, max_bytes
        if self._snapshot is None or self._snapshot[0] != now:
            names = {value.key for value in pictures.snapshot_values(self.plan)}
            if self.has_active_edits:
                values, source = self._local_values(), self.backend_name
            else:
                values, source = self.local.snapshot_values(
                    self.plan,
                    self.graph,
                    self.input_arrays,
                    self.revision,
                    names,
                    self.patches,
                    self.python_values,
                )
            self._snapshot = (
                now,
                pictures.draw_snapshot(self.plan, values, example, source, max_bytes),
            )
        return self._snapshot[1]


def byte_view(array: Array) -> memoryview:
    """The bytes of a contiguous array, without a copy."""
    return array.reshape(-1).view(np.uint8).data
