"""Export of a PyTorch module to an ONNX file with other parameter values."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from nbglcnn.errors import ModelError
from nbglcnn.graph import Array
from nbglcnn.load.arguments import ForwardArguments
from nbglcnn.load.draft import OPSET
from nbglcnn.load.torch.isolation.copies import detached_copy
from nbglcnn.load.torch.isolation.process_state import (
    pause_gc,
    preserve_rng_state,
    restore_torch_on_error,
    suppress_warnings,
)
from nbglcnn.load.torch.isolation.tensor_redirection import redirect_to_copy
from nbglcnn.load.torch.rewrite.adaptive_pools import expand_adaptive_pools
from nbglcnn.load.torch.translate.exporter_overrides import exporter_translations
from nbglcnn.load.torch.weights.state_dict import state_dict_tensors


def _export_program(
    model_copy: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output_names: Any
) -> Any:
    """Run PyTorch's exporter; if it fails, retry with unsupported adaptive pools expanded."""

    def export(model: Any, *inputs: Any, **more: Any) -> Any:
        return torch.onnx.export(
            model, *inputs, **more, dynamo=True, optimize=False, opset_version=OPSET, verbose=False,
            output_names=output_names, custom_translation_table=dict(exporter_translations()),
        )  # fmt: skip

    try:
        return export(model_copy, args, kwargs=kwargs)
    except torch.onnx.OnnxExporterError:
        program = expand_adaptive_pools(torch.export.export(model_copy, args, kwargs, strict=False))
        if program is None:
            raise
        return export(program)


def to_onnx(
    module: torch.nn.Module,
    weights: Mapping[str, Array],
    input_types: Sequence[tuple[tuple[int, ...], np.dtype[np.generic]]],
    output_count: int,
    path: Path,
    arguments: ForwardArguments | None = None,
) -> Path:
    """Export `module` in eval mode and float32, with these weights, for inputs of these shapes.

    The file's initializers have the names of `module.state_dict()`, and a single output is called
    "output". PyTorch's exporter writes the file; raises ModelError if it fails.
    """
    twin, _ = detached_copy(module)
    twin.load_state_dict(state_dict_tensors(module, module, weights))
    twin.eval()
    given = tuple(torch.from_numpy(np.zeros(shape, dtype)) for shape, dtype in input_types)
    args, named = (given, {}) if arguments is None else arguments.bind(given)
    names = ["output"] if output_count == 1 else None
    beside = f"{path.name}.data"
    try:
        with (
            pause_gc(), restore_torch_on_error(), preserve_rng_state(lambda: False),
            suppress_warnings(),
            torch.no_grad(), redirect_to_copy(twin, traced=True),
            tempfile.TemporaryDirectory(dir=path.absolute().parent, prefix=".nbglcnn") as folder,
        ):  # fmt: skip
            program = _export_program(twin, args, named, names)
            assert program is not None
            program.save(str(Path(folder, path.name)))
            for name in (beside, path.name):  # weights first: the model file never lacks them
                if (made := Path(folder, name)).exists():
                    made.replace(path.with_name(name))
    except (torch.onnx.OnnxExporterError, RuntimeError, TypeError, ValueError) as error:
        raise ModelError(
            f"PyTorch's exporter can't export {type(module).__name__} to ONNX: "
            f"{str(error).strip().splitlines()[0]}"
        ) from error
    return path
