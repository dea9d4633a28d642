"""ONNX files: the only code that opens them. Files, and all paths in them, are untrusted."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nbglcnn.errors import ModelError, UnsupportedModel
from nbglcnn.graph import Array
from nbglcnn.load.size_limits import quote_name, validate_shape

if TYPE_CHECKING:
    from onnx import ModelProto, TensorProto

PICKLE_SUFFIXES = {".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".bin"}
MAX_FILE_BYTES = 2**31 - 1  # protobuf's own limit
SYMLINK_HINT = "links are not followed; copy the file and the model into one folder"
EXTERNAL_DATA_KEYS = {"location", "offset", "length", "checksum"}  # of external data
# Signatures at the start of other file formats, in the order to try.
FILE_SIGNATURES = (
    (b"PK\x03\x04", "a zip archive (perhaps a PyTorch checkpoint)"),
    (b"\x80\x02", "a pickle (perhaps a PyTorch checkpoint)"),
    (b"\x80\x04", "a pickle"),
    (b"\x80\x05", "a pickle"),
    (b"version https://git-lfs", "a Git LFS pointer: fetch the file itself with `git lfs pull`"),
    (b"<", "an HTML or XML page: was it saved from a web page instead of its download link?"),
    (b"{", "JSON"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"\x89HDF", "an HDF5 file"),
    (b"\x89PNG", "a picture (PNG): a network's input is the second argument"),
    (b"\xff\xd8\xff", "a picture (JPEG): a network's input is the second argument"),
    (b"NBGLCNN", "a Plan of nbglcnn: read it with nbglcnn.Plan.load(path), run it with Session"),
)
# Signatures at byte 4.
BYTE_4_SIGNATURES = (
    (b"TFL3", "a TensorFlow Lite model: convert it, for example with tf2onnx"),
    (b"ORTM", "a model in ONNX Runtime's own format: give the original .onnx file"),
)
SAFETENSORS_HINT = (
    "a safetensors file, which contains only weights. Build the module in PyTorch, load them "
    "with safetensors.torch.load_model(module, path), and give the module"
)
TEXT_BYTES = frozenset(b"\t\n\r") | frozenset(range(0x20, 0x7F))
CHECKPOINT_HINT = (
    "PyTorch checkpoints can run arbitrary code when read, so nbglcnn never reads them. Build "
    "the module, call module.load_state_dict(torch.load(path, weights_only=True)), and give the "
    "module"
)


@dataclass(frozen=True, slots=True)
class DataFolder:
    """The folder that a model's external data must be in: the folder of the model's file.

    If the model's path is a link, `link_target` is the folder of the file that it points to, else
    "". External data may then be in that folder, or be links to plain files in it. Hugging Face's
    cache has this layout: links in `snapshots/<revision>` point to files in `blobs`.
    """

    path: str
    link_target: str = ""


def read_model(source: Any) -> tuple[ModelProto, str, DataFolder | None]:
    """Parse a model; return it with a name and the folder of its external data."""
    import onnx

    if isinstance(source, onnx.ModelProto):
        return validate_model(source, "this ModelProto"), source.graph.name or "model", None
    if isinstance(source, bytes | bytearray | memoryview):
        return parse_model_proto(bytes(source), "these bytes"), "model", None
    if not os.fspath(source):
        raise ModelError("the path of the model is empty")
    path = os.path.abspath(os.fspath(source))  # an absolute path: bare names disable path checks
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    name = Path(path).name
    if "\0" not in path and not os.path.lexists(path):
        raise ModelError(
            f"file not found: {quote_name(os.fsdecode(source))}{_missing_file_hint(source)}"
        )
    if Path(path).suffix.lower() in PICKLE_SUFFIXES:
        raise ModelError(f"{name} is not an ONNX file. {CHECKPOINT_HINT}")
    real = os.path.dirname(os.path.realpath(path)) if os.path.islink(path) else ""
    return (
        parse_model_proto(_read_file_bytes(path), name),
        Path(path).stem,
        DataFolder(os.path.dirname(path), real),
    )


def embed_external_data(model: ModelProto, folder: DataFolder | None) -> ModelProto:
    """Return a copy of a model with its external data embedded, checked as in `tensor_array`."""
    import onnx

    own = onnx.ModelProto()
    own.CopyFrom(model)
    tensors = [(tensor, tensor.name) for tensor in own.graph.initializer]
    for node in own.graph.node:
        tensors += [(one.t, node.output[0]) for one in node.attribute if one.HasField("t")]
    for tensor, name in tensors:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            array = tensor_array(tensor, name, folder)
            itemsize = np.dtype(_TENSOR_STORAGE[tensor.data_type][1]).itemsize
            raw = _read_external(
                tensor, f"tensor {quote_name(name)}", folder, array.size * itemsize
            )
            tensor.ClearField("external_data")
            tensor.data_location = onnx.TensorProto.DEFAULT
            tensor.raw_data = raw
    return own


def _missing_file_hint(source: Any) -> str:
    """The hint for a path that doesn't exist."""
    text = os.fsdecode(source)
    if text.startswith("~"):
        return "; only a shell expands ~: give os.path.expanduser(path)"
    return "" if os.path.isabs(text) else f" in {os.getcwd()}"


