"""Loading has no effect on the process: on other threads, children and later code."""

import gc
import importlib
import os
import random
import subprocess
import sys
import textwrap
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext

import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from torch import nn

import control_flow
from control_flow import EXAMPLE, InputDependent, small_cnn
from nbglcnn import Viewer
from nbglcnn.errors import NbglcnnError
from nbglcnn.load import load
from nbglcnn.load.torch.isolation.process_state import restore_torch_on_error
from nbglcnn.load.torch.translate import onnxscript_table as tables
from nbglcnn.load.torch.translate import translation as translate
from recorded_runs import is_tracing


def test_threads_load_side_by_side() -> None:
    importlib.import_module("sympy")  # torch imports it on demand, and it adds a filter
    load(small_cnn(), EXAMPLE)
    before = warnings.filters, list(warnings.filters), sys.stdout, sys.stderr
    with ThreadPoolExecutor(4) as pool:
        loads = [pool.submit(load, small_cnn(), EXAMPLE) for _ in range(4)]
    assert [len(one.result()[0].nodes) for one in loads] == [3] * 4
    load(small_cnn(), EXAMPLE)
    assert before == (warnings.filters, list(warnings.filters), sys.stdout, sys.stderr)


def test_viewers_are_made_in_two_threads_and_after_them() -> None:
    models = [small_cnn() for _ in range(3)]
    at_once = threading.Barrier(2)

    def made(model: nn.Module) -> Viewer:
        at_once.wait(60)
        return Viewer(model, EXAMPLE)

    with ThreadPoolExecutor(2) as pool:
        viewers = list(pool.map(made, models[:2]))
    for viewer, model in zip([*viewers, Viewer(models[2], EXAMPLE)], models, strict=True):
        with torch.no_grad():
            expected = model(torch.from_numpy(EXAMPLE)).numpy()
        assert_allclose(viewer.activations["2"], expected, rtol=1e-5, atol=1e-6)
        viewer.close()


def test_only_translations_that_are_used_are_read_and_all_where_that_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def renamed(pending: object) -> Iterator[AbstractContextManager[None]]:
        yield nullcontext()
        raise AttributeError("a name that another torch or onnxscript doesn't have")

    graphs, unread = [], []
    for put_off in (tables._defer_parsing, renamed):
        translate.onnxscript_registry.cache_clear()
        monkeypatch.setattr(tables, "_defer_parsing", put_off)
        graphs.append(load(small_cnn(), EXAMPLE)[0])
        unread.append(len(translate.onnxscript_registry()[1]))
    translate.onnxscript_registry.cache_clear()
    assert unread[0] > 300 and unread[1] == 0
    assert (
        [n.op for n in graphs[0].nodes]
        == [n.op for n in graphs[1].nodes]
        == ["Conv", "Relu", "Conv"]
    )


class WaitsForThread(nn.Module):
    """While it is being recorded, it lets another thread do its work."""

    def __init__(self, others: threading.Event, done: threading.Event) -> None:
        super().__init__()
        self.meet = lambda: (others.set(), done.wait(30))

    def __deepcopy__(self, _: object) -> "WaitsForThread":
        return self

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if is_tracing():
            assert self.meet()[1]
        return x.relu()


