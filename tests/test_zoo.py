"""Whole architectures: every layer equals PyTorch, observed in full and fused."""

import pytest

from equal import assert_equal
from nbglcnn.load import load, reference
from nbglcnn.lower import lower
from nbglcnn.session import Session
from zoo import ZOO, build


@pytest.mark.parametrize("name", ZOO)
def test_every_layer_of_an_architecture_equals_pytorch(name: str) -> None:
    model, inputs = build(name)
    graph, arrays = load(model, inputs)
    expected = reference(model, graph, arrays)
    for observe in ("all", "outputs"):
        with Session(lower(graph, observe=observe)) as session:
            actual = session.run(*arrays)
        for key, value in actual.items():
            assert_equal(value, expected[key], name=f"{key}, observe={observe}")
    # Containers that are never called themselves have no value, but what they hold has.
    for module, _ in model.named_modules():
        called = any(key.startswith(module) for key in expected)
        assert called, f"{module} has no key"
