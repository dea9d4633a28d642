"""Models that behave differently while being traced: loaders must not hide this."""

import torch


def is_tracing() -> bool:
    """Whether the current run is the loader's trace."""
    return bool(torch._C._dispatch_tls_is_dispatch_key_included("PreDispatch"))
