"""The message of a page that teaches."""

from __future__ import annotations

import msgspec

from nbglcnn.features.teaching.records import (
    ClassifierHead,
    LessonChange,
    LessonSnapshot,
    TeachingRecord,
)
from nbglcnn.protocol import Count, Messages, Name


class LessonUpdate(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower):
    """One part of what a page changes of a teaching, with its data in the message's only buffer.

    The page's changes have numbers, from 1 on. One without data has one empty part.
    """

    page: Name
    teaching: Name
    number: Count
    change: LessonChange
    chunk_index: Count
    chunk_count: Count
    total_bytes: Count


MESSAGES = Messages(
    from_page=(LessonUpdate,),
    records=(TeachingRecord, LessonSnapshot, LessonChange, ClassifierHead),
)