def _read_file_bytes(path: str) -> bytes:
    name = os.path.basename(path)
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise ModelError(f"{name} is not a file")
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > MAX_FILE_BYTES:
                raise ModelError(
                    f"{name} has {size:,} bytes; an ONNX file has at most {MAX_FILE_BYTES:,}"
                )
            return file.read()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ModelError(f"{name} cannot be read: {reason}") from error


def parse_model_proto(data: bytes, name: str) -> ModelProto:
    """Parse bytes as a ModelProto; the ModelError describes what they are instead."""
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    if not data:
        raise ModelError(f"{name}: empty, not an ONNX model")
    for sign, meaning in FILE_SIGNATURES:
        if data.lstrip()[: len(sign)] == sign:
            advice = f". {CHECKPOINT_HINT}" if "PyTorch" in meaning else ""
            raise ModelError(f"{name}: not an ONNX model but {meaning}{advice}")
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except (DecodeError, UnicodeDecodeError, ValueError, RecursionError) as error:
        looks = _guess_format(data)
        if looks:
            raise ModelError(f"{name}: not an ONNX model but {looks}") from error
        raise ModelError(f"{name}: not an ONNX model, or damaged ({error})") from error
    if not model.HasField("graph") and (looks := _guess_format(data)):
        raise ModelError(f"{name}: not an ONNX model but {looks}")
    return validate_model(model, name)


def _guess_format(data: bytes) -> str:
    """A guess at the format of bytes that are not a model, or ""."""
    for mark, meaning in BYTE_4_SIGNATURES:
        if data[4:8] == mark:
            return meaning
    if data[8:9] == b"{" and int.from_bytes(data[:8], "little") <= len(data) - 8:
        return SAFETENSORS_HINT
    if all(byte in TEXT_BYTES for byte in data[:512]):
        return "text"
    return "" if any(data[:512]) else "zeros; download the file again"


def validate_model(model: ModelProto, name: str) -> ModelProto:
    """Return the model if it has a graph and opsets; random bytes can also parse as protobuf."""
    if not model.HasField("graph") or not model.opset_import:
        raise ModelError(f"{name}: not an ONNX model, or damaged (it has no graph or no opset)")
    if not _has_valid_strings(model):
        raise ModelError(f"{name}: damaged (a name in it is not UTF-8 text)")
    return model


