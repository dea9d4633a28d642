"""A recorded run against the module itself, on inputs other than the recorded ones."""

import copy
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import fx, nn
from torch.testing import assert_close

from nbglcnn import Session, UnsupportedModel, Viewer, compile
from nbglcnn.load.torch.record.recorder import InputReadError, RecordedProgram, Recorder

Function = Callable[[torch.Tensor], torch.Tensor]
SHAPE = (2, 4, 8, 8)


class FunctionModule(nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function
        self.weight = nn.Parameter(torch.linspace(-1, 1, 4).reshape(4, 1, 1))
        self.register_buffer("total", torch.zeros(4, 1, 1))
        self.register_buffer("part", self.total[1:3])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self, x)


def record_module(model: nn.Module, x: torch.Tensor) -> RecordedProgram:
    recorder = Recorder(dict, lambda _: None)
    recorder.add_input("x", x)
    with torch.no_grad(), recorder.record_model(model):
        y = model(x)
    return recorder.make_program([recorder.current_node(y)])


def run_program(program: RecordedProgram, x: torch.Tensor) -> torch.Tensor:
    """Run the recorded operators, and check each result's shape and type against the recorder's."""
    values: dict[fx.Node, object] = {program.inputs[0]: x, **program.placeholder_tensors}
    for node in program.graph.nodes:
        if node.op == "call_function":
            args, kwargs = (fx.map_arg(one, values.get) for one in (node.args, node.kwargs))
            values[node] = found = node.target(*args, **kwargs)
            if isinstance(found, torch.Tensor):
                wanted = node.meta["val"]
                assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    found = values[program.outputs[0]]
    assert isinstance(found, torch.Tensor)
    return found


