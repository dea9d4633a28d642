"""Graph to Plan: shapes, checks, fusion, passes, textures and their reuse."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import get_args

import msgspec

from nbglcnn.codegen.builder import (
    FLATTEN_SHADER,
    FLATTEN_STRIPS_SHADER,
    FLATTEN_TEXELS_SHADER,
    Builder,
    Tensor,
    row_major_texture_size,
)
from nbglcnn.codegen.edit_targets import filter_shared_edits
from nbglcnn.codegen.glsl import COLUMN_GROUPS_GLSL, FragmentShader, shader_source
from nbglcnn.codegen.weights import BATCHNORM_PACKERS, pack_weight, split_kernel_texture
from nbglcnn.errors import InputError, unknown_name_message
from nbglcnn.graph import Graph, Node, ValueKey, batch_size, check_observe
from nbglcnn.lowering.batch_axes import BatchAxes
from nbglcnn.lowering.display_kinds import DisplayKinds
from nbglcnn.lowering.fusion import fuse, has_positive_variance
from nbglcnn.lowering.layers import (
    default_picture_fit,
    find_planes,
    layer_index_by_key,
    layer_table,
    originals_of_reshaped,
)
from nbglcnn.lowering.receptive_fields import ReceptiveFields
from nbglcnn.lowering.sections import (
    cross_section_textures,
    cross_section_values,
    group_by_section,
    section_names,
    section_nodes,
    section_of,
)
from nbglcnn.lowering.shape_inference import infer_shapes, layer_name
from nbglcnn.lowering.texture_allocation import assign_formats, renumber_pass, reuse_textures
from nbglcnn.lowering.value_ranges import ValueRanges
from nbglcnn.ops import INPUT_ACTIVATIONS, OPERATOR_RECORDS
from nbglcnn.plan import schema as p
from nbglcnn.plan.layout import NCHW, Layout, storage_nchw
from nbglcnn.plan.picture_layout import picture_layout

FLATTEN_KERNEL_SHADER = FragmentShader(
    "flatten_kernel", f"{COLUMN_GROUPS_GLSL}\n{shader_source('flatten_kernel.glsl')}",
    has_pixel_function=False, uniform_slots="int width, order, outputs, inputs, taps, rows, groups",
)  # fmt: skip

Observe = str | Sequence[str]


def observed_keys(graph: Graph, observe: Observe) -> tuple[ValueKey, ...]:
    """The keys that a Plan keeps for `observe`: "all", "outputs" or a list of names.

    An output that is also an input has one key, the input's if inputs are kept.
    """
    check_observe(observe)
    if observe == "all":
        return tuple({key.name: key for key in reversed(graph.keys)}.values())[::-1]
    if observe == "outputs":
        return tuple(key for key in graph.keys if key.kind in ("output", "contributed"))
    known = {key.name: key for key in graph.keys}
    for name in observe:
        if name not in known:
            raise KeyError(
                f"observe: {unknown_name_message(name, list(known), 'layer', graph.shared_modules)}"
            )
    wanted = set(observe)
    kept = [k for k in graph.keys if k.name in wanted or k.kind in ("output", "contributed")]
    return tuple({key.name: key for key in reversed(kept)}.values())[::-1]


def lower(
    graph: Graph,
    *,
    observe: Observe = "all",
    target: p.Target | None = None,
    precision: p.Precision = "float32",
) -> p.Plan:
    """Compile a graph for a device.

    A device that cannot render to float32 gets float16 regardless of `precision`; the Plan records
    which. Raises UnsupportedOperator or UnsupportedModel with the layer's name before anything
    runs.
    """
    target = target or p.Target()
    if precision not in get_args(p.Precision):
        known = " or ".join(f'"{name}"' for name in get_args(p.Precision))
        raise InputError(f"precision={precision!r}: expected {known}")
    if not target.float32_render:
        precision = "float16"
    graph = group_by_section(infer_shapes(graph))
    keys = observed_keys(graph, observe)
    observed_values = (
        {key.value_name for key in keys} | set(graph.outputs) | cross_section_values(graph)
    )
    nodes, epilogues = fuse(graph, observed_values)
    reaches = ReceptiveFields(graph)
    layers, layer_of = layer_table(graph, reaches)
    rows = layer_index_by_key(graph, layers)
    b = Builder(graph, target, epilogues, precision, keys, observed_values)
    inputs = []
    for value in graph.inputs:
        key = next(
            k for k in graph.keys if k.kind in ("input", "contributed") and k.value_name == value
        )
        places = reaches.position_axes[value]
        fit, share = graph.picture_fits.get(value, (default_picture_fit(graph, value), 1.0))
        record = b.add_input(key.name, value, graph.noise_defaults.get(value, ""))
        found = {"fit": fit, "crop_fraction": share,
                 "accepts_any_size": value in graph.picture_fits,
                 "layout": picture_layout(record.shape, record.dtype) or "NCHW",
                 "contributed": key.kind == "contributed"}  # fmt: skip
        inputs.append(msgspec.structs.replace(record, position_axes=places, **found))
    # A batch of 0 examples is displayed as 1.
    shapes: dict[str, list[tuple[int, ...]]] = {"": []}
    for one in inputs:
        shapes.setdefault(_batch_owner_prefix(one.key, one.contributed), []).append(one.shape)
    batches = {owner: max(1, batch_size(found)) for owner, found in shapes.items()}
    inputs += _python_inputs(b, nodes, layer_of, observed_values, rows)
    inputs.sort(key=lambda record: record.contributed)
    for carry in graph.carries:
        b.bind_state_target(carry)
    for section in section_names(graph):
        _lower_section(b, section, nodes, layer_of, observed_values)
    b.enter_readback()
    own = {k.value_name: k.name for k in graph.keys if k.kind in ("input", "contributed")}
    forms = DisplayKinds(graph, reaches, find_planes(graph), own)
    kinds = forms, ValueRanges(graph)
    owners = [_batch_owner_prefix(k.name, k.kind == "contributed") for k in keys]
    pictured = [
        _displayed_value(b, *kinds, key, rows[key.name], batches.get(owner, batches[""]))
        for key, owner in zip(keys, owners, strict=True)
    ]
    examples = BatchAxes(graph, reaches, batches[""])
    names = {name: layers[number].name for name, number in layer_of.items()}
    pictured = [
        _with_batch_fields(examples, k, v, names) for k, v in zip(keys, pictured, strict=True)
    ]
    values = filter_shared_edits(
        [with_edit_pass(b, keys[k], k, one) for k, one in enumerate(pictured)]
    )
    parameters = [] if observe == "outputs" else _parameter_values(b, layers)
    assign_formats(b)
    rest = parameters, layers, batches[""], (reaches.field_maps, forms.token_grids)
    return _build_plan(b, graph, observe, precision, inputs, values, *rest)


def _with_batch_fields(
    batch_axes: BatchAxes, key: ValueKey, value: p.Value, layer_names: Mapping[str, str]
) -> p.Value:
    """Add a value's batch dependence; `layer_names` maps nodes to layer names."""
    node = batch_axes.mixing_node(key.value_name)
    across = batch_axes.is_mixed(key.name)
    mixed = key.name if across else ""
    if node is not None:
        mixed = layer_names.get(node.name, layer_name(node))
    by_example = not across and batch_axes.is_per_example(key.value_name)
    return msgspec.structs.replace(value, per_example=by_example, mixing_layer=mixed)


