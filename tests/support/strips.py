"""Tensors longer than a texture's side, on a device whose longest side is a few texels."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from nbglcnn import Plan, Target
from nbglcnn.codegen.builder import Builder
from nbglcnn.graph import Graph
from nbglcnn.lowering.lower import lower
from nbglcnn.plan.layout import Layout


class TooLarge(Exception):
    """A tensor that is both too wide and too high: no real device of this size could hold it."""


@contextmanager
def limit_texture_side(texels: int) -> Iterator[Target]:
    """A device on which tensors are cut after so many texels, however many strips that makes.

    Weights, tables and what is read back may be larger: no side of theirs follows from a value's.
    """

    def cut(builder: Builder, layout: Layout) -> Layout:
        found = layout.split_to_fit(texels)
        if min(found.strips) > 1:
            raise TooLarge(str(layout))
        return found

    with (
        patch.object(Builder, "fit_to_device", cut),
        patch.object(Builder, "_check_size", lambda *_: None),
    ):
        yield Target(max_texture_size=texels)


def compile_in_strips(graph: Graph, texels: int, **options: str) -> Plan | None:
    """The Plan for such a device; None where nothing of it lies in strips, or cannot be held."""
    try:
        with limit_texture_side(texels) as target:
            plan = lower(graph, target=target, **options)
    except TooLarge:
        return None
    cut = any("#define WRAPPED" in program.source for program in plan.header.programs)
    return plan if cut else None
