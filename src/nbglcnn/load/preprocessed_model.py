"""A model with a Preprocess: its Graph takes a picture, and the steps are its first layers."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from nbglcnn.errors import InputError, NbglcnnError
from nbglcnn.graph import Array, Attribute, Graph, Node, Value, ValueKey
from nbglcnn.inputs.arguments import InputSpec, layout_hint, to_input_arrays
from nbglcnn.inputs.preprocess import KEY_PREFIX, LUMA_WEIGHTS, Preprocess, PreprocessStep
from nbglcnn.load.arguments import ForwardArguments
from nbglcnn.load.model import BaseLoader, LoadResult, ValuesByKey
from nbglcnn.plan.picture_layout import PictureLayout, channels_and_size, picture_layout

if TYPE_CHECKING:
    from nbglcnn.load.onnx.model import PartialLoad
    from nbglcnn.load.onnx.onnx_model import OnnxModel
    from nbglcnn.load.torch.model import TorchModel
    from nbglcnn.load.training_mode import TrainingMode

# Options of a Preprocess that leave the values unchanged.
DEFAULT_OPTIONS = (
    *(("range", (0.0, 1.0)), ("channels", "RGB"), ("mean", None), ("std", None)),
    ("layout", "NCHW"),
)
PICTURE_VALUE_NAME = "picture"  # the input's value name, if any steps follow


@dataclass(frozen=True, eq=False)
class PreprocessedModel:
    """A module or file with a Preprocess before it."""

    model: TorchModel | OnnxModel
    preprocess: Preprocess

    @property
    def base_models(self) -> tuple[TorchModel | OnnxModel]:
        """The model behind the Preprocess."""
        return (self.model,)

    @property
    def user_model(self) -> Any:
        """The module or file as the user gave it."""
        return self.model.user_model

    def raw_inputs(self, x: Any) -> RawInputs:
        """Convert `x` to the inputs before the Preprocess: pictures, or zeros of its size."""
        return self.model.raw_inputs(self.preprocess, x)

    def load(
        self,
        x: Any,
        collected_values: ValuesByKey | None = None,
        load_base: BaseLoader | None = None,
    ) -> LoadResult:
        """Load the Graph with the steps as its first layers, and all inputs, the picture first."""
        given = self.raw_inputs(x)
        graph, arrays = self.model.load(given.preprocessed, collected_values, load_base)
        return given.prepend_steps(graph, collected_values), (given.inputs[0], *arrays[1:])

    def load_partial(self, x: Any) -> PartialLoad | None:
        """Load the supported part of the file, without the steps."""
        return self.model.load_partial(self.raw_inputs(x).preprocessed)

    def load_each_module(self, x: Any) -> Sequence[tuple[str, str, Graph | NbglcnnError]]:
        """Call the same method of the module."""
        return self.model.load_each_module(self.raw_inputs(x).preprocessed)

    def check_gradients(
        self, x: Any, graph: Graph, wrt: Collection[str], *, check_all: bool = False
    ) -> None:
        """Raise UnsupportedModel if the module's own code changes any gradient."""
        self.model.check_gradients(self.raw_inputs(x).preprocessed, graph, wrt, check_all=True)

    def convert_state_dict(self, state_dict: Mapping[str, Any]) -> Mapping[str, Any]:
        """Convert a state_dict to the weights that the base model loads."""
        return self.model.convert_state_dict(state_dict)

    def state_dict(self, weights: Mapping[str, Array]) -> dict[str, Any]:
        """Return the base model's state_dict."""
        return self.model.state_dict(weights)

    def state_dict_arrays(self, weights: Mapping[str, Array]) -> dict[str, Array]:
        """Return the base model's state_dict as arrays."""
        return self.model.state_dict_arrays(weights)

    def initial_weights(self, seed: int) -> dict[str, Any]:
        """Call the same method of the module."""
        return self.model.initial_weights(seed)

    def write_onnx(
        self, graph: Graph, weights: Mapping[str, Array], path: str | os.PathLike[str]
    ) -> Path:
        """Write the base model to a file, without the steps."""
        return self.model.write_onnx(strip_preprocess(graph), weights, path)

    def training_mode(self) -> TrainingMode:
        """Return the base model for training, with the same steps."""
        own = self.model.training_mode()
        [model] = own.model.base_models
        return replace(own, model=PreprocessedModel(model, self.preprocess))


