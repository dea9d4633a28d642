"""Models that compute something else while they are recorded: what a loader must not hide."""

import torch


def is_recorded() -> bool:
    """Whether the run that is under way is the one that the loader records."""
    return bool(torch._C._dispatch_tls_is_dispatch_key_included("PreDispatch"))
