"""Our ONNX forms of common operators, against PyTorch, and the forms left to onnxscript."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from assertions import assert_equal
from nbglcnn import Session, compile
from nbglcnn.load.torch.translate import translation as translate
from nbglcnn.load.torch.translate.aten_translations import TRANSLATIONS

X = np.random.default_rng(5).standard_normal((3, 6, 11, 9)).astype(np.float32)
TorchCase = Callable[[torch.Tensor], object] | nn.Module


class FunctionModule(nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], object]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> object:
        return self.function(x)


def make_batch_norm(**options: bool) -> nn.Module:
    made = nn.BatchNorm2d(6, eps=1e-2, **options)
    made.running_mean = torch.linspace(-1, 1, 6)
    made.running_var = torch.linspace(0.2, 3, 6)
    return made


NBGLCNN_TRANSLATIONS: dict[str, TorchCase] = {
    "conv": nn.Conv2d(6, 4, (3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2), groups=2),
    "conv without bias": nn.Conv2d(6, 4, 3, bias=False),
    "conv of one dimension": lambda x: F.conv1d(x.flatten(2), torch.ones(2, 6, 3), padding=1),
    "conv of three": lambda x: F.conv3d(x.unsqueeze(1), torch.ones(2, 1, 3, 2, 2), stride=2),
    "transposed": nn.ConvTranspose2d(6, 4, 3, 2, 1, 1, groups=2),
    "transposed without bias": nn.ConvTranspose2d(6, 4, (2, 3), (1, 2), bias=False, dilation=2),
    "linear": nn.Sequential(nn.Flatten(), nn.Linear(594, 7)),
    "linear over tokens": nn.Linear(9, 5),
    "linear without bias": nn.Linear(9, 5, bias=False),
    "matmul": lambda x: x @ x.transpose(-1, 2),
    "norm": make_batch_norm(),
    "norm without weights": make_batch_norm(affine=False),
    "layer norm": nn.LayerNorm((11, 9), eps=1e-3),
    "layer norm without bias": nn.LayerNorm(9, bias=False),
    "functions": lambda x: torch.sqrt(torch.exp(-torch.abs(torch.tanh(torch.relu(x) - 0.1)))),
    "sigmoids": lambda x: (torch.sigmoid(x), F.silu(x), F.hardswish(x), F.hardsigmoid(x)),
    "gelus": lambda x: (F.gelu(x), F.gelu(x, approximate="tanh")),
    "leaky": lambda x: (F.leaky_relu(x), F.leaky_relu(x, 0.3)),
    "clipped": lambda x: (F.relu6(x * 5), F.hardtanh(x, -0.5, 2)),
    "softmax": lambda x: (x.softmax(1), x.softmax(-1)),
    "numbers": lambda x: (x + 1, 2 - x, x * 0.5, 3 / (x.abs() + 1), x / 4, x + True),
    "tensors": lambda x: (x + x.flip(0), x * x[:, :1], x / (x.abs() + 1), x - x.mean((2, 3), True)),
    "scaled": lambda x: torch.add(x, x.flip(1), alpha=3) + torch.sub(x, 1, alpha=2),
    "largest": lambda x: (F.max_pool2d(x, 3), F.max_pool2d(x, (2, 3), 2, 1, ceil_mode=True)),
    "largest far apart": nn.MaxPool2d(2, stride=1, dilation=(2, 3)),
    "average": lambda x: (
        F.avg_pool2d(x, 3),
        F.avg_pool2d(x, (2, 3), (1, 2), (1, 0), False, False),
    ),
    "average of all": lambda x: (x.mean((2, 3)), x.mean((-1,), keepdim=True), x.mean(1)),
    "flattened": lambda x: (x.flatten(1), x.flatten(), x.flatten(2), x.flatten(1, 2)),
    "shaped": lambda x: (x.view(3, 2, -1), x.reshape(3, 6, 99, 1), x.unflatten(1, (3, 2))),
    "turned": lambda x: (x.permute(0, -1, 1, 2), x.transpose(1, -1), x[:, None].unsqueeze(-1)),
    "joined": lambda x: (torch.cat([x, -x, x], 1), torch.cat([x, x], -1), torch.cat([x])),
    "chunks": lambda x: x.chunk(2, 3) + x.chunk(4, 1),
    "names": lambda x: F.dropout(x.clone().contiguous(), 0.5, False) * 2,
}
# We have no form for these arguments.
ONNXSCRIPT_TRANSLATIONS: dict[str, TorchCase] = {
    "one example": lambda x: F.conv2d(x[0], torch.ones(2, 6, 3, 3)),
    "pools of one example": lambda x: (F.max_pool2d(x[0], 2), F.avg_pool2d(x[0], 2)),
    "vectors": lambda x: x.flatten(1) @ torch.ones(594),
    "whole numbers": lambda x: ((x * 3).int() + 2).float() * ((x * 3).int() * (x > 0)).float(),
    "both types": lambda x: x + (x * 3).int(),
    "empty": lambda x: torch.cat([torch.empty(0), x[0, 0, 0]]),
    "mean of the whole": lambda x: x.mean(),
    "softmax of doubles": lambda x: x.softmax(1, dtype=torch.float64).float(),
    "layer norm without weights": nn.LayerNorm(9, elementwise_affine=False),
}


def assert_equals_torch(case: TorchCase) -> None:
    model = (case if isinstance(case, nn.Module) else FunctionModule(case)).eval()
    with torch.no_grad():
        wanted = model(torch.from_numpy(X))
    with Session(compile(model, X)) as session:
        found = session.run(X)
    for at, one in enumerate(wanted if isinstance(wanted, tuple) else [wanted]):
        name = f"output[{at}]" if isinstance(wanted, tuple) else "output"
        assert_equal(found[name], one.numpy(), name=name)


@pytest.mark.parametrize("name", NBGLCNN_TRANSLATIONS)
def test_a_form_gives_pytorchs_numbers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    used = {"flip", "slice", "select", "ones"}  # from other operators
    translated = translate._OnnxscriptTranslator.translate_node

    def some(self: object, node: torch.fx.Node, values: object) -> object:
        assert node.target not in TRANSLATIONS, f"{node.target} is left to onnxscript"
        assert node.target._schema.name.removeprefix("aten::") in used
        return translated(self, node, values)

    monkeypatch.setattr(translate._OnnxscriptTranslator, "translate_node", some)
    torch.manual_seed(0)
    assert_equals_torch(NBGLCNN_TRANSLATIONS[name])


@pytest.mark.parametrize("name", ONNXSCRIPT_TRANSLATIONS)
def test_what_has_no_form_is_left_to_onnxscript(name: str) -> None:
    assert_equals_torch(ONNXSCRIPT_TRANSLATIONS[name])
