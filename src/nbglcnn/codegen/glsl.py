"""GLSL text: the prelude, a kernel's constants, and how the parts are put together."""

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
# What all loops of a fragment may go round together: Mesa's llvmpipe ends them after 65,535
# rounds, without a word (LP_MAX_TGSI_LOOP_ITERATIONS), and systems reset a graphics card that takes
# seconds.
MAX_LOOP_ITERATIONS = 60_000


def loop_iterations(*lengths: int) -> int:
    """How often loops inside each other go round altogether, the outermost first.

    Each goes round once more, to find that it has ended, and that counts in llvmpipe's limit too.
    """
    found = 0
    for length in reversed(lengths):
        found = 1 + length * (1 + found)
    return found


def loop_problem(iterations: int) -> str | None:
    """Why a fragment has no time for loops that go round so often; None where it has."""
    if iterations <= MAX_LOOP_ITERATIONS:
        return None
    return (
        f"its loops would run {iterations:,} iterations per fragment; at most "
        f"{MAX_LOOP_ITERATIONS:,} are supported"
    )


@cache
def shader_source(name: str) -> str:
    """The text of one file in nbglcnn/ops/shaders."""
    return files("nbglcnn").joinpath("ops", "shaders", name).read_text("utf-8")


@dataclass(frozen=True, slots=True)
class FragmentShader:
    """A fragment shader's own text.

    With `has_pixel_function` true the text defines `vec4 pixel(ivec4 at)` and
    shaders/pixel_main.glsl supplies main(); otherwise it defines main() and writes
    o0 .. o(LAYERS-1) itself. `uniform_slots` declares the numbers that a pass gives it
    (codegen/uniform_slots.py).
    """

    name: str
    source: str
    has_pixel_function: bool = True
    uniform_slots: str = ""


def uniform_slots_of(
    kernel: FragmentShader, parts: Sequence[str | GlslFunction]
) -> tuple[UniformSlot, ...]:
    """The uniform slots of a kernel and of the functions that it calls."""
    own = (part.uniform_slots for part in parts if isinstance(part, GlslFunction))
    return parse_slots(";".join([kernel.uniform_slots, *own]))


def program_source(
    shader: FragmentShader,
    samplers: Sequence[str],
    layout: Layout,
    constants: Mapping[str, int],
    functions: Sequence[str | GlslFunction] = (),
) -> str:
    """The whole shader without its #version line.

    Structure is #defined: the output's, from its `layout`, and the kernel's `constants`. Shapes
    come in uniforms. `functions` are GLSL functions the kernel calls, such as the activation of an
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


VERTEX_SHADER = shader_source("vertex.glsl")
