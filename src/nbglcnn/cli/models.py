"""MODEL: the path of an ONNX file, or a torch module or a factory function in a Python file."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from nbglcnn.cli.console import CommandError
from nbglcnn.errors import suggest_names

if TYPE_CHECKING:
    from nbglcnn import load


@dataclass(frozen=True)
class ModelArgument:
    """A model as the functions of nbglcnn accept it, and its name for messages."""

    wrapped_model: load.Model
    name: str
    is_from_python: bool = False

    @property
    def user_model(self) -> Any:
        """The module, or the file's path, without the preprocess."""
        return self.wrapped_model.user_model

    def output_path(self, suffix: str) -> str:
        """Return a default output path: beside an ONNX file, otherwise in the current folder."""
        place = Path(f"{self.name}.py" if self.is_from_python else self.user_model)
        return str(place.with_suffix(suffix))


def find_model(text: str, preprocess_options: Sequence[tuple[str, Any]] = ()) -> ModelArgument:
    """Load the model that MODEL names, with a Preprocess if there are `preprocess_options`.

    Raises:
        CommandError: If the Python file cannot be imported, or has no such module or function.
    """
    from nbglcnn.inputs.preprocess import Preprocess
    from nbglcnn.load import wrap_model

    given, name, is_python = _resolve_argument(text)
    preprocess = Preprocess(**dict(preprocess_options)) if preprocess_options else None
    return ModelArgument(wrap_model(given, preprocess), name, is_python)


def _resolve_argument(text: str) -> tuple[Any, str, bool]:
    """Return a module or a path, its name, and whether a Python file defines it."""
    file, _, name = text.rpartition(":")
    if file.endswith(".py"):
        return _make_module(Path(file).resolve(), name), name, True
    if text.endswith(".py"):
        path = Path(text).resolve()
        some = _model_candidate_names(_import_file(path))
        has = f"; {path.name} has {', '.join(some[:8])}" if some else ""
        raise CommandError(
            f"name the model in {path.name}: {text}:NAME, where NAME is a torch.nn.Module or a "
            f"function that returns one{has}"
        )
    return text, Path(text).stem, False


def _make_module(path: Path, name: str) -> Any:
    from nbglcnn.load import is_module

    module = _import_file(path)
    if name not in vars(module):
        near = suggest_names(name, _model_candidate_names(module))
        has = "" if near else f"; it has {', '.join(_model_candidate_names(module)[:8]) or 'none'}"
        raise CommandError(f"{path.name} has no {name!r}{near}{has}")
    found = vars(module)[name]
    if is_module(found):
        return found.eval()
    if not callable(found):
        raise CommandError(
            f"{name!r} in {path.name} is of type {type(found).__name__}; expected a "
            "torch.nn.Module, or a function that returns one"
        )
    made = _run_user_code(path, f"{name}()", found)
    if not is_module(made):
        raise CommandError(
            f"{name}() in {path.name} returned a {type(made).__name__}; expected a torch.nn.Module"
        )
    return made.eval()


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise CommandError(f"file not found: {path}")
    # A unique module name: the file may have the name of a package that it imports.
    spec = importlib.util.spec_from_file_location(f"nbglcnn_model_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, str(path.parent))  # as Python does when it runs the file
    loader = spec.loader
    _run_user_code(path, "importing it", lambda: loader.exec_module(module))
    return module


def _run_user_code(path: Path, action: str, function: Any) -> Any:
    """Run code of the user's file, with stdout on stderr; CommandError if it fails."""
    try:
        with redirect_stdout(sys.stderr):
            return function()
    except (Exception, SystemExit) as error:
        at = [
            frame.lineno
            for frame in traceback.extract_tb(error.__traceback__)
            if frame.filename == str(path)
        ]
        lines = [error.lineno] if isinstance(error, SyntaxError) else at[-1:]
        where = f", line {lines[0]}" if lines else ""
        words = error.msg if isinstance(error, SyntaxError) else error
        raise CommandError(
            f"{path.name}{where}: {action}: {type(error).__name__}: {words}"
        ) from None


def _model_candidate_names(module: ModuleType) -> list[str]:
    """List the modules, functions and classes of a file that MODEL could mean."""
    from nbglcnn.load import is_module

    return [
        name
        for name, found in vars(module).items()
        if not name.startswith("_")
        and (
            is_module(found)
            or (callable(found) and getattr(found, "__module__", "") == module.__name__)
        )
    ]
