"""The Model that model_of makes: from every accepted value, and usable in its place."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from torch import nn

from nbglcnn import InputError, ModelError, Preprocess, Session, compile
from nbglcnn.load import wrap_model
from nbglcnn.reference import compute_reference, engine_name
from onnx_models import model_of as onnx_model
from onnx_models import node

X = np.random.default_rng(0).random((2, 3, 5, 6), np.float32)


def make_model() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()).eval()


def test_a_model_is_taken_where_what_it_was_made_of_is() -> None:
    module = make_model()
    model = wrap_model(module)
    assert wrap_model(model) is model
    plans = [compile(one, X) for one in (module, model)]
    assert plans[0].hash == plans[1].hash
    with Session(plans[1]) as session, torch.no_grad():
        expected = module(torch.from_numpy(X)).numpy()
        np.testing.assert_allclose(session.run(X)["output"], expected, rtol=0, atol=1e-5)


def test_a_wrapped_module_is_unwrapped_and_its_state_dict_has_its_own_names() -> None:
    module = make_model()
    model = wrap_model(nn.DataParallel(module))
    graph, arrays = model.load(X)
    numbers = {name: graph.values[value].data for name, value in graph.parameters.items()}
    assert set(numbers) == set(module.state_dict())
    found = model.state_dict({name: array + 1 for name, array in numbers.items()})
    assert set(found) == {f"module.{name}" for name in numbers}
    for name, array in numbers.items():
        assert_array_equal(found[f"module.{name}"].numpy(), array + 1)
    values = compute_reference(model, graph, arrays)
    assert_array_equal(values["output"], module(torch.from_numpy(X)).detach().numpy())


def test_each_side_of_a_preprocess_is_asked_for_what_is_its_own() -> None:
    module, steps = make_model(), Preprocess(mean=(0.5,) * 3)
    model = wrap_model(module, steps)
    assert model.user_model is module
    assert model.preprocess == steps
    graph, arrays = model.load(X)
    values = compute_reference(model, graph, arrays)
    with torch.no_grad():
        expected = module(torch.from_numpy(X) - 0.5).numpy()
    np.testing.assert_allclose(values["output"], expected, rtol=0, atol=1e-5)
    with pytest.raises(InputError, match="this model already has one"):
        wrap_model(model, steps)


def test_a_file_has_no_code_of_its_own_and_gives_numbers_back_as_they_are() -> None:
    model = wrap_model(onnx_model([node("Relu", ["x"], ["y"])], {"x": X.shape}, ["y"]))
    weights = {"w": X}
    assert model.convert_state_dict(weights) is weights
    assert model.state_dict(weights) == weights
    assert not model.load_each_module(X)
    assert engine_name(model).partition(" ")[0] in ("ONNX", "onnx.reference")
    with pytest.raises(InputError, match="doesn't define how its weights are initialised"):
        model.initial_weights(0)


def test_what_is_no_model_is_refused_before_anything_is_read_of_it() -> None:
    for wrong in (3, nn.ReLU, {"w": X}):
        with pytest.raises(ModelError, match="not a model"):
            wrap_model(wrong)
