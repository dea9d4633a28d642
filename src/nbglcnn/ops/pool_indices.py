"""The position of the maximum of each window of a pool."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nbglcnn.codegen.builder import Builder, Tensor
from nbglcnn.codegen.glsl import FragmentShader, loop_iterations, loop_problem, shader_source
from nbglcnn.ops.operator import Shape
from nbglcnn.ops.window import WINDOW_SLOTS, SlidingWindow
from nbglcnn.plan.layout import NCHW

POOL_INDICES_SHADER = FragmentShader(
    "pool_indices",
    shader_source("nan.glsl") + shader_source("volume_rows.glsl")
    + shader_source("pool_indices.glsl"),
    uniform_slots=f"{WINDOW_SLOTS}; ivec3 steps",
)  # fmt: skip


def draw_indices(
    b: Builder,
    x: Tensor,
    window: SlidingWindow,
    spatial: Shape,
    output: Tensor,
    steps: Sequence[int],
    *,
    in_map: bool,
) -> None:
    """Fill `output` with indices into the whole input, or with `in_map` into one map.

    `steps` are the index increments along the spatial axes.
    """
    b.draw(
        POOL_INDICES_SHADER, output, [x],
        uniforms={**window.uniforms(spatial), "steps": [0, 0, *steps][-3:]},
        constants={"DEPTH": int(window.is_3d), "IN_MAP": int(in_map)},
        fetches=4 * math.prod(window.kernel),
    )  # fmt: skip


def draw_map_indices(
    b: Builder, x: Tensor, window: SlidingWindow, spatial: Shape, nchw: NCHW
) -> Tensor:
    """The index within its map of each window's maximum, as a tensor of this nchw."""
    layout = b.layout(nchw)
    if loop_problem(math.prod(layout.block) * loop_iterations(*window.kernel)):
        layout = b.layout(nchw, (1, 1, 1))
    output = b.create_scratch_tensor(layout)
    steps = [math.prod(spatial[k + 1 :]) for k in range(len(spatial))]
    draw_indices(b, x, window, spatial, output, steps, in_map=True)
    return output
