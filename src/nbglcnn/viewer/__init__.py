"""The widget: what the user sees and asks. The only folder that imports anywidget."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nbglcnn.viewer.viewer import Viewer as Viewer

__all__ = ["Viewer"]


def __getattr__(name: str) -> Any:
    # The messages' types are generated before the bundle is there that the Viewer wants.
    if name != "Viewer":
        raise AttributeError(f"module 'nbglcnn.viewer' has no attribute {name!r}")
    from nbglcnn.load.torch.ahead import import_ahead
    from nbglcnn.viewer.blocking import kernel
    from nbglcnn.viewer.viewer import Viewer

    if kernel() is not None:
        import_ahead()
    return Viewer
