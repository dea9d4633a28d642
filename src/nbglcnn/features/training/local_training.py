"""`nbglcnn.train`: checks of its arguments, and compilation of the training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from nbglcnn.errors import DeviceError, InputError
from nbglcnn.features.training.data import BatchSource, open_batches
from nbglcnn.features.training.loop import TrainingLoop
from nbglcnn.features.training.memory import check_memory
from nbglcnn.features.training.optimizers import SGD, Adam, AdamW, Optimizer, suggest_optimizer
from nbglcnn.features.training.result import Training
from nbglcnn.features.training.run import TrainingRun, validate_targets
from nbglcnn.features.training.step import LOSS, StepOptions, TrainStep, build_step
from nbglcnn.features.training.trainable import select_parameters
from nbglcnn.graph import Array, Graph
from nbglcnn.load import Model, parameters_of, with_parameters, wrap_model
from nbglcnn.load.training_mode import TrainingMode, check_training
from nbglcnn.losses import Loss, has_class_indices, to_loss, unknown_loss_message
from nbglcnn.lowering.lower import lower
from nbglcnn.runtime.device import shared_device


def train(
    model: Any,
    data: Any,
    loss: Any = "mse",
    optimizer: Optimizer = SGD(0.1, momentum=0.9),  # noqa: B008 - it cannot change
    batch_size: int | None = None,
    *,
    epochs: int | None = None,
    steps: int | None = None,
    parameters: str | Sequence[str] = "all",
    shuffle: bool = True,
    seed: int = 0,
    output: str = "output",
    optimizer_state: Mapping[str, Any] | None = None,
    max_bytes: int | None = None,
    progress: bool = True,
) -> Training:
    """Train a network on local OpenGL, as `model.train()` and torch.optim would.

    BatchNorm uses the statistics of its batch, and Dropout is active. If the module is already in
    training mode, its modules in eval mode stay in eval mode.

    An interrupt (the stop button, Ctrl-C) ends the training after the current step and keeps the
    result so far. If the loss or a parameter becomes NaN or infinite, the training ends with the
    weights before that step, and a warning names the first such value.

    Args:
        model: A `torch.nn.Module`, or an ONNX model as for `compile`. It is not changed.
        data: `(inputs, targets)`, arrays or tensors with the examples along the first axis; for
            several inputs `((first, second), targets)`; a single array if the targets are the
            inputs; a torch Dataset or a DataLoader. Arrays of uint8 are pictures: they become
            numbers from 0 to 1, channels first.
        loss: `"mse"` (default), `"l1"`, `"smooth_l1"`, `"bce"`, `"bce_with_logits"` or
            `"cross_entropy"`, as in torch.nn.functional with reduction "mean"; a loss of
            `nbglcnn.losses`, or torch.nn's module for one of these; or the name of a scalar output
            of the model, whose inputs are then all of `data`.
        optimizer: `SGD`, `Adam` or `AdamW`. Its `lr` may be a function of the step. Default:
            `SGD(0.1, momentum=0.9)`.
        batch_size: The number of examples per step. Default: 32. The last batch of an epoch may
            have fewer.
        epochs: The number of epochs. Give either `epochs` or `steps`.
        steps: The number of steps. The data is repeated as needed.
        parameters: `"all"` (default; all that require a gradient), or a list of names, modules or
            patterns such as `"decoder.*"`. No gradient is computed for the others.
        shuffle: Whether each epoch has its own order; otherwise the order of the data. Default:
            True.
        seed: The seed of the order, of Dropout's masks and of random numbers in `forward`. Default:
            0.
        output: The output that the loss compares with the targets. Default: `"output"`.
        optimizer_state: The `optimizer_state` of an earlier result, to continue; load its weights
            into the model, too. Default: None.
        max_bytes: The maximum memory of textures in bytes. Default: on a software renderer four
            fifths of the free memory, otherwise no limit.
        progress: Whether to show a progress bar. Default: True.

    Returns:
        The losses, weights, gradients and optimizer state; see `Training`.

    Raises:
        UnsupportedOperator: If an operator on the path has no gradient. The message names the
            layer.
        UnsupportedModel: If a layer is not supported in training mode. The message names the layer.
        InputError: If the data, the loss or another argument doesn't fit.
        KeyError: If `parameters` contains an unknown name.
        DeviceError: If more memory is needed than is available. The message has a batch size that
            fits.

    Example:
        >>> result = nbglcnn.train(model, images, "mse", nbglcnn.Adam(1e-2), epochs=2)
        >>> model.load_state_dict(result.state_dict())
    """
    arguments = model, loss, optimizer, parameters, seed, output, optimizer_state
    batches = _open_data(data, batch_size, loss, optimizer, shuffle, seed)
    run = compile_on_batches(batches, *arguments)
    count = total_steps(batches, epochs, steps)
    check_memory(
        run.plan, run.batch_size, max_bytes, shared_device(None).renderer,
        lambda size: compile_on_batches(batches.with_batch_size(size), *arguments).plan,
    )  # fmt: skip
    begun = 0 if optimizer_state is None else int(optimizer_state["step"])
    return TrainingLoop(run).run(batches.batches(begun), begun, count, progress)


def compile_training(
    model: Any,
    data: Any,
    loss: Any = "mse",
    optimizer: Optimizer = SGD(0.1, momentum=0.9),  # noqa: B008 - it cannot change
    batch_size: int | None = None,
    *,
    parameters: str | Sequence[str] = "all",
    shuffle: bool = True,
    seed: int = 0,
    output: str = "output",
    optimizer_state: Mapping[str, Any] | None = None,
    weights: Mapping[str, Array] | None = None,
    edited_keys: Sequence[str] = (),
) -> tuple[TrainingRun, BatchSource]:
    """Compile what `train` runs, and open its batches; the arguments are those of `train`.

    `weights` replaces the model's initial parameters, by name. Edits of the keys in `edited_keys`
    can act on the training.
    """
    batches = _open_data(data, batch_size, loss, optimizer, shuffle, seed)
    return compile_on_batches(batches, model, loss, optimizer, parameters, seed, output,
                     optimizer_state, weights, edited_keys), batches  # fmt: skip


def _open_data(
    data: Any, batch_size: int | None, loss: Any, optimizer: Optimizer, shuffle: bool, seed: int
) -> BatchSource:
    if not isinstance(optimizer, SGD | Adam | AdamW):
        raise InputError(suggest_optimizer(optimizer))
    own = isinstance(to_loss(loss), str)
    return open_batches(data, batch_size, shuffle=shuffle, seed=seed, has_model_loss=own)


def compile_on_batches(
    batches: BatchSource,
    model: Any,
    loss: Any,
    optimizer: Optimizer,
    parameters: str | Sequence[str],
    seed: int,
    output: str,
    optimizer_state: Mapping[str, Any] | None,
    weights: Mapping[str, Array] | None = None,
    edited_keys: Sequence[str] = (),
) -> TrainingRun:
    """Compile a training on these batches; edits of the keys in `edited_keys` can act on it."""
    model = wrap_model(model)
    graph, request = _prepare_step(model, batches, to_loss(loss), optimizer, parameters, output)
    request = replace(request, edited_keys=tuple(edited_keys))
    if weights is not None:
        own = parameters_of(graph)
        graph = with_parameters(graph, own | {n: weights[n] for n in own if n in weights})
    step = build_step(graph, request)
    if optimizer_state is not None:
        step = _with_optimizer_state(step, type(optimizer).__name__, optimizer_state)
    plan = lower(step.graph, observe=(LOSS,))
    readable = {value.key for value in plan.header.parameters}
    for name in step.parameter_names.values():
        if name not in readable:
            shape = graph.shape(graph.parameters[name])
            raise DeviceError(
                f"{name} of shape {shape} is too large to train: at most "
                f"{4 * plan.header.target.max_texture_size**2:,} values can be read back. "
                "Exclude it from `parameters`"
            )
    return TrainingRun(model, graph, request, seed, batches.batch_size, step, plan)


def total_steps(batches: BatchSource, epochs: int | None, steps: int | None) -> int:
    """The number of steps; InputError unless exactly one of `epochs` and `steps` is set."""
    if (epochs is None) == (steps is None):
        both = (
            "both epochs and steps were given"
            if steps is not None
            else "neither epochs nor steps was given"
        )
        raise InputError(f"{both}: give epochs=… or steps=…")
    for name, value in (("epochs", epochs), ("steps", steps)):
        if value is not None and (not isinstance(value, int) or value < 0):
            raise InputError(f"{name}={value!r}; expected a number ≥ 0")
    if steps is not None:
        return steps
    assert epochs is not None
    if batches.batches_per_epoch is None:
        raise InputError("epochs: this DataLoader doesn't say how many batches it has; give steps")
    return epochs * batches.batches_per_epoch


def _with_optimizer_state(step: TrainStep, optimizer: str, state: Mapping[str, Any]) -> TrainStep:
    """Return the step with a saved optimizer state; InputError if it is of another training."""
    missing = sorted({*step.optimizer_state_names.values(), "step"} - state.keys())
    if missing:
        raise InputError(
            f"optimizer_state: {missing[0]!r} is missing; give result.optimizer_state of a "
            f"training with the same parameters and {optimizer}"
        )
    values = dict(step.graph.values)
    for name in step.optimizer_state_names.values():
        own = values[step.graph.parameters[name]]
        array = np.asarray(state[name], np.float32)
        if array.shape != own.shape:
            raise InputError(
                f"optimizer_state: {name!r} has the shape {array.shape}; it is {own.shape}"
            )
        values[own.name] = replace(own, data=array)
    return replace(step, graph=replace(step.graph, values=MappingProxyType(values)))


def _prepare_step(
    model: Model, batches: BatchSource, loss: Loss | str, optimizer: Optimizer,
    parameters: str | Sequence[str], output: str,
) -> tuple[Graph, StepOptions]:  # fmt: skip
    mode = model.training_mode()
    first = batches.first_batch()
    graph = _load_graph(mode, first.inputs, loss)
    index = False
    if isinstance(loss, Loss):
        output = _find_output(graph, output)
        assert first.target is not None
        index = has_class_indices(loss, first.target)
        validate_targets(loss, first.target, graph, output)
    elif batches.min_batch_size < batches.batch_size:
        raise InputError(
            f"loss={loss!r} is computed by the model, over a whole batch of {batches.batch_size}; "
            "the last batch of an epoch has fewer examples. Give a batch_size that divides the "
            "number of examples, or remove some"
        )
    wanted = select_parameters(graph, mode, parameters)
    check_training(mode, first.inputs, {n for n, v in graph.parameters.items() if v in wanted})
    return graph, StepOptions(mode, wanted, loss, optimizer, output, index, batches.min_batch_size)


def _load_graph(mode: TrainingMode, inputs: tuple[Array, ...], loss: Loss | str) -> Graph:
    try:
        return mode.model.load(inputs if len(inputs) > 1 else inputs[0])[0]
    except InputError as error:
        if isinstance(loss, Loss):
            raise
        raise InputError(
            f"{unknown_loss_message(loss, [])} that the model computes from all of the data "
            f"({error})"
        ) from error


def _find_output(graph: Graph, name: str) -> str:
    """Return the key of the output that the loss is computed from."""
    outputs = [key.name for key in graph.keys if key.kind == "output"]
    if name in [key.name for key in graph.keys]:
        return name
    if name == "output" and len(outputs) == 1:  # an ONNX file may name it differently
        return outputs[0]
    raise InputError(
        f"output={name!r}: the network's outputs are {', '.join(outputs)}; give the name of the "
        "output that the loss uses"
    )
