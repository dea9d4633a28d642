"""Pools with every window that PyTorch and ONNX support, at odd sizes."""

import numpy as np
import onnx
from onnx import TensorProto, helper
from torch import nn

from cases.case import Case, module, node

SPECIAL_VALUES = np.full((1, 2, 4, 4), -np.inf, np.float32)
SPECIAL_VALUES[0, 0] = [
    [1, 2, -np.inf, -np.inf],
    [3, np.nan, -np.inf, -np.inf],
    [0, -1, -np.inf, 2],
    [np.inf, 1, 5, -np.inf],
]


def special_values_case(name, make):
    """A pool of NaN, Inf and -Inf by PyTorch's rules: NaN wins; a window of -Inf yields -Inf."""
    return Case(name, lambda: (make().eval(), (SPECIAL_VALUES,)))


def ties_case(name, make):
    """A pool of small integers with many ties: the index is that of the first maximum."""
    values = np.random.default_rng(3).integers(-1, 2, (1, 5, 9, 8)).astype(np.float32)
    return Case(name, lambda: (make().eval(), (values,)))


def max_unpool_case(shape, kernel, strides, pads):
    """A MaxPool, a layer, and a MaxUnpool of the same window that uses the MaxPool's indices."""

    def build():
        window = {"kernel_shape": kernel, "strides": strides, "pads": pads * 2}
        nodes = [
            helper.make_node("MaxPool", ["x"], ["kept", "where"], **window),
            helper.make_node("Neg", ["kept"], ["changed"]),
            helper.make_node("MaxUnpool", ["changed", "where"], ["y"], **window),
        ]
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
        y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
        graph = helper.make_graph(nodes, "unpool", [x], [y])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
        values = np.random.default_rng(sum(shape)).normal(0, 1, shape).astype(np.float32)
        return onnx.shape_inference.infer_shapes(model), (values,)

    return Case(f"MaxUnpool of a MaxPool of {shape}", build)


class UnpoolAutoencoder(nn.Module):
    """An autoencoder that unpools each maximum to the position it was pooled from, as SegNet does."""

    def __init__(self, dims, kernel):
        super().__init__()
        conv = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[dims - 1]
        pool, unpool = (
            (nn.MaxPool1d, nn.MaxUnpool1d), (nn.MaxPool2d, nn.MaxUnpool2d), (nn.MaxPool3d, nn.MaxUnpool3d)
        )[dims - 1]  # fmt: skip
        self.first, self.middle = conv(2, 5, 3, padding=1), conv(5, 5, 1)
        self.pool, self.unpool = pool(kernel, return_indices=True), unpool(kernel)

    def forward(self, x):
        whole = self.first(x)
        kept, where = self.pool(whole)
        return self.unpool(self.middle(kept), where, output_size=whole.shape)


