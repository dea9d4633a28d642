"""The cases of ONNX's own test suite that are relevant to image networks, one record each."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

SUBSET_FILE = Path(__file__).resolve().parents[1] / "cnn_subset.json"
SUBSETS = ("core", "extended", "models")
TEST_DATA_FOLDER = Path(onnx.__file__).parents[1]  # base of the suite's relative paths

Arrays = tuple[np.ndarray, ...]


@dataclass(frozen=True, slots=True)
class SuiteCase:
    """One case and its metadata; `read` returns the model and arrays."""

    name: str
    subset: str
    operator: str
    is_expanded: bool

    @property
    def test(self) -> Any:
        """The suite's own record. The first access builds all records, which takes seconds."""
        return _suite_tests()[self.name]

    @property
    def tolerance(self) -> dict[str, float]:
        """The case's own tolerance; the suite's default is 1e-3 relative and 1e-7 absolute."""
        return {"rtol": self.test.rtol, "atol": self.test.atol}

    def read(self) -> tuple[onnx.ModelProto, list[tuple[Arrays, Arrays]]]:
        """The model, and its pairs of inputs and expected outputs."""
        if self.test.model is not None:
            return self.test.model, [
                (_arrays(inputs), _arrays(outputs)) for inputs, outputs in self.test.data_sets
            ]
        if self.test.model_dir is not None:
            folder = Path(self.test.model_dir)
            sets = sorted(folder.glob("test_data_set*"))
            return onnx.load(folder / "model.onnx"), [
                (_stored_arrays(one, "input"), _stored_arrays(one, "output")) for one in sets
            ]
        return _read_light_model(TEST_DATA_FOLDER / self.test.url)


def _arrays(items: Sequence[Any]) -> Arrays:
    return tuple(
        numpy_helper.to_array(item) if isinstance(item, onnx.TensorProto) else np.asarray(item)
        for item in items
    )


def _read_tensor(file: Path) -> np.ndarray:
    return numpy_helper.to_array(onnx.load_tensor(file))


def _stored_arrays(folder: Path, kind: str) -> Arrays:
    files = sorted(folder.glob(f"{kind}_*.pb"), key=lambda f: int(f.stem.split("_")[1]))
    return tuple(_read_tensor(file) for file in files)


def _read_light_model(file: Path) -> tuple[onnx.ModelProto, list[tuple[Arrays, Arrays]]]:
    """Read a network whose weights are constants, with the suite's dummy input."""
    model = onnx.load(file)
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = tuple(
        Runner.generate_dummy_data(value)
        for value in model.graph.input
        if value.name not in constants
    )
    outputs = tuple(
        _read_tensor(file.with_name(f"{file.stem}_output_{k}.pb"))
        for k in range(len(model.graph.output))
    )
    return model, [(inputs, outputs)]


@cache
def _suite_tests() -> dict[str, Any]:
    kinds = ("node", "pytorch-converted", "pytorch-operator", "real", "simple")
    with np.errstate(all="ignore"), warnings.catch_warnings():  # the suite's own code produces NaN
        warnings.simplefilter("ignore")
        return {test.name: test for kind in kinds for test in load_model_tests(kind=kind)}


def suite_cases(subsets: Sequence[str] = SUBSETS, *, expanded: bool = True) -> Iterator[SuiteCase]:
    """Iterate over the cases of these subsets.

    Expanded cases decompose an operator by its function body.
    """
    subset = json.loads(SUBSET_FILE.read_text("utf-8"))
    for ring in subsets:
        for operator, kinds in sorted(subset[ring].items()):
            for kind in ("plain", "expanded") if expanded else ("plain",):
                for name in kinds[kind]:
                    yield SuiteCase(name, ring, operator, kind == "expanded")
