"""Matrix products: 1×1 convolutions if one matrix serves all rows, else batched products."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nbglcnn.codegen.builder import Builder, Tensor
from nbglcnn.codegen.glsl import (
    MAX_LOOP_ITERATIONS,
    FragmentShader,
    loop_iterations,
    loop_problem,
    shader_source,
)
from nbglcnn.codegen.strided import gather_strided
from nbglcnn.codegen.uniform_slots import GlslFunction
from nbglcnn.codegen.weights import MAX_KERNEL_ROWS, split_kernel_texture
from nbglcnn.errors import UnsupportedModel
from nbglcnn.graph import Node
from nbglcnn.ops import matmul_gradient as gradients
from nbglcnn.ops.axes import merge_axes, pad_rank
from nbglcnn.ops.broadcast import ADD_GLSL
from nbglcnn.ops.conv import (
    DENSE_CONV_SHADER,
    Convolution,
    channel_group_ranges,
    draw_convolution,
    pack_computed_kernel,
)
from nbglcnn.ops.elementwise import Operand, broadcast_shape, draw_elementwise, operands_of
from nbglcnn.ops.norm import draw_batch_norm
from nbglcnn.ops.operator import (
    KnownValues,
    Operator,
    Shape,
    any_value,
    float_attr,
    has_input,
    int_attr,
    numel,
    one_of,
)
from nbglcnn.ops.pointwise import IDENTITY_FUNCTION, POINTWISE_SHADER, activation_of
from nbglcnn.ops.receptive_field import OperatorField, elementwise_fields, same_position
from nbglcnn.ops.window import SlidingWindow
from nbglcnn.plan.layout import NCHW
from nbglcnn.plan.schema import AxisWindow

MATMUL_SHADER = FragmentShader(
    "matmul",
    shader_source("matmul.glsl"),
    has_pixel_function=False,
    uniform_slots="int inner; ivec4 lengths, left, right",
)
MAX_INNER_LENGTH = 4 * MAX_LOOP_ITERATIONS  # for a product of two computed matrices
UNIT_WINDOW = SlidingWindow((1, 1), (1, 1), (1, 1), (0, 0), (0, 0), (1, 1))
PLAIN_CONV_CONSTANTS = {"TRANSPOSED": 0, "BIAS": 0, "RESIDUAL": 0, "DEPTH": 0, "DEPTHWISE": 0}
SCALED_ADD_FUNCTION = GlslFunction(
    "vec4 combine(vec4 a, vec4 c) { return a + u_scale * c; }", "float scale"
)


def is_product_of_rows(facts: KnownValues, node: Node) -> bool:
    """Whether a MatMul multiplies all rows of its left operand by one matrix."""
    _, w = _matrix_shapes(facts, node)
    return len(w) == 2 or (
        math.prod(w[:-2]) == 1 and facts.constant_data(node.inputs[1]) is not None
    )


def _draw_product_of_rows(
    b: Builder, node: Node, rows: int, outputs: int, transpose: bool, bias: str = ""
) -> None:
    """Multiply rows by a matrix: a convolution that reads each row as an image.

    Maps that were flattened into rows are read in place, by a kernel as large as the map. For more
    than two rows, a copy with four rows side by side is worth its pass.
    """
    inner = numel(b.shape(node.inputs[0])) // rows
    nchw: NCHW = (rows, inner, 1, 1)
    if rows <= 2 and (not transpose or b.constant_data(node.inputs[1]) is not None):
        n, c, h, w = b.stored_tensor(node.inputs[0]).layout.nchw
        layers = split_kernel_texture(c, outputs, h * w)[1]
        if n == rows and h * w <= MAX_KERNEL_ROWS and layers <= b.target.max_array_layers:
            nchw = (n, c, h, w)
    kernel = nchw[2:]
    window = SlidingWindow(kernel, (1, 1), (1, 1), (0, 0), (0, 0), (1, 1))
    packing = {"transpose": transpose, "factor": float_attr(node, "alpha", 1.0)}
    shape = (outputs, nchw[1], *kernel)
    conv = Convolution(node, nchw, window, 1, outputs, shape, pack_options=packing)
    draw_convolution(b, conv, bias, float_attr(node, "beta", 1.0))


def _draw_product(
    b: Builder, x: Operand, matrix: Tensor, strides: tuple[int, int], outputs: int, factor: float
) -> Tensor:
    """Multiply `x` by a computed matrix with element (k, j) at k · steps[0] + j · steps[1]."""
    rows, inner = x.shape
    in_groups, out_groups = -(-inner // 4), -(-outputs // 4)
    packed = pack_computed_kernel(b, matrix, inner, outputs, strides, factor=factor)
    each, sheets = split_kernel_texture(inner, outputs, 1)
    nchw: NCHW = (rows, outputs, 1, 1)
    block = b.choose_block(nchw)
    output = b.create_scratch_tensor(b.layout(nchw, block))
    lying, done = x.to_nchw(b, (rows, inner, 1, 1), block), b.zero_tensor()
    for begin, end in channel_group_ranges(in_groups, 1):
        sum_of = output if end == in_groups else b.create_scratch_tensor(output.layout)
        b.draw(
            DENSE_CONV_SHADER, sum_of, [lying, b.zero_tensor(), done], [packed],
            uniforms={
                **UNIT_WINDOW.uniforms((1, 1)), "inputs": in_groups, "outputs": out_groups,
                "taps": 1, "lines": each, "begin": begin, "end": end,
            },
            constants={**PLAIN_CONV_CONSTANTS, "SHEETS": int(sheets > 1), "RESIDUAL": 2 if begin
                else 0},
            functions=[IDENTITY_FUNCTION], fetches=8 * (end - begin) + 8,
        )  # fmt: skip
        done = sum_of
    return output


def _gemm_sizes(facts: KnownValues, node: Node) -> tuple[int, int, int]:
    a, w = facts.shape(node.inputs[0]), facts.shape(node.inputs[1])
    rows, inner = a[::-1] if int_attr(node, "transA", 0) else a
    outputs = w[0] if int_attr(node, "transB", 0) else w[1]
    return rows, inner, outputs


def _lower_gemm(b: Builder, node: Node) -> None:
    rows, inner, outputs = _gemm_sizes(b, node)
    turned, transposed = bool(int_attr(node, "transA", 0)), bool(int_attr(node, "transB", 0))
    bias = node.inputs[2] if has_input(node, 2) else ""
    one_each = not bias or (
        b.constant_data(bias) is not None
        and numel(b.shape(bias)) == outputs
        and b.shape(bias)[-1:] in ((), (outputs,))
    )
    if one_each and not turned:
        _draw_product_of_rows(b, node, rows, outputs, not transposed, bias)
        return
    (x, w) = operands_of(b, *node.inputs[:2])
    if turned:
        nchw: NCHW = (rows, inner, 1, 1)
        layout = b.layout(nchw, b.choose_block((rows, outputs, 1, 1)))
        x = Operand(
            (rows, inner), tensor=gather_strided(b, x.stored_tensor(b), layout, nchw[:2], (1, rows))
        )
    steps = (1, inner) if transposed else (outputs, 1)
    factor = float_attr(node, "alpha", 1.0)
    result = Operand(
        (rows, outputs), tensor=_draw_product(b, x, w.stored_tensor(b), steps, outputs, factor)
    )
    if bias:
        added = operands_of(b, bias)[0]
        numbers = {"scale": float_attr(node, "beta", 1.0)}
        result = Operand(
            result.shape,
            tensor=draw_elementwise(b, [result, added], SCALED_ADD_FUNCTION, uniforms=numbers),
        )
    _draw_epilogue(b, node, result)


def _draw_epilogue(b: Builder, node: Node, result: Operand) -> None:
    """Apply the fused epilogue of a product that isn't a convolution, one pass per node."""
    epilogue = b.epilogue(node)
    if epilogue.normalization is not None:
        tensor = draw_batch_norm(b, epilogue.normalization, result)
        result = Operand(result.shape, tensor=tensor)
    if epilogue.residual_name:
        operands = [result, *operands_of(b, epilogue.residual_name)]
        result = Operand(result.shape, tensor=draw_elementwise(b, operands, ADD_GLSL))
    tensor = result.stored_tensor(b)
    if epilogue.activation is not None:
        function, numbers = activation_of(b, epilogue.activation)
        output = b.create_scratch_tensor(tensor.layout)
        b.draw(
            POINTWISE_SHADER, output, [tensor], uniforms=numbers, functions=[function], fetches=4
        )
        tensor = output
    b.bind(epilogue.output_name, tensor)


