"""A network that is inspected while it trains: one Plan whose sections share the weights."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import nbglcnn
from assertions import assert_equal
from nbglcnn import Session, transforms
from nbglcnn.errors import InputError
from nbglcnn.features.training import packed_dataset
from nbglcnn.features.training.local_training import compile_training
from nbglcnn.features.training.run import TrainingRun
from nbglcnn.features.training.training_graph import TrainingGraph, build_training_graph
from nbglcnn.load import load
from nbglcnn.lowering.lower import lower
from training_checks import train_in_torch

SIZE = 4


def classifier() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(1, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(6 * 9, 3),
    ).eval()  # fmt: skip


def examples() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(2)
    return torch.rand(12, 1, 6, 6, generator=generator), torch.arange(12) % 3


def make_session(
    model: nn.Module, optimizer: object = None, **options: object
) -> tuple[TrainingRun, TrainingGraph, Session]:
    x, y = examples()
    run, _ = compile_training(
        model, (x, y), "cross_entropy", optimizer or nbglcnn.SGD(0.1, momentum=0.9), SIZE, **options
    )
    joined = build_training_graph(load(model, x[:1])[0], run)
    return run, joined, Session(lower(joined.graph))


def write_batch(session: Session, training_graph: TrainingGraph, step: int) -> None:
    x, y = (one.numpy() for one in examples())
    own = slice(step * SIZE % 12, step * SIZE % 12 + SIZE)
    given = {"0": x[own], "input": x[own], "target": y[own].astype(np.float32), "lr": 0.1,
             "weights": np.ones(SIZE, np.float32), "seed": 0, "steps": step + 1}  # fmt: skip
    for kind, key in training_graph.input_keys.items():
        found = given.get(kind, x[own] if kind not in given else None)
        session.write(key, np.asarray(found, np.float32))


@pytest.mark.parametrize("observe", ["all", "outputs"])
def test_all_sections_see_the_weights_that_steps_make(observe: str) -> None:
    model = classifier()
    x, y = examples()
    _run, joined, _ = make_session(model)
    with Session(lower(joined.graph, observe=observe)) as session:
        for step in range(3):
            write_batch(session, joined, step)
            session.run(section="train", read=())
            told = session.read(joined.loss_value_key)
            right = train_in_torch(
                model, x, y, F.cross_entropy,
                lambda p: torch.optim.SGD(p, 0.1, momentum=0.9), steps=step + 1, size=SIZE,
            )  # fmt: skip
            assert told[0] == pytest.approx(right.losses[-1], rel=1e-4)
            assert np.isfinite(told[1])
            before = session.run(x[:1].numpy())["output"]
            session.commit()
            trained = right.model.eval()
            with torch.no_grad():
                logits, batch = trained(x[:1]), trained(x[:SIZE])
            after = session.run(x[:1].numpy())["output"]
            assert_equal(after, logits.numpy(), rtol=1e-4)
            assert np.abs(after - before).max() > 1e-4
            for kind, key in joined.held_out_input_keys.items():
                given = {"target": y[:SIZE].numpy(), "weights": np.ones(SIZE)}
                session.write(key, np.asarray(given.get(kind, x[:SIZE].numpy()), np.float32))
            session.run(section="evaluate", read=())
            loss, share = session.read(joined.held_out_loss_key)
            assert loss == pytest.approx(float(F.cross_entropy(batch, y[:SIZE])), rel=1e-4)
            assert share == pytest.approx(float((batch.argmax(1) == y[:SIZE]).float().mean()))
            assert_equal(session.read(joined.prediction_key), batch.numpy(), rtol=1e-4)


def test_the_share_of_right_answers_counts_only_those_that_are_no_filling() -> None:
    model = classifier()
    x, y = examples()
    _, joined, session = make_session(model)
    with session, torch.no_grad():
        right = (model(x[:SIZE]).argmax(1) == y[:SIZE]).numpy()
        for own in range(1, SIZE + 1):
            for kind, key in joined.held_out_input_keys.items():
                weights = (np.arange(SIZE) < own).astype(np.float32)
                given = {"target": y[:SIZE].numpy(), "weights": weights}
                session.write(key, np.asarray(given.get(kind, x[:SIZE].numpy()), np.float32))
            session.run(section="evaluate", read=())
            loss, share = session.read(joined.held_out_loss_key)
            assert share == pytest.approx(right[:own].mean())
            expected = F.cross_entropy(model(x[:own]), y[:own])
            assert loss == pytest.approx(float(expected), rel=1e-4)


def test_what_is_measured_of_a_step() -> None:
    model = classifier()
    with torch.no_grad():
        model[1].weight[2], model[1].bias[2] = 0, -1  # a dead unit
    x, y = examples()
    _, joined, session = make_session(model, nbglcnn.SGD(0.1))
    with session:
        write_batch(session, joined, 0)
        session.run(section="train", read=())
        session.run(section="measure", read=())
        ratios, dead = session.read(joined.update_ratios_key), session.read(joined.dead_units_key)
        gradients = {name: session.read(key) for name, key in joined.gradient_keys.items()}
    right = train_in_torch(
        model, x, y, F.cross_entropy, lambda p: torch.optim.SGD(p, 0.1), steps=1, size=SIZE
    )
    old, new = dict(model.named_parameters()), dict(right.model.named_parameters())
    for k, name in enumerate(joined.trained_parameters):
        moved = float(((new[name] - old[name]).norm() / old[name].norm()).detach())
        if float(old[name].norm()) > 0:
            assert ratios[k] == pytest.approx(moved, rel=1e-3, abs=1e-6), name
        assert_equal(gradients[name], new[name].grad.numpy(), rtol=1e-4)
    assert joined.relu_layers == ("2",)
    assert dead[0] == pytest.approx(1 / 6)


def test_frozen_parameters_are_those_of_the_network_that_is_shown() -> None:
    model = classifier()
    _run, joined, session = make_session(model, parameters=["5"])
    assert joined.trained_parameters == ("5.weight", "5.bias")
    assert not any(name.startswith("0.") for name in joined.state_names)
    with session:
        write_batch(session, joined, 0)
        session.run(section="train", read=())
        session.commit()
        x, _ = examples()
        found = session.run(x[:1].numpy())
        with torch.no_grad():
            assert_equal(found["0"], model[0](x[:1]).numpy())


# The data that pages receive


def test_some_examples_are_held_out_and_none_is_lost() -> None:
    x = (np.random.default_rng(0).random((10, 6, 6, 1)) * 255).astype(np.uint8)
    y = np.arange(10) % 3
    run, data = compile_training(classifier(), (x, y), "cross_entropy", nbglcnn.SGD(0.1), SIZE)
    found = packed_dataset.pack_dataset(run, data, 0.25, shuffled=True, seed=5)
    assert (found.example_count, found.held_out_count) == (8, 2)
    pictures, classes = found.columns
    assert (pictures.dtype, pictures.shape) == ("uint8", (1, 6, 6))
    assert pictures.scale == np.float32(1) / np.float32(255)
    rows = [
        np.frombuffer(found.blobs[name], np.uint8).reshape(-1, 1, 6, 6)
        for name in (pictures.blob, pictures.held_out)
    ]
    everything = {row.tobytes() for part in rows for row in part}
    assert everything == {row.transpose(2, 0, 1).tobytes() for row in x}
    labels = [np.frombuffer(found.blobs[name], np.uint8)
              for name in (classes.blob, classes.held_out)]  # fmt: skip
    for part, own in zip(rows, labels, strict=True):
        for row, label in zip(part, own, strict=True):
            where = next(k for k in range(10) if (x[k].transpose(2, 0, 1) == row).all())
            assert label == y[where]
    again = packed_dataset.pack_dataset(run, data, 0.25, shuffled=True, seed=5)
    assert again.columns == found.columns


@pytest.mark.parametrize("share", [1, -0.1, "some", float("nan")])
def test_what_is_no_share_is_refused(share: object) -> None:
    x, y = examples()
    run, data = compile_training(classifier(), (x, y), "cross_entropy", nbglcnn.SGD(0.1), SIZE)
    with pytest.raises(InputError, match="held_out"):
        packed_dataset.pack_dataset(run, data, share, shuffled=True, seed=0)  # type: ignore[arg-type]


def test_a_state_of_another_size_is_refused() -> None:
    like = {"a": np.zeros((2, 3), np.float32), "b": np.zeros(4, np.float32)}
    data = np.arange(10, dtype=np.float32)
    found = packed_dataset.unpack_state(["b", "a"], memoryview(data.tobytes()), like)
    assert found["b"].tolist() == [0, 1, 2, 3]
    assert found["a"].tolist() == [[4, 5, 6], [7, 8, 9]]
    for wrong in (data[:-1], np.append(data, 1).astype(np.float32)):
        with pytest.raises((InputError, ValueError)):
            packed_dataset.unpack_state(["b", "a"], memoryview(wrong.tobytes()), like)


def test_layers_say_of_what_they_learn_what_they_say_of_the_network() -> None:
    model = classifier()
    _, _, session = make_session(model)
    alone = lower(load(model, examples()[0][:1])[0])
    own = {layer.name: layer for layer in session.plan.header.layers}
    assert sum(layer.parameters for layer in alone.header.layers) == 237
    for layer in alone.header.layers:
        found = own[layer.name]
        assert (found.parameters, found.shared) == (layer.parameters, layer.shared), layer.name
        assert found.operands == layer.operands, layer.name


def test_edits_act_on_what_is_learned_and_count_as_constants() -> None:
    model = classifier()
    x, y = examples()
    _, joined, _ = make_session(model, edited_keys=("0", "2", "input"))
    assert joined.relu_layers == ("2",)
    edits = {
        "0": (transforms.multiply(-0.7), [0, 4], lambda value: value * -0.7),
        "2": (transforms.add(0.5), [1, 3], lambda value: value + 0.5),
        "input": (transforms.flip_h(), [0], lambda value: value.flip(-1)),
    }

    def bent(name: str, value: Tensor) -> Tensor:
        _, channels, change = edits[name]
        changed = value.detach().clone()
        changed[:, channels] = change(changed[:, channels])
        return value + (changed - value.detach())

    def prepared(network: nn.Module) -> None:
        network.train()
        network.register_forward_pre_hook(lambda _, given: bent("input", given[0]))
        network[0].register_forward_hook(lambda *given: bent("0", given[2]))
        network[2].register_forward_hook(lambda *given: bent("2", given[2]))

    def optimizer(parameters: object) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, 0.1, momentum=0.9)

    options = {"steps": 4, "size": SIZE}
    right = train_in_torch(model, x, y, F.cross_entropy, optimizer, prepared=prepared, **options)
    unbent = train_in_torch(model, x, y, F.cross_entropy, optimizer, **options)
    assert not np.allclose(unbent.losses, right.losses, rtol=1e-2)
    with Session(lower(joined.graph)) as session:
        for name, (transform, channels, _) in edits.items():
            session.bend(name, transform, channels=channels)
        for step in range(4):
            write_batch(session, joined, step)
            session.run(section="train", read=())
            assert session.read(joined.loss_value_key)[0] == pytest.approx(
                right.losses[step], rel=1e-4
            )
            session.commit()
        given = {"target": y[:SIZE].numpy(), "weights": np.ones(SIZE)}
        for kind, key in joined.held_out_input_keys.items():
            session.write(key, np.asarray(given.get(kind, x[:SIZE].numpy()), np.float32))
        session.run(section="evaluate", read=())
        with torch.no_grad():
            expected = right.model.eval()(x[:SIZE]).numpy()
        assert_equal(session.read(joined.prediction_key), expected, rtol=1e-4)


def test_places_for_edits_of_separate_layers_cost_no_pass() -> None:
    plain, pointed = (
        lower(make_session(classifier(), edited_keys=bent)[1].graph).header
        for bent in ((), ("0", "1", "2", "input", "not there"))
    )
    assert len(pointed.passes) == len(plain.passes)
