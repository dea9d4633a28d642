"""What a Viewer offers its pages: made by the network, sent by the connection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass
class AssetManifest:
    """What the pages shall show: the Manifest but for its revision, and its blobs by hash."""

    plan: str
    weights: tuple[str, ...]
    inputs: tuple[str, ...]
    blobs: Mapping[str, memoryview]
    snapshot: str = ""
    classes: str = ""
    injected: tuple[str, ...] = ()
