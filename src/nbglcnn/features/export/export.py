"""Export of a network in its Viewer as one HTML file, which runs offline and without Python."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

import msgspec
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML

from nbglcnn import __version__, protocol
from nbglcnn.errors import InputError, NbglcnnError, check_output_path
from nbglcnn.features.edits.records import edits_to_dicts
from nbglcnn.features.export.messages import PageData
from nbglcnn.features.export.page_assets import prepare_teaching, prepare_training
from nbglcnn.features.export.parity_samples import make_samples
from nbglcnn.features.sources.input_source import SourceBlobs
from nbglcnn.features.sources.records import SourceRecord
from nbglcnn.load import wrap_model
from nbglcnn.protocol import DEFAULT_VIEW
from nbglcnn.widget import frontend
from nbglcnn.widget.network import Network, byte_view
from nbglcnn.widget.snapshot import MAX_SNAPSHOT_BYTES
from nbglcnn.widget.traits import default_view, validate_view

if TYPE_CHECKING:
    from nbglcnn.features.teaching.lesson import Lesson
    from nbglcnn.features.teaching.records import TeachingRecord
    from nbglcnn.plan.schema import Plan, Precision

# Limit for a source's pictures, and for training data: base64 is a third longer, and a browser
# holds it twice.
MAX_SOURCE_BYTES = 2**26
SourceWithBlobs = tuple[SourceRecord | None, SourceBlobs | None]
MAX_DEFLATED_SHARE = 0.9  # largest deflated share of the bytes; other blobs stay uncompressed
MAX_SNAPSHOT_FRACTION = 0.006  # largest share of the page's bytes
PAGE_TEMPLATE_PATH = Path(__file__).with_name("page.html")
PAGE_SCRIPT_PATH = frontend.STATIC_FOLDER / "page.js"
# The page loads and sends nothing; only its one script runs, and no script injected by a name.
CONTENT_POLICY = (
    "default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
    "img-src data: blob:; media-src blob:; base-uri 'none'; form-action 'none'"
)


def export_html(
    model: Any,
    x: Any,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    text: str = "",
    steps: Sequence[Mapping[str, Any]] = (),
    observe: str | Sequence[str] = "all",
    precision: Precision = "float32",
    classes: Any = None,
    strict: bool = False,
    preprocess: Any = None,
    train: Mapping[str, Any] | None = None,
    teach: Sequence[str] | Mapping[str, Any] | None = None,
) -> Path:
    """Write a network with its Viewer as one HTML file, which runs offline and without Python.

    Args:
        model: A model, as for the Viewer. For a comparison use `compare(…).to_html(…)`.
        x: The examples in the page, as for the Viewer. None for an ONNX model with static shapes
            uses random numbers, and with `preprocess` a black picture.
        path: The file; an existing one is replaced.
        title: The title and heading. Default: the model's name as the title, no heading.
        text: Markdown text (CommonMark with tables) above the Viewer; HTML in it is shown as text.
            Default: none.
        steps: The steps of a lesson: dicts with `text` (Markdown) and `view` (as `Viewer.view`:
            `{"name": "explain", "layer": "encoder.0", "pixel": [3, 4]}`), all parts optional.
            Buttons and the address (`page.html#3`) lead through them. Default: none.
        observe: The values to keep, as for the Viewer. Default: `"all"`.
        precision: `"float16"` halves the weights and keeps about three digits. Default:
            `"float32"`.
        classes: The names of the output's classes, as for the Viewer.
        strict: Whether layers that cannot run on the GPU are an error. By default the page contains
            their values for `x`.
        preprocess: The steps from a picture to the model's input, as for the Viewer.
        train: The training for the page's reader: a mapping with the arguments of `Viewer.train`,
            of which `data` is required (at most 64 MiB), and `weights`: `"given"` (default), or
            `"random"` for weights that the `reset_parameters` of a torch module's submodules draw
            after `torch.manual_seed(seed)`. The page starts paused. Default: none.
        teach: The classes that the reader can teach a head, such as `["cup", "hand"]`, or a mapping
            with the arguments of `Viewer.teach` (at most 64 MiB of pictures). The page then has the
            first example of `x`. Default: none.

    Returns:
        The path of the file.

    Raises:
        InputError: If a step, `train` or `teach` is not valid, both `train` and `teach` are given,
            or one has too much data; otherwise as for the Viewer.
        KeyError: If `observe` contains an unknown name, and as in `nbglcnn.train`.
        UnsupportedModel: As for the Viewer and in `nbglcnn.train`.
        UnsupportedOperator: As for the Viewer and in `nbglcnn.train`.
        OSError: If the file cannot be written.

    Example:
        >>> nbglcnn.export_html(model, x, "lesson.html", title="A first layer")
    """
    target = check_output_path(path)
    network = Network(
        wrap_model(model, preprocess),
        x,
        observe=observe,
        precision=precision,
        classes=classes,
        strict=strict,
    )
    content = build_page(network, title=title, text=text, steps=steps, train=train, teach=teach)
    return write_atomic(target, content)


def write_atomic(target: Path, content: bytes) -> Path:
    """Write a page atomically."""
    part = target.with_name(f".{target.name}.part")
    try:
        part.write_bytes(content)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    return target


def build_page(
    network: Network,
    *,
    title: str | None = None,
    text: str = "",
    steps: Sequence[Mapping[str, Any]] = (),
    precision: Precision | None = None,
    traits: Mapping[str, Any] | None = None,
    source: SourceWithBlobs = (None, None),
    train: Mapping[str, Any] | None = None,
    teach: tuple[TeachingRecord, Lesson] | Sequence[str] | Mapping[str, Any] | None = None,
) -> bytes:
    """Build the page of a network in its current state; `traits` and `source` are a Viewer's."""
    if train is not None and teach is not None:
        raise InputError(
            "train and teach: a page supports only one of them, since a classifier needs a "
            "network with fixed weights; write two pages"
        )
    trains = None
    record: TeachingRecord | None = None
    lesson_blobs: Mapping[str, memoryview] | None = None
    if teach is not None:
        record, lesson_blobs = prepare_teaching(network, teach, MAX_SOURCE_BYTES)
    if train is not None:
        trains = prepare_training(network, train, precision or network.precision, MAX_SOURCE_BYTES)
        network = trains.network
    plan = network.portable_plan(precision) if trains is None else trains.compiled_training.plan
    initial_view = {
        "view": DEFAULT_VIEW if lesson_blobs is None else {**DEFAULT_VIEW, "name": "teach"},
        "selected": None,
        "colormap": "signed",
        "color_range": "layer",
        "image_ranges": {},
        "symmetric": False,
        "example": 0,
        **(traits or {}),
    }
    page_features = {"trains": trains is not None, "teaches": lesson_blobs is not None}
    views = [
        _step_view(step, number, plan, **page_features) for number, step in enumerate(steps, 1)
    ]
    if lesson_blobs is None and initial_view["view"]["name"] == "teach":
        initial_view["view"] = DEFAULT_VIEW
    script = PAGE_SCRIPT_PATH.read_text("utf-8").strip()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    used = sorted({edit.array_hash for edit in network.edits if edit.array_hash})
    arrays = [*network.float32_inputs(), *(network.injected[name] for name in used)]
    blob_scripts = [
        _blob_script(plan.to_bytes()),
        *(_blob_script(byte_view(array)) for array in arrays),
    ]
    wire, given = source
    named = {**_source_blobs(given), **(trains.blobs if trains else {}), **(lesson_blobs or {})}
    samples, unchecked = None, "this page trains the network"
    if trains is None:
        samples, numbers, unchecked = make_samples(network, plan)
        named |= {"samples": byte_view(numbers)} if samples is not None else {}
    most = int(MAX_SNAPSHOT_FRACTION * (len(script) + sum(map(len, blob_scripts))))
    exported = PageData(
        **initial_view,
        classes=network.classes,
        steps=tuple(views),
        snapshot=_snapshot_url(network, initial_view["example"], min(MAX_SNAPSHOT_BYTES, most)),
        edits=tuple(edits_to_dicts(network.edits)),
        injected_arrays=tuple(used),
        # Paths of this machine are left out for the page's readers.
        source=None if wire is None else msgspec.to_builtins(wire),
        blobs=tuple(named),
        training=msgspec.to_builtins(trains.record) if trains else None,
        weight_names=trains.weight_names if trains else (),
        other_weights=trains.other_weights_blob if trains else "",
        teaching=msgspec.to_builtins(record) if record else None,
        parity_samples=samples,
        unchecked_reason=unchecked,
    )
    blob_scripts += map(_blob_script, named.values())
    if not isinstance(title, str | None):
        raise InputError(f"title={title!r}; expected a string")
    name = title or plan.header.name
    return (
        Template(PAGE_TEMPLATE_PATH.read_text("utf-8"))
        .substitute(
            policy=CONTENT_POLICY.format(digest=digest),
            version=__version__,
            title=html.escape(name),
            heading=f"<h1>{html.escape(title)}</h1>\n" if title else "",
            text=f'<div class="text">{render_markdown(text)}</div>\n' if text else "",
            steps=_steps_html(steps),
            exported=_to_safe_json(exported),
            blobs="\n".join(blob_scripts),
            script=script,
        )
        .encode()
    )


