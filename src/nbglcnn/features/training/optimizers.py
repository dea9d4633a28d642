"""Optimizers: their hyperparameters, and the nodes that compute new parameters from gradients.

Their formulas, defaults and order of operations are those of torch.optim.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from nbglcnn.errors import InputError
from nbglcnn.ops.gradient_builder import GradientBuilder

LearningRate = float | Callable[[int], float]
# NaN passes through unclamped.
CLAMP_GLSL = "return select(greaterThan(abs(a), vec4(u_limit)), sign(a) * u_limit, a);"


@dataclass(frozen=True)
class _OptimizerBase:
    """The fields and methods that all optimizers share."""

    lr: LearningRate = 1e-3
    weight_decay: float = field(default=0.0, kw_only=True)
    clip_norm: float | None = field(default=None, kw_only=True)
    clip_value: float | None = field(default=None, kw_only=True)

    # The optimizer's tensors per parameter, named as in torch.optim.
    state: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if callable(value) or value is None or isinstance(value, bool):
                continue
            numbers = value if isinstance(value, tuple) else (value,)
            for number in numbers:
                real = isinstance(number, int | float) and math.isfinite(number)
                if not real or number < 0:
                    raise InputError(
                        f"{type(self).__name__}: {one.name}={value!r}; expected a finite number "
                        "≥ 0" + (", or for lr a function of the step"
                                             if one.name == "lr" else "")
                    )  # fmt: skip
        for name in ("clip_norm", "clip_value"):
            if getattr(self, name) == 0:
                raise InputError(f"{type(self).__name__}: {name}=0 leaves no gradient; give None")

    def learning_rate_at(self, step: int) -> float:
        """Return the learning rate of a step.

        Args:
            step: The step, counted from 0.

        Returns:
            The learning rate.

        Raises:
            InputError: If `lr` is a function and doesn't return a finite number.
        """
        found = self.lr(step) if callable(self.lr) else self.lr
        try:
            number = float(found)
        except (TypeError, ValueError):
            number = math.nan
        if not math.isfinite(number):
            raise InputError(
                f"{type(self).__name__}: lr({step}) gave {found!r}; expected a finite number"
            )
        return number

    def step_scalars(self, step: int) -> dict[str, float]:
        """Return the scalars that the update of a step reads.

        Args:
            step: The step, counted from 0.

        Returns:
            A dict by name: "lr", and further scalars of the optimizer.
        """
        return {"lr": self.learning_rate_at(step)}

    def add_weight_decay(self, builder: GradientBuilder, weight: str, gradient: str) -> str:
        """Add weight_decay · weight to a gradient.

        Args:
            builder: The builder of the graph.
            weight: The name of the parameter's value.
            gradient: The name of the gradient.

        Returns:
            The name of the resulting gradient.
        """
        if not self.weight_decay:
            return gradient
        return builder.apply_glsl(
            "return a + u_decay * b;", gradient, weight, decay=float(self.weight_decay)
        )

    def update(
        self, builder: GradientBuilder, weight: str, gradient: str, state: Mapping[str, str],
        given: Mapping[str, str],
    ) -> tuple[str, dict[str, str]]:  # fmt: skip
        """Add the nodes of one update to a graph.

        Args:
            builder: The builder of the graph.
            weight: The name of the parameter's value.
            gradient: The name of its gradient.
            state: The names of the optimizer's tensors for this parameter.
            given: The names of the `step_scalars` inputs.

        Returns:
            The name of the new parameter, and the names of the new tensors of `state`.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class SGD(_OptimizerBase):
    """Stochastic gradient descent, with optional momentum.

    Args:
        lr: The learning rate, or a function of the step, counted from 0. Default: 1e-3.
        momentum: The momentum factor: buffer = momentum · buffer + gradient. Default: 0.
        nesterov: Whether to use Nesterov momentum. Default: False.
        weight_decay: The L2 penalty: weight_decay · weight is added to the gradient. Default: 0.
        clip_norm: The maximum norm of all gradients together, as in
            `torch.nn.utils.clip_grad_norm_`. Default: None, no limit.
        clip_value: The maximum absolute value of each element of a gradient, applied before
            `clip_norm`. Default: None, no limit.

    Raises:
        InputError: If a number is negative or not finite, a limit is 0, or `nesterov` is set
            without a momentum.

    Source: `torch.optim.SGD`.
    """

    momentum: float = 0.0
    nesterov: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nesterov and not self.momentum:
            raise InputError("SGD: nesterov=True needs a momentum above 0")

    @property
    def state(self) -> tuple[str, ...]:  # type: ignore[override]
        """The names of the tensors per parameter: "momentum_buffer", if there is a momentum."""
        return ("momentum_buffer",) if self.momentum else ()

    def update(
        self, builder: GradientBuilder, weight: str, gradient: str, state: Mapping[str, str],
        given: Mapping[str, str],
    ) -> tuple[str, dict[str, str]]:  # fmt: skip
        """Add the nodes of one update: weight − lr · step.

        Args:
            builder: The builder of the graph.
            weight: The name of the parameter's value.
            gradient: The name of its gradient.
            state: The names of the optimizer's tensors for this parameter.
            given: The names of the `step_scalars` inputs.

        Returns:
            The name of the new parameter, and the names of the new tensors of `state`.
        """
        step, new = self.add_weight_decay(builder, weight, gradient), {}
        if self.momentum:
            factor = float(self.momentum)
            buffer = builder.apply_glsl(
                "return u_momentum * a + b;", state["momentum_buffer"], step, momentum=factor
            )
            new["momentum_buffer"] = buffer
            ahead = "return u_momentum * a + b;"
            step = (
                builder.apply_glsl(ahead, buffer, step, momentum=factor)
                if self.nesterov
                else buffer
            )
        return builder.apply_glsl("return a - b * c;", weight, given["lr"], step), new


