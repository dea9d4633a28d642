"""How slow this machine is, so that limits of CPU time mean the same work on each."""

import time

REFERENCE_S = 0.125  # of `_reference_work` on the machine that limits are given for


def machine_slowdown() -> float:
    """How many times as long a fixed piece of work takes now as there; at least 1."""
    times = []
    for _ in range(3):
        start = time.process_time()
        _reference_work()
        times.append(time.process_time() - start)
    return max(1.0, sorted(times)[1] / REFERENCE_S)


def _reference_work() -> None:
    """Strings, tuples and dictionaries, as a compiler makes."""
    found: dict[str, tuple[int, object]] = {}
    for k in range(60_000):
        found[f"name {k % 977}"] = k, (found.get(f"name {7 * k % 977}"), [k] * 3)[1]
        if k % 50 == 0:
            found = dict(sorted(found.items(), key=lambda one: one[0])[:900])
