"""The Plan's file, its layouts, and lowering's guarantees on textures, fusion and weights."""

import ctypes
import math
import re

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import nbglcnn
from assertions import assert_equal
from damaged_plans import update_checksum
from layout_plans import LAYOUTS, layout_plan
from nbglcnn import ModelError, Plan, Session
from nbglcnn.codegen.builder import Builder
from nbglcnn.codegen.strided import copy_elements
from nbglcnn.graph import batch_size
from nbglcnn.load import load, with_parameters
from nbglcnn.lowering.lower import lower, repack_weights
from nbglcnn.lowering.texture_allocation import reuse_textures
from nbglcnn.plan.layout import Layout, display_nchw, storage_nchw
from nbglcnn.plan.schema import PackingRecipe, Texture, Weight
from onnx_models import model_of, node

sizes = st.integers(1, 9)
blocks = st.sampled_from(
    [(1, 1, 1), (1, 2, 2), (4, 1, 1), (1, 1, 4), (1, 4, 1), (2, 1, 1), (1, 1, 2)]
)


@given(
    st.tuples(sizes, st.integers(1, 40), sizes, sizes),
    blocks,
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
)
@settings(max_examples=200, deadline=None)
def test_unpack_inverts_pack_for_every_layout(nchw, block, phases):
    layout = Layout(nchw, block, phases)
    array = np.arange(math.prod(nchw), dtype=np.float32).reshape(nchw)
    texture = layout.pack(array)
    width, height, layers = layout.size
    assert texture.shape == (layers, height, width, 4)
    assert_equal(layout.unpack(texture), array)
    # Every element has a unique position, and the other components are 0.
    assert np.count_nonzero(texture) == np.count_nonzero(array)


@given(
    st.tuples(sizes, st.integers(1, 40), sizes, st.integers(1, 300)),
    blocks,
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.booleans(),
)
@settings(max_examples=100, deadline=None)
def test_unpack_inverts_pack_for_layouts_in_strips(nchw, block, phases, turned):
    n, c, h, w = nchw
    layout = Layout((n, c, w, h) if turned else nchw, block, phases)
    longest = max(1, max(layout.whole) // 3, min(layout.whole))
    layout = layout.split_to_fit(longest)
    assert min(layout.strips) == 1 and min(layout.size[:2]) <= longest
    array = np.arange(1, math.prod(nchw) + 1, dtype=np.float32).reshape(layout.nchw)
    texture = layout.pack(array)
    width, height, layers = layout.size
    assert texture.shape == (layers, height, width, 4)
    assert_equal(layout.unpack(texture), array)
    assert np.count_nonzero(texture) == array.size


@pytest.mark.parametrize(
    "nchw", [(1, 3, 400, 3000), (2, 600, 5, 70), (1, 5000, 1, 1), (9, 1030, 1, 1)]
)
def test_rows_of_tiles_stay_within_the_texture(nchw):
    builder = Builder(load(nn.ReLU(), torch.ones(1))[0], nbglcnn.plan.schema.Target())
    layout = builder.layout(nchw)
    assert max(layout.size[:2]) <= 4096
    array = np.random.default_rng(0).standard_normal(nchw).astype(np.float32)
    assert_equal(layout.unpack(layout.pack(array)), array)


@pytest.mark.parametrize(
    ("nchw", "drawn"),
    [
        ((1, 256, 14, 14), (112, 28)),  # at 448 × 7 an eighth of the work is wasted
        ((1, 64, 56, 56), (112, 112)),  # 448 × 28 has seven bins for two threads
        ((1, 64, 64, 64), (512, 32)),
        ((1, 512, 7, 7), (512, 4)),
        ((1, 64, 14, 14), (112, 7)),  # 28 × 28 would be one bin
        ((1, 256, 4, 4), (64, 4)),  # SwiftShader shades 128 × 2 as 128 × 4
        ((1, 2048, 1, 1), (128, 4)),
    ],
)
def test_tiles_stand_where_processors_share_them_evenly(nchw, drawn):
    assert Layout(nchw, (1, 2, 2)).drawn == drawn


@pytest.mark.parametrize("rank", range(7))
def test_a_frame_holds_as_many_elements_as_the_shape(rank):
    shape = (2, 3, 4, 5, 6, 7)[:rank]
    assert math.prod(storage_nchw(shape)) == math.prod(shape)


@pytest.mark.parametrize(
    ("shape", "batch", "nchw"),
    [
        ((), 2, (1, 1, 1, 1)),
        ((7,), 2, (1, 7, 1, 1)),
        ((4,), 4, (4, 1, 1, 1)),
        ((2, 6), 2, (2, 6, 1, 1)),
        ((1, 6), 2, (1, 6, 1, 1)),
        ((5, 6), 2, (1, 5, 1, 6)),
        ((1, 5, 7), 2, (1, 5, 1, 7)),
        ((4, 5, 7), 4, (4, 5, 1, 7)),
        ((4, 5, 7), 1, (1, 4, 5, 7)),
        ((1, 8, 5, 7), 2, (1, 8, 5, 7)),
        ((4, 2, 5, 7), 2, (1, 8, 5, 7)),
        ((4, 2, 3, 5, 7), 1, (1, 8, 15, 7)),
    ],
)
def test_a_value_is_shown_as_the_batchs_examples_or_as_one_image(shape, batch, nchw):
    assert display_nchw(shape, batch) == nchw


@pytest.mark.parametrize(
    ("shapes", "batch"),
    [([(3, 4)], 3), ([(9,), (2, 4)], 2), ([(), (7,)], 1), ([(1, 3, 4), (5, 2)], 1), ([], 1)],
)
def test_the_batch_is_the_first_axis_of_the_first_input_that_has_two(shapes, batch):
    assert batch_size(shapes) == batch


def small_cnn():
    torch.manual_seed(3)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, padding=1),
        nn.Sigmoid(),
        nn.ConvTranspose2d(8, 3, 4, 2, 1),
        nn.Tanh(),
    ).eval()


