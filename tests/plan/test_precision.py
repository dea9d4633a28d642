"""float16: half the memory, an error within verify()'s tolerance, and exact integers."""

import math

import numpy as np
import onnx.parser
import pytest
import torch
from cases import CASES
from torch import nn

import nbglcnn
from nbglcnn import InputError, Plan, Session, Target, UnsupportedModel, Viewer, transforms
from nbglcnn.load import load
from nbglcnn.lowering.lower import lower
from nbglcnn.plan.schema import Texture
from nbglcnn.reference import compute_reference
from nbglcnn.report import RTOL, match_layer
from viewer_models import autoencoder, hook_values, pictures
from zoo import build


def conv_chain(count: int = 12) -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    layers = (nn.Conv2d(8, 8, 3, padding=1) for _ in range(count))
    return nn.Sequential(*layers).eval(), torch.randn(1, 8, 32, 32)


def memory_bytes(plan: Plan) -> tuple[int, int]:
    """Return the bytes of activations and of weights."""
    weights = {weight.texture for weight in plan.header.weights}
    textures = enumerate(plan.header.textures)
    kept = [(t.width * t.height * t.layers * 4, t.format, k in weights) for k, t in textures]
    size = {"rgba32f": 4, "rgba16f": 2}
    activations, packed = (
        sum(count * size[form] for count, form, weight in kept if weight == wanted)
        for wanted in (False, True)
    )
    return activations, packed


def test_a_plan_counts_every_byte_that_it_takes() -> None:
    plan = nbglcnn.compile(*conv_chain())
    activations, weights = memory_bytes(plan)
    assert plan.gpu_bytes == activations + weights + len(plan.uniforms)
    assert sum(blob.nbytes for blob in plan.blobs.values()) == weights
    assert f"{plan.gpu_bytes / 1e6:.1f} MB on the GPU, float32" in repr(plan)


def test_textures_that_nobody_observes_are_used_again() -> None:
    model, x = conv_chain(24)
    everything, fused = (nbglcnn.compile(model, x, observe=o) for o in ("all", "outputs"))
    # The input and its staging, two to alternate between, the output, and the readback.
    assert memory_bytes(fused)[0] < memory_bytes(everything)[0] * 0.25
    graph, _ = load(*build("resnet18"))
    everything, fused = (lower(graph, observe=o) for o in ("all", "outputs"))
    assert memory_bytes(fused)[0] < memory_bytes(everything)[0] * 0.4
    assert fused.gpu_bytes < everything.gpu_bytes


def test_layers_that_take_too_much_together_are_refused_unless_they_share_textures() -> None:
    shape = "float[1,16,2048,2048]"  # 256 MiB each
    steps = [f"h{k + 1} = {op}(h{k})" for k, op in enumerate(["Sin", "Cos"] * 4)]
    head = '<ir_version: 8, opset_import: ["" : 18]>'
    text = f"{head} big ({shape} h0) => ({shape} h8) {{ {' '.join(steps)} }}"
    model = onnx.parser.parse_model(text)
    with pytest.raises(UnsupportedModel) as error:
        nbglcnn.compile(model)
    assert str(error.value) == (
        "big: the network needs more than 2 GiB of textures. "
        'Use a smaller input or batch, observe="outputs" or precision="float16"'
    )
    # As the message advises:
    assert nbglcnn.compile(model, observe="outputs").gpu_bytes < 2**31
    assert nbglcnn.compile(model, precision="float16").gpu_bytes < 2**31


@pytest.mark.parametrize("observe", ["all", "outputs"])
@pytest.mark.parametrize("name", ["resnet18", "autoencoder", "pix2pix"])
def test_float16_halves_activations_and_weights(name: str, observe: str) -> None:
    graph, _ = load(*build(name))
    whole, half = (lower(graph, observe=observe, precision=p) for p in ("float32", "float16"))
    assert (whole.precision, half.precision) == ("float32", "float16")
    for full, less in zip(memory_bytes(whole), memory_bytes(half), strict=True):
        assert full / 2 <= less < full * 0.505
    assert whole.hash != half.hash
    assert [w.hash for w in whole.header.weights] == [w.hash for w in half.header.weights]
    again = Plan.from_bytes(half.to_bytes())
    assert (again.precision, again.gpu_bytes) == ("float16", half.gpu_bytes)


CASE_NAMES = (
    *("conv 3x3 batch 3", "conv depthwise", "conv groups of 3", "conv 3-D 3x3x3"),
    *("transposed stride 1", "transposed dilation 2 stride 2", "ConvTranspose asymmetric pads"),
    *("max 3x3 stride 2 padded", "mean 3x3 padding not counted", "GlobalAveragePool", "LpPool 2"),
    *("batch norm", "instance norm 1-D", "layer norm without bias", "local response norm 1-D"),
    *("softmin", "upsample after a transposed convolution", "cat 513 channels"),
    *("ReduceMin of a long line", "ReduceSum of integers", "ArgMax of rank 5", "linear"),
    *("Conv by a computed bias", "products of computed operands"),
)


@pytest.mark.parametrize("name", CASE_NAMES)
def test_operators_store_half_precision_and_compute_in_float32(name: str) -> None:
    [case] = [case for case in CASES if case.name == name]
    model, inputs = case.build()
    graph, arrays = load(model, inputs)
    expected = compute_reference(model, graph, arrays)
    for target in (Target(), Target(float32_render=False)):
        plan = lower(graph, precision="float16", target=target)
        with Session(plan) as session:
            found = session.run(*arrays)
        for key in plan.computed:
            assert found[key].dtype == expected[key].dtype
            row = match_layer(key, found[key], expected[key], rtol=RTOL["float16"])
            assert row.ok, (row, target)
            if found[key].dtype.kind == "f":
                np.testing.assert_array_equal(found[key], found[key].astype("f2"), strict=False)


