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

    `blob` and `held_out` are the names of blobs: rows one after the other, in the type
    `dtype`; times `scale` they are the numbers that the network gets.
    """

    key: str
    shape: tuple[int, ...]
    dtype: Literal["uint8", "float32"]
    scale: float
    blob: Name
    held_out: Name = ""


class TrainingConfig(msgspec.Struct, frozen=True):
    """All of a training that stays the same while it runs.

    `plan` is the hash of its Plan; `example_count` and `held_out_count` are examples, `batch_size`
    those of a step; `start_step` is the number of steps done before. `end_step` is the step to stop
    at, -1 for none. `learning_rates` is a blob of a learning rate for each step from `start_step`
    on, "" where one number is set. `betas` are Adam's, of whose moving means a step is given the
    corrections. `inputs` and `held_out_inputs` are keys of the Plan's inputs by what they are, and
    so are the keys of what a step gives: see `TrainingGraph`. `state_names` are the names of all
    that changes, in the order in which it is saved.
    """

    plan: Name
    loss: str
    optimizer: str
    batch_size: Count
    example_count: Count
    held_out_count: Count
    start_step: Count
    end_step: int
    shuffle: bool
    seed: Count
    has_accuracy: bool
    learning_rates: Name
    betas: tuple[float, ...]
    columns: tuple[Column, ...]
    inputs: dict[str, str]
    held_out_inputs: dict[str, str]
    loss_key: str
    held_out_key: str
    prediction_key: str
    update_ratios_key: str
    dead_units_key: str
    trained_parameters: tuple[str, ...]
    relu_layers: tuple[str, ...]
    gradients: dict[str, str]
    state_names: tuple[str, ...]
    frozen: tuple[str, ...] = ()


MAX_MARKS = 100  # of a training; the first ones go
MARK_MERGE_STEPS = 20  # steps within which changes of the same kind get one mark


class EditMark(msgspec.Struct, frozen=True):
    """What was changed by hand behind `step` steps, in words."""

    step: Count
    text: str


class TrainingRecord(msgspec.Struct, frozen=True):
    """A training as pages and Python tell it each other.

    `config` names the blob of its TrainingConfig. The page `owner` runs it; "": whoever sees it
    first. "handing": the owner finishes its step, gives Python its state and waits; Python answers
    with the next `swap_count`, which begins with the Plan's weights, those behind `start_step`
    steps. `history` is a blob of what was told before them: see `LossHistory`. `pause_at` is the
    step at which it pauses, -1 for none. `noise` is the standard deviation of what is added to
    inputs. `batch_size` (0: the TrainingConfig's) and `frozen`, names of parameters, are what is
    wanted: Python hands over another TrainingConfig for them. `failed_layer` is the layer whose
    values first became NaN or infinite. `is_mirror`: a loop in Python trains, and pages follow it;
    nothing else of it can be wanted then.
    """

    id: Name
    config: Name
    state: TrainingState
    lr: float
    noise: float = 0.0
    owner: Name = ""
    pause_at: int = -1
    swap_count: Count = 0
    start_step: Count = 0
    history: Name = ""
    batch_size: Count = 0
    frozen: tuple[str, ...] = ()
    marks: tuple[EditMark, ...] = ()
    failed_layer: str = ""
    is_mirror: bool = False
