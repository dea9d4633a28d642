"""The manifest of a Viewer's assets: built by the network, sent by the connection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass
class AssetManifest:
    """The state for pages to show: the Manifest without its revision, and its blobs by hash."""

    plan_hash: str
    weight_hashes: tuple[str, ...]
    input_hashes: tuple[str, ...]
    blobs: Mapping[str, memoryview]
    snapshot_hash: str = ""
    class_names_hash: str = ""
    injected_hashes: tuple[str, ...] = ()
