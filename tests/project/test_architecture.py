"""Components of the code: allowed imports, and the contents of a checkout, a bundle and a page."""

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE_FOLDER = ROOT / "src" / "nbglcnn"

# Each component (a folder, a file next to them, or a feature's folder) and the components it may
# import, from the bottom to the top; all may import errors.
EDITS, FEATURE = "features.edits", "features.feature"
ALLOWED_IMPORTS: dict[str, set[str]] = {
    "errors": set(),
    "class_names": set(),
    "datasets": set(),
    "tables": set(),
    "graph": set(),
    "channels": {"graph"},
    "engine_disagreements": {"graph"},
    "plan": {"graph", "tables"},  # the Graph's record of a comparison, which a Plan stores
    "inputs": {"graph", "plan"},
    "pictures": {"graph", "plan"},
    "report": {"graph", "plan", "tables"},
    "codegen": {"graph", "plan"},
    "ops": {"codegen", "graph", "plan"},
    "lowering": {"codegen", "graph", "ops", "plan"},
    "losses": {"graph", "ops"},
    "transforms": {EDITS},
    # Uses the edits' effect on a value in a hook or a node, and the Plan's display shape.
    "load": {"class_names", EDITS, "graph", "inputs", "plan"},
    "reference": {EDITS, "graph", "load", "report"},
    "python_fallback": {"graph", "load", "lowering", "reference"},
    # A Session accepts edits, as a Viewer does.
    "runtime": {"codegen", EDITS, "graph", "inputs", "pictures", "plan", "tables"},
    "gradients": {"graph", "load", "lowering", "ops", "runtime"},
    "api": {
        *("engine_disagreements", EDITS, "graph", "load", "lowering", "plan", "python_fallback"),
        *("reference", "report", "runtime"),
    },
    "backend": {"graph", "inputs", "load", "lowering", "ops", "plan", "runtime"},
    "recording": {"api", "inputs", "plan", "runtime"},
    "contribution": {"graph"},  # a feature's addition to a Plan
    "protocol": {"plan"},
    "notebook": set(),
    # A Viewer's computations without a page.
    "local_backend": {EDITS, "graph", "load", "plan", "reference", "report", "runtime"},
    FEATURE: {"graph", "notebook", "plan", "protocol"},
    EDITS: {
        FEATURE,
        *("channels", "codegen", "graph", "inputs", "load", "lowering", "plan"),
        *("protocol", "python_fallback", "transforms"),
    },
    "features.sources": {
        FEATURE,
        *("class_names", EDITS, "features.latent", "graph", "inputs", "plan", "protocol"),
    },
    "features.latent": {
        FEATURE,
        *(EDITS, "features.sources", "graph", "inputs", "lowering", "plan", "protocol", "runtime"),
    },
    "features.training": {
        FEATURE,
        *("contribution", EDITS, "gradients", "graph", "inputs", "load", "losses", "lowering"),
        *("notebook", "ops", "plan", "protocol", "runtime"),
    },
    "features.mirror": {
        FEATURE,
        *("codegen", "features.training", "graph", "load", "notebook", "plan", "protocol"),
    },
    "features.teaching": {
        FEATURE,
        *(
            EDITS,
            "features.sources",
            "features.training",
            "graph",
            "local_backend",
            "lowering",
            "plan",
        ),
        "protocol",
    },
    # These two create Viewers, or write pages of them.
    "features.compare": {
        FEATURE,
        *(EDITS, "graph", "inputs", "load", "plan", "protocol", "python_fallback", "report"),
        "widget",
    },
    "features.export": {
        FEATURE,
        *(EDITS, "features.sources", "features.teaching", "features.training", "graph", "load"),
        *("plan", "protocol", "report", "widget"),
    },
    # The only feature it may import is edits, as the runtime; the Viewer, which lists all features,
    # is an exception.
    "widget": {
        *(
            "class_names",
            "engine_disagreements",
            EDITS,
            "graph",
            "inputs",
            "load",
            "local_backend",
            "lowering",
        ),
        *("contribution", "notebook", "pictures", "plan", "protocol", "python_fallback"),
        *("reference", "report", "runtime", "tables"),
    },
    "cli": {
        *("api", "features.export", "inputs", "load", "lowering", "pictures", "plan"),
        *("python_fallback", "reference", "runtime", "tables", "widget"),
    },
    "__main__": {"cli"},
    "__init__": {
        *("api", "backend", EDITS, "features.compare", "features.export", "features.mirror"),
        *("features.sources", "features.training", "gradients", "inputs", "plan", "recording"),
        *("runtime", "widget"),
    },
}
# Packages that only these components import.
COMPONENTS_BY_PACKAGE = {
    "torch": {"load", "reference", "cli", "features.teaching"},  # fits a head
    "onnx_ir": {"load"},
    "onnxscript": {"load"},
    "onnx": {"load", "reference", "backend"},
    "moderngl": {"runtime"},
    "anywidget": {"widget", EDITS, "features.sources"},
    "markdown_it": {"features.export"},
    "zarr": {"recording"},
    "distributed": {"recording"},
}
# Files that may import more components than the rest of their component.
EXTRA_IMPORTS = {
    "widget/viewer.py": {
        FEATURE,
        *("features.export", "features.latent", "features.mirror", "features.sources"),
        *("features.teaching", "features.training", "transforms"),
    },
}


