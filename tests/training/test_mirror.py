"""A PyTorch loop mirrored by a Viewer without a page: the loop stays bit-identical."""

import itertools
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from torch import nn
from torch.nn import functional as F

import nbglcnn
from assertions import assert_equal
from nbglcnn import InputError, Viewer
from nbglcnn.features.mirror import callbacks
from nbglcnn.features.mirror.mirror import Mirror
from training_networks import ResNet18

INPUTS = torch.rand(64, 1, 8, 8, generator=torch.Generator().manual_seed(1))
TARGETS = torch.arange(64) % 10


def make_model() -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(0.3),
        nn.Flatten(), nn.Linear(8 * 64, 10),
    )  # fmt: skip


def training_loop(
    model: nn.Module, count: int, on_loss: Callable[[torch.Tensor], object] = lambda _: None
) -> Iterator[float]:
    """Train in training mode and yield each step's loss."""
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for step in range(count):
        at = step % 4 * 16
        optimizer.zero_grad()
        loss = F.cross_entropy(model(INPUTS[at : at + 16]), TARGETS[at : at + 16])
        loss.backward()
        optimizer.step()
        on_loss(loss)
        yield loss.item()


@pytest.fixture
def viewer() -> Iterator[Viewer]:
    viewer = Viewer(make_model().eval(), INPUTS[:2])
    yield viewer
    viewer.close()


def eval_output(model: nn.Module) -> np.ndarray:
    was = [module.training for module in model.modules()]
    model.eval()
    with torch.no_grad():
        found = model(INPUTS[:2]).numpy()
    for module, training in zip(model.modules(), was, strict=True):
        module.training = training
    return found


def test_the_loop_is_the_same_to_the_bit_with_and_without_a_mirror() -> None:
    """Compares losses with Dropout, later random draws, modes, hooks and gradients."""
    random.seed(0)
    np.random.seed(0)
    alone = make_model()
    without = list(training_loop(alone, 60))
    after = torch.rand(3), random.random(), np.random.rand()

    random.seed(0)
    np.random.seed(0)
    model = make_model()
    calls: list[str] = []
    model[0].register_forward_hook(lambda *_: calls.append("hook"))
    model.register_state_dict_pre_hook(lambda *_: calls.append("state_dict"))
    model[1].eval()  # a mode of its own: kept, whatever mode the Viewer uses
    model[1].train()
    state = torch.get_rng_state()
    shown = Viewer(make_model().eval(), INPUTS[:2])
    torch.set_rng_state(state)
    seen = []
    with nbglcnn.mirror(shown, model, every=3) as mirror:

        def tell(loss: torch.Tensor) -> None:
            mirror(loss=loss)
            seen.append([module.training for module in model.modules()])

        losses = list(training_loop(model, 60, tell))
    assert losses == without
    assert calls == ["hook"] * 60
    assert all(all(one) for one in seen)
    assert_array_equal(torch.rand(3), after[0])
    assert (random.random(), np.random.rand()) == after[1:]
    for one, other in zip(model.parameters(), alone.parameters(), strict=True):
        assert one.requires_grad and one.grad is not None and other.grad is not None
        assert torch.equal(one.grad, other.grad)
    assert_array_equal(mirror.losses, np.array(losses, np.float32))
    shown.close()


def test_the_viewer_has_the_weights_that_were_mirrored_last(viewer: Viewer) -> None:
    model = make_model()
    mirror = nbglcnn.mirror(viewer, model, every=10)
    states = []

    def tell(loss: torch.Tensor) -> None:
        mirror(loss=loss)
        states.append({name: t.clone() for name, t in model.state_dict().items()})

    losses = list(training_loop(model, 25, tell))
    found = viewer.state_dict()
    assert {n: torch.equal(t, states[19][n]) for n, t in found.items()} == dict.fromkeys(
        found, True
    )
    assert found["1.num_batches_tracked"] == 20
    assert viewer.verify().ok
    then = make_model()
    then.load_state_dict(states[19])
    assert_equal(viewer.output, eval_output(then), rtol=1e-5)
    mirror.flush()
    assert_equal(viewer.output, eval_output(model), rtol=1e-5)
    mirror.close()
    assert_equal(viewer.activations["1"], _layer_output(model, 2), rtol=1e-5)
    assert_array_equal(mirror.losses, np.array(losses, np.float32))
    assert repr(mirror) == f"Mirror(closed, 25 steps, loss {losses[-1]:.4g})"
    viewer.set_weight("5.bias", 2, 3.0)
    assert viewer.state_dict()["5.bias"][2] == 3
    assert viewer.verify().ok


