"""IMAGE and --shape as an example input: pictures, .npy and .npz files, or random numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbglcnn.cli.console import SHAPE_HINT, CommandError
from nbglcnn.cli.models import ModelArgument

if TYPE_CHECKING:
    from PIL.Image import Image

    from nbglcnn.inputs.arguments import InputSpec
    from nbglcnn.load import PreprocessedModel

MAX_BATCH = 16  # examples that a Plan is compiled for; more run in batches
Shapes = Sequence[tuple[int, ...]]


def load_example(
    model: ModelArgument, files: Sequence[str], shapes: Shapes, *, resize: bool = False
) -> Any:
    """Return the input of the command line; None if an ONNX file's own shapes are enough.

    Raises:
        CommandError: If a file has another format or doesn't fit, or a torch module has no input.
    """
    from nbglcnn.load import PreprocessedModel

    if isinstance(model.wrapped_model, PreprocessedModel):
        return _picture_or_random(model.wrapped_model, files, shapes, resize)
    if files:
        return _read_files(files, _input_specs(model, shapes), resize)
    if not model.is_from_python:
        from nbglcnn.load.onnx.model import inputs_of_shapes

        return inputs_of_shapes(model.user_model, shapes) if shapes else None
    if not shapes:
        raise CommandError(
            f"{model.name} needs an example input to determine its layers' shapes. {SHAPE_HINT}"
        )
    import numpy as np

    from nbglcnn.load.size_limits import validate_shape

    random = np.random.default_rng(0)
    arrays = [random.random(validate_shape("--shape", one), np.float32) for one in shapes]
    return tuple(arrays) if len(arrays) > 1 else arrays[0]


def _picture_or_random(
    model: PreprocessedModel, files: Sequence[str], shapes: Shapes, resize: bool
) -> Any:
    """Return pictures of any size for a model with a preprocess; without files random numbers."""
    if resize:
        raise CommandError("--preprocess already resizes pictures: remove --resize")
    if files:
        from nbglcnn.inputs.arguments import InputSpec

        return _read_files(files, [InputSpec("input")], False, any_size=True)
    import numpy as np

    from nbglcnn.load.size_limits import validate_shape

    if len(shapes) > 1:
        raise CommandError(
            "--preprocess supports models with one input: give one --shape, the picture's"
        )
    shape = model.raw_inputs(None).inputs[0].shape if not shapes else shapes[0]
    return np.random.default_rng(0).random(validate_shape("--shape", shape), np.float32)


def select_batch_to_compile(model: ModelArgument, x: Any) -> Any:
    """Return the examples that a Plan is compiled for.

    Their number is the batch size of the file, filled up with copies of the last example; if the
    file leaves it open, at most MAX_BATCH.
    """
    count = _example_count(x)
    if count is None:
        return x
    size = _fixed_batch_size(model, x) or min(count, MAX_BATCH)
    return x if size == count else _take_examples(x, 0, size, count)


def split_batches(model: ModelArgument, x: Any) -> list[Any]:
    """Split the input into batches for the model: one, or several if its file fixes the size."""
    count = _example_count(x)
    size = None if count is None else _fixed_batch_size(model, x)
    if count is None or size is None or size == count:
        return [x]
    return [_take_examples(x, first, size, count) for first in range(0, count, size)]


def _fixed_batch_size(model: ModelArgument, x: Any) -> int | None:
    """Return the batch size that the file fixes, or None."""
    if model.is_from_python:
        return None
    for spec in _input_specs(model, ()):
        given = x.get(spec.name) if isinstance(x, dict) else x
        rank = 0 if given is None else 4 if isinstance(given, list) else given.ndim
        if spec.shape and rank == len(spec.shape) and (rank > 1 or not isinstance(x, dict)):
            return spec.shape[0]
    return None


def _input_specs(model: ModelArgument, shapes: Shapes) -> list[InputSpec]:
    """Return the known properties of the inputs, from the file or from --shape."""
    from nbglcnn.inputs.arguments import InputSpec

    if model.is_from_python:
        return [InputSpec("input", shape) for shape in shapes] or [InputSpec("input")]
    from nbglcnn.load.onnx.model import input_specs

    specs = input_specs(model.user_model)
    if not specs or (shapes and len(shapes) != len(specs)):
        raise CommandError(f"the model has {len(specs)} inputs: give a shape for each")
    if not shapes:
        return specs
    return [replace(one, shape=shape) for one, shape in zip(specs, shapes, strict=True)]


def _example_count(x: Any) -> int | None:
    """Return the number of examples, or None if it is ambiguous."""
    if isinstance(x, dict):
        counts = {len(array) for array in x.values() if array.ndim > 1}
        return counts.pop() if len(counts) == 1 else None
    return None if x is None or isinstance(x, tuple) or getattr(x, "ndim", 1) == 0 else len(x)


def _take_examples(x: Any, start: int, batch_size: int, example_count: int) -> Any:
    """Return `batch_size` examples starting at `start`; the last example fills missing ones."""
    rows = [min(row, example_count - 1) for row in range(start, start + batch_size)]
    if isinstance(x, dict):
        return {name: array[rows] if array.ndim > 1 else array for name, array in x.items()}
    return [x[row] for row in rows] if isinstance(x, list) else x[rows]


def _read_files(
    files: Sequence[str], specs: Sequence[InputSpec], resize: bool, *, any_size: bool = False
) -> Any:
    kinds = {suffix if suffix in (".npy", ".npz") else "picture" for suffix in map(_suffix, files)}
    if len(kinds) > 1:
        raise CommandError(
            f"{' and '.join(sorted(kinds))} files in one batch: give files of one kind"
        )
    [kind] = kinds
    if kind == "picture" and any_size:
        return [_read_picture(file) for file in files]
    if kind == "picture":
        if len(specs) > 1:
            names = ", ".join(repr(spec.name) for spec in specs)
            raise CommandError(
                f"the model has {len(specs)} inputs ({names}): give an .npz file with an array "
                "for each, numpy.savez(file, name=array)"
            )
        return _read_pictures(files, specs[0], resize)
    import numpy as np

    loaded = [_load_arrays(file) for file in files]
    if kind == ".npy":
        return _concatenate(loaded, files)
    if len({frozenset(one) for one in loaded}) > 1:
        raise CommandError(f"{files[0]} and other files contain arrays with different names")
    joined = {name: _concatenate([one[name] for one in loaded], files) for name in loaded[0]}
    assert all(isinstance(array, np.ndarray) for array in joined.values())
    return joined if len(joined) > 1 else next(iter(joined.values()))


def _suffix(file: str) -> str:
    return Path(file).suffix.lower()


def _load_arrays(file: str) -> Any:
    """Load the array of an .npy file, or the arrays of an .npz file by name; never a pickle."""
    import numpy as np

    try:
        found = np.load(file)  # NumPy rejects pickles by default
        if isinstance(found, np.ndarray):
            return found
        with found:
            arrays = {name: found[name] for name in found.files}
    except FileNotFoundError:
        raise CommandError(f"file not found: {file}") from None
    except Exception as error:  # zipfile, zlib and NumPy each raise their own types
        raise CommandError(f"{file} cannot be read as arrays: {error}") from None
    if not arrays:
        raise CommandError(f"{file} contains no arrays")
    return arrays


def _concatenate(arrays: Sequence[Any], files: Sequence[str]) -> Any:
    import numpy as np

    if len(arrays) == 1:
        return arrays[0]
    shapes = {array.shape[1:] for array in arrays}
    if len(shapes) > 1 or any(array.ndim == 0 for array in arrays):
        words = ", ".join(f"{file}: {one.shape}" for file, one in zip(files, arrays, strict=True))
        raise CommandError(
            f"the files are concatenated along the first axis, but their shapes differ: {words}"
        )
    return np.concatenate(arrays)


def _read_pictures(files: Sequence[str], spec: InputSpec, resize: bool) -> list[Image]:
    """Read pictures of one size: the input's, if it is known."""
    pictures = [_read_picture(file) for file in files]
    wanted = _picture_size(spec)
    if resize:
        if wanted is None:
            raise CommandError(f"--resize: the model accepts pictures of any size. {SHAPE_HINT}")
        return [_resize(picture, wanted) for picture in pictures]
    for file, picture in zip(files, pictures, strict=True):
        if wanted is not None and picture.size != wanted:
            raise CommandError(
                f"{file} is {_format_size(picture.size)}; expected {_format_size(wanted)}. Use "
                "--resize"
            )
        if picture.size != pictures[0].size:
            raise CommandError(
                f"{files[0]} is {_format_size(pictures[0].size)}, {file} "
                f"{_format_size(picture.size)}; all pictures of a batch need the same size. Use "
                "--resize with --shape, as in --resize --shape 1x3x224x224"
            )
    return pictures


