"""The head: multinomial logistic regression with a unique optimum, which pages find as well."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nbglcnn.errors import InputError
from nbglcnn.features.teaching.records import (
    GRADIENT_TOLERANCE,
    HELD_OUT_EVERY,
    MAX_ITERATIONS,
    MIN_VARIANCE,
    WEIGHT_PENALTY,
)
from nbglcnn.graph import Array

if TYPE_CHECKING:
    from torch import nn


def new_id() -> str:
    """Return a unique id."""
    return secrets.token_hex(8)


@dataclass(frozen=True)
class Head:
    """A float32 Linear: `weight` (classes, features), `bias` (classes,); `classes` are ids.

    `correct` is the number of correct predictions for its `count` training examples.
    `held_out_correct` is the number of correct predictions for `held_out_count` examples by another
    head, trained without them.
    """

    id: str
    classes: tuple[str, ...]
    weight: Array
    bias: Array
    correct: int = 0
    count: int = 0
    held_out_correct: int = 0
    held_out_count: int = 0

    def probabilities(self, features: Array) -> Array:
        """Return probabilities (examples, classes), float64, for features (examples, features)."""
        logits = features.astype(np.float64) @ self.weight.T.astype(np.float64) + self.bias
        powers = np.exp(logits - logits.max(1, keepdims=True))
        found: Array = powers / powers.sum(1, keepdims=True)
        return found

    def module(self, averaged: bool) -> nn.Sequential:
        """Return a torch module from the feature layer's value to logits."""
        import torch
        from torch import nn

        classes, features = self.weight.shape
        linear = nn.Linear(features, classes)
        with torch.no_grad():
            linear.weight.copy_(torch.from_numpy(self.weight.copy()))
            linear.bias.copy_(torch.from_numpy(self.bias.copy()))
        pool = [nn.AdaptiveAvgPool2d(1)] if averaged else []
        return nn.Sequential(*pool, nn.Flatten(), linear).eval()


def held_out_mask(labels: Array) -> Array:
    """Return a mask of the last fifth of each class; all False if a class is too small."""
    found = np.zeros(len(labels), bool)
    for label in np.unique(labels):
        own = np.flatnonzero(labels == label)
        if len(own) < HELD_OUT_EVERY:
            return np.zeros(len(labels), bool)
        found[own[len(own) - len(own) // HELD_OUT_EVERY :]] = True
    return found


def fit(features: Array, labels: Array, class_count: int) -> tuple[Array, Array]:
    """Fit the weight and bias of multinomial logistic regression.

    They minimize the mean cross-entropy of softmax(W u + b), with equal weight for each class, plus
    WEIGHT_PENALTY / 2 · ‖W‖², for u = (x − mean) / (deviation · √features). The function is
    strictly convex in W, and a zero mean fixes b, so there is one optimum. The returned weight and
    bias include the step from x to u.

    Args:
        features: The features x, shape (examples, features).
        labels: The class of each example, shape (examples,). Each class has at least one example.
        class_count: The number of classes.

    Returns:
        The weight (classes, features) and the bias (classes,), float32.
    """
    import torch
    from torch.nn import functional

    x = torch.from_numpy(np.asarray(features, np.float64))
    y = torch.from_numpy(np.asarray(labels, np.int64))
    counts = torch.bincount(y, minlength=class_count)
    share = 1 / (class_count * counts[y]).double()
    mean = share @ x
    variance = share @ (x - mean) ** 2
    deviation = (variance + MIN_VARIANCE * variance.mean()).sqrt()
    deviation[deviation == 0] = 1.0  # all examples are equal
    scale = 1 / (deviation * x.shape[1] ** 0.5)
    u = (x - mean) * scale
    weight = torch.zeros(class_count, x.shape[1], dtype=torch.float64, requires_grad=True)
    bias = torch.zeros(class_count, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS(
        [weight, bias], max_iter=MAX_ITERATIONS, max_eval=2 * MAX_ITERATIONS,
        tolerance_grad=GRADIENT_TOLERANCE,
        tolerance_change=0.0, history_size=20, line_search_fn="strong_wolfe",
    )  # fmt: skip

    def closure() -> Any:
        optimizer.zero_grad()
        errors = functional.cross_entropy(u @ weight.T + bias, y, reduction="none")
        loss = share @ errors + WEIGHT_PENALTY / 2 * (weight**2).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    with torch.enable_grad():
        optimizer.step(closure)  # type: ignore[no-untyped-call]
    found = (weight * scale).detach()
    # Adding a constant to all biases changes no probability: a zero mean makes the bias unique.
    shift = (bias - bias.mean()).detach() - found @ mean
    return found.numpy().astype(np.float32), shift.numpy().astype(np.float32)


def parse_head(head_argument: Any, class_ids: tuple[str, ...], feature_count: int) -> Head:
    """Parse a head that the user passes: a module, or a mapping or pair of weight and bias.

    `class_ids` are ids. Raises InputError if it doesn't fit.
    """
    state = head_argument.state_dict() if hasattr(head_argument, "state_dict") else head_argument
    if isinstance(state, Mapping):
        own = {str(name).rpartition(".")[2]: array for name, array in state.items()}
        pair: Any = (own.get("weight"), own.get("bias"))
    else:
        pair = state
    try:
        arrays = [
            np.asarray(one.detach().cpu() if hasattr(one, "detach") else one, np.float32)
            for one in pair
        ]
        weight, bias = arrays
    except (TypeError, ValueError):
        raise InputError(
            f"head is {type(head_argument).__name__}; expected the result of teaching.head(), or a "
            "pair of weight (classes, features) and bias (classes,)"
        ) from None
    if weight.shape != (len(class_ids), feature_count) or bias.shape != (len(class_ids),):
        raise InputError(
            f"head has a weight of {weight.shape} and a bias of {bias.shape}; {len(class_ids)} "
            f"classes and {feature_count} features need {(len(class_ids), feature_count)} and "
            f"{(len(class_ids),)}"
        )
    if not (np.isfinite(weight).all() and np.isfinite(bias).all()):
        raise InputError("head has values that are not finite")
    return Head(new_id(), class_ids, weight.copy(), bias.copy())