def _python_inputs(
    b: Builder,
    nodes: Sequence[Node],
    layer_index_by_node: Mapping[str, int],
    observed_values: Collection[str],
    layer_indices: Mapping[str, int],
) -> list[p.Input]:
    """The upload inputs for values that Python computes, if they are read or observed."""
    found = []
    read = {name for node in nodes for name in node.inputs}
    names = {key.value_name: key.name for key in reversed(b.graph.keys)}
    for node in nodes:
        if node.python_fallback is None:
            continue
        for name in filter(None, node.outputs):
            if math.prod(b.shape(name)) and (name in read or name in observed_values):
                b.enter_layer(node, layer_index_by_node.get(node.name, -1))
                one = b.add_input(names[name], name)
                found.append(msgspec.structs.replace(one, layer=layer_indices[names[name]]))
    b.enter_readback()
    return found


def _lower_section(
    b: Builder,
    section: str,
    nodes: Sequence[Node],
    layer_index_by_node: Mapping[str, int],
    observed_values: Collection[str],
) -> None:
    for node in section_nodes(nodes, section):
        b.enter_layer(node, layer_index_by_node.get(node.name, -1))
        # Nodes without output elements need no draw call.
        if any(math.prod(b.shape(name)) for name in node.outputs if name):
            lower_node = OPERATOR_RECORDS[node.op].lower
            if node.op in INPUT_ACTIVATIONS and not any(
                name in observed_values for name in node.outputs
            ):
                b.defer(node, lower_node)
            else:
                lower_node(b, node)
    b.enter_readback()
    for carry in b.graph.carries:
        if section_of(b.graph, carry.source) == section:
            b.add_carry(carry)
    b.end_section(section)