def _source_blobs(source_blobs: SourceBlobs | None) -> dict[str, memoryview]:
    """Return a source's blobs by name; InputError if they are too large for a page."""
    if source_blobs is None:
        return {}
    if source_blobs.nbytes > MAX_SOURCE_BYTES:
        raise InputError(
            f"the source has {source_blobs.nbytes:,} bytes; an exported page takes at most "
            f"{MAX_SOURCE_BYTES:,}. Use fewer items, as viewer.source = "
            "nbglcnn.Images(array[:1000]), or set viewer.source = None first"
        )
    found = {name: source_blobs.blob(name) for name in source_blobs.blob_names()}
    return {name: blob for name, blob in found.items() if blob is not None}


def render_markdown(text: str) -> str:
    """Render Markdown safely: HTML is shown as text, and only images of data: URLs are kept."""
    # By default commonmark passes HTML through.
    parser = MarkdownIt("commonmark", {"html": False}, renderer_cls=_SafeRenderer).enable("table")
    return str(parser.render(text)).strip()


class _SafeRenderer(RendererHTML):
    """The library's renderer, without external images, and with rel attributes on links."""

    def image(self, tokens: Any, index: int, options: Any, env: Any) -> str:
        token = tokens[index]
        if str(token.attrGet("src") or "").startswith("data:image/"):
            return str(super().image(tokens, index, options, env))
        return html.escape(token.content)  # external images are not loaded

    def link_open(self, tokens: Any, index: int, options: Any, env: Any) -> str:
        if not str(tokens[index].attrGet("href") or "").startswith("#"):
            tokens[index].attrSet("rel", "noopener noreferrer")
        return str(self.renderToken(tokens, index, options, env))


