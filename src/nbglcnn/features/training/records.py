"""Records of a training that pages and Python exchange; the source of TypeScript's types."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Name = Annotated[str, Meta(max_length=64)]
Count = Annotated[int, Meta(ge=0, le=2**31)]
TrainingState = Literal["running", "paused", "handing", "stopped"]


class Column(msgspec.Struct, frozen=True):
    """One array of a data set: a model input by its key, or "target".

    `blob` and `held_out` are names of blobs: the rows in order, of type `dtype`. The network's
    input is the stored value times `scale`.
    """

    key: str
    shape: tuple[int, ...]
    dtype: Literal["uint8", "float32"]
    scale: float
    blob: Name
    held_out: Name = ""


class TrainingConfig(msgspec.Struct, frozen=True):
    """The part of a training that stays constant while it runs.

    `plan` is the hash of its Plan. `example_count` and `held_out_count` count examples;
    `batch_size` is the examples per step. `start_step` is the number of steps done before,
    `end_step` the step to stop at (-1 for none). `learning_rates` is a blob with the learning rate
    of each step from `start_step` on; "" if the rate is a single number. `betas` are Adam's, from
    which the bias corrections of a step are computed. `inputs` and `held_out_inputs` map roles to
    keys of the Plan's inputs; the other keys name results of a step: see `TrainingGraph`.
    `state_names` are the names of all changing tensors, in the order in which they are saved.
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


MAX_MARKS = 100  # per training; the oldest are dropped
MARK_MERGE_STEPS = 20  # changes of the same kind within so many steps share one mark


class EditMark(msgspec.Struct, frozen=True):
    """A description of what the user changed after `step` steps."""

    step: Count
    text: str


class TrainingRecord(msgspec.Struct, frozen=True):
    """The state of a training that pages and Python exchange.

    `config` names the blob of its TrainingConfig. The page `owner` runs the training; "" until the
    first page sees it. In state "handing" the owner finishes its step, sends its state to Python
    and waits; Python replies with the next `swap_count`, whose Plan has the weights after
    `start_step` steps. `history` is a blob of the earlier results: see `LossHistory`. `pause_at` is
    the step at which the training pauses, -1 for none. `noise` is the standard deviation of the
    noise that is added to inputs. `batch_size` (0: the TrainingConfig's) and `frozen`, names of
    parameters, are requested settings: Python sends another TrainingConfig for them. `failed_layer`
    is the first layer whose values became NaN or infinite. `is_mirror`: a loop in Python trains,
    and pages only follow it; they cannot change its settings.
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