def _gemm_problem(facts: KnownValues, node: Node) -> str | None:
    a, w = facts.shape(node.inputs[0]), facts.shape(node.inputs[1])
    if len(a) != 2 or len(w) != 2:
        return f"inputs of shapes {a} and {w}; expected matrices"
    rows, inner, outputs = _gemm_sizes(facts, node)
    other = w[1] if int_attr(node, "transB", 0) else w[0]
    if inner != other:
        return f"a product of {rows}×{inner} and {other}×{outputs}"
    if has_input(node, 2):
        c = facts.shape(node.inputs[2])
        if broadcast_shape(c, (rows, outputs)) != (rows, outputs):
            return f"C of shape {c} cannot be broadcast to {rows}×{outputs}"
    return None


def _gemm_shape(facts: KnownValues, node: Node) -> Sequence[Shape]:
    rows, _, outputs = _gemm_sizes(facts, node)
    return [(rows, outputs)]


def _gemm_macs(facts: KnownValues, node: Node) -> int:
    return math.prod(_gemm_sizes(facts, node))


def _matrix_shapes(facts: KnownValues, node: Node) -> tuple[Shape, Shape]:
    """The operands' shapes, with a vector as a row on the left or a column on the right."""
    a, w = facts.shape(node.inputs[0]), facts.shape(node.inputs[1])
    return a if len(a) > 1 else (1, *a), w if len(w) > 1 else (*w, 1)


