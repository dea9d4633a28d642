"""What pages are told of a teaching, and what they tell; TypeScript's records are made of these."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Name = Annotated[str, Meta(max_length=64)]
Count = Annotated[int, Meta(ge=0, le=2**31)]
EditsJson = Annotated[str, Meta(max_length=2**20)]

MAX_CLASSES = 20
MAX_NAME_LENGTH = 60  # letters of a class's name
MAX_EXAMPLES = 2000  # of all classes together
MAX_FEATURES = 4096  # a value of more numbers is averaged over its height and width
# Of each class one of so many, the last ones, check a head that learned from the others.
HELD_OUT_EVERY = 5

# The loss that a head has the least of: the cross entropy, where all classes count the same, and
# PENALTY / 2 times the sum of the squares of its weights for features that are standardised.
WEIGHT_PENALTY = 1e-3
# The variance that is added to each feature's, in shares of the mean one: a feature that hardly
# changes isn't blown up.
MIN_VARIANCE = 1e-4
GRADIENT_TOLERANCE = 1e-9  # where each of the loss's derivatives is smaller, a head is done
MAX_ITERATIONS = 500


class FeatureVersion(msgspec.Struct, frozen=True):
    """What decides the features: `weights_hash` names the weights, `edits` the active edits."""

    weights_hash: Name
    edits: EditsJson = ""


class LessonClass(msgspec.Struct, frozen=True):
    """A class by its id, which stays where people call it otherwise."""

    id: Name
    name: str


class LessonExample(msgspec.Struct, frozen=True):
    """An example of the class `class_id`; a version in the LessonSnapshot computed its features.

    Its `id` names a blob: the features as float32, then the picture as bytes (channels, height,
    width), 255 of which are 1.
    """

    id: Name
    class_id: Name
    version: Count


class ClassifierHead(msgspec.Struct, frozen=True):
    """A head for classes by their ids, in the order of its outputs.

    Its `id` names a blob of float32: the weight (classes, features), then the bias. Of
    `count` examples that it learned from it tells `correct`. Of the last fifth of each
    class, `held_out_count`, a head that learned from the others tells `held_out_correct`; 0 of 0
    where a class has too few.
    """

    id: Name
    classes: tuple[Name, ...]
    correct: Count
    count: Count
    held_out_correct: Count = 0
    held_out_count: Count = 0


class LessonSnapshot(msgspec.Struct, frozen=True):
    """Everything that there is, in the order in which it came: a blob in JSON.

    `acknowledged` are the numbers of the last Changes that Python has heard, by page; `sequence`
    counts what Python has changed itself.
    """

    sequence: Count
    acknowledged: dict[Name, Count]
    classes: tuple[LessonClass, ...]
    examples: tuple[LessonExample, ...]
    versions: tuple[FeatureVersion, ...]
    head: ClassifierHead | None = None


class TeachingRecord(msgspec.Struct, frozen=True):
    """A teaching as Python sends it to pages, which ask for a LessonSnapshot when they need one.

    `layer` is the key of the value that has the features, `feature_count` of them, `averaged` over
    height and width where that is so; `input` is the key of the pictures' input, of (channels,
    height, width) `shape`. `weights_hash` names those of the network now. `sequence` and
    `acknowledged` are as in the LessonSnapshot.
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
    """What a page changes, by ids: Python and pages do the same with it.

    "class": the class `id` is called `text`, and made where there is none; "remove": it goes, with
    its examples; "example": a new one of the class `class_id`, whose features are those of
    `version`; "forget": an example goes; "features": those of an example, computed again; "head":
    another head. An example's data, features and a head's data come in the message's buffer.
    """

    kind: Literal["class", "remove", "example", "forget", "features", "head"]
    id: Name
    class_id: Name = ""
    text: str = ""
    version: FeatureVersion | None = None
    head: ClassifierHead | None = None
