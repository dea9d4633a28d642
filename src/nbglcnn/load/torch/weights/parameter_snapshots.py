"""Snapshots of a module's weights during training by an outside loop, which it does not block."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import numpy as np
import torch

from nbglcnn.errors import InputError
from nbglcnn.graph import Array
from nbglcnn.load.parameters import strip_compile_prefix

NUMPY_DTYPES = {
    *(torch.float16, torch.float32, torch.float64),
    *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
}
BATCH_COUNTER_NAME = (
    "num_batches_tracked"  # BatchNorm counter: forward ignores it, state_dict has it
)


class TensorSnapshot:
    """A snapshot of tensors at construction; `arrays` transfers them to NumPy.

    GPU tensors are copied on the GPU at once, queued behind earlier work. They are transferred when
    `arrays` is called: the caller waits, the training loop does not. `step` is the training step of
    the snapshot. `is_on_cpu`: no transfer is needed.
    """

    def __init__(self, tensors: Mapping[str, torch.Tensor], step: int = 0) -> None:
        self.step = step
        self.is_on_cpu = all(tensor.device.type == "cpu" for tensor in tensors.values())
        kinds: dict[tuple[torch.device, torch.dtype], list[str]] = {}
        for name, tensor in tensors.items():
            kinds.setdefault((tensor.device, tensor.dtype), []).append(name)
        self._shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
        self._groups: list[tuple[list[str], torch.Tensor | Array, torch.cuda.Event | None]] = []
        self._arrays: dict[str, Array] | None = None
        self._lock = threading.Lock()
        with torch.no_grad():
            for names in kinds.values():
                flat = [tensors[name].detach().reshape(-1) for name in names]
                if flat[0].device.type == "cpu" and flat[0].dtype in NUMPY_DTYPES:
                    # PyTorch would split the copy over its threads and wait for all of them.
                    here = np.concatenate([one.numpy() for one in flat])
                    self._groups.append((names, here, None))
                    continue
                # One copy of all tensors: a hundred small ones cost a hundred kernel launches.
                copied = torch.cat(flat)
                self._groups.append((names, copied, _record_event(copied)))

    def arrays(self) -> dict[str, Array]:
        """Each tensor as an array, floats as float32; callable from any thread."""
        with self._lock:
            if self._arrays is None:
                self._arrays = self._transfer()
            return self._arrays

    def _transfer(self) -> dict[str, Array]:
        found: dict[str, Array] = {}
        for names, flat, copied in self._groups:
            numbers = _to_array(flat, copied)
            at = 0
            for name in names:
                shape = self._shapes[name]
                count = math.prod(shape)
                found[name] = numbers[at : at + count].reshape(shape)
                at += count
        self._groups = []
        return found


def _record_event(flat: torch.Tensor) -> torch.cuda.Event | None:
    """An event that fires when a GPU tensor is computed; None on other devices."""
    if flat.device.type != "cuda":
        return None
    event: torch.cuda.Event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record(torch.cuda.current_stream(flat.device))
    return event


def _to_array(flat_tensor: torch.Tensor | Array, copy_event: torch.cuda.Event | None) -> Array:
    if isinstance(flat_tensor, np.ndarray):
        return (
            flat_tensor.astype(np.float32, copy=False)
            if flat_tensor.dtype.kind == "f"
            else flat_tensor
        )
    with torch.no_grad():
        if copy_event is None:
            here = flat_tensor.cpu()
        else:
            # On a separate stream, so that the loop's steps do not wait for the copy.
            stream = torch.cuda.Stream(flat_tensor.device)  # type: ignore[no-untyped-call]
            with torch.cuda.stream(stream):
                stream.wait_event(copy_event)
                here = flat_tensor.cpu()
        wide = here.float() if here.is_floating_point() else here
        found: Array = wide.numpy()
        return found


class ModelTensors:
    """A module's parameters and buffers by their names in a Graph.

    The module may be wrapped (torch.compile, DataParallel) or contain the network as a submodule,
    as a LightningModule does: the name prefix is detected.
    """

    def __init__(
        self, model: torch.nn.Module, shapes: Mapping[str, Sequence[int]], network: str
    ) -> None:
        self._model = model
        self._names = {name: strip_compile_prefix(name) for name in shapes}
        own = _named_tensors(model)
        self._prefix = _find_prefix(own, [*self._names.values()], type(model).__name__, network)
        for name, shape in shapes.items():
            tensor = own[self._prefix + self._names[name]]
            if tensor.device.type == "meta":
                raise InputError(
                    f"mirror: {self._prefix + name} is on the meta device and has no values; "
                    "move the model to its training device first"
                )
            # The Graph may have reshaped a parameter, for example a scalar.
            if tuple(tensor.shape) != tuple(shape):
                raise InputError(
                    f"mirror: {self._prefix + name} has the shape {tuple(tensor.shape)}; in the "
                    f"Viewer's {network} it has {tuple(shape)}. Create the Viewer from the model "
                    "that you train"
                )

    def snapshot(self, step: int) -> TensorSnapshot:
        """A snapshot of the current tensors, with BatchNorm's batch counters."""
        own = _named_tensors(self._model)
        missing = [name for name, bare in self._names.items() if self._prefix + bare not in own]
        if missing:
            raise InputError(
                f"mirror: the model no longer has {missing[0]}; create another Viewer of the "
                "current model, and call mirror(viewer, model) again"
            )
        found = {name: own[self._prefix + bare] for name, bare in self._names.items()}
        for name, tensor in own.items():
            if name.startswith(self._prefix) and name.rpartition(".")[2] == BATCH_COUNTER_NAME:
                found[name.removeprefix(self._prefix)] = tensor
        return TensorSnapshot(found, step)


def _named_tensors(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    # Not model.state_dict(), which runs hooks.
    named: Iterable[tuple[str, torch.Tensor]] = chain(
        model.named_parameters(remove_duplicate=False), model.named_buffers(remove_duplicate=False)
    )
    return {strip_compile_prefix(name): tensor for name, tensor in named}


def _find_prefix(
    tensors: Mapping[str, object], names: Sequence[str], model_type: str, network_name: str
) -> str:
    """The module's prefix before all names of a Graph; InputError if there is none."""
    if not names:
        raise InputError(f"mirror: {network_name} has no trainable parameters")
    first = names[0]
    before = [name.removesuffix(first) for name in tensors if f".{name}".endswith(f".{first}")]
    found = [one for one in before if all(one + name in tensors for name in names)]
    if "" in found:
        return ""
    if len(found) == 1:
        return found[0]
    if found:
        raise InputError(
            f"mirror: {model_type} has the Viewer's {network_name} {len(found)} times, as "
            f"{' and '.join(one.removesuffix('.') for one in found)}; give the intended one, as "
            f"mirror(viewer, model.{found[0].removesuffix('.')})"
        )
    best = max(before, key=lambda one: sum(one + name in tensors for name in names), default="")
    missing = [name for name in names if best + name not in tensors]
    some = ", ".join(missing[:3]) + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")
    raise InputError(
        f"mirror: {model_type} has no {some}, which the Viewer's {network_name} has. Give the "
        "module that the Viewer was created from, or one with the same names; torch.compile and "
        "DataParallel wrappers and parent modules are supported"
    )
