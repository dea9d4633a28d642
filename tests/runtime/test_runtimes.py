"""The requirements on every runtime of Plans, in one list: see docs/runtimes.md."""

from collections.abc import Callable

import msgspec
import numpy as np
import onnx
import pytest
import torch
from playwright.sync_api import Page
from torch import nn

import nbglcnn
from assertions import assert_equal
from browsers import RENDERERS
from damaged_plans import DAMAGES, damaged_plan, update_checksum
from layout_plans import LAYOUTS, layout_plan, special_values
from nbglcnn import Plan
from nbglcnn.load import load
from nbglcnn.lowering.lower import lower
from nbglcnn.plan import schema as p
from nbglcnn.plan.schema import VERSION
from nbglcnn.reference import compute_reference
from onnx_models import model_of, node, randn
from recurrent import (
    INITIAL_STATE,
    INPUTS,
    SHAPE,
    cross_section_graph,
    cross_section_values,
    leaky_integrator,
    numpy_step,
    with_delay_state,
)
from runtimes import LoadedPlan, OpenGL, Runtime, RuntimeRefusal, WebGL
from webgl_page import GlPage

RANDOM = np.random.default_rng(3)
IMAGES = RANDOM.standard_normal((2, 3, 13, 19)).astype(np.float32)
FLOAT16_TOLERANCE = 2e-2


# Tests that a renderer's arithmetic can affect run on both; the rest only in `make sweep`.
SWIFTSHADER_IN_SWEEP = pytest.param("swiftshader", marks=pytest.mark.sweep)
ON_BOTH_RENDERERS = pytest.mark.parametrize("runtime", ["OpenGL", *RENDERERS], indirect=True)


@pytest.fixture(params=["OpenGL", SWIFTSHADER_IN_SWEEP, "llvmpipe"])
def runtime(
    request: pytest.FixtureRequest,
    gl_page: Callable[..., Page],
    static_site: tuple[str, dict[str, bytes]],
) -> Runtime:
    """Each of the runtimes; the page's on both renderers."""
    if request.param == "OpenGL":
        return OpenGL()
    return WebGL(GlPage(gl_page(request.param), static_site[1]), request.param)


