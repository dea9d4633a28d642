"""The message with the weights of a loop in Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec
import numpy as np

from nbglcnn.plan.schema import Float32
from nbglcnn.protocol import Count, Messages, Name, chunk_count, split_chunks


class MirrorFrame(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower):
    """An update from revision `base` to `revision`: a Python loop's weights after `step` steps.

    `textures` are the numbers of the changed weight textures. The message's only buffer starts, in
    the first chunk only, with the losses of `loss_rows` steps from step `first_step` on, two
    float32 each as in StepReport. Then follows one of `chunk_count` chunks of the textures'
    concatenated contents. `held_out` are rows as in StepReport.
    """

    training: Name
    base: Count
    revision: Count
    textures: tuple[Count, ...]
    chunk_index: Count
    chunk_count: Count
    step: Count
    first_step: Count
    loss_rows: Count
    held_out: tuple[tuple[Count, float | None, float | None], ...] = ()


MESSAGES = Messages(from_kernel=(MirrorFrame,))


def split_frame(
    training_id: str,
    texture_indices: Sequence[int],
    texture_values: Float32,
    step: int,
    first_step: int,
    loss_rows: Float32,
    held_out_rows: Sequence[tuple[int, float | None, float | None]],
) -> Callable[[int, int], Iterator[tuple[MirrorFrame, memoryview]]]:
    """Return a function that splits a loop's weights into messages for `Connection.send_update`."""

    def messages(base: int, revision: int) -> Iterator[tuple[MirrorFrame, memoryview]]:
        data = texture_values.view(np.uint8).data
        for part, piece in split_chunks(data):
            own = loss_rows if part == 0 else loss_rows[:0]
            message = MirrorFrame(
                training_id, base, revision, tuple(texture_indices), part, chunk_count(len(data)),
                step,
                first_step, len(own), tuple(held_out_rows),
            )  # fmt: skip
            yield message, memoryview(b"".join((own.tobytes(), piece)))

    return messages
