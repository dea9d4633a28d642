"""Gradients of random graphs, compared with torch.autograd in float64."""

from hypothesis import given, settings
from hypothesis import strategies as st

from gradient_checks import assert_gradients
from random_graphs import OPERATION_KINDS, RandomGraph
from random_networks import FEW_EXAMPLES_SETTINGS

graph_steps = st.lists(
    st.tuples(st.sampled_from([*OPERATION_KINDS, "again"]), st.integers(0, 4), st.integers(0, 4)),
    min_size=2,
    max_size=7,
)


@given(graph_steps, st.integers(0, 2**31 - 1))
@settings(FEW_EXAMPLES_SETTINGS, max_examples=16)
def test_random_graphs(wanted: list[tuple[str, int, int]], seed: int) -> None:
    graph = RandomGraph(wanted, seed)
    # A bias before a softmax or a norm has gradient 0, except for rounding of terms of about 1.
    assert_gradients(graph, *graph.inputs, absolute_tolerance=3e-6)
