"""Tensors longer than a texture's side, on a device that allows only a few texels."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from nbglcnn import Plan, Target
from nbglcnn.codegen.builder import Builder
from nbglcnn.graph import Graph
from nbglcnn.lowering.lower import lower
from nbglcnn.plan.layout import Layout


class TensorTooLarge(Exception):
    """A tensor is both too wide and too high for any real device of this size."""


@contextmanager
def limit_texture_side(texels: int) -> Iterator[Target]:
    """Simulate a device that splits tensors after `texels` texels, into any number of strips.

    Weights, tables and readback textures may be larger: their sides don't depend on a value's.
    """

    def cut(builder: Builder, layout: Layout) -> Layout:
        found = layout.split_to_fit(texels)
        if min(found.strips) > 1:
            raise TensorTooLarge(str(layout))
        return found

    with (
        patch.object(Builder, "fit_to_device", cut),
        patch.object(Builder, "_check_size", lambda *_: None),
    ):
        yield Target(max_texture_size=texels)


def compile_in_strips(graph: Graph, texels: int, **options: str) -> Plan | None:
    """Compile for such a device; None if the Plan has no strips or a tensor is too large."""
    try:
        with limit_texture_side(texels) as target:
            plan = lower(graph, target=target, **options)
    except TensorTooLarge:
        return None
    cut = any("#define WRAPPED" in program.source for program in plan.header.programs)
    return plan if cut else None
