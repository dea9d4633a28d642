"""A torch.nn.Module as a Model. Its methods import the recording code only when called."""

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
from nbglcnn.inputs.arguments import InputSpec, to_input_arrays
from nbglcnn.inputs.preprocess import Preprocess
from nbglcnn.load.arguments import ForwardArguments, check_argument_names, parse_arguments
from nbglcnn.load.model import BaseLoader, CheckNodesFn, CheckOperatorFn, LoadResult, ValuesByKey
from nbglcnn.load.preprocessed_model import RawInputs, raw_inputs
from nbglcnn.load.torch.isolation.copies import unwrap_model
from nbglcnn.load.torch.isolation.forward_signature import (
    image_channels,
    input_names,
    parameters_by_name,
)
from nbglcnn.load.torch.isolation.process_state import load_lock, pause_gc

if TYPE_CHECKING:
    from nbglcnn.load.torch.record.random_draws import Noise
    from nbglcnn.load.training_mode import TrainingMode


@dataclass(frozen=True, eq=False)
class TorchModel:
    """A torch module, possibly wrapped by torch.compile or DataParallel."""

    user_model: Any

    @property
    def base_models(self) -> tuple[TorchModel]:
        """The model itself."""
        return (self,)

    @cached_property
    def module(self) -> torch.nn.Module:
        """The module inside the wrappers; UnsupportedModel for TorchScript."""
        return unwrap_model(self.user_model)

    @property
    def name(self) -> str:
        """The class name of the user's module."""
        return type(self.user_model).__name__

    def load(
        self,
        x: Any,
        collected_values: ValuesByKey | None = None,
        load_base: BaseLoader | None = None,
    ) -> LoadResult:
        """Load the Graph and all its inputs, for an example input `x`."""
        return (
            self.load_base(x, collected_values)
            if load_base is None
            else load_base(self, x, collected_values)
        )

    def load_base(
        self,
        x: Any,
        collected_values: ValuesByKey | None = None,
        check_nodes: CheckNodesFn | None = None,
        check_operator: CheckOperatorFn | None = None,
    ) -> LoadResult:
        """Load the Graph and all its inputs; UnsupportedModel if the module can't be loaded.

        Args:
            x: The example input.
            collected_values: Receives the values of its modules for `x`, by key.
            check_nodes: Returns the nodes of a Graph that cannot run, with reasons. If it is set,
                these nodes, or modules that contain code that cannot be recorded, are left to
                Python.
            check_operator: Returns such a reason for an operator by its name.
        """
        with load_lock():
            from nbglcnn.load.torch.module import load_module

            if x is None:
                raise InputError(
                    f"{self.name} needs an example input to determine its shapes. Give x, for "
                    "example numpy.zeros((1, 3, 64, 64), 'float32')"
                )
            arguments, arrays, noise = self._parse_inputs(x)
            with pause_gc():
                return load_module(
                    self.module,
                    arrays,
                    collected_values,
                    check_nodes,
                    check_operator,
                    noise,
                    arguments,
                )

    def _split_noise(self, x: Any) -> tuple[Any, Noise]:
        """Split an example input into the inputs and the noise."""
        from nbglcnn.load.torch.record.random_draws import split_noise

        return split_noise(self.module, x)

    def _parse_inputs(self, x: Any) -> tuple[ForwardArguments | None, tuple[Array, ...], Noise]:
        """Return Arguments (None for plain arrays), the input arrays, and the noise of a call."""
        x, noise = self._split_noise(x)
        by_position, every, defaults = parameters_by_name(self.module)
        channels = image_channels(self.module)
        if (found := parse_arguments(x, by_position, defaults)) is not None:
            arguments, own = found
            if every is not None:
                check_argument_names(arguments.keyword, every)
            specs = tuple(InputSpec(name) for name in arguments.input_names)
            return arguments, to_input_arrays(own, specs, channels=channels), noise
        named = (
            tuple(InputSpec(name) for name in input_names(self.module, len(x)))
            if isinstance(x, Mapping)
            else None
        )
        return None, to_input_arrays(x, named, channels=channels), noise

    def raw_inputs(self, preprocess: Preprocess, x: Any) -> RawInputs:
        """Convert `x` to the inputs before a Preprocess: pictures, or zeros of its size."""
        x, noise = self._split_noise(x)
        channels = image_channels(self.module)
        by_position, _, defaults = parameters_by_name(self.module)
        found = None if x is None else parse_arguments(x, by_position, defaults)
        if found is not None:
            arguments, x = found
            specs = [InputSpec(name) for name in arguments.input_names]
            made = raw_inputs(preprocess, x, specs, channels, self.name, noise.user_arrays)
            return replace(made, arguments=arguments)
        count = len(x) if isinstance(x, tuple | Mapping) else 1
        specs = [InputSpec(name) for name in input_names(self.module, count)]
        return raw_inputs(preprocess, x, specs, channels, self.name, noise.user_arrays)

    def load_partial(self, x: Any) -> None:
        """Return None: `load_each_module` loads the modules by themselves."""

    def load_each_module(self, x: Any) -> Sequence[tuple[str, str, Graph | NbglcnnError]]:
        """Load each module by itself: its path, type, and Graph or error."""
        from nbglcnn.load.torch.per_module import load_each_module

        with load_lock():
            try:
                arguments, arrays, _ = self._parse_inputs(x)
            except UnsupportedModel:  # the module hides its submodules
                return ()
            return load_each_module(self.module, arrays, arguments)

    def check_gradients(
        self, x: Any, graph: Graph, wrt: Collection[str], *, check_all: bool = False
    ) -> None:
        """Raise UnsupportedModel if the module's own code changes a gradient."""
        from nbglcnn.load.torch.checks.gradient_overrides import refuse_overrides

        arguments, arrays, _ = self._parse_inputs(x)
        inputs = [value for value in graph.inputs if value not in graph.noise_defaults]
        parameters = {name for name, value in graph.parameters.items() if value in wrt}
        at = [position for position, value in enumerate(inputs) if value in wrt]
        known = {*inputs, *graph.parameters.values()}
        if check_all or not known.issuperset(wrt):  # a layer: it may depend on all of these
            parameters, at = set(graph.parameters), [*range(len(arrays))]
        refuse_overrides(self.module, arrays, parameters, inputs=at, arguments=arguments)

    def convert_state_dict(self, state_dict: Mapping[str, Any]) -> Mapping[str, Any]:
        """Convert a state_dict to the weights it loads, by the module's own code if it has any."""
        from nbglcnn.load.torch.weights.state_dict import convert_state_dict

        return convert_state_dict(self.module, state_dict)

    def state_dict(self, weights: Mapping[str, Array]) -> dict[str, Any]:
        """Return the module's state_dict with these weights."""
        from nbglcnn.load.torch.weights.state_dict import state_dict_tensors

        return state_dict_tensors(self.user_model, self.module, weights)

    def state_dict_arrays(self, weights: Mapping[str, Array]) -> dict[str, Array]:
        """Return the state_dict as arrays, under the names of the module inside wrappers."""
        from nbglcnn.load.torch.weights.state_dict import state_dict_arrays

        return state_dict_arrays(self.module, weights)

    def initial_weights(self, seed: int) -> dict[str, Any]:
        """Draw initial weights by the `reset_parameters` of its modules, by name."""
        from nbglcnn.load.torch.weights.initialization import initial_weights

        return initial_weights(self.module, seed)

    def write_onnx(
        self, graph: Graph, weights: Mapping[str, Array], path: str | os.PathLike[str]
    ) -> Path:
        """Write an ONNX file by PyTorch's exporter, for inputs of the Graph's shapes."""
        from nbglcnn.load.torch.onnx_export import to_onnx

        inputs = [graph.values[name] for name in graph.inputs if name not in graph.noise_defaults]
        shapes = [(value.shape, value.dtype) for value in inputs]
        with load_lock():
            return to_onnx(
                self.module, weights, shapes, len(graph.outputs), Path(path), graph.input_structure
            )

    def training_mode(self) -> TrainingMode:
        """Return a copy in eval mode, with the training-mode behaviour of its modules."""
        from nbglcnn.load.torch.checks.training_mode import torch_training_mode

        return torch_training_mode(self)
