"""A lesson: classes, their examples and the current head; independent of page and network."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import numpy as np

from nbglcnn.errors import InputError, suggest_names
from nbglcnn.features.teaching import safetensors
from nbglcnn.features.teaching.head import Head, fit, held_out_mask, new_id
from nbglcnn.features.teaching.records import (
    MAX_CLASSES,
    MAX_EXAMPLES,
    MAX_NAME_LENGTH,
    ClassifierHead,
    FeatureVersion,
    LessonChange,
    LessonClass,
    LessonExample,
    LessonSnapshot,
)
from nbglcnn.graph import Array


@dataclass(frozen=True)
class Example:
    """One picture (channels, height, width), uint8, and its features, computed by `version`."""

    id: str
    class_id: str
    picture: Array
    features: Array
    version: FeatureVersion

    @property
    def packed_bytes(self) -> bytes:
        """The features and picture as bytes for pages."""
        return self.features.tobytes() + self.picture.tobytes()


@dataclass
class Lesson:
    """Classes by id, in order, examples in the order of their addition, and a head.

    `shape` is a picture's (channels, height, width), `feature_count` the number of features.
    """

    shape: tuple[int, int, int]
    feature_count: int
    class_names_by_id: dict[str, str] = field(default_factory=dict)
    examples: dict[str, Example] = field(default_factory=dict)
    head: Head | None = None

    def find_class_id(self, name: str) -> str:
        """Return the id of a class; KeyError for an unknown name."""
        for key, known in self.class_names_by_id.items():
            if known == name:
                return key
        names = list(self.class_names_by_id.values())
        raise KeyError(
            f"unknown class {name!r}{suggest_names(str(name), names)}; the classes are "
            f"{', '.join(names) or 'none'}"
        )

    def examples_of(self, class_id: str) -> list[Example]:
        """Return the examples of a class, by its id."""
        return [one for one in self.examples.values() if one.class_id == class_id]

    def validate_class_name(self, name: object, except_id: str = "") -> str:
        """Return a valid class name, else InputError; `except_id` may have the name already."""
        if not isinstance(name, str) or not name.strip() or len(name.strip()) > MAX_NAME_LENGTH:
            raise InputError(
                f"{name!r:.80} is not a class name: expected a string of 1 to {MAX_NAME_LENGTH} "
                "characters"
            )
        name = name.strip()
        if any(known == name for key, known in self.class_names_by_id.items() if key != except_id):
            raise InputError(f"a class {name!r} already exists; give each class its own name")
        return name

    def add_class(self, name: object, class_id: str = "") -> str:
        """Add a class without examples; return its id."""
        name = self.validate_class_name(name)
        if len(self.class_names_by_id) >= MAX_CLASSES:
            raise InputError(f"at most {MAX_CLASSES} classes are supported")
        class_id = class_id or new_id()
        self.class_names_by_id[class_id] = name
        return class_id

    def remove_class(self, class_id: str) -> None:
        """Remove a class, its examples, and a head that includes it."""
        self.class_names_by_id.pop(class_id, None)
        for one in self.examples_of(class_id):
            del self.examples[one.id]
        if self.head is not None and class_id in self.head.classes:
            self.head = None

    def check_capacity(self, added_count: int) -> None:
        """Raise InputError if this many more examples exceed the limit."""
        if len(self.examples) + added_count > MAX_EXAMPLES:
            raise InputError(
                f"adding {added_count} examples to {len(self.examples)} exceeds the limit of "
                f"{MAX_EXAMPLES}. Delete some, or add fewer"
            )

    def apply_change(self, change: LessonChange, data: bytes) -> bool:
        """Apply a page's change; return False if it no longer applies, as for a removed class.

        Raises InputError for invalid data.
        """
        match change.kind:
            case "class" if change.id in self.class_names_by_id:
                self.class_names_by_id[change.id] = self.validate_class_name(
                    change.text, except_id=change.id
                )
            case "class":
                self.add_class(change.text, change.id)
            case "remove":
                self.remove_class(change.id)
            case "forget":
                return self.examples.pop(change.id, None) is not None
            case "example" if (
                change.class_id in self.class_names_by_id and change.version is not None
            ):
                self.check_capacity(1)
                self.examples[change.id] = self.example_from_data(
                    change.id, change.class_id, data, change.version
                )
            case "features" if change.id in self.examples and change.version is not None:
                found = self._floats(data, self.feature_count)
                self.examples[change.id] = replace(
                    self.examples[change.id], features=found, version=change.version
                )
            case "head" if change.head is not None:
                if not set(change.head.classes) <= self.class_names_by_id.keys():
                    return False
                self.head = self.head_from_data(change.head, data)
            case _:
                return False
        return True

    def example_from_data(
        self, example_id: str, class_id: str, data: bytes, version: FeatureVersion
    ) -> Example:
        """Parse an example from its data."""
        size = 4 * self.feature_count
        picture = np.frombuffer(data[size:], np.uint8)
        if picture.size != int(np.prod(self.shape)):
            raise InputError(f"an example of {len(data)} bytes does not belong to this network")
        features = self._floats(data[:size], self.feature_count)
        return Example(example_id, class_id, picture.reshape(self.shape).copy(), features, version)

    def head_from_data(self, record: ClassifierHead, data: bytes) -> Head:
        """Parse a head from its data."""
        classes = len(record.classes)
        numbers = self._floats(data, classes * (self.feature_count + 1))
        weight, bias = np.split(numbers, [classes * self.feature_count])
        return Head(**{**msgspec.structs.asdict(record), "classes": tuple(record.classes)},
                    weight=weight.reshape(classes, self.feature_count), bias=bias)  # fmt: skip

    def _floats(self, data: bytes, count: int) -> Array:
        if len(data) != 4 * count:
            raise InputError(f"{len(data)} bytes; expected {count} float32 values")
        numbers = np.frombuffer(data, np.float32).copy()
        if not np.isfinite(numbers).all():
            raise InputError("features or weights that are not finite")
        return numbers

    def check_trainable(self) -> None:
        """Raise InputError if a head can't be trained yet."""
        if len(self.class_names_by_id) < 2:
            raise InputError(
                "a classifier needs at least two classes, and there "
                + (
                    f"is one, {next(iter(self.class_names_by_id.values()))!r}"
                    if self.class_names_by_id
                    else "are none"
                )
                + ": add another, as viewer.teaching.add('other', pictures)"
            )
        lacking = [
            name for key, name in self.class_names_by_id.items() if not self.examples_of(key)
        ]
        if lacking:
            raise InputError(
                f"the class {lacking[0]!r} has no examples: collect some in the page, add "
                f"pictures with viewer.teaching.add({lacking[0]!r}, pictures), or remove the "
                "class"
            )

    def train(self) -> Head:
        """Train a head on the current examples; InputError if there are too few."""
        self.check_trainable()
        keys = list(self.class_names_by_id)
        number = {key: k for k, key in enumerate(keys)}
        features = np.stack([one.features for one in self.examples.values()])
        labels = np.array([number[one.class_id] for one in self.examples.values()])
        weight, bias = fit(features, labels, len(keys))
        head = Head(new_id(), tuple(keys), weight, bias, count=len(labels))
        right = int((head.probabilities(features).argmax(1) == labels).sum())
        held = held_out_mask(labels)
        told = 0
        if held.any():
            other = Head("", (), *fit(features[~held], labels[~held], len(keys)))
            told = int((other.probabilities(features[held]).argmax(1) == labels[held]).sum())
        self.head = replace(
            head, correct=right, held_out_correct=told, held_out_count=int(held.sum())
        )
        return self.head

    # Serialization for pages and files

    def snapshot(self, sequence: int, acknowledged_changes: Mapping[str, int]) -> LessonSnapshot:
        """Return the whole lesson, without the data."""
        networks: dict[FeatureVersion, int] = {}
        examples = tuple(
            LessonExample(one.id, one.class_id, networks.setdefault(one.version, len(networks)))
            for one in self.examples.values()
        )
        classes = tuple(LessonClass(key, name) for key, name in self.class_names_by_id.items())
        head = self.head
        told = None if head is None else ClassifierHead(
            head.id, head.classes, head.correct, head.count,
            head.held_out_correct, head.held_out_count,
        )  # fmt: skip
        return LessonSnapshot(
            sequence, dict(acknowledged_changes), classes, examples, tuple(networks), told
        )

    def blob(self, name: str) -> bytes | None:
        """Return the data of an example or the head."""
        if name in self.examples:
            return self.examples[name].packed_bytes
        head = self.head
        if head is not None and head.id == name:
            return head.weight.tobytes() + head.bias.tobytes()
        return None

    def blobs(self) -> Iterator[tuple[str, bytes]]:
        """Iterate over the names and data of all blobs."""
        for name in (*self.examples, *([] if self.head is None else [self.head.id])):
            data = self.blob(name)
            assert data is not None
            yield name, data

    def pictures(self, class_id: str) -> Array:
        """Return the pictures of a class, (examples, height, width, channels), uint8."""
        channels, height, width = self.shape
        found = [one.picture.transpose(1, 2, 0) for one in self.examples_of(class_id)]
        return np.array(found, np.uint8).reshape(-1, height, width, channels)

    def features(self, class_id: str) -> Array:
        """Return the features of a class, (examples, features), float32."""
        found = [one.features for one in self.examples_of(class_id)]
        return np.array(found, np.float32).reshape(-1, self.feature_count)

    def to_safetensors(self, feature_layer: str, averaged: bool) -> bytes:
        """Serialize the lesson in the safetensors format; pages write the same format.

        The arrays are "pictures" (N, H, W, C), "labels" (N), "features" (N, F), and with a head
        "weight" and "bias".
        """
        keys = list(self.class_names_by_id)
        own = list(self.examples.values())
        channels, height, width = self.shape
        pictures = np.array([one.picture.transpose(1, 2, 0) for one in own], np.uint8)
        arrays: dict[str, Array] = {
            "pictures": pictures.reshape(-1, height, width, channels),
            "labels": np.array([keys.index(one.class_id) for one in own], np.int32),
            "features": np.array([one.features for one in own], np.float32).reshape(
                -1, self.feature_count
            ),
        }
        networks: dict[FeatureVersion, int] = {}
        numbers = [networks.setdefault(one.version, len(networks)) for one in own]
        metadata: dict[str, Any] = {
            "classes": list(self.class_names_by_id.values()),
            "cut": feature_layer,
            "averaged": averaged,
            "networks": [msgspec.to_builtins(one) for one in networks],
            "of": numbers,
        }
        if self.head is not None:
            arrays |= {"weight": self.head.weight, "bias": self.head.bias}
            told = [
                self.head.correct,
                self.head.count,
                self.head.held_out_correct,
                self.head.held_out_count,
            ]
            metadata |= {"head": [keys.index(one) for one in self.head.classes], "told": told}
        words = {name: json.dumps(value) for name, value in metadata.items()}
        return safetensors.serialize(arrays, words)

    def load_safetensors(self, data: bytes) -> None:
        """Load a lesson from a file; InputError if it is invalid, or of another network."""
        arrays, words = safetensors.deserialize(data)
        try:
            told = {name: json.loads(value) for name, value in words.items()}
            pictures, labels, features = (arrays[n] for n in ("pictures", "labels", "features"))
            other = Lesson(self.shape, self.feature_count)
            keys = [other.add_class(name) for name in told["classes"]]
            networks = msgspec.convert(told["networks"], list[FeatureVersion])
            if len(pictures) and pictures.shape[1:] != (*self.shape[1:], self.shape[0]):
                raise InputError(
                    f"its pictures have (height, width, channels) {pictures.shape[1:]}, and this "
                    f"network takes {(*self.shape[1:], self.shape[0])}"
                )
            if features.shape[1] != self.feature_count:
                raise InputError(
                    f"its examples have {features.shape[1]} features of {told['cut']!r}; this "
                    f"lesson has {self.feature_count}. Teach with cut={told['cut']!r}, or "
                    "another network"
                )
            other.check_capacity(len(labels))
            for k, label in enumerate(labels):
                picture = np.ascontiguousarray(pictures[k].transpose(2, 0, 1))
                network = networks[told["of"][k]]
                key = new_id()
                data = features[k].astype(np.float32).tobytes() + picture.tobytes()
                other.examples[key] = other.example_from_data(key, keys[label], data, network)
            if "weight" in arrays:
                numbers = (arrays["weight"], arrays["bias"])
                classes = tuple(keys[k] for k in told["head"])
                other.head = Head(new_id(), classes, *numbers, *told["told"])
        except (KeyError, IndexError, TypeError, ValueError, msgspec.ValidationError) as error:
            if isinstance(error, InputError):
                raise InputError(f"this file doesn't fit this lesson: {error}") from None
            raise InputError(f"not an nbglcnn lesson file: {error!r}") from None
        self.class_names_by_id, self.examples, self.head = (
            other.class_names_by_id,
            other.examples,
            other.head,
        )
