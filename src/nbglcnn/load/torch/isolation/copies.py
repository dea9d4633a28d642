"""Which torch modules can be loaded, how their inputs are called, and the copy to work on."""

from __future__ import annotations

import copy
import inspect
from typing import TYPE_CHECKING, Any

from nbglcnn.errors import InputError, UnsupportedModel
from nbglcnn.load.bounds import shown
from nbglcnn.load.torch.isolation.redirection import remember

if TYPE_CHECKING:
    import torch


def unwrapped(model: torch.nn.Module) -> torch.nn.Module:
    """The module inside torch.compile and DataParallel wrappers; an error for TorchScript."""
    import torch

    while True:
        if isinstance(model, torch.jit.ScriptModule):
            raise UnsupportedModel(
                f"{type(model).__name__} is TorchScript, which hides its layers; "
                "give the torch.nn.Module that it was made from"
            )
        inner = getattr(model, "_orig_mod", None)
        if inner is None and isinstance(model, torch.nn.DataParallel):
            inner = model.module
        if not isinstance(inner, torch.nn.Module):
            return model
        model = inner


def check_module(model: torch.nn.Module) -> None:
    """Refuse a module that is not on the CPU, not initialised, or training where it matters."""
    import torch
    from torch.nn.parameter import is_lazy

    if not str(type(model).__call__.__module__).startswith("torch."):
        raise UnsupportedModel(
            f"{type(model).__name__} has a __call__ of its own, past which its forward is hooked; "
            "move what it does into forward"
        )
    for path, module in model.named_modules():
        made = type(module)
        if isinstance(module, torch.jit.ScriptModule):
            raise UnsupportedModel(
                f"{shown(path)} ({made.__name__}) is TorchScript, which hides its layers; "
                "put the torch.nn.Module that it was made from in its place"
            )
        if _in_8_bits(module):
            raise UnsupportedModel(
                f"{shown(path or 'the model itself')} ({made.__module__}.{made.__name__}) computes "
                "in 8 bits; only models of float weights are supported: give the model as it was "
                "before quantize_dynamic or convert"
            )
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if is_lazy(tensor):
            raise UnsupportedModel(
                f"{shown(name)} has no shape yet (a lazy module); call the model once on an input"
            )
        if tensor.device.type == "meta":
            raise UnsupportedModel(
                f"{shown(name)} is on meta and has no numbers: its weights were never loaded. "
                'Call model.to_empty(device="cpu") and model.load_state_dict(weights) first'
            )
        if tensor.device.type != "cpu":
            raise UnsupportedModel(
                f"the model is on {tensor.device} ({shown(name)}); call model.cpu() first"
            )
        if tensor.is_sparse or tensor.is_quantized or tensor.is_complex():
            kind = "complex" if tensor.is_complex() else "sparse or quantized"
            raise UnsupportedModel(
                f"{shown(name)} is {kind}; only dense real tensors are supported"
            )
    check_mode(model)


def check_mode(model: torch.nn.Module) -> None:
    """Refuse a module that is training where it matters."""
    import torch

    strayed = [(name or "the model itself", m) for name, m in model.named_modules() if _trains(m)]
    if strayed:
        some = ", ".join(f"{name} ({type(m).__name__})" for name, m in strayed[:3])
        more = f" and {len(strayed) - 3} more" if len(strayed) > 3 else ""
        norm = torch.nn.modules.batchnorm._NormBase
        why = []
        if any(isinstance(m, norm) for _, m in strayed):
            why.append("BatchNorm would normalise by this batch and change its running statistics")
        if any("Drop" in type(m).__name__ for _, m in strayed):
            why.append("Dropout would drop values at random")
        batch = ""
        if any(isinstance(m, norm) for _, m in strayed):
            batch = (
                ". Pix2Pix and CycleGAN are meant to run in training mode, and give grey or black "
                "pictures in eval mode: give their norms track_running_stats=False and no running "
                "statistics (norm.running_mean = norm.running_var = None), so that they normalise "
                "by the batch in eval mode too"
            )
        what = "; ".join(why) or "they compute something else while training"
        raise UnsupportedModel(
            f"in training mode: {some}{more}. {what[0].upper()}{what[1:]}. "
            f"Call model.eval() first (and model.train() afterwards, to go on training){batch}"
        )


def _in_8_bits(module: torch.nn.Module) -> bool:
    made = type(module).__module__
    return made.startswith("torch.") and ".quantized." in made


def is_whole(module: torch.nn.Module) -> bool:
    """Whether it is called as one: it has no modules inside, or they only hold its weights."""
    return _in_8_bits(module) or not any(True for _ in module.children())


def _trains(module: torch.nn.Module) -> bool:
    """Whether the module is in training mode and would compute something else in eval mode."""
    import torch

    if not module.training:
        return False
    nn = torch.nn
    if isinstance(module, nn.modules.batchnorm._NormBase):
        return module.track_running_stats
    if isinstance(module, nn.modules.dropout._DropoutNd):
        return module.p > 0
    if isinstance(module, nn.RReLU):
        return module.lower != module.upper
    if isinstance(module, nn.MultiheadAttention | nn.RNNBase):
        return module.dropout > 0
    if type(module).__module__.startswith("torch."):
        return False
    code = getattr(getattr(type(module), "forward", None), "__code__", None)
    return code is not None and "training" in code.co_names


