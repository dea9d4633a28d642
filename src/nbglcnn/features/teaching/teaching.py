"""A teaching as users see it: `viewer.teaching`."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import traitlets

from nbglcnn.errors import InputError
from nbglcnn.features.teaching.feature_vectors import FeatureExtractor
from nbglcnn.features.teaching.head import Head
from nbglcnn.features.teaching.lesson import Lesson
from nbglcnn.graph import Array

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class TeachingBackend:
    """What a Teaching needs of its Viewer."""

    extractor: FeatureExtractor
    read_features: Callable[[], Array]  # the features of the present input
    notify_pages: Callable[[], None]  # pages are to be told
    stop: Callable[[], None]


class Teaching(traitlets.HasTraits):
    """A head that learns from examples, behind the frozen network: `viewer.teaching`.

    Traits, to observe: `state` ("collecting" before there is a head, "ready" behind `train`,
    "outdated" when classes, examples or the network have changed since, "stopped" behind `stop`),
    `classes`, a tuple of names, and `counts`, how many examples each of them has. `accuracy` is the
    share of the examples that the head learned from and tells right; `held_out_accuracy` that of
    the last fifth of each class, told by a head that learned from the others alone (NaN where a
    class has less than five). Frames of a camera that follow each other are much alike: both are
    better than what other pictures will give.

    `layer` is the value that has the features; `averaged` says whether these are its means over
    height and width. What pages collect is here, too, and is what a reloaded page gets back.
    """

    state = traitlets.Unicode("collecting", read_only=True)
    classes = traitlets.Tuple((), read_only=True)
    counts: traitlets.Dict[str, int] = traitlets.Dict({}, read_only=True)
    accuracy = traitlets.Float(float("nan"), read_only=True)
    held_out_accuracy = traitlets.Float(float("nan"), read_only=True)

    def __init__(self, lesson: Lesson, host: TeachingBackend) -> None:
        super().__init__()
        self.cut, self.averaged = host.extractor.layer, host.extractor.averaged
        self._lesson, self._backend = lesson, host
        self._trained_on: tuple[object, ...] = ()  # what the head of now has learned from
        self._update_traits()

    # What is there

    @property
    def examples(self) -> dict[str, Array]:
        """Each class's pictures: (N, height, width, channels) of uint8, as the network got them."""
        return {name: self._lesson.pictures(key) for key, name in self._lesson.classes.items()}

    @property
    def features(self) -> dict[str, Array]:
        """Each class's features: (N, features) of float32, computed when they were collected."""
        return {name: self._lesson.features(key) for key, name in self._lesson.classes.items()}

    @property
    def stale(self) -> int:
        """How many examples have features of other weights or bends than those of now."""
        own = [one.version for one in self._lesson.examples.values()]
        now = {one: self._backend.extractor.is_current(one) for one in set(own)}
        return sum(not now[one] for one in own)

    def head(self) -> nn.Sequential:
        """The head as a torch module: of the value `layer` it makes logits, one for each class.

        `torch.softmax(teaching.head()(torch.from_numpy(viewer.activations[teaching.cut])), 1)`
        are the probabilities that the page shows. It is a copy: Flatten and Linear, behind
        AdaptiveAvgPool2d(1) where the features are averages; its classes are `head_classes`.

        Raises:
            InputError: there is no head yet.
        """
        return self._require_head().module(self.averaged)

    @property
    def head_classes(self) -> tuple[str, ...]:
        """The names of the head's outputs, in their order; () while there is none."""
        head = self._lesson.head
        return () if head is None else tuple(self._lesson.classes[key] for key in head.classes)

    @property
    def probabilities(self) -> dict[str, float]:
        """What the head makes of the present input: each class's probability.

        Raises:
            InputError: there is no head yet.
            PageError: the page that has the input did not answer.
        """
        found = self._require_head().probabilities(self._backend.read_features()[None])[0]
        return dict(zip(self.head_classes, found.tolist(), strict=True))

    def _require_head(self) -> Head:
        if self._lesson.head is None:
            raise InputError(
                "there is no head yet: collect examples of at least two classes, and press Train "
                "in the page or call viewer.teaching.train()"
            )
        return self._lesson.head

    # What changes it

    def add(self, name: str, pictures: Any = None) -> None:
        """Give a class more examples; it is made where there is none of that name.

        `pictures` are whatever `nbglcnn.Images` takes: an array of uint8, (N, H, W), (N, C, H, W)
        or (N, H, W, C), a list of PIL images or paths, a folder. They are cut and resized to the
        input's size as a camera's are. Their features are computed here, by local OpenGL or the
        model's own framework.

        Raises:
            InputError: the name is none, the pictures don't fit, or there are too many.
        """
        if pictures is not None:
            self._backend.extractor.add_examples(self._lesson, name, pictures)
        elif name not in self._lesson.classes.values():
            self._lesson.add_class(name)
        self._publish()

    def remove(self, name: str, index: int | None = None) -> None:
        """Remove a class with its examples, or the one example at `index`, as in `examples`.

        Raises:
            KeyError: there is no such class.
            InputError: the class has no example at this index.
        """
        key = self._lesson.find_class_id(name)
        if index is None:
            self._lesson.remove_class(key)
        else:
            own = self._lesson.examples_of(key)
            if not isinstance(index, int) or not -len(own) <= index < len(own):
                raise InputError(f"remove({name!r}, {index!r}): {name!r} has {len(own)} examples")
            del self._lesson.examples[own[index].id]
        self._publish()

    def rename(self, old: str, new: str) -> None:
        """Call a class otherwise; its examples and the head stay.

        Raises:
            KeyError: there is no class `old`.
            InputError: `new` is no name, or another class has it.
        """
        key = self._lesson.find_class_id(old)
        self._lesson.classes[key] = self._lesson.check_name(new, except_id=key)
        self._publish()

    def train(self) -> nn.Sequential:
        """Train a head on all examples, and give it as `head` does; pages run it at once.

        The loss is the cross entropy, where all classes count the same however many examples they
        have, with a small penalty for large weights: it has one optimum, the same here and in a
        page. Features that are `stale` are computed again before.

        Raises:
            InputError: there are less than two classes, or one has no examples.
        """
        self._lesson.check_trainable()
        if self.stale:
            self.compute_again()
        self._lesson.train()
        self._trained_on = self._training_set_key()
        self._publish()
        return self.head()

    def compute_again(self) -> None:
        """Compute the features of all examples by the network as it is now."""
        own = list(self._lesson.examples.values())
        if own:
            features = self._backend.extractor.compute(np.stack([one.picture for one in own]))
            network = self._backend.extractor.current_version()
            for one, numbers in zip(own, features, strict=True):
                self._lesson.examples[one.id] = replace(one, features=numbers, version=network)
        self._publish()

    def stop(self) -> None:
        """End it: the page's Teach tab goes away, and this object keeps what it has."""
        self._backend.stop()
        self.set_trait("state", "stopped")

    # Saving, and giving back

    def to_dict(self) -> dict[str, Any]:
        """All of it as arrays: "examples", "features", "cut", and "weight" and "bias" of a head.

        `viewer.teach(examples=saved["examples"], head=saved)` begins with it again.
        """
        found: dict[str, Any] = {
            "examples": self.examples, "features": self.features, "cut": self.cut,
        }  # fmt: skip
        if (head := self._lesson.head) is not None:
            found |= {"weight": head.weight.copy(), "bias": head.bias.copy()}
        return found

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write it as one safetensors file, as the page's Save button does; the path.

        "pictures" (N, H, W, C) of uint8, "labels" (N,), "features" (N, F), and of a head "weight"
        and "bias"; its metadata have the classes' names.
        """
        target = Path(path)
        target.write_bytes(self._lesson.to_file(self.cut, self.averaged))
        return target

    def load(self, path: str | os.PathLike[str]) -> Teaching:
        """Take what `save` or a page wrote, in the place of all that is here; this very object.

        Features that another network gave are `stale`, and computed again by the next `train`.

        Raises:
            InputError: the file is none of these, or of other pictures or features.
            OSError: it cannot be read.
        """
        self._lesson.from_file(Path(path).read_bytes())
        self._trained_on = () if self.stale else self._training_set_key()
        self._publish()
        return self

    # Following

    def _publish(self) -> None:
        self._update_traits()
        self._backend.notify_pages()

    def _training_set_key(self) -> tuple[object, ...]:
        examples = tuple(
            (one.id, one.class_id, one.version) for one in self._lesson.examples.values()
        )
        return tuple(self._lesson.classes), examples

    def _update_traits(self) -> None:
        lesson, head = self._lesson, self._lesson.head
        named = lesson.classes.items()
        self.set_trait("classes", tuple(lesson.classes.values()))
        self.set_trait("counts", {name: len(lesson.examples_of(key)) for key, name in named})
        told = (head.right, head.count) if head else (0, 0)
        held = (head.held_right, head.held_count) if head else (0, 0)
        self.set_trait("accuracy", _accuracy(*told))
        self.set_trait("held_out_accuracy", _accuracy(*held))
        if self.state == "stopped":
            return
        ready = self._trained_on == self._training_set_key() and not self.stale
        self.set_trait("state", "collecting" if not head else "ready" if ready else "outdated")

    def __repr__(self) -> str:
        counts = ", ".join(f"{name}: {count}" for name, count in self.counts.items())
        return f"Teaching({self.state}, {counts or 'no classes'}, cut={self.cut!r})"


def _accuracy(right: int, count: int) -> float:
    return right / count if count else float("nan")


# What a Viewer does with it; users have no business with it


def sync_teaching(teaching: Teaching, *, trained: bool = False) -> None:
    """Pages, or the network, have changed what it has; with `trained` they trained the head."""
    if trained:
        teaching._trained_on = teaching._training_set_key()
    teaching._update_traits()
