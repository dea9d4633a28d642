"""The TypeScript records equal Python's."""

import pytest

import generate_types


@pytest.mark.parametrize("name", generate_types.GENERATED_FILES)
def test_generated_types_are_up_to_date(name: str) -> None:
    written = (generate_types.JS_FOLDER / name).read_text("utf-8")
    text = generate_types.GENERATED_FILES[name]()
    assert written == text, f"{name} is out of date: run `python scripts/generate_types.py`"