def component_of(file: Path) -> str:
    """The component of a file: its own, its folder's, or its feature's."""
    return _component(file.relative_to(PACKAGE_FOLDER).with_suffix("").parts)


def _component(parts: Sequence[str]) -> str:
    return ".".join(parts[:2]) if parts[0] == "features" else parts[0]


def imports(file: Path) -> Iterator[str]:
    """Dotted names that a file imports, also in functions, but not for annotations only."""
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


SOURCE_FILES = sorted(PACKAGE_FOLDER.rglob("*.py"))


@pytest.mark.parametrize(
    "file", SOURCE_FILES, ids=lambda file: str(file.relative_to(PACKAGE_FOLDER))
)
def test_a_component_imports_only_what_the_design_allows(file: Path) -> None:
    component = component_of(file)
    if component == "features.__init__":
        return
    assert component in ALLOWED_IMPORTS, (
        f"{component} is not in ALLOWED_IMPORTS: say there what it may import"
    )
    allowed = ALLOWED_IMPORTS[component] | EXTRA_IMPORTS.get(
        file.relative_to(PACKAGE_FOLDER).as_posix(), set()
    )
    for name in imports(file):
        package, *rest = name.split(".")
        if package == "nbglcnn":
            used = (
                rest[0]
                if (PACKAGE_FOLDER / rest[0]).is_dir()
                or (PACKAGE_FOLDER / f"{rest[0]}.py").exists()
                else "__init__"
            )
            if used == "__init__":
                assert rest == ["__version__"], f"{component} takes {name} from the package itself"
            else:
                used = _component(rest)
                assert used in allowed | {component, "errors"}, f"{component} imports {name}"
        elif package in COMPONENTS_BY_PACKAGE:
            assert component in COMPONENTS_BY_PACKAGE[package], f"{component} imports {name}"


# The names that distinguish kinds of models, and the files outside load/ that use them: the
# references run each kind, the command line creates them, and others check user input.
MODEL_KINDS = {"TorchModel", "OnnxModel", "PreprocessedModel", "ComparisonModel", "is_module"}
MODEL_KIND_FILES = {
    *("reference.py", "python_fallback.py", "widget/load_progress.py"),
    *("cli/bench.py", "cli/inputs.py", "cli/models.py"),
    *("features/compare/comparison.py", "features/compare/host.py"),
    *("features/edits/apply_bends.py", "features/mirror/host.py"),
}


def test_only_these_files_tell_kinds_of_models_apart() -> None:
    found = set()
    for file in SOURCE_FILES:
        names = [name.split(".") for name in imports(file) if name.startswith("nbglcnn.load")]
        asks = re.search(
            r"\bload\.(ComparisonModel|PreprocessedModel|is_module)\b", file.read_text("utf-8")
        )
        if component_of(file) != "load" and (
            asks or any(name[-1] in MODEL_KINDS for name in names)
        ):
            found.add(file.relative_to(PACKAGE_FOLDER).as_posix())
    assert found == MODEL_KIND_FILES


# The folders of load/torch in pipeline order: each may import those before it; the files next to
# them may import all.
TORCH_STAGES = ("isolation", "record", "edits", "translate", "rewrite", "checks", "weights")


def test_the_steps_of_loading_a_module_use_only_earlier_ones() -> None:
    whole = PACKAGE_FOLDER / "load" / "torch"
    folders = {one.name for one in whole.iterdir() if one.is_dir() and one.name[0] != "_"}
    assert folders == set(TORCH_STAGES)
    wrong = []
    for at, step in enumerate(TORCH_STAGES):
        for file in (whole / step).glob("*.py"):
            names = (name.split(".") for name in imports(file))
            used = {name[3] for name in names if name[:3] == ["nbglcnn", "load", "torch"]}
            wrong += [
                f"{step}/{file.name} imports {one}" for one in used - {*TORCH_STAGES[: at + 1]}
            ]
    assert not wrong


