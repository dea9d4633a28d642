"""Random small networks and windows, every layer against PyTorch."""

import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import nn

from random_networks import FEW_EXAMPLES_SETTINGS, assert_layers_equal
from viewer_models import layer_chain

channels = st.sampled_from([1, 2, 3, 4, 5, 7, 8, 13])


@st.composite
def random_windows(draw: st.DrawFn) -> dict[str, tuple[int, int]]:
    pairs = st.tuples(st.integers(1, 4), st.integers(1, 4))
    kernel = draw(pairs)
    return {
        "kernel_size": kernel,
        "stride": draw(st.tuples(st.integers(1, 3), st.integers(1, 3))),
        "dilation": draw(st.tuples(st.integers(1, 2), st.integers(1, 2))),
        "padding": draw(st.tuples(st.integers(0, kernel[0] // 2), st.integers(0, kernel[1] // 2))),
    }


@given(
    random_windows(),
    st.tuples(st.integers(1, 3), st.integers(7, 13), st.integers(7, 13)),
    st.tuples(channels, channels, st.sampled_from([1, 1, 2, 3])),
    st.booleans(),
)
@FEW_EXAMPLES_SETTINGS
def test_convolutions(window, size, sizes, bias):
    n, h, w = size
    each_in, each_out, groups = sizes
    torch.manual_seed(h * w)
    conv = nn.Conv2d(each_in * groups, each_out * groups, groups=groups, bias=bias, **window)
    assert_layers_equal(nn.Sequential(conv, nn.ReLU()), torch.randn(n, each_in * groups, h, w))


@given(
    random_windows(),
    st.tuples(st.integers(1, 3), st.integers(1, 6), st.integers(1, 6)),
    st.tuples(channels, channels, st.sampled_from([1, 1, 2, 3])),
    st.tuples(st.integers(0, 2), st.integers(0, 2)),
)
@FEW_EXAMPLES_SETTINGS
def test_transposed_convolutions(window, size, sizes, extra):
    n, h, w = size
    each_in, each_out, groups = sizes
    extra = tuple(
        min(e, max(s, d) - 1)
        for e, s, d in zip(extra, window["stride"], window["dilation"], strict=True)
    )
    torch.manual_seed(h * w)
    conv = nn.ConvTranspose2d(
        each_in * groups, each_out * groups, groups=groups, output_padding=extra, **window
    )
    x = torch.randn(n, each_in * groups, h, w)
    try:
        assume(min(conv(x).shape[2:]) > 0)
    except RuntimeError:  # PyTorch rejects some sizes below 1 and returns others
        assume(False)
    assert_layers_equal(nn.Sequential(conv, nn.Tanh()), x)


@given(st.lists(st.sampled_from("cdtbrsp"), min_size=2, max_size=6), st.integers(0, 2**31 - 1))
@FEW_EXAMPLES_SETTINGS
def test_random_chains(kinds, seed):
    assert_layers_equal(*layer_chain(kinds, seed))
