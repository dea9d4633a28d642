"""A torch.nn.Module as a Model. Only what it is asked for imports the recording of modules."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from nbglcnn.errors import InputError, NbglcnnError, UnsupportedModel
from nbglcnn.graph import Array, Graph
from nbglcnn.inputs.arguments import Spec, as_arrays
from nbglcnn.inputs.preprocess import Preprocess
from nbglcnn.load.arguments import Arguments, arguments_of, check_names
from nbglcnn.load.model import Known, Loaded, Missing, Problems, Read
from nbglcnn.load.prepared import Pictured, pictured
from nbglcnn.load.torch.isolation.copies import unwrapped
from nbglcnn.load.torch.isolation.process_state import one_at_a_time, uncollected
from nbglcnn.load.torch.isolation.signature import image_channels, input_names, parameters_by_name

if TYPE_CHECKING:
    from nbglcnn.load.torch.record.random_draws import Noise
    from nbglcnn.load.training import TrainingMode


@dataclass(frozen=True, eq=False)
class TorchModel:
    """A module, which may be wrapped by torch.compile or DataParallel."""

    source: Any

    @property
    def leaves(self) -> tuple[TorchModel]:
        """Itself."""
        return (self,)

    @cached_property
    def module(self) -> torch.nn.Module:
        """The module inside the wrappers; UnsupportedModel for TorchScript."""
        return unwrapped(self.source)

    @property
    def name(self) -> str:
        """The class of what the user gave."""
        return type(self.source).__name__

    def load(self, x: Any, known: Known | None = None, read: Read | None = None) -> Loaded:
        """The Graph and all its inputs, for an example input `x`."""
        return self.read(x, known) if read is None else read(self, x, known)

    def read(
        self,
        x: Any,
        known: Known | None = None,
        problems: Problems | None = None,
        missing: Missing | None = None,
    ) -> Loaded:
        """The Graph and all its inputs; UnsupportedModel for what cannot be loaded.

        Args:
            x: the example input.
            known: receives the values of its modules for `x`, by key.
            problems: for a Graph the reasons for which nodes cannot run: they, or the modules that
                hold what cannot be recorded, are left to Python then.
            missing: the same reason for an operator by its name.
        """
        with one_at_a_time():
            from nbglcnn.load.torch.module import load_module

            if x is None:
                raise InputError(
                    f"{self.name} needs an example input: its shapes come from there. "
                    "Give x, for example numpy.zeros((1, 3, 64, 64), 'float32')"
                )
            arguments, arrays, noise = self._inputs(x)
            with uncollected():
                return load_module(self.module, arrays, known, problems, missing, noise, arguments)

    def _parted(self, x: Any) -> tuple[Any, Noise]:
        """An example input without the noise in it, and that."""
        from nbglcnn.load.torch.record.random_draws import parted

        return parted(self.module, x)

    def _inputs(self, x: Any) -> tuple[Arguments | None, tuple[Array, ...], Noise]:
        """How it is called with its example input, where not by arrays alone; these, and noise."""
        x, noise = self._parted(x)
        by_position, every, defaults = parameters_by_name(self.module)
        channels = image_channels(self.module)
        if (found := arguments_of(x, by_position, defaults)) is not None:
            arguments, own = found
            if every is not None:
                check_names(arguments.by_name, every)
            specs = tuple(Spec(name) for name in arguments.names)
            return arguments, as_arrays(own, specs, channels=channels), noise
        named = (
            tuple(Spec(name) for name in input_names(self.module, len(x)))
            if isinstance(x, Mapping)
            else None
        )
        return None, as_arrays(x, named, channels=channels), noise

    def pictured(self, preprocess: Preprocess, x: Any) -> Pictured:
        """Its inputs behind a Preprocess, of `x`: pictures, or zeros of its size."""
        x, noise = self._parted(x)
        channels = image_channels(self.module)
        by_position, _, defaults = parameters_by_name(self.module)
        found = None if x is None else arguments_of(x, by_position, defaults)
        if found is not None:
            arguments, x = found
            specs = [Spec(name) for name in arguments.names]
            made = pictured(preprocess, x, specs, channels, self.name, noise.given)
            return replace(made, arguments=arguments)
        count = len(x) if isinstance(x, tuple | Mapping) else 1
        specs = [Spec(name) for name in input_names(self.module, count)]
        return pictured(preprocess, x, specs, channels, self.name, noise.given)

    def partly(self, x: Any) -> None:
        """None: its modules are loaded alone."""

    def modules_alone(self, x: Any) -> Sequence[tuple[str, str, Graph | NbglcnnError]]:
        """Each module loaded by itself: path, type, Graph or why there is none."""
        from nbglcnn.load.torch.per_module import pieces

        with one_at_a_time():
            try:
                arguments, arrays, _ = self._inputs(x)
            except UnsupportedModel:  # it hides its modules
                return ()
            return pieces(self.module, arrays, arguments)

    def check_gradients(
        self, x: Any, graph: Graph, wrt: Collection[str], *, every: bool = False
    ) -> None:
        """Raise UnsupportedModel where the module's own code changes a gradient."""
        from nbglcnn.load.torch.checks.gradient_overrides import refuse_overrides

        arguments, arrays, _ = self._inputs(x)
        inputs = [value for value in graph.inputs if value not in graph.noise]
        parameters = {name for name, value in graph.parameters.items() if value in wrt}
        at = [position for position, value in enumerate(inputs) if value in wrt]
        known = {*inputs, *graph.parameters.values()}
        if every or not known.issuperset(wrt):  # a layer: what it follows from
            parameters, at = set(graph.parameters), [*range(len(arrays))]
        refuse_overrides(self.module, arrays, parameters, inputs=at, arguments=arguments)

    def as_loaded(self, state_dict: Mapping[str, Any]) -> Mapping[str, Any]:
        """The numbers that a state_dict gives it, by code of its own where it has some."""
        from nbglcnn.load.torch.weights.state_dict import as_loaded

        return as_loaded(self.module, state_dict)

    def state_dict(self, numbers: Mapping[str, Array]) -> dict[str, Any]:
        """Its state_dict with these numbers in it."""
        from nbglcnn.load.torch.weights.state_dict import tensors_of

        return tensors_of(self.source, self.module, numbers)

    def all_arrays(self, numbers: Mapping[str, Array]) -> dict[str, Array]:
        """The same as arrays, under the names of the module inside wrappers."""
        from nbglcnn.load.torch.weights.state_dict import arrays_of

        return arrays_of(self.module, numbers)

    def initial(self, seed: int) -> dict[str, Any]:
        """Its weights by name, drawn by the `reset_parameters` of its modules."""
        from nbglcnn.load.torch.weights.initialization import initial

        return initial(self.module, seed)

    def write_onnx(
        self, graph: Graph, weights: Mapping[str, Array], path: str | os.PathLike[str]
    ) -> Path:
        """Let PyTorch's exporter write a file, for inputs of the Graph's shapes."""
        from nbglcnn.load.torch.onnx_export import to_onnx

        inputs = [graph.values[name] for name in graph.inputs if name not in graph.noise]
        shapes = [(value.shape, value.dtype) for value in inputs]
        with one_at_a_time():
            return to_onnx(
                self.module, weights, shapes, len(graph.outputs), Path(path), graph.arguments
            )

    def training_mode(self) -> TrainingMode:
        """A copy in eval mode, and what its modules do otherwise in training."""
        from nbglcnn.load.torch.checks.training_mode import mode_of

        return mode_of(self)
