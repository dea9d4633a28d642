"""Compilers with faults, for the test that the fuzzer finds them. Each fails at damaged models."""

import ctypes
import time

from cpu_time import machine_slowdown
from fuzz_models import seeds

UNDAMAGED = {data for _, data in seeds()}


def raise_foreign_error(data: bytes) -> str:
    """An exception that is not ours."""
    if data not in UNDAMAGED:
        raise KeyError("not ours")
    return "accepted"


def crash_process(data: bytes) -> str:
    """A process that ends: it reads at address 0."""
    if data not in UNDAMAGED:
        ctypes.string_at(0)
    return "accepted"


def hang(data: bytes) -> str:
    """A hang without work."""
    if data not in UNDAMAGED:
        time.sleep(60)
    return "accepted"


def exceed_cpu_time(data: bytes) -> str:
    """Nearly twice a tenth of a second of work, on each machine."""
    end = time.process_time() + (0.18 * machine_slowdown() if data not in UNDAMAGED else 0)
    while time.process_time() < end:
        pass
    return "accepted"


def exceed_memory(data: bytes) -> str:
    """More memory than there is a budget for."""
    if data not in UNDAMAGED:
        bytearray(2**31)
    return "accepted"
