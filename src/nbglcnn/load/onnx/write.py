"""Writing an ONNX model's file with other weights."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nbglcnn.errors import ModelError
from nbglcnn.graph import Array
from nbglcnn.load.onnx.model_file import MAX_FILE_BYTES, read_model, tensor_array


def write_onnx(model: Any, weights: Mapping[str, Array], path: str | os.PathLike[str]) -> Path:
    """Write `model` to `path` with these weights, each in its type in the file.

    Unchanged data stay identical to the bit. External data stay external, in a single file beside
    the new one; all initializers become external if the model is too large for one file.
    """
    import onnx
    from onnx import numpy_helper
    from onnx.external_data_helper import set_external_data

    source, _, folder = read_model(model)
    proto = onnx.ModelProto()
    proto.CopyFrom(source)
    target = Path(path)
    beside = f"{target.name}.data"
    tensors = {tensor.name: tensor for tensor in proto.graph.initializer}
    for node in proto.graph.node:
        for attribute in node.attribute:
            if node.op_type == "Constant" and attribute.name == "value":
                tensors[node.output[0]] = attribute.t
    external = []
    for name, tensor in tensors.items():
        outside = tensor.data_location == onnx.TensorProto.EXTERNAL
        if not outside and name not in weights:
            continue
        old = tensor_array(tensor, name, folder)
        new = _merge_changes(old, weights[name]) if name in weights else old
        if outside or new is not old:
            made = _make_tensor(numpy_helper, tensor.data_type, new, name)
            made.doc_string = tensor.doc_string
            tensor.CopyFrom(made)
        if outside:
            external.append(tensor)
    if proto.ByteSize() > MAX_FILE_BYTES - 2**20:
        external = [one for one in proto.graph.initializer if one.HasField("raw_data")]
    for tensor in external:
        set_external_data(tensor, location=beside)
    parts = {target: target.with_name(f".{target.name}.part")}
    try:
        if external:
            # onnx writes external data under its final name, so it writes to a temporary folder.
            _save_with_data(proto, target, beside)
        else:
            parts[target].write_bytes(proto.SerializeToString())
            parts[target].replace(target)
    except ValueError as error:
        raise ModelError(f"cannot write {target.name}: {error}") from error
    finally:
        parts[target].unlink(missing_ok=True)
    return target


def _save_with_data(proto: Any, target: Path, data_file_name: str) -> None:
    import tempfile

    import onnx

    with tempfile.TemporaryDirectory(dir=target.absolute().parent, prefix=".nbglcnn") as folder:
        onnx.save_model(proto, str(Path(folder, target.name)))
        for name in (
            data_file_name,
            target.name,
        ):  # data first: the model file never exists without them
            Path(folder, name).replace(target.with_name(name))


def _merge_changes(old: Array, new: Array) -> Array:
    """Return the old data with the changed elements replaced; compared in the new data's dtype."""
    with np.errstate(over="ignore"):
        before = old.astype(new.dtype)
        words = f"u{new.itemsize}"
        differs = before.view(words) != np.ascontiguousarray(new).view(words)
        return np.where(differs, new.astype(old.dtype), old) if differs.any() else old


def _make_tensor(helper: Any, element_type: int, array: Array, name: str) -> Any:
    """Make a tensor of the file's type; bfloat16 by hand, because numpy lacks it."""
    import onnx

    if element_type != onnx.TensorProto.BFLOAT16:
        return helper.from_array(np.ascontiguousarray(array), name)
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32).astype(np.uint64)
    # Round to nearest, ties to even.
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return onnx.TensorProto(
        name=name,
        data_type=element_type,
        dims=array.shape,
        raw_data=rounded.astype("<u2").tobytes(),
    )
