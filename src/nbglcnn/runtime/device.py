"""The process's OpenGL contexts (EGL, no window): one per device, each on its own thread."""

from __future__ import annotations

import ctypes
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from ctypes.util import find_library
from typing import TYPE_CHECKING, Any, TypeVar

from nbglcnn.codegen.glsl import VERTEX_GLSL
from nbglcnn.errors import DeviceError, InputError, OpenGLUnavailable
from nbglcnn.plan import schema as p
from nbglcnn.runtime.profiling import Clock, ClockName

if TYPE_CHECKING:
    import moderngl

Result = TypeVar("Result")

GLSL_VERSION_LINE = "#version 300 es\n"
GL_TEXTURE_2D_ARRAY = 0x8C1A
GL_FRAMEBUFFER = 0x8D40
GL_COLOR_BUFFER_BIT = 0x4000
GL_COLOR_ATTACHMENT0 = 0x8CE0
GL_FRAMEBUFFER_COMPLETE = 0x8CD5
DEVICE_INDEX_VARIABLE = (
    "GLCONTEXT_DEVICE_INDEX"  # read by glcontext, which opens devices, before any argument
)
# Software renderers. They draw later than requested, so llvmpipe's timer reports 0 ms for whole
# layers. js/src/webgl/open_context.ts has the same list.
SOFTWARE_RENDERERS = re.compile(
    "swiftshader|llvmpipe|softpipe|software|basic render", re.IGNORECASE
)


class Device:
    """The process's only OpenGL context on a device, with its own thread.

    A context is current in one thread at a time, but a notebook calls from several (the main
    thread, ipykernel's subshells, widget callbacks). Therefore all OpenGL work runs on this thread.
    """

    def __init__(self, index: int) -> None:
        self._process_id = os.getpid()
        self._index = index
        self._executor = ThreadPoolExecutor(
            max_workers=1, thread_name_prefix=f"nbglcnn-opengl-{index}"
        )
        self.programs: dict[str, moderngl.Program] = {}
        self._gl_thread = self._executor.submit(threading.current_thread).result()
        self.run_on_thread(self._open)

    def run_on_thread(self, work: Callable[[], Result]) -> Result:
        """Run `work` on the OpenGL thread and wait for it."""
        self.check_not_forked()
        if threading.current_thread() is self._gl_thread:
            # If an object is freed on this thread, its Session is closed here: waiting for the own
            # thread would be a deadlock.
            return work()
        return self._executor.submit(work).result()

    def check_not_forked(self) -> None:
        """Raise OpenGLUnavailable in a process that was forked from the one with the device."""
        if not self.is_own_process:
            raise OpenGLUnavailable(
                "OpenGL doesn't survive fork(), and this process was forked from one with a "
                "Session. Use the start method 'spawn' (multiprocessing.get_context('spawn'); "
                "for a DataLoader multiprocessing_context='spawn'), or create the first Session "
                "in the child process"
            )

    @property
    def is_own_process(self) -> bool:
        """Whether this process opened the device: a fork has neither its thread nor OpenGL."""
        return self._process_id == os.getpid()

    def _open(self) -> None:
        try:
            import moderngl
        except ImportError as error:
            raise OpenGLUnavailable(
                f"moderngl cannot be imported ({error}); install it with: pip install moderngl"
            ) from error
        try:
            # 4.3 is the first OpenGL version that also compiles GLSL ES 3.00, the language of
            # Plans.
            settings: Any = {"backend": "egl", "device_index": self._index}
            with _without_index_override(self._index):
                self.context = moderngl.create_context(require=430, standalone=True, **settings)
        except Exception as error:
            why = f"device {self._index}: {error}" if self._index else error
            raise OpenGLUnavailable(
                f"headless OpenGL 4.3 is not available ({why}). On Debian or Ubuntu: apt-get "
                "install libegl1 libgl1 libgl1-mesa-dri libegl-mesa0"
            ) from error
        load = self.context.mglo._context.load

        def function(name: str, *arguments: Any, result: Any = None) -> Any:
            return ctypes.CFUNCTYPE(result, *arguments)(load(name))

        unsigned, signed = ctypes.c_uint, ctypes.c_int
        pointer = ctypes.POINTER(unsigned)
        # moderngl cannot attach single layers of an array, which a pass needs to write all layers
        # at once.
        self._gen_framebuffers = function("glGenFramebuffers", signed, pointer)
        self._delete_framebuffers = function("glDeleteFramebuffers", signed, pointer)
        self.bind = function("glBindFramebuffer", unsigned, unsigned)
        self._attach = function(
            "glFramebufferTextureLayer", unsigned, unsigned, unsigned, signed, signed
        )
        self._draw_buffers = function("glDrawBuffers", signed, pointer)
        self._status = function("glCheckFramebufferStatus", unsigned, result=unsigned)
        self._clear = function("glClear", unsigned)
        self._copy = function(
            "glCopyImageSubData", *[unsigned, unsigned, *[signed] * 4] * 2, *[signed] * 3
        )
        self.viewport = function("glViewport", signed, signed, signed, signed)
        info = self.context.info
        self.renderer: str = info["GL_RENDERER"]
        self.max_texture_size = int(info["GL_MAX_TEXTURE_SIZE"])
        self._clock: Clock | None = None

    def clock(self) -> Clock:
        """The best clock for this device's work, for use on the device's thread."""
        if self._clock is None:
            software = SOFTWARE_RENDERERS.search(self.renderer) is not None
            self._clock = (_WallClock if software else _GpuTimer)(self.context)
        return self._clock

    def create_framebuffer(self, texture: moderngl.TextureArray) -> int:
        """Create a framebuffer with every layer of a texture, cleared to zeros, as WebGL does."""
        number = ctypes.c_uint()
        self._gen_framebuffers(1, ctypes.byref(number))
        self.bind(GL_FRAMEBUFFER, number.value)
        layers = texture.layers
        for layer in range(layers):
            self._attach(GL_FRAMEBUFFER, GL_COLOR_ATTACHMENT0 + layer, texture.glo, 0, layer)
        buffers = (ctypes.c_uint * layers)(*(GL_COLOR_ATTACHMENT0 + k for k in range(layers)))
        self._draw_buffers(layers, buffers)
        status = self._status(GL_FRAMEBUFFER)
        if status != GL_FRAMEBUFFER_COMPLETE:
            raise DeviceError(
                f"{self.renderer} cannot render to {layers} float layers (status {status:#x})"
            )
        self._clear(GL_COLOR_BUFFER_BIT)  # undrawn texels are read, too: the border of zeros
        return int(number.value)

    def copy(self, source: moderngl.TextureArray, target: moderngl.TextureArray) -> None:
        """Copy a texture to another one of the same size and format, bit for bit."""
        one, other = (
            (texture.glo, GL_TEXTURE_2D_ARRAY, 0, 0, 0, 0) for texture in (source, target)
        )
        self._copy(*one, *other, *source.size)

    def delete_framebuffer(self, number: int) -> None:
        """Free a framebuffer."""
        self._delete_framebuffers(1, ctypes.byref(ctypes.c_uint(number)))

    def compiled_program(self, program: p.Program) -> moderngl.Program:
        """Compile a program; all sessions share the program of the same source."""
        if program.source not in self.programs:
            try:
                self.programs[program.source] = self.context.program(
                    vertex_shader=GLSL_VERSION_LINE + VERTEX_GLSL,
                    fragment_shader=GLSL_VERSION_LINE + program.source,
                )
            except Exception as error:
                lines = "\n".join(
                    f"{k + 1:4} {line}"
                    for k, line in enumerate((GLSL_VERSION_LINE + program.source).split("\n"))
                )
                raise DeviceError(
                    f"{self.renderer} did not compile the shader {program.name!r}: {error}\n{lines}"
                ) from error
        return self.programs[program.source]


