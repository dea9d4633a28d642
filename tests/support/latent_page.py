"""The latent workbench of a page that shows one network, and the data that tests use."""

from __future__ import annotations

import base64
from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import torch
from playwright.sync_api import Page

import nbglcnn
from fashion_autoencoder import load_autoencoder, load_images
from nbglcnn import Latent, datasets
from nbglcnn.features.latent import host as latents
from nbglcnn.features.sources.input_source import SourceBlobs
from nbglcnn.widget.network import Network
from views_page import ViewsPage

CLASS_NAMES = list(datasets.FASHION_MNIST_CLASSES)


@cache
def trained_autoencoder_data() -> SimpleNamespace:
    """The trained autoencoder with its test pictures, and many noisy copies of them."""
    model, (images, labels) = load_autoencoder(), load_images()
    network = Network(model, images[:1], observe="all", precision="float32")
    with torch.inference_mode():
        codes = model.encoder(torch.from_numpy(images)).flatten(1).numpy()
    return SimpleNamespace(
        model=model,
        images=images,
        labels=labels,
        network=network,
        codes=codes,
        plan=nbglcnn.compile(model, images[:1]),
    )


def decode(model: torch.nn.Module, code: Any) -> np.ndarray:
    """Decode a code with PyTorch's decoder."""
    array = torch.from_numpy(np.asarray(code, np.float32).reshape(1, 16, 1, 1))
    with torch.inference_mode():
        return model.decoder(array).numpy()


def serve_blobs(views: ViewsPage, blobs: SourceBlobs) -> None:
    """Provide the blobs that a page requests."""
    for name in blobs.blob_names():
        blob = blobs.blob(name) or b""
        views.page.evaluate("a => views.put(...a)", [name, base64.b64encode(blob).decode()])


def open_workbench(
    show: Callable[..., ViewsPage], width: int = 1200, latent: Latent | None = None
) -> ViewsPage:
    """Open a page with the autoencoder and a latent as its source."""
    found = trained_autoencoder_data()
    given = latent or Latent("encoder.6", found.images, found.labels, CLASS_NAMES)
    opened, blobs = latents.open_latent(found.network, given)
    source = msgspec.structs.replace(opened.to_record(given.layer), **blobs.record_fields())
    views = show(found.plan, found.images[:1], width=width)
    # Everything fits the viewport: the mouse can't reach anything outside.
    views.page.set_viewport_size({"width": width, "height": 1500 if width > 500 else 2600})
    serve_blobs(views, blobs)
    if blobs.dataset is not None:
        serve_blobs(views, blobs.dataset[1])
    views.page.evaluate("() => { views.bench(); }")
    views.set(source=msgspec.to_builtins(source))
    views.page.wait_for_selector(".nbg-latent-ring")
    views.wait_idle()
    return views


def read_output(page: Page) -> np.ndarray:
    """Read the network's output from the page."""
    read = "async () => Array.from(await views.state.session.value.read('output'))"
    return np.array(page.evaluate(read), np.float32).reshape(1, 1, 28, 28)


def current_code(page: Page) -> np.ndarray:
    """The current code."""
    now = "() => views.state.latentCode.value ?? views.state.source.value.code"
    return np.array(page.evaluate(now), np.float32)
