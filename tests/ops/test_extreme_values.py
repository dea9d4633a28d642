"""All of torch.nn and torch.nn.functional on extreme inputs, compared with PyTorch.

`make test` runs every ninth case on local OpenGL; `make sweep` runs all, also in a page per
renderer.
"""

import copy
import inspect
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from conftest import BACKENDS
from playwright.sync_api import Page
from torch import nn

import nbglcnn
from module_cases import (
    EXCLUDED,
    INPUT_KINDS,
    KNOWN_DIFFERENCES,
    MODULE_CASES,
    REFUSED_CASES,
    ModuleBatch,
    ModuleCase,
    make_inputs,
)
from nbglcnn import Plan, Session
from nbglcnn.report import compare_values
from webgl_page import GlPage

SUPPORTED_CASES = [item for item in MODULE_CASES if item.name not in REFUSED_CASES]
BATCH_SIZE = 12
CASE_BATCHES = [
    SUPPORTED_CASES[k : k + BATCH_SIZE] for k in range(0, len(SUPPORTED_CASES), BATCH_SIZE)
]
RunPlan = Callable[[tuple[np.ndarray, ...]], dict[str, np.ndarray]]


def find_differences(
    plan: Plan, items: Sequence[ModuleCase], model: ModuleBatch, run: RunPlan, where: str
) -> list[str]:
    """The items that neither equal PyTorch's float32 nor are as close to its float64."""
    double, found = copy.deepcopy(model).double(), []
    for kind in INPUT_KINDS:
        arrays = tuple(make_inputs(kind, model.inputs).values())
        actual = run(arrays)
        tensors = [torch.from_numpy(array) for array in arrays]
        with torch.no_grad():
            single = {f"output['{n}']": v.numpy() for n, v in model(*tensors).items()}
            wide = double(*(tensor.double() for tensor in tensors))
        true = {f"output['{n}']": v.numpy() for n, v in wide.items()}
        keys = [
            f"output['{i.name}']" for i in items if kind not in KNOWN_DIFFERENCES.get(i.name, ())
        ]
        report = compare_values(
            plan,
            {key: actual[key] for key in keys},
            single,
            "PyTorch",
            compute_float64=lambda _, true=true: true,
        )
        found += [f"{kind} on {where}: {row}" for row in report.rows if not row.ok]
    return found


def assert_cases(items: Sequence[ModuleCase], pages: Callable[[str], GlPage] | None = None) -> None:
    model = ModuleBatch(items).eval()
    plan = nbglcnn.compile(
        model, tuple(make_inputs("normal", model.inputs).values()), observe="outputs"
    )
    with Session(plan) as session:
        found = find_differences(plan, items, model, lambda arrays: session.run(*arrays), "OpenGL")
    for backend in BACKENDS if pages else ():
        page = pages(backend)
        number = page.open(plan)
        found += find_differences(
            plan, items, model, lambda a, p=page, k=number: p.values(k, a), backend
        )
        page.close(number)
    assert not found, "\n".join(found)


def test_a_spread_of_modules_and_functions_on_extreme_inputs() -> None:
    assert_cases(SUPPORTED_CASES[::9])


@pytest.mark.sweep
@pytest.mark.parametrize("items", CASE_BATCHES, ids=[part[0].name for part in CASE_BATCHES])
def test_modules_and_functions_on_extreme_inputs(
    items: list[ModuleCase], gl_page: Callable[..., Page], static_site: tuple[str, dict[str, bytes]]
) -> None:
    assert_cases(items, lambda backend: GlPage(gl_page(backend), static_site[1]))


@pytest.mark.sweep
@pytest.mark.parametrize("name", REFUSED_CASES)
def test_what_does_not_load_is_refused_in_words(name: str) -> None:
    [item] = [item for item in MODULE_CASES if item.name == name]
    model = ModuleBatch([item]).eval()
    with pytest.raises(nbglcnn.NbglcnnError):
        nbglcnn.compile(model, tuple(make_inputs("normal", model.inputs).values()))


def test_the_table_has_everything_of_torch_nn() -> None:
    modules = [
        f"nn.{name}"
        for name, kind in vars(nn).items()
        if inspect.isclass(kind) and issubclass(kind, nn.Module) and not name.startswith("Lazy")
    ]
    functions = [
        f"F.{name}"
        for name, one in vars(F).items()
        if callable(one) and not name.startswith("_") and not inspect.isclass(one)
    ]
    known = {item.name for item in MODULE_CASES} | set(EXCLUDED)
    assert [name for name in (*modules, *functions) if name not in known] == []
