"""Faulty compilers for the fuzzer's own test. Each one fails on damaged models only."""

import ctypes
import time

from cpu_time import cpu_time_factor
from fuzz_models import seed_models

UNDAMAGED_MODELS = {data for _, data in seed_models()}


def raise_foreign_error(data: bytes) -> str:
    """Raise an exception that isn't one of ours."""
    if data not in UNDAMAGED_MODELS:
        raise KeyError("not ours")
    return "accepted"


def crash_process(data: bytes) -> str:
    """Crash the process by reading at address 0."""
    if data not in UNDAMAGED_MODELS:
        ctypes.string_at(0)
    return "accepted"


def hang(data: bytes) -> str:
    """Hang without using CPU time."""
    if data not in UNDAMAGED_MODELS:
        time.sleep(60)
    return "accepted"


def exceed_cpu_time(data: bytes) -> str:
    """Use 0.18 s of CPU time, scaled to this machine's speed."""
    end = time.process_time() + (0.18 * cpu_time_factor() if data not in UNDAMAGED_MODELS else 0)
    while time.process_time() < end:
        pass
    return "accepted"


def exceed_memory(data: bytes) -> str:
    """Allocate more memory than the budget allows."""
    if data not in UNDAMAGED_MODELS:
        bytearray(2**31)
    return "accepted"
