"""Losses for `nbglcnn.train` and `viewer.train`.

Formulas and defaults are those of torch.nn.functional with reduction "mean". Training accepts their
names, the results of these functions, or PyTorch's own modules.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nbglcnn.errors import InputError, suggest_names
from nbglcnn.graph import Array
from nbglcnn.ops.gradient_builder import GradientBuilder

Shape = tuple[int, ...]

# Softplus via -|x|, so that exp does not overflow.
BCE_LOGITS_GLSL = "return max(a, vec4(0.0)) - a * b + log(1.0 + exp(-abs(a)));"
BCE_LOGITS_SLOPE_GLSL = "return 1.0 / (1.0 + exp(-a)) - b;"
# As in torch: logarithms are at least -100, the gradient's denominator at least 1e-12.
BCE_GLSL = "return -b * max(log(a), vec4(-100.0)) - (1.0 - b) * max(log(1.0 - a), vec4(-100.0));"
SMOOTH_L1_GLSL = "\n".join([
    "vec4 d = abs(a - b);",
    "return select(lessThan(d, vec4(u_beta)), 0.5 * d * d / u_beta, d - 0.5 * u_beta);",
])  # fmt: skip


@dataclass(frozen=True)
class Loss:
    """A loss with its parameters, as the functions of `nbglcnn.losses` return it.

    Args:
        name: The name of the loss, such as `"mse"`.
        numbers: Its parameters by name. Default: none.
    """

    name: str
    numbers: Mapping[str, float] = field(default_factory=dict)

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={number:g}" for name, number in self.numbers.items())
        return f"losses.{self.name}({given})"

    def add_nodes(
        self, builder: GradientBuilder, output: str, target: str, weights: str
    ) -> tuple[str, str]:
        """Add the nodes of the loss and of its gradient to a graph.

        Args:
            builder: The builder of the gradient graph.
            output: The name of the network's output.
            target: The name of the targets.
            weights: The name of the examples' shares in the mean, shape (batch,), or `""` for equal
                shares.

        Returns:
            The names of two values: the scalar loss, and the gradient of the output.
        """
        if self.name == CROSS_ENTROPY:
            smoothing = float(self.numbers.get("label_smoothing", 0.0))
            each, slope, places = _cross_entropy(builder, output, target, smoothing)
        else:
            kind = _ELEMENT_GLSL[self.name]
            each = builder.apply_glsl(kind[0], output, target, **self.numbers)
            slope = builder.apply_glsl(kind[1], output, target, **self.numbers)
            places = builder.shape(output)
        return _add_mean_loss(builder, each, slope, places, weights)


def mse() -> Loss:
    """Mean of (output − target)².

    Returns:
        The loss.

    Source: `torch.nn.functional.mse_loss`.
    """
    return Loss("mse")


def l1() -> Loss:
    """Mean of |output − target|.

    Returns:
        The loss.

    Source: `torch.nn.functional.l1_loss`.
    """
    return Loss("l1")


def smooth_l1(beta: float = 1.0) -> Loss:
    """Smooth L1 loss: quadratic for differences below `beta`, linear above.

    Args:
        beta: The difference at which the loss becomes linear, greater than 0. Default: 1.

    Returns:
        The loss.

    Raises:
        InputError: If `beta` is not a finite number greater than 0.

    Source: `torch.nn.functional.smooth_l1_loss`.
    """
    if not (math.isfinite(beta) and beta > 0):
        raise InputError(f"smooth_l1: beta={beta!r}; expected a number > 0 (for 0 use l1)")
    return Loss("smooth_l1", {"beta": float(beta)})


def bce() -> Loss:
    """Binary cross-entropy of probabilities, such as the output of a sigmoid.

    Returns:
        The loss. Its targets are from 0 to 1.

    Source: `torch.nn.functional.binary_cross_entropy`.
    """
    return Loss("bce")


def bce_with_logits() -> Loss:
    """Binary cross-entropy of logits: the loss applies the sigmoid.

    Returns:
        The loss.

    Source: `torch.nn.functional.binary_cross_entropy_with_logits`.
    """
    return Loss("bce_with_logits")


def cross_entropy(label_smoothing: float = 0.0) -> Loss:
    """Cross-entropy of logits with class indices or probabilities.

    The output has the shape (batch, classes, …): logits, without a softmax. Targets are class
    indices (batch, …), or probabilities in the shape of the output.

    Args:
        label_smoothing: The share of the target that is distributed over all classes, from 0
            (default) to 1.

    Returns:
        The loss.

    Raises:
        InputError: If `label_smoothing` is not from 0 to 1.

    Source: `torch.nn.functional.cross_entropy`.
    """
    if not 0 <= label_smoothing <= 1:
        raise InputError(f"cross_entropy: label_smoothing={label_smoothing!r}; expected 0 to 1")
    return Loss(CROSS_ENTROPY, {"label_smoothing": float(label_smoothing)})


CROSS_ENTROPY = "cross_entropy"
# Value and derivative for each element, of output a and target b.
_ELEMENT_GLSL = {
    "mse": ("return (a - b) * (a - b);", "return 2.0 * (a - b);"),
    "l1": ("return abs(a - b);", "return sign(a - b);"),
    "smooth_l1": (SMOOTH_L1_GLSL, "return clamp((a - b) / u_beta, vec4(-1.0), vec4(1.0));"),
    "bce": (BCE_GLSL, "return (a - b) / max((1.0 - a) * a, vec4(1e-12));"),
    "bce_with_logits": (BCE_LOGITS_GLSL, BCE_LOGITS_SLOPE_GLSL),
}
_LOSSES: Mapping[str, Callable[[], Loss]] = {
    one.__name__: one for one in (mse, l1, smooth_l1, bce, bce_with_logits, cross_entropy)
}
# PyTorch's modules by name: the loss, and the attributes that it takes as parameters.
_TORCH_LOSSES: Mapping[str, tuple[Callable[..., Loss], tuple[str, ...]]] = {
    "MSELoss": (mse, ()),
    "L1Loss": (l1, ()),
    "SmoothL1Loss": (smooth_l1, ("beta",)),
    "BCELoss": (bce, ()),
    "BCEWithLogitsLoss": (bce_with_logits, ()),
    "CrossEntropyLoss": (cross_entropy, ("label_smoothing",)),
}
# Hooks that PyTorch runs around a module's forward and backward.
TORCH_HOOK_ATTRIBUTES = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
)


def to_loss(loss: Any) -> Loss | str:
    """Convert a loss that `nbglcnn.train` accepts to a Loss, or return an output's key.

    Raises InputError for an unsupported loss.
    """
    if isinstance(loss, Loss):
        return loss
    if isinstance(loss, str):
        return _LOSSES[loss]() if loss in _LOSSES else loss
    known = _TORCH_LOSSES.get(type(loss).__name__)
    if known is not None and type(loss).__module__.startswith("torch.nn."):
        return _from_torch(loss, *known)
    raise InputError(
        f"loss={loss!r}: give one of {', '.join(map(repr, _LOSSES))}, a loss of nbglcnn.losses, "
        f"one of torch.nn's {', '.join(_TORCH_LOSSES)}, or the key of a scalar output of the "
        "model"
    )


def _from_torch(loss: Any, factory: Callable[..., Loss], attribute_names: tuple[str, ...]) -> Loss:
    kind = type(loss).__name__
    if loss.reduction != "mean":
        raise InputError(f'{kind}(reduction={loss.reduction!r}): only "mean" is supported')
    for name in ("weight", "pos_weight"):
        if getattr(loss, name, None) is not None:
            raise InputError(
                f"{kind}({name}=…) isn't supported; compute that loss in a module's forward, and "
                "give the key of its output as `loss`"
            )
    if kind == "CrossEntropyLoss" and loss.ignore_index >= 0:
        raise InputError(
            f"{kind}(ignore_index={loss.ignore_index}) isn't supported: every class counts; "
            "compute that loss in a module's forward, and give the key of its output as `loss`"
        )
    hooks = [name for name in TORCH_HOOK_ATTRIBUTES if getattr(loss, name, None)]
    if hooks or "forward" in vars(loss):
        raise InputError(
            f"{kind}: a hook or an overridden forward changes this loss, and would be ignored; "
            "remove it, or compute the loss in a module's forward, and give the key of its "
            "output as `loss`"
        )
    return factory(**{name: getattr(loss, name) for name in attribute_names})


def unknown_loss_message(name: str, keys: list[str]) -> str:
    """The error message for a string that is neither a loss nor a key."""
    near = suggest_names(name, [*_LOSSES, *keys])
    return (
        f"loss={name!r} is unknown{near}: it is neither a loss ({', '.join(_LOSSES)}) nor the "
        "key of a scalar output"
    )


def has_class_indices(loss: Loss, target: Array) -> bool:
    """Whether the targets are class indices."""
    return loss.name == CROSS_ENTROPY and target.dtype.kind in "iub"


def target_shape(loss: Loss, output: Shape, *, has_class_indices: bool) -> Shape:
    """The shape of a batch's targets for an output; InputError if the output does not fit."""
    if loss.name == CROSS_ENTROPY and len(output) < 2:
        raise InputError(
            f"cross_entropy needs logits (batch, classes, …); the output has the shape {output}"
        )
    return (output[0], *output[2:]) if has_class_indices else output


