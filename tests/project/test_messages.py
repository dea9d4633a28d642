"""scripts/messages.py: the table of texts that users can see."""

import ast
import inspect
import re

import pytest

from messages import ROOT, UserText, page_texts, python_texts
from nbglcnn import ops

MIN_PYTHON_TEXTS, MIN_PAGE_TEXTS = 1300, 1000


@pytest.fixture(scope="module")
def python() -> list[UserText]:
    return python_texts()


@pytest.fixture(scope="module")
def page() -> list[UserText]:
    return page_texts()


def has_row(texts: list[UserText], kind: str, pattern: str) -> bool:
    return any(text.kind == kind and re.search(pattern, text.text) for text in texts)


def test_the_table_has_the_texts_of_python(python: list[UserText]) -> None:
    assert len(python) >= MIN_PYTHON_TEXTS
    assert has_row(python, "error", r"call \.cpu\(\)"), "raised, with an expression in it"
    assert has_row(python, "error", r"\{.*\} is edited as \{"), "a row of plan/constraints.py"
    assert has_row(python, "help", r"print JSON")
    assert has_row(python, "status", r"\{layers\}")
    assert has_row(python, "text", r"^Session of \{"), "a repr"
    assert {text.kind for text in python} == {"error", "warning", "help", "status", "text"}


def test_the_table_has_the_texts_of_the_page(page: list[UserText]) -> None:
    assert len(page) >= MIN_PAGE_TEXTS
    assert has_row(page, "status", r"^Preparing the GPU: \$\{done\}"), "a template of status.ts"
    assert has_row(page, "label", r"^Channels of \$\{value\.key\}"), "an aria-label"
    assert has_row(page, "tooltip", r"^Remove$"), "a title of one word"
    assert has_row(page, "text", r"<kbd>"), "JSX with an element in the sentence"
    assert has_row(page, "error", r"this browser can’t create a canvas"), "thrown"
    assert {text.kind for text in page} >= {"error", "warning", "label", "tooltip", "status"}


def test_no_docstring_shader_style_or_import_is_in_the_table(
    python: list[UserText], page: list[UserText]
) -> None:
    shown = {text.text for text in python}
    docstring = ast.get_docstring(ast.parse(inspect.getsource(ops)))
    assert docstring is not None
    assert not any(docstring[:40] in text for text in shown)
    for text in python + page:
        assert not re.search(r"\bvec4\b|#version|\bu_block\b|\bnbg-|\.tsx?$", text.text), text


def test_every_row_names_a_line_of_its_file(python: list[UserText], page: list[UserText]) -> None:
    for text in python + page:
        lines = (ROOT / text.file).read_text("utf-8").splitlines()
        assert 1 <= text.line <= len(lines), text
        assert text.text, text
