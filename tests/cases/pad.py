"""Padding in every mode on any axes."""

import numpy as np
from torch import nn
from torch.nn import functional

from cases.case import module, node
from cases.movement import SPECIAL_VALUES, function_case, int_vector


def pad_case(name, shape, pads, value=None, axes=None, **attributes):
    """Return a case of Pad."""
    inputs = [
        shape,
        int_vector(*pads),
        None if value is None else np.array(value, np.float32),
        None if axes is None else int_vector(*axes),
    ]
    while inputs[-1] is None:
        inputs.pop()
    constants = [k for k in range(1, len(inputs)) if inputs[k] is not None]
    return node(f"Pad {name}", "Pad", inputs, constants=constants, **attributes)


def center_crop_pad_case(name, shape, target_shape, **attributes):
    """Return a case of CenterCropPad."""
    return node(
        f"CenterCropPad {name}",
        "CenterCropPad",
        [shape, int_vector(*target_shape)],
        constants=[1],
        **attributes,
    )


SHAPE_4D = (2, 5, 6, 7)
CASES = [
    module("zero padding", lambda: nn.ZeroPad2d((1, 2, 3, 4)), (1, 3, 7, 9)),
    module("constant padding, partly negative", lambda: nn.ConstantPad2d((-1, 2, 3, -2), 3.5), (2, 3, 7, 9)),
    module("reflection padding", lambda: nn.ReflectionPad2d((1, 2, 3, 4)), (1, 3, 7, 9)),
    module("replication padding", lambda: nn.ReplicationPad2d((1, 2, 3, 4)), (1, 5, 7, 9)),
    module("circular padding", lambda: nn.CircularPad2d((1, 2, 3, 4)), (1, 3, 7, 9)),
    module("circular padding by the whole map", lambda: nn.CircularPad2d((5, 5, 3, 3)), (1, 3, 3, 5)),
    module("reflection padding by all but one", lambda: nn.ReflectionPad2d((4, 4, 2, 2)), (1, 3, 3, 5)),
    module("zero padding 1-D", lambda: nn.ZeroPad1d((2, 3)), (2, 3, 9)),
    module("reflection padding 1-D", lambda: nn.ReflectionPad1d((1, 2)), (1, 3, 7)),
    module("replication padding 1-D", lambda: nn.ReplicationPad1d((1, 2)), (1, 3, 7)),
    module("circular padding 1-D", lambda: nn.CircularPad1d((1, 2)), (2, 3, 7)),
    module("zero padding 3-D", lambda: nn.ConstantPad3d((1, 2, 0, 1, 2, 0), 1.5), (2, 3, 4, 3, 5)),
    module("replication padding 3-D", lambda: nn.ReplicationPad3d((1, 2, 0, 1, 2, 0)), (2, 3, 4, 3, 5)),
    module("reflect conv", lambda: nn.Conv2d(3, 4, 3, padding=1, padding_mode="circular"), (1, 3, 6, 7)),
    function_case("padding of channels", lambda x: functional.pad(x, (0, 0, 0, 0, 2, 3)), (1, 5, 3, 4)),
    function_case("padding with -inf", lambda x: functional.pad(x, (1, 1), value=float("-inf")), (1, 5, 3, 4)),
    pad_case("all axes", SHAPE_4D, [1, 2, 3, 4, 2, 1, 0, 3], 0.25),
    pad_case("all axes edge", SHAPE_4D, [1, 2, 3, 4, 2, 1, 0, 3], mode="edge"),
    pad_case("all axes reflect", SHAPE_4D, [1, 2, 3, 4, 0, 1, 0, 3], mode="reflect"),
    pad_case("all axes wrap", SHAPE_4D, [1, 2, 3, 4, 2, 1, 0, 3], mode="wrap"),
    pad_case("reflect far", (1, 2, 3, 2), [0, 0, 7, 5, 0, 0, 4, 6], mode="reflect"),
    pad_case("reflect one pixel", (1, 3, 1, 1), [0, 0, 2, 1, 0, 0, 1, 3], mode="reflect"),
    pad_case("wrap far", (1, 2, 3, 2), [0, 0, 7, 5, 0, 0, 4, 6], mode="wrap"),
    pad_case("crop alone", SHAPE_4D, [-1, -1, -2, 0, 0, -1, -1, -3]),
    pad_case("crop and pad", SHAPE_4D, [0, -1, 2, -3, 0, 3, -1, 4], -2.0),
    pad_case("crop and reflect", SHAPE_4D, [0, 0, -1, 3, 0, 0, 3, -2], mode="reflect"),
    pad_case("crop and wrap", SHAPE_4D, [0, 0, -1, 3, 0, 0, 3, -2], mode="wrap"),
    pad_case("crop and edge", SHAPE_4D, [0, -1, 2, -3, 0, 3, -1, 4], mode="edge"),
    pad_case("axes", SHAPE_4D, [1, 2, 3, 0], 7.0, axes=[-1, 1]),
    pad_case("axes without a value", SHAPE_4D, [1, 3], None, axes=[2], mode="edge"),
    pad_case("nothing", SHAPE_4D, [0] * 8),
    pad_case("vector", (5,), [2, 3], 1.0),
    pad_case("matrix", (3, 5), [1, 2, 0, 3], mode="wrap"),
    pad_case("matrix reflect", (3, 5), [1, 2, 0, 3], mode="reflect"),
    pad_case("rank 3", (2, 3, 5), [1, 1, 2, 0, 1, 3], mode="edge"),
    pad_case("rank 5", (2, 3, 2, 3, 4), [0, 1, 1, 2, 3, 1, 0, 1, 0, 2], 0.5),
    pad_case("rank 5 reflect", (2, 3, 2, 3, 4), [1, 0, 1, 2, 3, 0, 2, 0, 0, 2], mode="reflect"),
    pad_case("rank 6 outer axes", (2, 3, 2, 3, 2, 2), [1, 0, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0], mode="wrap"),
    pad_case("rank 7", (2, 1, 2, 2, 3, 2, 2), [1, 1, 0, 1, 1, 1, 0, 0, 0, 1, 1, 0, 1, 2], 1.0),
    pad_case("special values", SPECIAL_VALUES, [0, 0, 1, 1, 0, 0, 1, 1], np.nan),
    pad_case("special values reflect", SPECIAL_VALUES, [0, 0, 1, 2, 0, 0, 0, 1], mode="reflect"),
    pad_case("513 channels", (1, 513, 2, 3), [0, 0, 1, 1, 0, 0, 1, 1]),
    node("Pad by a computed number", "Pad", [(2, 3, 4, 5), np.int64([0, 0, 1, 2, 0, 0, 0, 1]), np.float32(2.5)], constants=[1]),
    node("Pad channels by a computed number", "Pad", [(2, 3, 4, 5), np.int64([1, 2]), np.float32(-2), np.int64([1])], constants=[1, 3]),
    center_crop_pad_case("crop", SHAPE_4D, [1, 2, 3, 4]),
    center_crop_pad_case("pad", SHAPE_4D, [3, 8, 9, 12]),
    center_crop_pad_case("both", SHAPE_4D, [2, 5, 3, 10]),
    center_crop_pad_case("axes", SHAPE_4D, [3, 9], axes=[-1, 1]),
]  # fmt: skip