# The viewer files that may use private names of hosts.
NOTEBOOK_HOST_FILES = {"blocking.py", "lifetime.py", "marimo.py"}
VIEWER_FILES = sorted(
    file
    for folder in ("features", "notebook", "widget")
    for file in (PACKAGE_FOLDER / folder).rglob("*.py")
)


def private_names_of_others(source: str) -> list[str]:
    """Private attributes of other objects that no class in the file defines."""
    nodes = list(ast.walk(ast.parse(source)))
    taken = [one for one in nodes if isinstance(one, ast.Attribute)]
    used = [one for one in taken if one.attr.startswith("_") and not one.attr.startswith("__")]
    own = {one.attr for one in used if ast.unparse(one.value) in ("self", "cls")}
    own |= {one.name for one in nodes if isinstance(one, ast.FunctionDef)}
    return [ast.unparse(one) for one in used if one.attr not in own]


@pytest.mark.parametrize("file", VIEWER_FILES, ids=lambda f: str(f.relative_to(PACKAGE_FOLDER)))
def test_no_class_of_the_viewer_uses_anothers_private_fields(file: Path) -> None:
    if file.name in NOTEBOOK_HOST_FILES:
        return
    found = private_names_of_others(file.read_text(encoding="utf-8"))
    # Allowed are those of the class itself, and of the widget that it inherits from.
    assert set(found) <= {"Viewer._viewers_by_cell", "super()._repr_mimebundle_"}


def test_a_private_field_of_another_object_is_found() -> None:
    source = "class A:\n    def f(self, other):\n        return self._x, other._x, other._y"
    assert private_names_of_others(source) == ["other._y"]


# Public or shared base classes; all other classes inherit only from libraries or errors.
PUBLIC_BASES = {"Adam", "InputSource", "SourceRecord", "Viewer", "_OptimizerBase"}


def test_only_these_classes_are_base_classes_besides_errors() -> None:
    classes = [
        (file, node)
        for file in SOURCE_FILES
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    ]
    own = {node.name for file, node in classes if file.name != "errors.py"}
    bases = {ast.unparse(base) for _, node in classes for base in node.bases}
    assert {base.rpartition(".")[2] for base in bases} & own <= PUBLIC_BASES


