"""Windows over volumes at random sizes, every layer against PyTorch."""

import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import nn

from random_networks import FEW_EXAMPLES_SETTINGS, assert_layers_equal

channels = st.sampled_from([1, 2, 3, 4, 5, 8])
volumes = st.tuples(st.integers(1, 3), *[st.integers(1, 7)] * 3)


Window = dict[str, tuple[int, ...]]


@st.composite
def random_windows(draw: st.DrawFn) -> Window:
    kernel = draw(st.tuples(*[st.integers(1, 3)] * 3))
    return {
        "kernel_size": kernel,
        "stride": draw(st.tuples(*[st.integers(1, 3)] * 3)),
        "dilation": draw(st.tuples(*[st.integers(1, 2)] * 3)),
        "padding": draw(st.tuples(*[st.integers(0, k // 2) for k in kernel])),
    }


def per_axis(size: tuple[int, ...], window: Window) -> zip:
    """Zip each axis's length, kernel, stride, dilation and padding."""
    names = ("kernel_size", "stride", "dilation", "padding")
    return zip(size, *(window[name] for name in names), strict=True)


def is_valid_window(size: tuple[int, ...], window: Window) -> bool:
    return all(d + 2 * p > dilation * (k - 1) for d, k, _, dilation, p in per_axis(size, window))


@given(random_windows(), volumes, st.tuples(channels, channels, st.sampled_from([1, 1, 2, 3])))
@FEW_EXAMPLES_SETTINGS
def test_convolutions(window, size, sizes):
    n, *spatial = size
    assume(is_valid_window(spatial, window))
    each_in, each_out, groups = sizes
    torch.manual_seed(sum(spatial))
    conv = nn.Conv3d(each_in * groups, each_out * groups, groups=groups, **window)
    assert_layers_equal(nn.Sequential(conv, nn.ReLU()), torch.randn(n, each_in * groups, *spatial))


@given(random_windows(), volumes, st.tuples(channels, channels, st.sampled_from([1, 1, 2, 3])))
@FEW_EXAMPLES_SETTINGS
def test_transposed_convolutions(window, size, sizes):
    n, *spatial = size
    each_in, each_out, groups = sizes
    torch.manual_seed(sum(spatial))
    conv = nn.ConvTranspose3d(each_in * groups, each_out * groups, groups=groups, **window)
    x = torch.randn(n, each_in * groups, *(min(d, 4) for d in spatial))
    assume(
        all(
            (d - 1) * s + dilation * (k - 1) + 1 > 2 * p
            for d, k, s, dilation, p in per_axis(x.shape[2:], window)
        )
    )
    assert_layers_equal(nn.Sequential(conv, nn.Tanh()), x)


@given(random_windows(), volumes, channels, st.booleans(), st.booleans())
@FEW_EXAMPLES_SETTINGS
def test_pools(window, size, count, ceil, mean):
    n, *spatial = size
    if mean:
        window["dilation"] = (1, 1, 1)
        # PyTorch requires the unpadded map to be at least as large as the window.
        assume(all(d >= k for d, k in zip(spatial, window["kernel_size"], strict=True)))
    assume(is_valid_window(spatial, window))
    torch.manual_seed(sum(spatial))
    if mean:
        del window["dilation"]
        pool: nn.Module = nn.AvgPool3d(ceil_mode=ceil, count_include_pad=count % 2 == 0, **window)
    else:
        pool = nn.MaxPool3d(ceil_mode=ceil, **window)
    assert_layers_equal(nn.Sequential(pool), torch.randn(n, count, *spatial))
