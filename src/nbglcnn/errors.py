"""The exceptions of nbglcnn: each message names the object, the problem and the remedy."""

import difflib
import errno
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

VIEWER_CLOSED_MESSAGE = "this Viewer was closed; create another one"
NO_SHARED_NAMES: Mapping[str, Sequence[str]] = {}


class NbglcnnError(Exception):
    """Base class of all exceptions that nbglcnn raises deliberately."""


class ModelError(NbglcnnError):
    """The model cannot be used: not a model, a damaged or unsafe file, or a broken graph."""


class UnsupportedModel(ModelError):
    """The model is valid, but cannot run as it is: in training mode, on a GPU, or too large.

    Attributes:
        module: The path of the innermost PyTorch module that causes the error, if Python could
            compute that module; otherwise `""`.
    """

    module = ""  # path of the innermost PyTorch module that fails, if Python could compute it


class UnsupportedOperator(UnsupportedModel):
    """A layer uses an operator, or an attribute of one, that has no shader."""


class InputError(NbglcnnError, ValueError):
    """An input, weight or argument has the wrong shape, type, device or value, or is missing."""


class PageError(NbglcnnError):
    """The page that runs the network could not reply."""


class PageNotConnected(PageError):
    """No page has shown this Viewer yet, or its page was closed."""


class PageTimeout(PageError, TimeoutError):
    """A page is connected but did not reply in time."""


class ContextLost(PageError):
    """The browser lost the WebGL context while a call needed it."""


class DeviceError(PageError):
    """The graphics device cannot run the network: no WebGL 2, no float textures, or too small."""


class OpenGLUnavailable(NbglcnnError):
    """Local OpenGL is not available, so a Session cannot run here."""


class SessionClosed(NbglcnnError):
    """The Session is closed, and its memory on the device is freed."""


class DatasetUnavailable(NbglcnnError):
    """The images of a data set are not on this machine, or one of its files is damaged."""


def suggest_names(name: object, names: Iterable[str]) -> str:
    """Return the hint for an unknown name: the nearest known names, or ""."""
    close = difflib.get_close_matches(str(name), list(names), 3, 0.5)
    return f" (near: {', '.join(close)})" if close else ""


def unknown_name_message(
    key: object,
    names: Sequence[str],
    kind: str = "value",
    shared: Mapping[str, Sequence[str]] = NO_SHARED_NAMES,
) -> str:
    """Return the message of a KeyError: the name and the nearest known names.

    `shared` maps the names of modules with several names, which aren't keys, to their keys.
    """
    if isinstance(key, str) and key in shared:
        own = ", ".join(map(repr, shared[key]))
        return f"{key!r} is a shared module; its values are named {own}"
    close = difflib.get_close_matches(str(key), names, 3, 0.4)
    if close:
        return f"{key!r} is not a {kind} of this network; near: {', '.join(map(repr, close))}"
    some = ", ".join(map(repr, names[:8])) + (", …" if len(names) > 8 else "")
    return f"{key!r} is not a {kind} of this network; there are {len(names)}: {some}"


def check_output_path(path: str | os.PathLike[str]) -> Path:
    """Return an output path; TypeError or OSError if it can't be a file's."""
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path: expected a file path, not {type(path).__name__}")
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(
            errno.EISDIR, "this is a folder; give a file name in it", str(target)
        )
    if not target.absolute().parent.is_dir():
        words = "the folder does not exist; create it first"
        raise FileNotFoundError(errno.ENOENT, words, str(target.parent))
    return target


# Modules whose frames are skipped to find the user's line: setting a trait runs our code.
_INTERNAL_MODULES = ("nbglcnn.", "traitlets.")


def user_stacklevel() -> int:
    """Return the stack level of the user's own line, for a warning that the caller raises."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(
        _INTERNAL_MODULES
    ):
        frame, level = frame.f_back, level + 1
    return level
