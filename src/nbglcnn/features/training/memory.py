"""The check that a training Plan fits into memory."""

from __future__ import annotations

import os
from collections.abc import Callable

from nbglcnn.errors import DeviceError, InputError, UnsupportedModel
from nbglcnn.plan.schema import Plan
from nbglcnn.runtime.device import SOFTWARE_RENDERERS

USABLE_MEMORY_FRACTION = 0.8  # the share of free memory to use
MAX_COMPILATIONS = 8  # compilations while searching a batch size that fits


def check_memory(
    plan: Plan,
    batch_size: int,
    limit_bytes: int | None,
    renderer: str,
    compile_for_batch_size: Callable[[int], Plan],
) -> None:
    """Raise DeviceError if a Plan needs more than `limit_bytes`; suggest a batch size that fits.

    The default limit is four fifths of the machine's free memory if `renderer` is a software
    renderer; other renderers have no default limit, because OpenGL does not report their free
    memory. `compile_for_batch_size` returns the Plan of another batch size: texture memory is not
    proportional to it.
    """
    most = (
        limit_bytes
        if limit_bytes is not None
        else _available_bytes()
        if SOFTWARE_RENDERERS.search(renderer)
        else None
    )
    if most is None or plan.gpu_bytes <= most:
        return
    raise DeviceError(
        f"a training step of {plan.header.name} with batch_size={batch_size} needs "
        f"{_format_bytes(plan.gpu_bytes)} of textures; at most {_format_bytes(most)} are "
        "available. " + _advice(plan, batch_size, most, compile_for_batch_size)
    )


def _advice(
    plan: Plan, batch_size: int, limit_bytes: int, compile_for_batch_size: Callable[[int], Plan]
) -> str:
    """The advice: a batch size that was found to fit, if there is one."""
    constant = {weight.texture for weight in plan.header.weights}
    for carry in plan.header.carries:
        constant |= {carry.source, carry.target}
    always = sum(plan.header.textures[k].bytes for k in constant)
    fewer = "train fewer `parameters`, smaller inputs or a smaller network"
    if always > limit_bytes:
        return f"{_format_bytes(always)} of that are needed for any batch size: {fewer}"
    smaller = f"Give a smaller batch_size, or {fewer}"
    size, needed = batch_size, plan.gpu_bytes
    for _ in range(MAX_COMPILATIONS):
        if size == 1:
            break
        size = max(1, min(size - 1, int((limit_bytes - always) * size / (needed - always))))
        try:
            needed = compile_for_batch_size(size).gpu_bytes
        except (InputError, UnsupportedModel):  # the model accepts only that batch size
            return smaller
        if needed <= limit_bytes:
            return f"With batch_size={size} it needs {_format_bytes(needed)}"
    return f"With batch_size=1 it needs {_format_bytes(needed)}: {fewer}" if size == 1 else smaller


def _format_bytes(count: int) -> str:
    return f"{count / 1e6:.3g} MB" if count >= 1e5 else f"{count / 1e3:.3g} kB"


def _available_bytes() -> int | None:
    """Four fifths of the free bytes; None if the system doesn't report them."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(int(line.split()[1]) * 1024 * USABLE_MEMORY_FRACTION)
        return int(
            os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * USABLE_MEMORY_FRACTION
        )
    except (OSError, ValueError, AttributeError):
        return None