@dataclass(frozen=True)
class RawInputs:
    """The inputs of a PreprocessedModel: picture, other inputs, and the model's channel count.

    `names` are the names of the inputs; `noise` is the user's noise.
    """

    preprocess: Preprocess
    inputs: tuple[Array, ...]
    channels: int
    names: tuple[str, ...]
    noise: Mapping[str, Any] | Sequence[Any] = ()
    arguments: ForwardArguments | None = None

    @property
    def preprocessed(self) -> Any:
        """The inputs of the base model, after the steps."""
        made = self.inputs[0]
        steps = () if made.dtype == np.uint8 else self.preprocess.steps(self.channels)
        for step in steps:
            made = step.apply(made)
        own = (made, *self.inputs[1:])
        if self.arguments is not None:
            x = self.arguments.example(own)
            if isinstance(x, Mapping) and isinstance(self.noise, Mapping):
                return {**x, **self.noise}
            return (*x, *self.noise) if isinstance(x, tuple) else x
        if isinstance(self.noise, Mapping):
            return {**dict(zip(self.names, own, strict=True)), **self.noise}
        return (*own, *self.noise)

    def prepend_steps(self, graph: Graph, collected_values: dict[str, Array] | None) -> Graph:
        """Prepend the steps to the Graph; add their values to `collected_values`."""
        made = prepend_preprocess(graph, self.preprocess, self.inputs[0], self.channels)
        if collected_values:  # else the model's values are unknown, too
            collected_values.update(run_preprocess(self.preprocess, made, self.inputs)[0])
        return made


def raw_inputs(
    preprocess: Preprocess,
    x: Any,
    specs: Sequence[InputSpec],
    channels: int | None,
    model: str,
    noise: Mapping[str, Any] | Sequence[Any] = (),
) -> RawInputs:
    """Convert `x` to RawInputs, for a model whose first input has `channels` channels.

    `specs` are the model's inputs; `channels` is None if unknown; `model` is its name for messages.
    """
    first = specs[0]
    layout = _uint8_picture_layout(preprocess, first)
    channels, sides = _channels_and_size(preprocess, first, channels, layout)
    known = None if None in sides else (int(sides[0] or 0), int(sides[1] or 0))
    own = _picture_channels(preprocess, channels)
    spec = InputSpec(
        first.name,
        (
            first.shape[0] if first.shape else None,
            *((*sides, own) if layout == "NHWC" else (own, *sides)),
        ),
        np.dtype(np.float32 if layout is None else np.uint8),
        advice=_picture_hint(preprocess),
        fit=preprocess.fit,
        crop_fraction=1.0 if known is None else preprocess.share(known),
    )
    if x is None:
        x = _zero_picture(preprocess, spec, specs, model)
    given = x[0] if isinstance(x, tuple) and x else x
    if isinstance(given, Mapping):
        given = given.get(first.name)
    _check_channels_first(preprocess, given, spec)
    whole = to_input_arrays(x, (spec, *specs[1:]), channels=spec.shape[1] if spec.shape else None)
    picture = whole[0]
    if layout is not None:
        return RawInputs(preprocess, whole, 3, tuple(one.name for one in specs), noise)
    if picture.ndim != 4 or picture.shape[1] not in (1, 3):
        raise InputError(
            f"{first.name}: shape {picture.shape} was given; with preprocess, expected the "
            "picture, (n, 3 or 1, height, width) with values from 0 to 1"
        )
    if channels is None:
        channels = 1 if preprocess.channels == "grey" else picture.shape[1]
    return RawInputs(preprocess, whole, channels, tuple(one.name for one in specs), noise)