def check_target(loss: Loss, target: Array, output: Shape) -> None:
    """Raise InputError for invalid targets: unknown classes, or probabilities outside 0 to 1."""
    if not target.size:
        return
    least, most = target.min(), target.max()
    if has_class_indices(loss, target):
        if least < 0 or most >= output[1]:
            raise InputError(
                f"cross_entropy: the targets contain the class {least if least < 0 else most}; "
                f"the output of shape {output} has {output[1]} classes, 0 to {output[1] - 1}"
            )
    elif loss.name == "bce" and (least < 0 or most > 1):
        raise InputError(f"bce: targets from {least:g} to {most:g} were given; expected 0 to 1")


def _cross_entropy(
    builder: GradientBuilder, output: str, target: str, smoothing: float
) -> tuple[str, str, Shape]:
    """The loss at each position, the gradient of each logit, and the shape of the positions."""
    shape = builder.shape(output)
    classes, index = shape[1], len(builder.shape(target)) < len(shape)
    if index:
        target = builder.reshape(target, (shape[0], 1, *shape[2:]))
        numbers = np.arange(classes, dtype=np.float32).reshape(1, classes, *[1] * (len(shape) - 2))
        wanted = builder.apply_glsl(
            "return select(equal(a, b), vec4(u_own), vec4(u_rest));", builder.add_constant(numbers),
            target, own=1 - smoothing + smoothing / classes, rest=smoothing / classes,
        )  # fmt: skip
    elif smoothing:
        wanted = builder.apply_glsl("return a * u_share + u_rest;", target,
                                  share=1 - smoothing, rest=smoothing / classes)  # fmt: skip
    else:
        wanted = target
    logarithms = builder.add_node("LogSoftmax", output, axis=1)
    each = builder.negate(builder.sum(builder.multiply(wanted, logarithms), [1]))
    if index:
        slope = builder.apply_glsl("return exp(a) - b;", logarithms, wanted)
    else:
        slope = builder.apply_glsl(
            "return exp(a) * b - c;", logarithms, builder.sum(wanted, [1]), wanted
        )
    return each, slope, (shape[0], 1, *shape[2:])


def _add_mean_loss(
    builder: GradientBuilder, element_losses: str, element_gradients: str, shape: Shape,
    weights: str
) -> tuple[str, str]:  # fmt: skip
    """The mean over all positions, and its gradient."""
    axes = range(len(shape))
    if not weights:
        mean = builder.add_node(
            "ReduceMean", element_losses, builder.add_int_list(*axes), keepdims=0
        )
        return mean, builder.scale(element_gradients, 1 / max(1, math.prod(shape)))
    share = 1 / max(1, math.prod(shape[1:]))
    own = builder.scale(builder.reshape(weights, (shape[0], *[1] * (len(shape) - 1))), share)
    mean = builder.sum(builder.multiply(element_losses, own), axes, keepdims=False)
    return mean, builder.multiply(element_gradients, own)