def flatten_constants(layout: Layout, *, fast: bool = True) -> dict[str, int]:
    """The constants of flatten.glsl for a tensor with this layout."""
    plain = fast and layout.block == (1, 2, 2) and layout.phases == (1, 1)
    return {"PLAIN": int(plain), "ROWS": int(plain and layout.nchw[3] % 4 == 0)}


def _batch_owner_prefix(key: str, contributed: bool) -> str:
    """Whose inputs have a value's batch: "" for the network, or a contribution's key prefix."""
    return key.partition(".")[0] if contributed else ""


def _displayed_value(
    b: Builder,
    display_kinds: DisplayKinds,
    value_ranges: ValueRanges,
    key: ValueKey,
    layer_index: int,
    batch: int,
) -> p.Value:
    """Make a value with its display fields; a value without elements is displayed as one zero."""
    some = math.prod(b.shape(key.value_name)) > 0
    nchw = display_kinds.display_nchw(key.value_name, batch) if some else (1, 1, 1, 1)
    value = _make_value(b, key.name, key.kind, key.value_name, layer_index, nchw)
    if not some:
        return value
    form, tokens = (
        display_kinds.kind_of(key.value_name, key.kind),
        display_kinds.attention_grid_indices(key.value_name, batch),
    )
    shown = {
        "display_kind": form,
        "tokens": tokens,
        "value_range": value_ranges.range_of(key, nchw),
    }
    return msgspec.structs.replace(value, shares_edits_of=key.shares_edits_of, **shown)


def with_edit_pass(b: Builder, key: ValueKey, key_index: int, value: p.Value) -> p.Value:
    """Add the pass after which edits of the value run, if it can be edited."""
    dtype, constant = b.graph.values[key.value_name].dtype, b.graph.constant_data(key.value_name)
    state = {texture for carry in b.carries for texture in (carry.source, carry.target)}
    if (
        dtype.kind != "f"
        or constant is not None
        or not value.readback.count
        or value.texture in state
    ):
        return value
    writers = [k for k, step in enumerate(b.passes) if step.output == value.texture]
    source = b.shared_texture_source(key_index)
    return msgspec.structs.replace(value, edit_pass=max(writers, default=-1), view_of=source)


def _make_value(
    b: Builder,
    key: str,
    kind: str,
    name: str,
    layer: int,
    nchw: NCHW,
    tensor: Tensor | None = None,
) -> p.Value:
    shape = b.shape(name)
    tensor = tensor or b.stored_tensor(name)
    layout = tensor.layout
    fast = b.target.fast_kernels
    kernel, variant = FLATTEN_SHADER, dict[str, int]()
    if layout.max_side:
        kernel = FLATTEN_STRIPS_SHADER
    elif fast and layout.has_whole_texels:
        kernel = FLATTEN_TEXELS_SHADER
    else:
        variant = flatten_constants(layout, fast=fast)
    read = _make_readback(b, kernel, [tensor], [], math.prod(shape), {}, variant)
    return p.Value(
        key, kind, shape, nchw, b.graph.values[name].dtype.name, tensor.texture, layout,  # type: ignore[arg-type]
        layout.to_words(), read, layer,
    )  # fmt: skip