class IntegerLookups(nn.Module):
    """Looks up integers that half precision cannot represent."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(5003, 3)

    def forward(self, indices: torch.Tensor, rows: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self.table(indices), rows.argmax(-1), rows.topk(2).indices, indices + 2049


def test_integers_stay_exact() -> None:
    torch.manual_seed(1)
    model = IntegerLookups().eval()
    at = torch.tensor([[2047, 2049, 4097], [5001, 4999, 3]])
    line = torch.randn(2, 5001)
    line[0, 4097], line[0, 2049], line[1, 4999], line[1, 3] = 9, 8, 9, 8
    plan = nbglcnn.compile(model, (at, line), precision="float16")
    with Session(plan) as session:
        found = session.run(at.numpy(), line.numpy())
        rows, most, top, more = (found[key] for key in plan.header.outputs)
        with torch.no_grad():
            expected = [value.numpy() for value in model(at, line)]
        assert match_layer("table", rows, expected[0], rtol=RTOL["float16"]).ok
        for values, true in zip((most, top, more), expected[1:], strict=True):
            np.testing.assert_array_equal(values, true)


class DoublesAsFloat(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.float() * 2


def test_integers_that_float32_cannot_hold_are_refused() -> None:
    largest = np.array([[2**24, -(2**24)]])
    with Session(nbglcnn.compile(DoublesAsFloat().eval(), largest)) as session:
        np.testing.assert_array_equal(session.run(largest)["output"], [[2**25, -(2**25)]])
        for wrong in (largest + 1, -largest - 1):
            with pytest.raises(InputError, match=r"2\^24"):
                session.run(wrong)


def test_sums_do_not_overflow_on_the_way() -> None:
    model = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.GroupNorm(1, 4)).eval()
    x = torch.rand(1, 4, 300, 301) * 50 + torch.arange(4).reshape(1, 4, 1, 1) * 100
    assert float(x[0, 3].sum()) > 65504 * 100
    with Session(nbglcnn.compile(model, x, precision="float16")) as session:
        report = nbglcnn.verify(session, model, x)
    assert report.ok, report


def test_verify_measures_half_precision_by_its_own_tolerance() -> None:
    model, x = autoencoder(3), pictures(3)
    with Session(nbglcnn.compile(model, x, precision="float16")) as session:
        report = nbglcnn.verify(session, model, x)
        assert report.ok
        assert max(row.relative for row in report.rows) > 1e-4  # it really is half precision
        assert "within float16's 0.02 of a layer's largest" in report.summary
        wrong = autoencoder(4)
        assert not nbglcnn.verify(session, wrong, x).ok


def test_numbers_that_half_cannot_hold_are_found_by_verify() -> None:
    model = nn.Sequential(nn.Conv2d(1, 1, 1, bias=False), nn.Conv2d(1, 1, 1, bias=False)).eval()
    with torch.no_grad():
        model[0].weight.fill_(300.0)
        model[1].weight.fill_(1 / 300)
    x = np.full((1, 1, 3, 3), 300, "f4")
    with Session(nbglcnn.compile(model, x, precision="float16")) as session:
        report = nbglcnn.verify(session, model, x)
        assert session.read("0").min() >= 65504  # infinite, or the largest finite value
    assert report.first_diverging == "0"
    with Session(nbglcnn.compile(model, x)) as session:
        assert nbglcnn.verify(session, model, x).ok


def test_a_device_that_draws_no_float32_gets_a_plan_of_float16() -> None:
    model, x = autoencoder(3), pictures(3)
    plan = nbglcnn.compile(model, x, target=Target(float32_render=False))
    assert plan.precision == "float16"
    drawn = {step.output for step in plan.header.passes}
    drawn |= {value.readback.draw_pass.output for value in plan.values}
    assert {plan.header.textures[texture].format for texture in drawn} == {"rgba16f"}


def test_another_precision_is_refused() -> None:
    for make in (nbglcnn.compile, Viewer):
        words = 'precision=\'half\': expected "float32" or "float16"'
        with pytest.raises(InputError, match=words):
            make(*conv_chain(1), precision="half")


def test_a_viewer_in_float16_says_so_and_is_right_to_three_digits() -> None:
    viewer = Viewer(autoencoder(3), pictures(3), precision="float16")
    expected = hook_values(autoencoder(3), pictures(3))
    for key, value in viewer.activations.to_dict().items():
        assert match_layer(key, value, expected[key], rtol=RTOL["float16"]).ok
    assert viewer.activations.source.startswith("local (OpenGL: ")
    assert viewer.activations.source.endswith(", float16)")
    plan = viewer.network.plan
    assert viewer.status["precision"] == "float16"
    assert viewer.status["gpu_bytes"] == plan.gpu_bytes
    assert f"({plan.gpu_bytes / 1e6:.1f} MB on the GPU, float16)" in repr(viewer)
    assert viewer.verify().ok
    viewer.load_state_dict(autoencoder(7).state_dict())
    assert viewer.verify().ok
    before = viewer.output
    viewer.bend("encoder.1", transforms.rotate(30), channels=[0, 2], mix=0.75)
    viewer.bend("decoder.1", transforms.blur(1.5))
    report = viewer.verify()
    assert report.ok and report.summary.endswith("with bends applied")
    assert not match_layer("output", viewer.output, before, rtol=RTOL["float16"]).ok
    assert len(viewer._repr_mimebundle_()[0]["image/png"]) > 500
    viewer.close()


def test_a_texture_knows_its_bytes() -> None:
    size = (5, 3, 4)
    assert Texture(*size).bytes == math.prod(size) * 4 * 4
    assert Texture(*size, "rgba16f").bytes == math.prod(size) * 4 * 2
