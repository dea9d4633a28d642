"""The Jupyter widget: the Viewer and its pages. The only folder that imports anywidget."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nbglcnn.widget.viewer import Viewer as Viewer

__all__ = ["Viewer"]


def __getattr__(name: str) -> Any:
    # Lazy: message types are generated before the bundle exists that the Viewer needs.
    if name != "Viewer":
        raise AttributeError(f"module 'nbglcnn.widget' has no attribute {name!r}")
    from nbglcnn.load.torch.preimport import preimport
    from nbglcnn.notebook.blocking import running_kernel
    from nbglcnn.widget.viewer import Viewer

    if running_kernel() is not None:
        preimport()
    return Viewer