def _make_readback(
    b: Builder,
    kernel: FragmentShader,
    inputs: list[Tensor],
    weights: list[int],
    count: int,
    numbers: Mapping[str, int],
    constants: Mapping[str, int] = {},
) -> p.Readback:
    width, height = row_major_texture_size(count, b.target.max_texture_size)
    sources = [*(tensor.texture for tensor in inputs), *weights]
    step = b.make_pass(
        kernel, b.readback_texture(width, height, sources), Layout((1, 1, 1, 1)), inputs, weights,
        uniforms={"width": width, **numbers}, constants=constants, viewport=(width, height),
    )  # fmt: skip
    # The readback keeps the value's own texture, without input values that edits may redirect.
    return p.Readback(msgspec.structs.replace(step, input_values=()), count)


MAX_MOVED_PARAMETER_ELEMENTS = 2**20  # elements; above, the second copy takes too much memory


def _parameter_values(b: Builder, layers: Iterable[p.Layer]) -> list[p.Value]:
    """The parameters as readable tensors, for views of filters.

    Parameters packed for a convolution are read from its weight texture. Others are small and get
    their own texture. So do parameters used only transposed (a Linear's weight over a sequence) or
    otherwise moved (a class token added to each example), if they are small enough.
    """
    packed_as = {
        w.recipe.sources[0]: w
        for w in b.weights
        if w.recipe.packer == "conv" and len(w.recipe.sources) == 1
    }
    found = []
    state = {carry.initial: carry.target for carry in b.graph.carries}
    shaped = originals_of_reshaped(b.graph)
    used = {shaped.get(value, value) for value in b.used_constants} | set(b.used_constants)
    for node in b.graph.folded_nodes:
        turned = node.op == "Transpose" and used.intersection(node.outputs)
        if turned and math.prod(b.shape(node.inputs[0])) <= MAX_MOVED_PARAMETER_ELEMENTS:
            used.add(node.inputs[0])
    for operand in (one for layer in layers for one in layer.operands):
        value = b.graph.parameters.get(operand.key, "")
        if operand.kind == "parameter" and operand.index_maps:
            used |= {value} if math.prod(b.shape(value)) <= MAX_MOVED_PARAMETER_ELEMENTS else set()
    for name, value in b.graph.parameters.items():
        if b.graph.values[value].dtype.kind != "f" or value not in used:
            continue
        longest = b.target.max_texture_size
        if row_major_texture_size(math.prod(b.shape(value)), longest)[1] > longest:
            continue  # usable in passes, but too large for a single readback
        weight = None if value in state else packed_as.get(value)
        if weight is None:
            nchw = storage_nchw(b.shape(value))
            tensor = (
                b.stored_tensor(state[value]) if value in state else b.constant_tensor(value, nchw)
            )
            found.append(_make_value(b, name, "parameter", value, -1, nchw, tensor))
            continue
        shape, options = b.shape(value), weight.recipe.arguments
        kernel_shape = tuple(options["shape"])
        groups = options.get("transposed_groups", 0)
        outputs = kernel_shape[1] * groups if groups else kernel_shape[0]
        each_in = kernel_shape[0] // groups if groups else kernel_shape[1]
        order = 1 if groups else 2 if options.get("transpose") else 0
        taps = math.prod(kernel_shape[2:])
        numbers = {
            "order": order, "outputs": outputs, "inputs": each_in, "taps": taps,
            "rows": split_kernel_texture(each_in, outputs, taps)[0], "groups": max(groups, 1),
        }  # fmt: skip
        read = _make_readback(
            b, FLATTEN_KERNEL_SHADER, [], [weight.texture], math.prod(shape), numbers
        )
        layout = Layout(storage_nchw(shape))
        found.append(
            p.Value(
                name,
                "parameter",
                shape,
                layout.nchw,
                "float32",
                weight.texture,
                layout,
                layout.to_words(),
                read,
            )
        )
    return found


