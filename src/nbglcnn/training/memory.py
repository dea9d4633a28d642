"""Whether a training Plan fits into memory."""

from __future__ import annotations

import os

from nbglcnn.device import SOFTWARE
from nbglcnn.errors import DeviceError
from nbglcnn.plan import Plan

SHARE = 0.8  # of what is free


def check_memory(plan: Plan, batch_size: int, constant: int, limit: int | None, name: str) -> None:
    """DeviceError for a Plan that takes more than `limit` bytes, with a batch size that fits.

    By default the limit is four fifths of the machine's free memory where `name`, the renderer's,
    is that of a software one: what else is free isn't told by OpenGL. `constant` are the bytes
    that don't grow with the batch.
    """
    most = limit if limit is not None else _free() if SOFTWARE.search(name) else None
    if most is None or plan.gpu_bytes <= most:
        return
    each = max(1, plan.gpu_bytes - constant) / batch_size
    fits = int((most - constant) // each)
    advice = (
        f"With batch_size={fits} it needs {(constant + fits * each) / 1e6:.0f} MB"
        if fits >= 1
        else f"Of that {constant / 1e6:.0f} MB are needed for any batch: train fewer `parameters`, "
        "smaller inputs or a smaller network"
    )
    raise DeviceError(
        f"a training step of {plan.header.name} with batch_size={batch_size} needs "
        f"{plan.gpu_bytes / 1e6:.0f} MB of textures; {most / 1e6:.0f} MB may be taken. {advice}"
    )


def _free() -> int | None:
    """Four fifths of the bytes that are free, as far as the system tells."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(int(line.split()[1]) * 1024 * SHARE)
        return int(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * SHARE)
    except (OSError, ValueError, AttributeError):
        return None