class _GpuTimer:
    """The GPU's timer: measures the device's own working time, without waiting."""

    name: ClockName = "GPU timer"

    def __init__(self, context: moderngl.Context) -> None:
        self._query = context.query(time=True)

    def measure_ms(self, work: Callable[[], None]) -> float:
        with self._query:
            work()
        return float(self._query.elapsed) / 1e6


class _WallClock:
    """The wall clock: measures from an idle device until it has done the work."""

    name: ClockName = "wall clock"

    def __init__(self, context: moderngl.Context) -> None:
        self._finish = context.finish

    def measure_ms(self, work: Callable[[], None]) -> float:
        self._finish()
        start = time.perf_counter()
        work()
        self._finish()
        return (time.perf_counter() - start) * 1000


_devices: dict[int, Device] = {}
_open_lock = threading.Lock()


def shared_device(index: int | None = None) -> Device:
    """The process's device with this index, opened on first use.

    Raises:
        OpenGLUnavailable: If there is no OpenGL here, or not on this device.
        DeviceError: If there is no such device.
    """
    index = _resolve_index(index)
    if index not in _devices:
        with _open_lock:  # two threads' first Sessions share one device, too
            if index not in _devices:
                _devices[index] = Device(index)
    return _devices[index]


def _resolve_index(index: int | None) -> int:
    """Resolve and check the index of an EGL device; glcontext itself reads out of bounds."""
    if index is None:
        own = os.environ.get(DEVICE_INDEX_VARIABLE, "")
        index = int(own) if own.isdecimal() else 0
        if index == 0:
            return 0
    if not isinstance(index, int) or isinstance(index, bool):
        raise InputError(f"device={index!r}: expected a device index, as in device=0")
    count = device_count()
    if index < 0 or (count and index >= count):
        has = {None: "does not list its devices", 1: "has 1 device, device 0"}
        words = has.get(count, f"has {count} devices, counted from 0")
        raise DeviceError(f"there is no OpenGL device {index}: EGL {words}")
    return index


def device_count() -> int | None:
    """The number of EGL devices; None if EGL is missing or cannot list them."""
    name = find_library("EGL")
    if name is None:
        return None
    try:
        egl = ctypes.CDLL(name)
    except OSError:
        return None
    egl.eglGetProcAddress.restype = ctypes.c_void_p
    egl.eglGetProcAddress.argtypes = [ctypes.c_char_p]
    address = egl.eglGetProcAddress(b"eglQueryDevicesEXT")
    if not address:
        return None
    signed = ctypes.c_int
    query = ctypes.CFUNCTYPE(ctypes.c_uint, signed, ctypes.c_void_p, ctypes.POINTER(signed))
    count = signed()
    return count.value if query(address)(0, None, ctypes.byref(count)) else None


@contextmanager
def _without_index_override(index: int) -> Iterator[None]:
    """Hide the environment's device index, so that it doesn't override `index`."""
    own = os.environ.get(DEVICE_INDEX_VARIABLE)
    if own is None or own == str(index):
        yield
        return
    del os.environ[DEVICE_INDEX_VARIABLE]
    try:
        yield
    finally:
        os.environ[DEVICE_INDEX_VARIABLE] = own
