"""Session: runs a Plan on the machine's local OpenGL (EGL, no window)."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from nbglcnn.errors import DeviceError, InputError, ModelError, SessionClosed, unknown_name_message
from nbglcnn.features.edits.bends import Bend, Bends
from nbglcnn.features.edits.edit_stacks import build_edit_stacks
from nbglcnn.features.edits.editor import Editor
from nbglcnn.features.edits.records import Edit, check_batched_seeds
from nbglcnn.features.edits.skipped_passes import find_skipped_passes, skipped_value_error
from nbglcnn.features.edits.store import EditSnapshot
from nbglcnn.features.edits.transforms import GLSL
from nbglcnn.inputs.arguments import labels_hint, resolve_input_names
from nbglcnn.inputs.nested import match_inputs
from nbglcnn.pictures import feature_maps
from nbglcnn.plan import schema as p
from nbglcnn.plan.sections import required_sections, sections_by_texture
from nbglcnn.runtime import batching
from nbglcnn.runtime.device import GL_FRAMEBUFFER, shared_device
from nbglcnn.runtime.input_arrays import prepare_inputs
from nbglcnn.runtime.input_arrays import to_float32 as to_float32
from nbglcnn.runtime.profiling import Profile, profile_layers
from nbglcnn.runtime.session_edits import SessionEdits

if TYPE_CHECKING:
    import moderngl
    from PIL import Image

    from nbglcnn.pictures.colors import Colormap, Theme
    from nbglcnn.pictures.feature_maps import ColorRange
    from nbglcnn.transforms import Transform

Array = npt.NDArray[Any]
Result = TypeVar("Result")

TEXTURE_DTYPES = {"rgba32f": "f4", "rgba16f": "f2"}


class Session:
    """Runs a Plan on local OpenGL 4.3 without a window (EGL).

    It needs neither PyTorch nor ONNX. Use it in a `with` block, which frees its memory at the end.

    Several threads may use one Session: each call of `run`, `read` or `write` is atomic. For steps
    of several calls, such as `write`, `run` and `read`, give each thread its own Session. Sessions
    of one device alternate call by call. It cannot be pickled; its `plan` can.

    Args:
        plan: The Plan to run.
        device: The number of the EGL device. Default: the environment variable
            GLCONTEXT_DEVICE_INDEX, otherwise 0.

    Attributes:
        plan: The Plan.

    Raises:
        OpenGLUnavailable: If there is no local OpenGL.
        DeviceError: If there is no device of this number, or it cannot run this Plan.
        ModelError: If `plan` is not a Plan.

    Example:
        >>> with nbglcnn.Session(plan) as session:
        ...     values = session.run(x)
    """

    def __init__(self, plan: p.Plan, *, device: int | None = None) -> None:
        if not isinstance(plan, p.Plan):
            raise ModelError(
                f"a Session expects a Plan; {type(plan).__name__} was given. Give "
                "nbglcnn.compile(model, x), or nbglcnn.Plan.load(path) for a saved Plan"
            )
        self.plan = plan
        self._device = shared_device(device)
        # Held across several calls of the device's thread, which never acquires it itself.
        self._lock = threading.RLock()
        self._closed = False
        self._inputs: dict[str, Array] = {}
        self._sections_by_texture = sections_by_texture(plan.header)
        self._ran_sections: set[int] = set()  # sections run since the last commit
        # Weight textures whose contents differ from the Plan's.
        self._patched_textures: set[int] = set()
        self._pending_edits: tuple[tuple[Edit, ...], Mapping[str, Array]] | None = None
        self._editor = Editor(
            lambda: self.plan, self._handle_edits, partial(self.read, unbent=True), self.check_open
        )
        self._device.run_on_thread(self._create_resources)

    @property
    def renderer(self) -> str:
        """The name of the OpenGL device."""
        return self._device.renderer

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"on {self.renderer}"
        return f"Session of {self.plan.header.name!r} ({self.plan.memory}), {state}"

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(
            "a Session cannot be pickled or copied: it has OpenGL textures of this process. "
            "Pickle its Plan, session.plan, and create another Session from it: Session(plan)"
        )

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Lock the Session for a `with` block; SessionClosed if it is closed."""
        if not self._closed:
            self._device.check_not_forked()  # a fork inherits held locks, which are never released
        with self._lock:
            self.check_open()
            yield

    def check_open(self) -> None:
        """Raise an error if the Session is closed.

        Raises:
            SessionClosed: If it is closed.
        """
        if self._closed:
            raise SessionClosed(
                f"this Session of {self.plan.header.name!r} was closed, by close() or at the end "
                "of its `with`; create another: Session(session.plan)"
            )

    def _call_device(self, work: Callable[[], Result]) -> Result:
        with self._locked():
            return self._device.run_on_thread(work)

    def _create_resources(self) -> None:
        context, header = self._device.context, self.plan.header
        largest = max(max(t.width, t.height) for t in header.textures)
        if largest > self._device.max_texture_size:
            raise DeviceError(
                f"{self.renderer} supports at most {self._device.max_texture_size} texels per "
                f"side; this Plan needs {largest}. Compile it with "
                "target=Target(max_texture_size=…)"
            )
        self._textures: list[moderngl.TextureArray] = []
        self._framebuffers: dict[int, int] = {}
        for texture in header.textures:
            size = (texture.width, texture.height, texture.layers)
            made = context.texture_array(size, 4, dtype=TEXTURE_DTYPES[texture.format])
            made.filter = (context.NEAREST, context.NEAREST)
            made.repeat_x = made.repeat_y = False
            self._textures.append(made)
        for weight in header.weights:
            self._upload(weight.texture, self.plan.blobs[weight.hash])
        self._uniforms = context.buffer(self.plan.uniforms or bytes(p.UNIFORM_BYTES))
        self._vertex_arrays: list[moderngl.VertexArray] = []
        for record in header.programs:
            program = self._device.compiled_program(record)
            for unit, name in enumerate(record.samplers):
                # The driver drops samplers that a variant of the kernel doesn't read.
                if name in program:
                    program[name] = unit
            if "Pass" in program:
                program["Pass"].binding = 0  # type: ignore[union-attr]
            self._vertex_arrays.append(context.vertex_array(program, []))
        self._session_edits = SessionEdits(self._device, header, self._textures)

    def _upload(self, texture_index: int, data: p.Float32) -> None:
        stored = TEXTURE_DTYPES[self.plan.header.textures[texture_index].format]
        with np.errstate(over="ignore"):  # values beyond float16 become infinite
            self._textures[texture_index].write(np.ascontiguousarray(data, stored))

    def _draw_pass(self, draw_pass: p.Pass) -> None:
        self._bind_output(draw_pass.output, draw_pass.viewport)
        for unit, texture in enumerate(self._session_edits.input_textures(draw_pass)):
            self._textures[texture].use(unit)
        self._uniforms.bind_to_uniform_block(0, offset=draw_pass.uniforms, size=p.UNIFORM_BYTES)
        self._vertex_arrays[draw_pass.program].render(vertices=3)

    def _bind_output(self, output: int, viewport: tuple[int, int]) -> None:
        if output not in self._framebuffers:
            self._framebuffers[output] = self._device.create_framebuffer(self._textures[output])
        self._device.bind(GL_FRAMEBUFFER, self._framebuffers[output])
        self._device.viewport(0, 0, *viewport)

    def _draw_edits(self, after_pass: int) -> None:
        """Draw the edits of the values that pass `after_pass` has computed; -1: edits of inputs."""
        for step in self._session_edits.passes_after(after_pass):
            self._bind_output(step.output, step.viewport)
            for unit, texture in enumerate(step.inputs):
                self._textures[texture].use(unit)
            for unit, own in enumerate(step.tables):
                own.use(len(step.inputs) + unit)
            buffer = self._session_edits.uniform_buffer
            buffer.bind_to_uniform_block(0, offset=step.uniforms, size=p.UNIFORM_BYTES)
            step.program.render(vertices=3)

    def write(self, key: str, array: Any) -> None:
        """Set one input without running the network.

        Args:
            key: The name of the input.
            array: The input, as for `compile`, in the shape of the Plan.

        Raises:
            InputError: If the input doesn't exist or the array doesn't fit.
            SessionClosed: If the Session is closed.
        """
        with self._locked():
            self._write_inputs(prepare_inputs(self.plan.header, {key: array}))

    def _write_inputs(self, arrays: Sequence[tuple[p.Input, Array]]) -> None:
        for record, data in arrays:
            self._inputs[record.key] = data
            self._call_device(partial(self._write_input, record, data))

    def _write_input(self, record: p.Input, data: Array) -> None:
        staging = self.plan.header.textures[record.staging]
        flat = np.zeros(staging.width * staging.height * 4, np.float32)
        flat[: data.size] = data.reshape(-1)
        self._upload(record.staging, flat)
        self._draw_pass(record.pack_pass)

    def _required_sections(self, name: str | None) -> list[int]:
        """The indices of the sections to run for this one: itself and those it depends on."""
        header = self.plan.header
        names = [section.name for section in header.sections]
        if name is None:
            return [k for k, section in enumerate(header.sections) if not section.on_demand]
        if name not in names:
            known = ", ".join(map(repr, names))
            raise InputError(f"no section {name!r}; this Plan's sections: {known}")
        return required_sections(header, names.index(name))

    def _inputs_of_sections(self, numbers: Sequence[int]) -> list[str]:
        """The inputs that these sections read directly."""
        header = self.plan.header
        chosen = [header.sections[number] for number in numbers]
        passes = [k for one in chosen for k in range(one.first, one.first + one.count)]
        read = {texture for k in passes for texture in header.passes[k].inputs}
        return [record.key for record in header.inputs if record.pack_pass.output in read]

    def _run_sections(self, sections: Sequence[int]) -> None:
        if self._pending_edits is not None:
            self._session_edits.set_edits(*self._pending_edits)
            self._pending_edits = None
        self._draw_edits(-1)
        for number in sections:
            section = self.plan.header.sections[number]
            for k in range(section.first, section.first + section.count):
                if k not in self._session_edits.skipped_passes.pass_indices:
                    self._draw_pass(self.plan.header.passes[k])
                self._draw_edits(k)
        self._ran_sections.update(sections)

    def profile(self) -> Profile:
        """Measure the time of each layer for the last inputs, each layer separately.

        The GPU's timer measures if it is reliable, otherwise the wall clock; `profile.clock` names
        it. Profiling doesn't change the state of a Plan with carries; afterwards all values are
        those of a run.

        Returns:
            A Profile, with one `LayerTime` row per layer.

        Raises:
            InputError: If an input has not been set yet.
            SessionClosed: If the Session is closed.
        """
        header = self.plan.header

        def work() -> Profile:
            found = profile_layers(header, self._draw_pass, self._device.clock(), self.renderer)
            for step in header.passes:
                self._draw_pass(step)
            return found

        with self._locked():
            known = self._inputs.keys() | self.plan.noise
            if missing := [one.key for one in header.inputs if one.key not in known]:
                raise InputError(
                    f"profile: the input {missing[0]!r} has no value yet: call run first"
                )
            return self._device.run_on_thread(work)

    def commit(self) -> None:
        """Make the values of the last runs the initial state of the next run.

        This copies the source of each carry to its target, if its section has run since the last
        commit. A Plan without carries has no state. Without a commit, repeated runs of a section
        return the same values. The initial state is in the Plan; `replace_weights` may change it.

        Raises:
            SessionClosed: If the Session is closed.
        """

        def copy() -> None:
            for carry in self.plan.header.carries:
                if self._sections_by_texture[carry.source] & self._ran_sections:
                    self._device.copy(self._textures[carry.source], self._textures[carry.target])
            self._ran_sections.clear()

        self._call_device(copy)

    def read(self, key: str, *, unbent: bool = False) -> Array:
        """Read a value of the last run, or a parameter.

        Args:
            key: The name of the value or parameter.
            unbent: Whether to return the value before the edits of this layer. Edits of earlier
                layers still apply. Default: False.

        Returns:
            An array in the shape and dtype of the value.

        Raises:
            KeyError: If the value doesn't exist, isn't kept, or is skipped.
            SessionClosed: If the Session is closed.
        """
        self.check_open()
        return self._call_device(partial(self._read_value, self._find_value(key), unbent=unbent))

    def _find_value(self, key: str) -> p.Value:
        values = (*self.plan.header.values, *self.plan.header.parameters)
        for number, value in enumerate(values):
            if value.key == key:
                if number in self._session_edits.skipped_passes.value_indices:
                    raise KeyError(skipped_value_error(key))
                return value
        raise KeyError(
            unknown_name_message(
                key, [value.key for value in values], shared=self.plan.header.shared_modules
            )
        )

    def _read_value(self, value: p.Value, *, unbent: bool = False) -> Array:
        width, height = value.readback.draw_pass.viewport
        data = np.zeros(width * height * 4, np.float32)
        if value.readback.count:
            self._draw_pass(self._read_pass(value, unbent=unbent))
            framebuffer = self._device.context.detect_framebuffer(
                self._framebuffers[value.readback.draw_pass.output]
            )
            framebuffer.read_into(data, viewport=(0, 0, width, height), components=4, dtype="f4")
        result = data[: value.readback.count].reshape(value.shape)
        with np.errstate(invalid="ignore"):  # floats beyond the dtype's range
            return result if value.dtype == "float32" else result.astype(value.dtype)

    def _read_pass(self, value: p.Value, *, unbent: bool) -> p.Pass:
        """The readback pass of a value; for an edited value, it reads another texture."""
        step = value.readback.draw_pass
        if value.kind == "parameter" or not self._session_edits.edited_textures:
            return step
        number = self.plan.header.values.index(value)
        found = self._session_edits.value_texture(number, before_edits=unbent)
        inputs = tuple(found if texture == value.texture else texture for texture in step.inputs)
        return msgspec.structs.replace(step, inputs=inputs)

    def picture(
        self,
        key: str,
        channels: int | Sequence[int] | None = None,
        *,
        example: int = 0,
        colormap: Colormap = "signed",
        color_range: ColorRange | None = None,
        symmetric: bool = False,
        columns: int | None = None,
        scale: int = 1,
        theme: Theme = "light",
    ) -> Image.Image:
        """Draw the feature maps of a value of the last run, in the page's colours.

        Maps are one pixel apart. 1-D signals are curves, vectors are bars, scalars are numbers, and
        class scores show the class. NaN is hatched magenta, infinities are solid magenta. Dots mark
        the values of an input or output picture beyond its range: black above, white below;
        `info["above"]` and `info["below"]` of the image count them.

        Args:
            key: The name of the value.
            channels: The channels to draw, in this order. Default: all; inputs and outputs of three
                channels are then one colour picture.
            example: The example of the batch, from 0. Default: 0.
            colormap: `"signed"` (default), `"viridis"`, `"cividis"`, `"magma"` or `"grey"`. Inputs
                and outputs of one or three channels have their own colours.
            color_range: The values at the ends of the colour map: `"layer"` (the layer's range),
                `"channel"` (the range of each map), or `(low, high)`. Default: `"layer"`; for input
                and output pictures 0 and 1, or the range that the last layer or `preprocess`
                implies.
            symmetric: Whether sequential colour maps range from −max to max. Default: False.
            columns: The number of maps per row. Default: as many as make a square.
            scale: The width and height of an element in pixels. Default: 1.
            theme: `"light"` (default) or `"dark"`, which differ in the colour of zero.

        Returns:
            An RGB image.

        Raises:
            KeyError: If the value doesn't exist.
            InputError: If an argument is not valid, or the picture would be too large.
            SessionClosed: If the Session is closed.
        """
        array = self.read(key)
        return feature_maps.draw_picture(
            self._find_value(key),
            array,
            channels=channels,
            example=example,
            colormap=colormap,
            color_range=color_range,
            symmetric=symmetric,
            columns=columns,
            scale=scale,
            theme=theme,
        )

    def run(
        self,
        *x: Any,
        section: str | None = None,
        read: str | Sequence[str] | None = None,
        **named: Any,
    ) -> dict[str, Array]:
        """Run the network on an input and return its values.

        A batch of any size runs in batches of the Plan's size, each separately, with a progress bar
        after a few seconds. An omitted input keeps its values; noise that was never set has the
        Plan's values.

        Args:
            *x: The input, as for `compile`: an array, tensor, picture or list of pictures; for
                several inputs a tuple, a dict by name, or one argument each: `session.run(a, b)`.
                Constants among the arguments of `compile` must be equal here, or omitted.
            section: The section of the Plan to run, with the sections that it depends on; only
                their values are returned. Default: all.
            read: The key or keys of the values to return. Reading a value takes about as long as
                running a layer or two. Default: all.
            **named: Inputs by name: `session.run(image=a, mask=b)`. Pass inputs called "section" or
                "read" in a dict.

        Returns:
            A dict of arrays by key, in the order of the Plan.

        Raises:
            InputError: If an input is missing or doesn't fit, the section doesn't exist, or a value
                cannot be split along the batch axis. Nothing is set then.
            KeyError: If `read` contains a value that this run doesn't compute. Nothing is set then.
            SessionClosed: If the Session is closed.

        Example:
            >>> session.run(x)["output"]
        """
        header = self.plan.header
        names = [record.key for record in header.inputs]
        keys = [record.key for record in header.inputs if not record.contributed]
        items: Any = x
        if len(x) == 1 and isinstance(x[0], Mapping):
            items, named = (), {**x[0], **named}
        elif len(x) == 1 and isinstance(x[0], tuple):
            items = x[0]
        items = match_inputs(items, keys, header.arguments, header.constants)
        if len(items) > len(keys):
            advice = labels_hint(items)
            raise InputError(
                f"{len(items)} inputs given; this Plan has {len(keys)}: {', '.join(keys)}"
                + (f". {advice}" if advice else "")
            )
        given = dict(items if isinstance(items, Mapping) else zip(keys, items, strict=False))
        given |= resolve_input_names(
            match_inputs(named, names, header.arguments, header.constants), names
        )
        with self._locked():
            sections = self._required_sections(section)
            arrays = prepare_inputs(self.plan.header, given, any_batch=True)
            known = given.keys() | self._inputs.keys() | self.plan.noise
            for key in keys if section is None else self._inputs_of_sections(sections):
                if key not in known:
                    raise InputError(
                        f"the input {key!r} is missing; this Plan has {len(keys)}: "
                        f"{', '.join(keys)}. Give a tuple with an array for each, or a dict by "
                        "name"
                    )
            edits = self._pending_edits[0] if self._pending_edits is not None else None
            spared = (
                find_skipped_passes(self.plan.header, edits)
                if edits is not None
                else self._session_edits.skipped_passes
            ).value_indices
            values = [
                value
                for number, value in enumerate(self.plan.header.values)
                if self._sections_by_texture.get(value.texture, {*sections}) & {*sections}
                if number not in spared
            ]
            if read is not None:
                values = self._requested_values(values, (read,) if isinstance(read, str) else read)
            count = batching.example_count(self.plan.header, arrays)

            def run(batch_inputs: batching.InputArrays) -> dict[str, Array]:
                self._write_inputs(batch_inputs)
                self._call_device(partial(self._run_sections, sections))
                return {value.key: self.read(value.key) for value in values}

            if count is None:
                return run(arrays)
            check_batched_seeds(self._editor.store.edits, self.plan.header.batch, count)
            return batching.run_in_batches(values, arrays, self.plan.header.batch, count, run)

    def _requested_values(self, computed: Sequence[p.Value], keys: Sequence[str]) -> list[p.Value]:
        """The requested values among the computed ones, in the order of the Plan."""
        names = [value.key for value in computed]
        for key in keys:
            if key not in names:
                self._find_value(key)  # raises a specific error for an unknown or skipped key
                raise KeyError(
                    f"read: this run does not compute {key!r}; it computes "
                    f"{', '.join(map(repr, names))}"
                )
        return [value for value in computed if value.key in keys]

    def replace_weights(self, plan: p.Plan) -> None:
        """Take the weights of a Plan that is otherwise identical.

        Only weights that differ are uploaded.

        Args:
            plan: A Plan of the same network, compiled with the same arguments.

        Raises:
            InputError: If the Plan differs in more than its weights.
            SessionClosed: If the Session is closed.
        """
        self.check_open()
        if plan.hash != self.plan.hash:
            raise InputError(
                "replace_weights: the Plan differs in more than its weights. Give a Plan "
                "compiled from the same network with the same arguments"
            )

        def upload() -> None:
            for old, new in zip(self.plan.header.weights, plan.header.weights, strict=True):
                if old.hash != new.hash or new.texture in self._patched_textures:
                    self._upload(new.texture, plan.blobs[new.hash])

        with self._locked():
            self._call_device(upload)
            self._ran_sections.clear()  # values of the old weights must not be committed
            self.plan = plan
            self._patched_textures.clear()

    def patch(self, patches: Sequence[p.Patch]) -> None:
        """Write numbers into rectangles of weight textures; the Plan doesn't change.

        Args:
            patches: The rectangles with their texels.

        Raises:
            SessionClosed: If the Session is closed.
        """

        def upload() -> None:
            for patch in patches:
                x, y, width, height = patch.rectangle
                stored = TEXTURE_DTYPES[self.plan.header.textures[patch.texture].format]
                with np.errstate(over="ignore"):
                    data = np.ascontiguousarray(patch.data, stored)
                self._textures[patch.texture].write(
                    data, viewport=(x, y, patch.layer, width, height, 1)
                )

        with self._locked():
            self._call_device(upload)
            self._ran_sections.clear()
            self._patched_textures.update(patch.texture for patch in patches)

    # Edits

    @property
    def bends(self) -> Bends:
        """All bends in the order in which they apply, indexed by position or name."""
        return self._editor.bends

    @property
    def edits(self) -> tuple[Edit, ...]:
        """All current edits as records, in order: bends and injected values."""
        return self._editor.store.edits

    def bend(
        self,
        layer: str,
        transform: Transform,
        *,
        channels: Any = None,
        mix: float = 1.0,
        name: str | None = None,
        enabled: bool = True,
    ) -> Bend:
        """Add a bend: transform a layer's value, or an input, from the next run on.

        The bend applies where a forward hook on that module would, after earlier bends of the
        layer. All later layers compute with the bent value.

        Args:
            layer: The key of the value.
            transform: A transform of `nbglcnn.transforms`.
            channels: The channels to bend: a number, a slice, a list, or a selection of
                `nbglcnn.channels`. Default: all.
            mix: The weight of the transformed value, from 0 (unbent) to 1 (default).
            name: The name of the bend, unique in `bends`. Default: one derived from the transform.
            enabled: Whether the bend is active. Default: True.

        Returns:
            The bend; its parameters, `mix`, `channels` and `enabled` are traits to set.

        Raises:
            KeyError: If the value doesn't exist or isn't kept.
            InputError: If the value cannot be edited (integers, constants), a channel doesn't
                exist, a number is not valid, or the name is used. Nothing is changed then.

        Example:
            >>> session.bend("0", nbglcnn.transforms.blur(1.5), mix=0.5)
        """
        return self._editor.bend(
            layer, transform, channels=channels, mix=mix, name=name, enabled=enabled
        )

    def inject(self, layer: str, array: Any, *, channels: Any = None) -> None:
        """Replace a layer's value, or some of its channels, by an array, before its bends.

        Args:
            layer: The key of the value.
            array: The array, in the shape of the value or of one example; with `channels`, shape
                (n, channels, h, w).
            channels: The channels to replace. Default: all.

        Raises:
            KeyError: If the value doesn't exist or isn't kept.
            InputError: If the value cannot be edited, or the array doesn't fit.
        """
        self._editor.inject(layer, array, channels=channels)

    def freeze(self, layer: str) -> None:
        """Keep the value of a layer from the last run, before its bends, for all later inputs.

        Args:
            layer: The key of the value.

        Raises:
            KeyError: If the value doesn't exist or isn't kept.
            InputError: If the value cannot be edited.
        """
        self._editor.freeze(layer)

    def release(self, layer: str) -> None:
        """End `inject` or `freeze` of a layer.

        Args:
            layer: The key of the value.

        Raises:
            KeyError: If the value doesn't exist or isn't kept.
            InputError: If the value cannot be edited.
        """
        self._editor.release(layer)

    def undo(self) -> bool:
        """Undo the last change of edits.

        Returns:
            Whether there was a change to undo.
        """
        return self._editor.undo()

    def redo(self) -> bool:
        """Redo the change that was undone last.

        Returns:
            Whether there was a change to redo.
        """
        return self._editor.redo()

    def _handle_edits(self, state: EditSnapshot) -> None:
        self.set_edits(state.edits, self._editor.store.arrays)

    def set_edits(self, edits: Sequence[Edit], arrays: Mapping[str, Array]) -> None:
        """Set all edits of the next run.

        Args:
            edits: The edits, in order.
            arrays: The injected arrays by content hash.

        Raises:
            InputError: If GLSL code doesn't compile. The old edits stay.
        """

        def compile_texts() -> None:
            for stack in build_edit_stacks(self.plan.header, edits):
                for edit in stack.edits:
                    self._session_edits.compile_edit(stack.value, edit)

        with self._locked():
            if any(edit.transform == GLSL for edit in edits):
                self._call_device(compile_texts)
            self._pending_edits = tuple(edits), dict(arrays)

    def close(self) -> None:
        """Free all memory on the device. A second call does nothing.

        A run in another thread finishes first. Later calls raise SessionClosed.
        """
        # At interpreter exit, the device's thread ends before objects are deleted.
        if self._closed or sys.is_finalizing():
            return
        if not self._device.is_own_process:  # the parent owns its resources, and maybe the lock
            self._closed = True
            return
        with self._lock:  # a run in another thread finishes first
            if not self._closed:
                self._closed = True
                self._device.run_on_thread(self._release)

    def _release(self) -> None:
        self._session_edits.release()
        for vertices in self._vertex_arrays:
            vertices.release()
        for texture in self._textures:
            texture.release()
        self._uniforms.release()
        for number in self._framebuffers.values():
            self._device.delete_framebuffer(number)

    def __enter__(self) -> Session:
        self.check_open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