def _layer_output(model: nn.Sequential, count: int) -> np.ndarray:
    return eval_output(model[:count])


def test_a_loop_in_a_thread_gives_states_of_one_step(viewer: Viewer) -> None:
    """Each weight is its step's number, so a state that mixed two steps would have both."""
    model = make_model()
    mirror = nbglcnn.mirror(viewer, model, every=1)
    enough_seen = threading.Event()

    def train_step(step: int) -> None:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.fill_(step)
        mirror(loss=float(step))

    def train() -> int:
        for step in itertools.count(1):
            train_step(step)
            if enough_seen.is_set():
                return step
        raise AssertionError

    train_step(0)
    seen: set[float] = set()
    with ThreadPoolExecutor(1) as threads:
        last_step = threads.submit(train)
        try:
            while len(seen) <= 3 and not last_step.done():
                state = viewer.state_dict()
                weights = {
                    float(n) for name in ("0.weight", "5.weight") for n in state[name].unique()
                }
                assert len(weights) == 1
                seen |= weights
        finally:
            enough_seen.set()
    assert viewer.state_dict()["5.bias"].unique().tolist() == [last_step.result()]
    mirror.close()


def test_resnet18_with_its_batch_norms() -> None:
    torch.manual_seed(0)
    model, x = ResNet18().eval(), torch.rand(2, 3, 64, 64)
    shown = Viewer(model, x, observe="outputs")
    optimizer = torch.optim.SGD(model.parameters(), 1e-2)
    model.train()
    with nbglcnn.mirror(shown, model) as mirror:
        for _ in range(2):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            mirror(loss=loss)
    model.eval()
    with torch.no_grad():
        expected = model(x).numpy()
    assert_equal(shown.output, expected, rtol=1e-4)
    state = shown.state_dict()
    assert all(torch.equal(state[name], tensor) for name, tensor in model.state_dict().items())
    shown.close()


class LightningLike(nn.Module):
    """Holds submodules as a LightningModule does."""

    def __init__(self, **modules: nn.Module) -> None:
        super().__init__()
        for name, module in modules.items():
            setattr(self, name, module)


@pytest.mark.parametrize(
    "wrap",
    [
        nn.DataParallel,
        lambda model: torch.compile(model, backend="eager"),
        lambda model: LightningLike(net=model, loss=nn.CrossEntropyLoss()),
        lambda model: LightningLike(net=torch.compile(nn.DataParallel(model), backend="eager")),
    ],
    ids=["DataParallel", "compile", "part", "all"],
)
def test_a_wrapped_model_is_found(viewer: Viewer, wrap: Callable[[nn.Module], nn.Module]) -> None:
    model = make_model()
    with nbglcnn.mirror(viewer, wrap(model), every=2):
        list(training_loop(model, 3))
    assert_equal(viewer.output, eval_output(model), rtol=1e-5)


def test_weights_in_16_bits_and_on_strides_of_their_own_are_taken(viewer: Viewer) -> None:
    model = make_model().to(torch.bfloat16).to(memory_format=torch.channels_last)
    nbglcnn.mirror(viewer, model).close()
    assert_array_equal(viewer.state_dict()["0.weight"], model[0].weight.detach().float())


def test_losses_are_by_step_and_gaps_are_nan(viewer: Viewer) -> None:
    mirror = nbglcnn.mirror(viewer, make_model())
    mirror(loss=torch.tensor(1.5), accuracy=0.25)
    mirror()
    mirror(loss=np.float32(0.5), step=4, held_out_loss=2.0)
    mirror.note(held_out_accuracy=0.75)
    assert_array_equal(mirror.losses, np.array([1.5, np.nan, np.nan, np.nan, 0.5], np.float32))
    assert mirror.accuracies[0] == 0.25
    assert_array_equal(mirror.held_out_losses, np.array([[5, 2.0, 0.75]], np.float32))
    assert mirror.step_count == 5
    kept = torch.tensor(3.0)
    mirror(loss=kept)
    kept += 1  # an in-place update of the loop's own tensor, such as a running sum
    assert mirror.losses[-1] == 3.0
    mirror.close()