def halves(m: FunctionModule, x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    a, b = y.chunk(2, 1)
    a.relu_()
    return a + b + y.sum()


def slices(m: FunctionModule, x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros(2, 8, 8, 8)
    out[:, :4] = x
    out[:, 4:, 2:6, 1:7:2] = x[:, :, :4, :3]
    out[0] = 1
    return out


def joined_axes(m: FunctionModule, x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    y.view(2, -1)[:, 3:7].add_(1)
    z = y.permute(0, 2, 3, 1)
    z[..., 0] *= 3
    return y + z.permute(0, 3, 1, 2)


def through_data(m: FunctionModule, x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    y.data.mul_(2)
    y.data = y.data + 3
    return y


def overwrite_slices(m: FunctionModule, x: torch.Tensor) -> torch.Tensor:
    y = x * 1
    y[:, 1, ::2].zero_()
    y[..., 0].copy_(y[..., 1])
    w = torch.empty(3)
    w.fill_(2.0)
    return y * w[1]


def into_reshaped(m: FunctionModule, x: torch.Tensor) -> torch.Tensor:
    y = x.reshape(2, 4, 64) * 1
    y.transpose(1, 2)[:, 5:9] = 0
    z = torch.empty_like(y)
    torch.add(y, 1, out=z)
    values, places = torch.empty(2, 4), torch.empty(2, 4, dtype=torch.int64)
    torch.max(z, 2, out=(values, places))
    return z * values[..., None] + places[..., None]


def other_shapes(m: FunctionModule, x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    torch.diagonal(y, 0, 2, 3).add_(5)
    y.unsqueeze_(0)
    y = y.squeeze(0)
    y.transpose_(2, 3)
    return y.clamp_(-1, 1)


def parameters_and_buffers(m: FunctionModule, x: torch.Tensor) -> torch.Tensor:
    m.part += x.mean()
    with torch.no_grad():
        m.weight.mul_(2)
    m.total = m.total * 2
    return x * m.weight + m.total


def through_deepcopy(m: FunctionModule, x: torch.Tensor) -> torch.Tensor:
    y = copy.deepcopy(x * 2)
    y += 1
    return y


def by_a_mask_of_weights(m: FunctionModule, x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[:, m.weight.flatten() > 0] = 7
    return y[:, m.weight.flatten() < 0.5]


def into_empty_slices(m: FunctionModule, x: torch.Tensor) -> torch.Tensor:
    mask = x.new_zeros(x.shape[-1])
    for begin, end in ((0, -x.shape[-1]), (-x.shape[-1], -1), (-1, None)):
        mask[begin:end] = begin  # the first is empty
    y = x.clone()
    y[:, 1:1] = 9
    return y + mask.view(1, -1).permute(1, 0).reshape(-1)


WORD_VECTORS = torch.arange(24.0).reshape(1, 6, 4)
THIRD_WORD = WORD_VECTORS[:, 2]


def constants_in_one_memory(m: FunctionModule, x: torch.Tensor) -> torch.Tensor:
    first, words = copy.deepcopy((THIRD_WORD, WORD_VECTORS))  # the view is found before its base
    return x + first.sum() + words.sum(1).mean()


@pytest.mark.parametrize(
    "function",
    [
        *(
            into_empty_slices,
            constants_in_one_memory,
            halves,
            slices,
            joined_axes,
            through_data,
            overwrite_slices,
            into_reshaped,
        ),
        *(other_shapes, parameters_and_buffers, through_deepcopy, by_a_mask_of_weights),
    ],
    ids=lambda function: function.__name__,
)
def test_views_and_writes_are_followed(function: Function) -> None:
    model = FunctionModule(function).eval()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    program = record_module(model, torch.randn(SHAPE))
    after = model.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    x = torch.randn(SHAPE)
    with torch.no_grad():
        assert_close(run_program(program, x), copy.deepcopy(model)(x.clone()))


@pytest.mark.parametrize(
    "reads",
    [
        lambda m, x: x * float(x.mean()),
        lambda m, x: x * int(x.argmax()),
        lambda m, x: x if (x > 3).any() else -x,
        lambda m, x: x + sum(x.flatten().tolist()),
        lambda m, x: x + torch.from_numpy(x.numpy() * 2),
    ],
    ids=["float", "int", "bool", "tolist", "numpy"],
)
def test_numbers_of_the_input_are_not_read(reads: Function) -> None:
    with pytest.raises(InputReadError):
        record_module(FunctionModule(reads).eval(), torch.randn(SHAPE))


def test_a_refusal_that_forward_catches_is_a_refusal() -> None:
    def catches(m: FunctionModule, x: torch.Tensor) -> torch.Tensor:
        try:
            return x * int(x.argmax())
        except Exception:
            return x

    with pytest.raises(UnsupportedModel, match="depends on the input's values"):
        compile(FunctionModule(catches).eval(), torch.randn(SHAPE))


def test_a_size_that_depends_on_the_input_is_refused() -> None:
    model = FunctionModule(lambda m, x: x * len(x[x > 0])).eval()
    with pytest.raises(UnsupportedModel, match="the size of index's result depends on"):
        compile(model, torch.randn(SHAPE))


def test_a_constant_that_was_made_of_the_input_is_refused() -> None:
    model = FunctionModule(lambda m, x: x + torch.Tensor([x.mean()])).eval()
    with pytest.raises(UnsupportedModel, match=r"test_recorder.py: .*write torch.stack"):
        compile(model, torch.randn(SHAPE))


def test_numbers_of_scripts_and_gradients_are_recorded() -> None:
    @torch.jit.script
    def scripted(x: torch.Tensor) -> torch.Tensor:
        return x.relu() * 2 + 1

    def slope(m: FunctionModule, x: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            y = scripted(x).detach().requires_grad_()
            (found,) = torch.autograd.grad((y.tanh() ** 2).sum(), y)
        return found

    model, x = FunctionModule(slope).eval(), torch.randn(SHAPE)
    with Session(compile(model, torch.randn(SHAPE))) as session:
        np.testing.assert_allclose(
            session.run(x.numpy())["output"], model(x).numpy(), rtol=1e-4, atol=1e-6
        )


def test_a_compiled_function_and_a_compiled_part_run_as_they_are_written() -> None:
    class Compiled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part = torch.compile(nn.Conv2d(4, 3, 3))
            self.function = torch.compile(lambda x: torch.relu(x) + 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.function(self.part(x))

    model = Compiled().eval()
    x = torch.randn(SHAPE)
    plan = compile(model, x.numpy())
    with torch.compiler.set_stance("force_eager"), torch.no_grad():
        wanted = model(x).numpy()
    with Session(plan) as session:
        found = session.run(x.numpy())
    assert {"relu", "add"} <= {value.key for value in plan.values}
    np.testing.assert_allclose(found["output"], wanted, atol=1e-5)


class DoublePrecision(nn.Module):
    """Intermediate float64: constants, a parameter, a buffer, values computed from the input."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(4).double())
        self.register_buffer("shift", torch.rand(4).double())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        places = (torch.arange(4, dtype=torch.float64) - 1.5) * 2.0 / 3
        factors = self.weight * 2.0 - places
        return (x.double() * factors + self.shift * 0.5 - places.sin()).float()


def test_constants_and_weights_of_float64_meet_numbers_of_python() -> None:
    torch.manual_seed(3)
    model, x = DoublePrecision().eval(), torch.randn(2, 3, 4)
    viewer = Viewer(model, x)
    for factor in (1, 3):
        model.load_state_dict({name: factor * one for name, one in model.state_dict().items()})
        viewer.load_state_dict(model.state_dict())
        with torch.no_grad():
            assert_close(torch.from_numpy(viewer.output), model(x))
    viewer.close()