def _uint8_picture_layout(preprocess: Preprocess, spec: InputSpec) -> PictureLayout | None:
    """The layout of a uint8 input, which takes pictures unchanged; None for other inputs.

    Raise InputError if the Preprocess would change values.
    """
    if spec.dtype != np.uint8 or (layout := picture_layout(spec.shape, spec.dtype)) is None:
        return None
    steps = [
        f"{name}={getattr(preprocess, name)!r}"
        for name, usual in DEFAULT_OPTIONS
        if getattr(preprocess, name) not in (usual, layout)
    ]
    if steps:
        raise InputError(
            f"preprocess: {', '.join(steps)} can't be used with the uint8 input {spec.name!r}, "
            "which takes pictures as bytes in its own layout; use size, resize and fit"
        )
    return layout


def _channels_and_size(
    preprocess: Preprocess, spec: InputSpec, channels: int | None, layout: PictureLayout | None
) -> tuple[int | None, tuple[int | None, int | None]]:
    """The model's channels, and the height and width of its input; None if unknown."""
    height = width = None
    if (shape := spec.shape) is not None:
        if len(shape) != 4:
            raise InputError(
                f"preprocess: the model's first input {spec.name!r} has the shape {shape}, which "
                "is not a picture"
            )
        last = (layout or preprocess.layout) == "NHWC"
        channels, height, width = (shape[3], *shape[1:3]) if last else shape[1:]
        other = shape[1] if last else shape[3]
        if channels not in (None, 1, 3) and other in (1, 3):
            own = "NCHW" if last else "NHWC"
            raise InputError(
                f"preprocess: the input {spec.name!r} is {_format_shape(shape)}, channels "
                f'{"first" if last else "last"}: give Preprocess(layout="{own}")'
            )
    if channels not in (None, 1, 3) and layout is None:
        raise InputError(f"preprocess: the model takes {channels} channels; a picture has 1 or 3")
    if preprocess.channels == "BGR" and channels == 1:
        raise InputError('preprocess: channels="BGR", but the model takes 1 channel')
    sides = (height, width)
    if preprocess.size is not None:
        assert isinstance(preprocess.size, tuple)
        for have, want in zip(sides, preprocess.size, strict=True):
            if have not in (None, want):
                raise InputError(
                    f"preprocess: size is {preprocess.size}; the model's input {spec.name!r} is "
                    f"{height}×{width}"
                )
        sides = preprocess.size
    return channels, sides


def _picture_channels(preprocess: Preprocess, channels: int | None) -> int | None:
    """The picture's channels: 3 if a step needs colour, else the model's."""
    return channels if preprocess.channels == "RGB" else 3


def _picture_hint(preprocess: Preprocess) -> str:
    words = "With preprocess, x is the original picture, before any step"
    if preprocess.channels != "RGB":
        words += f'; channels="{preprocess.channels}" is computed from RGB'
    return words


def _check_channels_first(preprocess: Preprocess, picture: Any, spec: InputSpec) -> None:
    """Raise InputError for channels-last pictures: x is channels first, also for NHWC models."""
    shape = tuple(getattr(picture, "shape", ()))
    if preprocess.layout == "NHWC" and spec.dtype != np.uint8 and (turned := layout_hint(shape, 3)):
        raise InputError(
            f"{spec.name}: shape {shape} was given; with preprocess, expected the picture, which "
            f"preprocess.layout transposes{turned}"
        )