MIRROR_ERRORS: dict[str, tuple[Callable[[Mirror], Any], str]] = {
    "name": (lambda m: m(val_loss=1.0), "mirror(val_loss=…): the Train tab plots only loss"),
    "many": (lambda m: m(loss=torch.ones(3)), "a tensor of 3 values; expected one value"),
    "text": (lambda m: m(loss="low"), "mirror(loss='low'): expected a number or a tensor"),
    "step": (lambda m: (m(step=7), m(step=7)), "mirror(step=7): step must increase"),
    "fraction": (lambda m: m(step=0.5), "mirror(step=0.5): expected an integer"),
    "far": (lambda m: m(step=10**7), "at most 9,999,999 can be plotted"),
    "none": (lambda m: m.note(loss=1.0), "no step yet. Call"),
    "closed": (lambda m: (m.close(), m()), "this mirror was closed"),
}


@pytest.mark.parametrize("call, words", MIRROR_ERRORS.values(), ids=MIRROR_ERRORS)
def test_what_a_mirror_is_not_told_says_so(
    viewer: Viewer, call: Callable[[Mirror], Any], words: str
) -> None:
    mirror = nbglcnn.mirror(viewer, make_model())
    with pytest.raises(InputError) as error:
        call(mirror)
    assert words in str(error.value)
    mirror.close()


def mismatched_model() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 4, 3, bias=False), nn.BatchNorm2d(8), *make_model()[2:])


@pytest.mark.parametrize(
    "model, words",
    [
        (nn.Linear(2, 2), "Linear has no 0.weight, 1.weight, 1.bias and 4 more"),
        (
            mismatched_model(),
            "0.weight has the shape (4, 1, 3, 3); in the Viewer's Sequential it has (8, 1",
        ),
        (
            LightningLike(a=make_model(), b=make_model()),
            "2 times, as a and b; give the intended one",
        ),
        (make_model().to("meta"), "0.weight is on the meta device and has no values"),
        ("model.onnx", "str is not a torch.nn.Module"),
    ],
    ids=["other", "shape", "twice", "meta", "file"],
)
def test_another_model_is_refused(viewer: Viewer, model: Any, words: str) -> None:
    with pytest.raises(InputError) as error:
        nbglcnn.mirror(viewer, model)
    assert words in str(error.value)
    nbglcnn.mirror(viewer, make_model()).close()  # no mirror was started


def test_what_is_no_viewer_and_other_everys_are_refused(viewer: Viewer) -> None:
    with pytest.raises(InputError, match="Plan is not a Viewer; create one of the model"):
        nbglcnn.mirror(nbglcnn.compile(make_model().eval(), INPUTS[:2]), make_model())  # type: ignore[arg-type]
    for every in (0, 2.0, True):
        with pytest.raises(InputError, match=r"every=.*: expected an integer ≥ 1"):
            nbglcnn.mirror(viewer, make_model(), every=every)  # type: ignore[arg-type]


def test_a_model_that_loses_a_parameter_says_so(viewer: Viewer) -> None:
    model = make_model()
    mirror = nbglcnn.mirror(viewer, model, every=1)
    model[5] = nn.Identity()
    with pytest.raises(InputError, match=r"the model no longer has 5\.weight"):
        mirror(loss=1.0)
    mirror.close()


def test_a_variance_of_zero_compiles_the_network_anew() -> None:
    """A BatchNorm with zero variance and zero epsilon can't be folded into the convolution."""
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4, eps=0.0)).eval()
    model[1].running_var.fill_(2.0)
    shown = Viewer(model, INPUTS[:2], observe="outputs")
    with nbglcnn.mirror(shown, model) as mirror, torch.no_grad():
        model[1].running_var[1] = 0.0
        mirror(loss=1.0)
    with torch.no_grad():
        assert_equal(shown.output, model(INPUTS[:2]).numpy(), rtol=1e-5)
    shown.close()


