"""Draws docs/pictures/architecture.svg: both languages' folders in layers, by their imports.

Each layer imports lower layers only; the top layer holds the entry points, which no part imports.
`UPWARD_IMPORTS` lists the imports that close a cycle; the drawing marks them. A cycle without an
entry in UPWARD_IMPORTS is an error, and so is an entry that isn't an import.
"""

import ast
import math
import re
import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from html import escape
from pathlib import Path

ROOT = Path(__file__).parent.parent
SVG_FILE = ROOT / "docs" / "pictures" / "architecture.svg"
PYTHON, PAGE = ROOT / "src" / "nbglcnn", ROOT / "js" / "src"
IMPORT_PATTERN = re.compile(r'^(?:import|export)\b([^;]*?)\bfrom\s+"(\.[^"]+)";', re.MULTILINE)

# For each language, the imports that close a cycle: (importing folder or file, imported one).
UPWARD_IMPORTS = {
    PYTHON: {
        *(("features", "widget"), ("load", "features"), ("local_backend", "features")),
        *(("reference", "features"), ("runtime", "features"), ("transforms", "features")),
    },
    PAGE: {("views", "features")},
}
DESCRIPTIONS = {
    PYTHON: {
        "api": "compile, check, verify",
        "cli": "the command nbglcnn",
        "codegen": "GLSL, uniforms, passes",
        "features": "one folder each: host, records, public classes",
        "gradients": "Graph → Graph with gradients",
        "graph": "Graph and Node",
        "inputs": "arguments as arrays",
        "load": "PyTorch, ONNX → Graph",
        "lowering": "Graph → Plan",
        "notebook": "Jupyter, marimo",
        "ops": "operators: one record each",
        "pictures": "feature maps as PNG",
        "plan": "the Plan's format and its checks",
        "runtime": "a Plan on local OpenGL",
        "widget": "Viewer, Network, connection to pages",
    },
    PAGE: {
        "comm": "client of Python",
        "engine": "run loop, weights, inputs",
        "explain": "arithmetic of one value",
        "features": "one folder each: state, code, views",
        "loader": "what anywidget imports",
        "network": "names, stages, displays",
        "page": "client of an exported page",
        "pictures": "colour maps, mosaics",
        "plan": "the Plan's format, checks, scheduling",
        "runtime": "a session, any web page",
        "state": "signals that views share",
        "statistics": "histograms and summaries",
        "views": "tabs and their components",
        "webgl": "a Plan on WebGL 2",
        "widget": "the widget in a page",
    },
    "features": {
        "edits": "bends, injected and frozen values",
        "sources": "webcam, film, data set, drawing, noise",
        "latent": "codes in the place of a layer",
        "training": "a network that trains in the page",
        "mirror": "a PyTorch training, followed",
        "teaching": "a head on examples of the page",
        "compare": "two networks, layer by layer",
        "export": "a Viewer as one HTML file",
    },
}

LEGEND = (
    "A box imports lower boxes only, except for imports marked with ▲. Lines join the two halves"
    " of a feature.",
    "Drawn by scripts/draw_architecture.py from the imports; imports of types alone don't count.",
)
WIDTH, MARGIN, COLUMN_WIDTH, GAP, FEATURE_HEIGHT = 848, 20, 388, 8, 25
STYLE = """\
  svg { --paper: #fff; --ink: #1f2328; --soft: #59636e; --line: #8c959f; --box: #f6f8fa;
    --both: #ddf4ff; --edge: #218bff; --up: #bc4c00; }
  @media (prefers-color-scheme: dark) {
    svg { --paper: #0d1117; --ink: #f0f6fc; --soft: #a5afba; --line: #656c76; --box: #1a2029;
      --both: #10273f; --edge: #4493f8; --up: #f0883e; }
  }
  text { font: 11px system-ui, sans-serif; fill: var(--soft); }
  .name { font: 600 13px ui-monospace, monospace; fill: var(--ink); }
  .title { font: 600 15px system-ui, sans-serif; fill: var(--ink); }
  .up { fill: var(--up); text-anchor: end; }
  .paper { fill: var(--paper); }
  .box { fill: var(--box); stroke: var(--line); }
  .both { fill: var(--both); stroke: var(--edge); }
  .joint { stroke: var(--edge); stroke-width: 2; }
"""


