"""A network in its Viewer as one HTML file, which runs without Python and without a network."""

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
from nbglcnn.errors import InputError, NbglcnnError, to_write
from nbglcnn.features.edits.records import to_dict
from nbglcnn.features.export.messages import Exported
from nbglcnn.features.export.offline import offline, offline_teaching
from nbglcnn.features.export.samples import samples_of
from nbglcnn.features.sources.input_source import Blobs
from nbglcnn.features.sources.records import SourceRecord
from nbglcnn.load import model_of
from nbglcnn.protocol import FIRST_VIEW
from nbglcnn.widget import code
from nbglcnn.widget.network import Network, raw
from nbglcnn.widget.snapshot import MAX_BYTES
from nbglcnn.widget.traits import checked_view, name_of_view

if TYPE_CHECKING:
    from nbglcnn.features.teaching.lesson import Lesson
    from nbglcnn.features.teaching.records import TeachingRecord
    from nbglcnn.plan.schema import Plan, Precision

# Of a source's pictures in a page, and of what it trains on: as text they are a third more, and a
# browser holds them twice.
MOST_OF_SOURCE = 2**26
WithBlobs = tuple[SourceRecord | None, Blobs | None]
DEFLATED = 0.9  # of their bytes, at most: what saves less is left as it is
SNAPSHOT_SHARE = 0.006  # of the page's bytes, at most
PAGE = Path(__file__).with_name("page.html")
SCRIPT = code.STATIC / "page.js"
# Nothing is loaded and nothing sent; the page's one script runs, and none that a name could bring.
POLICY = (
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
    """Write a page that shows the network in its Viewer, without a kernel and without a network.

    Args:
        model: as for the Viewer. `compare(…).to_html(…)` writes the page of a comparison.
        x: the examples that the page has, as for the Viewer; None for an ONNX file that fixes its
            inputs' shapes: random numbers then, or black with `preprocess`.
        path: the file; one that is there is replaced.
        title: the page's title and heading; by default the model's name, and no heading.
        text: Markdown (CommonMark with tables) above the Viewer; markup in it stays text.
        steps: a lesson: for each step a dict with `text`, Markdown, and `view`, as `Viewer.view`,
            of which any part may be left out: {"name": "explain", "layer": "encoder.0",
            "pixel": [3, 4]}. The Viewer turns as the reader goes on, back, or by the address's #3.
        observe: what can be looked at, as for the Viewer.
        precision: "float16" halves the weights, which are right to about three digits then.
        classes: the names of the output's classes, as for the Viewer.
        strict: an error for a layer that cannot run on the GPU; else the page has its value for
            `x`, computed here.
        preprocess: how pictures become what the model takes, as for the Viewer.
        train: what the page's reader can train the network with, without Python: a mapping with
            the arguments of `Viewer.train`, of which `data` is needed, and `weights`: "given", the
            model's own (the default), or "random", those that the `reset_parameters` of a torch
            module's modules draw after torch.manual_seed(seed). The page begins with them, paused.
            Of the data it takes 64 MiB.
        teach: the classes that the page's reader can teach a head to tell apart, ["cup", "hand"],
            without Python; or a mapping with the arguments of `Viewer.teach`. The page has the
            first of the examples `x`, and takes 64 MiB of pictures to begin with.

    The path that was written is returned.

    Raises:
        InputError: a step is none: it names what the network doesn't have; `train` or `teach` is
            none, both are given, or one has too much data; and as for the Viewer.
        KeyError, UnsupportedModel, UnsupportedOperator: the network can't be trained so, as
            `nbglcnn.train` says it.
        OSError: the file cannot be written.
    """
    target = to_write(path)
    network = Network(
        model_of(model, preprocess),
        x,
        observe=observe,
        precision=precision,
        classes=classes,
        strict=strict,
    )
    content = page(network, title=title, text=text, steps=steps, train=train, teach=teach)
    return write(target, content)


def write(target: Path, content: bytes) -> Path:
    """Write a page whole or not at all."""
    part = target.with_name(f".{target.name}.part")
    try:
        part.write_bytes(content)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    return target


def page(
    network: Network,
    *,
    title: str | None = None,
    text: str = "",
    steps: Sequence[Mapping[str, Any]] = (),
    precision: Precision | None = None,
    traits: Mapping[str, Any] | None = None,
    source: WithBlobs = (None, None),
    train: Mapping[str, Any] | None = None,
    teach: tuple[TeachingRecord, Lesson] | Sequence[str] | Mapping[str, Any] | None = None,
) -> bytes:
    """The page of a network as it is now; `traits` and `source` are those of a Viewer."""
    if train is not None and teach is not None:
        raise InputError(
            "train and teach: a page has one of them, as a head needs a network that stays as it "
            "is; write two pages"
        )
    trains = None
    record: TeachingRecord | None = None
    taught: Mapping[str, memoryview] | None = None
    if teach is not None:
        record, taught = offline_teaching(network, teach, MOST_OF_SOURCE)
    if train is not None:
        trains = offline(network, train, precision or network.precision, MOST_OF_SOURCE)
        network = trains.network
    plan = network.portable(precision) if trains is None else trains.trained.plan
    shown = {
        "view": FIRST_VIEW if taught is None else {**FIRST_VIEW, "name": "teach"},
        "selected": None,
        "colormap": "signed",
        "color_range": "layer",
        "image_ranges": {},
        "symmetric": False,
        "example": 0,
        **(traits or {}),
    }
    there = {"trains": trains is not None, "teaches": taught is not None}
    views = [_view(step, number, plan, **there) for number, step in enumerate(steps, 1)]
    if taught is None and shown["view"]["name"] == "teach":
        shown["view"] = FIRST_VIEW
    script = SCRIPT.read_text("utf-8").strip()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    used = sorted({edit.array for edit in network.edits if edit.array})
    arrays = [*network.uploads(), *(network.injected[name] for name in used)]
    held = [_blob(plan.to_bytes()), *(_blob(raw(array)) for array in arrays)]
    wire, given = source
    named = {**_blobs_of(given), **(trains.blobs if trains else {}), **(taught or {})}
    samples, unchecked = None, "this page trains the network"
    if trains is None:
        samples, numbers, unchecked = samples_of(network, plan)
        named |= {"samples": raw(numbers)} if samples is not None else {}
    most = int(SNAPSHOT_SHARE * (len(script) + sum(map(len, held))))
    exported = Exported(
        **shown,
        classes=network.classes,
        steps=tuple(views),
        snapshot=_snapshot(network, shown["example"], min(MAX_BYTES, most)),
        edits=tuple(to_dict(network.edits)),
        injected=tuple(used),
        # Whoever opens the page needs no path of this machine.
        source=None if wire is None else msgspec.to_builtins(wire),
        blobs=tuple(named),
        training=msgspec.to_builtins(trains.record) if trains else None,
        weights=trains.weights if trains else (),
        rest=trains.rest if trains else "",
        teaching=msgspec.to_builtins(record) if record else None,
        samples=samples,
        unchecked=unchecked,
    )
    held += map(_blob, named.values())
    if not isinstance(title, str | None):
        raise InputError(f"title={title!r}; a text is needed")
    name = title or plan.header.name
    return (
        Template(PAGE.read_text("utf-8"))
        .substitute(
            policy=POLICY.format(digest=digest),
            version=__version__,
            title=html.escape(name),
            heading=f"<h1>{html.escape(title)}</h1>\n" if title else "",
            text=f'<div class="text">{markdown(text)}</div>\n' if text else "",
            steps=_steps(steps),
            exported=_as_json(exported),
            blobs="\n".join(held),
            script=script,
        )
        .encode()
    )


def _blobs_of(given: Blobs | None) -> dict[str, memoryview]:
    """A source's blobs by their names; InputError where they are too large for a page."""
    if given is None:
        return {}
    if given.nbytes > MOST_OF_SOURCE:
        raise InputError(
            f"the source has {given.nbytes:,} bytes, and a page of its own takes at most "
            f"{MOST_OF_SOURCE:,} of it: give it fewer items, as "
            "viewer.source = nbglcnn.Images(array[:1000]), or viewer.source = None before"
        )
    found = {name: given.blob(name) for name in given.names()}
    return {name: blob for name, blob in found.items() if blob is not None}


def markdown(text: str) -> str:
    """HTML of Markdown: text and structure alone. Markup is text, pictures are data: URLs."""
    # commonmark leaves markup as it is unless told otherwise.
    parser = MarkdownIt("commonmark", {"html": False}, renderer_cls=_Renderer).enable("table")
    return str(parser.render(text)).strip()


class _Renderer(RendererHTML):
    """The library's own, but for what would load something, and for links."""

    def image(self, tokens: Any, index: int, options: Any, env: Any) -> str:
        token = tokens[index]
        if str(token.attrGet("src") or "").startswith("data:image/"):
            return str(super().image(tokens, index, options, env))
        return html.escape(token.content)  # the page loads nothing

    def link_open(self, tokens: Any, index: int, options: Any, env: Any) -> str:
        if not str(tokens[index].attrGet("href") or "").startswith("#"):
            tokens[index].attrSet("rel", "noopener noreferrer")
        return str(self.renderToken(tokens, index, options, env))


def _view(
    step: Mapping[str, Any], number: int, plan: Plan, *, trains: bool, teaches: bool
) -> dict[str, Any]:
    """What the Viewer shows at a step, with all of its keys."""
    if not isinstance(step, Mapping):
        raise InputError(f"step {number}: a dict with text and view is needed, not {step!r:.60}")
    if unknown := set(step) - {"text", "view"}:
        raise InputError(
            f"step {number}: a step has text and view, not {', '.join(sorted(unknown))}"
        )
    if not isinstance(step.get("text", ""), str):
        raise InputError(f"step {number}: its text is no text but {type(step['text']).__name__}")
    view = dict(step.get("view") or {})
    view.setdefault("name", name_of_view(view.get("layer"), view.get("pixel")))
    if view["name"] == "teach" and not teaches:
        raise InputError(
            f"step {number}: there is no view 'teach' in a page that doesn't teach; give "
            "teach=['cup', 'hand']"
        )
    if view["name"] == "train" and not trains:
        raise InputError(
            f"step {number}: there is no view 'train' in a page that doesn't train; give "
            'train={"data": images, …}'
        )
    try:
        return checked_view(view, plan, {"train": "", "teach": ""})
    except Exception as error:  # a TraitError, or what a pixel of another form gives
        raise InputError(f"step {number}: {error}") from None


def _steps(steps: Sequence[Mapping[str, Any]]) -> str:
    """The steps' texts, all there for readers without scripts, and what leads through them."""
    if not steps:
        return ""
    texts = "".join(
        f'<section data-step="{k}" class="text" aria-label="Step {k} of {len(steps)}">'
        f"{markdown(step.get('text', ''))}</section>\n"
        for k, step in enumerate(steps, 1)
    )
    links = "".join(f'<li><a href="#{k}">{k}</a></li>' for k in range(1, len(steps) + 1))
    return (
        f'<div class="steps-text" aria-live="polite">{texts}</div>\n'
        '<nav class="steps" aria-label="Steps of the lesson">'
        '<button type="button" data-go="back">Back</button>'
        f'<ol>{links}</ol><button type="button" data-go="next">Next</button></nav>\n'
    )


def _snapshot(network: Network, example: int, most: int) -> str:
    """A picture for browsers that cannot draw; "" where none can be had."""
    try:
        png = network.snapshot(example, most)
    except NbglcnnError as error:
        protocol.warn_once(f"no snapshot: {error}")
        return ""
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def _as_json(record: msgspec.Struct) -> str:
    """JSON that no name can end, whatever markup it has."""
    return json.dumps(msgspec.to_builtins(record)).replace("<", "\\u003c")


def _blob(data: bytes | memoryview) -> str:
    """Deflated where that saves something: a Plan's texts by nine tenths, weights by little."""
    packed = zlib.compress(data)
    how = '="deflate"' if len(packed) < DEFLATED * len(data) else ""
    text = base64.b64encode(packed if how else data).decode()
    return f'<script type="application/octet-stream" data-nbglcnn{how}>{text}</script>'
