"""The network without a page: on local OpenGL, or where there is none by its own framework."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from nbglcnn.errors import DeviceError, OpenGLUnavailable
from nbglcnn.features.edits.records import Edit, active_edits
from nbglcnn.features.edits.replay import EMPTY_REPLAY, EditReplay, edit_replay
from nbglcnn.features.edits.skipped_passes import find_skipped_passes
from nbglcnn.features.edits.transforms import GLSL
from nbglcnn.graph import Array, Graph
from nbglcnn.load import Model
from nbglcnn.plan.schema import Patch, Plan
from nbglcnn.reference import (
    compute_float64,
    compute_reference,
    engine_name,
    from_cache,
    quick_reference,
)
from nbglcnn.report import ReferenceNotes
from nbglcnn.runtime.session import Session
from nbglcnn.runtime.session_edits import check_glsl_edits


def device_label(renderer: str, plan: Plan) -> str:
    """A device by name, and what it stores values in where that isn't float32."""
    return renderer if plan.precision == "float32" else f"{renderer}, {plan.precision}"


class LocalBackend:
    """Computes every value of a Plan in this process, once for each input and set of weights."""

    def __init__(self, model: Model, first: Mapping[str, Array] = MappingProxyType({})) -> None:
        self.model = model
        # What loading has computed of the first input and weights, as much as a picture needs.
        self._load_values = first
        self._session: Session | None = None
        self._patch_count = 0  # how many patches the Session has
        self._opengl_error: Exception | None = None
        self._cache_key: tuple[int, str] | None = None
        self._values: dict[str, Array] = {}
        self._checked_texts: set[tuple[str, str, tuple[str, ...]]] = set()  # texts of one's own

    def compute_values(
        self,
        plan: Plan,
        graph: Graph,
        arrays: Sequence[Array],
        revision: int,
        patches: Sequence[Patch] = (),
        python_values: Sequence[Array] = (),
        edits: Sequence[Edit] = (),
        injected: Mapping[str, Array] = MappingProxyType({}),
    ) -> dict[str, Array]:
        """Every value of the Plan; computed when `revision` is another one than last time.

        `patches` are all that lie on top of the Plan's weights, `python_values` what Python
        computes, `injected` the arrays of `edits`. Without OpenGL edits are replayed in the
        framework; InputError for one that can't be.
        """
        if self._cache_key != (revision, plan.hash):
            session = self._session_for(plan)
            if session is not None:
                session.patch(patches[self._patch_count :])
                self._patch_count = len(patches)
                session.set_edits(edits, injected)
                self._values = session.run((*arrays, *python_values))
            else:
                bends = edit_replay(plan, edits, injected)
                found = compute_reference(self.model, graph, arrays, bends=bends)
                old = find_skipped_passes(plan.header, edits).values
                self._values = {
                    value.key: found[value.key]
                    for number, value in enumerate(plan.values)
                    if number not in old
                }
            self._cache_key = revision, plan.hash
        return self._values

    def read_before_edits(
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
        own = {edit.layer for edit in active_edits(edits) if not edit.skips_upstream}

        def before(key: str) -> Array:
            if key not in own:
                return self._values[key].copy()
            left = [edit for edit in edits if edit.layer != key or edit.skips_upstream]
            others = edit_replay(plan, left, injected)
            return compute_reference(self.model, graph, arrays, [key], others)[key]

        return [before(key) for key in keys]

    def check_glsl_edits(self, plan: Plan, edits: Sequence[Edit]) -> None:
        """InputError for a text in GLSL that doesn't compile, where there is OpenGL to try it."""
        new = {
            (e.layer, e.source, e.parameter_names): e
            for e in active_edits(edits)
            if e.transform == GLSL
        }
        left = [edit for key, edit in new.items() if key not in self._checked_texts]
        if left and self._opengl_error is None:
            with contextlib.suppress(OpenGLUnavailable):
                check_glsl_edits(plan.header, left)
            self._checked_texts.update(new)

    def snapshot_values(
        self,
        plan: Plan,
        graph: Graph,
        arrays: Sequence[Array],
        revision: int,
        names: Collection[str],
        patches: Sequence[Patch] = (),
        python_values: Sequence[Array] = (),
    ) -> tuple[dict[str, Array], str]:
        """Values for a snapshot and who computed them: whoever has no shaders to compile."""
        if self._cache_key != (revision, plan.hash):
            first, self._load_values = self._load_values, {}
            if revision == 0 and first:
                return from_cache(graph, first, names), engine_name(self.model)
            found = quick_reference(self.model, graph, arrays, names)
            if found is not None:
                return found, engine_name(self.model)
        return self.compute_values(
            plan, graph, arrays, revision, patches, python_values
        ), self.backend_name(plan)

    def backend_name(self, plan: Plan) -> str:
        """Who computes: `local (OpenGL: renderer)` or `compute_reference (PyTorch 2.13)`."""
        session = self._session_for(plan)
        if session is not None:
            return f"local (OpenGL: {device_label(session.renderer, plan)})"
        return f"reference ({engine_name(self.model)})"

    @property
    def device_name(self) -> str:
        """The device that it has computed on, "" if none was needed yet."""
        return f"OpenGL: {self._session.renderer}" if self._session is not None else ""

    def compute_reference(
        self,
        graph: Graph,
        arrays: Sequence[Array],
        bends: EditReplay = EMPTY_REPLAY,
        notes: ReferenceNotes | None = None,
    ) -> tuple[dict[str, Array], str]:
        """What the model's own framework makes of the inputs, and that framework's name.

        With `bends` replayed; InputError where that cannot be. `notes` receive what becomes known
        of the framework meanwhile.
        """
        found = compute_reference(self.model, graph, arrays, bends=bends, notes=notes)
        return found, (notes and notes.engine) or engine_name(self.model)

    def compute_float64(
        self,
        graph: Graph,
        arrays: Sequence[Array],
        names: Collection[str],
        bends: EditReplay = EMPTY_REPLAY,
    ) -> dict[str, Array]:
        """The values in float64, of as many keys as the framework can compute so."""
        return compute_float64(self.model, graph, arrays, names, bends)

    def _session_for(self, plan: Plan) -> Session | None:
        if self._session is not None and self._session.plan.hash == plan.hash:
            if self._session.plan is not plan:
                self._session.replace_weights(plan)
                self._patch_count = 0
            return self._session
        self.close()
        self._patch_count = 0
        if self._opengl_error is None:
            try:
                self._session = Session(plan)
            except (OpenGLUnavailable, DeviceError) as error:
                self._opengl_error = error
        return self._session

    def replace_model(self, model: Any) -> None:
        """Compute another model from here on, or the same of another Plan."""
        self.close()
        self.model, self._load_values = model, {}

    def close(self) -> None:
        """Free what it holds on the device."""
        if self._session is not None:
            self._session.close()
        self._session = None
        self._cache_key = None
        self._values = {}