def python_imports(file: Path) -> Iterator[Path]:
    """The package's files that a Python file imports at run time, including inside functions."""
    pending: list[ast.AST] = [ast.parse(file.read_text("utf-8"))]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            pending += node.orelse
            continue
        pending += ast.iter_child_nodes(node)
        names = []
        if isinstance(node, ast.Import):
            names = [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{name.name}" for name in node.names]
        for name in names:
            package, *rest = name.split(".")
            if package == PYTHON.name and rest:
                yield PYTHON.joinpath(*rest)


def page_imports(file: Path) -> Iterator[Path]:
    """The modules that a TypeScript file imports, except type-only imports."""
    for names, target in IMPORT_PATTERN.findall(file.read_text("utf-8")):
        each = [name.strip() for name in names.strip(" \n{}").split(",")]
        module = (file.parent / target).resolve()
        types = each[0].startswith("type {") or all(one.startswith("type ") for one in each if one)
        if not types and module.is_relative_to(PAGE):
            yield module


def imports_of(
    source: Path, suffixes: Sequence[str], read: Callable[[Path], Iterator[Path]]
) -> dict[str, set[str]]:
    """The folders and files of a language's source, each with its imports."""
    found: dict[str, set[str]] = {}
    for file in sorted(source.rglob("*")):
        if file.suffix in suffixes and not file.name.endswith(".d.ts"):
            imported = {_top_level_component(source, target) for target in read(file)}
            found.setdefault(_top_level_component(source, file), set()).update(imported)
    found.pop("__init__", None)  # the package's public names, imported lazily
    return {part: (found[part] & found.keys()) - {part} for part in found}


def _top_level_component(source: Path, file: Path) -> str:
    """The top-level folder of a file in `source`, or the name of a top-level file."""
    return file.relative_to(source).parts[0].partition(".")[0]


def sort_into_layers(
    imports: Mapping[str, set[str]], upward_imports: set[tuple[str, str]]
) -> list[list[str]]:
    """Sort folders and files into layers, lowest first; only `upward_imports` go up."""
    for part, one in sorted(upward_imports):
        if one not in imports.get(part, ()):
            raise SystemExit(
                f"draw_architecture.py: {part} → {one} in UPWARD_IMPORTS: it is no import"
            )
        if part not in _transitive_imports(imports, one):
            raise SystemExit(
                f"draw_architecture.py: {part} → {one} in UPWARD_IMPORTS: it closes no cycle"
            )
    lower = {
        part: {one for one in imports[part] if (part, one) not in upward_imports}
        for part in imports
    }
    height: dict[str, int] = {}
    try:
        for part in TopologicalSorter(lower).static_order():
            height[part] = 1 + max((height[one] for one in lower[part]), default=-1)
    except CycleError as error:
        cycle = " → ".join(reversed(error.args[1]))
        message = f"draw_architecture.py: {cycle} is a cycle: put one import into UPWARD_IMPORTS"
        raise SystemExit(message) from None
    found: dict[int, list[str]] = defaultdict(list)
    for part in sorted(height):
        found[height[part]].append(part)
    used = {one for imported in imports.values() for one in imported}
    lower_layers = [[part for part in found[level] if part in used] for level in sorted(found)]
    entries = [part for part in sorted(imports) if part not in used]
    return [layer for layer in [*lower_layers, entries] if layer]


def _transitive_imports(imports: Mapping[str, set[str]], part: str) -> set[str]:
    """All direct and indirect imports of a part."""
    found: set[str] = set()
    pending = [part]
    while pending:
        new = imports[pending.pop()] - found
        found |= new
        pending += new
    return found


class Drawing:
    """A list of SVG elements, one per line."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def text(self, x: float, y: float, text: str, kind: str = "") -> None:
        """Draw a line of text that starts at x, with its baseline at y."""
        kind = f' class="{kind}"' if kind else ""
        self.lines.append(f'<text x="{x:g}" y="{y:g}"{kind}>{escape(text, quote=False)}</text>')

    def box(self, x: float, y: float, width: float, height: float, kind: str) -> None:
        """Draw a rounded rectangle."""
        size = f'width="{width:g}" height="{height:g}"'
        self.lines.append(f'<rect class="{kind}" x="{x:g}" y="{y:g}" {size} rx="5"/>')

    def connector(self, x: float, y: float, end_x: float) -> None:
        """Draw a horizontal line between two boxes."""
        self.lines.append(f'<line class="joint" x1="{x:g}" y1="{y:g}" x2="{end_x:g}" y2="{y:g}"/>')


# Each layer's rows of boxes, and its files without a box.
LayerRows = Sequence[tuple[list[list[str]], list[str]]]


class Column:
    """One language's layers, with `features` between those below and those above."""

    def __init__(self, source: Path, suffixes: Sequence[str], x: float) -> None:
        read = python_imports if source == PYTHON else page_imports
        self.source, self.suffix, self.x = source, suffixes[0], x
        self.descriptions = DESCRIPTIONS[source]
        found = sort_into_layers(imports_of(source, suffixes, read), UPWARD_IMPORTS[source])
        [own] = [level for level, parts in enumerate(found) if "features" in parts]
        beside = [part for part in found[own] if part != "features"]
        self.lower_layers = [self._box_rows(parts) for parts in found[:own]]
        self.upper_layers = [
            self._box_rows(parts) for parts in [beside, *found[own + 1 :]] if parts
        ]
        self.features = {one.name: one for one in sorted((source / "features").iterdir())}
        self.features = {
            name: one for name, one in self.features.items()
            if one.is_dir() and name != "__pycache__"
        }  # fmt: skip

    def _box_rows(self, parts: Sequence[str]) -> tuple[list[list[str]], list[str]]:
        """A layer's boxes in rows of three at most, and its files without a box."""
        unknown = [
            one for one in parts if (self.source / one).is_dir() and one not in self.descriptions
        ]
        if unknown:
            raise SystemExit(
                f"draw_architecture.py: say in SAYS what {unknown} of {self.source} hold"
            )
        boxes = [part for part in parts if part in self.descriptions]
        each = math.ceil(len(boxes) / math.ceil(len(boxes) / 3)) if boxes else 1
        files = [part for part in parts if part not in self.descriptions]
        return [boxes[k : k + each] for k in range(0, len(boxes), each)], [
            f"{part}{self.suffix} {self.upward_mark(part)}".strip() for part in files
        ]

    def upward_mark(self, part: str) -> str:
        """The imports of higher layers, or "" if there are none."""
        up = sorted(one for own, one in UPWARD_IMPORTS[self.source] if own == part)
        return f"▲ {', '.join(up)}" if up else ""

    def height(self, layers: LayerRows) -> float:
        """The total height of these layers."""
        return sum(
            sum(self._row_height(row) + GAP for row in rows) + len(_wrap_files(files)) * 15 + GAP
            for rows, files in layers
        )

    def draw(self, to: Drawing, layers: LayerRows, bottom: float, height: float) -> None:
        """Draw these layers spread over a height, the first at the bottom."""
        y, gap = bottom, (height - self.height(layers)) / len(layers) + GAP
        for rows, files in layers:
            for line in reversed(_wrap_files(files)):
                to.text(self.x + 4, y - 4, line)
                y -= 15
            for row in rows:
                tall, width = self._row_height(row), _box_width(row)
                y -= tall + GAP
                for k, part in enumerate(row):
                    self._draw_box(to, part, self.x + k * (width + GAP), y, width, tall)
            y -= gap

    def _row_height(self, row: Sequence[str]) -> float:
        return 27 + 12 * max(len(self._wrap_description(part, _box_width(row))) for part in row)

    def _wrap_description(self, part: str, width: float) -> list[str]:
        return textwrap.wrap(self.descriptions[part], int((width - 12) / 5.9))

    def _draw_box(
        self, to: Drawing, part: str, x: float, y: float, width: float, height: float
    ) -> None:
        is_folder = (self.source / part).is_dir()
        to.box(x, y, width, height, "box")
        to.text(x + 8, y + 17, part + ("/" if is_folder else self.suffix), "name")
        if mark := self.upward_mark(part):
            to.text(x + width - 7, y + height - 8, mark, "up")
        for k, line in enumerate(self._wrap_description(part, width)):
            to.text(x + 8, y + 31 + 12 * k, line)


def _box_width(row: Sequence[str]) -> float:
    return (COLUMN_WIDTH - GAP * (len(row) - 1)) / len(row)


def _wrap_files(files: Sequence[str]) -> list[str]:
    return textwrap.wrap(" · ".join(file.replace(" ", "\xa0") for file in files), 68)


def draw_svg() -> str:
    """The SVG text of docs/pictures/architecture.svg."""
    python = Column(PYTHON, (".py",), MARGIN)
    page = Column(PAGE, (".ts", ".tsx"), WIDTH - MARGIN - COLUMN_WIDTH)
    columns = (python, page)
    features = DESCRIPTIONS["features"]
    missing = (python.features.keys() | page.features.keys()) - features.keys()
    if missing:
        raise SystemExit(
            f"draw_architecture.py: say in SAYS what the features {sorted(missing)} do"
        )
    to = Drawing()
    above = max(column.height(column.upper_layers) for column in columns)
    below = max(column.height(column.lower_layers) for column in columns)
    top = 48 + above
    middle = top + 44 + len(features) * (FEATURE_HEIGHT + 4)
    bottom = middle + below + GAP
    for column, title in zip(columns, ("Python: src/nbglcnn", "The page: js/src"), strict=True):
        to.text(column.x, 28, title, "title")
        column.draw(to, column.upper_layers, top - GAP, above)
        column.draw(to, column.lower_layers, bottom, below)
        to.box(column.x, top, COLUMN_WIDTH, middle - top - GAP, "box")
        to.text(column.x + 8, top + 17, "features/", "name")
        if mark := column.upward_mark("features"):
            to.text(column.x + COLUMN_WIDTH - 9, top + 17, mark, "up")
        to.text(column.x + 8, top + 31, column.descriptions["features"])
    for k, (name, says) in enumerate(features.items()):
        y = top + 38 + k * (FEATURE_HEIGHT + 4)
        for column in columns:
            if name in column.features:
                to.box(column.x + 8, y, COLUMN_WIDTH - 16, FEATURE_HEIGHT, "both")
                to.text(column.x + 16, y + 17, f"{name}/", "name")
                to.text(
                    column.x + 110,
                    y + 17,
                    says if column is python else _feature_contents(page, name),
                )
        if all(name in column.features for column in columns):
            to.connector(python.x + COLUMN_WIDTH - 8, y + FEATURE_HEIGHT / 2, page.x + 8)
    for k, line in enumerate(LEGEND):
        to.text(MARGIN, bottom + 24 + 16 * k, line)
    height = bottom + 54
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}">',
            "<title>The folders of nbglcnn in Python and in the page, in layers by imports</title>",
            f"<style>\n{STYLE}</style>",
            f'<rect class="paper" width="{WIDTH}" height="{height:g}"/>',
            *to.lines,
            "</svg>\n",
        ]
    )


def _feature_contents(page_column: Column, name: str) -> str:
    """The parts of a feature's folder in the page: state, code and views."""
    files = [one.stem for one in page_column.features[name].iterdir() if one.suffix == ".ts"]
    views = (page_column.features[name] / "views").is_dir()
    has = {"state": "state" in files, "code": set(files) - {"state"}, "views": views}
    return " · ".join(part for part in has if has[part])
