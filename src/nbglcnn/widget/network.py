"""A network with its weights and its input, and what of it pages are offered; knows no widget."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from nbglcnn import classes as class_names
from nbglcnn import load
from nbglcnn.errors import DeviceError, InputError, NbglcnnError, unknown
from nbglcnn.features.edits.records import Edit, active
from nbglcnn.features.latent.injection import Cut
from nbglcnn.features.mirror.following import Following
from nbglcnn.features.training.training_plan import Training
from nbglcnn.graph import Array, Graph
from nbglcnn.inputs.arguments import with_elements
from nbglcnn.load.steps import begin
from nbglcnn.lowering import lower
from nbglcnn.lowering.patches import changed_numbers, patches
from nbglcnn.plan.schema import Patch, Plan, Precision, Target, Value, content_hash, pack_file
from nbglcnn.python_fallback import load_mixed, of_first, values_in_python
from nbglcnn.reference import cacheable
from nbglcnn.runtime.session import stored
from nbglcnn.widget import snapshot as pictures
from nbglcnn.widget.asset_manifest import Offer
from nbglcnn.widget.local import Local

PATCH_BYTES = 2**22  # of all patches since the weights were hashed; then they are hashed again


class Network(Cut, Training, Following):
    """The Graph, the Plan and the input of a Viewer. Whoever changes one shows the `offer` again.

    `model` and `x` are what the Viewer takes; `graph` holds the weights of now. `plan` is packed
    from it, but for what the `patches` say: changes of few numbers, which `hash_weights` makes a
    part of it. `revision` grows with every change of input or weights. `local` computes here what
    no page does. `classes` are the names of the output's classes, () where there are none. Unless
    `strict`, the model's framework computes the layers that cannot run: `sent` are their values for
    the input of now, in the order of the Plan's. `edits` are those of now, `injected` the arrays
    that they, or steps that can be undone, put in the place of values. `latent` is the edit that
    puts a code in its layer's place, where a latent is the source.
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
        self._begin_following()
        self.graph, arrays = (load.load if strict else load_mixed)(model, x, known)
        begin("compiling it")
        self.observe = observe
        self._precision = precision
        self._strict = strict
        self.edits: tuple[Edit, ...] = ()
        self.injected: Mapping[str, Array] = {}
        self._begin_cut()
        self._begin_training()
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
    def model(self) -> Any:
        """What it was loaded from, with its preprocess if it has one."""
        return self.local.model

    # What changes

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
        other._begin_following()
        other.trained = None
        other.local = Local(self.model)
        other._snapshot = None
        other._unhashed = set()
        other._forget_patches()
        other.load_state_dict(self.weights() | dict(weights))
        return other

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> list[Patch]:
        """Take other weights; the patches where these are all that has changed, else none."""
        state_dict = load.unwrapped_names(state_dict, self.graph.parameters)
        state_dict = load.as_loaded(self.model, state_dict)
        graph = load.with_parameters(self.graph, state_dict)
        if self.trained is not None:
            own = load.parameters_of(graph)
            self.trained.edits += [(name, ..., own[name]) for name in state_dict if name in own]
        return self._take(graph)

    def patch(self, name: str, index: Any, numbers: Any) -> list[Patch]:
        """Take other numbers at `index` of one parameter; the same."""
        graph = load.with_numbers(self.graph, name, index, numbers)
        if self.trained is not None:
            self.trained.edits.append((name, index, numbers))
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
        self.check_free()
        sent = self._from_framework(graph, self.arrays)
        old, self.graph = self.graph, graph
        changed = changed_numbers(old, graph)
        moved = [one.tobytes() for one in sent] != [one.tobytes() for one in self.sent]
        self.sent = sent
        self.revision += 1
        if not lower.fits(self.plan, graph, changed.keys()):
            self._compile(self.plan.header.target)
            return []
        found = patches(self.plan, old, graph, changed)
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
            self.plan = lower.repack(self.plan, graph, self._unhashed)
            self._forget_patches()
            return True

    def _forget_patches(self) -> None:
        self._unhashed.clear()
        self.patches = []
        self._patch_bytes = 0

    def fit(self, target: Target) -> bool:
        """Compile again when a device can do less than the Plan asks for; whether it was.

        One that draws no float32 makes the Plan's precision float16, here and in all pages.
        """
        old = self.plan.header.target
        if self.trained is not None:
            least = msgspec.structs.asdict(old)
            if any(getattr(target, name) < number for name, number in least.items()):
                raise DeviceError(
                    "the network trains in a page whose device can do more than this page's; stop "
                    "the training to see it here (viewer.training.stop())"
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
        """Compile again with it; DeviceError while the network trains, InputError for an input.

        A device that draws no float32 keeps float16.
        """
        if self.trained is not None:
            raise DeviceError(
                "the network trains in a page; stop the training first (viewer.training.stop())"
            )
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
            self.graph, observe=self.observe, target=target, precision=self._precision
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
        self.offers()
        plan = self.plan if self.trained is None else self.trained.plan
        file = self._file if self.trained is None else self.trained.file
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
        return lower.lower(self.graph, observe=self.observe, precision=asked)

    @property
    def inputs(self) -> dict[str, Array]:
        """The network's own inputs of now, by key."""
        keys = (record.key for record in self.plan.inputs)
        return dict(zip(keys, self.arrays, strict=True))

    def uploads(self) -> list[Array]:
        """What a Plan's inputs hold, as float32: the network's own, and what Python computes."""
        pairs = zip(self.plan.header.inputs, (*self.arrays, *self.sent), strict=True)
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
        self._pack()
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
        self._pack()
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
