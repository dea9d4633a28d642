"""Comm message handling without IPython's hooks, because a message is not a cell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from comm.base_comm import BaseComm


def set_hookless_handler(comm: Any, handler: Callable[[Any], None]) -> None:
    """Call only `handler` for each message of a comm, without hooks.

    `BaseComm.handle_msg` triggers IPython's `pre_execute` before a message and `post_execute` after
    it. On `post_execute` matplotlib's inline backend shows and closes all figures. JupyterLab sends
    comm messages over a subshell, so the hook would run in the middle of a cell, and the cell's
    figures would become outputs of the message, which JupyterLab does not show. Hosts with another
    comm class, like marimo, have no hooks.
    """
    if isinstance(comm, BaseComm):
        comm.handle_msg = handler  # type: ignore[assignment,method-assign]