@dataclass(frozen=True)
class Adam(_OptimizerBase):
    """The Adam optimizer.

    Args:
        lr: The learning rate, or a function of the step, counted from 0. Default: 1e-3.
        betas: The decay factors of the moving means of the gradient and of its square. Default:
            (0.9, 0.999).
        eps: The number that is added to the denominator. Default: 1e-8.
        weight_decay: The L2 penalty: weight_decay · weight is added to the gradient. Default: 0.
        clip_norm: The maximum norm of all gradients together, as in
            `torch.nn.utils.clip_grad_norm_`. Default: None, no limit.
        clip_value: The maximum absolute value of each element of a gradient, applied before
            `clip_norm`. Default: None, no limit.

    Raises:
        InputError: If a number is negative or not finite, a limit is 0, or `betas` are not two
            numbers from 0 to below 1.

    Source: Kingma and Ba 2015, https://arxiv.org/abs/1412.6980; `torch.optim.Adam`.
    """

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8

    state: ClassVar[tuple[str, ...]] = ("exp_avg", "exp_avg_sq")

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.betas) != 2 or not all(0 <= beta < 1 for beta in self.betas):
            raise InputError(
                f"{type(self).__name__}: betas={self.betas!r}; expected two numbers ≥ 0 and < 1"
            )

    def step_scalars(self, step: int) -> dict[str, float]:
        """Return the scalars that the update of a step reads.

        Args:
            step: The step, counted from 0.

        Returns:
            A dict: "lr", and the bias corrections of the moving means, "step_size" and
            "root_correction".
        """
        first, second = (1 - beta ** (step + 1) for beta in self.betas)
        rate = self.learning_rate_at(step)
        return {"lr": rate, "step_size": rate / first, "root_correction": second**-0.5}

    def update(
        self, builder: GradientBuilder, weight: str, gradient: str, state: Mapping[str, str],
        given: Mapping[str, str],
    ) -> tuple[str, dict[str, str]]:  # fmt: skip
        """Add the nodes of one update: weight − step_size · mean / (√squares · correction + eps).

        Args:
            builder: The builder of the graph.
            weight: The name of the parameter's value.
            gradient: The name of its gradient.
            state: The names of the optimizer's tensors for this parameter.
            given: The names of the `step_scalars` inputs.

        Returns:
            The name of the new parameter, and the names of the new tensors of `state`.
        """
        gradient = self.add_weight_decay(builder, weight, gradient)
        first, second = map(float, self.betas)
        mean = builder.apply_glsl("return a + (b - a) * u_share;", state["exp_avg"], gradient,
                                share=1 - first)  # fmt: skip
        squares = builder.apply_glsl("return u_beta * a + u_share * b * b;", state["exp_avg_sq"],
                                   gradient, beta=second, share=1 - second)  # fmt: skip
        step = builder.apply_glsl(
            "return a * b / (sqrt(c) * d + u_eps);", mean, given["step_size"], squares,
            given["root_correction"], eps=float(self.eps),
        )  # fmt: skip
        weight = self._apply_step(builder, weight, given["lr"], step)
        return weight, {"exp_avg": mean, "exp_avg_sq": squares}

    def _apply_step(self, builder: GradientBuilder, weight: str, rate: str, step: str) -> str:
        return builder.subtract(weight, step)


