"""The speed of this machine, so that limits on CPU time mean the same work everywhere."""

import time

REFERENCE_WORK_S = 0.125  # `_reference_work` on the machine to which limits refer


def cpu_time_factor() -> float:
    """The factor by which fixed work takes longer than on the reference machine; at least 1."""
    times = []
    for _ in range(3):
        start = time.process_time()
        _reference_work()
        times.append(time.process_time() - start)
    return max(1.0, sorted(times)[1] / REFERENCE_WORK_S)


def _reference_work() -> None:
    """Work on strings, tuples and dictionaries, like a compiler's."""
    found: dict[str, tuple[int, object]] = {}
    for k in range(60_000):
        found[f"name {k % 977}"] = k, (found.get(f"name {7 * k % 977}"), [k] * 3)[1]
        if k % 50 == 0:
            found = dict(sorted(found.items(), key=lambda one: one[0])[:900])