def _build_plan(
    b: Builder,
    graph: Graph,
    observe: Observe,
    precision: p.Precision,
    inputs: list[p.Input],
    values: list[p.Value],
    parameters: list[p.Value],
    layers: tuple[p.Layer, ...],
    batch: int,
    tables: tuple[tuple[p.FieldMap, ...], tuple[p.TokenGrid, ...]],
) -> p.Plan:
    kept = {w.texture for w in b.weights} | {b.readback_index}
    kept |= {i.staging for i in inputs} | {i.pack_pass.output for i in inputs}
    kept |= {v.texture for v in (*values, *parameters)}
    kept |= {texture for c in b.carries for texture in (c.source, c.target)}
    kept |= cross_section_textures(b.passes, b.sections)
    moved = reuse_textures(b, kept, observe)

    def placed(value: p.Value) -> p.Value:
        read = p.Readback(renumber_pass(value.readback.draw_pass, moved), value.readback.count)
        return msgspec.structs.replace(value, texture=moved[value.texture], readback=read)

    header = p.Header(
        version=p.VERSION,
        language="glsl-es-300",
        name=graph.name,
        observe=observe if isinstance(observe, str) else ",".join(observe),
        target=b.target,
        textures=tuple(b.textures),
        programs=tuple(b.programs),
        passes=tuple(b.passes),
        sections=tuple(b.sections),
        weights=tuple(b.weights),
        inputs=tuple(
            msgspec.structs.replace(
                i, staging=moved[i.staging], pack_pass=renumber_pass(i.pack_pass, moved)
            )
            for i in inputs
        ),
        values=tuple(placed(v) for v in values),
        parameters=tuple(placed(v) for v in parameters),
        outputs=tuple(key.name for key in graph.keys if key.kind == "output"),
        layers=layers,
        uniform_bytes=len(b.uniform_data),
        batch=batch,
        precision=precision,
        comparison=_readable_comparison(graph, {v.key for v in values}),
        field_maps=tables[0],
        carries=tuple(p.Carry(moved[c.source], moved[c.target]) for c in b.carries),
        tokens=tables[1],
        preprocess=graph.preprocess_keys,
        shared_modules=dict(graph.shared_modules),
        arguments=() if graph.input_structure is None else graph.input_structure.positional_names,
        constants={}
        if graph.input_structure is None
        else dict(graph.input_structure.constant_texts),
    )
    return p.Plan(header, bytes(b.uniform_data), b.blobs)


def _readable_comparison(graph: Graph, kept_keys: Collection[str]) -> p.Comparison:
    """The part of a comparison whose values are kept."""
    if (found := graph.comparison) is None or found.table not in kept_keys:
        return p.Comparison()
    pairs = tuple(one for one in found.pairs if {one.a, one.b, one.difference} <= set(kept_keys))
    return replace(found, pairs=pairs)


def can_repack_weights(plan: p.Plan, graph: Graph, changed: Set[str] | None = None) -> bool:
    """Whether a Plan stays valid with the weights of `graph`, which differs only in parameters.

    Checks only the `changed` values, or all if None. A BatchNormalization without positive variance
    cannot be fused into a convolution.
    """
    for recipe in (weight.recipe for weight in plan.header.weights):
        if changed is not None and changed.isdisjoint(recipe.sources[-1:]):
            continue
        if recipe.packer in BATCHNORM_PACKERS and "epsilon" in recipe.arguments:
            variance = graph.values[recipe.sources[-1]].data
            assert variance is not None
            if not has_positive_variance(variance, recipe.arguments["epsilon"]):
                return False
    return True


def repack_weights(plan: p.Plan, graph: Graph, changed: Set[str] | None = None) -> p.Plan:
    """Return the Plan with the weights of `graph`, for which `can_repack_weights` is True.

    Only textures made from the `changed` values are repacked, or all if None.
    """
    weights, blobs = [], {}
    for weight in plan.header.weights:
        if changed is not None and changed.isdisjoint(weight.recipe.sources):
            weights.append(weight)
            blobs[weight.hash] = plan.blobs[weight.hash]
            continue
        blob = pack_weight(weight.recipe, [graph.values[s].data for s in weight.recipe.sources])
        name = p.blob_name(weight.recipe, blob)
        weights.append(p.Weight(weight.texture, name, weight.recipe))
        blobs[name] = blob
    header = msgspec.structs.replace(plan.header, weights=tuple(weights))
    return p.Plan(header, plan.uniforms, blobs)
