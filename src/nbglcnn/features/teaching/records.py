"""Records of a teaching for Python and pages; the TypeScript records are generated from them."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Name = Annotated[str, Meta(max_length=64)]
Count = Annotated[int, Meta(ge=0, le=2**31)]
EditsJson = Annotated[str, Meta(max_length=2**20)]

MAX_CLASSES = 20
MAX_NAME_LENGTH = 60  # characters of a class's name
MAX_EXAMPLES = 2000  # of all classes together
MAX_FEATURES = 4096  # a larger value is averaged over its height and width
# One in this many examples of each class, the last ones, validate a head trained on the others.
HELD_OUT_EVERY = 5

# The loss that a head minimises: the cross-entropy with equal weight for each class, plus
# WEIGHT_PENALTY / 2 times the sum of the squared weights of the standardised features.
WEIGHT_PENALTY = 1e-3
# Added to each feature's variance, relative to the mean variance: limits the scale of nearly
# constant features.
MIN_VARIANCE = 1e-4
GRADIENT_TOLERANCE = 1e-9  # training stops when all derivatives of the loss are smaller
MAX_ITERATIONS = 500


class FeatureVersion(msgspec.Struct, frozen=True):
    """What features depend on: `weights_hash` identifies the weights, `edits` the active edits."""

    weights_hash: Name
    edits: EditsJson = ""


class LessonClass(msgspec.Struct, frozen=True):
    """A class; its id stays when the user renames it."""

    id: Name
    name: str


class LessonExample(msgspec.Struct, frozen=True):
    """An example of class `class_id`; `version` is an index into the LessonSnapshot's versions.

    Its `id` is the name of a blob: the features as float32, then the picture as bytes (channels,
    height, width), where 255 is 1.
    """

    id: Name
    class_id: Name
    version: Count


class ClassifierHead(msgspec.Struct, frozen=True):
    """A head; `classes` are ids in the order of its outputs.

    Its `id` is the name of a blob of float32: the weight (classes, features), then the bias.
    `correct` is the number of correct predictions for its `count` training examples.
    `held_out_correct` is the number of correct predictions for the last fifth of each class,
    `held_out_count` examples, by a head trained on the others; both are 0 if a class has too few
    examples.
    """

    id: Name
    classes: tuple[Name, ...]
    correct: Count
    count: Count
    held_out_correct: Count = 0
    held_out_count: Count = 0


class LessonSnapshot(msgspec.Struct, frozen=True):
    """A whole lesson, in order of addition: a blob in JSON.

    `acknowledged` has, by page, the number of the last LessonChange that Python has received;
    `sequence` counts Python's own changes.
    """

    sequence: Count
    acknowledged: dict[Name, Count]
    classes: tuple[LessonClass, ...]
    examples: tuple[LessonExample, ...]
    versions: tuple[FeatureVersion, ...]
    head: ClassifierHead | None = None


class TeachingRecord(msgspec.Struct, frozen=True):
    """A teaching as Python sends it to pages, which request a LessonSnapshot when they need one.

    `layer` is the key of the value with the features, `feature_count` is their number, `averaged`
    is whether they are means over height and width; `input` is the key of the input for pictures,
    and `shape` is their (channels, height, width). `weights_hash` identifies the network's current
    weights. `sequence` and `acknowledged` are as in the LessonSnapshot.
    """

    id: Name
    layer: str
    input: str
    shape: tuple[Count, Count, Count]
    feature_count: Count
    averaged: bool
    weights_hash: Name
    sequence: Count = 0
    acknowledged: dict[Name, Count] = {}


class LessonChange(msgspec.Struct, frozen=True):
    """A page's change of a lesson, by ids; Python and pages apply it in the same way.

    The kinds are: "class": rename the class `id` to `text`, or create it; "remove": remove a class
    and its examples; "example": add an example to the class `class_id`, with features of `version`;
    "forget": remove an example; "features": replace an example's features, computed again; "head":
    replace the head. The message's buffer has the data of an example, features or a head.
    """

    kind: Literal["class", "remove", "example", "forget", "features", "head"]
    id: Name
    class_id: Name = ""
    text: str = ""
    version: FeatureVersion | None = None
    head: ClassifierHead | None = None
