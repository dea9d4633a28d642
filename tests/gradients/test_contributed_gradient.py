"""A contribution to a network's Plan: the live gradient of a chosen unit in the input.

The contribution is defined here and uses only public API, as a feature that explains a unit would.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import nbglcnn
from nbglcnn import Session, Viewer, transforms
from nbglcnn.contribution import Contribution
from nbglcnn.errors import UnsupportedModel
from nbglcnn.features.training.compiled_training import TrainingExtension
from nbglcnn.features.training.local_training import compile_training
from nbglcnn.features.training.training_graph import STEP_PREFIX
from nbglcnn.gradients.vjp import add_vjp
from nbglcnn.graph import Graph, ValueKey
from nbglcnn.lowering.shape_inference import infer_shapes
from nbglcnn.widget.network import Network
from training_checks import train_in_torch
from webgl_page import ONE_RENDERER, GlPage
from zoo import ResNet18, autoencoder

GRADIENT_KEY = "attribution.input"


class UnitGradient:
    """Add the gradient of a layer's unit; the page selects the unit by its seed."""

    def __init__(self, layer: str, unit: tuple[int, ...]) -> None:
        self._layer, self._unit = layer, unit

    def __call__(self, graph: Graph) -> Graph:
        graph = infer_shapes(graph)
        of, [x] = graph.key(self._layer).value_name, graph.inputs
        seed = np.zeros(graph.shape(of), np.float32)
        seed[self._unit] = 1
        name = "attribution"
        graph, found = add_vjp(graph, of, [x], seed, section=name, name=name)
        return replace(graph, keys=(*graph.keys, ValueKey(GRADIENT_KEY, found[x], "contributed")))


def torch_gradient(model: nn.Module, layer: str, unit: tuple[int, ...], x: Tensor) -> np.ndarray:
    found: list[Tensor] = []
    handle = model.get_submodule(layer).register_forward_hook(lambda _, __, y: found.append(y))
    given = x.clone().requires_grad_()
    model(given)
    handle.remove()
    [gradient] = torch.autograd.grad(found[0][unit], given)
    return gradient.numpy()


