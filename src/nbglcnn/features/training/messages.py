"""Messages of a page that trains."""

from __future__ import annotations

import msgspec

from nbglcnn.features.training.records import Column, Course, TrainingRecord
from nbglcnn.protocol import Count, Messages, Name, Text


class Stepped(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower):
    """Steps that a page has done of a training, from step `first` on.

    The message's only buffer has two float32 for each: the loss, and the share of right answers
    (NaN where there are no classes). `held_out` are rows of steps done, loss and that share, of
    what is held out; None is NaN or infinite, for which JSON has no word. `message` says why it has
    stopped by itself, or goes on from an earlier step.
    `failed` are the examples of a batch that gave NaN or infinite numbers, which stopped it, and
    `numbers` the scalars of that step by what they are. `paused`: behind the last step it has
    paused by itself, which the trait says too, but only to a kernel that runs no cell. `elsewhere`:
    another page trains, and this one only says that it sees that.
    """

    page: Name
    training: Name
    first: Count
    held_out: tuple[tuple[Count, float | None, float | None], ...] = ()
    message: Text = ""
    failed: tuple[Count, ...] = ()
    numbers: dict[str, float] = {}
    paused: bool = False
    elsewhere: bool = False


class Saved(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower):
    """One part of the state of a training behind `step` steps, in the message's only buffer.

    All that changes, in its Course's order, as float32. `last`: it has ended with it; `handing`:
    the page waits for another Course.
    """

    page: Name
    training: Name
    step: Count
    part: Count
    count: Count
    bytes: Count
    last: bool = False
    handing: bool = False


MESSAGES = Messages(from_page=(Stepped, Saved), records=(TrainingRecord, Course, Column))
