"""Training-mode behaviour of PyTorch's modules; a check that no other code depends on it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from nbglcnn.errors import UnsupportedModel
from nbglcnn.graph import Array
from nbglcnn.load.size_limits import quote_name
from nbglcnn.load.torch.checks.gradient_overrides import refuse_overrides
from nbglcnn.load.torch.isolation.copies import detached_copy
from nbglcnn.load.torch.isolation.process_state import load_lock
from nbglcnn.load.torch.isolation.tensor_redirection import redirect_to_copy
from nbglcnn.load.training_mode import BatchNormSpec, DropoutSpec, TrainingMode, make_dropout

if TYPE_CHECKING:
    from nbglcnn.load.torch.model import TorchModel

SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805
TOLERANCE = 1e-3  # relative to the largest value
SUPPORTED_MODULES = "nn.Dropout and its variants, BatchNorm, StochasticDepth and DropPath"


def torch_training_mode(model: TorchModel) -> TrainingMode:
    """Return the TrainingMode of a torch module; see `Model.training_mode`."""
    whole = model.module
    some = whole.training
    dropouts: dict[str, DropoutSpec] = {}
    norms: dict[str, BatchNormSpec] = {}
    for path, module in whole.named_modules():
        if some and not module.training:
            continue
        _refuse_unsupported(path, module)
        found = _dropout(module)
        if found is not None and found.p > 0:
            dropouts[path] = found
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.track_running_stats:
            counted = module.num_batches_tracked
            norms[path] = BatchNormSpec(module.momentum, 0 if counted is None else int(counted))
    frozen = {
        name
        for name, one in whole.named_parameters(remove_duplicate=False)
        if not one.requires_grad
    }
    twin = type(model)(detached_copy(whole)[0])
    return TrainingMode(twin, dropouts, norms, frozenset(frozen), whole)


def _dropout(module: nn.Module) -> DropoutSpec | None:
    """The DropoutSpec of a PyTorch, torchvision or timm module; None for other modules."""
    kind = type(module).__name__
    if isinstance(module, nn.AlphaDropout | nn.FeatureAlphaDropout):
        # Preserves mean and variance (Klambauer et al., 2017, section 4).
        p, fill = module.p, -SELU_ALPHA * SELU_SCALE
        scale = ((1 - p) * (1 + p * fill**2)) ** -0.5 if p < 1 else 0.0
        of = "elements" if isinstance(module, nn.AlphaDropout) else "channels"
        return DropoutSpec(p, of, scale, fill, -scale * fill * p)  # type: ignore[arg-type]
    if isinstance(module, nn.Dropout):
        return make_dropout(module.p)
    if isinstance(module, nn.Dropout1d | nn.Dropout2d | nn.Dropout3d):
        return make_dropout(module.p, "channels")
    if kind == "StochasticDepth":
        own: Any = module
        if own.mode != "row" and own.p > 0:
            raise UnsupportedModel(
                f'StochasticDepth(mode={own.mode!r}): only mode="row" can be trained'
            )
        return make_dropout(own.p, "examples")
    if kind == "DropPath":
        own = module
        kept = getattr(own, "scale_by_keep", True)
        return make_dropout(float(own.drop_prob or 0.0), "examples", rescale=bool(kept))
    return None


def _refuse_unsupported(path: str, module: nn.Module) -> None:
    """Raise UnsupportedModel for a module whose training-mode behaviour is not supported."""
    kind, why = type(module).__name__, ""
    if isinstance(module, nn.RReLU) and module.lower != module.upper:
        why = "samples random slopes in training; use nn.LeakyReLU instead"
    elif isinstance(module, nn.MultiheadAttention | nn.RNNBase) and module.dropout > 0:
        why = f"contains a dropout of {module.dropout:g}, which isn't supported; set it to 0"
    elif isinstance(module, nn.modules.instancenorm._InstanceNorm) and module.track_running_stats:
        why = (
            "keeps running statistics, which is only supported in eval mode; create it with "
            "track_running_stats=False, or call .eval() on it"
        )
    elif kind in ("_SpectralNorm", "SpectralNorm") or any(
        type(hook).__name__ == "SpectralNorm" for hook in module._forward_pre_hooks.values()
    ):
        path = path.partition(".parametrizations")[0]
        why = (
            "uses spectral_norm, which changes its own vectors at each call in training; remove "
            "it (torch.nn.utils.parametrize.remove_parametrizations), or call .eval() on it"
        )
    if why:
        raise UnsupportedModel(f"{quote_name(path or 'the model itself')} ({kind}) {why}")


def check_training_mode(
    mode: TrainingMode, arrays: Sequence[Array], parameters: Collection[str]
) -> None:
    """Raise UnsupportedModel if a module's own code differs in training mode.

    Code that changes the gradients of these parameters is rejected, too. Two copies run on the same
    input: one in eval mode, and one with all modules in training mode except those with known
    behaviour. Both must give the same values.
    """
    if mode.module is None:
        return
    module = mode.module
    with load_lock():
        eval_calls = _record_module_calls(detached_copy(module)[0], arrays)
        train_calls, _ = detached_copy(module)
        norms = mode.norms or {}
        for (path, own), (_, given) in zip(
            train_calls.named_modules(), module.named_modules(), strict=True
        ):
            trains = given.training or not module.training
            own.training = trains and path not in norms and path not in mode.dropouts
        try:
            calls = _record_module_calls(train_calls, arrays)
        except Exception as error:
            raise UnsupportedModel(
                f"{type(module).__name__} cannot be run in training mode: "
                f"{type(error).__name__}: {error}"
            ) from error
    refuse_overrides(module, arrays, parameters)
    if len(calls) != len(eval_calls):
        raise UnsupportedModel(_mismatch_message("the model itself", type(module).__name__))
    for (path, kind, given, found), (_, _, before, right) in zip(calls, eval_calls, strict=True):
        if _are_close(given, before) and not _are_close(found, right):
            raise UnsupportedModel(_mismatch_message(quote_name(path or "the model itself"), kind))


def _mismatch_message(path: str, module_type: str) -> str:
    return (
        f"{path} ({module_type}) has its own code for training mode: it reads self.training, or "
        f"calls a function like F.dropout. Supported modules are {SUPPORTED_MODULES}: use "
        "nn.Dropout instead of F.dropout, or call .eval() on that module to train without it"
    )


def _record_module_calls(
    model_copy: nn.Module, arrays: Sequence[Array]
) -> list[tuple[str, str, Any, Any]]:
    """Each module call in the order of return: path, class, inputs and outputs."""
    found: list[tuple[str, str, Any, Any]] = []

    def seen(path: str) -> Any:
        def hook(module: nn.Module, given: Any, output: Any) -> None:
            found.append((path, type(module).__name__, _tensors(given), _tensors(output)))

        return hook

    for path, module in model_copy.named_modules():
        module.register_forward_hook(seen(path))
    with torch.no_grad(), torch.random.fork_rng(devices=[]), redirect_to_copy(model_copy):
        torch.manual_seed(0)
        model_copy(*(torch.from_numpy(array.copy()) for array in arrays))
    return found


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value.detach().clone()]
    if isinstance(value, dict):
        value = list(value.values())
    return (
        [one for each in value for one in _tensors(each)] if isinstance(value, list | tuple) else []
    )


def _are_close(a: Sequence[torch.Tensor], b: Sequence[torch.Tensor]) -> bool:
    """Whether tensors are equal up to rounding: PyTorch's attention has another kernel in eval."""
    return len(a) == len(b) and all(
        x.shape == y.shape and _is_close(torch.nan_to_num(x.double()), torch.nan_to_num(y.double()))
        for x, y in zip(a, b, strict=True)
    )


def _is_close(x: torch.Tensor, y: torch.Tensor) -> bool:
    return x.numel() == 0 or float((x - y).abs().max()) <= TOLERANCE * float(y.abs().max())
