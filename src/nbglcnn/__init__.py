"""Run convolutional networks on the GPU in a notebook, and read every layer as a numpy array."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from nbglcnn.api import check as check
    from nbglcnn.api import compile as compile
    from nbglcnn.api import verify as verify
    from nbglcnn.features.compare.comparison import compare as compare
    from nbglcnn.features.edits.apply_bends import apply_bends as apply_bends
    from nbglcnn.features.export.export import export_html as export_html
    from nbglcnn.features.latent.latent import Latent as Latent
    from nbglcnn.features.mirror.host import mirror as mirror
    from nbglcnn.features.sources.drawing import Drawing as Drawing
    from nbglcnn.features.sources.images import Images as Images
    from nbglcnn.features.sources.noise import Noise as Noise
    from nbglcnn.features.sources.video import Video as Video
    from nbglcnn.features.sources.webcam import Webcam as Webcam
    from nbglcnn.features.training import SGD as SGD
    from nbglcnn.features.training import Adam as Adam
    from nbglcnn.features.training import AdamW as AdamW
    from nbglcnn.features.training import train as train
    from nbglcnn.gradients.gradient import gradient as gradient
    from nbglcnn.inputs.preprocess import Preprocess as Preprocess
    from nbglcnn.plan.schema import Plan as Plan
    from nbglcnn.plan.schema import Target as Target
    from nbglcnn.recording import record as record
    from nbglcnn.runtime.session import Session as Session
    from nbglcnn.widget import Viewer as Viewer

# Lazy imports: `import nbglcnn` loads neither torch nor onnx nor OpenGL.
_MODULES = {
    "Adam": "features.training",
    "AdamW": "features.training",
    "Drawing": "features.sources.drawing",
    "Images": "features.sources.images",
    "Latent": "features.latent.latent",
    "Noise": "features.sources.noise",
    "Plan": "plan.schema",
    "Preprocess": "inputs.preprocess",
    "SGD": "features.training",
    "Session": "runtime.session",
    "Target": "plan.schema",
    "Video": "features.sources.video",
    "Viewer": "widget",
    "Webcam": "features.sources.webcam",
    "apply_bends": "features.edits.apply_bends",
    "check": "api",
    "compare": "features.compare.comparison",
    "compile": "api",
    "export_html": "features.export.export",
    "gradient": "gradients.gradient",
    "mirror": "features.mirror.host",
    "record": "recording",
    "train": "features.training",
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
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        from nbglcnn.errors import suggest_names

        raise AttributeError(
            f"module 'nbglcnn' has no attribute {name!r}{suggest_names(name, __all__)}"
        )
    return getattr(import_module(f"nbglcnn.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
