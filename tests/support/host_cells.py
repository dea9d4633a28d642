"""Helpers for the cells of `make hosts`, imported into each host's kernel."""

import time
from collections.abc import Callable
from typing import Any

import anywidget
import numpy as np
import torch
import traitlets
from PIL import Image

import nbglcnn
from assertions import assert_equal
from nbglcnn import Viewer
from source_references import average_drawing_cells, fit_with_pillow, reference_noise
from viewer_models import autoencoder, hook_values, pictures


class PressButton(anywidget.AnyWidget):
    """A button: each press sends a message and changes a trait."""

    _esm = """
    function render({ model, el }) {
      const button = document.createElement("button");
      button.textContent = model.get("label");
      button.className = "press";
      button.addEventListener("click", () => {
        model.send({ pressed: true });
        model.set("presses", model.get("presses") + 1);
        model.save_changes();
      });
      el.append(button);
    }
    export default { render };
    """
    label = traitlets.Unicode("").tag(sync=True)
    presses = traitlets.Int(0).tag(sync=True)


def result_or_error(read: Callable[[], Any]) -> Any:
    """Return the callback's result, or the exception that the host would swallow."""
    try:
        return read()
    except Exception as error:
        return error


def assert_values(values: dict[str, np.ndarray], seed: int, *, scale: float = 1) -> None:
    """Fail unless the values equal those that PyTorch's hooks record."""
    expected = hook_values(autoencoder(seed), pictures(seed) * np.float32(scale))
    for name, value in values.items():
        if isinstance(value, Exception):
            raise value
        assert_equal(value, expected[name], name=name)


def assert_all_values(values: dict[str, np.ndarray], seed: int) -> None:
    """Fail unless the values are all values of the network and equal PyTorch's."""
    assert set(values) == set(hook_values(autoencoder(seed), pictures(seed)))
    assert_values(values, seed)


def assert_bent_output(viewer: Viewer, seed: int) -> None:
    """Fail unless the output equals PyTorch's for the model with the Viewer's bends applied."""
    with torch.no_grad():
        expected = nbglcnn.apply_bends(autoencoder(seed), viewer.bends)(
            torch.from_numpy(pictures(seed))
        )
    assert_equal(viewer.output, expected.numpy(), name="output")


def assert_input(viewer: Viewer, seed: int, expected: np.ndarray, *, within: float = 0) -> None:
    """Fail unless the input is `expected` to `within` and the page's output follows from it."""
    x, output = viewer.input, viewer.output
    assert_page_computes(viewer)
    assert x.dtype == np.float32 and x.shape == pictures(seed, 1).shape
    max_difference = np.abs(x - expected).max()
    assert max_difference <= within, f"{max_difference} apart"
    assert_equal(output, hook_values(autoencoder(seed), x)["output"])


def assert_picture_input(viewer: Viewer, seed: int, path: str, *, mirrored: bool = False) -> None:
    """Check the input against a picture file resized by Pillow; the GPU rounds to 8 bits."""
    expected = fit_with_pillow(Image.open(path), viewer.input.shape, mirrored)
    assert expected.any(), "something is shown"
    assert_input(viewer, seed, expected, within=1.01 / 255)


def assert_drawing_input(viewer: Viewer, seed: int, path: str) -> None:
    """Check the input against a drawing in a file."""
    drawn = average_drawing_cells(Image.open(path), viewer.input.shape)
    assert np.ptp(drawn) > 0.9, "something is drawn"
    assert_input(viewer, seed, drawn, within=1e-6)


def assert_noise_input(viewer: Viewer, seed: int) -> None:
    """Check the input bit for bit against the formula of the active noise source."""
    noise, x = viewer.source, pictures(seed, 1)
    expected = reference_noise(x.size, noise.seed, noise.mean, noise.std).reshape(x.shape)
    assert_input(viewer, seed, expected)


def assert_latent_output(viewer: Viewer, seed: int, data: np.ndarray) -> None:
    """Fail unless a latent's codes and the output decoded from its code equal PyTorch's."""
    latent, model = viewer.source, autoencoder(seed)
    with torch.no_grad():
        codes = model.encoder(torch.from_numpy(data))
        output = model.decoder(torch.from_numpy(latent.code).reshape(1, *codes.shape[1:]))
    assert_equal(latent.codes, codes.flatten(1).numpy(), name=latent.layer)
    assert_equal(viewer.output, output.numpy(), name="output")
    assert_page_computes(viewer)


def assert_page_computes(viewer: Viewer) -> None:
    """Fail unless values come from the page's GPU."""
    source = viewer.activations.source
    assert source.startswith("page (WebGL2: "), source


def drop_replies(viewer: Viewer, seconds: float) -> None:
    """Drop the page's replies for some seconds, like an unreliable connection."""
    connection = viewer._connection
    take, until = type(connection)._handle_reply, time.monotonic() + seconds

    def lose(*given: Any) -> None:
        if time.monotonic() >= until:
            take(connection, *given)

    connection._handle_reply = lose  # type: ignore[method-assign]


def restore_replies(viewer: Viewer) -> None:
    """Undo `drop_replies`."""
    viewer._connection.__dict__.pop("_handle_reply", None)
