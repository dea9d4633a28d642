"""Handwritten Plans that carry a tensor in one layout: in by unflatten, out by flatten."""

from typing import Any

import numpy as np

from nbglcnn.codegen.builder import (
    FLATTEN_SHADER,
    FLATTEN_STRIPS_SHADER,
    UNFLATTEN_SHADER,
    WIDTH_SLOT,
    row_major_texture_size,
)
from nbglcnn.codegen.glsl import program_source
from nbglcnn.codegen.uniform_slots import parse_slots, write_uniforms
from nbglcnn.lowering.lower import flatten_constants
from nbglcnn.plan import schema as p
from nbglcnn.plan.layout import NCHW, Layout

RANDOM = np.random.default_rng(3)
LAYOUTS = {
    "one channel": Layout((1, 1, 4, 6)),
    "odd": Layout((1, 3, 5, 7)),
    "2x2 pixels": Layout((2, 5, 13, 19), (1, 2, 2)),
    "4 images": Layout((6, 3, 5, 4), (4, 1, 1)),
    "2 images": Layout((3, 9, 1, 1), (2, 1, 1)),
    "quadrants": Layout((1, 10, 9, 11), (1, 1, 1), (2, 2)),
    "quadrants of 2x2 pixels": Layout((2, 6, 10, 14), (1, 2, 2), (2, 2)),
    "vector": Layout((2, 513, 1, 1)),
    "line": Layout((1, 3, 1, 1001), (1, 1, 4)),
    "column": Layout((1, 3, 301, 1), (1, 4, 1)),
    "rows of tiles": Layout((1, 130, 3, 130), (1, 2, 2)),
    "large map": Layout((1, 2, 150, 210), (1, 2, 2)),
    "line in strips": Layout((2, 5, 1, 1001), (1, 1, 4), max_side=64),
    "map in strips below each other": Layout((1, 6, 11, 300), (1, 2, 2), max_side=100),
    "map in strips beside each other": Layout((2, 3, 400, 5), (1, 2, 2), max_side=90),
    "quadrants in strips": Layout((1, 3, 6, 301), (1, 1, 1), (2, 2), max_side=64),
}


def uniform_block(
    output: Layout | None, input_layout: Layout | None = None, width: int = 0
) -> bytes:
    """The uniforms of one pass: `struct Layout` o, x[0]..x[3], then ivec4 i[8] and vec4 f[4]."""
    words = np.zeros(p.UNIFORM_BYTES // 4, "<i4")
    words[:16] = output.to_words() if output else 0
    words[16:32] = input_layout.to_words() if input_layout else 0
    write_uniforms(words, parse_slots(WIDTH_SLOT), {"width": width})
    return words.tobytes()


def layout_plan(layout: Layout, nchw: NCHW | None = None, **fields: Any) -> p.Plan:
    """A Plan whose input "x" is its value "x", displayed as `nchw`, by default the layout's own.

    `fields` override header fields.
    """
    count = int(np.prod(layout.nchw))
    width, height = row_major_texture_size(count)
    uniforms = uniform_block(layout, None, width) + uniform_block(None, layout, width)
    layers = layout.size[2]
    cut = {"WRAPPED": layout.max_side} if layout.max_side else {}
    flatten = FLATTEN_STRIPS_SHADER if cut else FLATTEN_SHADER
    programs = (
        p.Program(
            "unflatten",
            program_source(UNFLATTEN_SHADER, ["x0"], layout, cut),
            ("x0",),
            layers,
        ),
        p.Program(
            "flatten",
            program_source(flatten, ["x0"], Layout((1, 1, 1, 1)), cut or flatten_constants(layout)),
            ("x0",),
            1,
        ),
    )
    staging, value, out = 0, 1, 2
    read = p.Readback(p.Pass(1, (value,), out, p.UNIFORM_BYTES, (width, height)), count)
    header = p.Header(
        version=p.VERSION,
        language="glsl-es-300",
        name="carrier",
        observe="all",
        target=p.Target(),
        textures=(
            p.Texture(width, height, 1),
            p.Texture(*layout.size),
            p.Texture(width, height, 1),
        ),
        programs=programs,
        passes=(),
        sections=(p.Section("forward", 0, 0),),
        weights=(),
        inputs=(
            p.Input(
                "x",
                layout.nchw,
                "float32",
                staging,
                p.Pass(0, (staging,), value, 0, layout.size[:2]),
            ),
        ),
        values=(
            p.Value(
                "x",
                "input",
                layout.nchw,
                nchw or layout.nchw,
                "float32",
                value,
                layout,
                layout.to_words(),
                read,
            ),
        ),
        parameters=(),
        outputs=("x",),
        layers=(),
        uniform_bytes=len(uniforms),
        batch=layout.nchw[0],
    )
    return p.Plan(p.msgspec.structs.replace(header, **fields), uniforms, {})


def special_values(shape: tuple[int, ...]) -> np.ndarray:
    """Random values of both signs, zeros, NaN and infinities; the last channel is all NaN."""
    array = RANDOM.standard_normal(shape).astype(np.float32) * 3
    array[RANDOM.random(shape) < 0.2] = 0
    array[RANDOM.random(shape) < 0.05] = np.nan
    array[RANDOM.random(shape) < 0.05] = np.inf
    array[RANDOM.random(shape) < 0.05] = -np.inf
    if shape[1] > 1:
        array[:, -1] = np.nan
        array[:, -1, 0, 0] = np.inf
    return array
