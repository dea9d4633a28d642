"""Messages of a page that trains."""

from __future__ import annotations

import msgspec

from nbglcnn.features.training.records import Column, TrainingConfig, TrainingRecord
from nbglcnn.protocol import Count, Messages, Name, Text


class StepReport(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower):
    """Steps that a page has done of a training, from step `first_step` on.

    The message's only buffer has two float32 for each: the loss, and the share of right answers
    (NaN where there are no classes). `held_out` are rows of steps done, loss and that share,
    of what is held out; None is NaN or infinite, for which JSON has no word. `message` says why it
    has stopped by itself, or goes on from an earlier step. `failed_examples` are the examples of a
    batch that gave NaN or infinite numbers, which stopped it, and `step_scalars` the scalars of
    that step by what they are. `paused`: behind the last step it has paused by itself, which the
    trait says too, but only to a kernel that runs no cell. `is_remote`: another page trains, and
    this one only says that it sees that.
    """

    page: Name
    training: Name
    first_step: Count
    held_out: tuple[tuple[Count, float | None, float | None], ...] = ()
    message: Text = ""
    failed_examples: tuple[Count, ...] = ()
    step_scalars: dict[str, float] = {}
    paused: bool = False
    is_remote: bool = False


class StateChunk(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower):
    """One part of the state of a training behind `step` steps, in the message's only buffer.

    All that changes, in its TrainingConfig's order, as float32. `is_last`: it has ended with it;
    `awaits_swap`: the page waits for another TrainingConfig.
    """

    page: Name
    training: Name
    step: Count
    chunk_index: Count
    chunk_count: Count
    total_bytes: Count
    is_last: bool = False
    awaits_swap: bool = False


MESSAGES = Messages(
    from_page=(StepReport, StateChunk), records=(TrainingRecord, TrainingConfig, Column)
)
