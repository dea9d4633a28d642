"""Records of sources, as a Viewer and its pages send them."""

from __future__ import annotations

from typing import get_args

from nbglcnn.features.sources.records import SourceRecord
from nbglcnn.features.sources.source_kinds import Source
from nbglcnn.protocol import Messages

MESSAGES = Messages(records=(SourceRecord, *get_args(Source)))
