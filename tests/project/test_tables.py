"""The shared table printer: the same rows for a terminal, Markdown and a notebook."""

import pytest

from nbglcnn.tables import table

TITLES = ("layer", "MACs", "note")
ROWS = [("conv", "1,134", ""), ("a<b", "7", "x|y")]


def test_text_is_aligned_and_numbers_stand_to_the_right():
    assert table(TITLES, ROWS, number_columns=[1]).splitlines() == [
        "layer   MACs  note",
        "conv   1,134",
        "a<b        7  x|y",
    ]
    assert table((), [("a", "1"), ("long", "2")]) == "a     1\nlong  2"
    assert table((), []) == ""


def test_markdown_escapes_bars_and_html_escapes_tags():
    assert table(TITLES, ROWS, "markdown", number_columns=[1]).splitlines() == [
        "| layer | MACs | note |",
        "|---|---:|---|",
        "| conv | 1,134 |  |",
        "| a<b | 7 | x\\|y |",
    ]
    assert table(TITLES, ROWS[1:], "html") == (
        "<table><thead><tr><th>layer</th><th>MACs</th><th>note</th></tr></thead>"
        "<tbody><tr><td>a&lt;b</td><td>7</td><td>x|y</td></tr></tbody></table>"
    )


@pytest.mark.parametrize("style", ["text", "markdown"])
def test_a_row_of_another_length_is_a_mistake_of_the_caller(style):
    with pytest.raises((ValueError, AssertionError)):
        table(TITLES, [("conv", "1")], style)