CASES = [
    module("MaxUnpool2d", lambda: UnpoolAutoencoder(2, 2), (2, 2, 8, 12)),
    module("MaxUnpool2d 2x3", lambda: UnpoolAutoencoder(2, (2, 3)), (1, 2, 8, 9)),
    module("MaxUnpool2d of odd sizes", lambda: UnpoolAutoencoder(2, 2), (1, 2, 9, 7)),
    module("MaxUnpool1d", lambda: UnpoolAutoencoder(1, 2), (2, 2, 16)),
    module("MaxUnpool3d", lambda: UnpoolAutoencoder(3, 2), (1, 2, 4, 6, 8)),
    module("max 2x2", lambda: nn.MaxPool2d(2), (2, 5, 9, 7)),
    module("max 3x3 stride 2 padded", lambda: nn.MaxPool2d(3, 2, 1), (1, 3, 112, 111)),
    module("max 3x3 stride 2 padded, ceil", lambda: nn.MaxPool2d(3, 2, 1, ceil_mode=True), (1, 3, 8, 9)),
    module("max 2x2 ceil", lambda: nn.MaxPool2d(2, ceil_mode=True), (1, 5, 7, 7)),
    module("max 5x5 stride 1 padded", lambda: nn.MaxPool2d(5, 1, 2), (1, 6, 8, 7)),
    module("max dilated", lambda: nn.MaxPool2d(3, 2, 1, dilation=2), (1, 5, 18, 19)),
    module("max dilated 3x2 stride 1x3", lambda: nn.MaxPool2d((2, 3), (1, 3), (1, 0), dilation=(3, 2)), (2, 4, 9, 17)),
    module("max stride larger than window", lambda: nn.MaxPool2d(2, 5), (1, 3, 13, 17)),
    module("max of one row", lambda: nn.MaxPool2d((1, 3), (1, 2)), (1, 3, 1, 17)),
    module("max of one column", lambda: nn.MaxPool2d((3, 1), 2), (3, 1, 17, 1)),
    module("max to two columns", lambda: nn.MaxPool2d((5, 2)), (1, 3, 5, 4)),
    module("max to two rows", lambda: nn.MaxPool2d((2, 5)), (1, 3, 4, 5)),
    module("max to 1x1, batch 5", lambda: nn.MaxPool2d(3, 1, 0, dilation=2), (5, 3, 5, 5)),
    module("max to 1x1 padded, batch 3", lambda: nn.MaxPool2d(3, 2, 1), (3, 6, 2, 2)),
    module("max to 1x1 padded, batch 2", lambda: nn.MaxPool2d(3, 2, 1), (2, 6, 2, 2)),
    module("max 513 channels", lambda: nn.MaxPool2d(2), (1, 513, 4, 6)),
    module("max 1-D", lambda: nn.MaxPool1d(3, 2, 1), (2, 5, 18)),
    module("max 1-D dilated ceil", lambda: nn.MaxPool1d(3, 2, dilation=3, ceil_mode=True), (1, 3, 18)),
    module("max after a transposed conv", lambda: nn.Sequential(nn.ConvTranspose2d(3, 5, 4, 2, 1), nn.MaxPool2d(3, 2)), (1, 3, 7, 9)),
    module("max 3-D", lambda: nn.MaxPool3d(2), (2, 5, 5, 6, 7)),
    module("max 3-D strides, pads, dilations, ceil", lambda: nn.MaxPool3d((3, 2, 3), (2, 1, 3), (1, 0, 1), (1, 3, 2), ceil_mode=True), (1, 3, 6, 9, 13)),
    module("max 3-D to one column", lambda: nn.MaxPool3d((1, 2, 5)), (2, 3, 3, 5, 5)),
    module("max 3-D to two columns", lambda: nn.MaxPool3d((2, 3, 2), 1), (1, 3, 3, 5, 3)),
    module("max 3-D to 1x1x1 padded, batch 3", lambda: nn.MaxPool3d(3, 2, 1), (3, 6, 2, 2, 2)),
    module("max 3-D of the whole volume", lambda: nn.MaxPool3d((3, 5, 7)), (2, 3, 3, 5, 7)),
    module("max 3-D after a 3-D conv", lambda: nn.Sequential(nn.Conv3d(3, 5, 3), nn.ReLU(), nn.MaxPool3d(2, 1)), (1, 3, 5, 5, 7)),
    special_values_case("max of special values", lambda: nn.MaxPool2d(2)),
    special_values_case("max of special values padded", lambda: nn.MaxPool2d(3, 1, 1)),
    special_values_case("max of special values, whole map", lambda: nn.MaxPool2d(4)),
    node("max asymmetric pads", "MaxPool", [(1, 3, 7, 6)], kernel_shape=[3, 4], pads=[0, 1, 2, 3], strides=[2, 1]),
    node("max SAME_UPPER", "MaxPool", [(1, 3, 7, 6)], kernel_shape=[3, 2], strides=[2, 2], auto_pad="SAME_UPPER"),
    node("max SAME_LOWER", "MaxPool", [(1, 3, 7, 6)], kernel_shape=[2, 3], strides=[2, 2], auto_pad="SAME_LOWER"),
    node("max VALID", "MaxPool", [(1, 3, 7, 6)], kernel_shape=[2, 3], strides=[2, 2], auto_pad="VALID"),
    node("max with indices", "MaxPool", [(2, 5, 7, 6)], outputs=2, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
    ties_case("max with indices of equal elements", lambda: nn.MaxPool2d(3, 2, return_indices=True)),
    node("max with indices by columns", "MaxPool", [(1, 3, 5, 6)], outputs=2, kernel_shape=[2, 2], storage_order=1),
    *(
        node(f"max with indices of {shape}, order {order}", "MaxPool", [shape], outputs=2, storage_order=order, kernel_shape=[2] * rank, strides=[2, 1, 2][:rank], pads=[1, 0, 1][:rank] + [0] * rank)
        for shape in ((2, 3, 9), (2, 3, 5, 6), (2, 3, 3, 4, 5)) for order in (0, 1) for rank in [len(shape) - 2]
    ),
    module("mean of columns", lambda: nn.AvgPool2d((2, 1)), (2, 3, 6, 1)),
    module("mean of columns, padded", lambda: nn.AvgPool2d((3, 1), (2, 1), (1, 0), count_include_pad=False), (2, 3, 17, 1)),
    module("mean of rows, padded", lambda: nn.AvgPool2d((1, 3), (1, 2), (0, 1), count_include_pad=False), (2, 3, 1, 17)),
    module("mean to 2x1", lambda: nn.AvgPool2d((2, 3), 2, 1, count_include_pad=False), (2, 3, 2, 2)),
    module("mean 3-D", lambda: nn.AvgPool3d(2), (2, 5, 5, 6, 7)),
    module("mean 3-D padded, ceil", lambda: nn.AvgPool3d((3, 2, 3), 2, (1, 0, 1), ceil_mode=True), (1, 3, 6, 6, 8)),
    module("mean 3-D padding not counted", lambda: nn.AvgPool3d(3, 2, 1, count_include_pad=False), (2, 3, 4, 5, 7)),
    module("mean 3-D of the whole volume", lambda: nn.AvgPool3d((3, 5, 7)), (2, 3, 3, 5, 7)),
    node("mean 3-D dilated, asymmetric pads", "AveragePool", [(1, 3, 6, 7, 9)], kernel_shape=[2, 3, 2], pads=[1, 0, 2, 0, 2, 1], dilations=[2, 1, 3], strides=[1, 2, 2], count_include_pad=1),
    node("mean 3-D SAME_UPPER", "AveragePool", [(1, 3, 5, 6, 7)], kernel_shape=[2, 3, 2], strides=[2, 2, 1], auto_pad="SAME_UPPER"),
    module("mean 2x2", lambda: nn.AvgPool2d(2), (2, 5, 9, 7)),
    module("mean 3x3 stride 2 padded", lambda: nn.AvgPool2d(3, 2, 1), (1, 3, 8, 9)),
    module("mean 3x3 stride 2 padded, ceil", lambda: nn.AvgPool2d(3, 2, 1, ceil_mode=True), (1, 3, 8, 8)),
    module("mean 3x3 padding not counted", lambda: nn.AvgPool2d(3, 2, 1, count_include_pad=False), (1, 3, 8, 9)),
    module("mean padding not counted, ceil", lambda: nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False), (1, 3, 8, 8)),
    module("mean ceil without padding", lambda: nn.AvgPool2d(3, 2, ceil_mode=True), (1, 5, 8, 8)),
    module("mean 1-D", lambda: nn.AvgPool1d(3, 2, 1), (2, 5, 8)),
    module("mean of the whole map", lambda: nn.AvgPool2d(7), (2, 513, 7, 7)),
    module("mean of most of the map", lambda: nn.AvgPool2d(29, 1), (1, 3, 30, 30)),
    node("mean asymmetric pads", "AveragePool", [(1, 3, 7, 6)], kernel_shape=[3, 4], pads=[0, 1, 2, 3], strides=[2, 1]),
    node("mean asymmetric pads counted", "AveragePool", [(1, 3, 7, 6)], kernel_shape=[3, 4], pads=[0, 1, 2, 3], strides=[2, 1], count_include_pad=1),
    node("mean dilated", "AveragePool", [(1, 3, 9, 8)], kernel_shape=[3, 2], pads=[2, 1, 2, 1], dilations=[2, 3]),
    node("mean dilated ceil counted", "AveragePool", [(1, 3, 9, 8)], kernel_shape=[3, 2], pads=[2, 1, 2, 1], dilations=[2, 3], strides=[2, 2], ceil_mode=1, count_include_pad=1),
    node("mean SAME_UPPER", "AveragePool", [(1, 3, 7, 6)], kernel_shape=[3, 2], strides=[2, 2], auto_pad="SAME_UPPER"),
    node("mean SAME_LOWER", "AveragePool", [(1, 3, 7, 6)], kernel_shape=[2, 3], strides=[2, 2], auto_pad="SAME_LOWER"),
    special_values_case("mean of special values", lambda: nn.AvgPool2d(2)),
    node("LpPool 2", "LpPool", [(1, 3, 7, 6)], kernel_shape=[3, 2], strides=[2, 1]),
    node("LpPool 1 padded", "LpPool", [(1, 3, 7, 6)], kernel_shape=[3, 3], pads=[1, 1, 1, 1], p=1),
    node("LpPool 3 dilated", "LpPool", [(2, 5, 7, 6)], kernel_shape=[2, 2], dilations=[2, 2], p=3),
    node("LpPool 4 of the whole map", "LpPool", [(2, 5, 4, 6)], kernel_shape=[4, 6], p=4),
    node("LpPool 3-D", "LpPool", [(1, 3, 4, 5, 7)], kernel_shape=[2, 3, 2], strides=[1, 2, 2], pads=[1, 0, 1, 0, 1, 1]),
    node("LpPool ceil", "LpPool", [(1, 3, 8, 6)], kernel_shape=[3, 2], strides=[2, 3], ceil_mode=1),
    node("LpPool SAME_UPPER", "LpPool", [(1, 3, 7, 6)], kernel_shape=[3, 2], strides=[2, 2], auto_pad="SAME_UPPER"),
    module("LPPool2d", lambda: nn.LPPool2d(2, 3, 2), (1, 3, 7, 9)),
    node("GlobalAveragePool", "GlobalAveragePool", [(2, 513, 7, 5)]),
    node("GlobalAveragePool of a large map", "GlobalAveragePool", [(1, 3, 101, 203)], values=lambda r, s: r.standard_normal(s) + 10),
    node("GlobalAveragePool 1-D", "GlobalAveragePool", [(2, 5, 33)]),
    node("GlobalAveragePool 3-D", "GlobalAveragePool", [(2, 3, 4, 5, 6)]),
    node("GlobalMaxPool 3-D", "GlobalMaxPool", [(2, 3, 4, 5, 6)]),
    node("GlobalLpPool 3-D", "GlobalLpPool", [(2, 3, 4, 5, 6)], p=3),
    node("GlobalMaxPool", "GlobalMaxPool", [(2, 5, 7, 5)]),
    node("GlobalLpPool 1", "GlobalLpPool", [(2, 5, 7, 5)], p=1),
    node("GlobalLpPool 2", "GlobalLpPool", [(2, 5, 7, 5)]),
    node("GlobalLpPool 3", "GlobalLpPool", [(2, 5, 7, 5)], p=3),
    module("adaptive mean 1", lambda: nn.AdaptiveAvgPool2d(1), (2, 5, 7, 5)),
    module("adaptive mean 3 of 9x6", lambda: nn.AdaptiveAvgPool2d(3), (1, 3, 9, 6)),
    module("adaptive mean 3x4 of 7x5", lambda: nn.AdaptiveAvgPool2d((3, 4)), (1, 3, 7, 5)),
    module("adaptive mean rows kept", lambda: nn.AdaptiveAvgPool2d((None, 3)), (1, 3, 7, 9)),
    module("adaptive mean 1-D", lambda: nn.AdaptiveAvgPool1d(3), (1, 3, 7)),
    module("adaptive mean 3x5 of 20x23", lambda: nn.AdaptiveAvgPool2d((3, 5)), (3, 5, 20, 23)),
    module("adaptive mean 3-D uneven", lambda: nn.AdaptiveAvgPool3d((3, 2, 4)), (2, 3, 4, 5, 7)),
    module("adaptive max 1", lambda: nn.AdaptiveMaxPool2d(1), (2, 5, 7, 5)),
    module("adaptive max 3x4 of 7x5", lambda: nn.AdaptiveMaxPool2d((3, 4)), (2, 5, 7, 5)),
    module("adaptive max 1-D", lambda: nn.AdaptiveMaxPool1d(3), (1, 3, 7)),
    module("adaptive max 3-D", lambda: nn.AdaptiveMaxPool3d((3, 2, 4)), (2, 3, 4, 5, 7)),
    module("adaptive mean 3-D", lambda: nn.AdaptiveAvgPool3d(1), (2, 3, 4, 6, 5)),
    node("MaxUnpool", "MaxUnpool", [(1, 1, 2, 2), np.array([[[[1, 3], [4, 15]]]])], kernel_shape=[2, 2], strides=[2, 2]),
    node("MaxUnpool, the last of equal indices", "MaxUnpool", [(1, 2, 2, 2), np.array([[[[1, 1], [20, 1]], [[5, 20], [0, 31]]]])], kernel_shape=[2, 2], strides=[2, 2]),
    node("MaxUnpool 1-D", "MaxUnpool", [(1, 3, 2), np.array([[[0, 3], [5, 6], [8, 11]]])], kernel_shape=[2], strides=[2]),
    *(max_unpool_case(shape, *window) for shape, window in {
        (2, 3, 6, 8): ([2, 2], [2, 2], [0, 0]), (1, 5, 7, 8): ([3, 2], [2, 3], [1, 0]), (2, 3, 9): ([3], [2], [0]),
        (1, 3, 4, 4, 6): ([2, 2, 2], [2, 2, 2], [0, 0, 0]), (1, 1, 256, 256): ([2, 2], [2, 2], [0, 0]),
    }.items()),
]  # fmt: skip
