"""The manifest of a Viewer's assets: built by the network, sent by the connection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass
class AssetManifest:
    """The state for pages to show: the Manifest without its revision, and its blobs by hash."""

    plan: str
    weights: tuple[str, ...]
    inputs: tuple[str, ...]
    blobs: Mapping[str, memoryview]
    snapshot: str = ""
    classes: str = ""
    injected: tuple[str, ...] = ()
