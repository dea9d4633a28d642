"""Export of a Viewer as an HTML page: `viewer.to_html`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nbglcnn.errors import InputError, check_output_path
from nbglcnn.features.export import export
from nbglcnn.features.feature import ViewerHost
from nbglcnn.plan.schema import Precision


def write_viewer_page(
    host: ViewerHost,
    path: str | os.PathLike[str],
    *,
    title: str | None,
    text: str,
    steps: Sequence[Mapping[str, Any]],
    precision: Precision | None,
    traits: dict[str, Any],
    train: Mapping[str, Any] | bool | None,
    teach: Sequence[str] | Mapping[str, Any] | bool | None,
) -> Path:
    """Write the page, including the state of the Viewer's features; return its path."""
    target = check_output_path(path)
    sources, training = host.find_host("sources"), host.find_host("training")
    if train is True:
        train = None if training is None else training.arguments
        if train is None:
            raise InputError(
                'train=True: this Viewer has no training. Give the training data: train={"data": '
                'images, "loss": "mse"}'
            )
    if sources is not None:
        sources.feed.adopt_now()
    content = export.build_page(
        host.network,
        title=title,
        text=text,
        steps=steps,
        precision=precision,
        traits=traits,
        source=(None, None) if sources is None else sources.export_source(),
        train=None if train is False else train,
        teach=host.require_host("teaching").export_lesson() if teach is True else teach or None,
    )
    return export.write_atomic(target, content)
