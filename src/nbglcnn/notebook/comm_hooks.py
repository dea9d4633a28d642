"""A comm whose messages run none of IPython's hooks: a message is not a cell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from comm.base_comm import BaseComm


def handle_without_hooks(comm: Any, handle: Callable[[Any], None]) -> None:
    """Call `handle` for each message of a comm, and nothing else.

    `BaseComm.handle_msg` triggers IPython's `pre_execute` before a message and `post_execute` after
    it. On `post_execute` matplotlib's inline backend shows and closes all figures. JupyterLab sends
    comm messages over a subshell, so the hook runs in the middle of a cell, and the cell's figures
    become outputs of the message, which JupyterLab does not show. Hosts whose comms are of another
    class, like marimo, have no hooks.
    """
    if isinstance(comm, BaseComm):
        comm.handle_msg = handle  # type: ignore[assignment,method-assign]
