"""Compilers with faults, for the test that the fuzzer finds them. Each fails at damaged models."""

import ctypes
import time

from cpu_time import slowness
from fuzz_models import seeds

WHOLE = {data for _, data in seeds()}


def raises(data: bytes) -> str:
    """An exception that is not ours."""
    if data not in WHOLE:
        raise KeyError("not ours")
    return "accepted"


def crashes(data: bytes) -> str:
    """A process that ends: it reads at address 0."""
    if data not in WHOLE:
        ctypes.string_at(0)
    return "accepted"


def waits(data: bytes) -> str:
    """A hang without work."""
    if data not in WHOLE:
        time.sleep(60)
    return "accepted"


def works(data: bytes) -> str:
    """Nearly twice a tenth of a second of work, on each machine."""
    end = time.process_time() + (0.18 * slowness() if data not in WHOLE else 0)
    while time.process_time() < end:
        pass
    return "accepted"


def takes(data: bytes) -> str:
    """More memory than there is a budget for."""
    if data not in WHOLE:
        bytearray(2**31)
    return "accepted"
