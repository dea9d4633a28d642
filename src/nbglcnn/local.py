"""The network without a page: on local OpenGL, or where there is none by its own framework."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from nbglcnn.errors import DeviceError, OpenGLUnavailable
from nbglcnn.features.edits.records import Edit, active
from nbglcnn.features.edits.replay import NONE, Bending, bending
from nbglcnn.features.edits.skipped_passes import skipped
from nbglcnn.features.edits.transforms import GLSL
from nbglcnn.graph import Array, Graph
from nbglcnn.load import Model
from nbglcnn.plan.schema import Patch, Plan
from nbglcnn.reference import engine, exact, from_cache, quick_reference, reference
from nbglcnn.report import Notes
from nbglcnn.runtime.edits import check_texts
from nbglcnn.runtime.session import Session


def on(renderer: str, plan: Plan) -> str:
    """A device by name, and what it stores values in where that isn't float32."""
    return renderer if plan.precision == "float32" else f"{renderer}, {plan.precision}"


class Local:
    """Computes every value of a Plan in this process, once for each input and set of weights."""

    def __init__(self, model: Model, first: Mapping[str, Array] = MappingProxyType({})) -> None:
        self.model = model
        # What loading has computed of the first input and weights, as much as a picture needs.
        self._first = first
        self._session: Session | None = None
        self._patched = 0  # how many patches the Session has
        self._missing: Exception | None = None
        self._key: tuple[int, str] | None = None
        self._values: dict[str, Array] = {}
        self._compiled: set[tuple[str, str, tuple[str, ...]]] = set()  # texts of one's own

    def values(
        self,
        plan: Plan,
        graph: Graph,
        arrays: Sequence[Array],
        revision: int,
        patches: Sequence[Patch] = (),
        sent: Sequence[Array] = (),
        edits: Sequence[Edit] = (),
        injected: Mapping[str, Array] = MappingProxyType({}),
    ) -> dict[str, Array]:
        """Every value of the Plan; computed when `revision` is another one than last time.

        `patches` are all that lie on top of the Plan's weights, `sent` what Python computes,
        `injected` the arrays of `edits`. Without OpenGL edits are replayed in the framework;
        InputError for one that can't be.
        """
        if self._key != (revision, plan.hash):
            session = self._open(plan)
            if session is not None:
                session.patch(patches[self._patched :])
                self._patched = len(patches)
                session.set_edits(edits, injected)
                self._values = session.run((*arrays, *sent))
            else:
                bends = bending(plan, edits, injected)
                found = reference(self.model, graph, arrays, bends=bends)
                old = skipped(plan.header, edits).values
                self._values = {
                    value.key: found[value.key]
                    for number, value in enumerate(plan.values)
                    if number not in old
                }
            self._key = revision, plan.hash
        return self._values

    def unbent(
        self,
        keys: Sequence[str],
        plan: Plan,
        graph: Graph,
        arrays: Sequence[Array],
        edits: Sequence[Edit],
        injected: Mapping[str, Array],
    ) -> list[Array]:
        """Of the values computed last these, each before its own edits."""
        if self._session is not None:
            return [self._session.read(key, unbent=True) for key in keys]
        own = {edit.layer for edit in active(edits) if not edit.skips}

        def before(key: str) -> Array:
            if key not in own:
                return self._values[key].copy()
            left = [edit for edit in edits if edit.layer != key or edit.skips]
            others = bending(plan, left, injected)
            return reference(self.model, graph, arrays, [key], others)[key]

        return [before(key) for key in keys]

    def check_texts(self, plan: Plan, edits: Sequence[Edit]) -> None:
        """InputError for a text in GLSL that doesn't compile, where there is OpenGL to try it."""
        new = {(e.layer, e.source, e.names): e for e in active(edits) if e.transform == GLSL}
        left = [edit for key, edit in new.items() if key not in self._compiled]
        if left and self._missing is None:
            with contextlib.suppress(OpenGLUnavailable):
                check_texts(plan.header, left)
            self._compiled.update(new)

    def pictured(
        self,
        plan: Plan,
        graph: Graph,
        arrays: Sequence[Array],
        revision: int,
        names: Collection[str],
        patches: Sequence[Patch] = (),
        sent: Sequence[Array] = (),
    ) -> tuple[dict[str, Array], str]:
        """Values for a snapshot and who computed them: whoever has no shaders to compile."""
        if self._key != (revision, plan.hash):
            first, self._first = self._first, {}
            if revision == 0 and first:
                return from_cache(graph, first, names), engine(self.model)
            found = quick_reference(self.model, graph, arrays, names)
            if found is not None:
                return found, engine(self.model)
        return self.values(plan, graph, arrays, revision, patches, sent), self.source(plan)

    def source(self, plan: Plan) -> str:
        """Who computes: `local (OpenGL: renderer)` or `reference (PyTorch 2.13)`."""
        session = self._open(plan)
        if session is not None:
            return f"local (OpenGL: {on(session.renderer, plan)})"
        return f"reference ({engine(self.model)})"

    @property
    def opened(self) -> str:
        """The device that it has computed on, "" if none was needed yet."""
        return f"OpenGL: {self._session.renderer}" if self._session is not None else ""

    def reference(
        self,
        graph: Graph,
        arrays: Sequence[Array],
        bends: Bending = NONE,
        notes: Notes | None = None,
    ) -> tuple[dict[str, Array], str]:
        """What the model's own framework makes of the inputs, and that framework's name.

        With `bends` replayed; InputError where that cannot be. `notes` receive what becomes known
        of the framework meanwhile.
        """
        found = reference(self.model, graph, arrays, bends=bends, notes=notes)
        return found, (notes and notes.engine) or engine(self.model)

    def exact(
        self,
        graph: Graph,
        arrays: Sequence[Array],
        names: Collection[str],
        bends: Bending = NONE,
    ) -> dict[str, Array]:
        """The values in float64, of as many keys as the framework can compute so."""
        return exact(self.model, graph, arrays, names, bends)

    def _open(self, plan: Plan) -> Session | None:
        if self._session is not None and self._session.plan.hash == plan.hash:
            if self._session.plan is not plan:
                self._session.replace_weights(plan)
                self._patched = 0
            return self._session
        self.close()
        self._patched = 0
        if self._missing is None:
            try:
                self._session = Session(plan)
            except (OpenGLUnavailable, DeviceError) as error:
                self._missing = error
        return self._session

    def replace(self, model: Any) -> None:
        """Compute another model from here on, or the same of another Plan."""
        self.close()
        self.model, self._first = model, {}

    def close(self) -> None:
        """Free what it holds on the device."""
        if self._session is not None:
            self._session.close()
        self._session = None
        self._key = None
        self._values = {}