def _has_valid_strings(message: Any) -> bool:
    """Whether all strings are valid: protobuf silently returns bytes for invalid UTF-8."""
    for field, value in message.ListFields():
        if field.type == field.TYPE_STRING:
            if not all(
                isinstance(v, str) for v in ([value] if isinstance(value, str | bytes) else value)
            ):
                return False
        elif field.type == field.TYPE_MESSAGE:
            several = [value] if hasattr(value, "ListFields") else value
            if not all(_has_valid_strings(v) for v in several):
                return False
    return True


def tensor_array(tensor: TensorProto, name: str, folder: DataFolder | None) -> Array:
    """Return a tensor's data, after checking its shape, its type and the number of bytes."""
    import onnx

    what = f"tensor {quote_name(name)}"
    kind = tensor.data_type
    if kind not in _TENSOR_STORAGE:
        names = {number: name for name, number in onnx.TensorProto.DataType.items()}
        found = names.get(kind, str(kind))
        raise UnsupportedModel(f"{what}: type {found}; types of 8 to 64 bits are supported")
    field, stored = _TENSOR_STORAGE[kind]
    shape = validate_shape(what, tensor.dims, itemsize=np.dtype(stored).itemsize)
    count = int(np.prod(shape, dtype=object))
    if tensor.HasField("segment"):
        raise UnsupportedModel(f"{what}: stored in segments")
    given = [f for f in sorted({f for f, _ in _TENSOR_STORAGE.values()}) if len(getattr(tensor, f))]
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        if tensor.HasField("raw_data") or given:
            raise ModelError(f"{what}: has data both inside and outside the file")
        raw = _read_external(tensor, what, folder, count * np.dtype(stored).itemsize)
        array = np.frombuffer(raw, stored)
    elif tensor.HasField("raw_data"):
        if given:
            raise ModelError(f"{what}: has both raw_data and {given[0]}")
        needed = count * np.dtype(stored).itemsize
        if len(tensor.raw_data) != needed:
            raise ModelError(
                f"{what}: shape {list(shape)} needs {needed} bytes; it has {len(tensor.raw_data)}"
            )
        array = np.frombuffer(tensor.raw_data, stored)
    else:
        numbers = getattr(tensor, field)
        if len(numbers) != count or given not in ([], [field]):
            raise ModelError(f"{what}: shape {list(shape)} needs {count} values in {field}")
        array = np.array(numbers).astype(stored) if count else np.zeros(0, stored)
    if kind == onnx.TensorProto.BFLOAT16:
        array = (array.astype(np.uint32) << np.uint32(16)).view(np.float32)
    elif kind == onnx.TensorProto.FLOAT16:
        array = array.view(np.float16)
    return array.reshape(shape)


# Per element type: the field of its data, and the numpy type of its raw bytes.
_TENSOR_STORAGE: dict[int, tuple[str, str]] = {
    1: ("float_data", "<f4"),
    2: ("int32_data", "<u1"),
    3: ("int32_data", "<i1"),
    4: ("int32_data", "<u2"),
    5: ("int32_data", "<i2"),
    6: ("int32_data", "<i4"),
    7: ("int64_data", "<i8"),
    9: ("int32_data", "?"),
    10: ("int32_data", "<u2"),  # float16
    11: ("double_data", "<f8"),
    12: ("uint64_data", "<u4"),
    13: ("uint64_data", "<u8"),
    16: ("int32_data", "<u2"),  # bfloat16
}


