"""A fault at each WebGL call in a session's life: correct numbers or a clean error."""

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
import torch
from playwright.sync_api import Page
from torch import nn

import nbglcnn
from bundle import bundle_script

X = np.random.default_rng(4).standard_normal((1, 3, 5, 6)).astype(np.float32)
CALLS_PER_BATCH = 12  # calls tried per request to the page
SHARD_COUNT = 4  # a share has every fourth call; shares can run in parallel
ERROR_BY_FAULT = {"loss": "ContextLostError", "link": "ShaderError", "memory": "PlanError"}


@pytest.fixture
def run_fault_sweep(
    gl_page: Callable[..., Page],
    static_site: tuple[str, dict[str, bytes]],
    pytestconfig: pytest.Config,
) -> Callable[..., list[dict[str, Any]]]:
    """sweep(kind, first, step): results with a fault at calls first, first + step, … to the end."""
    # Layers whose shaders compile fast: each context loss recompiles all of them.
    torch.manual_seed(4)
    model = nn.Sequential(nn.BatchNorm2d(3), nn.ReLU()).eval()
    static_site[1]["/sweep.plan"] = nbglcnn.compile(model, X).to_bytes()
    # A texture without memory cannot be written or rendered to.
    allow = "CONTEXT_LOST_WEBGL|context lost|glTexSubImage3D|Framebuffer is incomplete"
    renderer = pytestconfig.getoption("--sweep")
    # llvmpipe compiles shaders three times as fast, and each context loss recompiles all of them.
    page = gl_page(renderer or "llvmpipe", allow=allow)
    page.add_script_tag(content=bundle_script("test/fault_sweep.ts", "--format=iife").decode())

    def run(kind: str, first: int, step: int) -> list[dict[str, Any]]:
        def lives(calls: Iterable[int]) -> list[dict[str, Any]]:
            given = ["/sweep.plan", X.ravel().tolist(), statistics, kind, list(calls)]
            return list(page.evaluate("given => sweep(...given)", given))

        statistics = kind != "loss" or renderer is not None
        found = lives([0])
        for start in itertools.count(first, CALLS_PER_BATCH * step):
            found += lives(range(start, start + CALLS_PER_BATCH * step, step))
            if not found[-1]["wasReached"]:
                return found

    return run


def assert_faults_handled(found: list[dict[str, Any]], kind: str) -> int:
    """Number of faults that struck. The first life has none, nor have those past the last call."""
    faultless_run = found[0]
    faulty_runs = [life for life in found if life["wasReached"]]
    for life in found:
        if not life["wasReached"]:
            assert [step for step in life["steps"] if "error" in step[1]] == []
    right = [outcome["value"] for _, outcome in faultless_run["steps"]]
    for life in found:
        assert life["unhandled"] == []
        assert life["leakedObjects"] == [] and life["alive"] == 0, life
        assert life["finalOutput"] == faultless_run["finalOutput"]
        for (name, outcome), value in zip(life["steps"], right, strict=False):
            if "error" in outcome:
                assert outcome["error"] == ERROR_BY_FAULT[kind], (name, outcome)
            else:
                assert outcome["value"] == value or (name, outcome["value"]) == ("draw", "nothing")
    assert all(
        any("error" in step[1] for step in life["steps"]) for life in faulty_runs if kind != "loss"
    )
    return len(faulty_runs)


@pytest.mark.parametrize(
    "share", [pytest.param(k, marks=pytest.mark.sweep if k else ()) for k in range(SHARD_COUNT)]
)
def test_a_context_lost_at_any_call(run_fault_sweep: Callable[..., Any], share: int) -> None:
    assert assert_faults_handled(run_fault_sweep("loss", 1 + share, SHARD_COUNT), "loss") > 80


@pytest.mark.parametrize("kind", ["link", "memory"])
def test_a_program_or_memory_that_is_refused_at_any_call(
    run_fault_sweep: Callable[..., Any], kind: str
) -> None:
    assert assert_faults_handled(run_fault_sweep(kind, 1, 1), kind) > 5


def test_a_context_lost_while_it_is_opened(gl_page: Callable[..., Page], backend: str) -> None:
    page = gl_page(backend, allow="CONTEXT_LOST_WEBGL|context lost|Too many active WebGL contexts")
    page.add_script_tag(content=bundle_script("test/fault_sweep.ts", "--format=iife").decode())
    *faulty_runs, (_, right) = page.evaluate("sweepContextFaults()")
    assert len(faulty_runs) > 40
    for n, (_, outcome) in enumerate(faulty_runs, 1):
        assert outcome in ("lost-at-birth", right), f"lost before call {n}"
