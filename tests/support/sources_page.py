"""The views of a network whose input comes from a source, and the inputs it received."""

import base64
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from nbglcnn import Plan
from nbglcnn.features.sources.source_kinds import Source
from views_page import ViewsPage
from webgl_page import decode

# Drops a file on the drawer or pastes it into the Viewer.
DROP_OR_PASTE_SCRIPT = """([how, text, name, type]) => {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const transfer = new DataTransfer();
  if (type === '') transfer.setData('text/uri-list', 'http://127.0.0.1/a.png');
  else transfer.items.add(new File([bytes], name, { type }));
  const at = document.querySelector(how === 'drop' ? '.nbg-drawer' : '.nbglcnn');
  at.dispatchEvent(how === 'drop'
    ? new DragEvent('drop', { dataTransfer: transfer, bubbles: true, cancelable: true })
    : new ClipboardEvent('paste', { clipboardData: transfer, bubbles: true, cancelable: true }));
}"""


class SourcesPage:
    """The views of a network, with sources that feed its first input."""

    def __init__(self, views: ViewsPage, plan: Plan) -> None:
        self.views = views
        self.page = views.page
        self.input_key = plan.header.inputs[0]
        self.page.evaluate("() => { globalThis.stop = views.feeds(); }")

    def add_blob(self, name: str, content: bytes) -> None:
        """Add a blob that Python would serve."""
        self.page.evaluate("a => views.put(...a)", [name, base64.b64encode(content).decode()])

    def add_dataset(
        self,
        images: np.ndarray,
        block_size: int,
        labels: Sequence[int] = (),
        names: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Add the blocks of a data set; return the fields of its record."""
        for k in range(-(-len(images) // block_size)):
            self.add_blob(f"set.{k}", images[k * block_size : (k + 1) * block_size].tobytes())
        if labels:
            self.add_blob("set.labels", msgspec.json.encode(list(map(int, labels))))
        if names:
            self.add_blob("set.classes", msgspec.json.encode(list(names)))
        return {
            "data": "set", "count": len(images), "block_size": block_size,
            "dtype": str(images.dtype),
            "labels": "set.labels" if labels else "", "classes": "set.classes" if names else "",
        }  # fmt: skip

    def set_source(self, kind: str, **fields: Any) -> None:
        """Set the source as Python does."""
        given = {"kind": kind, "input": self.input_key.key, **fields}
        self.views.set(source=msgspec.to_builtins(msgspec.convert(given, Source)))

    @property
    def source(self) -> dict[str, Any]:
        return dict(self.views.get("source"))

    def open_drawer(self) -> None:
        """Open the drawer by its button."""
        self.page.locator(".nbg-chosen-source").click()

    def wait_input_count(self, count: int) -> None:
        """Wait until at least `count` pictures have been fed in total."""
        self.page.wait_for_function("n => views.fed.count >= n", arg=count)

    def wait_phase(self, phase: str) -> None:
        self.page.wait_for_function(
            "phase => views.state.sourceStatus.value.phase === phase", arg=phase
        )

    @property
    def input_count(self) -> int:
        """The number of pictures fed so far."""
        return int(self.page.evaluate("() => views.fed.count"))

    @property
    def last_input(self) -> np.ndarray:
        """The last input fed."""
        found = decode(self.page.evaluate("k => views.input(k)", self.input_key.key))
        return found.reshape(self.input_key.shape)
