"""Picture files: listing the pictures of a folder, and reading one with clear errors."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nbglcnn.errors import InputError
from nbglcnn.inputs.picture_decoding import open_picture

if TYPE_CHECKING:
    from PIL.Image import Image

# The extensions of torchvision.datasets.folder, so that files get the same indices; plus GIF.
TORCHVISION_EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")
PICTURE_EXTENSIONS = (*TORCHVISION_EXTENSIONS, ".gif")


@dataclass(frozen=True, slots=True)
class PictureFolder:
    """The picture files of a folder, in order; `labels` are indices into `classes`."""

    files: tuple[Path, ...]
    labels: tuple[int, ...] = ()
    classes: tuple[str, ...] = ()


def list_picture_folder(folder: Path, error_subject: str) -> PictureFolder:
    """List the pictures of a folder; its subfolders are classes, as in torchvision's ImageFolder.

    Names that begin with a dot are skipped, such as Jupyter's checkpoint folders.

    Args:
        folder: The path of the folder.
        error_subject: The prefix of error messages: the name of the caller.

    Raises:
        InputError: If it is not a folder, or contains no pictures.
    """
    if folder.is_file():
        raise InputError(f"{error_subject}: {folder} is a file; give its folder, or a list, [path]")
    if not folder.is_dir():
        raise InputError(f"{error_subject}: folder not found: {folder}")
    classes = sorted(
        entry.name for entry in os.scandir(folder) if entry.is_dir() and entry.name[0] != "."
    )
    files: list[Path] = []
    labels: list[int] = []
    for label, name in enumerate(classes):
        found = [
            Path(root, file)
            for root, _, names in sorted(os.walk(folder / name, followlinks=True))
            for file in sorted(names)
            if is_picture_file(file)
        ]
        files += found
        labels += [label] * len(found)
    if files:
        return PictureFolder(tuple(files), tuple(labels), tuple(classes))
    files = [folder / name for name in sorted(os.listdir(folder)) if is_picture_file(name)]
    if not files:
        raise InputError(
            f"{error_subject}: no pictures in {folder} or its subfolders; supported are files that "
            f"end with {', '.join(PICTURE_EXTENSIONS)}"
        )
    return PictureFolder(tuple(files))


def is_picture_file(name: str) -> bool:
    """Whether a file in a folder counts as a picture, by its name."""
    return name.lower().endswith(PICTURE_EXTENSIONS) and name[0] != "."


def read_picture(path: str | os.PathLike[str], error_subject: str = "", advice: str = "") -> Image:
    """Read a picture file's first image.

    Args:
        path: The path; `~` is the home folder.
        error_subject: The prefix of error messages: the purpose of the picture.
        advice: The end of the message if the file isn't a picture: the alternatives.

    Raises:
        InputError: If the file doesn't exist, is not a picture, or is damaged. The message names
            the file.
    """
    from PIL import UnidentifiedImageError

    file = Path(path).expanduser()
    start = f"{error_subject}: " if error_subject else ""
    try:
        return open_picture(file)
    except FileNotFoundError:
        raise InputError(f"{start}file not found: {file}") from None
    except IsADirectoryError:
        raise InputError(
            f"{start}{file} is a folder; give the path of a picture in it. A Viewer takes the "
            "folder as viewer.input = nbglcnn.Images(folder)"
        ) from None
    except UnidentifiedImageError:
        end = f"; {advice}" if advice else ""
        raise InputError(f"{start}{file} is not a picture that Pillow can read{end}") from None
    except Exception as error:  # damaged or too large: formats raise different errors
        raise InputError(f"{start}{file} cannot be read as a picture: {error}") from None