def test_what_another_thread_prints_warns_logs_and_draws_while_one_loads_arrives(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    import logging

    started, done = threading.Event(), threading.Event()
    torch.manual_seed(7)
    wanted = torch.rand(4)
    torch.manual_seed(7)
    with warnings.catch_warnings(record=True) as caught, ThreadPoolExecutor(1) as pool:
        warnings.simplefilter("always")
        loading = pool.submit(load, WaitsForThread(started, done).eval(), EXAMPLE)
        assert started.wait(60)
        sys.stdout.write("printed meanwhile\n")
        sys.stderr.write("printed as an error\n")
        warnings.warn("warned meanwhile", UserWarning, stacklevel=1)
        logging.getLogger("torch").warning("logged meanwhile")
        drawn = torch.rand(2)
        done.set()
        loading.result()
        drawn = torch.cat([drawn, torch.rand(2)])
    printed = capsys.readouterr()
    assert "printed meanwhile\n" in printed.out
    assert "printed as an error\n" in printed.err
    assert [str(w.message) for w in caught] == ["warned meanwhile"]
    assert "logged meanwhile" in caplog.text
    assert_array_equal(drawn, wanted)


def test_the_exporter_says_nothing_where_it_works_and_where_it_fails() -> None:
    # In a separate process: the exporter emits some warnings and logs only once.
    program = """
        import numpy, torch
        from nbglcnn.load import load
        from control_flow import EXAMPLE, InputDependent, small_cnn
        load(small_cnn(), EXAMPLE)
        try:
            load(InputDependent().eval(), EXAMPLE)
        except Exception as error:
            print(type(error).__name__)
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        cwd=os.path.dirname(control_flow.__file__),
        check=True,
    )
    assert (run.stdout, run.stderr) == ("UnsupportedModel\n", "")


def torch_modes() -> tuple[object, ...]:
    """The state that a failed export could leave in PyTorch."""
    from torch import _C
    from torch._ops import _len_torch_dispatch_stack_pre_dispatch

    return (
        _C._len_torch_dispatch_stack(),
        _C._len_torch_function_stack(),
        _len_torch_dispatch_stack_pre_dispatch(),
        *(_C._get_dispatch_mode(key) for key in _C._TorchDispatchModeKey.__members__.values()),
        _C._dispatch_tls_is_dispatch_key_included("PreDispatch"),
        torch.compiler.is_exporting(),
        torch.is_grad_enabled(),
        torch.is_autocast_enabled("cpu"),
    )


def test_a_failed_export_leaves_nothing_behind() -> None:
    importlib.import_module("sympy")  # torch imports it on demand, and it adds a filter
    load(small_cnn(), EXAMPLE)
    before = torch_modes(), list(warnings.filters), torch.get_rng_state().tolist()
    with pytest.raises(NbglcnnError, match="depends on the input's values"):
        load(InputDependent().eval(), EXAMPLE)
    assert before == (torch_modes(), list(warnings.filters), torch.get_rng_state().tolist())


def test_what_was_begun_and_not_ended_when_an_interrupt_came_is_ended_and_nothing_else() -> None:
    from torch._subclasses import FakeTensorMode
    from torch.overrides import BaseTorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode

    class Plain(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore
            return func(*args, **(kwargs or {}))

    outside = torch_modes()
    with Plain() as mine:
        before = torch_modes()
        with pytest.raises(KeyboardInterrupt), restore_torch_on_error():
            for begun in (FakeTensorMode(), Plain(), BaseTorchFunctionMode()):
                begun.__enter__()
            torch.set_grad_enabled(False)
            torch.compiler._is_exporting_flag = True
            torch._C._dispatch_tls_set_dispatch_key_included("PreDispatch", True)
            assert len([a for a, b in zip(before, torch_modes(), strict=True) if a != b]) == 6
            raise KeyboardInterrupt
        assert torch_modes() == before
        assert _get_current_dispatch_mode() is mine
    assert torch_modes() == outside


def load_interrupted(model: nn.Module, call_index: int) -> int:
    """Interrupt loading at this function call; return the number of calls so far."""
    count = 0

    def interrupt(frame: object, event: str, _: object) -> None:
        nonlocal count
        if event == "call":
            count += 1
            if count == call_index:
                sys.setprofile(None)
                raise KeyboardInterrupt

    sys.setprofile(interrupt)
    try:
        load(model, EXAMPLE)
    except KeyboardInterrupt:
        pass
    finally:
        sys.setprofile(None)
    return count


def test_an_interrupt_anywhere_leaves_nothing_behind(request: pytest.FixtureRequest) -> None:
    model = small_cnn()
    load(model, EXAMPLE)

    def state() -> object:
        now = torch_modes(), list(warnings.filters), torch.get_rng_state().tolist()
        return *now, gc.isenabled()

    before = state()
    calls = load_interrupted(model, -1)
    assert calls > 1_000
    generator = random.Random(0)
    for _ in range(200 if request.config.getoption("--sweep", False) else 6):
        at = generator.randrange(calls)
        load_interrupted(model, at)
        assert state() == before, f"interrupted at call {at}"
    graph, _ = load(model, EXAMPLE)
    assert len(graph.nodes) == 3