def _zero_picture(
    preprocess: Preprocess, spec: InputSpec, specs: Sequence[InputSpec], model: str
) -> Array:
    """A picture of zeros, used if `x` is None."""
    assert spec.shape is not None
    n = spec.shape[0]
    layout = picture_layout(spec.shape, spec.dtype) or "NCHW"
    c, h, w = channels_and_size(spec.shape, layout)
    if h is None or w is None or len(specs) > 1:
        raise InputError(
            f"{model} needs an example input or its size: give x, or Preprocess(size=224, …)"
            if len(specs) == 1
            else f"{model} has {len(specs)} inputs: give x as a tuple with the picture first"
        )
    sides = (h, w, c or 3) if layout == "NHWC" else (c or 3, h, w)
    return np.zeros((n or 1, *sides), spec.dtype)


def _format_shape(shape: Sequence[int | None]) -> str:
    return "(" + ", ".join("?" if d is None else str(d) for d in shape) + ")"


def prepend_preprocess(
    graph: Graph, preprocess: Preprocess, picture: Array, channels: int
) -> Graph:
    """Return the model's Graph with the picture as first input and the steps as nodes."""
    own = graph.inputs[0]
    fits = {**graph.picture_fits}
    layout = picture_layout(picture.shape, picture.dtype)
    # A uint8 input has its own layout, and no steps.
    steps = () if picture.dtype == np.uint8 else preprocess.steps(channels)
    size = channels_and_size(picture.shape, layout or "NCHW")[1:]
    name = _free_value_name(PICTURE_VALUE_NAME, graph) if steps else own
    fits[name] = preprocess.fit, preprocess.share(size)
    if not steps:
        return replace(graph, picture_fits=MappingProxyType(fits))
    made = _StepNodeBuilder(graph, preprocess, channels)
    made.add_value(name, picture.shape)
    taken = {key.name for key in graph.keys}
    keys: list[ValueKey] = []
    value = name
    for step in steps:
        last = step is steps[-1]
        value = made.add_step(step, value, own if last else _free_value_name(step.key, graph))
        key, number = step.key, 0
        while key in taken:  # a module of the model may have the same name
            number += 1
            key = f"{step.key}:{number}"
        keys.append(ValueKey(key, value, "layer", step.title, step.description))
    inputs = [
        replace(k, value_name=name) for k in graph.keys if k.kind == "input" and k.value_name == own
    ]
    others = [k for k in graph.keys if k.kind == "input" and k.value_name != own]
    rest = [key for key in graph.keys if key.kind != "input"]
    return replace(
        graph,
        nodes=(*made.nodes, *graph.nodes),
        values=MappingProxyType({**made.values, **graph.values}),
        inputs=(name, *graph.inputs[1:]),
        keys=(*inputs, *others, *keys, *rest),
        picture_fits=MappingProxyType(fits),
        preprocess_keys=tuple(key.name for key in keys),
    )


def strip_preprocess(graph: Graph) -> Graph:
    """Return the Graph without its Preprocess, with the current weights."""
    if not graph.preprocess_keys:
        return graph
    front = set(graph.preprocess_keys)
    own = graph.key(graph.preprocess_keys[-1]).value_name
    picture = graph.inputs[0]
    nodes, needed = set[str](), {own}
    for node in reversed(graph.nodes):
        if not needed.isdisjoint(node.outputs):
            nodes.add(node.name)
            needed.update(node.inputs)
    return replace(
        graph,
        nodes=tuple(node for node in graph.nodes if node.name not in nodes),
        inputs=(own, *graph.inputs[1:]),
        keys=tuple(
            replace(key, value_name=own)
            if key.kind == "input" and key.value_name == picture
            else key
            for key in graph.keys
            if key.name not in front
        ),
        picture_fits=MappingProxyType(
            {n: fit for n, fit in graph.picture_fits.items() if n != picture}
        ),
        preprocess_keys=(),
    )