def assert_close(found: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


NETWORKS = {
    "autoencoder": (autoencoder, (2, 1, 28, 28)),
    "resnet18": (ResNet18, (1, 3, 65, 47)),
}


@ONE_RENDERER
@pytest.mark.parametrize("name", NETWORKS)
def test_a_page_shows_the_gradient_of_the_unit_that_it_chooses(gl: GlPage, name: str) -> None:
    torch.manual_seed(0)
    make, shape = NETWORKS[name]
    model, x = make().eval(), torch.rand(shape)
    layers = [path for path, one in model.named_modules() if isinstance(one, nn.Conv2d)]
    layer = layers[len(layers) // 2]
    network = Network(model, x, observe="all", precision="float32")
    outputs = network.plan.header.outputs
    network.set_contribution("attribution", Contribution(UnitGradient(layer, (0, 0, 0, 0))))
    plan = network.plan
    assert plan.header.outputs == outputs
    [given] = plan.inputs  # the seed isn't a network input
    [value] = network.value_records([layer])
    session = gl.open(plan)
    gl.write(session, given.key, x.numpy())
    gl.run(session)
    found = gl.read(session, GRADIENT_KEY).reshape(shape)
    assert_close(found, torch_gradient(model, layer, (0, 0, 0, 0), x))
    n, c, h, w = value.shape
    for unit in ((n - 1, c - 1, h // 2, w // 2), (0, 1, h - 1, 0)):
        seed = np.zeros(value.shape, np.float32)
        seed[unit] = 1
        gl.write(session, "attribution.seed", seed)
        gl.run(session)
        assert_close(
            gl.read(session, GRADIENT_KEY).reshape(shape), torch_gradient(model, layer, unit, x)
        )
    gl.close(session)


def test_a_viewer_takes_a_contribution_and_gives_it_back_with_all_else_as_it_was() -> None:
    torch.manual_seed(1)
    model, x = autoencoder().eval(), torch.rand(2, 1, 28, 28)
    layer = next(path for path, one in model.named_modules() if isinstance(one, nn.Conv2d))
    viewer = Viewer(model, x)
    output = viewer.output
    viewer.bend(layer, transforms.multiply(2), enabled=False)
    viewer.selected = {"layer": layer, "channel": 1}
    unit = (1, 2, 3, 4)
    viewer.network.set_contribution("attribution", Contribution(UnitGradient(layer, unit)))
    viewer.input = x
    assert_close(viewer.activations[GRADIENT_KEY], torch_gradient(model, layer, unit, x))
    np.testing.assert_array_equal(viewer.output, output)
    assert [one.layer for one in viewer.bends] == [layer]
    assert viewer.selected == {"layer": layer, "channel": 1}
    # After all or some weights change, the gradient follows the new weights.
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
    viewer.load_state_dict(model.state_dict())
    assert_close(viewer.activations[GRADIENT_KEY], torch_gradient(model, layer, unit, x))
    name = next(name for name in model.state_dict() if name.endswith("weight"))
    viewer.set_weight(name, (2, 0, 1, 1), 3.0)
    with torch.no_grad():
        model.state_dict()[name][2, 0, 1, 1] = 3
    assert_close(viewer.activations[GRADIENT_KEY], torch_gradient(model, layer, unit, x))
    viewer.undo()
    viewer.input = 2 * x
    with torch.no_grad():
        model.load_state_dict(viewer.state_dict())
    assert_close(viewer.activations[GRADIENT_KEY], torch_gradient(model, layer, unit, 2 * x))
    assert viewer.verify().ok
    viewer.network.set_contribution("attribution", None)
    assert all(not one.key.startswith("attribution") for one in viewer.network.plan.values)
    assert viewer.network.plan.header.outputs == ("output",)
    with pytest.raises(KeyError):
        viewer.activations[GRADIENT_KEY]
    viewer.close()


def test_the_gradient_follows_the_weights_that_a_training_changes() -> None:
    """Two contributions to one Plan: the gradient's section reads weights that training changes."""
    torch.manual_seed(2)
    model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Conv2d(3, 2, 3))
    x, unit = torch.rand(2, 1, 9, 8), (1, 0, 2, 3)
    data, target = torch.rand(5, 1, 9, 8), torch.rand(5, 2, 5, 4)
    run, batches = compile_training(model.eval(), (data, target), "mse", nbglcnn.SGD(0.5), 5)
    network = Network(model, x, observe="all", precision="float32")
    network.set_contribution("attribution", Contribution(UnitGradient("3", unit)))
    step = TrainingExtension(run)
    with Session(network.compile_with(step)) as session:
        for number, batch in zip(range(3), batches.batches(0), strict=False):
            for key, array in run.step_inputs(batch, number).items():
                session.write(STEP_PREFIX + key, array)
            session.run(section="train", read=())
            session.commit()
        found = session.run(x.numpy())[GRADIENT_KEY]
    right = train_in_torch(
        model, data, target, nn.functional.mse_loss, lambda p: torch.optim.SGD(p, 0.5),
        steps=3, size=5,
    ).model.eval()  # fmt: skip
    assert_close(found, torch_gradient(right, "3", unit, x))
    assert np.abs(found - torch_gradient(model, "3", unit, x)).max() > 1e-3


@pytest.mark.parametrize("error", [UnsupportedModel("0: no gradient"), KeyError("0")])
def test_a_contribution_that_cannot_be_compiled_changes_nothing(error: Exception) -> None:
    model, x = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU()).eval(), torch.rand(2, 1, 9, 8)
    network = Network(model, x, observe="all", precision="float32")
    network.set_contribution("attribution", Contribution(UnitGradient("0", (0, 0, 0, 0))))
    plan, revision = network.plan, network.revision

    def fails(graph: Graph) -> Graph:
        raise error

    with pytest.raises(type(error)):
        network.set_contribution("attribution", Contribution(fails))
    assert network.plan is plan and network.revision == revision
    network.set_input(2 * x)
    assert_close(
        network.compute_values([GRADIENT_KEY])[0], torch_gradient(model, "0", (0, 0, 0, 0), 2 * x)
    )
