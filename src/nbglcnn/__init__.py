"""Every layer of a convolutional network, live on the GPU of a notebook and back in numpy."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from nbglcnn.api import check as check
    from nbglcnn.api import compile as compile
    from nbglcnn.api import verify as verify
    from nbglcnn.export import export_html as export_html
    from nbglcnn.gradients import gradient as gradient
    from nbglcnn.plan import Plan as Plan
    from nbglcnn.plan import Target as Target
    from nbglcnn.preprocess import Preprocess as Preprocess
    from nbglcnn.recording import record as record
    from nbglcnn.replay import apply_bends as apply_bends
    from nbglcnn.session import Session as Session
    from nbglcnn.sources import Drawing as Drawing
    from nbglcnn.sources import Images as Images
    from nbglcnn.sources import Latent as Latent
    from nbglcnn.sources import Noise as Noise
    from nbglcnn.sources import Video as Video
    from nbglcnn.sources import Webcam as Webcam
    from nbglcnn.training import SGD as SGD
    from nbglcnn.training import Adam as Adam
    from nbglcnn.training import AdamW as AdamW
    from nbglcnn.training import train as train
    from nbglcnn.viewer import Viewer as Viewer
    from nbglcnn.viewer.comparison import compare as compare
    from nbglcnn.viewer.mirroring import mirror as mirror

# Imported when first used: `import nbglcnn` loads neither torch nor onnx nor OpenGL.
_HOME = {
    "Adam": "training",
    "AdamW": "training",
    "Drawing": "sources",
    "Images": "sources",
    "Latent": "sources",
    "Noise": "sources",
    "Plan": "plan",
    "Preprocess": "preprocess",
    "SGD": "training",
    "Session": "session",
    "Target": "plan",
    "Video": "sources",
    "Viewer": "viewer",
    "Webcam": "sources",
    "apply_bends": "replay",
    "check": "api",
    "compare": "viewer.comparison",
    "compile": "api",
    "export_html": "export",
    "gradient": "gradients",
    "mirror": "viewer.mirroring",
    "record": "recording",
    "train": "training",
    "verify": "api",
    "ContextLost": "errors",
    "DeviceError": "errors",
    "InputError": "errors",
    "ModelError": "errors",
    "NbglcnnError": "errors",
    "OpenGLUnavailable": "errors",
    "PageError": "errors",
    "PageNotConnected": "errors",
    "PageTimeout": "errors",
    "SessionClosed": "errors",
    "UnsupportedModel": "errors",
    "UnsupportedOperator": "errors",
}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        from nbglcnn.errors import nearest

        raise AttributeError(f"module 'nbglcnn' has no attribute {name!r}{nearest(name, __all__)}")
    return getattr(import_module(f"nbglcnn.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
