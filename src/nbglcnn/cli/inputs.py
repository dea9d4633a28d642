"""IMAGE and --shape as an example input: pictures, .npy and .npz files, or numbers made up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbglcnn.cli.models import Model
from nbglcnn.cli.words import SHAPE, Refused

if TYPE_CHECKING:
    from PIL.Image import Image

    from nbglcnn.inputs.arguments import Spec
    from nbglcnn.load import Prepared

AT_ONCE = 16  # examples that a Plan is compiled for; more run in pieces
Shapes = Sequence[tuple[int, ...]]


def example(model: Model, files: Sequence[str], shapes: Shapes, *, resize: bool = False) -> Any:
    """What the command line gives as input; None where an ONNX file's own shapes do.

    Raises:
        Refused: a file is none of these, or doesn't fit; or a torch module has no input at all.
    """
    from nbglcnn.load import Prepared

    if isinstance(model.source, Prepared):
        return _picture_or_random(model.source, files, shapes, resize)
    if files:
        return _read(files, _specs(model, shapes), resize)
    if not model.is_python:
        from nbglcnn.load.onnx.model import inputs_of_shapes

        return inputs_of_shapes(model.bare, shapes) if shapes else None
    if not shapes:
        raise Refused(
            f"{model.name} needs an example input, which its layers' shapes come from. {SHAPE}"
        )
    import numpy as np

    from nbglcnn.load.bounds import checked_shape

    random = np.random.default_rng(0)
    arrays = [random.random(checked_shape("--shape", one), np.float32) for one in shapes]
    return tuple(arrays) if len(arrays) > 1 else arrays[0]


def _picture_or_random(model: Prepared, files: Sequence[str], shapes: Shapes, resize: bool) -> Any:
    """Pictures of any size for a model with a preprocess; without files random numbers."""
    if resize:
        raise Refused("--preprocess resizes pictures itself: leave --resize out")
    if files:
        from nbglcnn.inputs.arguments import Spec

        return _read(files, [Spec("input")], False, any_size=True)
    import numpy as np

    from nbglcnn.load.bounds import checked_shape

    if len(shapes) > 1:
        raise Refused("--preprocess is for a model of one input: give one --shape, the picture's")
    shape = model.pictured(None).inputs[0].shape if not shapes else shapes[0]
    return np.random.default_rng(0).random(checked_shape("--shape", shape), np.float32)


def at_once(model: Model, x: Any) -> Any:
    """Of all examples those that a Plan is compiled for.

    As many as the file says, of which the last may be there several times; else AT_ONCE at most.
    """
    count = _count(x)
    if count is None:
        return x
    size = _fixed(model, x) or min(count, AT_ONCE)
    return x if size == count else _taken(x, 0, size, count)


def pieces(model: Model, x: Any) -> list[Any]:
    """The same as inputs that the model itself takes: one, or where its file fixes a batch more."""
    count = _count(x)
    size = None if count is None else _fixed(model, x)
    if count is None or size is None or size == count:
        return [x]
    return [_taken(x, first, size, count) for first in range(0, count, size)]


def _fixed(model: Model, x: Any) -> int | None:
    """How many examples the file itself takes at once, where it says."""
    if model.is_python:
        return None
    for spec in _specs(model, ()):
        given = x.get(spec.name) if isinstance(x, dict) else x
        rank = 0 if given is None else 4 if isinstance(given, list) else given.ndim
        if spec.shape and rank == len(spec.shape) and (rank > 1 or not isinstance(x, dict)):
            return spec.shape[0]
    return None


def _specs(model: Model, shapes: Shapes) -> list[Spec]:
    """What is known of the inputs, by the file or by --shape."""
    from nbglcnn.inputs.arguments import Spec

    if model.is_python:
        return [Spec("input", shape) for shape in shapes] or [Spec("input")]
    from nbglcnn.load.onnx.model import input_specs

    specs = input_specs(model.bare)
    if not specs or (shapes and len(shapes) != len(specs)):
        raise Refused(f"the model has {len(specs)} inputs: give a shape for each")
    if not shapes:
        return specs
    return [replace(one, shape=shape) for one, shape in zip(specs, shapes, strict=True)]


def _count(x: Any) -> int | None:
    """How many examples there are, where that can be told."""
    if isinstance(x, dict):
        counts = {len(array) for array in x.values() if array.ndim > 1}
        return counts.pop() if len(counts) == 1 else None
    return None if x is None or isinstance(x, tuple) or getattr(x, "ndim", 1) == 0 else len(x)


def _taken(x: Any, first: int, size: int, count: int) -> Any:
    """So many examples from one on; the last of all again where there are no more."""
    rows = [min(row, count - 1) for row in range(first, first + size)]
    if isinstance(x, dict):
        return {name: array[rows] if array.ndim > 1 else array for name, array in x.items()}
    return [x[row] for row in rows] if isinstance(x, list) else x[rows]


def _read(
    files: Sequence[str], specs: Sequence[Spec], resize: bool, *, any_size: bool = False
) -> Any:
    kinds = {suffix if suffix in (".npy", ".npz") else "picture" for suffix in map(_suffix, files)}
    if len(kinds) > 1:
        raise Refused(f"{' and '.join(sorted(kinds))} files in one batch: give files of one kind")
    [kind] = kinds
    if kind == "picture" and any_size:
        return [_picture(file) for file in files]
    if kind == "picture":
        if len(specs) > 1:
            names = ", ".join(repr(spec.name) for spec in specs)
            raise Refused(
                f"the model has {len(specs)} inputs ({names}): give an .npz file with an array "
                "for each, numpy.savez(file, name=array)"
            )
        return _pictures(files, specs[0], resize)
    import numpy as np

    loaded = [_loaded(file) for file in files]
    if kind == ".npy":
        return _joined(loaded, files)
    if len({frozenset(one) for one in loaded}) > 1:
        raise Refused(f"{files[0]} and other files hold arrays of different names")
    joined = {name: _joined([one[name] for one in loaded], files) for name in loaded[0]}
    assert all(isinstance(array, np.ndarray) for array in joined.values())
    return joined if len(joined) > 1 else next(iter(joined.values()))


def _suffix(file: str) -> str:
    return Path(file).suffix.lower()


def _loaded(file: str) -> Any:
    """The array of an .npy file, or those of an .npz file by name; never a pickle."""
    import numpy as np

    try:
        found = np.load(file)  # NumPy refuses pickles unless told otherwise
        if isinstance(found, np.ndarray):
            return found
        with found:
            arrays = {name: found[name] for name in found.files}
    except FileNotFoundError:
        raise Refused(f"there is no file {file}") from None
    except Exception as error:  # zipfile, zlib and NumPy have each their own
        raise Refused(f"{file} cannot be read as arrays: {error}") from None
    if not arrays:
        raise Refused(f"{file} holds no array")
    return arrays


def _joined(arrays: Sequence[Any], files: Sequence[str]) -> Any:
    import numpy as np

    if len(arrays) == 1:
        return arrays[0]
    shapes = {array.shape[1:] for array in arrays}
    if len(shapes) > 1 or any(array.ndim == 0 for array in arrays):
        words = ", ".join(f"{file}: {one.shape}" for file, one in zip(files, arrays, strict=True))
        raise Refused(f"these are put together along the first axis, and don't fit: {words}")
    return np.concatenate(arrays)


def _pictures(files: Sequence[str], spec: Spec, resize: bool) -> list[Image]:
    """Pictures of one size: the input's, where that is known."""
    pictures = [_picture(file) for file in files]
    wanted = _size(spec)
    if resize:
        if wanted is None:
            raise Refused(f"--resize: the model takes pictures of any size. {SHAPE}")
        return [_resized(picture, wanted) for picture in pictures]
    for file, picture in zip(files, pictures, strict=True):
        if wanted is not None and picture.size != wanted:
            raise Refused(
                f"{file} is {_pixels(picture.size)}, and {_pixels(wanted)} are needed: "
                "--resize makes it fit"
            )
        if picture.size != pictures[0].size:
            raise Refused(
                f"{files[0]} is {_pixels(pictures[0].size)}, {file} {_pixels(picture.size)}: "
                "pictures of a batch have one size. --resize with --shape gives them one, as in "
                "--resize --shape 1x3x224x224"
            )
    return pictures


def _picture(file: str) -> Image:
    """A picture file as `picture_decoding` reads it, so that its size is that of the input."""
    from nbglcnn.errors import InputError
    from nbglcnn.inputs.picture_decoding import decoded
    from nbglcnn.inputs.picture_files import read_picture

    try:
        picture = read_picture(file, advice="give a picture, or .npy or .npz")
    except InputError as error:
        raise Refused(str(error)) from None
    try:
        return decoded(picture)
    except InputError as error:
        raise Refused(f"{file}: {error}") from None


def _resized(picture: Image, size: tuple[int, int]) -> Image:
    from nbglcnn.inputs.fit import fitted

    return fitted(picture, size[::-1], "stretch")


def _size(spec: Spec) -> tuple[int, int] | None:
    """Width and height of a picture, where the input's shape (examples, channels, …) fixes them."""
    if spec.shape is None or len(spec.shape) not in (3, 4):
        return None
    from nbglcnn.plan.picture_layout import picture_layout, sides_of

    _, height, width = sides_of(spec.shape, picture_layout(spec.shape, spec.dtype) or "NCHW")
    return None if height is None or width is None else (width, height)


def _pixels(size: tuple[int, int]) -> str:
    return f"{size[0]}×{size[1]} pixels"
