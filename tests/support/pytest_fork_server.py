"""Runs pytest in forks of one process that has imported the tests' packages except nbglcnn.

Each line of its input is JSON: the arguments of a run and the path of its output file. It replies
with the pid of the child that runs them, and later with the child's exit status. `make mutants`
uses it: starting Python and importing PyTorch takes longer than most of the tests.
"""

import contextlib
import importlib
import json
import logging
import os
import signal
import sys
import warnings

PRELOADED_MODULES = (
    "msgspec", "moderngl", "onnx", "onnx.reference", "onnx_ir", "onnxruntime", "onnxscript",
    "PIL.Image", "playwright.sync_api", "pytest", "torch",
)  # fmt: skip


def import_packages() -> None:
    """Import the tests' packages, and the modules that PyTorch's exporter imports lazily."""
    for name in PRELOADED_MODULES:
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
    """Run pytest in this process, then exit."""
    os.setsid()
    # A shell starts background jobs with SIGINT ignored, and tests of interrupts need it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    log = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for ours, standard in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(ours, standard)
    import pytest

    status = 3  # exit status of an internal error
    try:
        status = int(pytest.main(arguments))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def main() -> None:
    """Handle requests until the input ends."""
    sys.path[0] = os.getcwd()  # like `python -m pytest`
    if os.path.isdir(os.path.join("src", "nbglcnn")):  # false in test_mutants.py's small checkouts
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
