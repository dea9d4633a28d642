"""Checks whether a torch module can be loaded."""

from __future__ import annotations

import torch
from torch.nn.parameter import is_lazy

from nbglcnn.errors import UnsupportedModel
from nbglcnn.load.size_limits import quote_name


def check_module(model: torch.nn.Module) -> None:
    """Check that a module is on the CPU, initialised, and in eval mode where it matters."""
    if not str(type(model).__call__.__module__).startswith("torch."):
        raise UnsupportedModel(
            f"{type(model).__name__} overrides __call__, which nbglcnn can't record. Move its "
            "code into forward"
        )
    for path, module in model.named_modules():
        made = type(module)
        if isinstance(module, torch.jit.ScriptModule):
            raise UnsupportedModel(
                f"{quote_name(path)} ({made.__name__}) is TorchScript, which hides its layers; "
                "use the original torch.nn.Module instead"
            )
        if _is_quantized(module):
            raise UnsupportedModel(
                f"{quote_name(path or 'the model itself')} ({made.__module__}.{made.__name__}) "
                "computes in 8 bits; only models with float weights are supported: give the "
                "model from before quantize_dynamic or convert"
            )
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if is_lazy(tensor):
            raise UnsupportedModel(
                f"{quote_name(name)} has no shape yet (a lazy module); call the model once on an "
                "input"
            )
        if tensor.device.type == "meta":
            raise UnsupportedModel(
                f"{quote_name(name)} is on the meta device and has no values: its weights were "
                'never loaded. Call model.to_empty(device="cpu") and '
                "model.load_state_dict(weights) first"
            )
        if tensor.device.type != "cpu":
            raise UnsupportedModel(
                f"the model is on {tensor.device} ({quote_name(name)}); call model.cpu() first"
            )
        if tensor.is_sparse or tensor.is_quantized or tensor.is_complex():
            kind = "complex" if tensor.is_complex() else "sparse or quantized"
            raise UnsupportedModel(
                f"{quote_name(name)} is {kind}; only dense real tensors are supported"
            )
    check_eval_mode(model)


def check_eval_mode(model: torch.nn.Module) -> None:
    """Raise UnsupportedModel if a module computes other values in training mode and is in it."""
    strayed = [
        (name or "the model itself", m) for name, m in model.named_modules() if _needs_eval_mode(m)
    ]
    if strayed:
        some = ", ".join(f"{name} ({type(m).__name__})" for name, m in strayed[:3])
        more = f" and {len(strayed) - 3} more" if len(strayed) > 3 else ""
        norm = torch.nn.modules.batchnorm._NormBase
        why = []
        if any(isinstance(m, norm) for _, m in strayed):
            why.append(
                "BatchNorm would normalise with this batch's statistics and change its running "
                "statistics"
            )
        if any("Drop" in type(m).__name__ for _, m in strayed):
            why.append("Dropout would drop values at random")
        batch = ""
        if any(isinstance(m, norm) for _, m in strayed):
            batch = (
                ". Pix2Pix and CycleGAN run in training mode by design, and produce grey or "
                "black pictures in eval mode: give their norms track_running_stats=False and no "
                "running statistics (norm.running_mean = norm.running_var = None), so that eval "
                "mode normalises by the batch too"
            )
        what = "; ".join(why) or "they compute something different during training"
        raise UnsupportedModel(
            f"in training mode: {some}{more}. {what[0].upper()}{what[1:]}. Call model.eval() "
            f"first (and model.train() afterwards, to continue training){batch}"
        )


def _is_quantized(module: torch.nn.Module) -> bool:
    made = type(module).__module__
    return made.startswith("torch.") and ".quantized." in made


def is_innermost(module: torch.nn.Module) -> bool:
    """Whether a module is a leaf: it has no submodules, or these only hold its weights."""
    return _is_quantized(module) or not any(True for _ in module.children())


def _needs_eval_mode(module: torch.nn.Module) -> bool:
    """Whether the module is in training mode and would compute something else in eval mode."""
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