def _step_view(
    step: Mapping[str, Any], step_number: int, plan: Plan, *, trains: bool, teaches: bool
) -> dict[str, Any]:
    """Return the Viewer's view at a step, with all keys."""
    if not isinstance(step, Mapping):
        raise InputError(
            f"step {step_number}: expected a dict with text and view, not {step!r:.60}"
        )
    if unknown := set(step) - {"text", "view"}:
        raise InputError(
            f"step {step_number}: a step has text and view, not {', '.join(sorted(unknown))}"
        )
    if not isinstance(step.get("text", ""), str):
        raise InputError(
            f"step {step_number}: text: expected a string, not {type(step['text']).__name__}"
        )
    view = dict(step.get("view") or {})
    view.setdefault("name", default_view(view.get("layer"), view.get("pixel")))
    if view["name"] == "teach" and not teaches:
        raise InputError(
            f"step {step_number}: the view 'teach' needs a page with a lesson; give teach=['cup', "
            "'hand']"
        )
    if view["name"] == "train" and not trains:
        raise InputError(
            f"step {step_number}: the view 'train' needs a page that trains; give "
            f'train={{"data": images, …}}'
        )
    try:
        return validate_view(view, plan, {"train": "", "teach": ""})
    except Exception as error:  # a TraitError, or an error for a malformed pixel
        raise InputError(f"step {step_number}: {error}") from None


def _steps_html(steps: Sequence[Mapping[str, Any]]) -> str:
    """Return the HTML of the steps' texts and navigation, readable without scripts."""
    if not steps:
        return ""
    texts = "".join(
        f'<section data-step="{k}" class="text" aria-label="Step {k} of {len(steps)}">'
        f"{render_markdown(step.get('text', ''))}</section>\n"
        for k, step in enumerate(steps, 1)
    )
    links = "".join(f'<li><a href="#{k}">{k}</a></li>' for k in range(1, len(steps) + 1))
    return (
        f'<div class="steps-text" aria-live="polite">{texts}</div>\n'
        '<nav class="steps" aria-label="Steps of the lesson">'
        '<button type="button" data-go="back">Back</button>'
        f'<ol>{links}</ol><button type="button" data-go="next">Next</button></nav>\n'
    )


def _snapshot_url(network: Network, example: int, max_bytes: int) -> str:
    """Return a picture for browsers that cannot run the network, as a data: URL; "" if it fails."""
    try:
        png = network.snapshot(example, max_bytes)
    except NbglcnnError as error:
        protocol.warn_once(f"no snapshot: {error}")
        return ""
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def _to_safe_json(record: msgspec.Struct) -> str:
    """Return JSON that cannot close its script element, even if names contain markup."""
    return json.dumps(msgspec.to_builtins(record)).replace("<", "\\u003c")


def _blob_script(data: bytes | memoryview) -> str:
    """Encode a blob, deflated if that saves enough: 90 % for a Plan's text, little for weights."""
    packed = zlib.compress(data)
    how = '="deflate"' if len(packed) < MAX_DEFLATED_SHARE * len(data) else ""
    text = base64.b64encode(packed if how else data).decode()
    return f'<script type="application/octet-stream" data-nbglcnn{how}>{text}</script>'
