"""The public object of a teaching session: `viewer.teaching`."""

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
    """The Viewer functions that a Teaching calls."""

    extractor: FeatureExtractor
    read_features: Callable[[], Array]  # returns the features of the current input
    notify_pages: Callable[[], None]  # sends the changes to pages
    stop: Callable[[], None]


class Teaching(traitlets.HasTraits):
    """A classifier head trained on examples on top of the frozen network; see `viewer.teach`.

    Consecutive frames of a camera are similar, so both accuracies are higher than the accuracy for
    new pictures.

    Args:
        lesson: The classes, examples and head.
        host: The functions of the Viewer that it uses.

    Attributes:
        state: Read-only trait. `"collecting"` without a head, `"ready"` after `train`, `"outdated"`
            after a change of classes, examples or network, `"stopped"` after `stop`.
        classes: Read-only trait. The names of the classes, a tuple.
        counts: Read-only trait. The number of examples of each class, a dict.
        accuracy: Read-only trait. The share of the training examples that the head classifies
            correctly.
        held_out_accuracy: Read-only trait. The accuracy on the last fifth of each class, of a head
            that was trained on the other examples; NaN if a class has fewer than five examples.
        cut: The name of the value that the features are read from.
        averaged: Whether the features are the means of that value over height and width.

    Example:
        >>> teaching = viewer.teach(["cup", "hand"])
        >>> teaching.add("cup", "pictures/cups")
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
        self._trained_on: tuple[object, ...] = ()  # the training set of the current head
        self._update_traits()

    # Properties

    @property
    def examples(self) -> dict[str, Array]:
        """The pictures by class: arrays (N, height, width, channels), uint8."""
        return {
            name: self._lesson.pictures(key) for key, name in self._lesson.class_names_by_id.items()
        }

    @property
    def features(self) -> dict[str, Array]:
        """The features by class: arrays (N, features), float32."""
        return {
            name: self._lesson.features(key) for key, name in self._lesson.class_names_by_id.items()
        }

    @property
    def stale(self) -> int:
        """Number of examples whose features were computed with other weights or edits than now."""
        own = [one.version for one in self._lesson.examples.values()]
        now = {one: self._backend.extractor.is_current(one) for one in set(own)}
        return sum(not now[one] for one in own)

    def head(self) -> nn.Sequential:
        """Return a copy of the head as a torch module, which computes logits from the value `cut`.

        It consists of Flatten and Linear, after AdaptiveAvgPool2d(1) if the features are averaged.
        `head_classes` are the names of its outputs.

        Returns:
            The module. Its output has the shape (batch, classes).

        Raises:
            InputError: If there is no head yet.

        Example:
            >>> value = torch.from_numpy(viewer.activations[teaching.cut])
            >>> torch.softmax(teaching.head()(value), 1)
        """
        return self._require_head().module(self.averaged)

    @property
    def head_classes(self) -> tuple[str, ...]:
        """The names of the head's outputs, in order; () without a head."""
        head = self._lesson.head
        return (
            ()
            if head is None
            else tuple(self._lesson.class_names_by_id[key] for key in head.classes)
        )

    @property
    def probabilities(self) -> dict[str, float]:
        """The head's probability of each class for the current input, a dict.

        Raises an InputError without a head, and a PageError if the page with the input doesn't
        reply.
        """
        found = self._require_head().probabilities(self._backend.read_features()[None])[0]
        return dict(zip(self.head_classes, found.tolist(), strict=True))

    def _require_head(self) -> Head:
        if self._lesson.head is None:
            raise InputError(
                "there is no classifier yet: collect examples of at least two classes, and press "
                "Train in the page or call viewer.teaching.train()"
            )
        return self._lesson.head

    # Changes

    def add(self, name: str, pictures: Any = None) -> None:
        """Add examples to a class; a new name adds the class.

        Pictures are cropped and resized to the input's size, like those of a camera. Local OpenGL
        or the model's framework computes their features.

        Args:
            name: The name of the class.
            pictures: The examples, as for `nbglcnn.Images`: an array of uint8, (N, H, W), (N, C, H,
                W) or (N, H, W, C), a list of PIL images or paths, or a folder. Default: none.

        Raises:
            InputError: If the name is not valid, the pictures don't fit, or there are too many.
        """
        if pictures is not None:
            self._backend.extractor.add_examples(self._lesson, name, pictures)
        elif name not in self._lesson.class_names_by_id.values():
            self._lesson.add_class(name)
        self._publish()

    def remove(self, name: str, index: int | None = None) -> None:
        """Remove a class with its examples, or one example.

        Args:
            name: The name of the class.
            index: The index of the example in `examples`; negative numbers count from the end.
                Default: None, which removes the class.

        Raises:
            KeyError: If the class doesn't exist.
            InputError: If the class has no such example.
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
        """Rename a class. Its examples and the head stay.

        Args:
            old: The current name.
            new: The new name.

        Raises:
            KeyError: If the class `old` doesn't exist.
            InputError: If `new` is not a valid name, or is already used.
        """
        key = self._lesson.find_class_id(old)
        self._lesson.class_names_by_id[key] = self._lesson.validate_class_name(new, except_id=key)
        self._publish()

    def train(self) -> nn.Sequential:
        """Train a head on all examples. Pages use it at once.

        The loss is the cross-entropy, with equal weight for each class, plus a small L2 penalty. It
        is strictly convex, so the result here equals that of a page. Features that are `stale` are
        recomputed first.

        Returns:
            The head, as `head` returns it.

        Raises:
            InputError: If there are fewer than two classes, or a class has no examples.

        Source: multinomial logistic regression, solved by L-BFGS (`torch.optim.LBFGS`).
        """
        self._lesson.check_trainable()
        if self.stale:
            self.compute_again()
        self._lesson.train()
        self._trained_on = self._training_set_key()
        self._publish()
        return self.head()

    def compute_again(self) -> None:
        """Compute the features of all examples with the current network."""
        own = list(self._lesson.examples.values())
        if own:
            features = self._backend.extractor.compute(np.stack([one.picture for one in own]))
            network = self._backend.extractor.current_version()
            for one, numbers in zip(own, features, strict=True):
                self._lesson.examples[one.id] = replace(one, features=numbers, version=network)
        self._publish()

    def stop(self) -> None:
        """End the teaching: remove the page's Teach tab. This object keeps its data."""
        self._backend.stop()
        self.set_trait("state", "stopped")

    # Saving and loading

    def to_dict(self) -> dict[str, Any]:
        """Return everything as arrays.

        `viewer.teach(examples=saved["examples"], head=saved)` restores it.

        Returns:
            A dict with "examples" and "features" (dicts by class) and "cut" (the name of the
            value); with a head also "weight" (classes, features) and "bias" (classes,), float32.
        """
        found: dict[str, Any] = {
            "examples": self.examples, "features": self.features, "cut": self.cut,
        }  # fmt: skip
        if (head := self._lesson.head) is not None:
            found |= {"weight": head.weight.copy(), "bias": head.bias.copy()}
        return found

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write everything as one safetensors file, as the page's Save button does.

        The file contains "pictures" (N, H, W, C) uint8, "labels" (N,), "features" (N, F), and with
        a head "weight" and "bias". Its metadata contain the names of the classes.

        Args:
            path: The file; an existing one is replaced.

        Returns:
            The path of the file.

        Raises:
            OSError: If the file cannot be written.
        """
        target = Path(path)
        target.write_bytes(self._lesson.to_safetensors(self.cut, self.averaged))
        return target

    def load(self, path: str | os.PathLike[str]) -> Teaching:
        """Replace everything by a file that `save` or a page wrote.

        Features of another network are `stale`; the next `train` recomputes them.

        Args:
            path: The file.

        Returns:
            This object.

        Raises:
            InputError: If the file has another format, or other pictures or features.
            OSError: If the file cannot be read.
        """
        self._lesson.load_safetensors(Path(path).read_bytes())
        self._trained_on = () if self.stale else self._training_set_key()
        self._publish()
        return self

    # Updates of traits and pages

    def _publish(self) -> None:
        self._update_traits()
        self._backend.notify_pages()

    def _training_set_key(self) -> tuple[object, ...]:
        examples = tuple(
            (one.id, one.class_id, one.version) for one in self._lesson.examples.values()
        )
        return tuple(self._lesson.class_names_by_id), examples

    def _update_traits(self) -> None:
        lesson, head = self._lesson, self._lesson.head
        named = lesson.class_names_by_id.items()
        self.set_trait("classes", tuple(lesson.class_names_by_id.values()))
        self.set_trait("counts", {name: len(lesson.examples_of(key)) for key, name in named})
        told = (head.correct, head.count) if head else (0, 0)
        held = (head.held_out_correct, head.held_out_count) if head else (0, 0)
        self.set_trait("accuracy", _accuracy(*told))
        self.set_trait("held_out_accuracy", _accuracy(*held))
        if self.state == "stopped":
            return
        ready = self._trained_on == self._training_set_key() and not self.stale
        self.set_trait("state", "collecting" if not head else "ready" if ready else "outdated")

    def __repr__(self) -> str:
        counts = ", ".join(f"{name}: {count}" for name, count in self.counts.items())
        return f"Teaching({self.state}, {counts or 'no classes'}, cut={self.cut!r})"


def _accuracy(correct_count: int, count: int) -> float:
    return correct_count / count if count else float("nan")


# Internal: called by the Viewer, not by users


def update_teaching_traits(teaching: Teaching, *, trained: bool = False) -> None:
    """Update the traits after a page or the network changed; `trained`: a page trained the head."""
    if trained:
        teaching._trained_on = teaching._training_set_key()
    teaching._update_traits()
