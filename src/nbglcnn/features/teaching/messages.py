"""The message by which a page changes a lesson."""

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
    """One chunk of a page's change of a lesson, with its data in the message's only buffer.

    Each page numbers its changes from 1. A change without data has one empty chunk.
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
