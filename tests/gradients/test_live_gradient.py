"""A contribution to a network's Plan: the live gradient of a chosen unit with respect to the input.

It is defined here, of public parts alone: what a feature does that explains a unit.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from nbglcnn import Viewer, transforms
from nbglcnn.gradients.seeded import with_gradient
from nbglcnn.graph import Graph, Key
from nbglcnn.lowering.shapes import infer_shapes
from nbglcnn.widget.network import Network
from page import ONE_RENDERER, GlPage
from zoo import ResNet18, autoencoder

GRADIENT = "attribution.input"


class UnitGradient:
    """Adds the gradient of a layer's unit; the page chooses the unit by its seed."""

    def __init__(self, layer: str, unit: tuple[int, ...]) -> None:
        self._layer, self._unit = layer, unit

    def __call__(self, graph: Graph) -> Graph:
        graph = infer_shapes(graph)
        of, [x] = graph.key(self._layer).value, graph.inputs
        seed = np.zeros(graph.shape(of), np.float32)
        seed[self._unit] = 1
        name = "attribution"
        graph, found = with_gradient(graph, of, [x], seed, section=name, name=name)
        return replace(graph, keys=(*graph.keys, Key(GRADIENT, found[x], "contributed")))


def torch_gradient(model: nn.Module, layer: str, unit: tuple[int, ...], x: Tensor) -> np.ndarray:
    found: list[Tensor] = []
    handle = model.get_submodule(layer).register_forward_hook(lambda _, __, y: found.append(y))
    given = x.clone().requires_grad_()
    model(given)
    handle.remove()
    [gradient] = torch.autograd.grad(found[0][unit], given)
    return gradient.numpy()


def close(found: np.ndarray, expected: np.ndarray) -> None:
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
    network.extend("attribution", UnitGradient(layer, (0, 0, 0, 0)))
    plan = network.plan
    assert plan.header.outputs == outputs
    [given] = plan.inputs  # the seed is none of the network's own
    [value] = network.values([layer])
    session = gl.open(plan)
    gl.write(session, given.key, x.numpy())
    gl.run(session)
    found = gl.read(session, GRADIENT).reshape(shape)
    close(found, torch_gradient(model, layer, (0, 0, 0, 0), x))
    n, c, h, w = value.shape
    for unit in ((n - 1, c - 1, h // 2, w // 2), (0, 1, h - 1, 0)):
        seed = np.zeros(value.shape, np.float32)
        seed[unit] = 1
        gl.write(session, "attribution.seed", seed)
        gl.run(session)
        close(gl.read(session, GRADIENT).reshape(shape), torch_gradient(model, layer, unit, x))
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
    viewer.network.extend("attribution", UnitGradient(layer, unit))
    viewer.input = x
    close(viewer.activations[GRADIENT], torch_gradient(model, layer, unit, x))
    np.testing.assert_array_equal(viewer.output, output)
    assert [one.layer for one in viewer.bends] == [layer]
    assert viewer.selected == {"layer": layer, "channel": 1}
    # With other weights, some or all, the gradient is that of theirs.
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
    viewer.load_state_dict(model.state_dict())
    close(viewer.activations[GRADIENT], torch_gradient(model, layer, unit, x))
    name = next(name for name in model.state_dict() if name.endswith("weight"))
    viewer.set_weight(name, (2, 0, 1, 1), 3.0)
    with torch.no_grad():
        model.state_dict()[name][2, 0, 1, 1] = 3
    close(viewer.activations[GRADIENT], torch_gradient(model, layer, unit, x))
    viewer.undo()
    viewer.input = 2 * x
    with torch.no_grad():
        model.load_state_dict(viewer.state_dict())
    close(viewer.activations[GRADIENT], torch_gradient(model, layer, unit, 2 * x))
    assert viewer.verify().ok
    viewer.network.extend("attribution", None)
    assert all(not one.key.startswith("attribution") for one in viewer.network.plan.values)
    assert viewer.network.plan.header.outputs == ("output",)
    with pytest.raises(KeyError):
        viewer.activations[GRADIENT]
    viewer.close()
