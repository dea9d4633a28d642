"""GLSL text: the prelude, a kernel's constants, and the assembly of the parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from nbglcnn.codegen.uniform_slots import GlslFunction, UniformSlot, parse_slots
from nbglcnn.codegen.weights import COLUMN_GROUPS
from nbglcnn.plan.layout import Layout

# For shaders that read or write weight textures.
COLUMN_GROUPS_GLSL = f"const int COLUMN_GROUPS = {COLUMN_GROUPS};"
MAX_FAST_DIVIDEND = 2**20  # prelude.glsl's over() is exact up to here
# The most iterations of all loops of a fragment together: Mesa's llvmpipe silently ends them after
# 65,535 iterations (LP_MAX_TGSI_LOOP_ITERATIONS), and systems reset a graphics card that is busy
# for seconds.
MAX_LOOP_ITERATIONS = 60_000


def loop_iterations(*lengths: int) -> int:
    """Return the total number of iterations of nested loops, the outermost first.

    The last test of a loop's condition counts as an iteration, as it does in llvmpipe's limit.
    """
    found = 0
    for length in reversed(lengths):
        found = 1 + length * (1 + found)
    return found


def loop_problem(iterations: int) -> str | None:
    """Return the reason why a fragment cannot run so many loop iterations, or None."""
    if iterations <= MAX_LOOP_ITERATIONS:
        return None
    return (
        f"its loops would run {iterations:,} iterations per fragment; at most "
        f"{MAX_LOOP_ITERATIONS:,} are supported"
    )


@cache
def shader_source(name: str) -> str:
    """Return the text of a file in nbglcnn/ops/shaders."""
    return files("nbglcnn").joinpath("ops", "shaders", name).read_text("utf-8")


@dataclass(frozen=True, slots=True)
class FragmentShader:
    """The source of a fragment shader.

    If `has_pixel_function` is true, the source defines `vec4 pixel(ivec4 at)` and
    shaders/pixel_main.glsl supplies main(); otherwise it defines main() and writes o0 ..
    o(LAYERS-1) itself. `uniform_slots` declares the numbers that a pass sets
    (codegen/uniform_slots.py).
    """

    name: str
    source: str
    has_pixel_function: bool = True
    uniform_slots: str = ""


def uniform_slots_of(
    shader: FragmentShader, functions: Sequence[str | GlslFunction]
) -> tuple[UniformSlot, ...]:
    """Return the uniform slots of a kernel and of the functions that it calls."""
    own = (part.uniform_slots for part in functions if isinstance(part, GlslFunction))
    return parse_slots(";".join([shader.uniform_slots, *own]))


def program_source(
    shader: FragmentShader,
    samplers: Sequence[str],
    layout: Layout,
    constants: Mapping[str, int],
    functions: Sequence[str | GlslFunction] = (),
) -> str:
    """Return the whole shader without its #version line.

    The structure is #defined: the output's, from its `layout`, and the kernel's `constants`. Shapes
    are uniforms. `functions` are GLSL functions that the kernel calls, such as the activation of an
    epilogue.
    """
    bn, by, bx = layout.block
    layers = bn * by * bx
    numbers = {
        **{"BN": bn, "BY": by, "BX": bx, "LAYERS": layers},
        "PHASED": int(layout.phases != (1, 1)),
        "WHOLE": int(
            layout.nchw[1] % 4 == 0 and layout.tiles % layout.columns == 0 and not layout.max_side
        ),
        "MANY": int(layout.tiles > MAX_FAST_DIVIDEND),
        **constants,
    }
    return "\n".join(
        [
            *(f"#define {name} {value}" for name, value in numbers.items()),
            *(slot.macro() for slot in uniform_slots_of(shader, functions)),
            shader_source("prelude.glsl"),
            *(f"uniform sampler2DArray {name};" for name in samplers),
            *(f"layout(location = {k}) out vec4 o{k};" for k in range(layers)),
            *(part if isinstance(part, str) else part.source for part in functions),
            shader.source,
            *([shader_source("pixel_main.glsl")] if shader.has_pixel_function else []),
        ]
    )


VERTEX_GLSL = shader_source("vertex.glsl")
