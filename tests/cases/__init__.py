"""All cases, one file per operator family. Each runs on local OpenGL (test_ops.py) and in the page (test_ops_page.py)."""

from cases import (
    broadcast,
    concat,
    conv,
    matmul,
    movement,
    norm,
    pad,
    pointwise,
    pool,
    reduce,
    resize,
    softmax,
)

FAMILIES = (
    broadcast,
    concat,
    conv,
    matmul,
    movement,
    norm,
    pad,
    pointwise,
    pool,
    reduce,
    resize,
    softmax,
)
CASES = [case for family in FAMILIES for case in family.CASES]
assert len({case.name for case in CASES}) == len(CASES)
