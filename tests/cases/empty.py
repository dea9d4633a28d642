"""Tensors without elements: operators that produce them and operators that consume them."""

import numpy as np

from cases.case import node

EMPTY_SHAPE = (2, 0, 4)
AXIS = np.int64([1])

CASES = [
    node("Relu of no elements", "Relu", [EMPTY_SHAPE]),
    node("Add of no elements and a row", "Add", [EMPTY_SHAPE, (4,)]),
    node("Slice to nothing", "Slice", [(5, 3), np.int64([4]), np.int64([2])], constants=[1, 2]),
    node("Split with an empty piece", "Split", [(7,), np.int64([3, 0, 4])], constants=[1], outputs=3, axis=0),
    node("Reshape of no elements", "Reshape", [EMPTY_SHAPE, np.int64([3, 0, 8])], constants=[1], allowzero=1),
    node("Reshape to a single number", "Reshape", [(1, 1), np.zeros(0, np.int64)], constants=[1]),
    node("Concat with nothing between", "Concat", [(1, 3), (1, 0), (1, 2)], axis=1),
    node("MatMul of no rows", "MatMul", [(0, 3), (3, 5)]),
    node("Conv of no images", "Conv", [(0, 3, 5, 5), (4, 3, 3, 3)]),
    *(
        node(f"Reduce{kind} of no elements", f"Reduce{kind}", [EMPTY_SHAPE, AXIS], constants=[1], keepdims=keep)
        for kind, keep in [("Sum", 0), ("Max", 1), ("Min", 0), ("Prod", 1), ("L1", 0), ("L2", 1), ("LogSum", 0), ("LogSumExp", 1), ("SumSquare", 0)]
    ),
    node("ReduceSum of no elements along another axis", "ReduceSum", [EMPTY_SHAPE, np.int64([0])], constants=[1]),
]  # fmt: skip
