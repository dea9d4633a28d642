"""`viewer.report()`: facts for a bug report, without the user's data, paths and names."""

from __future__ import annotations

import importlib.metadata
import platform
import re
from collections import Counter
from collections.abc import Iterable

import msgspec

from nbglcnn import __version__
from nbglcnn.features.edits.store import EditSnapshot
from nbglcnn.plan.schema import Plan, pluralize
from nbglcnn.tables import table
from nbglcnn.widget.connection import Connection, Page
from nbglcnn.widget.parity import ParityVerdict

PACKAGES = (
    *("torch", "onnx", "onnxruntime", "numpy", "moderngl"),
    *("ipykernel", "anywidget", "ipywidgets", "jupyterlab", "notebook", "marimo"),
)
# Text that may identify the user: quoted names (of layers, keys, files), addresses, and paths.
QUOTED_TEXT_PATTERN = r""""[^"]*"|'[^']*'|`[^`]*`"""
PATH_SEGMENTS_PATTERN = r"[\w.\-+@]+(?: [\w.\-+@]+)*"
PATH_PATTERN = rf"(?<![\w/\\])(?:[A-Za-z]:|~|\.{{1,2}})?(?:[/\\]{PATH_SEGMENTS_PATTERN}){{2,}}"
PRIVATE_TEXT_PATTERN = re.compile(rf"{QUOTED_TEXT_PATTERN}|\w+://\S+|{PATH_PATTERN}")


def format_diagnostics(
    plan: Plan,
    connection: Connection,
    verdict: ParityVerdict | None,
    local_device: str,
    edit_snapshot: EditSnapshot,
) -> str:
    """Format the text; `local_device` names the device used in this process, "" for none."""
    rows = [
        ("nbglcnn", __version__),
        ("Python", f"{platform.python_version()}, {platform.system()} {platform.machine()}"),
        ("packages", ", ".join(_versions(PACKAGES))),
        *_page_rows(connection),
        ("in Python", local_device or "nothing computed"),
        ("parity check", _format_parity(plan, verdict)),
        ("precision", plan.precision),
        ("edits", _format_edits(edit_snapshot)),
        (
            "plan",
            f"{pluralize(plan.layer_count, 'layer')}{_format_python_layers(plan)}, "
            f"{pluralize(len(plan.header.passes), 'pass', 'es')}, "
            f"{pluralize(len(plan.header.programs), 'program')}, "
            f"{pluralize(len(plan.header.textures), 'texture')}",
        ),
        (
            "memory",
            f"{plan.gpu_bytes} bytes on the GPU by the Plan, "
            f"{_format_page_memory(connection.active_page)}",
        ),
        ("losses", _format_context_losses(connection.active_page)),
        (
            "retries",
            f"{connection.resent_requests} requests repeated, {connection.resent_blobs} data "
            "blocks sent again",
        ),
        ("last error", redact(connection.last_error) or "none"),
    ]
    return table((), rows)


def _format_parity(plan: Plan, verdict: ParityVerdict | None) -> str:
    if verdict is None:
        return "not made yet"
    made = f", made at {verdict.time_text}" if verdict.timestamp else ""
    return redact(verdict.describe(plan, named=False)) + made


def _format_python_layers(plan: Plan) -> str:
    count = sum(layer.python != "" for layer in plan.layers)
    return f" ({count} run in Python)" if count else ""


def _format_edits(edit_snapshot: EditSnapshot) -> str:
    kinds = Counter(edit.transform for edit in edit_snapshot.edits)
    found = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    count = len(edit_snapshot.edits)
    words = f"{count} edit{'s' if count != 1 else ''}{f' ({found})' if found else ''}"
    weights = edit_snapshot.weight_edit_count
    return f"{words}, {weights} of weights" if weights else words


def redact(text: str) -> str:
    """Put a message on one line, without quoted names, addresses and paths."""
    return " ".join(PRIVATE_TEXT_PATTERN.sub("…", text).split())[:1000]


def _versions(names: Iterable[str]) -> Iterable[str]:
    for name in names:
        try:
            yield f"{name} {importlib.metadata.version(name)}"
        except importlib.metadata.PackageNotFoundError:
            continue


def _page_rows(connection: Connection) -> list[tuple[str, str]]:
    page = connection.active_page
    if page is None:
        return [("page", "no page has connected")]
    count = f"{len(connection.usable_pages)} of {len(connection.pages)} seen can run the network"
    rows = [
        (
            "page",
            f"{redact(page.problem)} ({count})" if page.problem else f"connected ({count})",
        ),
        ("host", f"{page.notebook_host or 'unknown'}; {page.browser or 'an unknown browser'}"),
        ("device", page.renderer or "none"),
    ]
    if page.target is not None:
        limits = msgspec.structs.asdict(page.target)
        rows.append(("limits", ", ".join(f"{name} {value}" for name, value in limits.items())))
    if page.last_run is not None:
        rows.append(("last run", f"{page.last_run.ms:.2f} ms ({page.last_run.timing})"))
    return rows


def _format_page_memory(page: Page | None) -> str:
    held = page.context_health.bytes if page and page.context_health else 0
    return f"{held} allocated by the page"


def _format_context_losses(page: Page | None) -> str:
    health = page.context_health if page else None
    if health is None or health.losses == 0:
        return "the graphics context was never lost"
    now = "is lost now" if health.lost else "came back"
    return f"the graphics context was lost {health.losses}×, and {now}"
