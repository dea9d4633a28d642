"""The interface of a Plan runtime, and its two adapters: local OpenGL and a page's WebGL 2.

docs/runtimes.md specifies how to write a third one; with an adapter here, test_runtimes.py tests
it.
"""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from playwright.sync_api import Error

from nbglcnn import NbglcnnError, Plan, Session
from webgl_page import GlPage, decode, encode

Arrays = Mapping[str, np.ndarray]


class RuntimeRefusal(Exception):
    """A runtime refused a Plan file or a request; the text is the runtime's own message."""


class LoadedPlan(Protocol):
    """A Plan on a device. Arrays are row-major, with the Plan's shapes and types."""

    sections: list[str]
    precision: str
    gpu_bytes: int

    def run(self, inputs: Arrays, section: str | None = None) -> dict[str, np.ndarray]:
        """Return the outputs, or those of a section. Omitted inputs keep their values."""

    def read(self, key: str) -> np.ndarray:
        """Read a value of the last run, or a parameter."""

    def commit(self) -> None:
        """Make the last run's results the state of the next run."""

    def close(self) -> None:
        """Free all resources on the device."""


class Runtime(Protocol):
    """Loads Plan files; raises RuntimeRefusal for a damaged one."""

    name: str

    def load(self, file: bytes) -> LoadedPlan: ...


class OpenGL:
    """The local OpenGL runtime in Python."""

    name = "OpenGL"

    def load(self, file: bytes) -> LoadedPlan:
        try:
            return _OpenGLPlan(Session(Plan.from_bytes(file)))
        except NbglcnnError as error:
            raise RuntimeRefusal(str(error)) from None


class _OpenGLPlan:
    def __init__(self, session: Session) -> None:
        header = session.plan.header
        self._session = session
        self.sections = [section.name for section in header.sections]
        self.precision, self.gpu_bytes = header.precision, session.plan.gpu_bytes

    def run(self, inputs: Arrays, section: str | None = None) -> dict[str, np.ndarray]:
        try:
            found = self._session.run(dict(inputs), section=section)
        except NbglcnnError as error:
            raise RuntimeRefusal(str(error)) from None
        return {key: found[key] for key in self._session.plan.header.outputs if key in found}

    def read(self, key: str) -> np.ndarray:
        try:
            return self._session.read(key)
        except (NbglcnnError, KeyError) as error:
            raise RuntimeRefusal(str(error)) from None

    def commit(self) -> None:
        self._session.commit()

    def close(self) -> None:
        self._session.close()


class WebGL:
    """The runtime of static/runtime.js in a page."""

    def __init__(self, gl: GlPage, name: str) -> None:
        self.name = name
        self._gl = gl
        gl.page.evaluate("() => { globalThis.loaded = []; }")

    def load(self, file: bytes) -> LoadedPlan:
        number, facts = _evaluate(self._gl, LOAD_PLAN_SCRIPT, self._gl.serve_file(file))
        return _WebGLPlan(self._gl, number, Plan.from_bytes(file), facts)


LOAD_PLAN_SCRIPT = """async (url) => {
  const plan = await gl.load(await (await fetch(url)).arrayBuffer(), { device: gl.opened() });
  const { sections, precision, bytes } = plan;
  return [loaded.push(plan) - 1, { sections, precision, bytes }];
}"""
# With a single output the runtime returns its array directly.
RUN_PLAN_SCRIPT = """async ([k, inputs, section]) => {
  const arrays = Object.fromEntries(inputs.map(([key, data]) => [key, gl.floats(data)]));
  const found = await loaded[k].run(arrays, section ?? undefined);
  if (found instanceof Float32Array) return [[null, gl.base64(found)]];
  return Object.entries(found).map(([key, data]) => [key, gl.base64(data)]);
}"""
READ_VALUE_SCRIPT = "async ([k, key]) => gl.base64(await loaded[k].read(key))"


class _WebGLPlan:
    def __init__(self, gl: GlPage, number: int, plan: Plan, facts: dict[str, Any]) -> None:
        self._gl, self._number = gl, number
        header = plan.header
        self._values = {value.key: value for value in (*header.parameters, *header.values)}
        self._outputs = header.outputs
        self.sections: list[str] = facts["sections"]
        self.precision: str = facts["precision"]
        self.gpu_bytes: int = facts["bytes"]

    def run(self, inputs: Arrays, section: str | None = None) -> dict[str, np.ndarray]:
        given = [[key, encode(array)] for key, array in inputs.items()]
        found = _evaluate(self._gl, RUN_PLAN_SCRIPT, [self._number, given, section])
        only = self._outputs[0]
        return {key or only: self._decode_value(key or only, data) for key, data in found}

    def read(self, key: str) -> np.ndarray:
        return self._decode_value(key, _evaluate(self._gl, READ_VALUE_SCRIPT, [self._number, key]))

    def _decode_value(self, key: str, data: str) -> np.ndarray:
        value = self._values[key]
        return decode(data).reshape(value.shape).astype(value.dtype)

    def commit(self) -> None:
        _evaluate(self._gl, "k => loaded[k].commit()", self._number)

    def close(self) -> None:
        _evaluate(self._gl, "k => loaded[k].close()", self._number)


def _evaluate(gl: GlPage, script: str, argument: Any) -> Any:
    try:
        return gl.page.evaluate(script, argument)
    except Error as error:
        raise RuntimeRefusal(str(error)) from None
