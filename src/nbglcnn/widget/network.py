"""A network with its weights and its input, and what of it pages are offered; knows no widget."""

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

from nbglcnn import classes as class_names
from nbglcnn import load
from nbglcnn.contribution import CarriedWeights, Contribution
from nbglcnn.errors import DeviceError, InputError, NbglcnnError, unknown
from nbglcnn.features.edits.records import Edit, active
from nbglcnn.features.edits.skipped_passes import not_run, skipped
from nbglcnn.graph import Array, Graph, changed_values
from nbglcnn.inputs.arguments import with_elements
from nbglcnn.load.steps import begin
from nbglcnn.local import Local
from nbglcnn.lowering import lower
from nbglcnn.lowering.patches import changed_numbers, patches
from nbglcnn.plan.schema import Patch, Plan, Precision, Target, Value, content_hash, pack_file
from nbglcnn.python_fallback import load_mixed, of_first, values_in_python
from nbglcnn.reference import cacheable
from nbglcnn.runtime.session import stored
from nbglcnn.widget import snapshot as pictures
from nbglcnn.widget.asset_manifest import Offer

PATCH_BYTES = 2**22  # of all patches since the weights were hashed; then they are hashed again


class WeightSource(Protocol):
    """Where weights come from that change by themselves, as those of a loop in Python."""

    why: str  # no others can be loaded or set meanwhile

    @property
    def is_ahead(self) -> bool:
        """Whether it has newer weights than the network; asked without a lock."""

    def take(self) -> Mapping[str, Array]:
        """The newest weights and buffers, by name."""


def _nothing() -> None:
    return None


