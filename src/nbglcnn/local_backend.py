"""Computing the network without a page: on local OpenGL, else by the model's framework."""

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
    compute_from_cache,
    compute_reference,
    engine_name,
    fast_reference_values,
)
from nbglcnn.report import ReferenceNotes
from nbglcnn.runtime.session import Session
from nbglcnn.runtime.session_edits import check_glsl_edits


def device_label(renderer: str, plan: Plan) -> str:
    """A device's name, with its storage precision if that isn't float32."""
    return renderer if plan.precision == "float32" else f"{renderer}, {plan.precision}"


class LocalBackend:
    """Computes all values of a Plan in this process, cached by input and weights."""

    def __init__(self, model: Model, first: Mapping[str, Array] = MappingProxyType({})) -> None:
        self.model = model
        # Values that loading computed for the first input and weights, as needed for a picture.
        self._load_values = first
        self._session: Session | None = None
        self._patch_count = 0  # number of patches applied to the Session
        self._opengl_error: Exception | None = None
        self._cache_key: tuple[int, str] | None = None
        self._values: dict[str, Array] = {}
        self._checked_texts: set[tuple[str, str, tuple[str, ...]]] = set()  # user GLSL

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
        """All values of the Plan; recomputed only if `revision` or the Plan has changed.

        `patches` are all patches on top of the Plan's weights, `python_values` the values that
        Python computes, `injected` the arrays of `edits`. Without OpenGL, edits are replayed in the
        framework; InputError if an edit cannot be replayed.
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
                old = find_skipped_passes(plan.header, edits).value_indices
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
        """The values of these keys from the last computation, each before its own edits."""
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
        """Raise InputError if an edit's GLSL does not compile; skipped without OpenGL."""
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
        """Values for a snapshot and the backend's name; prefers one without shaders to compile."""
        if self._cache_key != (revision, plan.hash):
            first, self._load_values = self._load_values, {}
            if revision == 0 and first:
                return compute_from_cache(graph, first, names), engine_name(self.model)
            found = fast_reference_values(self.model, graph, arrays, names)
            if found is not None:
                return found, engine_name(self.model)
        return self.compute_values(
            plan, graph, arrays, revision, patches, python_values
        ), self.backend_name(plan)

    def backend_name(self, plan: Plan) -> str:
        """The backend's name: `local (OpenGL: renderer)` or `reference (PyTorch 2.13)`."""
        session = self._session_for(plan)
        if session is not None:
            return f"local (OpenGL: {device_label(session.renderer, plan)})"
        return f"reference ({engine_name(self.model)})"

    @property
    def device_name(self) -> str:
        """The device used so far; "" if none was needed yet."""
        return f"OpenGL: {self._session.renderer}" if self._session is not None else ""

    def compute_reference(
        self,
        graph: Graph,
        arrays: Sequence[Array],
        bends: EditReplay = EMPTY_REPLAY,
        notes: ReferenceNotes | None = None,
    ) -> tuple[dict[str, Array], str]:
        """The framework's own values for the inputs, and the framework's name.

        `bends` are the edits to replay; InputError if that is not possible. `notes` receive facts
        about the framework's run.
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
        """The values in float64, of all keys that the framework can compute in float64."""
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
        """Switch to another model, or to the same model with another Plan."""
        self.close()
        self.model, self._load_values = model, {}

    def close(self) -> None:
        """Free the resources on the device."""
        if self._session is not None:
            self._session.close()
        self._session = None
        self._cache_key = None
        self._values = {}
