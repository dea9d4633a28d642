"""Tables: the same rows as text, HTML and Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

Row = Sequence[str]
Style = Literal["text", "html", "markdown"]


def table(
    titles: Row, rows: Iterable[Row], style: Style = "text", *, number_columns: Iterable[int] = ()
) -> str:
    """Format rows of equal length as a table; `titles` may be empty for "text".

    "text" aligns columns by spaces, "html" escapes the cells, "markdown" escapes only bars, so that
    its cells may contain Markdown. `number_columns` are the right-aligned columns.
    """
    lines = [tuple(row) for row in rows]
    right = set(number_columns)
    if style == "html":
        return _html(titles, lines)
    return (_markdown if style == "markdown" else _text)(titles, lines, right)


def _text(titles: Row, rows: Sequence[Row], right_aligned: set[int]) -> str:
    every = [titles, *rows] if titles else rows
    widths = [max(map(len, column)) for column in zip(*every, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if k in right_aligned else cell.ljust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in every
    )


def _html(titles: Row, rows: Sequence[Row]) -> str:
    from html import escape

    def line(row: Row, tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in row) + "</tr>"

    body = "".join(line(row, "td") for row in rows)
    return f"<table><thead>{line(titles, 'th')}</thead><tbody>{body}</tbody></table>"


def _markdown(titles: Row, rows: Sequence[Row], right_aligned: set[int]) -> str:
    rule = ["---:" if k in right_aligned else "---" for k in range(len(titles))]
    lines = [f"| {' | '.join(titles)} |", f"|{'|'.join(rule)}|"]
    for row in rows:
        assert len(row) == len(titles), row
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |")
    return "\n".join(lines)
