"""Sections and carries: parts of a Plan that run separately; state that outlives a run."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from assertions import assert_equal
from nbglcnn import Plan, Session
from nbglcnn.errors import InputError, ModelError
from nbglcnn.graph import Carry
from nbglcnn.load import load
from nbglcnn.lowering.lower import lower, repack_weights
from nbglcnn.plan.file_checks import first_problem
from recurrent import (
    INITIAL_STATE,
    INPUTS,
    RANDOM,
    cross_section_graph,
    cross_section_values,
    leaky_integrator,
    numpy_step,
    pooled_sections,
)


@pytest.mark.parametrize("section", [None, "forward", "post"])
def test_a_section_that_runs_five_times_without_a_commit_has_run_once(section):
    with Session(lower(leaky_integrator())) as session:
        session.run(INPUTS[0])
        session.commit()
        once = session.run(INPUTS[1])
        state = session.read("s")
        for _ in range(5):
            for key, value in session.run(section=section).items():
                np.testing.assert_array_equal(value, once[key], err_msg=key)
        for key, value in once.items():
            np.testing.assert_array_equal(session.read(key), value, err_msg=key)
        np.testing.assert_array_equal(session.read("s"), state)


def test_a_section_gives_what_it_computes_and_what_that_follows_from():
    with Session(lower(leaky_integrator())) as session:
        assert list(session.run(INPUTS[0], section="forward")) == ["x", "scaled", "next"]
        assert not session.read("y").any()
        assert list(session.run(INPUTS[1], section="post"))[-1] == "y"
        assert_equal(session.read("y"), numpy_step(INPUTS[1], INITIAL_STATE)["y"])
        with pytest.raises(InputError, match=r"no section 'train'.*'forward', 'post'"):
            session.run(INPUTS[0], section="train")


def test_a_commit_takes_only_what_has_run_since_the_last_one():
    with Session(lower(leaky_integrator())) as session:
        session.commit()
        assert_equal(session.read("s"), INITIAL_STATE)
        session.run(INPUTS[0])
        session.commit()
        session.commit()
        once = numpy_step(INPUTS[0], INITIAL_STATE)["next"]
        assert_equal(session.read("s"), once)
        assert_equal(session.run(INPUTS[1])["next"], numpy_step(INPUTS[1], once)["next"])


def test_new_initial_contents_begin_the_state_anew():
    graph = leaky_integrator()
    plan = lower(graph)
    other = replace(
        graph,
        values={
            **graph.values,
            "s.initial": replace(graph.values["s.initial"], data=-INITIAL_STATE),
        },
    )
    with Session(plan) as session:
        session.run(INPUTS[0])
        session.replace_weights(repack_weights(plan, other))
        session.commit()  # no effect: the old contents' step is void
        assert_equal(session.read("s"), -INITIAL_STATE)
        assert_equal(session.run(INPUTS[0])["next"], numpy_step(INPUTS[0], -INITIAL_STATE)["next"])


def test_a_constant_of_the_same_numbers_stays_when_the_state_steps():
    """The state's initial contents are also read: y = tanh(s.next) + s.initial."""
    graph = leaky_integrator()
    *others, last = graph.nodes
    last = replace(last, inputs=("squashed", "s.initial"))
    with Session(lower(replace(graph, nodes=(*others, last)))) as session:
        session.run(INPUTS[0])
        session.commit()
        twice = numpy_step(INPUTS[0], numpy_step(INPUTS[0], INITIAL_STATE)["next"])["next"]
        assert_equal(session.run(INPUTS[0])["y"], np.tanh(twice) + INITIAL_STATE)


@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (3,), (1, 7, 1, 30), (5, 3, 2, 2), ()])
def test_states_of_any_shape_are_carried(shape):
    rng = np.random.default_rng(0)
    start, x = (rng.standard_normal(shape).astype(np.float32) for _ in range(2))
    with Session(lower(leaky_integrator(shape, start))) as session:
        session.run(x)
        session.commit()
        twice = numpy_step(x, numpy_step(x, start)["next"])
        assert_equal(session.run(x)["next"], twice["next"])