def _read_picture(file: str) -> Image:
    """Read a picture file and decode it by `decode_picture`, so that its size is the input's."""
    from nbglcnn.errors import InputError
    from nbglcnn.inputs.picture_decoding import decode_picture
    from nbglcnn.inputs.picture_files import read_picture

    try:
        picture = read_picture(file, advice="give a picture, or .npy or .npz")
    except InputError as error:
        raise CommandError(str(error)) from None
    try:
        return decode_picture(picture)
    except InputError as error:
        raise CommandError(f"{file}: {error}") from None


def _resize(picture: Image, size: tuple[int, int]) -> Image:
    from nbglcnn.inputs.picture_fit import fit_picture

    return fit_picture(picture, size[::-1], "stretch")


def _picture_size(spec: InputSpec) -> tuple[int, int] | None:
    """Return a picture's (width, height) if the input's shape (examples, channels, …) fixes it."""
    if spec.shape is None or len(spec.shape) not in (3, 4):
        return None
    from nbglcnn.plan.picture_layout import channels_and_size, picture_layout

    _, height, width = channels_and_size(
        spec.shape, picture_layout(spec.shape, spec.dtype) or "NCHW"
    )
    return None if height is None or width is None else (width, height)


def _format_size(size: tuple[int, int]) -> str:
    return f"{size[0]}×{size[1]} pixels"