def _read_external(
    tensor: TensorProto, error_subject: str, folder: DataFolder | None, byte_count: int
) -> bytes:
    """Read a tensor's bytes from its external file; see `_open_external` for links."""
    entries: dict[str, str] = {}
    for entry in tensor.external_data:
        if entry.key not in EXTERNAL_DATA_KEYS or entry.key in entries:
            raise ModelError(f"{error_subject}: external data with the key {quote_name(entry.key)}")
        entries[entry.key] = entry.value
    location = entries.get("location", "")
    if folder is None:
        raise ModelError(
            f"{error_subject}: its values are in another file ({quote_name(location)}). Only a "
            "model given by path may refer to files in its own folder; otherwise load the model "
            "with onnx.load(path) first"
        )
    numbers = []
    for key, default in (("offset", 0), ("length", byte_count)):
        text = entries.get(key, str(default))
        if not (text.isascii() and text.isdigit() and len(text) < 20):
            raise ModelError(f"{error_subject}: external data with {key} {quote_name(text)}")
        numbers.append(int(text))
    offset, length = numbers
    if length != byte_count:
        raise ModelError(
            f"{error_subject}: external data of {length} bytes; its shape needs {byte_count}"
        )
    with _open_external(folder, location, error_subject) as file:
        size = os.fstat(file).st_size
        if offset + length > size:
            raise ModelError(
                f"{error_subject}: bytes {offset} to {offset + length} of {quote_name(location)}, "
                f"which has {size}"
            )
        os.lseek(file, offset, os.SEEK_SET)
        chunks, left = [], length
        while left:
            chunk = os.read(file, min(left, 1 << 24))
            if not chunk:
                raise ModelError(f"{error_subject}: {quote_name(location)} ended while it was read")
            chunks.append(chunk)
            left -= len(chunk)
        return b"".join(chunks)


@contextmanager
def _open_external(folder: DataFolder, location: str, error_subject: str) -> Iterator[int]:
    """Open the file without following links, from the model's folder downwards.

    If the model's path is a link, a link to a file in the real model file's folder is opened in
    that folder, and so is a file that doesn't exist beside the link.
    """
    parts = location.split("/")
    bad = not location or "\0" in location or "\\" in location or ":" in location
    if bad or any(part in ("", ".", "..") for part in parts):
        raise ModelError(
            f"{error_subject}: external data at {quote_name(location)}; it must be a plain "
            "relative path inside the model's own folder"
        )
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
    flags |= getattr(os, "O_NONBLOCK", 0)  # opening a FIFO would block
    opened: list[int] = []
    path = folder.path
    if folder.link_target and not os.path.lexists(os.path.join(path, *parts)):
        path = folder.link_target
    try:
        if os.open in os.supports_dir_fd:
            opened.append(os.open(path, os.O_RDONLY))
            for part in parts[:-1]:
                opened.append(os.open(part, flags, dir_fd=opened[-1]))
            if blob := _link_target_name(folder, location):
                opened.append(os.open(folder.link_target, os.O_RDONLY))
                parts = [blob]
            opened.append(os.open(parts[-1], flags, dir_fd=opened[-1]))
        else:
            for part in parts[:-1]:
                path = os.path.join(path, part)
                if os.path.islink(path):
                    raise ModelError(
                        f"{error_subject}: {quote_name(location)} is a link; {SYMLINK_HINT}"
                    )
            blob = _link_target_name(folder, location)
            path = os.path.join(folder.link_target, blob) if blob else os.path.join(path, parts[-1])
            if os.path.islink(path):
                raise ModelError(
                    f"{error_subject}: {quote_name(location)} is a link; {SYMLINK_HINT}"
                )
            opened.append(os.open(path, flags))
        found = os.fstat(opened[-1])
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
            raise ModelError(
                f"{error_subject}: {quote_name(location)} is a link, or not a plain file; "
                f"{SYMLINK_HINT}"
            )
        yield opened[-1]
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ModelError(
                f"{error_subject}: {quote_name(location)} is a link; {SYMLINK_HINT}"
            ) from error
        raise ModelError(
            f"{error_subject}: {quote_name(location)} cannot be opened as a plain file "
            f"({error.strerror})"
        ) from error
    finally:
        for handle in opened:
            os.close(handle)


def _link_target_name(folder: DataFolder, location: str) -> str:
    """The file that a link to external data points to, in the folder of the real model file."""
    path = os.path.join(folder.path, *location.split("/"))
    if not folder.link_target or not os.path.islink(path):
        return ""
    real, name = os.path.split(os.path.realpath(path))
    return name if real == folder.link_target else ""