def test_what_another_section_reads_is_neither_fused_nor_drawn_over():
    plan = lower(leaky_integrator(), observe="outputs")
    header = plan.header
    assert [(one.name, one.first, one.count) for one in header.sections] == [
        ("forward", 0, 2),
        ("post", 2, 2),
    ]
    [carry] = header.carries
    assert [step.output for step in header.passes].count(carry.source) == 1
    assert header.passes[2].inputs[0] == carry.source  # no copy: it has the state's layout


def test_a_texture_that_another_section_reads_is_not_used_again():
    plan = lower(cross_section_graph(), observe="outputs")
    assert first_problem(plan.header) is None
    outputs = [step.output for step in plan.header.passes]
    assert outputs.count(outputs[0]) == 1 and len(set(outputs)) == 4  # the others share two
    with Session(plan) as session:
        assert_equal(session.run(INPUTS[0])["y"], cross_section_values(INPUTS[0]))


@pytest.mark.parametrize("model", [nn.Conv2d(5, 4, 3), nn.MaxPool2d(2)], ids=["conv", "pool"])
def test_an_operator_of_another_section_is_not_fused(model):
    """A ReLU runs inside a convolution, before it or after it, and here in a separate pass."""
    torch.manual_seed(1)
    follows = nn.Conv2d(5, 4, 3) if isinstance(model, nn.MaxPool2d) else nn.Identity()
    network = nn.Sequential(model, nn.ReLU(), follows).eval()
    graph, _ = load(network, INPUTS[0])
    nodes = [replace(one, section="post") if one.op != "Relu" else one for one in graph.nodes]
    before = [one.op for one in graph.nodes].index("Relu")
    nodes = [*(replace(one, section="first") for one in nodes[:before]), *nodes[before:]]
    plan = lower(replace(graph, nodes=tuple(nodes)), observe="outputs")
    counts = {section.name: section.count for section in plan.header.sections}
    assert counts["first"] == counts["forward"] == 1
    with torch.inference_mode(), Session(plan) as session:
        expected = network(torch.from_numpy(INPUTS[0])).numpy()
        assert_equal(session.run(INPUTS[0])["output"], expected)


def test_a_section_makes_its_own_copies():
    """Both need a value in a layout other than the stored one, and neither depends on the other."""
    graph = pooled_sections()
    x = RANDOM.standard_normal(graph.shape("x")).astype(np.float32)
    pool = x.reshape(1, 5, 2, 2, 2, 2).max((3, 5))
    with Session(lower(graph)) as session:
        assert_equal(session.run(x, section="post")["b"], -pool)
        assert not session.read("a").any()
        assert_equal(
            session.run(-x, section="forward")["a"], (-x).reshape(1, 5, 2, 2, 2, 2).max((3, 5))
        )


def test_a_plan_with_sections_and_carries_survives_its_file():
    plan = lower(leaky_integrator())
    again = Plan.from_bytes(plan.to_bytes())
    assert again.hash == plan.hash
    assert again.header.sections == plan.header.sections
    assert again.header.carries == plan.header.carries
    with Session(again) as session:
        assert_equal(session.run(INPUTS[0])["next"], numpy_step(INPUTS[0], INITIAL_STATE)["next"])


def test_a_section_that_reads_from_a_later_one_is_refused():
    graph = leaky_integrator()
    first, second, *others = graph.nodes
    turned = (replace(first, section="forward"), replace(second, section="late"))
    others = (replace(others[0], section="forward"), *others[1:])
    with pytest.raises(ModelError, match="'forward' reads 'next', which the later section 'late'"):
        lower(replace(graph, nodes=(*turned, *others)))


@pytest.mark.parametrize(
    ("carries", "says"),
    [
        ([Carry("next", "y", "s.initial")], "'y' can't be carried"),
        ([Carry("next", "x", "s.initial")], "'x' can't be carried"),
        ([Carry("next", "s", "y")], "a constant initial value"),
        ([Carry("next", "s", "decay")], r"the same shape and type: .*'decay' \[\]"),
        ([Carry("next", "s", "s.initial")] * 2, "carried from two values"),
    ],
)
def test_carries_that_do_not_fit_are_refused(carries, says):
    with pytest.raises(ModelError, match=says):
        lower(replace(leaky_integrator(), carries=tuple(carries)))
