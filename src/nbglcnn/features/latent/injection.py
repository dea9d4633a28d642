"""Injection of a latent's code into its layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nbglcnn.errors import InputError
from nbglcnn.features.latent import latent as latents

if TYPE_CHECKING:
    from nbglcnn.widget.network import Network


def inject_latent_code(network: Network, layer: str, code: Any) -> None:
    """Inject a code into a layer, and skip the layers that only lead there.

    Raises:
        KeyError, InputError: As `latent.validate_layer`; nothing is changed then.
    """
    value = latents.validate_layer(network.plan, layer)
    numbers = latents.validate_code(layer, code, latents.code_size(network.plan, value))
    if network.plan.in_python and (found := network.graph.python_consumer(layer)):
        raise InputError(
            f"Latent({layer!r}): {found} depends on it and runs in Python, which can't receive a "
            f"latent code. Choose a layer after {found}"
        )
    times = value.readback.count // numbers.size
    made = latents.latent_edit(layer)
    network.set_latent_injection(
        made, {made.array_hash: np.tile(numbers, times).reshape(value.nchw)}
    )