# The same for the page. A file in js/src itself is a component with the file's name. features.index
# is the list of features: the entries import it, and comm, page, state and views use it.
FRONT_END_FOLDER = ROOT / "js" / "src"
PAGE_ALLOWED_IMPORTS: dict[str, set[str]] = {
    "named_arrays": {"plan"},
    "message_buffers": set(),
    "binary_chunks": set(),
    "code_download": {"message_buffers", "messages"},
    "comm": {
        "message_buffers",
        "unvalidated_field",
        "engine",
        "features.feature",
        "messages",
        "number_format",
        "plan",
        "snapshot_text",
        "state",
        "status",
    },
    "unvalidated_field": set(),
    "engine": {"messages", "plan"},
    "explain": {"network", "plan"},
    "features.compare.feature": {"features.compare.views", "features.feature", "network", "state"},
    "features.compare.views": {"number_format", "network", "plan", "state", "views"},
    "features.edits.feature": {"features.edits.views", "features.feature", "plan", "state"},
    "features.edits.views": {
        "features.compare.views",
        "number_format",
        "network",
        "plan",
        "state",
        "views",
    },
    "features.export.feature": {"features.export.views", "features.feature"},
    "features.export.views": {"network", "plan", "views"},
    "features.feature": {"message_buffers", "engine", "messages", "network", "plan", "state"},
    "features.index": {
        "features.compare.feature",
        "features.edits.feature",
        "features.export.feature",
        "features.feature",
        "features.latent.feature",
        "features.mirror.feature",
        "features.sources.feature",
        "features.teaching.feature",
        "features.training.feature",
    },
    "features.latent": {"engine", "features.sources", "plan", "state"},
    "features.latent.feature": {"features.feature", "features.latent", "features.latent.views"},
    "features.latent.views": {
        "engine",
        "features.latent",
        "features.sources",
        "number_format",
        "network",
        "plan",
        "state",
        "views",
    },
    "features.mirror": {"binary_chunks", "engine", "features.training", "messages", "state"},
    "features.mirror.feature": {"message_buffers", "features.feature", "features.mirror"},
    "features.sources": {
        "engine",
        "features.feature",
        "features.latent",
        "number_format",
        "pictures",
        "plan",
        "state",
    },
    "features.sources.feature": {
        "features.feature",
        "features.sources",
        "features.sources.views",
        "state",
    },
    "features.sources.views": {
        "features.edits.views",
        "features.feature",
        "features.latent.views",
        "features.sources",
        "number_format",
        "network",
        "pictures",
        "plan",
        "state",
        "views",
    },
    "features.teaching": {
        "binary_chunks",
        "engine",
        "features.sources",
        "messages",
        "plan",
        "state",
    },
    "features.teaching.feature": {
        "unvalidated_field",
        "features.feature",
        "features.teaching",
        "features.teaching.views",
    },
    "features.teaching.views": {
        "features.export.views",
        "features.teaching",
        "number_format",
        "network",
        "views",
    },
    "features.training": {
        "binary_chunks",
        "engine",
        "features.export.views",
        "features.feature",
        "features.sources",
        "features.teaching",
        "messages",
        "plan",
        "state",
    },
    "features.training.feature": {
        "features.feature",
        "features.training",
        "features.training.views",
        "state",
    },
    "features.training.views": {
        "features.training",
        "number_format",
        "network",
        "pictures",
        "plan",
        "state",
        "statistics",
        "views",
    },
    "number_format": set(),
    "loader": {"message_buffers", "code_download", "messages", "snapshot_text", "widget"},
    "messages": {"features.teaching", "plan"},
    "network": {"number_format", "plan"},
    "page": {
        "named_arrays",
        "engine",
        "features.feature",
        "features.index",
        "messages",
        "plan",
        "state",
        "status",
        "view_sync",
        "views",
        "webgl",
    },
    "pictures": {"messages", "plan", "statistics"},
    "plan": {"messages"},
    "runtime": {"named_arrays", "plan", "webgl"},
    "snapshot_text": set(),
    "state": {"engine", "messages", "plan", "status"},
    "statistics": {"plan"},
    "status": {"number_format", "plan"},
    "view_sync": {"unvalidated_field", "messages", "state"},
    "views": {
        "engine",
        "explain",
        "features.feature",
        "number_format",
        "messages",
        "network",
        "pictures",
        "plan",
        "state",
        "statistics",
        "status",
    },
    "webgl": {"pictures", "plan", "statistics"},
    "widget": {
        "comm",
        "features.feature",
        "features.index",
        "messages",
        "state",
        "view_sync",
        "views",
        "webgl",
    },
}
IMPORT_STATEMENT_PATTERN = re.compile(
    r"""^(?:import|export)\b[^;]*?from\s+"(\.[^"]+)";""", re.MULTILINE
)


def page_component_of(file: Path) -> str:
    """A folder, or a file next to them; for a feature its folder, its views or its object."""
    parts = file.relative_to(FRONT_END_FOLDER).with_suffix("").parts
    if parts[0] == "features":
        return ".".join([*parts[:2], *(one for one in parts[2:3] if one in ("views", "feature"))])
    return parts[0].partition(".")[0]


@pytest.mark.parametrize("component", PAGE_ALLOWED_IMPORTS)
def test_a_component_of_the_page_imports_only_what_the_design_allows(component: str) -> None:
    files = [
        file for file in FRONT_END_FOLDER.rglob("*.ts*") if page_component_of(file) == component
    ]
    assert files
    for file in files:
        for name in IMPORT_STATEMENT_PATTERN.findall(file.read_text(encoding="utf-8")):
            target = (file.parent / name).resolve()
            if target.suffix == ".glsl":
                continue
            used = page_component_of(target)
            assert used in PAGE_ALLOWED_IMPORTS[component] | {component}, (
                f"{file.name} imports {name}"
            )


def test_every_file_of_the_page_is_in_a_component() -> None:
    components = {page_component_of(file) for file in FRONT_END_FOLDER.rglob("*.ts*")}
    assert components <= PAGE_ALLOWED_IMPORTS.keys()


def test_no_file_of_the_page_imports_itself_by_way_of_others() -> None:
    imported = {
        file: {
            (file.parent / name).resolve()
            for name in IMPORT_STATEMENT_PATTERN.findall(file.read_text(encoding="utf-8"))
        }
        for file in FRONT_END_FOLDER.rglob("*.ts*")
    }
    assert sum(map(len, imported.values())) > 1000
    TopologicalSorter(imported).prepare()  # a CycleError names the files