class Network:
    """The Graph, the Plan and the input of a Viewer. Whoever changes one shows the `offer` again.

    `model` and `x` are what the Viewer takes; `graph` holds the weights of now. `plan` is packed
    from it, but for what the `patches` say: changes of few numbers, which `hash_weights` makes a
    part of it. `revision` grows with every change of input or weights. `local` computes here what
    no page does. `classes` are the names of the output's classes, () where there are none. Unless
    `strict`, the model's framework computes the layers that cannot run: `sent` are their values for
    the input of now, in the order of the Plan's. `edits` are those of now, `injected` the arrays
    that they, or steps that can be undone, put in the place of values. `latent` is an edit in front
    of these, which puts an array in the place of a value and skips the layers that only lead there.
    `batch_counts` are the batches that BatchNorms have seen, by the names of their buffers.

    `lock` is held while weights change and pages are told of them. While `weight_source` has newer
    weights, whoever looks at `graph` has them in it; of one moment is only what is read within
    `still`.
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
            class_names.listed(classes)  # an error before minutes of work
        known: dict[str, Array] = {}
        self.lock = threading.RLock()
        self.weight_source: WeightSource | None = None
        # Have pages told of the newest weights at once, and as soon as they can take them.
        self.tell_now: Callable[[], None] = _nothing
        self.tell_soon: Callable[[], None] = _nothing
        self._kept_still = 0
        # The Graph that pages were offered last, and the hash of its Plan.
        self.offered: tuple[Graph, str] | None = None
        model = load.model_of(model)
        self.graph, arrays = (load.load if strict else load_mixed)(model, x, known)
        begin("compiling it")
        self.observe = observe
        self._precision = precision
        self._strict = strict
        self.edits: tuple[Edit, ...] = ()
        self.injected: Mapping[str, Array] = {}
        self.latent: Edit | None = None
        self._latent_arrays: Mapping[str, Array] = {}
        self._skipped: tuple[tuple[str, str], frozenset[str]] = ("", ""), frozenset()
        self._contributions: dict[str, Contribution] = {}
        self._extended: tuple[Graph, Graph] | None = None  # of which Graph, and what it is then
        self._carrying: tuple[Plan, memoryview] | None = None  # the Plan of pages, and its file
        self.batch_counts: dict[str, int] = {}
        self.patches: list[Patch] = []
        self._patch_bytes = 0
        self._unhashed: set[str] = set()
        self._compile(None)
        self.arrays = self._accepted(arrays)
        self.classes = self.named(classes)
        self.sent = self._in_order(known)
        self.revision = 0
        pictured = {value.key for value in pictures.chosen(self.plan)}
        self.local = Local(model, cacheable(self.graph, known, pictured))
        self._snapshot: tuple[tuple[int, int, int], bytes] | None = None

    @property
    def precision(self) -> Precision:
        """The one that was asked for; a page's device may draw less."""
        return self._precision

    @property
    def model(self) -> load.Model:
        """What it was loaded from, with its preprocess if it has one."""
        return self.local.model

    # Weights that change by themselves

    @property
    def graph(self) -> Graph:
        """The network with its weights of now."""
        if self.weight_source is not None and self.weight_source.is_ahead:
            self.catch_up()
        return self._graph

    @graph.setter
    def graph(self, graph: Graph) -> None:
        self._graph = graph

    @property
    def newest(self) -> Graph:
        """The Graph as it was taken last; asked without a lock."""
        return self._graph

    def catch_up(self) -> None:
        """Take the newest weights, unless they are kept still."""
        with self.lock:
            source = self.weight_source
            if source is None or not source.is_ahead or self._kept_still:
                return
            old = self._graph
            self._graph = load.with_parameters(old, source.take())
            changed = changed_values(old, self._graph)
            if not changed:
                return
            self.revision += 1
            if lower.fits(self.plan, self._whole(self._graph), changed):
                self._unhashed |= changed
            else:
                self._compile(self.plan.header.target)

    @contextmanager
    def still(self) -> Iterator[None]:
        """The newest weights of now, here and in pages, until it ends."""
        with self.lock:
            self.catch_up()
            self._kept_still += 1
        try:
            self.tell_now()
            yield
        finally:
            with self.lock:
                self._kept_still -= 1
            if not self._kept_still:
                self.tell_soon()

    @property
    def is_kept_still(self) -> bool:
        """Whether the weights are being read."""
        return self._kept_still > 0

    @property
    def is_another_each_time(self) -> bool:
        """Whether its weights, or what is skipped, change all the time."""
        return (
            self.latent is not None or self._carrying is not None or self.weight_source is not None
        )

    # An array in the place of a value

    def cut(self, edit: Edit | None, arrays: Mapping[str, Array] = MappingProxyType({})) -> None:
        """Put an edit in front of the reader's, with its arrays; None ends that."""
        self.latent, self._latent_arrays = edit, arrays
        self.revision += 1

    @property
    def acting(self) -> tuple[Edit, ...]:
        """All edits that act: the array in a value's place, and what is edited behind it."""
        return self.edits if self.latent is None else (self.latent, *self.edits)

    @property
    def arrays_given(self) -> Mapping[str, Array]:
        """The arrays that these put in the place of values."""
        return {**self.injected, **self._latent_arrays}

    @property
    def skipped(self) -> frozenset[str]:
        """The keys that have no value now: their layers are skipped."""
        if self.latent is None:
            return frozenset()
        now = self.plan.hash, self.latent.layer
        if self._skipped[0] != now:
            values = skipped(self.plan.header, [self.latent]).values
            self._skipped = now, frozenset(self.plan.values[one].key for one in values)
        return self._skipped[1]

    def check_computed(self, keys: Iterable[str]) -> None:
        """KeyError for one that has no value now."""
        for key in keys:
            if key in self.skipped:
                raise KeyError(not_run(key))

    # What changes

    @property
    def carried_weights(self) -> CarriedWeights | None:
        """The weights that runs in a page change; None where Python alone changes them."""
        found = (one.carried for one in self._contributions.values())
        return next((one for one in found if one is not None), None)

    def composed(
        self,
        extend: Callable[[Graph], Graph],
        target: Target | None = None,
        precision: Precision | None = None,
    ) -> Plan:
        """Compile the network with one more contribution; the network stays as it is.

        `target` and `precision` are the current ones by default.

        Raises:
            NbglcnnError: the network cannot be compiled with it.
        """
        whole = extend(self._whole(self.graph))
        return lower.lower(
            whole,
            observe=self.observe,
            target=target or self.plan.header.target,
            precision=precision or self._precision,
        )

    def contribute(
        self, name: str, contribution: Contribution | None, plan: Plan | None = None
    ) -> None:
        """Compile the network with a feature's contribution; None takes it away.

        Contributions act in the order in which they came, one that carries weights last. `plan` is
        what `composed` gave for one that does.

        Raises:
            NbglcnnError: the network cannot be compiled with it; nothing is changed then.
            InputError: another contribution carries weights.
        """
        before, extended, carrying = self._contributions, self._extended, self._carrying
        others = {key: one for key, one in before.items() if key != name}
        for one in others.values():
            if one.carried is not None:
                raise InputError(f"{one.carried.busy}; {one.carried.how_to_end}")
        self._contributions = others if contribution is None else {**others, name: contribution}
        old = before.get(name)
        try:
            if contribution is not None and contribution.carried is not None:
                plan = plan or self.composed(contribution.extend)
                self._carrying = plan, memoryview(pack_file(plan, {}))
            else:
                self._carrying = None
            if any(one and one.carried is None for one in (old, contribution)):
                self._extended = None
                self._compile(self.plan.header.target)
        except BaseException:
            self._contributions, self._extended, self._carrying = before, extended, carrying
            raise
        self.revision += 1

    def _whole(self, graph: Graph) -> Graph:
        """A Graph of the network with all contributions but one that carries weights."""
        added = [one.extend for one in self._contributions.values() if one.carried is None]
        if not added:
            return graph
        if self._extended is None or self._extended[0] is not graph:
            found = graph
            for extend in added:
                found = extend(found)
            self._extended = graph, found
        return self._extended[1]

    def take_graph(self, graph: Graph) -> None:
        """Take the same network with other weights, without patches for pages."""
        self.graph = graph
        if lower.fits(self.plan, self._whole(graph)):
            self.plan = lower.repack(self.plan, self._whole(graph))
            self._forget_patches()
        else:
            self._compile(self.plan.header.target)
        self.revision += 1

    def weights(self) -> dict[str, Array]:
        """All parameters and buffers of now, by name."""
        return load.parameters_of(self.graph)

    def set_input(self, x: Any) -> None:
        """Make `x` the input; InputError where it doesn't fit, and the old one stays."""
        self._set_arrays(load.arrays_for(self.graph, x, self.arrays))

    def adopt(self, place: int, array: Array) -> None:
        """Make it the input at this place: what a page's source has fed there."""
        self._set_arrays((*self.arrays[:place], array, *self.arrays[place + 1 :]))

    def _set_arrays(self, given: Sequence[Array]) -> None:
        arrays = self._accepted(given)
        self.sent = self._from_framework(self.graph, arrays)
        self.arrays = arrays
        self.revision += 1

    def take_first(self) -> None:
        """Make it a network of one example, the first of its batch, with the weights of now.

        InputError where it cannot run with one.
        """
        try:
            model, graph, arrays = of_first(
                self.model, self.graph, self.arrays, self.plan.header.batch, strict=self._strict
            )
            sent = self._in_order(values_in_python(model, graph, arrays))
        except NbglcnnError as error:
            raise InputError(
                "a source gives one example, and this network cannot run with one: " + str(error)
            ) from error
        self.graph = graph
        self.local.replace(model)
        self._compile(self.plan.header.target)
        self.arrays, self.sent = self._accepted(arrays), sent
        self.revision += 1

    def keep(self, key: str) -> None:
        """Compile again where the Plan doesn't keep this value, so that it can be read."""
        if all(value.key != key for value in self.plan.values):
            self.observe = [key] if isinstance(self.observe, str) else [*self.observe, key]
            self._compile(self.plan.header.target)

    def named(self, classes: Any) -> tuple[str, ...]:
        """Class names as somebody gives them, one for each of the output's; InputError else.

        None stands for the model's own, where it has any and they fit.
        """
        counts = {v.key: v.nchw[1] for v in self.values(self.plan.header.outputs)}
        if classes is None:
            own = self.graph.classes
            return own if len(own) in counts.values() else ()
        names = class_names.listed(classes)
        return class_names.fitted(names, counts, some=isinstance(classes, Mapping))

    def with_weights(self, weights: Mapping[str, Any]) -> Network:
        """Another one that is the same but for these weights, of which no page is told."""
        self.hash_weights()
        other = copy.copy(self)
        other.lock = threading.RLock()
        other.weight_source, other.offered, other._carrying = None, None, None
        other._contributions = {k: one for k, one in self._contributions.items() if not one.carried}
        other.tell_now = other.tell_soon = _nothing
        other._kept_still = 0
        other.local = Local(self.model)
        other._snapshot = None
        other._unhashed = set()
        other._forget_patches()
        other.load_state_dict(self.weights() | dict(weights))
        return other

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> list[Patch]:
        """Take other weights; the patches where these are all that has changed, else none."""
        state_dict = load.unwrapped_names(state_dict, self.graph.parameters)
        state_dict = self.model.as_loaded(state_dict)
        graph = load.with_parameters(self.graph, state_dict)
        if (carried := self.carried_weights) is not None:
            own = load.parameters_of(graph)
            for name in state_dict:
                if name in own:
                    carried.parameter_set(name, ..., own[name])
        return self._take(graph)

    def patch(self, name: str, index: Any, numbers: Any) -> list[Patch]:
        """Take other numbers at `index` of one parameter; the same."""
        graph = load.with_numbers(self.graph, name, index, numbers)
        if (carried := self.carried_weights) is not None:
            carried.parameter_set(name, index, numbers)
        return self._take(graph)

    def edit(self, edits: Sequence[Edit], arrays: Mapping[str, Array]) -> None:
        """Make these the edits, which the Plan can run; InputError where a text doesn't compile.

        Nothing that Python computes may follow from what is edited: it wouldn't follow the edits.
        """
        if self.plan.in_python:
            for one in active(edits):
                if found := self.graph.python_behind(one.layer):
                    raise InputError(
                        f"{one.layer} can't be edited: {found}, which follows from it, is computed "
                        "in Python, where edits don't reach; edit a layer behind that one"
                    )
        self.local.check_texts(self.plan, edits)
        self.edits, self.injected = tuple(edits), dict(arrays)
        self.revision += 1

    @property
    def bent(self) -> bool:
        """Whether any edit changes something."""
        return bool(active(self.acting))

    def _take(self, graph: Graph) -> list[Patch]:
        if self.weight_source is not None:
            raise InputError(self.weight_source.why)
        sent = self._from_framework(graph, self.arrays)
        before = self._whole(self.graph)
        self.graph, after = graph, self._whole(graph)
        changed = changed_numbers(before, after)
        moved = [one.tobytes() for one in sent] != [one.tobytes() for one in self.sent]
        self.sent = sent
        self.revision += 1
        if not lower.fits(self.plan, after, changed.keys()):
            self._compile(self.plan.header.target)
            return []
        found = patches(self.plan, before, after, changed)
        self._unhashed.update(changed)
        self._patch_bytes += sum(patch.data.nbytes for patch in found or ())
        if moved or found is None or self._patch_bytes > PATCH_BYTES:
            self.hash_weights()
            return []
        self.patches += found
        return found

    def hash_weights(self) -> bool:
        """Make the patches a part of the Plan's weights, with new hashes; whether there were any.

        Whoever has not followed the patches gets right weights by them.
        """
        with self.lock:
            graph = self.graph
            if not self._unhashed:
                return False
            self.plan = lower.repack(self.plan, self._whole(graph), self._unhashed)
            self._forget_patches()
            return True

    def _hash_newest(self) -> None:
        """Where others than the patches have changed, the Plan's weights are made of them."""
        if self.weight_source is not None:
            self.hash_weights()

    def _forget_patches(self) -> None:
        self._unhashed.clear()
        self.patches = []
        self._patch_bytes = 0

    def fit(self, target: Target) -> bool:
        """Compile again when a device can do less than the Plan asks for; whether it was.

        One that draws no float32 makes the Plan's precision float16, here and in all pages.
        """
        old = self.plan.header.target
        if (carried := self.carried_weights) is not None:
            least = msgspec.structs.asdict(old)
            if any(getattr(target, name) < number for name, number in least.items()):
                raise DeviceError(
                    f"{carried.busy} whose device can do more than this page's; to see it here "
                    f"{carried.how_to_end}"
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

    def swap_kernels(self) -> None:
        """Compile again without the fast kernels, or with them where they were left out."""
        target = self.plan.header.target
        self._compile(msgspec.structs.replace(target, fast_kernels=not target.fast_kernels))

    def use_precision(self, precision: Precision) -> None:
        """Compile again with it; a device that draws no float32 keeps float16.

        Raises:
            DeviceError: a contribution carries weights.
            InputError: the input doesn't fit into it.
        """
        if (carried := self.carried_weights) is not None:
            raise DeviceError(f"{carried.busy}; {carried.how_to_end}")
        before, self._precision = self._precision, precision
        try:
            self._compile(self.plan.header.target)
            self._accepted(self.arrays)
        except NbglcnnError:
            self._precision = before
            self._compile(self.plan.header.target)
            raise
        self.revision += 1

    def _compile(self, target: Target | None) -> None:
        self.plan = lower.lower(
            self._whole(self.graph), observe=self.observe, target=target, precision=self._precision
        )
        self._forget_patches()
        self._file = memoryview(pack_file(self.plan, {}))

    def _accepted(self, arrays: Sequence[Array]) -> tuple[Array, ...]:
        keys = [record.key for record in self.plan.inputs]
        for key, array in zip(keys, with_elements(keys, arrays), strict=True):
            stored(key, array)  # InputError for what float32 textures cannot hold
        return tuple(np.asarray(array, order="C") for array in arrays)

    def _from_framework(self, graph: Graph, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """What Python computes of these inputs and weights."""
        if not self.plan.in_python:
            return ()
        return self._in_order(values_in_python(self.model, graph, arrays))

    def _in_order(self, found: Mapping[str, Array]) -> tuple[Array, ...]:
        for record in self.plan.in_python:
            stored(record.key, found[record.key])
        return tuple(found[record.key] for record in self.plan.in_python)

    # What it gives

    def offer(self, picture: bytes = b"") -> Offer:
        """What pages shall show; `picture` is a PNG for those that cannot draw."""
        self.hash_weights()
        self.offered = self.graph, self.plan.hash
        plan, file = self._carrying or (self.plan, self._file)
        blobs: dict[str, memoryview] = {plan.hash: file}
        inputs = []
        for array in self.uploads():
            data = raw(array)
            inputs.append(content_hash(data))
            blobs[inputs[-1]] = data
        weights = tuple(weight.hash for weight in plan.header.weights)
        blobs |= {name: raw(plan.blobs[name]) for name in weights}
        blobs |= {name: raw(array) for name, array in self.injected.items()}
        words = json.dumps(self.classes).encode() if self.classes else b""
        picture_name, words_name = (content_hash(b) if b else "" for b in (picture, words))
        blobs |= {n: memoryview(b) for n, b in ((words_name, words), (picture_name, picture)) if b}
        return Offer(
            plan.hash,
            weights,
            tuple(inputs),
            blobs,
            picture_name,
            words_name,
            tuple(self.injected),
        )

    def portable(self, precision: Precision | None = None) -> Plan:
        """The Plan of now for any device: with WebGL 2's guaranteed minimums.

        In the precision of the Viewer unless given, whatever its pages' devices can do.
        """
        self.hash_weights()
        asked = precision or self._precision
        if self.plan.header.target == Target() and self.plan.precision == asked:
            return self.plan
        return lower.lower(self._whole(self.graph), observe=self.observe, precision=asked)

    @property
    def inputs(self) -> dict[str, Array]:
        """The network's own inputs of now, by key."""
        keys = (record.key for record in self.plan.inputs)
        return dict(zip(keys, self.arrays, strict=True))

    def uploads(self) -> list[Array]:
        """What a Plan's inputs hold, as float32: the network's own, and what Python computes."""
        records = (*self.plan.inputs, *self.plan.in_python)
        pairs = zip(records, (*self.arrays, *self.sent), strict=True)
        return [stored(record.key, array) for record, array in pairs]

    def values(self, keys: Iterable[str]) -> list[Value]:
        """The Plan's records of these keys; KeyError for one that it doesn't keep."""
        known = {value.key: value for value in self.plan.values}
        for key in keys:
            if key not in known:
                raise KeyError(unknown(key, list(known), shared=self.plan.header.shared))
        return [known[key] for key in keys]

    def computed(self, keys: Sequence[str], *, unbent: bool = False) -> list[Array]:
        """Values of now, computed in this process; with `unbent` each before its own edits."""
        found = self._local_values()
        if unbent:
            return self.local.unbent(
                keys, self.plan, self.graph, self.arrays, self.acting, self.arrays_given
            )
        return [found[key].copy() for key in keys]

    def _local_values(self) -> Mapping[str, Array]:
        self._hash_newest()
        return self.local.values(
            self.plan,
            self.graph,
            self.arrays,
            self.revision,
            self.patches,
            self.sent,
            self.acting,
            self.arrays_given,
        )

    @property
    def source(self) -> str:
        """Who computes in this process."""
        return self.local.source(self.plan)

    def snapshot(self, example: int, most: int = pictures.MAX_BYTES) -> bytes:
        """A PNG of the network's values for one example of the input, of `most` bytes."""
        self._hash_newest()
        now = self.revision, example, most
        if self._snapshot is None or self._snapshot[0] != now:
            names = {value.key for value in pictures.chosen(self.plan)}
            if self.bent:
                values, source = self._local_values(), self.source
            else:
                values, source = self.local.pictured(
                    self.plan,
                    self.graph,
                    self.arrays,
                    self.revision,
                    names,
                    self.patches,
                    self.sent,
                )
            self._snapshot = now, pictures.draw(self.plan, values, example, source, most)
        return self._snapshot[1]


def raw(array: Array) -> memoryview:
    """The bytes of a contiguous array, without a copy."""
    return array.reshape(-1).view(np.uint8).data
