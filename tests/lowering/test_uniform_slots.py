"""Uniform slots are named: declared once, used by GLSL and filled by Python at the same offset."""

import numpy as np
import pytest
import torch
from torch import nn

import nbglcnn
from assertions import assert_equal
from nbglcnn import Session
from nbglcnn.codegen.builder import Builder
from nbglcnn.codegen.glsl import FragmentShader
from nbglcnn.codegen.uniform_slots import GlslFunction, parse_slots, write_uniforms
from nbglcnn.load import load

SLOT_DECLARATION = (
    "int count; ivec2 stride, pads; float alpha; ivec3 axes[2]; vec2 scale; float beta"
)


def test_slots_lie_as_std140_has_them():
    assert [slot.macro() for slot in parse_slots(SLOT_DECLARATION)] == [
        "#define u_count u.i[0].x",
        "#define u_stride u.i[0].yz",
        "#define u_pads u.i[1].xy",
        "#define u_alpha u.f[0].x",
        "#define u_axes(k) u.i[2 + (k)].xyz",
        "#define u_scale u.f[0].yz",
        "#define u_beta u.f[0].w",
    ]


def test_a_slot_has_the_type_that_it_was_declared_with():
    types = [slot.type for slot in parse_slots("int a; ivec2 b; float c; ivec4 d[3]; float e[2]")]
    assert types == ["int", "ivec2", "float", "ivec4[3]", "float[2]"]


@pytest.mark.parametrize("declared", ["int a; float a", "ivec4 a[9]", "vec4 a, b, c, d; float e"])
def test_slots_that_clash_or_have_no_room_are_refused(declared):
    with pytest.raises(AssertionError):
        parse_slots(declared)


def pack_slots(**numbers):
    """A pass's uniform words with the declared defaults, some of them overridden."""
    usual = {"count": 1, "stride": (2, 3), "pads": (4, 5), "axes": [(6, 7, 8), (9, 10, 11)]}
    floats = {"alpha": 0.5, "scale": (1.5, 2.5), "beta": 3.5}
    words = np.zeros(128, np.int32)
    write_uniforms(words, parse_slots(SLOT_DECLARATION), {**usual, **floats, **numbers})
    return words


def test_integers_floats_and_arrays_go_where_the_macros_read():
    words = pack_slots()
    integers = [1, 2, 3, 0, 4, 5, 0, 0, 6, 7, 8, 0, 9, 10, 11, *[0] * 17]
    assert words[80:112].tolist() == integers
    assert_equal(words[112:].view(np.float32)[:5], np.array([0.5, 1.5, 2.5, 3.5, 0], np.float32))
    assert not words[:80].any()
    assert {slot.name: slot.word_offset for slot in parse_slots(SLOT_DECLARATION)} == {
        **{"count": 80, "stride": 81, "pads": 84, "axes": 88},
        **{"alpha": 112, "scale": 113, "beta": 115},
    }


def test_an_array_may_have_fewer_elements_and_a_slot_has_its_numbers_or_none():
    assert pack_slots(axes=[(6, 7, 8)])[88:96].tolist() == [6, 7, 8, 0, 0, 0, 0, 0]
    for wrong in ({"stride": ()}, {"stride": (1, 2, 3, 4)}, {"axes": np.ones((3, 3))}):
        with pytest.raises(AssertionError):
            pack_slots(**wrong)
    with pytest.raises(ValueError, match="reshape"):
        pack_slots(stride=(1, 2, 3))


def step_slots(numbers, part_slots="float gain"):
    """The uniform words of a pass whose kernel and function both have slots."""
    builder = Builder(load(nn.ReLU(), torch.ones(1))[0], nbglcnn.plan.schema.Target())
    kernel = FragmentShader(
        "tried", "vec4 pixel(ivec4 at) { return gained(u_bias); }", uniform_slots="vec4 bias"
    )
    part = GlslFunction("vec4 gained(vec4 v) { return v * u_gain; }", part_slots)
    output = builder.create_scratch_tensor(builder.layout((1, 4, 1, 1)))
    builder.draw(kernel, output, uniforms=numbers, functions=[part])
    return np.frombuffer(bytes(builder.uniform_data), np.float32)[112:]


def test_numbers_go_where_the_names_are():
    found = step_slots({"gain": 2.5, "bias": (1, 2, 3, 4)})
    assert_equal(found[:5], np.array([1, 2, 3, 4, 2.5], np.float32))


@pytest.mark.parametrize(
    "numbers", [{"bias": (1, 2, 3, 4)}, {"bias": (1, 2, 3, 4), "gain": 1, "gian": 1}, {}]
)
def test_a_number_that_is_missing_or_unknown_is_a_mistake(numbers):
    with pytest.raises(AssertionError, match="declared"):
        step_slots(numbers)


def test_a_kernel_and_its_function_do_not_share_a_name():
    with pytest.raises(AssertionError):
        step_slots({"bias": 1}, "float bias")


def test_numbers_of_kernel_and_fused_function_are_told_apart():
    """A convolution that reads through LeakyReLU, and one that ends in ELU, among others."""
    torch.manual_seed(1)
    model = nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1), nn.LeakyReLU(0.3),
        nn.Conv2d(4, 4, 3, padding=1), nn.ELU(0.7),
        nn.LocalResponseNorm(3, 0.2, 0.6, 1.5), nn.Hardshrink(0.1), nn.LPPool2d(3, 2),
        nn.GroupNorm(2, 4, 0.25),
    ).eval()  # fmt: skip
    x = torch.randn(2, 2, 8, 8)
    with torch.no_grad(), Session(nbglcnn.compile(model, x, observe="outputs")) as session:
        assert_equal(session.run(x.numpy())["output"], model(x).numpy())