X = np.random.default_rng(1).standard_normal((2, 3, 9, 7)).astype(np.float32)


def torch_output(model, x=X):
    with torch.no_grad():
        return model(torch.from_numpy(x)).numpy()


def test_a_plan_survives_its_file(tmp_path):
    model = small_cnn()
    plan = nbglcnn.compile(model, X)
    plan.save(tmp_path / "small.plan")
    again = Plan.load(tmp_path / "small.plan")
    assert again.hash == plan.hash
    header = msgspec.structs.replace(again.header, blobs={})
    assert msgspec.json.encode(header) == msgspec.json.encode(plan.header)
    with Session(again) as session:
        assert_equal(session.run(X)["output"], torch_output(model))


def test_a_file_with_any_bit_flipped_is_refused():
    blob, name = np.arange(4, dtype=np.float32).reshape(1, 1, 1, 4), "0" * 32
    header = msgspec.structs.replace(
        layout_plan(LAYOUTS["odd"]).header,
        **{
            "textures": (Texture(1, 1, 1),),
            "weights": (Weight(0, name, PackingRecipe("zero", ())),),
        },
        **dict.fromkeys(("programs", "passes", "inputs", "values", "layers", "outputs"), ()),
        uniform_bytes=8,
    )
    data = bytearray(Plan(header, b"uniforms", {name: blob}).to_bytes())
    assert Plan.from_bytes(bytes(data)).blobs[name].ravel().tolist() == [0, 1, 2, 3]
    assert len(data) < 2000
    for bit in range(8 * len(data)):
        data[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ModelError, match=r"damaged Plan file: its checksum is|first 8 bytes"):
            Plan.from_bytes(bytes(data))
        data[bit // 8] ^= 1 << bit % 8


@pytest.mark.parametrize("weights", [True, False])
def test_a_file_cut_anywhere_is_refused(weights):
    """Cut in the header, the uniforms, or any weight; only padding follows the last weight."""
    plan = (
        nbglcnn.compile(nn.Conv2d(1, 2, 1), X[:1, :1]) if weights else layout_plan(LAYOUTS["odd"])
    )
    data = plan.to_bytes()
    size = int.from_bytes(data[8:12], "little")
    body = -(-(16 + size) // 256) * 256
    places = msgspec.json.decode(data[16 : 16 + size], type=type(plan.header)).blobs.values()
    end = body + max((at + length for at, length in places), default=len(plan.uniforms))
    assert len(data) - 256 < end <= len(data) and bool(places) == weights
    read, reasons = [], set()
    for length in range(end + 1):
        try:
            assert Plan.from_bytes(update_checksum(data[:length])).hash == plan.hash
            read.append(length)
        except ModelError as refused:
            reasons.add(re.sub(r"[0-9a-f]{32}|\d+", "…", str(refused)))
    assert read == [end]
    last = "weight … is missing or has a wrong size" if weights else "its uniforms are incomplete"
    assert f"damaged Plan file: {last}" in reasons, reasons


def test_nothing_is_fused_when_everything_is_observed():
    plan = nbglcnn.compile(small_cnn(), X)
    assert len(plan.header.passes) == 7
    assert [v.key for v in plan.values] == ["input", *map(str, range(7)), "output"]


def test_unobserved_layers_are_fused_and_their_textures_shared():
    model = small_cnn()
    plan = nbglcnn.compile(model, X, observe="outputs")
    assert len(plan.header.passes) == 3
    assert plan.gpu_bytes < nbglcnn.compile(model, X).gpu_bytes
    with Session(plan) as session:
        result = session.run(X)
    assert list(result) == ["output"]
    assert_equal(result["output"], torch_output(model))


def test_observing_a_list_keeps_those_and_the_output():
    model = small_cnn()
    with Session(nbglcnn.compile(model, X, observe=["2"])) as session:
        result = session.run(X)
    assert list(result) == ["2", "output"]
    assert_equal(result["2"], torch_output(model[:3]))
    with pytest.raises(KeyError, match=r"observe: '22' is not a layer of this network; near: '2'"):
        nbglcnn.compile(model, X, observe=["22"])


def test_textures_are_reused_along_a_chain():
    torch.manual_seed(0)
    chain = nn.Sequential(*(nn.Conv2d(8, 8, 3, padding=1) for _ in range(12))).eval()
    x = torch.randn(1, 8, 16, 16)
    plan = nbglcnn.compile(chain, x, observe="outputs")
    written = {step.output for step in plan.header.passes}
    assert len(written) <= 3
    with Session(plan) as session:
        assert_equal(session.run(x.numpy())["output"], chain(x).detach().numpy())


def test_an_edge_of_zeros_is_never_drawn_over():
    """57×57 texels in 4 layers: a padded map of 112×112, or four images of 57×57."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(4, 4, 3, padding=1), nn.Softmax(1), nn.Flatten(1), nn.Unflatten(1, (4, 112, 112)),
        nn.Conv2d(4, 4, 3, padding=1), nn.Softmax(1), nn.Conv2d(4, 4, 3, padding=1), nn.Softmax(1),
    ).eval()  # fmt: skip
    plan = nbglcnn.compile(model, torch.randn(1, 4, 112, 112), observe="outputs")
    textures = plan.header.textures
    drawn = {}
    for step in plan.header.passes:
        texture = textures[step.output]
        drawn.setdefault(step.output, set()).add(
            (texture.width - step.viewport[0], texture.height - step.viewport[1])
        )
    assert {(1, 1)} in drawn.values()
    assert all(len(left) == 1 for left in drawn.values()), drawn
    builder = Builder(load(model, torch.randn(1, 4, 112, 112))[0], nbglcnn.plan.schema.Target())
    maps, images = Layout((1, 4, 112, 112), (1, 2, 2)), Layout((4, 4, 56, 56), (4, 1, 1))
    one, two, three, four = (
        builder.create_scratch_tensor(one) for one in (maps, images, images, maps)
    )
    last = builder.create_scratch_tensor(images)
    for output, source in ((one, last), (two, one), (three, two), (four, three), (last, four)):
        copy_elements(builder, output, source)
    moved = reuse_textures(builder, {last.texture}, "outputs")
    assert moved[one.texture] == moved[four.texture]
    assert len({moved[each.texture] for each in (one, two, three, last)}) == 4


def test_residual_blocks_are_fused_right():
    class Block(nn.Module):
        def __init__(self, first, second):
            super().__init__()
            self.a, self.b = (
                nn.Conv2d(first, second, 3, 2, 1, bias=False),
                nn.Conv2d(second, second, 3, padding=1),
            )
            self.bn, self.skip = nn.BatchNorm2d(second), nn.Conv2d(first, second, 1, 2)

        def forward(self, x):
            return torch.relu(self.bn(self.b(torch.relu(self.a(x)))) + self.skip(x))

    torch.manual_seed(5)
    model = nn.Sequential(Block(3, 8), Block(8, 5)).eval()
    for bn in (model[0].bn, model[1].bn):
        bn.running_mean.normal_()
        bn.running_var.uniform_(0.5, 2)
    with Session(nbglcnn.compile(model, X, observe="outputs")) as session:
        assert_equal(session.run(X)["output"], torch_output(model))


def test_an_activation_that_nothing_else_takes_is_applied_where_a_convolution_reads():
    torch.manual_seed(3)
    model = nn.Sequential(
        nn.AvgPool2d(3, 1, 1), nn.ReLU(), nn.Conv2d(3, 5, 3, padding=1),
        nn.AvgPool2d(3, 1, 1), nn.LeakyReLU(0.3), nn.Conv2d(5, 4, 3, padding=1),
    ).eval()  # fmt: skip
    plan = nbglcnn.compile(model, X, observe="outputs")
    assert len(plan.header.passes) == 4
    with Session(plan) as session:
        assert_equal(session.run(X)["output"], torch_output(model))


def test_what_is_added_in_another_shape_is_no_residual():
    """Pass reads a residual as it stores: a single channel would be added to the first one only."""

    class Attended(nn.Module):
        def __init__(self):
            super().__init__()
            self.maps, self.weight = nn.Conv2d(3, 6, 3, padding=1), nn.Conv2d(3, 1, 1)

        def forward(self, x):
            return self.maps(x) + torch.sigmoid(self.weight(x))

    torch.manual_seed(2)
    model = Attended().eval()
    with Session(nbglcnn.compile(model, X, observe="outputs")) as session:
        assert_equal(session.run(X)["output"], torch_output(model))


def test_what_several_layers_read_is_not_fused_into_one_of_them():
    class Forked(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm = nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6)

        def forward(self, x):
            x = self.conv(x)
            return torch.tanh(self.norm(x)) * x

    torch.manual_seed(2)
    model = Forked().eval()
    with Session(nbglcnn.compile(model, X, observe="outputs")) as session:
        assert_equal(session.run(X)["output"], torch_output(model))


def test_new_weights_reach_a_convolution_that_has_taken_in_its_normalization():
    def normalized(seed):
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU()).eval()
        for own in (*model.parameters(), model[1].running_mean):
            nn.init.normal_(own, 0.1, 0.4)
        nn.init.uniform_(model[1].running_var, 0.5, 2)
        return model

    first, second = normalized(1), normalized(2)
    graph, _ = load(first, X)
    plan = lower(graph, observe="outputs")
    assert len(plan.header.passes) == 1
    with Session(plan) as session:
        assert_equal(session.run(X)["output"], torch_output(first))
        session.replace_weights(repack_weights(plan, with_parameters(graph, second.state_dict())))
        assert_equal(session.run(X)["output"], torch_output(second))


def count_gl_objects(session):
    """The number of OpenGL objects per kind in the process; programs are shared and stay."""
    device = session._device
    load = device.context.mglo._context.load
    kinds = ("Texture", "Buffer", "VertexArray", "Framebuffer")

    def count():
        newest = device.context.texture((1, 1), 4)  # Mesa's object names increase per kind
        framebuffer = device.context.framebuffer(newest)
        end = 2000 + max(newest.glo, framebuffer.glo)
        framebuffer.release()
        newest.release()
        exists = {
            kind: ctypes.CFUNCTYPE(ctypes.c_ubyte, ctypes.c_uint)(load(f"glIs{kind}"))
            for kind in kinds
        }
        return {kind: sum(bool(exists[kind](k)) for k in range(1, end)) for kind in kinds}

    return device.run_on_thread(count)


def test_a_closed_session_leaves_nothing_on_the_device():
    plan = nbglcnn.compile(small_cnn(), X)
    with Session(plan) as stays:
        stays.run(X)
        before = count_gl_objects(stays)
        session = Session(plan)
        session.run(X)
        during = count_gl_objects(stays)
        session.close()
        assert count_gl_objects(stays) == before
    assert all(during[kind] > before[kind] for kind in before), (before, during)


def test_new_weights_need_no_new_programs():
    model = small_cnn()
    graph, _ = load(model, X)
    plan = lower(graph)
    other = small_cnn()
    torch.manual_seed(9)
    for p in other.parameters():
        nn.init.normal_(p, 0.1, 0.3)
    other[1].running_mean.normal_()
    changed = repack_weights(plan, with_parameters(graph, other.state_dict()))
    assert changed.hash == plan.hash
    assert changed.header.programs is plan.header.programs
    with Session(plan) as session:
        assert_equal(session.run(X)["output"], torch_output(model))
        session.replace_weights(changed)
        for key, value in session.run(X).items():
            if key.isdigit():
                assert_equal(value, torch_output(other[: int(key) + 1]), name=key)


def test_parameters_can_be_read_back():
    model = nn.Sequential(
        nn.Conv2d(5, 6, 3),
        nn.ConvTranspose2d(6, 10, (2, 4), 2),
        nn.Conv2d(10, 10, 3, groups=10),
        nn.Conv2d(10, 8, 3, groups=2),
        nn.ConvTranspose2d(8, 16, 3, groups=2),
        nn.BatchNorm2d(16),
    ).eval()
    plan = nbglcnn.compile(model, torch.randn(1, 5, 12, 12))
    with Session(plan) as session:
        session.run(np.zeros((1, 5, 12, 12), np.float32))
        for name, value in model.state_dict().items():
            if not name.endswith("num_batches_tracked"):
                assert_equal(session.read(name), value.numpy(), name=name)


def test_a_matrix_that_is_multiplied_from_the_right_is_read_back_as_it_is():
    class Product(nn.Module):
        def __init__(self):
            super().__init__()
            self.matrix = nn.Parameter(torch.arange(35.0).reshape(5, 7))

        def forward(self, x):
            return x @ self.matrix

    model = Product().eval()
    with Session(nbglcnn.compile(model, torch.ones(2, 5))) as session:
        assert_equal(session.read("matrix"), model.matrix.detach().numpy())


def test_layers_are_found_by_position_and_name_and_print_as_a_table():
    layers = nbglcnn.compile(small_cnn(), X).layers
    assert layers["3"] is layers[3] and len(layers) == 7
    conv = layers["3"]
    assert (conv.operator, conv.module) == ("Conv", "Conv2d")
    assert conv.output_shape == (2, 8, 9, 7) and conv.input_shapes == ((2, 8, 9, 7),)
    assert conv.parameters == 8 * 8 * 9 + 8
    assert conv.macs == 2 * 8 * 8 * 9 * 9 * 7
    assert conv.bytes == 4 * 2 * 8 * 9 * 7
    assert layers["1"].parameters == 16
    assert layers["2"].inputs == ("1",) and layers["0"].inputs == ("input",)
    assert "Conv2d" in repr(layers) and "<td>Conv2d</td>" in layers._repr_html_()
    with pytest.raises(KeyError):
        layers["nine"]


def test_the_layer_table_says_what_each_operator_reads_and_how_it_slides():
    layers = nbglcnn.compile(small_cnn(), X).layers
    conv, norm = layers["0"], layers["1"]
    assert [(one.kind, one.key) for one in conv.operands] == [
        ("value", "input"),
        ("parameter", "0.weight"),
        ("parameter", "0.bias"),
    ]
    assert conv.operators == ("Conv",)
    assert [one.key for one in norm.operands] == [
        "0",
        "1.weight",
        "1.bias",
        "1.running_mean",
        "1.running_var",
    ]
    up = layers["5"].window
    assert (up.kernel, up.strides, up.pads_begin, up.pads_end) == ((4, 4), (2, 2), (1, 1), (1, 1))
    assert layers["2"].window.kernel == ()


def test_the_layer_table_works_out_what_auto_pad_means():
    slides = {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"}
    nodes = [node("MaxPool", ["x"], ["most"], **slides), node("Relu", ["most"], ["y"])]
    model = model_of(nodes, {"x": [1, 2, 6, 5]}, ["y"])
    layer, *_ = nbglcnn.compile(model, np.ones((1, 2, 6, 5), np.float32)).layers
    window = layer.window
    assert (window.pads_begin, window.pads_end) == ((0, 1), (1, 1))
    assert (window.kernel, window.strides, window.dilations) == ((3, 3), (2, 2), (1, 1))


def test_only_constants_that_no_weight_changes_are_numbers_of_the_layer_table():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(7))

        def forward(self, x):
            return torch.clamp(x, -0.5, 2.0) * (self.scale * 2)

    layers = nbglcnn.compile(Net().eval(), X).layers
    clip = next(layer for layer in layers if layer.operator == "Clip")
    assert [(one.kind, one.number) for one in clip.operands[1:]] == [
        ("number", -0.5),
        ("number", 2),
    ]
    product = next(layer for layer in layers if layer.operator == "Mul")
    assert "number" not in [one.kind for one in product.operands]


def test_a_layer_that_follows_from_parameters_alone_has_them_and_is_read_by_others():
    class Generator(nn.Module):
        def __init__(self):
            super().__init__()
            self.start = nn.Parameter(torch.randn(1, 4, 4, 4))
            self.conv = nn.Conv2d(4, 4, 3, padding=1)
            self.style = nn.Linear(3, 4)

        def forward(self, z):
            return self.conv(self.start) * self.style(z)[:, :, None, None]

    plan = nbglcnn.compile(Generator().eval(), np.zeros((2, 3), np.float32))
    layers = {layer.name: layer for layer in plan.layers}
    assert {name: layer.parameters for name, layer in layers.items() if layer.parameters} == {
        "conv": 64 + 148,
        "style": 16,
    }
    assert layers["conv"].inputs == () and layers["mul"].inputs == ("conv", "unsqueeze:1")
    assert [one.key for one in layers["mul"].operands] == ["conv", "unsqueeze:1"]


def test_one_layer_of_one_pass_is_no_layers_and_passes() -> None:
    one = repr(nbglcnn.compile(nn.Conv2d(1, 1, 3).eval(), np.zeros((1, 1, 5, 5), np.float32)))
    assert ": 1 layer, 1 pass, 5 programs, " in one
    model = nn.Sequential(nn.Conv2d(1, 1, 3), nn.MaxPool2d(2)).eval()
    two = repr(nbglcnn.compile(model, np.zeros((1, 1, 6, 6), np.float32)))
    assert ": 2 layers, 2 passes, " in two
