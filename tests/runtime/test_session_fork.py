"""A process forked after a Session existed: OpenGL and threads remain in the parent."""

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator

import pytest

RunProgram = Callable[[str], str]
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")

# A process without OpenGL and with one thread. Programs run in its forks: each fork is the parent
# process of its test, and need not import PyTorch again.
PARENT_PROGRAM = """
    import json, os, signal, sys, warnings
    import numpy as np, torch
    from torch import nn
    from tqdm import tqdm
    import nbglcnn
    tqdm.monitor_interval = 0  # the exporter's progress bars would start a thread
    warnings.simplefilter("ignore")
    X = np.ones((1, 1, 4, 4), "float32")
    plan = nbglcnn.compile(nn.Conv2d(1, 1, 3).eval(), X)

    def in_child(work):
        if os.fork() == 0:
            try:
                work()
            except nbglcnn.NbglcnnError as error:
                print(type(error).__name__, str(error), flush=True)
            finally:
                os._exit(0)
        os.wait()

    for line in sys.stdin:
        program = os.fork()
        if program == 0:
            signal.alarm(200)  # seconds, after which it ends
            exec(json.loads(line))
            sys.exit()
        _, status = os.waitpid(program, 0)
        print(json.dumps({"status": status}), flush=True)
"""


@pytest.fixture(scope="module")
def run_forked() -> Iterator[RunProgram]:
    """forked(program): the output of a process that runs this program and must terminate."""
    first = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PARENT_PROGRAM)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        text=True,
    )
    assert first.stdin is not None and first.stdout is not None

    def run(program: str) -> str:
        first.stdin.write(json.dumps(textwrap.dedent(program)) + "\n")
        first.stdin.flush()
        printed = []
        for line in first.stdout:
            if line.startswith('{"status"'):
                assert json.loads(line) == {"status": 0}, "".join(printed)
                return "".join(printed)
            printed.append(line)
        raise AssertionError("the first process has ended")

    yield run
    first.communicate()
    assert first.returncode == 0


def test_a_session_in_a_forked_child_is_an_error_and_the_parents_goes_on(
    run_forked: RunProgram,
) -> None:
    printed = run_forked(
        """
        def first():
            with nbglcnn.Session(plan) as own:
                print("a child's own", own.run(X)["output"].shape, flush=True)
        in_child(first)
        session = nbglcnn.Session(plan)
        before = session.run(X)["output"]
        in_child(lambda: nbglcnn.Session(plan))
        in_child(lambda: session.run(X))
        in_child(lambda: (session.close(), print("closed", flush=True)))
        print(np.array_equal(session.run(X)["output"], before))
        """
    )
    lines = printed.splitlines()
    assert lines[0] == "a child's own (1, 1, 2, 2)"
    for line in lines[1:3]:
        assert line.startswith("OpenGLUnavailable OpenGL doesn't survive fork()")
        assert "multiprocessing_context='spawn'" in line
    assert lines[3:] == ["closed", "True"]


def test_a_loader_whose_workers_use_a_session_says_how_to_start_them(
    run_forked: RunProgram,
) -> None:
    printed = run_forked(
        """
        nbglcnn.Session(plan)
        class Features(torch.utils.data.Dataset):
            def __len__(self):
                return 1
            def __getitem__(self, index):
                with nbglcnn.Session(plan) as session:
                    return session.run(X)["output"]
        try:
            loader = torch.utils.data.DataLoader
            list(loader(Features(), num_workers=1, multiprocessing_context="fork"))
        except nbglcnn.OpenGLUnavailable as error:
            print("multiprocessing_context='spawn'" in str(error))
        """
    )
    assert printed.splitlines() == ["True"]


def test_a_viewer_in_a_forked_child_computes_although_pytorchs_threads_stayed_behind(
    run_forked: RunProgram,
) -> None:
    printed = run_forked(
        """
        torch.set_num_threads(2)
        model = nn.Conv2d(3, 16, 3).eval()
        x = np.random.default_rng(0).standard_normal((1, 3, 64, 64)).astype("float32")
        with torch.no_grad():
            expected = model(torch.from_numpy(x)).numpy()
        session = nbglcnn.Session(plan)
        def work():
            viewer = nbglcnn.Viewer(model, x)
            near = np.allclose(viewer.output, expected, atol=1e-5)
            print(near, viewer.activations.source, torch.get_num_threads(), flush=True)
        in_child(work)
        print(torch.get_num_threads())
        """
    )
    first, second = printed.splitlines()
    assert first.startswith("True reference (PyTorch") and first.endswith(" 2")
    assert second == "2"


def test_a_child_that_was_forked_while_a_thread_loads_can_load(run_forked: RunProgram) -> None:
    printed = run_forked(
        """
        import signal, threading
        from nbglcnn.load.torch.isolation.process_state import load_lock
        loading, done = threading.Event(), threading.Event()
        def load():
            with load_lock():
                loading.set()
                done.wait()
        thread = threading.Thread(target=load)
        thread.start()
        loading.wait()
        def in_a_child():
            signal.alarm(40)  # seconds, after which it ends
            print(len(nbglcnn.compile(nn.ReLU(), X).layers), "layer", flush=True)
        in_child(in_a_child)
        done.set()
        thread.join()
        """
    )
    assert printed.splitlines() == ["1 layer"]