def test_a_package_that_is_missing_is_named(
    viewer: Viewer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(module: str) -> None:
        raise ModuleNotFoundError(f"No module named {module!r}", name=module.partition(".")[0])

    monkeypatch.setattr(callbacks, "import_module", missing)
    mirror = nbglcnn.mirror(viewer, make_model())
    with pytest.raises(InputError, match="lightning is not installed: `pip install lightning`"):
        mirror.lightning()
    with pytest.raises(InputError, match="transformers is not installed"):
        mirror.transformers()
    mirror.close()


def test_lightning_trains_with_it(viewer: Viewer, tmp_path: Any) -> None:
    lightning = pytest.importorskip("lightning.pytorch")

    class Lit(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.net = make_model()

        def training_step(self, batch: Any, _: int) -> torch.Tensor:
            x, y = batch
            return F.cross_entropy(self.net(x), y)

        def validation_step(self, batch: Any, _: int) -> None:
            x, y = batch
            self.log("val_loss", F.cross_entropy(self.net(x), y))

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.Adam(self.parameters(), 1e-2)

    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(INPUTS, TARGETS), 16)
    model = Lit()
    mirror = nbglcnn.mirror(viewer, model, every=3)
    trainer = lightning.Trainer(
        max_epochs=2, callbacks=[mirror.lightning()], logger=False, enable_checkpointing=False,
        enable_progress_bar=False, accelerator="cpu", default_root_dir=tmp_path,
    )  # fmt: skip
    trainer.fit(model, data, data)
    assert mirror.step_count == 8 and np.isfinite(mirror.losses).all()
    assert mirror.held_out_losses[:, 0].tolist() == [4, 8]
    assert_equal(viewer.output, eval_output(model.net), rtol=1e-5)
    mirror.close()


def test_the_trainer_of_hugging_face_trains_with_it(viewer: Viewer, tmp_path: Any) -> None:
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")

    class Scored(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = make_model()

        def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
            scores = self.net(x)
            return {"loss": F.cross_entropy(scores, labels), "logits": scores}

    data = [{"x": x, "labels": y} for x, y in zip(INPUTS, TARGETS, strict=True)]
    model = Scored()
    mirror = nbglcnn.mirror(viewer, model, every=3)
    asked = transformers.TrainingArguments(
        str(tmp_path), max_steps=10, per_device_train_batch_size=16, logging_steps=2,
        eval_strategy="steps", eval_steps=5, report_to=[], save_strategy="no", use_cpu=True,
        disable_tqdm=True,
    )  # fmt: skip
    trainer = transformers.Trainer(
        model, asked, train_dataset=data, eval_dataset=data, callbacks=[mirror.transformers()]
    )
    trainer.train()
    assert mirror.step_count == 10
    assert np.isfinite(mirror.losses).tolist() == [False, True] * 5
    assert mirror.held_out_losses[:, 0].tolist() == [5, 10]
    assert_equal(viewer.output, eval_output(model.net), rtol=1e-5)
    mirror.close()


def test_callbacks_tell_what_they_are_told(viewer: Viewer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the packages: makes the calls of their trainers, in the same order."""
    empty = SimpleNamespace(Callback=object, TrainerCallback=object)
    monkeypatch.setattr(callbacks, "import_module", lambda _: empty)
    mirror = nbglcnn.mirror(viewer, make_model())
    lit = mirror.lightning()
    trainer = SimpleNamespace(sanity_checking=True, callback_metrics={"val_loss": 9.0})
    lit.on_validation_end(trainer, None)
    lit.on_train_batch_end(trainer, None, {"loss": torch.tensor(2.0)}, None, 0)
    lit.on_train_batch_end(trainer, None, torch.tensor(1.0), None, 1)
    trainer.sanity_checking = False
    lit.on_validation_end(trainer, None)
    assert mirror.losses.tolist() == [2.0, 1.0]
    assert mirror.held_out_losses[0, :2].tolist() == [2, 9.0]
    hugging = mirror.transformers()
    hugging.on_step_end(None, SimpleNamespace(global_step=1), None)  # first step of another run
    hugging.on_log(None, None, None, logs={"loss": 0.5})
    hugging.on_log(None, None, None, logs={"eval_loss": 4.0})
    assert mirror.losses.tolist() == [2.0, 1.0, 0.5]
    assert mirror.held_out_losses[1, :2].tolist() == [3, 4.0]
    hugging.on_train_end(None, None, None)
    mirror.close()