@pytest.fixture(scope="module")
def model() -> nn.Sequential:
    """Maps in blocks and in quadrants, odd sizes and channels."""
    torch.manual_seed(7)
    return nn.Sequential(
        nn.Conv2d(3, 5, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(5, 5, 3, stride=2, padding=1),
        nn.ConvTranspose2d(5, 6, 4, stride=2, padding=1),
        nn.Sigmoid(),
        nn.Flatten(),
    ).eval()


def load_plan(runtime: Runtime, plan: Plan) -> LoadedPlan:
    return runtime.load(plan.to_bytes())


@ON_BOTH_RENDERERS
def test_every_value_equals_pytorch_and_follows_the_input(
    runtime: Runtime, model: nn.Sequential
) -> None:
    plan = nbglcnn.compile(model, IMAGES)
    network = load_plan(runtime, plan)
    for images in (IMAGES, IMAGES[::-1] * 3 - 1):
        expected = compute_reference(model, *load(model, images))
        assert_equal(network.run({"input": images})["output"], expected["output"])
        for value in plan.values:
            assert_equal(network.read(value.key), expected[value.key], name=value.key)
    for name, tensor in model.state_dict().items():
        assert_equal(network.read(name), tensor.numpy(), name=name)


@ON_BOTH_RENDERERS
def test_arrays_survive_every_layout_bit_for_bit(runtime: Runtime) -> None:
    """Also NaN and infinities, and values split into strips."""
    for name, layout in LAYOUTS.items():
        network = load_plan(runtime, layout_plan(layout))
        array = special_values(layout.nchw)
        np.testing.assert_array_equal(network.run({"x": array})["x"], array, err_msg=name)
        network.close()


@ON_BOTH_RENDERERS
def test_a_value_longer_than_a_texture_equals_pytorch(runtime: Runtime) -> None:
    torch.manual_seed(0)
    model, x = nn.Conv1d(1, 8, 9).eval(), RANDOM.standard_normal((1, 1, 17_000)).astype("f4")
    plan = nbglcnn.compile(model, x)
    longest = plan.header.target.max_texture_size
    assert max(max(t.width, t.height) for t in plan.header.textures) <= longest
    assert any("#define WRAPPED" in program.source for program in plan.header.programs)
    with torch.inference_mode():
        expected = model(torch.from_numpy(x)).numpy()
    assert_equal(load_plan(runtime, plan).run({"input": x})["output"], expected)


def test_several_inputs_and_outputs_of_several_types_go_by_their_names(runtime: Runtime) -> None:
    nodes = [
        node("Gather", ["table", "tokens"], ["rows"]),
        node("Mul", ["rows", "gain"], ["scaled"]),
        node("ArgMax", ["scaled"], ["most"], axis=-1, keepdims=0),
        node("Greater", ["scaled", "gain"], ["more"]),
    ]
    proto = model_of(
        nodes, {"tokens": (5,), "gain": (5, 1)}, ["scaled", "most", "more"],
        constants={"table": randn(7, 3)},
    )  # fmt: skip
    proto.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.INT64
    tokens, gain = np.array([6, 0, 3, 3, 1]), randn(5, 1)
    network = load_plan(runtime, nbglcnn.compile(proto))
    scaled = randn(7, 3)[tokens] * gain
    found = network.run({"tokens": tokens, "gain": gain})
    assert list(found) == ["scaled", "most", "more"]
    assert_equal(found["scaled"], scaled)
    assert_equal(found["most"], scaled.argmax(-1))
    assert_equal(found["more"], scaled > gain)
    # An omitted input keeps the value that was written last.
    assert_equal(network.run({"gain": -gain})["scaled"], -scaled)


class NoisyConv(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x + torch.randn(3, 13, 19)) * torch.rand(11, 17)


@pytest.mark.parametrize("observe", ["all", "outputs"])
@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_what_takes_the_place_of_random_numbers_may_be_left_out(
    runtime: Runtime, observe: str, precision: p.Precision
) -> None:
    torch.manual_seed(2)
    model = NoisyConv().eval()
    plan = nbglcnn.compile(model, IMAGES, observe=observe, precision=precision)
    network = load_plan(runtime, plan)
    rtol = FLOAT16_TOLERANCE if precision == "float16" else 1e-5
    graph, arrays = load(model, IMAGES)
    for inputs in ({"x": IMAGES}, {}, {"noise_1": arrays[2] * 2}, {"x": -IMAGES}):
        arrays = [inputs.get(key.name, a) for key, a in zip(graph.keys, arrays, strict=False)]
        expected = compute_reference(model, graph, arrays)["output"]
        assert_equal(network.run(inputs)["output"], expected, rtol=rtol)
    if observe == "all":
        assert_equal(network.read("noise"), arrays[1], rtol=rtol)


@pytest.mark.parametrize("observe", ["all", "outputs"])
def test_values_and_weights_in_float16_are_right_to_three_digits_and_take_half(
    runtime: Runtime, model: nn.Sequential, observe: str
) -> None:
    whole, half = (
        nbglcnn.compile(model, IMAGES, observe=observe, precision=p) for p in ("float32", "float16")
    )
    networks = [load_plan(runtime, plan) for plan in (whole, half)]
    assert [network.precision for network in networks] == ["float32", "float16"]
    assert networks[0].gpu_bytes - networks[1].gpu_bytes == whole.gpu_bytes - half.gpu_bytes
    expected = compute_reference(model, *load(model, IMAGES))
    networks[1].run({"input": IMAGES})
    for value in half.values:
        found = networks[1].read(value.key)
        assert_equal(found, expected[value.key], rtol=FLOAT16_TOLERANCE, name=value.key)
        np.testing.assert_array_equal(found, found.astype(np.float16).astype(np.float32))


@pytest.mark.parametrize("observe", ["all", "outputs"])
def test_three_commits_are_three_steps(runtime: Runtime, observe: str) -> None:
    network = load_plan(runtime, lower(with_delay_state(leaky_integrator()), observe=observe))
    s, before = INITIAL_STATE, np.zeros(SHAPE, np.float32)
    for x in INPUTS:
        expected = numpy_step(x, s)
        found = network.run({"x": x})
        assert_equal(found["y"], expected["y"])
        assert_equal(found["d"], x - before)
        network.commit()
        s, before = expected["next"], x
        if observe == "all":
            assert_equal(network.read("s"), s)  # also before the next run
            assert_equal(network.read("p"), x)


def test_runs_without_a_commit_are_one_step(runtime: Runtime) -> None:
    network = load_plan(runtime, lower(leaky_integrator()))
    network.run({"x": INPUTS[0]})
    for section in (None, "forward", "post", "forward", None):
        network.run({}, section)
    once = numpy_step(INPUTS[0], INITIAL_STATE)
    assert_equal(network.read("y"), once["y"])
    assert_equal(network.read("s"), INITIAL_STATE)
    network.commit()
    network.commit()  # no run since the last commit
    assert_equal(network.read("s"), once["next"])


def test_a_section_runs_with_those_that_it_follows_from(runtime: Runtime) -> None:
    network = load_plan(runtime, lower(leaky_integrator()))
    assert network.sections == ["forward", "post"]
    assert network.run({"x": INPUTS[0]}, "forward") == {}  # it has no output
    assert_equal(network.read("next"), numpy_step(INPUTS[0], INITIAL_STATE)["next"])
    assert_equal(
        network.run({"x": INPUTS[1]}, "post")["y"], numpy_step(INPUTS[1], INITIAL_STATE)["y"]
    )
    with pytest.raises(RuntimeRefusal, match=r"no section .train."):
        network.run({}, "train")


def test_a_section_that_runs_alone_finds_what_it_reads(runtime: Runtime) -> None:
    network = load_plan(runtime, lower(cross_section_graph(), observe="outputs"))
    network.run({"x": INPUTS[0]})
    for _ in range(5):
        assert_equal(network.run({}, "post")["y"], cross_section_values(INPUTS[0]))


@ON_BOTH_RENDERERS
def test_nan_and_infinities_are_carried(runtime: Runtime) -> None:
    x = INPUTS[0].copy()
    x.ravel()[:3] = np.nan, np.inf, -np.inf
    network = load_plan(runtime, lower(leaky_integrator()))
    network.run({"x": x})
    network.commit()
    network.run({"x": INPUTS[1]})
    expected = numpy_step(INPUTS[1], numpy_step(x, INITIAL_STATE)["next"])["next"]
    assert np.isnan(expected.ravel()[0]) and np.isinf(expected.ravel()[1:3]).all()
    assert_equal(network.read("next"), expected)


def test_two_of_one_file_have_states_of_their_own(runtime: Runtime) -> None:
    one, other = (load_plan(runtime, lower(leaky_integrator())) for _ in range(2))
    one.run({"x": INPUTS[0]})
    one.commit()
    once = numpy_step(INPUTS[0], INITIAL_STATE)
    assert_equal(other.run({"x": INPUTS[0]})["y"], once["y"])
    assert_equal(one.run({})["y"], numpy_step(INPUTS[0], once["next"])["y"])


def test_what_is_closed_is_refused_and_others_go_on(runtime: Runtime) -> None:
    one, other = (load_plan(runtime, lower(leaky_integrator())) for _ in range(2))
    one.run({"x": INPUTS[0]})
    one.close()
    with pytest.raises(RuntimeRefusal, match="closed"):
        one.read("y")
    assert_equal(other.run({"x": INPUTS[0]})["y"], numpy_step(INPUTS[0], INITIAL_STATE)["y"])


def test_wrong_sections_and_carries_are_refused_in_the_same_words(runtime: Runtime) -> None:
    for name, (_, says) in DAMAGES.items():
        with pytest.raises(RuntimeRefusal, match=f"damaged Plan( file)?: .*{says}"):
            runtime.load(damaged_plan(name).to_bytes())
            pytest.fail(name)


def test_a_damaged_file_is_refused_in_the_same_words(runtime: Runtime) -> None:
    data = nbglcnn.compile(nn.Conv2d(3, 2, 3).eval(), IMAGES).to_bytes()
    header = msgspec.json.decode(data[16 : 16 + int.from_bytes(data[8:12], "little")])
    other = VERSION - 1
    digits = len(str(VERSION))  # pads fewer digits: the header keeps its length
    older = data.replace(b'"version":%d' % VERSION, b'"version":%*d' % (digits, other), 1)
    flipped = bytearray(data)
    flipped[len(data) // 2] ^= 4
    first = header["weights"][0]["hash"]
    renamed = data.replace(b'"blobs":{"%s' % first[:8].encode(), b'"blobs":{"00000000', 1)
    assert older != data != renamed
    for broken, words in (
        (b"", "not a Plan file of this version"),
        (b"X" + data[1:], "not a Plan file of this version"),
        (data[: len(data) // 2], "checksum is [0-9a-f]{8}, not [0-9a-f]{8}; copy it again"),
        (bytes(flipped), "checksum is [0-9a-f]{8}, not [0-9a-f]{8}; copy it again"),
        (
            update_checksum(data[:8] + b"\xff" * 8 + data[16:]),
            "header of 4294967295 bytes in a file of",
        ),
        (update_checksum(older), rf"of format {other}; .* reads {VERSION}. Compile the model"),
        (update_checksum(renamed), f"weight {first} is missing or has a wrong size"),
    ):
        with pytest.raises(RuntimeRefusal, match=words):
            runtime.load(broken)
            pytest.fail(words)
    assert runtime.load(data).sections == ["forward"]
