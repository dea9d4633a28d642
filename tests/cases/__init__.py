"""All cases, one file per operator family; test_ops.py runs them on every renderer."""

from cases import (
    broadcast,
    concat,
    conv,
    einsum,
    empty,
    fourier,
    masks,
    matmul,
    movement,
    norm,
    pad,
    pointwise,
    pool,
    reduce,
    resize,
    sample,
    scatter,
    softmax,
    sort,
)

FAMILIES = (
    broadcast,
    concat,
    conv,
    einsum,
    empty,
    fourier,
    masks,
    matmul,
    movement,
    norm,
    pad,
    pointwise,
    pool,
    reduce,
    resize,
    sample,
    scatter,
    softmax,
    sort,
)
CASES = [case for family in FAMILIES for case in family.CASES]
assert len({case.name for case in CASES}) == len(CASES)