def run_preprocess(
    preprocess: Preprocess,
    graph: Graph,
    arrays: Sequence[Array],
    bend: Callable[[str, Array], Array] = lambda _, array: array,
) -> tuple[dict[str, Array], tuple[Array, ...]]:
    """Compute the picture and each step's output, by key, and the model's own inputs.

    NumPy computes in the picture's dtype; `bend` edits each value before it is passed on.
    """
    key = next(k.name for k in graph.keys if k.kind == "input" and k.value_name == graph.inputs[0])
    value = bend(key, arrays[0])
    found = {key: value}
    channels = _model_channels(graph)
    steps = preprocess.steps(channels) if graph.preprocess_keys else ()
    for name, step in zip(graph.preprocess_keys, steps, strict=True):
        value = bend(name, step.apply(value))
        found[name] = value
    return found, (value, *arrays[1:])


def _model_channels(graph: Graph) -> int:
    """The number of channels that the model takes."""
    last = graph.key(graph.preprocess_keys[-1]) if graph.preprocess_keys else None
    shape = graph.shape(last.value_name if last else graph.inputs[0])
    return shape[3] if last and last.module_type == "NHWC" else shape[1]


class _StepNodeBuilder:
    """Builds the nodes of the steps, with their values and constants."""

    def __init__(self, graph: Graph, preprocess: Preprocess, channels: int) -> None:
        self._graph = graph
        self._preprocess = preprocess
        self._channels = channels
        self.nodes: list[Node] = []
        self.values: dict[str, Value] = {}

    def add_value(self, name: str, shape: tuple[int, ...]) -> None:
        self.values[name] = Value(name, shape, np.dtype(np.float32))

    def add_step(self, step: PreprocessStep, source: str, output: str) -> str:
        """Add the nodes of a step from `source` to `output`; return `output`."""
        own = self._preprocess
        parts: list[tuple[str, tuple[Array, ...], Mapping[str, Attribute]]] = []
        if step.title == "Range":
            low, high = own.range
            parts.append(("Mul", (np.array(high - low, np.float32),), {}))
            if low:
                parts.append(("Add", (np.array(low, np.float32),), {}))
        elif step.title == "BGR":
            parts.append(("Gather", (np.array([2, 1, 0]),), {"axis": 1}))
        elif step.title == "Grey":
            luma = np.array(LUMA_WEIGHTS, np.float32).reshape(1, 3, 1, 1)
            weights = np.repeat(luma, self._channels, 0)
            parts.append(("Conv", (weights,), {"kernel_shape": (1, 1)}))
        elif step.title == "Normalize":
            for op, name in (("Sub", "mean"), ("Div", "std")):
                numbers = own.channel_array(name, self._channels)  # type: ignore[arg-type]
                if numbers is not None:
                    parts.append((op, (numbers,), {}))
        else:
            parts.append(("Transpose", (), {"perm": (0, 2, 3, 1)}))
        for number, (op, constants, attributes) in enumerate(parts):
            made = output if number == len(parts) - 1 else f"{output}: {op.lower()}"
            names = [self._constant(f"{step.key}: {op.lower()}", data) for data in constants]
            self.nodes.append(
                Node(
                    f"{KEY_PREFIX}: {step.key} {op}",
                    op,
                    (source, *names),
                    (made,),
                    MappingProxyType(dict(attributes)),
                    module=step.key,
                    module_type=step.title,
                )
            )
            shape = self._shape(step, source)
            if made not in self._graph.values:
                self.add_value(made, shape)
            source = made
        return output

    def _shape(self, step: PreprocessStep, source: str) -> tuple[int, ...]:
        n, c, h, w = self.values[source].shape
        if step.title == "NHWC":
            return n, h, w, c
        return n, self._channels if step.title == "Grey" else c, h, w

    def _constant(self, name: str, data: Array) -> str:
        name = _free_value_name(f"{name} by", self._graph)
        self.values[name] = Value(name, data.shape, data.dtype, data)
        return name


def _free_value_name(name: str, graph: Graph) -> str:
    while name in graph.values:
        name += "'"
    return name
