"""The rooms of the house: who imports whom, and what a checkout, a bundle and a page may hold."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "nbglcnn"

# Each room and the rooms it may use, as in the design; errors may be used by all.
COMPILER = {"errors", "layout", "graph", "plan", "glsl", "weights", "builder", "ops", "lower"}
BELOW = COMPILER | {
    "autodiff",
    "bars",
    "bending",
    "classes",
    "colors",
    "datasets",
    "disagreements",
    "edits",
    "inputs",
    "load",
    "partly",
    "preprocess",
    "pictures",
    "reference",
    "report",
    "device",
    "session",
    "tables",
}
ALL = BELOW | {"api"}
MAY_IMPORT = {
    "errors": set(),
    "classes": set(),
    "datasets": set(),
    "colors": set(),
    "bars": {"colors", "plan_layers"},
    "pictures": {"bars", "colors", "graph", "plan"},
    "layout": set(),
    "arrays": set(),
    "picture_layout": set(),
    "picture_decoding": {"fitting"},
    "picture_files": {"picture_decoding"},
    "graph": set(),
    "glsl": {"layout", "slots"},
    "slots": {"graph"},
    "plan": {"layout", "picture_layout", "plan_checks", "plan_layers"},
    "plan_checks": {"picture_layout", "plan_layers", "plan_sections"},
    "plan_sections": set(),
    "pieces": {"plan"},
    "plan_layers": {"tables"},
    "tables": set(),
    "weights": {"graph", "layout", "plan"},
    "patches": {"graph", "layout", "plan", "weights"},
    "formats": {"plan"},
    "positions": {"graph", "plan"},
    "builder": {"formats", "graph", "glsl", "layout", "plan", "positions", "slots", "weights"},
    "ops": {"builder", "graph", "glsl", "layout", "plan", "slots", "weights"},
    "fusion": {"builder", "graph", "ops"},
    "composites": {"graph", "ops", "plan"},
    "fields": {"graph", "ops", "plan"},
    "examples": {"fields", "graph", "ops"},
    "forms": {"fields", "graph", "layout", "ops", "plan"},
    "limits": {"graph", "ops", "plan"},
    "layers": {"fields", "graph", "moves", "ops", "picture_layout", "plan", "composites"},
    "moves": {"graph", "ops", "plan"},
    "sections": {"graph", "plan"},
    "shapes": {"graph", "ops"},
    "reuse": {"builder", "plan"},
    "lower": COMPILER
    | {"examples", "fields", "forms", "fusion", "layers", "limits", "picture_layout", "positions"}
    | {"reuse", "sections", "shapes"},
    "autodiff": COMPILER | {"shapes"},
    "unfolding": {"graph"},
    # Loads, compiles and runs.
    "gradients": {"autodiff", "graph", "load", "lower", "session", "shapes", "unfolding"},
    "losses": {"graph", "ops"},
    "training": {
        *("arrays", "autodiff", "bending", "device", "graph", "inputs", "load", "losses", "lower"),
        *("ops", "plan", "session", "shapes", "unfolding"),
    },
    "fitting": set(),
    "disagreements": {"graph"},
    "inputs": {"arrays", "picture_decoding", "picture_files", "picture_layout"},
    "nested_inputs": {"inputs"},
    "preprocess": {"graph"},
    "known_transforms": {"preprocess"},
    # Of edits what a hook or a node makes of a value; of the Plan how it is shown.
    "load": {
        *("arrays", "classes", "edits", "graph", "inputs", "known_transforms", "nested_inputs"),
        *("picture_layout", "plan", "preprocess"),
    },
    "bending": {"edits", "graph", "positions"},
    "reference": {"bending", "edits", "graph", "load", "report"},
    "replay": {"bending", "edits", "graph", "load", "lower", "partly", "plan", "preprocess"},
    "partly": {"graph", "load", "reference", "shapes"},
    # Of glsl the vertex shader, of no network.
    "device": {"glsl", "plan", "profiling"},
    "profiling": {"plan", "tables"},
    "transforms": {"edits"},
    # Of glsl the texts of shaders.
    "edits": {"arrays", "channels", "glsl", "graph", "layout", "plan", "slots", "transforms"},
    "channels": {"graph"},
    # Of edits the formula of noise.
    "sources": {
        *(
            "arrays",
            "classes",
            "edits",
            "graph",
            "inputs",
            "picture_decoding",
            "picture_files",
            "picture_layout",
        ),
        "plan",
    },
    "tensorfile": {"graph"},
    "teaching": {"graph", "tensorfile"},
    "session": {
        *("colors", "device", "edits", "inputs", "nested_inputs", "pictures", "pieces", "plan"),
        *("plan_sections", "profiling", "session_edits", "session_inputs"),
    },
    "session_edits": {"device", "edits", "graph", "plan"},
    "session_inputs": {"inputs", "layout", "pieces", "plan"},
    "report": {"graph", "layout", "plan", "tables"},
    "api": BELOW | {"layers", "shapes"},
    "recording": {
        *("api", "inputs", "picture_files", "pieces", "plan", "session", "session_inputs"),
    },
    "viewer": ALL
    | {"arrays", "edits", "export", "nested_inputs", "patches", "session_edits", "sources"}
    | {"teaching", "training"},
    "export": ALL | {"edits", "offline", "sources", "viewer"},
    "offline": {"graph", "load", "plan", "teaching", "tensorfile", "training", "viewer"},
    "backend": ALL | {"arrays"},
    "serving": set(),
    "cli": ALL
    | {
        "export",
        "fitting",
        "picture_decoding",
        "picture_files",
        "picture_layout",
        "pieces",
        "serving",
        "viewer",
    },
    "__main__": {"cli"},
    "__init__": ALL | {"viewer", "export", "backend", "recording", "replay", "sources"},
}
# Packages that stay in one room each.
ONLY_IN = {
    "torch": {"load", "reference", "cli", "teaching"},  # whose optimizer fits a head here
    "onnx_ir": {"load"},
    "onnxscript": {"load"},
    "onnx": {"load", "reference", "backend"},
    "moderngl": {"device", "session", "session_edits"},
    "anywidget": {"viewer"},
    "markdown_it": {"export"},
    "zarr": {"recording"},
    "distributed": {"recording"},
}


def room_of(file: Path) -> str:
    """The file's, of a folder the folder's; lowering is a hall of rooms."""
    first, *rest = file.relative_to(PACKAGE).with_suffix("").parts
    return _room([first, *rest])


def _room(parts: list[str]) -> str:
    return parts[1] if parts[0] == "lowering" and len(parts) > 1 else parts[0]


def imports(file: Path) -> Iterator[str]:
    """Dotted names that a file imports, in functions too; not those for annotations alone."""
    pending: list[ast.AST] = [ast.parse(file.read_text(encoding="utf-8"))]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            pending += node.orelse
            continue
        pending += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: a relative import"
            assert node.module is not None
            yield from (f"{node.module}.{name.name}" for name in node.names)


SOURCES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_a_room_imports_only_what_the_design_allows(file: Path) -> None:
    room = room_of(file)
    assert room in MAY_IMPORT, f"{room} is not in MAY_IMPORT: say there what it may import"
    for name in imports(file):
        package, *rest = name.split(".")
        if package == "nbglcnn":
            used = (
                rest[0]
                if (PACKAGE / rest[0]).is_dir() or (PACKAGE / f"{rest[0]}.py").exists()
                else "__init__"
            )
            if used == "__init__":
                assert rest == ["__version__"], f"{room} takes {name} from the package itself"
            else:
                used = _room(rest)
                assert used in MAY_IMPORT[room] | {room, "errors"}, f"{room} imports {name}"
        elif package in ONLY_IN:
            assert room in ONLY_IN[package], f"{room} imports {name}"


# Of the viewer's files these know the private names of hosts.
OF_HOSTS = {"blocking.py", "lifetime.py", "marimo.py"}


def private_names_of_others(source: str) -> list[str]:
    """Private names that are taken from another object and that no class of the file has."""
    nodes = list(ast.walk(ast.parse(source)))
    taken = [one for one in nodes if isinstance(one, ast.Attribute)]
    used = [one for one in taken if one.attr.startswith("_") and not one.attr.startswith("__")]
    own = {one.attr for one in used if ast.unparse(one.value) in ("self", "cls")}
    own |= {one.name for one in nodes if isinstance(one, ast.FunctionDef)}
    return [ast.unparse(one) for one in used if one.attr not in own]


@pytest.mark.parametrize("file", sorted((PACKAGE / "viewer").glob("*.py")), ids=lambda f: f.name)
def test_no_class_of_the_viewer_uses_anothers_private_fields(file: Path) -> None:
    if file.name in OF_HOSTS:
        return
    found = private_names_of_others(file.read_text(encoding="utf-8"))
    # Of the class itself, and of the widget that it inherits from.
    assert set(found) <= {"Viewer._cells", "super()._repr_mimebundle_"}


def test_a_private_field_of_another_object_is_found() -> None:
    source = "class A:\n    def f(self, other):\n        return self._x, other._x, other._y"
    assert private_names_of_others(source) == ["other._y"]


# The same in the page. What stands in js/src itself is called as its file.
FRONT_END = ROOT / "js" / "src"
PAGE_MAY_IMPORT = {
    "messages": {"plan", "teaching"},  # of teaching a record
    "edits": {"plan"},
    "gl": {"edits", "plan", "messages"},
    "engine": {"edits", "gl", "plan", "messages"},
    "source": {"plan"},
    "training": {
        *("gl", "messages", "parts", "plan", "sources", "state"),
    },
    "tensorfile": set(),
    "teaching": {"engine", "gl", "messages", "parts", "plan", "sources", "state", "tensorfile"},
    "parts": set(),
    "sources": {"edits", "engine", "gl", "messages", "plan", "source", "state"},
    "status": {"gl"},
    "state": {
        *("edits", "engine", "gl", "messages", "source", "status", "teaching", "training"),
    },
    "buffers": set(),
    "code": {"buffers", "messages"},
    "unknown": set(),
    "arrays": {"gl"},
    "turning": {"messages", "state", "unknown"},
    "comm": {
        *("buffers", "edits", "engine", "gl", "messages", "source", "sources", "state"),
        *("snapshot", "status", "training", "unknown"),
    },
    "snapshot": set(),
    "format": set(),
    "network": {"format", "plan"},
    "explain": {"network", "plan"},
    "views": {
        "edits",
        "engine",
        "explain",
        "format",
        "gl",
        "messages",
        "network",
        "plan",
        "source",
        "sources",
        "state",
        "status",
        "teaching",
        "training",
    },
    "widget": {
        *("comm", "messages", "source", "state", "teaching", "training", "turning", "unknown"),
        "views",
    },
    "page": {
        *("arrays", "edits", "engine", "gl", "messages", "plan", "source", "sources", "state"),
        *("status", "teaching", "tensorfile", "training", "turning", "views"),
    },
    "loader": {"buffers", "code", "messages", "snapshot", "widget"},
    "runtime": {"arrays", "gl"},
    "plan": set(),
}
IMPORTED = re.compile(r"""^(?:import|export)\b[^;]*?from\s+"(\.[^"]+)";""", re.MULTILINE)