@dataclass(frozen=True)
class AdamW(Adam):
    """Adam with decoupled weight decay.

    Args:
        lr: The learning rate, or a function of the step, counted from 0. Default: 1e-3.
        betas: The decay factors of the moving means of the gradient and of its square. Default:
            (0.9, 0.999).
        eps: The number that is added to the denominator. Default: 1e-8.
        weight_decay: The weight decay: each step multiplies the weight by 1 − lr · weight_decay.
            Default: 1e-2.
        clip_norm: The maximum norm of all gradients together, as in
            `torch.nn.utils.clip_grad_norm_`. Default: None, no limit.
        clip_value: The maximum absolute value of each element of a gradient, applied before
            `clip_norm`. Default: None, no limit.

    Raises:
        InputError: If a number is negative or not finite, a limit is 0, or `betas` are not two
            numbers from 0 to below 1.

    Source: Loshchilov and Hutter 2019, https://arxiv.org/abs/1711.05101; `torch.optim.AdamW`.
    """

    weight_decay: float = field(default=1e-2, kw_only=True)

    def add_weight_decay(self, builder: GradientBuilder, weight: str, gradient: str) -> str:
        """Return the gradient unchanged: AdamW decays the weight itself.

        Args:
            builder: The builder of the graph.
            weight: The name of the parameter's value.
            gradient: The name of the gradient.

        Returns:
            The name of the gradient.
        """
        return gradient

    def _apply_step(self, builder: GradientBuilder, weight: str, rate: str, step: str) -> str:
        return builder.apply_glsl("return a * (1.0 - b * u_decay) - c;", weight, rate, step,
                                decay=float(self.weight_decay))  # fmt: skip


Optimizer = SGD | Adam | AdamW


def suggest_optimizer(optimizer: Any) -> str:
    """The message for an unsupported optimizer; it suggests the equivalent one, if any."""
    kind = optimizer if isinstance(optimizer, type) else type(optimizer)
    home = "torch.optim" if kind.__module__.startswith("torch.optim.") else kind.__module__
    home = "nbglcnn" if home == __name__ else home
    given = f"{'the class ' * (kind is optimizer)}{home}."
    given = repr(optimizer) if isinstance(optimizer, str) else given + kind.__name__
    name = optimizer if isinstance(optimizer, str) else kind.__name__
    own = next((one for one in (SGD, Adam, AdamW) if one.__name__.lower() == name.lower()), None)
    if own is None:
        return f"optimizer is {given}; give nbglcnn.SGD, nbglcnn.Adam or nbglcnn.AdamW"
    groups = getattr(optimizer, "param_groups", None) or [{}]
    return f"optimizer is {given}; give nbglcnn.{_constructor_call(own, groups[0])}"


def _constructor_call(optimizer_class: type[_OptimizerBase], settings: Mapping[str, Any]) -> str:
    """The constructor call of an optimizer, with the PyTorch settings that are not defaults."""
    words = [f"{float(settings.get('lr', optimizer_class().learning_rate_at(0))):g}"]
    for one in fields(optimizer_class):
        if one.name != "lr" and one.name in settings and settings[one.name] != one.default:
            words.append(f"{one.name}={settings[one.name]!r}")
    without = [name for name in ("amsgrad", "maximize", "dampening") if settings.get(name)]
    lacks = f", which has no {' and no '.join(without)}" if without else ""
    return f"{optimizer_class.__name__}({', '.join(words)}){lacks}"


def clip_gradients(
    optimizer: Optimizer, builder: GradientBuilder, gradients: Mapping[str, str]
) -> dict[str, str]:
    """Clip the gradients, by parameter, to the optimizer's `clip_value` and `clip_norm`."""
    found = dict(gradients)
    if optimizer.clip_value is not None:
        limit = float(optimizer.clip_value)
        found = {
            name: builder.apply_glsl(CLAMP_GLSL, one, limit=limit) for name, one in found.items()
        }
    if optimizer.clip_norm is not None:
        squares = [builder.add_node("ReduceSumSquare", one, keepdims=0) for one in found.values()]
        factor = builder.apply_glsl(
            "return min(vec4(1.0), u_most / (sqrt(a) + 1e-6));", builder.sum_tensors(squares),
            most=float(optimizer.clip_norm),
        )  # fmt: skip
        found = {name: builder.multiply(one, factor) for name, one in found.items()}
    return found
