"""`viewer.report()`: what a bug report needs, and nothing of the user's: no path, no name."""

from __future__ import annotations

import importlib.metadata
import platform
import re
from collections import Counter
from collections.abc import Iterable

import msgspec

from nbglcnn import __version__
from nbglcnn.features.edits.store import EditState
from nbglcnn.plan.schema import Plan, counted
from nbglcnn.tables import table
from nbglcnn.widget.connection import Connection, Page
from nbglcnn.widget.parity import Verdict

PACKAGES = (
    *("torch", "onnx", "onnxruntime", "numpy", "moderngl"),
    *("ipykernel", "anywidget", "ipywidgets", "jupyterlab", "notebook", "marimo"),
)
# What may tell who the user is: quoted names (of layers, keys, files), addresses, and paths.
QUOTED = r""""[^"]*"|'[^']*'|`[^`]*`"""
WORDS = r"[\w.\-+@]+(?: [\w.\-+@]+)*"
PATH = rf"(?<![\w/\\])(?:[A-Za-z]:|~|\.{{1,2}})?(?:[/\\]{WORDS}){{2,}}"
PRIVATE = re.compile(rf"{QUOTED}|\w+://\S+|{PATH}")


def diagnosis(
    plan: Plan, connection: Connection, tested: Verdict | None, local: str, edited: EditState
) -> str:
    """The text; `local` is who has computed values in this process, "" if nobody."""
    rows = [
        ("nbglcnn", __version__),
        ("Python", f"{platform.python_version()}, {platform.system()} {platform.machine()}"),
        ("packages", ", ".join(_versions(PACKAGES))),
        *_of_page(connection),
        ("in Python", local or "nothing computed"),
        ("parity check", _tested(plan, tested)),
        ("precision", plan.precision),
        ("edits", _edits(edited)),
        (
            "plan",
            f"{counted(plan.layer_count, 'layer')}{_left_to_python(plan)}, "
            f"{counted(len(plan.header.passes), 'pass', 'es')}, "
            f"{counted(len(plan.header.programs), 'program')}, "
            f"{counted(len(plan.header.textures), 'texture')}",
        ),
        ("memory", f"{plan.gpu_bytes} bytes on the GPU by the Plan, {_held(connection.page)}"),
        ("losses", _losses(connection.page)),
        (
            "retries",
            f"{connection.asked_again} questions asked again, {connection.sent_again} blobs or "
            "parts sent again",
        ),
        ("last error", anonymous(connection.last_error) or "none"),
    ]
    return table((), rows)


def _tested(plan: Plan, tested: Verdict | None) -> str:
    if tested is None:
        return "not made yet"
    made = f", made at {tested.clock}" if tested.at else ""
    return anonymous(tested.words(plan, named=False)) + made


def _left_to_python(plan: Plan) -> str:
    count = sum(layer.python != "" for layer in plan.layers)
    return f" ({count} computed in Python)" if count else ""


def _edits(edited: EditState) -> str:
    kinds = Counter(edit.transform for edit in edited.edits)
    found = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    count = len(edited.edits)
    words = f"{count} edit{'s' if count != 1 else ''}{f' ({found})' if found else ''}"
    weights = edited.weights
    return f"{words}, {weights} of weights" if weights else words


def anonymous(text: str) -> str:
    """A message on one line, without quoted names, addresses and paths."""
    return " ".join(PRIVATE.sub("…", text).split())[:1000]


def _versions(names: Iterable[str]) -> Iterable[str]:
    for name in names:
        try:
            yield f"{name} {importlib.metadata.version(name)}"
        except importlib.metadata.PackageNotFoundError:
            continue


def _of_page(connection: Connection) -> list[tuple[str, str]]:
    page = connection.page
    if page is None:
        return [("page", "none has shown this Viewer")]
    count = f"{len(connection.usable)} of {len(connection.pages)} seen can run the network"
    rows = [
        (
            "page",
            f"{anonymous(page.problem)} ({count})" if page.problem else f"connected ({count})",
        ),
        ("host", f"{page.host or 'unknown'}; {page.browser or 'an unknown browser'}"),
        ("device", page.renderer or "none"),
    ]
    if page.target is not None:
        limits = msgspec.structs.asdict(page.target)
        rows.append(("limits", ", ".join(f"{name} {value}" for name, value in limits.items())))
    if page.ran is not None:
        rows.append(("last run", f"{page.ran.ms:.2f} ms ({page.ran.timing})"))
    return rows


def _held(page: Page | None) -> str:
    held = page.health.bytes if page and page.health else 0
    return f"{held} held by the page"


def _losses(page: Page | None) -> str:
    health = page.health if page else None
    if health is None or health.losses == 0:
        return "the graphics context was never lost"
    now = "is lost now" if health.lost else "came back"
    return f"the graphics context was lost {health.losses}×, and {now}"
