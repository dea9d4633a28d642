"""Values that depend only on weights and buffers: folded, read, and recomputed for new weights."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations

import nbglcnn
from assertions import assert_equal
from nbglcnn import Viewer, compare
from nbglcnn.errors import InputError, UnsupportedModel, UnsupportedOperator
from nbglcnn.graph import Graph
from nbglcnn.load import load, with_parameters
from nbglcnn.lowering.lower import lower, repack_weights
from nbglcnn.reference import compute_reference
from nbglcnn.runtime.session import Session


def assert_follows_weights(model: nn.Module, x: torch.Tensor) -> Graph:
    """Check that all layers are correct, also after the weights are replaced."""
    graph, arrays = load(model.eval(), x)
    torch.manual_seed(1)
    state = {
        name: torch.randn_like(t) if t.is_floating_point() and not name.endswith(".base") else t
        for name, t in model.state_dict().items()
    }
    for changed in (graph, with_parameters(graph, state)):
        with Session(lower(changed)) as session:
            found = session.run(*arrays)
        for key, value in compute_reference(model, changed, arrays).items():
            assert_equal(found[key], value, name=key)
    return graph


class IndexedParameter(nn.Module):
    """400 kB that depend on a parameter of 2 kB."""

    def __init__(self) -> None:
        super().__init__()
        self.p = nn.Parameter(torch.randn(8, 60))
        self.register_buffer("idx", torch.randint(0, 60, (110, 120)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.p[:, self.idx]


class RelativePositions(nn.Module):
    """A bias per pair of positions, computed by layers from a table of relative positions."""

    def __init__(self, size: int, hidden: int) -> None:
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(2, hidden), nn.ReLU(), nn.Linear(hidden, 8))
        self.register_buffer("table", torch.randn(size, size, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 16 * torch.sigmoid(self.mlp(self.table)).permute(2, 0, 1)


class PositionsWithDropout(RelativePositions):
    """A pass-through layer among the layers that compute the bias, as in timm's RelPosMlp."""

    def __init__(self) -> None:
        super().__init__(6, 4)
        self.mlp.insert(2, nn.Dropout(0.1))


def test_a_layer_may_hand_on_what_follows_from_weights_alone() -> None:
    torch.manual_seed(0)
    assert_follows_weights(PositionsWithDropout(), torch.rand(1, 8, 6, 6))