def page_importers(is_imported: Callable[[str], object]) -> set[str]:
    """Files of the page that import a file whose component satisfies `is_imported`."""
    return {
        file.relative_to(FRONT_END_FOLDER).as_posix()
        for file in FRONT_END_FOLDER.rglob("*.ts*")
        for name in IMPORT_STATEMENT_PATTERN.findall(file.read_text(encoding="utf-8"))
        if not name.endswith(".glsl")
        and is_imported(page_component_of((file.parent / name).resolve()))
    }


def test_a_page_has_its_features_from_one_list() -> None:
    assert page_importers(
        lambda component: component.endswith(".feature") and component.count(".") == 2
    ) == {"features/index.ts"}
    assert page_importers(lambda component: component == "features.index") == {
        "page.ts",
        "widget.ts",
    }
    folders = {one.name for one in (FRONT_END_FOLDER / "features").iterdir() if one.is_dir()}
    listed = re.findall(
        r'from "\./(\w+)/feature\.ts"', (FRONT_END_FOLDER / "features/index.ts").read_text()
    )
    assert sorted(listed) == sorted(folders)
    # All other code uses the general interface of features, and no feature by name. messages.ts is
    # generated: it has the records of all features.
    named = page_importers(
        lambda component: re.fullmatch(r"features\.(?!feature|index).+", component)
    )
    assert {one for one in named if not one.startswith("features/")} == {"messages.ts"}


def test_only_the_entries_name_the_runtime() -> None:
    # All other code uses WebGL through the Runtime of plan/runtime.ts, so that it can be replaced.
    named = {
        file.relative_to(FRONT_END_FOLDER).as_posix()
        for file in FRONT_END_FOLDER.rglob("*.ts*")
        if page_component_of(file) != "webgl"
        and any(
            "/webgl/" in name
            for name in IMPORT_STATEMENT_PATTERN.findall(file.read_text(encoding="utf-8"))
        )
    }
    assert named == {"page.ts", "runtime.ts", "widget.ts"}


def test_only_the_engine_and_the_runtime_make_sessions() -> None:
    makers = {
        page_component_of(file)
        for file in FRONT_END_FOLDER.rglob("*.ts*")
        if re.search(r"\.createSession\(|\bRunner\.create\(", file.read_text(encoding="utf-8"))
    }
    assert makers == {"webgl", "engine", "runtime"}


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


def test_shaders_find_their_numbers_by_name() -> None:
    # u.i and u.f are numbered in codegen/uniform_slots.py for a Plan's shaders, and in
    # plan/uniform_slots.ts for the page's shaders, which assign the declared slots; n is the array
    # of shaders without a prelude.
    counted = re.compile(r"\bu\s*\.\s*[if]\s*\[|\bn\s*\[\s*\d+\s*\]\s*\.|\bintegers=")
    of_pages = list((FRONT_END_FOLDER / "webgl" / "shaders").glob("*.glsl"))
    of_plans = [*PACKAGE_FOLDER.rglob("*.glsl"), *PACKAGE_FOLDER.rglob("*.py")]
    for files, least in ((of_pages, 12), (of_plans, 40)):
        texts = [file.read_text(encoding="utf-8") for file in files]
        assert len([text for text in texts if re.search(r"\bu_[a-z]", text)]) > least
        found = [
            f"{file.relative_to(ROOT)}:{number}: {line.strip()}"
            for file, text in zip(files, texts, strict=True)
            for number, line in enumerate(text.splitlines(), 1)
            if counted.search(line)
        ]
        assert not found


def test_a_class_has_its_own_rule_in_one_style_sheet() -> None:
    # All sheets are in one <style>: a later sheet's rule for the same selector would change another
    # view's elements.
    sheets: dict[str, set[str]] = {}
    for sheet in (ROOT / "js" / "src").rglob("*.css"):
        if sheet.name == "narrow.css":
            continue  # restyles others in little room
        for selectors in re.findall(r"^([^{}@/]+)\{", sheet.read_text(), re.MULTILINE):
            for selector in selectors.split(","):
                found = re.fullmatch(r"(?:\.nbglcnn )?\.(nbg-[\w-]+)", selector.strip())
                if found:
                    sheets.setdefault(found[1], set()).add(sheet.as_posix())
    assert len(sheets) > 50
    assert not {name: where for name, where in sheets.items() if len(where) > 1}


def test_no_file_imports_a_test_file() -> None:
    # Nor may a program that a test writes. Tests share modules in tests/support.
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
