"""Every operator case on the local OpenGL session: every layer against PyTorch or ONNX's reference."""

import pytest
from cases import CASES
from equal import assert_equal
from nbglcnn.load import load, reference
from nbglcnn.lower import lower
from nbglcnn.session import Session


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_layer_equals_the_reference(case):
    model, inputs = case.build()
    graph, arrays = load(model, inputs)
    expected = reference(model, graph, arrays)
    for observe in ("all", "outputs"):
        with Session(lower(graph, observe=observe)) as session:
            actual = session.run(*arrays)
        assert actual, "nothing was observed"
        for key, value in actual.items():
            assert_equal(value, expected[key], rtol=case.rtol, name=key)
