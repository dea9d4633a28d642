"""What the cells of `make hosts` use, in the kernel of each host."""

import time
from collections.abc import Callable
from typing import Any

import anywidget
import numpy as np
import torch
import traitlets

import nbglcnn
from equal import assert_equal
from nbglcnn import Viewer
from viewer_models import autoencoder, hooked, pictures


class Press(anywidget.AnyWidget):
    """A button: a press is a message and a changed trait."""

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


def attempt(read: Callable[[], Any]) -> Any:
    """What a callback reads, or the exception that a host would have swallowed."""
    try:
        return read()
    except Exception as error:
        return error


def agree(values: dict[str, np.ndarray], seed: int, *, scale: float = 1) -> None:
    """Fail unless these are the numbers that PyTorch's hooks see."""
    expected = hooked(autoencoder(seed), pictures(seed) * np.float32(scale))
    for name, value in values.items():
        if isinstance(value, Exception):
            raise value
        assert_equal(value, expected[name], name=name)


def agree_whole(values: dict[str, np.ndarray], seed: int) -> None:
    """The same, of every value that the network has."""
    assert set(values) == set(hooked(autoencoder(seed), pictures(seed)))
    agree(values, seed)


def agree_bent(viewer: Viewer, seed: int) -> None:
    """Fail unless the output is that of the model with the Viewer's bends, replayed in PyTorch."""
    with torch.no_grad():
        expected = nbglcnn.apply_bends(autoencoder(seed), viewer.bends)(
            torch.from_numpy(pictures(seed))
        )
    assert_equal(viewer.output, expected.numpy(), name="output")


def of_page(viewer: Viewer) -> None:
    """Fail unless the page computes."""
    source = viewer.activations.source
    assert source.startswith("page (WebGL2: "), source


def hush(viewer: Viewer, seconds: float) -> None:
    """Lose the page's replies for some seconds, as a bad line does."""
    connection = viewer._connection
    take, until = type(connection)._take_reply, time.monotonic() + seconds

    def lose(*given: Any) -> None:
        if time.monotonic() >= until:
            take(connection, *given)

    connection._take_reply = lose  # type: ignore[method-assign]


def unhush(viewer: Viewer) -> None:
    """Undo `hush`."""
    viewer._connection.__dict__.pop("_take_reply", None)
