"""What pages are told of a training, and what they tell; TypeScript's records are made of these."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Name = Annotated[str, Meta(max_length=64)]
Count = Annotated[int, Meta(ge=0, le=2**31)]
TrainingState = Literal["running", "paused", "handing", "stopped"]


class Column(msgspec.Struct, frozen=True):
    """One array of a data set: of an input of the model by its key, or "target".

    `blob` and `held_out` are the names of blobs: rows one after the other, in the type `dtype`;
    times `scale` they are the numbers that the network gets.
    """

    key: str
    shape: tuple[int, ...]
    dtype: Literal["uint8", "float32"]
    scale: float
    blob: Name
    held_out: Name = ""


class Course(msgspec.Struct, frozen=True):
    """All of a training that stays the same while it runs.

    `plan` is the hash of its Plan; `count` and `held_out` are examples, `batch` those of a step;
    `begin` is the number of steps done before. `end` is the step to stop at, -1 for none. `rates`
    is a blob of a learning rate for each step from `begin` on, "" where one number is set. `betas`
    are Adam's, of whose moving means a step is given the corrections. `inputs` and
    `held_out_inputs` are keys of the Plan's inputs by what they are, and so are the keys of what a
    step gives: see `joined.Joined`. `state` are the names of all that changes, in the order in
    which it is saved.
    """

    plan: Name
    loss: str
    optimizer: str
    batch: Count
    count: Count
    held_out: Count
    begin: Count
    end: int
    shuffle: bool
    seed: Count
    accuracy: bool
    rates: Name
    betas: tuple[float, ...]
    columns: tuple[Column, ...]
    inputs: dict[str, str]
    held_out_inputs: dict[str, str]
    loss_key: str
    held_out_key: str
    prediction: str
    ratios: str
    dead: str
    trained: tuple[str, ...]
    flat: tuple[str, ...]
    gradients: dict[str, str]
    state: tuple[str, ...]
    frozen: tuple[str, ...] = ()


MAX_MARKS = 100  # of a training; the first ones go
MARK_MERGE_STEPS = 20  # steps within which changes of the same kind get one mark


class Mark(msgspec.Struct, frozen=True):
    """What was changed by hand behind `step` steps, in words."""

    step: Count
    text: str


class TrainingRecord(msgspec.Struct, frozen=True):
    """A training as pages and Python tell it each other.

    `course` names the blob of its Course. The page `owner` runs it; "": whoever sees it first.
    "handing": the owner finishes its step, gives Python its state and waits; Python answers with
    the next `round`, which begins with the Plan's weights, those behind `at` steps. `past` is a
    blob of what was told before them: see `live.past`. `until` is the step at which it pauses,
    -1 for none. `noise` is the standard deviation of what is added to inputs. `batch` (0: the
    Course's) and `frozen`, names of parameters, are what is wanted: Python hands over another
    Course for them. `wrong` is the layer whose values first became NaN or infinite. `mirrored`: a
    loop in Python trains, and pages follow it; nothing else of it can be wanted then.
    """

    id: Name
    course: Name
    state: TrainingState
    lr: float
    noise: float = 0.0
    owner: Name = ""
    until: int = -1
    round: Count = 0
    at: Count = 0
    past: Name = ""
    batch: Count = 0
    frozen: tuple[str, ...] = ()
    marks: tuple[Mark, ...] = ()
    wrong: str = ""
    mirrored: bool = False