def _batch_axes(a: Shape, w: Shape) -> tuple[Shape, list[tuple[int, int]]]:
    """The lengths of the batch axes, merged where possible, and their strides in both operands."""
    batch = broadcast_shape(a[:-2], w[:-2])
    own = [pad_rank(shape[:-2], len(batch)) for shape in (a, w)]
    axes = merge_axes(batch, [(x == d, y == d) for d, x, y in zip(batch, *own, strict=True)])
    steps: list[tuple[int, int]] = []
    left = right = 1
    for length, (in_a, in_w) in reversed(axes):
        steps.insert(0, (left * in_a, right * in_w))
        left, right = left * (length if in_a else 1), right * (length if in_w else 1)
    return tuple(length for length, _ in axes), steps


def _lower_matmul(b: Builder, node: Node) -> None:
    a, w = _matrix_shapes(b, node)
    rows, inner, columns = a[-2], a[-1], w[-1]
    if is_product_of_rows(b, node):
        rows = math.prod(a[:-1])
        transpose = len(b.shape(node.inputs[1])) > 1
        _draw_product_of_rows(b, node, rows, columns, transpose, b.epilogue(node).bias_name)
        return
    lengths, steps = _batch_axes(a, w)
    missing = 4 - len(lengths)
    left, right = (
        Operand(a, node.inputs[0]).to_nchw(b, (math.prod(a[:-2]), rows, 1, inner)),
        Operand(w, node.inputs[1]).to_nchw(b, (math.prod(w[:-2]), inner, 1, columns)),
    )
    block = (1, 1, 4) if columns > 2 else (1, 1, columns)  # set by the kernel: columns of a matrix
    output = b.create_scratch_tensor(b.layout((math.prod(lengths), rows, 1, columns), block))
    aligned = left.layout.block[2] == 4 and left.layout.phases == (1, 1)
    groups = -(-inner // 4)  # grouped into runs, each a row of tiles or the rest of one
    runs = min(groups, groups // right.layout.columns + 2)
    if problem := loop_problem(groups + loop_iterations(runs, 0)):
        raise UnsupportedModel(
            f"{b.layer_label()}: a product of {rows}×{inner} and {inner}×{columns}: {problem}. "
            "Split it into smaller products, and add them"
        )
    b.draw(
        MATMUL_SHADER, output, [left, right],
        uniforms={
            "inner": inner,
            "lengths": (*[1] * missing, *lengths),
            "left": (*[0] * missing, *(step for step, _ in steps)),
            "right": (*[0] * missing, *(step for _, step in steps)),
        },
        constants={"ALIGNED": int(aligned)}, fetches=-(-inner // 4) * (4 + block[2]),
    )  # fmt: skip
    b.bind(node.outputs[0], output)


def _matmul_shape(facts: KnownValues, node: Node) -> Sequence[Shape]:
    a, w = _matrix_shapes(facts, node)
    batch = broadcast_shape(a[:-2], w[:-2])
    first = a[-2:-1] if len(facts.shape(node.inputs[0])) > 1 else ()
    second = w[-1:] if len(facts.shape(node.inputs[1])) > 1 else ()
    return [(*batch, *first, *second)]


def _matmul_problem(facts: KnownValues, node: Node) -> str | None:
    if not all(map(facts.shape, node.inputs)):
        return "a scalar operand; expected vectors, matrices or batches of them"
    a, w = _matrix_shapes(facts, node)
    if a[-1] != w[-2]:
        return f"a product of {a[-2]}×{a[-1]} and {w[-2]}×{w[-1]}"
    if a[-1] > MAX_INNER_LENGTH:
        return f"sums of {a[-1]:,} products; at most {MAX_INNER_LENGTH:,} are supported"
    try:
        lengths, _ = _batch_axes(a, w)
    except ValueError as error:
        return str(error)
    if len(lengths) > 4:
        return f"batch axes {a[:-2]} and {w[:-2]}; at most 4 that alternate are supported"
    return None


def _matmul_macs(facts: KnownValues, node: Node) -> int:
    a, _ = _matrix_shapes(facts, node)
    return numel(_matmul_shape(facts, node)[0]) * a[-1]


def _gemm_receptive_fields(
    facts: KnownValues, node: Node, output_index: int
) -> list[OperatorField | None]:
    found = elementwise_fields(facts, node, output_index)  # used for the bias
    shape = facts.shape(node.outputs[output_index])
    for k, name in enumerate(("transA", "transB")):
        sides: list[AxisWindow | None] = (
            [same_position(0), None] if k == 0 else [None, same_position(1)]
        )
        if int_attr(node, name, 0):
            sides.reverse()
        found[k] = OperatorField(shape, facts.shape(node.inputs[k]), tuple(sides))
    return found


def _matmul_receptive_fields(
    facts: KnownValues, node: Node, output_index: int
) -> list[OperatorField | None]:
    """Rows of the first operand by columns of the second; batch axes are broadcast."""
    shape = facts.shape(node.outputs[output_index])
    sources = [facts.shape(name) for name in node.inputs]
    batch = max(max(map(len, sources)) - 2, 0)
    found: list[OperatorField | None] = []
    for k, source in enumerate(sources):
        before = len(source) - 2
        links: list[AxisWindow | None] = [
            same_position(i + batch - before) if source[i] == shape[i + batch - before] else None
            for i in range(before)
        ]
        if len(source) == 1:
            links = [None]
        else:
            # The remaining axes of a row and of a column follow the batch axes, in this order.
            at = batch if k == 0 or len(sources[0]) == 1 else batch + 1
            links += [same_position(at), None] if k == 0 else [None, same_position(at)]
        found.append(OperatorField(shape, source, tuple(links)))
    return found


OPERATORS = [
    Operator("Gemm", "A fully connected layer: the input's rows times a matrix, plus a bias.",
             _gemm_shape, _lower_gemm,
             {"alpha": any_value, "beta": any_value, "transA": one_of(0, 1),
              "transB": one_of(0, 1)},
             _gemm_problem, _gemm_macs, role="head", receptive_field=_gemm_receptive_fields,
             explanation="matrix",
             formula=None, bounds=None, caption=None, shape_inputs=(), gradient=gradients.gemm),
    Operator("MatMul", "The product of matrices, or of batches of them.", _matmul_shape,
             _lower_matmul,
             {}, _matmul_problem, _matmul_macs, role="head",
             receptive_field=_matmul_receptive_fields,
             explanation="matrix", formula=None, bounds=None, caption=None, shape_inputs=(),
             gradient=gradients.matmul),
]  # fmt: skip
