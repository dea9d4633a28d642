"""Messages from a page that trains."""

from __future__ import annotations

import msgspec

from nbglcnn.features.training.records import Column, TrainingConfig, TrainingRecord
from nbglcnn.protocol import Count, Messages, Name, Text


class StepReport(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower):
    """The results of steps that a page has run, from step `first_step` on.

    The message's only buffer has two float32 per step: the loss and the accuracy (NaN if the
    targets are not classes). Each row of `held_out` has the steps done, the held-out loss and the
    held-out accuracy; None is NaN or infinity, which JSON cannot represent. `message` is the reason
    why the training stopped by itself, or continued from an earlier step. `failed_examples` are the
    examples of a batch that produced NaN or infinity, which stopped the training; `step_scalars`
    are the scalars of that step by role. `paused`: the page paused by itself after the last step.
    The trait has the same state, but reaches the kernel only while it runs no cell. `is_remote`:
    another page trains, and this page only reports that it sees the training.
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
    """One chunk of the training state after `step` steps, in the message's only buffer.

    The state is all changing tensors, in the TrainingConfig's order, as float32. `is_last`: the
    training has ended with this state; `awaits_swap`: the page waits for another TrainingConfig.
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