def page_room_of(file: Path) -> str:
    return file.relative_to(FRONT_END).parts[0].partition(".")[0]


@pytest.mark.parametrize("room", PAGE_MAY_IMPORT)
def test_a_room_of_the_page_imports_only_what_the_design_allows(room: str) -> None:
    files = [file for file in FRONT_END.rglob("*.ts*") if page_room_of(file) == room]
    assert files
    for file in files:
        for name in IMPORTED.findall(file.read_text(encoding="utf-8")):
            target = (file.parent / name).resolve()
            if target.suffix == ".glsl":
                continue
            used = page_room_of(target)
            assert used in PAGE_MAY_IMPORT[room] | {room}, f"{file.name} imports {name}"


def test_every_file_of_the_page_is_in_a_room() -> None:
    rooms = {page_room_of(file) for file in FRONT_END.rglob("*.ts*")}
    assert rooms <= PAGE_MAY_IMPORT.keys()


def test_only_the_engine_and_the_runtime_make_sessions() -> None:
    makers = {
        page_room_of(file)
        for file in FRONT_END.rglob("*.ts*")
        if re.search(r"\bcreateSession\(|\bRunner\.make\(", file.read_text(encoding="utf-8"))
    }
    assert makers == {"gl", "engine", "runtime"}


def test_importing_the_package_loads_nothing_heavy() -> None:
    heavy = {"torch", "onnx", "onnx_ir", "onnxscript", "moderngl"}
    loaded = subprocess.run(
        [sys.executable, "-c", "import nbglcnn, sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert not heavy & set(loaded)


def test_no_page_code_turns_text_into_markup_or_code() -> None:
    forbidden = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|"
        r"setAttribute\(\s*['\"`]on|dangerouslySetInnerHTML|createContextualFragment|srcdoc"
    )
    found = [
        f"{file.relative_to(ROOT)}:{number}: {line.strip()}"
        for file in (ROOT / "js" / "src").rglob("*.ts*")
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if forbidden.search(line)
    ]
    assert not found


def test_shaders_of_a_plan_find_their_numbers_by_name() -> None:
    # u.i and u.f are counted in lowering/slots.py alone, where it places what kernels declare.
    # The page's own shaders, in js/src/gl, have their words from TypeScript, which counts them.
    counted = re.compile(r"\bu\s*\.\s*[if]\s*\[|\bintegers=")
    files = [*PACKAGE.rglob("*.glsl"), *PACKAGE.rglob("*.py")]
    named = [file for file in files if re.search(r"\bu_[a-z]", file.read_text(encoding="utf-8"))]
    assert len(named) > 40
    found = [
        f"{file.relative_to(ROOT)}:{number}: {line.strip()}"
        for file in files
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if counted.search(line)
    ]
    assert not found


def test_a_class_has_its_own_rule_in_one_style_sheet() -> None:
    # All sheets stand in one <style>: the last one's rule would change another view's elements.
    sheets: dict[str, set[str]] = {}
    for sheet in (ROOT / "js" / "src").rglob("*.css"):
        if sheet.name == "narrow.css":
            continue  # what others look like in little room
        for selectors in re.findall(r"^([^{}@/]+)\{", sheet.read_text(), re.MULTILINE):
            for selector in selectors.split(","):
                found = re.fullmatch(r"(?:\.nbglcnn )?\.(nbg-[\w-]+)", selector.strip())
                if found:
                    sheets.setdefault(found[1], set()).add(sheet.as_posix())
    assert len(sheets) > 50
    assert not {name: where for name, where in sheets.items() if len(where) > 1}


def test_no_file_imports_a_test_file() -> None:
    # Nor does a program that a test writes. Tests share modules of tests/support.
    files = [file for name in ("tests", "scripts", "bench") for file in (ROOT / name).rglob("*.py")]
    tests = [file.stem for file in files if file.name.startswith("test_")]
    assert len(tests) > 100
    imported = re.compile(
        rf"^\s*(?:from|import)\s.*\b(?:{'|'.join(tests)})\b(?!\.py)", re.MULTILINE
    )
    found = [
        f"{file.relative_to(ROOT)}: {line.strip()}"
        for file in files
        for line in imported.findall(file.read_text(encoding="utf-8"))
    ]
    assert not found
