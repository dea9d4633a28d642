"""A Viewer's teaching: begun here, its examples collected by a page, kept the same in both."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import numpy as np
import traitlets

from nbglcnn.edits.records import active, to_dict
from nbglcnn.errors import InputError, NbglcnnError
from nbglcnn.graph import Array, Graph
from nbglcnn.lowering import lower
from nbglcnn.plan import Input, Plan, Value, content_hash
from nbglcnn.sources import Images
from nbglcnn.teaching.lesson import Lesson, new_id
from nbglcnn.teaching.records import MOST_FEATURES, TaughtNetwork, TeachingRecord
from nbglcnn.viewer import protocol, teaching
from nbglcnn.viewer.local import Local
from nbglcnn.viewer.network import Network
from nbglcnn.viewer.showing import Shown
from nbglcnn.viewer.sourcing import Sourced
from nbglcnn.viewer.teaching import Teaching, Ways
from nbglcnn.viewer.training import Trains
from nbglcnn.viewer.traits import FIRST_VIEW

PRODUCTS = ("Gemm", "MatMul")  # what a Linear is in a Graph


class Teaches(Sourced, Shown, Trains):
    """What a Viewer has of teaching; whoever inherits from it shows a network."""

    _teaching: traitlets.Dict[str, Any] = traitlets.Dict({}).tag(sync=True)

    def _begin_training(self) -> None:
        super()._begin_training()
        self.teaching: Teaching | None = None
        self._lesson: Lesson | None = None
        self._taught: TeachingRecord | None = None  # what pages were told last
        self._taught_parts: dict[tuple[str, int], dict[int, bytes]] = {}
        self._weights_named: tuple[Graph | None, str] = None, ""
        self._cut_plan: tuple[tuple[object, ...], Plan | None] = (), None
        self._feature_runs = 0
        self._featuring: Local | None = None

    def teach(
        self,
        classes: Iterable[str] = (),
        cut: str | None = None,
        *,
        examples: Mapping[str, Any] | None = None,
        head: Any = None,
    ) -> Teaching:
        """Teach a small head behind the frozen network, with examples that the page collects.

        The page's Teach tab has a row for each class: hold its button while the camera, a drawing
        or other pictures go in. What this returns, `viewer.teaching`, has the examples and the
        head. A picture's features, the value `cut`, are computed once; nothing leaves the machine.
        Without a page `teaching.add(name, pictures)` and `teaching.train()` do the same here.

        Args:
            classes: their names; by default those of `examples`, else "class 1" and "class 2".
            cut: the name of the value that has the features; of one with more than 4,096 numbers
                the means over height and width. By default what the last Linear reads; where there
                is none, the layer with the fewest numbers.
            examples: pictures to begin with, by class, each as `teaching.add` takes them.
            head: what `teaching.head()` gave, for these classes in their order.

        Raises:
            KeyError: there is no value `cut`.
            InputError: the network takes no pictures, its layers are computed in Python, `cut` has
                too many numbers, or what is given doesn't fit.
        """
        self._check_open()
        names = _named(classes, examples)
        if self.training is not None and self.training.state != "stopped":
            raise InputError(
                "the network is being trained, and its features change: stop that first, "
                "viewer.training.stop()"
            )
        record, value, averaged = self._checked_cut(cut)
        channels, height, width = record.shape[1:]
        planned = self.network.plan.hash
        self._prepare(record.key)
        self.network.keep(value.key)
        count = _count(value, averaged)
        lesson = Lesson((channels, height, width), count)
        for name in names:
            lesson.add_class(name)
        self._lesson, self._cut_plan = lesson, ((), None)
        made = Teaching(lesson, value.key, averaged, self._ways(record.key, value.key, averaged))
        self.teaching = None  # nobody is told before all fits
        self._taught = TeachingRecord(
            new_id(), value.key, record.key, lesson.shape, count, averaged, self._weights_now()
        )
        for name, pictures in (examples or {}).items():
            made.add(name, pictures)
        if head is not None:
            lesson.head = teaching.given_head(head, tuple(lesson.classes), count)
            teaching.follow(made, trained=True)
        if self.network.plan.hash != planned:
            self._show()
        self.teaching = made
        self._tell_teaching()
        self.view = {**FIRST_VIEW, "name": "teach"}
        return made

    def _check_may_train(self) -> None:
        if self._teaches:
            raise InputError(
                "a head is being taught behind this network, which has to stay as it is: end that "
                "first, viewer.teaching.stop()"
            )

    @property
    def _teaches(self) -> bool:
        return self.teaching is not None and self.teaching.state != "stopped"

    def _checked_cut(self, cut: str | None) -> tuple[Input, Value, bool]:
        """The input that takes pictures, and the value that has the features."""
        network = self.network
        pictured = [one for one in network.plan.inputs if one.fit]
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
                f"teach: {names} run in Python, for the last input from Python alone, so that a "
                "page has no features of its own pictures"
            )
        if network.latent is not None:
            raise InputError(
                "teach: a latent skips a part of the network: set viewer.source = None first"
            )
        key = usual_cut(network) if cut is None else cut
        if cut is not None and all(value.key != cut for value in network.plan.values):
            named = {one.name for one in network.graph.keys}
            if cut not in named:
                network.values([cut])  # KeyError, with what is near
        self.network.keep(key)
        [value] = network.values([key])
        if value.kind in ("input", "parameter") or value.dtype != "float32":
            raise InputError(
                f"teach: cut={key!r} is {value.dtype}, and of kind {value.kind}; the float32 value "
                f"of a layer is needed, as {usual_cut(network)!r}"
            )
        numbers = value.read.count // _batch(value, network)
        averaged = numbers > MOST_FEATURES and len(value.shape) == 4
        count = value.shape[1] if averaged else numbers
        if not 1 <= count <= MOST_FEATURES:
            raise InputError(
                f"teach: cut={key!r} has {count:,} numbers for a picture, and a head takes at most "
                f"{MOST_FEATURES:,}; cut at a smaller value, as {usual_cut(network)!r}"
            )
        return pictured[0], value, averaged

    # What a Teaching has of this

    def _ways(self, key: str, cut: str, averaged: bool) -> Ways:
        return Ways(
            network=self._network_now,
            is_now=self._is_now,
            pictures=lambda given: self._taught_pictures(given, key),
            features=lambda pictures: self._features(pictures, key, cut, averaged),
            now=lambda: _flat(self._reader.read([cut]).arrays[0], averaged)[0],
            changed=self._taught_here,
            stop=self._stop_teaching,
        )

    def _weights_now(self) -> str:
        """A name of the weights of now."""
        graph, name = self._weights_named
        if graph is not self.network.graph:
            graph = self.network.graph
            parts = [f"{graph.name} {len(graph.nodes)}".encode()]
            for parameter, value in sorted(graph.parameters.items()):
                array = graph.constant(value)
                parts.append(parameter.encode())
                parts.append(b"" if array is None else np.ascontiguousarray(array).tobytes())
            self._weights_named = graph, (name := content_hash(*parts))
        return name

    def _network_now(self) -> TaughtNetwork:
        acts = active(self.network.edits)
        return TaughtNetwork(self._weights_now(), json.dumps(to_dict(acts)) if acts else "")

    def _is_now(self, network: TaughtNetwork) -> bool:
        if network.weights != self._weights_now():
            return False
        acts = to_dict(active(self.network.edits))
        try:
            return bool(json.loads(network.edits or "[]") == acts)
        except (ValueError, RecursionError):
            return False

    def _taught_pictures(self, given: Any, key: str) -> Array:
        record = next(one for one in self.network.plan.inputs if one.key == key)
        if isinstance(given, np.ndarray) and given.size == 0:
            return np.zeros((0, *record.shape[1:]), np.uint8)
        images = given if isinstance(given, Images) else Images(given)
        blocks = images.blobs(record)
        found = []
        for k in range(len(images)):
            tensor = blocks.tensor(k)[0]
            if not np.isfinite(tensor).all() or tensor.min() < 0 or tensor.max() > 1:
                raise InputError(
                    f"picture {k} has numbers from {tensor.min():g} to {tensor.max():g}; give "
                    "uint8, or floats from 0 to 1"
                )
            found.append(np.rint(tensor * 255).astype(np.uint8))
        return np.stack(found)

    def _features(self, pictures: Array, key: str, cut: str, averaged: bool) -> Array:
        """Of pictures as they are kept, computed in this process."""
        network, plan = self.network, self._plan_of_cut(cut)
        self._featuring = local = self._featuring or Local(network.model)
        injected = {name: network.injected[name] for name in network.injected}
        found = []
        for picture in pictures:
            self._feature_runs += 1
            own = {**network.inputs, key: (picture / np.float32(255))[None].astype(np.float32)}
            arrays = [own[record.key] for record in plan.inputs]
            values = local.values(
                plan, network.graph, arrays, self._feature_runs, (), (), network.edits, injected
            )
            found.append(_flat(values[cut], averaged)[0])
        local.close()
        return np.array(found, np.float32)

    def _plan_of_cut(self, cut: str) -> Plan:
        """Keeps the cut, and what is edited."""
        network = self.network
        edited = sorted({edit.layer for edit in network.edits})
        asked = (network.graph, cut, *edited)
        if self._cut_plan[1] is None or self._cut_plan[0] != asked:
            keys = [cut, *(layer for layer in edited if layer != cut)]
            plan = lower.lower(network.graph, observe=keys, precision=network.precision)
            self._cut_plan = asked, plan
        plan_of_now = self._cut_plan[1]
        assert plan_of_now is not None
        return plan_of_now

    # Pages

    def _taught_here(self) -> None:
        if self._taught is not None:
            self._taught = msgspec.structs.replace(self._taught, turn=self._taught.turn + 1)
        self._tell_teaching()

    def _tell_teaching(self) -> None:
        if self._taught is not None and self._teaches:
            self._teaching = msgspec.to_builtins(self._taught)

    def _stop_teaching(self) -> None:
        if self._taught is None:
            return
        self._taught = None
        self._taught_parts.clear()
        self._teaching = {}
        if self.view["name"] == "teach":
            self.view = FIRST_VIEW

    @traitlets.observe("_edits")
    def _network_changed(self, _: Any) -> None:
        """Weights or bends are others: features may be stale."""
        if self.teaching is not None and self._taught is not None and self._teaches:
            now = self._weights_now()
            if now != self._taught.weights:
                self._taught = msgspec.structs.replace(self._taught, weights=now)
                self._tell_teaching()
            teaching.follow(self.teaching)

    def _follow_weights(self) -> None:
        super()._follow_weights()
        self._network_changed(None)

    def _follow_training(self) -> None:
        super()._follow_training()
        said, self._connection.taught = self._connection.taught, []
        for message, data in said:
            self._take_taught(message, data)
        if said:
            self._tell_teaching()

    def _take_taught(self, message: protocol.Taught, part: bytes) -> None:
        record, lesson = self._taught, self._lesson
        if record is None or lesson is None or self.teaching is None:
            return
        if message.teaching != record.id or message.number <= record.heard.get(message.page, -1):
            return
        at = message.page, message.number
        parts = self._taught_parts.setdefault(at, {})
        parts[message.part] = part
        if len(parts) < message.count:
            return
        del self._taught_parts[at]
        data = b"".join(parts[k] for k in sorted(parts))
        try:
            if len(data) != message.bytes:
                raise InputError(f"{len(data)} of {message.bytes} bytes")
            understood = lesson.apply(message.change, data)
        except NbglcnnError as error:
            protocol.warn_once(f"ignored what the page taught: {error}")
            understood = False
        heard = {**record.heard, message.page: message.number}
        # A page that did what can't be gets to know what there is.
        turn = record.turn if understood else record.turn + 1
        self._taught = msgspec.structs.replace(record, heard=heard, turn=turn)
        teaching.follow(self.teaching, trained=understood and message.change.what == "head")

    def _training_blob(self, name: str) -> memoryview | None:
        found = super()._training_blob(name)
        if found is not None or self._lesson is None or self._taught is None:
            return found
        if name.startswith(f"{self._taught.id}."):
            listing = self._lesson.listing(self._taught.turn, self._taught.heard)
            return memoryview(msgspec.json.encode(listing))
        data = self._lesson.blob(name)
        return None if data is None else memoryview(data)


def usual_cut(network: Network) -> str:
    """The key of the value that features are best taken of: what the last Linear reads.

    Without one the layer with the fewest numbers, of several the last.
    """
    graph = network.graph
    makers = {output: node for node in graph.nodes for output in node.outputs}
    keys: dict[str, str] = {}
    for one in graph.keys:
        if one.kind in ("layer", "module"):
            keys.setdefault(one.value, one.name)
    for node in reversed(graph.nodes):
        if node.op not in PRODUCTS or graph.constant(node.inputs[1]) is None:
            continue
        name = node.inputs[0]
        # What only moves numbers, as a Flatten that is no layer of its own, has no key.
        while name not in keys and name in makers and makers[name].inputs:
            name = makers[name].inputs[0]
        if name in keys:
            return keys[name]
    sizes = [
        (int(np.prod(graph.values[one.value].shape)), -at, one.name)
        for at, one in enumerate(graph.keys)
        if one.kind == "layer" and graph.values[one.value].dtype == np.float32
    ]
    usable = [size for size in sizes if size[0] > 1] or sizes
    if not usable:
        raise InputError("teach: the network has no layer with float32 values")
    return min(usable)[2]


def _batch(value: Value, network: Network) -> int:
    batch = network.plan.header.batch
    return batch if value.shape and value.shape[0] == batch else 1


def _count(value: Value, averaged: bool) -> int:
    return value.shape[1] if averaged else int(np.prod(value.shape[1:]))


def _flat(array: Array, averaged: bool) -> Array:
    """The features of a value, (examples, features) of float32."""
    if averaged:
        means: Array = array.mean((2, 3), dtype=np.float64).astype(np.float32)
        return means
    return array.reshape(len(array), -1).astype(np.float32)


def _named(classes: Iterable[str], examples: Mapping[str, Any] | None) -> list[str]:
    """The classes that there are at first; InputError for a text in the place of a list."""
    if isinstance(classes, str) or not isinstance(classes, Iterable):
        raise InputError(
            f"teach: classes={classes!r:.80}; a list of names is needed, as ['cup', 'hand']"
        )
    if examples is not None and not isinstance(examples, Mapping):
        raise InputError(
            f"teach: examples is {type(examples).__name__}; a mapping of names and pictures is "
            "needed, as teaching.examples has it"
        )
    names = list(classes)
    names += [name for name in examples or {} if name not in names]
    return names or ["class 1", "class 2"]
