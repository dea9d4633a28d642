"""Every exception nbglcnn raises on purpose: it names the thing, what was found, what to do."""

import difflib
import errno
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

VIEWER_CLOSED_MESSAGE = "this Viewer was closed; make another one"
NO_SHARED_NAMES: Mapping[str, Sequence[str]] = {}


class NbglcnnError(Exception):
    """Base of all errors that nbglcnn raises on purpose."""


class ModelError(NbglcnnError):
    """The model cannot be used: a file that is not ONNX, a broken graph, an unsafe path."""


class UnsupportedModel(ModelError):
    """The model is valid, but nbglcnn cannot run it as it is."""

    module = ""  # path of the innermost PyTorch module that it is about, if Python could compute it


class UnsupportedOperator(UnsupportedModel):
    """A layer uses an operator, or an attribute of one, that has no shader."""


class InputError(NbglcnnError, ValueError):
    """An array given as input has the wrong shape, type or device."""


class PageError(NbglcnnError):
    """The notebook page that runs the network could not answer."""


class PageNotConnected(PageError):
    """No page has ever shown this Viewer, or the one that did is gone."""


class PageTimeout(PageError, TimeoutError):
    """A page is connected and did not answer in time."""


class ContextLost(PageError):
    """The browser took the graphics context away while it was needed."""


class DeviceError(PageError):
    """The graphics device cannot run the network: no WebGL 2, no float textures, too small."""


class OpenGLUnavailable(NbglcnnError):
    """No local OpenGL: Session cannot run here."""


class SessionClosed(NbglcnnError):
    """The Session was closed; what it had on the device is gone."""


class DatasetUnavailable(NbglcnnError):
    """The images of a data set are not on this machine, or a file of it is damaged."""


def suggest_names(name: object, names: Iterable[str]) -> str:
    """What a message adds to a name that isn't there: the nearest that are, or nothing."""
    close = difflib.get_close_matches(str(name), list(names), 3, 0.5)
    return f" (near: {', '.join(close)})" if close else ""


def unknown_name_message(
    key: object,
    names: Sequence[str],
    kind: str = "value",
    shared: Mapping[str, Sequence[str]] = NO_SHARED_NAMES,
) -> str:
    """The words of a KeyError: the name, and the nearest that there are.

    `shared` has the keys of modules that have several names, by the names without a key.
    """
    if isinstance(key, str) and key in shared:
        own = ", ".join(map(repr, shared[key]))
        return f"{key!r} is a module that has another name, too, under which its values are: {own}"
    close = difflib.get_close_matches(str(key), names, 3, 0.4)
    if close:
        return f"{key!r} is not a {kind} of this network; near: {', '.join(map(repr, close))}"
    some = ", ".join(map(repr, names[:8])) + (", …" if len(names) > 8 else "")
    return f"{key!r} is not a {kind} of this network; there are {len(names)}: {some}"


def check_output_path(path: str | os.PathLike[str]) -> Path:
    """The path of a file that will be written; an OSError where it can't be one's."""
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path: the path of a file to write is needed, not {type(path).__name__}")
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "this is a folder; name a file in it", str(target))
    if not target.absolute().parent.is_dir():
        words = "there is no such folder to write into; make it first"
        raise FileNotFoundError(errno.ENOENT, words, str(target.parent))
    return target


# Whose frames stand between a warning and the line that it is about: setting a trait runs our code.
_INTERNAL_MODULES = ("nbglcnn.", "traitlets.")


def user_stacklevel() -> int:
    """The stack level of the user's own line, for a warning raised by the caller."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(
        _INTERNAL_MODULES
    ):
        frame, level = frame.f_back, level + 1
    return level
