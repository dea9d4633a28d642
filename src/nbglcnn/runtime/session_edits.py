"""A Session's edits on local OpenGL: their programs, textures and passes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np

from nbglcnn.errors import DeviceError, InputError
from nbglcnn.features.edits import shader as bending
from nbglcnn.features.edits.edit_stacks import (
    EditStack,
    build_edit_stacks,
    edited_texture,
    source_texture,
)
from nbglcnn.features.edits.records import Edit
from nbglcnn.features.edits.skipped_passes import NONE_SKIPPED, SkippedPasses, find_skipped_passes
from nbglcnn.features.edits.transforms import GLSL
from nbglcnn.graph import Array
from nbglcnn.plan import schema as p
from nbglcnn.runtime.device import Device, shared_device

if TYPE_CHECKING:
    import moderngl


# The key of a table of channels is the value's index with its channels; that of an injected array
# is a hash of its numbers.
_TableKey = tuple[int, tuple[int, ...] | None] | bytes


class SessionEdits:
    """The passes of edits, beside the Plan's; all methods run on the device's thread.

    The texture of an edited value keeps the value before its edits. The edited value is in another
    texture, which later passes and reads use instead.
    """

    def __init__(self, device: Device, header: p.Header, textures: list[Any]) -> None:
        self._device = device
        self._header = header
        self._textures = textures  # the Session's list, to which edits append
        self.edited_textures: dict[int, int] = {}  # by index of a value: its texture after edits
        self.skipped_passes: SkippedPasses = NONE_SKIPPED
        self._latent_textures: dict[
            int, int
        ] = {}  # by index of a value: the texture of a latent's value, before bends
        self._edit_passes: dict[int, list[_EditPass]] = {}
        self._texture_pool: dict[
            tuple[int, int], int
        ] = {}  # textures by (index of the value, number)
        # Tables that edits read, by content, and their programs: kept while an edit uses them.
        self._tables: dict[_TableKey, moderngl.TextureArray] = {}
        self._programs: dict[tuple[Any, ...], moderngl.VertexArray] = {}
        self._uniforms: moderngl.Buffer | None = None

    def set_edits(self, edits: Sequence[Edit], arrays: Mapping[str, Array]) -> None:
        """Replace the edits; if GLSL code doesn't compile, raise InputError and keep the old ones.

        A changed parameter only rewrites the uniforms: textures and programs are kept.
        """
        stacks = build_edit_stacks(self._header, edits)
        programs = {
            (stack.value_index, k): self.compile_edit(stack.value, edit)
            for stack in stacks
            for k, edit in enumerate(stack.edits)
        }
        self.edited_textures, self._latent_textures, self._edit_passes = {}, {}, {}
        self.skipped_passes = find_skipped_passes(self._header, edits)
        uniform_data = bytearray()
        contents: list[_TableKey] = []
        for stack in stacks:
            self._add_stack(stack, programs, arrays, uniform_data, contents)
        used = set(programs.values())
        _release_unused(self._programs, [key for key, one in self._programs.items() if one in used])
        _release_unused(self._tables, contents)
        self._write_uniforms(bytes(uniform_data))

    def input_textures(self, step: p.Pass) -> Sequence[int]:
        """The textures that a pass of the Plan reads, with those of edited values substituted."""
        if not self.edited_textures or not step.input_values:
            return step.inputs
        pairs = zip(step.inputs, step.input_values, strict=True)
        return [
            t if v < 0 else edited_texture(self._header, v, self.edited_textures) for t, v in pairs
        ]

    def value_texture(self, number: int, *, before_edits: bool = False) -> int:
        """The texture of a value, after or before its edits."""
        if before_edits and number in self._latent_textures:
            return self._latent_textures[number]
        find = source_texture if before_edits else edited_texture
        return find(self._header, number, self.edited_textures)

    def passes_after(self, pass_index: int) -> Sequence[_EditPass]:
        """The passes of edits to draw after a pass of the Plan; -1: before the first one."""
        return self._edit_passes.get(pass_index, ())

    @property
    def uniform_buffer(self) -> moderngl.Buffer:
        """The uniform blocks of all passes of edits."""
        assert self._uniforms is not None
        return self._uniforms

    def release(self) -> None:
        """Free the resources of edits, except textures, which the Session frees."""
        self.edited_textures, self._latent_textures, self._edit_passes, self.skipped_passes = (
            {},
            {},
            {},
            NONE_SKIPPED,
        )
        _release_unused(self._programs, ())
        _release_unused(self._tables, ())
        self._write_uniforms(b"")

    def _write_uniforms(self, uniform_data: bytes) -> None:
        """Write the uniform blocks of all passes of edits; reuse a buffer of the same size."""
        if self._uniforms is not None and self._uniforms.size == len(uniform_data):
            self._uniforms.write(uniform_data)
            return
        if self._uniforms is not None:
            self._uniforms.release()
        self._uniforms = self._device.context.buffer(uniform_data) if uniform_data else None

    def compile_edit(self, value: p.Value, edit: Edit) -> moderngl.VertexArray:
        """The compiled program of an edit; InputError if user code doesn't compile."""
        layers = self._header.textures[value.texture].layers
        key = layers, bending.is_reshaped(value), edit.transform, edit.source, edit.parameter_names
        if key in self._programs:
            return self._programs[key]
        record = bending.bend_program(*key)
        try:
            made = self._device.compiled_program(record)
        except DeviceError as error:
            if edit.transform != GLSL:
                raise
            raise InputError(
                f"transforms.glsl({edit.source!r}) does not compile; the edits are unchanged: "
                f"{str(error.__cause__).strip()}"
            ) from None
        for unit, name in enumerate(record.samplers):
            if name in made:
                made[name] = unit
        if "Pass" in made:
            made["Pass"].binding = 0  # type: ignore[union-attr]
        self._programs[key] = self._device.context.vertex_array(made, [])
        return self._programs[key]

    def _add_stack(
        self,
        stack: EditStack,
        programs: Mapping[tuple[int, int], moderngl.VertexArray],
        arrays: Mapping[str, Array],
        uniform_data: bytearray,
        table_keys: list[_TableKey],
    ) -> None:
        value, steps = stack.value, self._edit_passes.setdefault(stack.value.edit_pass, [])
        before = source_texture(self._header, stack.value_index, self.edited_textures)
        viewport = value.layout.drawn
        for k, edit in enumerate(stack.edits):
            # The final result and a latent's keep their textures; other results alternate between
            # two more.
            last = k == len(stack.edits) - 1
            target = self._pooled_texture(
                stack, 4 if edit.skips_upstream else 0 if last else 1 + k % 2
            )
            if edit.skips_upstream:
                self._latent_textures[stack.value_index] = target
            table_key: _TableKey = stack.value_index, edit.channels
            array = table = self._upload_table(
                table_key, partial(bending.channel_table, value, edit.channels)
            )
            table_keys.append(table_key)
            if edit.array_hash:
                texels = bending.pack_texels(arrays[edit.array_hash])
                # Keyed by contents, not by `array_hash`: a latent's array has one name for every
                # code.
                data_digest = blake2b(texels.data).digest()
                array = self._upload_table(data_digest, partial(np.asarray, texels))
                table_keys.append(data_digest)
            source = before
            for stage in range(bending.pass_count(edit)):
                last = stage == bending.pass_count(edit) - 1
                output = target if last else self._pooled_texture(stack, 3)
                steps.append(
                    _EditPass(
                        programs[stack.value_index, k],
                        (source, before),
                        (table, array),
                        output,
                        len(uniform_data),
                        viewport,
                    )
                )
                uniform_data += bending.uniform_block(value, edit, stage)
                source = output
            before = target
        self.edited_textures[stack.value_index] = before

    def _pooled_texture(self, stack: EditStack, number: int) -> int:
        """A texture for the values of a stack, created on first use."""
        key = stack.value_index, number
        if key not in self._texture_pool:
            old = self._textures[stack.value.texture]
            made = self._device.context.texture_array(old.size, 4, dtype=old.dtype)
            made.filter = old.filter
            made.repeat_x = made.repeat_y = False
            self._textures.append(made)
            self._texture_pool[key] = len(self._textures) - 1
        return self._texture_pool[key]

    def _upload_table(
        self, table_key: _TableKey, make_table: Callable[[], p.Float32]
    ) -> moderngl.TextureArray:
        """The texture with these contents, created on first use."""
        if table_key in self._tables:
            return self._tables[table_key]
        data = make_table()
        height, width, _ = data.shape
        context = self._device.context
        made = context.texture_array((width, height, 1), 4, np.ascontiguousarray(data), dtype="f4")
        made.filter = (context.NEAREST, context.NEAREST)
        self._tables[table_key] = made
        return made


def _release_unused(objects: dict[Any, Any], used_keys: Collection[Any]) -> None:
    """Release and remove all objects except those with these keys."""
    for key in [one for one in objects if one not in used_keys]:
        objects.pop(key).release()


def check_glsl_edits(header: p.Header, edits: Sequence[Edit]) -> None:
    """Compile all GLSL edits; InputError if one fails, OpenGLUnavailable without OpenGL."""
    device = shared_device()

    def compile_all() -> None:
        own = SessionEdits(device, header, [])
        for stack in build_edit_stacks(header, edits):
            for edit in stack.edits:
                own.compile_edit(stack.value, edit)
        own.release()

    device.run_on_thread(compile_all)


class _EditPass:
    """One render pass of an edit."""

    __slots__ = ("inputs", "output", "program", "tables", "uniforms", "viewport")

    def __init__(
        self,
        program: moderngl.VertexArray,
        inputs: tuple[int, int],
        tables: tuple[moderngl.TextureArray, moderngl.TextureArray],
        output: int,
        uniforms: int,
        viewport: tuple[int, int],
    ) -> None:
        self.program, self.inputs, self.tables = program, inputs, tables
        self.output, self.uniforms, self.viewport = output, uniforms, viewport