def input_names(model: torch.nn.Module, count: int) -> list[str]:
    """Forward's names for the first `count` inputs: `x`, or `inputs[0]` where it takes *inputs."""
    name = type(model).__name__
    names: list[str] = []
    allowed = 0
    for parameter in inspect.signature(model.forward).parameters.values():
        missing = parameter.default is parameter.empty
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}[{i}]" for i in range(count - len(names))]
            return names
        if parameter.kind is parameter.KEYWORD_ONLY and missing:
            raise UnsupportedModel(
                f"{name}.forward needs the keyword {parameter.name!r}; inputs are given by "
                "position, so wrap the model in a module whose forward passes it"
            )
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            allowed += 1
            if len(names) < count:
                names.append(parameter.name)
            elif missing:
                raise InputError(
                    f"{name}.forward needs an input {parameter.name!r}; {count} "
                    f"{'was' if count == 1 else 'were'} given. Give a tuple with an array for each"
                )
    if count > allowed:
        most = "1 input" if allowed == 1 else f"{allowed} inputs"
        raise InputError(f"{name}.forward takes {most}; {count} were given")
    return names


def parameters_by_name(
    model: torch.nn.Module,
) -> tuple[list[str], list[str] | None, dict[str, Any]]:
    """What forward takes by position, all that it takes by name (None for any), and defaults."""
    parameters = list(inspect.signature(model.forward).parameters.values())
    by_position = [
        one.name
        for one in parameters
        if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
    ]
    defaults = {one.name: one.default for one in parameters if one.default is not one.empty}
    if any(one.kind is one.VAR_KEYWORD for one in parameters):
        return by_position, None, defaults
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return by_position, [one.name for one in parameters if one.kind in named], defaults


def image_channels(model: torch.nn.Module) -> int | None:
    """How many channels the first convolution takes: what a picture is converted to."""
    for module in model.modules():
        channels = getattr(module, "in_channels", None)
        if isinstance(channels, int):
            return channels
    return None


def detached_copy(
    model: torch.nn.Module, beside: torch.nn.Module | None = None
) -> tuple[torch.nn.Module, list[str]]:
    """A copy in eval mode and float32, and in words what else was changed.

    Its parameters and buffers share the memory of those of `beside`, another copy.
    """
    import torch

    memo: dict[int, Any] = {} if beside is None else _shared_with(beside, model)
    for parameter in model.parameters():
        if id(parameter) in memo:
            continue
        # torch's own copy of a Parameter shares no memory with the copies of its views.
        if type(parameter) is torch.nn.Parameter:
            numbers = copy.deepcopy(parameter.detach(), memo)
            memo[id(parameter)] = torch.nn.Parameter(numbers, parameter.requires_grad)
    for module in model.modules():
        for value in vars(module).values():
            # A plain attribute that is a result (weight_norm's weight) refuses to be deep-copied.
            if isinstance(value, torch.Tensor) and not value.is_leaf:
                # By the same memo, so that a view of a parameter stays one.
                memo[id(value)] = copy.deepcopy(value.detach(), memo)
    try:
        twin = copy.deepcopy(model, memo)
    except Exception as error:
        raise UnsupportedModel(
            f"{type(model).__name__} cannot be copied ({type(error).__name__}: {error}); "
            "does it hold a file, a generator or a result that needs a gradient?"
        ) from error
    remember(twin, model)
    twin.eval()
    notes = []
    other = {t.dtype for t in (*twin.parameters(), *twin.buffers()) if t.is_floating_point()}
    other.discard(torch.float32)
    if other:
        names = ", ".join(sorted(str(d).removeprefix("torch.") for d in other))
        notes.append(f"weights given as {names} are computed in float32")
        twin.float()
    return twin, notes


def _shared_with(beside: torch.nn.Module, model: torch.nn.Module) -> dict[int, Any]:
    """For a deep copy of the model: by identity the numbers of another copy."""
    import torch

    parameters, buffers = dict(beside.named_parameters()), dict(beside.named_buffers())
    found: dict[int, Any] = {}
    for name, parameter in model.named_parameters():
        if name in parameters and type(parameter) is torch.nn.Parameter:
            numbers = parameters[name].detach()
            found[id(parameter)] = torch.nn.Parameter(numbers, parameter.requires_grad)
    for name, buffer in model.named_buffers():
        if name in buffers and type(buffer) is torch.Tensor:
            found[id(buffer)] = buffers[name].detach()
    return found


def drop_hooks(twin: torch.nn.Module) -> bool:
    """Remove the user's forward hooks; whether there were.

    Not torch's own, as spectral_norm's, and not ours, which replay edits.
    """
    dropped = False
    for module in twin.modules():
        for hooks in (module._forward_hooks, module._forward_pre_hooks):
            for number, hook in list(hooks.items()):
                owner = getattr(hook, "__module__", None) or type(hook).__module__
                if not owner.startswith(("torch.", "nbglcnn.")):
                    del hooks[number]
                    dropped = True
    return dropped