class ConvolvedBuffer(nn.Module):
    """A convolution of a buffer, too expensive to be folded."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.register_buffer("picture", torch.randn(1, 3, 180, 180))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.conv(self.picture)


def test_constants_that_follow_from_weights_may_be_large() -> None:
    torch.manual_seed(0)
    assert_follows_weights(IndexedParameter(), torch.rand(1, 8, 110, 120))
    assert_follows_weights(RelativePositions(100, 64), torch.rand(1, 8, 100, 100))


def test_what_would_take_long_to_fold_is_computed_by_the_gpu() -> None:
    torch.manual_seed(0)
    graph = assert_follows_weights(ConvolvedBuffer(), torch.rand(1, 4, 180, 180))
    assert "Conv" in [node.op for node in graph.nodes]
    # 130 MB of intermediate values for 320 kB of weights
    assert_follows_weights(RelativePositions(180, 512), torch.rand(1, 8, 180, 180))


@pytest.mark.parametrize("kind", ["matrix_exp", "cayley", "householder"])
def test_orthogonal_weights_follow_the_parameters_that_they_are_made_of(kind: str) -> None:
    torch.manual_seed(0)
    flat, tall = (
        parametrizations.orthogonal(nn.Linear(a, b), orthogonal_map=kind)
        for a, b in ((5, 3), (3, 6))
    )
    assert_follows_weights(nn.Sequential(flat, nn.ReLU(), tall), torch.rand(2, 5))


class MatrixInverse(nn.Module):
    def __init__(self, *, of_input: bool) -> None:
        super().__init__()
        self.w, self.of_input = nn.Parameter(torch.randn(2, 4, 4)), of_input

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = x if self.of_input else self.w
        return x @ torch.linalg.inv(a @ a.mT + torch.eye(4)) + torch.linalg.solve(
            self.w, self.w @ self.w, left=False
        )


def test_linear_algebra_of_weights_is_folded_and_that_of_inputs_refused() -> None:
    torch.manual_seed(0)
    assert_follows_weights(MatrixInverse(of_input=False), torch.rand(2, 4, 4))
    with pytest.raises(UnsupportedOperator, match="that depend on the input is not supported"):
        load(MatrixInverse(of_input=True).eval(), torch.rand(2, 4, 4))


class ReadsBuffers(nn.Module):
    """Reads an `if` condition, a loop count and a size from buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 1)
        self.register_buffer("flag", torch.tensor(True))
        self.register_buffer("steps", torch.tensor(3))
        self.register_buffer("limits", torch.tensor([0.5, 2.0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(x)
        if self.flag:
            y = -y
        for _ in range(int(self.steps) - 1):
            y = torch.sin(y)
        if (self.limits * 2 > 3).any():
            y = y[:, : self.steps.item()]
        return y * self.limits[0]


def test_what_python_reads_of_a_buffer_decides_what_is_computed() -> None:
    model = ReadsBuffers().eval()
    x = torch.rand(1, 3, 4, 5)
    graph, arrays = load(model, x)
    assert graph.constant_reads == {"flag", "steps", "limits"}
    assert [node.op for node in graph.nodes].count("Sin") == 2
    with Session(lower(graph)) as session:
        found = session.run(*arrays)["output"]
    assert_equal(found, model(x).detach().numpy())


def test_new_weights_may_not_alter_a_buffer_that_decided() -> None:
    model = ReadsBuffers().eval()
    graph, _ = load(model, torch.rand(1, 3, 4, 5))
    state = {n: t.numpy() for n, t in model.state_dict().items()}
    with_parameters(graph, {**state, "conv.bias": np.ones(4, np.float32)})
    with pytest.raises(InputError, match=r"steps: the computation depends .* load the model again"):
        with_parameters(graph, {**state, "steps": np.int64(2)})


class ReadsParameter(nn.Module):
    """Reads an exponent from a parameter, as `k.item()`."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 1)
        self.k = nn.Parameter(torch.tensor([0.7]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x).abs().pow(self.k.item()) * float(self.k * 2)


def test_a_number_that_python_reads_of_a_parameter_is_that_of_the_parameter() -> None:
    model = ReadsParameter().eval()
    x = torch.rand(1, 3, 4, 5)
    graph, arrays = load(model, x)
    assert graph.constant_reads == {"k"}
    with Session(lower(graph)) as session:
        found = session.run(*arrays)["output"]
    assert_equal(found, model(x).detach().numpy())
    state = {n: t.numpy() for n, t in model.state_dict().items()}
    with pytest.raises(InputError, match=r"k: the computation depends .* load the model again"):
        with_parameters(graph, {**state, "k": np.ones(1, np.float32)})


class WritesWeights(nn.Module):
    """Writes one convolution's weights from those of two others in each call, as SPAN does."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 6, 1)
        self.second = nn.Conv2d(6, 4, 3)
        self.merged = nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second = self.first.weight.data.clone(), self.second.weight.data.clone().detach()
        turned = first.flip(2, 3).permute(1, 0, 2, 3)
        weight = F.conv2d(turned, second, padding=2).flip(2, 3).permute(1, 0, 2, 3)
        self.merged.weight.data = weight.contiguous()
        self.merged.bias.data = torch.zeros(4)
        self.merged.bias.data = self.second.bias.data + 0.5
        return self.merged(x).data * 2


def test_weights_that_forward_writes_follow_those_that_it_computes_them_from() -> None:
    torch.manual_seed(0)
    model = WritesWeights()
    graph = assert_follows_weights(model, torch.rand(1, 3, 6, 5))
    assert [node.op for node in graph.nodes] == ["Conv", "Mul"]
    assert list(graph.parameters) == list(model.state_dict())


class SumsIntoBuffer(nn.Module):
    """A read of a buffer after the input was added to it depends on the input."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("sum", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total = self.sum.clone()
        total += x.sum()
        return x if total > 3 else -x


def test_a_buffer_that_the_input_was_added_to_is_not_read() -> None:
    with pytest.raises(UnsupportedModel, match="depends on the input's values"):
        load(SumsIntoBuffer().eval(), torch.rand(2, 3))


def invalid_state_dicts(model: nn.Module) -> dict[str, tuple[object, str]]:
    """Invalid arguments for a state_dict, and the text that each error must contain."""
    state = model.state_dict()
    parallel = {f"module.{name}": value for name, value in state.items()}
    lightning = {f"net.{name}": value for name, value in state.items()}
    strip = "{name.removeprefix('net.'): value for name, value in checkpoint%s.items()}"
    return {
        "module": (model, "module.state_dict()"),
        "path": ("a.pt", "torch.load(path, map_location='cpu', weights_only=True)"),
        "none": (None, "NoneType is not a state_dict"),
        "numbers": ({1: 2}, "dict is not a state_dict"),
        "part": (lightning, strip % ""),
        "state_dict": ({"state_dict": state, "epoch": 3}, "give checkpoint['state_dict']"),
        "both": (
            {"model": state, "ema": state, "optimizer": {"state": {}}},
            "give checkpoint['model'] or checkpoint['ema']",
        ),
        "whole": ({"model": model}, "give checkpoint['model'].state_dict()"),
        "part in model": ({"model": lightning}, strip % "['model']"),
        "parallel in model": ({"model": parallel}, "give checkpoint['model']"),
    }


@pytest.mark.parametrize("given", list(invalid_state_dicts(nn.Linear(1, 1))))
def test_what_holds_the_weights_deeper_or_under_other_names_is_told_the_remedy(given: str) -> None:
    model, x = nn.Sequential(nn.Linear(2, 2)).eval(), torch.ones(1, 2)
    checkpoint, words = invalid_state_dicts(model)[given]
    graph, _ = load(model, x)
    with pytest.raises(InputError) as error:
        with_parameters(graph, checkpoint)
    assert words in str(error.value)
    with pytest.raises(InputError) as error:
        compare(model, model.state_dict(), x).load_state_dict(checkpoint)
    assert words in str(error.value)
    if "; give checkpoint" in str(error.value) or "{name" in str(error.value):
        remedy = str(error.value).split("; give ")[1].split(" or ")[0]
        found = eval(remedy, {"checkpoint": checkpoint})
        assert set(with_parameters(graph, found).parameters) == set(model.state_dict())


def compile_module(model: nn.Module) -> nn.Module:
    return torch.compile(model, backend="eager")  # type: ignore[return-value]


WRAPPERS: dict[str, Callable[[nn.Module], nn.Module]] = {
    "compile": compile_module,
    "DataParallel": nn.DataParallel,
    "both": lambda model: nn.DataParallel(compile_module(model)),
    "a compiled part": lambda model: nn.Sequential(compile_module(model[0]), *model[1:]),
}


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)
def test_a_wrapped_modules_weights_are_taken_by_the_wrapped_and_by_the_bare_one(wrap) -> None:
    def made() -> nn.Sequential:
        return nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.ReLU(), nn.Linear(3, 2)).eval()

    x, bare, other = torch.rand(4, 2), made(), made()
    wanted = other(x).detach().numpy()
    whole = wrap(made()).eval()
    for model, state in ((bare, wrap(other).state_dict()), (whole, other.state_dict()),
                         (whole, wrap(other).state_dict())):  # fmt: skip
        viewer = Viewer(model, x)
        try:
            viewer.load_state_dict(state)
            assert_equal(viewer.output, wanted)
            viewer.load_state_dict(viewer.state_dict())
            assert_equal(viewer.output, wanted)
            mirrored = made()
            nbglcnn.mirror(viewer, wrap(mirrored)).close()
            assert_equal(viewer.output, mirrored.eval()(x).detach().numpy())
        finally:
            viewer.close()
    comparison = compare(bare, wrap(other).state_dict(), x)
    try:
        assert_equal(comparison.activations["B.output"], wanted)
        comparison.load_state_dict(wrap(made()).state_dict())
    finally:
        comparison.close()


@pytest.mark.filterwarnings("ignore:.*quantize:UserWarning")
@pytest.mark.parametrize(
    ("kind", "change", "remedy"),
    [
        ("sparse", torch.Tensor.to_sparse, "x.to_dense()"),
        (
            "quantized",
            lambda t: torch.quantize_per_tensor(t, 0.1, 0, torch.qint8),
            "x.dequantize()",
        ),
        ("complex", lambda t: t.to(torch.complex64), "torch.view_as_real(x)"),
    ],
)
def test_weights_of_another_kind_name_the_remedy(kind, change, remedy) -> None:
    model = nn.Sequential(nn.Linear(2, 3)).eval()
    graph, _ = load(model, torch.rand(1, 2))
    state = model.state_dict()
    state["0.weight"] = change(state["0.weight"])
    with pytest.raises(InputError) as error:
        with_parameters(graph, state)
    assert str(error.value) == (
        f"0.weight: a {kind} tensor was given; expected a dense real tensor. "
        f"Convert it with {remedy}"
    )


class IndexBuffer(nn.Module):
    """An index in a buffer, and the function that uses it."""

    def __init__(self, use: Callable[..., torch.Tensor], index: list[int]) -> None:
        super().__init__()
        self.use = use
        self.register_buffer("index", torch.tensor(index))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.use(x, self.index)


INDEX_USES: dict[str, Callable[..., torch.Tensor]] = {
    "index_select": lambda x, i: x.index_select(1, i),
    "embedding": lambda x, i: F.embedding(i, x[0, 0]),
    "two axes": lambda x, i: x[:, i, i],
    "argsort": lambda x, i: x[..., i.float().argsort()],
    "gather": lambda x, i: x.gather(1, i.reshape(1, 3, 1, 1).expand(2, 3, 4, 4)),
    "index_add": lambda x, i: torch.zeros(x.shape).index_add(1, i, x),
    "index_put": lambda x, i: x[0].index_put((i,), x[1] * 2, accumulate=True),
    "index_copy": lambda x, i: x.index_copy(1, i, x * 2),
}


def output_with_new_weights(model: nn.Module, new: nn.Module, x: torch.Tensor, observe="all"):
    """The output of a Plan for `model` after it gets the weights of `new`."""
    graph, arrays = load(model.eval(), x)
    plan = lower(graph, observe=observe)
    with Session(plan) as session:
        session.run(*arrays)
        session.replace_weights(repack_weights(plan, with_parameters(graph, new.state_dict())))
        return session.run(*arrays)["output"]


@pytest.mark.parametrize("observe", ["all", "outputs"])
@pytest.mark.parametrize("name", INDEX_USES)
def test_another_index_in_a_buffer_chooses_other_elements(name: str, observe: str) -> None:
    x = torch.randn(2, 3, 4, 4)
    for index in ([2, 1, 0], [2, 0, 1]):
        new = IndexBuffer(INDEX_USES[name], index).eval()
        found = output_with_new_weights(IndexBuffer(INDEX_USES[name], [0, 1, 2]), new, x, observe)
        assert_equal(found, new(x).numpy(), name=name)


@pytest.mark.parametrize("name", ["index_add", "index_put"])
def test_another_index_in_a_buffer_may_add_to_a_slice_twice(name: str) -> None:
    x, new = torch.randn(2, 3, 4, 4), IndexBuffer(INDEX_USES[name], [2, 2, 0]).eval()
    found = output_with_new_weights(IndexBuffer(INDEX_USES[name], [0, 1, 2]), new, x)
    assert_equal(found, new(x).numpy(), name=name)
