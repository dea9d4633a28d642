"""Runs pytest in forks of one process that has imported what the tests need besides nbglcnn.

A line of its input is the arguments of a run and the file for what it says, as JSON. It answers
with the number of the child that runs them, and when that has ended with its exit status. `make
mutants` uses it: starting and importing PyTorch takes longer than most of the tests do.
"""

import contextlib
import importlib
import json
import logging
import os
import sys
import warnings

PRELOADED = (
    "msgspec", "moderngl", "onnx", "onnx.reference", "onnx_ir", "onnxruntime", "onnxscript",
    "PIL.Image", "playwright.sync_api", "pytest", "torch",
)  # fmt: skip


def import_packages() -> None:
    """Import what the tests need, and all that PyTorch's exporter imports when it first works."""
    for name in PRELOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    with contextlib.suppress(ImportError):
        import torch

        logging.disable()
        with warnings.catch_warnings(), contextlib.redirect_stdout(sys.stderr):
            warnings.simplefilter("ignore")
            torch.onnx.export(torch.nn.ReLU(), (torch.zeros(1),), dynamo=True, verbose=False)
        logging.disable(logging.NOTSET)


def run_pytest(arguments: list[str], output: str) -> None:
    """Be a process that runs pytest, and end."""
    os.setsid()
    log = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for ours, standard in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(ours, standard)
    import pytest

    status = 3  # an internal error
    try:
        status = int(pytest.main(arguments))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def main() -> None:
    """Answer until there is no more input."""
    sys.path[0] = os.getcwd()  # as `python -m pytest` has it
    if os.path.isdir(os.path.join("src", "nbglcnn")):  # not in test_mutants.py's small checkouts
        import_packages()
    for line in sys.stdin:
        asked = json.loads(line)
        child = os.fork()
        if child == 0:
            run_pytest(asked["arguments"], asked["output"])
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
