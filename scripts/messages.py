"""Prints all user-visible texts as TSV: `python scripts/messages.py --area page`.

A row is file:line, kind (error, warning, label, tooltip, status, help or text) and the text with
its interpolated expressions. Python files are parsed here, TypeScript files by js/texts.js.
"""

import argparse
import ast
import json
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from bundle import install_node_packages, search_path_with_node

ROOT = Path(__file__).resolve().parents[1]
PACKAGE_FOLDER = ROOT / "src" / "nbglcnn"
AREAS = ("python", "page")
TEXT_KIND_PATTERNS = {
    "error": re.compile(
        r"error|problem|reason|refus|invalid|validate|check|fault|why|constraint", re.I
    ),
    "warning": re.compile(r"warn", re.I),
    "help": re.compile(r"^(help|HELP|EXAMPLES|description|epilog|metavar)$"),
    "status": re.compile(r"print|progress|report_step|status|note", re.I),
}
EXCEPTION_NAME_PATTERN = re.compile(
    r"Error$|^Unsupported|^Unknown|^Dataset|Unavailable$|Timeout$|[Rr]efus|^warn"
)
CODE_PATTERN = re.compile(  # GLSL, formulas, colours, HTTP headers
    r"[;{}]\s*$|;\n|^\s*(return|if|for)\b.*[();]|^(int|float) \w+(\(|, |$)|\b[iu]?vec[234]\b"
    r"|\bu_\w|\bgl_|^#|^[\w.]+( [-+*/=<>&|?:]+ [\w.()]+)+$|^\w+\(.* [-+*/<=]+ .*\)$"
    r"|^\w+\(\{?\w+\}?, \{?\w+\}?\)$|https?://|</?\w+[ >]|^\(\?|\\[a-zA-Z]|^\w+/\w+; |-src '"
)
NON_TEXT_CALL_PATTERN = re.compile(
    r"^(compile|search|sub|match|split|get\w*attr|import_module|apply_glsl|\w+_shader)$"
)
NON_TEXT_KEYWORD_PATTERN = re.compile(
    r"^(glsl|formula|finish|begin|tap|join|fold|map|uniform_slots|reads|name)$"
)


class UserText(NamedTuple):
    """A user-visible text and its source location."""

    file: str
    line: int
    kind: str
    text: str


class _TextCollector(ast.NodeVisitor):
    """Collects the texts of one Python module."""

    def __init__(self, file: str, error_sources: set[str]) -> None:
        self.file = file
        self.error_sources = error_sources  # functions whose results become errors
        self.kind = "text"
        self.is_text = False  # every string is a text, even a single word
        self.found: list[UserText] = []

    def visit(self, node: ast.AST) -> None:
        """Collect the texts in a node and its children."""
        text = _string_of_node(node)
        if text is not None:
            words = re.sub(r"\{.*?\}", "0", text)
            is_prose = re.search(
                r"[^\W\d_]{3}\S*\s|\s\S*[^\W\d_]{3}", words
            ) and not CODE_PATTERN.search(words)
            if is_prose or (self.is_text and re.search(r"[^\W\d_]{2}", words)):
                line = getattr(node, "lineno", 0)
                self.found.append(UserText(self.file, line, self.kind, " ".join(text.split())))
            return
        before = self.kind, self.is_text
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                self.is_text = False
                self.kind = "error" if name in self.error_sources else _text_kind(name) or self.kind
                self._visit_all(node.body)
            case ast.Raise():
                self.kind, self.is_text = "error", True
                self.generic_visit(node)
            case ast.Call():
                name = _last_name(node.func)
                is_raised = EXCEPTION_NAME_PATTERN.search(name) is not None
                self.kind, self.is_text = (
                    _text_kind(name) or ("error" if is_raised else self.kind),
                    is_raised,
                )
                self.visit(node.func)
                if not NON_TEXT_CALL_PATTERN.search(name):
                    self._visit_all([*node.args, *node.keywords])
            case ast.keyword(arg=str(name)) if not NON_TEXT_KEYWORD_PATTERN.search(name):
                self.kind, self.is_text = _text_kind(name) or self.kind, name in ("help", "epilog")
                self.visit(node.value)
            case ast.Assign(targets=[target]) | ast.AnnAssign(target=target) if node.value:
                self.kind = _text_kind(_last_name(target)) or self.kind
                self.visit(node.value)
            case ast.IfExp():
                self._visit_all([node.body, node.orelse])
            case ast.Dict():
                self._visit_all(node.values)
            case ast.Expr(value=ast.Constant()) | ast.Compare() | ast.keyword() | ast.arguments():
                pass
            case ast.Subscript():
                self.visit(node.value)
            case _:
                self.generic_visit(node)
        self.kind, self.is_text = before

    def _visit_all(self, nodes: Sequence[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)


def _string_of_node(node: ast.AST) -> str | None:
    """A string, f-string or sum of them, with {expression} for interpolations; otherwise None."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_string_of_node(part) or f"{{{ast.unparse(part)}}}" for part in parts)
        case ast.FormattedValue(value=value):
            return f"{{{ast.unparse(value)}}}"
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            sides = [_string_of_node(left), _string_of_node(right)]
            if sides == [None, None]:
                return None
            return "".join(
                f"{{{ast.unparse(side)}}}" if text is None else text
                for side, text in zip((left, right), sides, strict=True)
            )
    return None


def _last_name(node: ast.AST) -> str:
    """The last part of a dotted name: "warn" of `warnings.warn`."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _text_kind(name: str) -> str | None:
    """The kind of texts passed to a function, class, variable or keyword of this name."""
    return next(
        (kind for kind, pattern in TEXT_KIND_PATTERNS.items() if pattern.search(name)), None
    )


def _raised_function_names(tree: ast.AST) -> Iterator[str]:
    """The names of the functions called in `raise` statements."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and node.exc is not None:
            yield from (
                _last_name(call.func) for call in ast.walk(node.exc) if isinstance(call, ast.Call)
            )


def python_texts() -> list[UserText]:
    """The texts of src/nbglcnn."""
    files = sorted(PACKAGE_FOLDER.rglob("*.py"))
    trees = {file: ast.parse(file.read_text("utf-8")) for file in files}
    error_sources = {name for tree in trees.values() for name in _raised_function_names(tree)}
    found: list[UserText] = []
    for file, tree in trees.items():
        texts = _TextCollector(file.relative_to(ROOT).as_posix(), error_sources)
        texts.visit(tree)
        found += texts.found
    return found


def page_texts() -> list[UserText]:
    """The texts of js/src."""
    install_node_packages(ROOT / "js", search_path_with_node())
    command = ["node", str(ROOT / "js" / "texts.js")]
    printed = subprocess.run(
        command, env={"PATH": search_path_with_node()}, check=True, stdout=subprocess.PIPE
    )
    return [UserText(*row) for row in json.loads(printed.stdout)]


def main() -> None:
    """Print the table selected on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--area", choices=AREAS, help="texts of Python or of the page alone")
    parser.add_argument("--grep", default="", help="rows in which this regular expression occurs")
    options = parser.parse_args()
    areas = [options.area] if options.area else AREAS
    for area in areas:
        for text in sorted(python_texts() if area == "python" else page_texts()):
            row = f"{text.file}:{text.line}\t{text.kind}\t{text.text}"
            if re.search(options.grep, row, re.I):
                print(row)


if __name__ == "__main__":
    main()
