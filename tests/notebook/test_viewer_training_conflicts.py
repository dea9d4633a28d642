"""A page and Python change the same training concurrently: messages in an explicit order."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from nbglcnn import PageTimeout, Viewer, transforms
from scripted_page import FakeComm

INPUTS = np.random.default_rng(4).random((12, 1, 6, 6), np.float32)
TARGETS = np.arange(12) % 3


@pytest.fixture(scope="module")
def shared_viewer() -> Iterator[Viewer]:
    torch.manual_seed(8)
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32, 3)).eval()
    viewer = Viewer(model, INPUTS[:1], timeout=5)
    FakeComm(viewer).open_page()
    yield viewer
    viewer.close()


@pytest.fixture
def viewer(shared_viewer: Viewer) -> Viewer:
    """A Viewer whose page has learned of a running training."""
    stop_training(shared_viewer)
    shared_viewer.bends.clear()
    shared_viewer.train((INPUTS, TARGETS), "cross_entropy", batch_size=4, held_out=0)
    return shared_viewer


def stop_training(viewer: Viewer) -> None:
    """Stop a training whose page sends no weights."""
    if viewer.training is not None and viewer.training.state != "stopped":
        with pytest.raises(PageTimeout):
            viewer.training.stop(timeout=0.001)


class FakeTrainingPage:
    """A page's view of the training, and its changes before Python's next message arrives."""

    def __init__(self, viewer: Viewer) -> None:
        self.viewer = viewer
        self.sequence = viewer.get_state()["_training"]["turn"]
        self.record: dict[str, Any] = dict(viewer.get_state()["_training"]["training"])

    def change(self, **fields: Any) -> None:
        self.record |= fields
        self.viewer.set_state({"_training": {"training": self.record, "turn": self.sequence}})

    def send_state(self, step: int) -> None:
        """Send the state after this number of steps, from which Python continues."""
        trained = self.viewer.network.carried_weights
        assert trained is not None
        state = [trained.latest_state[name].ravel() for name in trained.config.state_names]
        data = np.concatenate(state, dtype=np.float32).tobytes()
        message = {
            "type": "statechunk", "page": "p", "training": self.record["id"], "step": step,
            "is_last": False, "awaits_swap": True, "chunk_index": 0, "chunk_count": 1,
            "total_bytes": len(data),
        }  # fmt: skip
        self.viewer._handle_custom_msg(message, [memoryview(data)])


def set_training_numbers(viewer: Viewer, **numbers: float) -> None:
    """Set numbers of the training, as a cell does."""
    assert viewer.training is not None
    for name, number in numbers.items():
        setattr(viewer.training, name, number)


def last_sent_training_state(viewer: Viewer) -> tuple[Any, ...]:
    """The last values sent to pages: state, learning rate, noise."""
    record = viewer.get_state()["_training"]["training"]
    return record["state"], record["lr"], record["noise"]


def test_a_pause_holds_that_python_gets_behind_its_own_words(viewer: Viewer) -> None:
    page = FakeTrainingPage(viewer)
    set_training_numbers(viewer, noise=0.25)
    page.change(state="paused")
    assert viewer.training is not None and viewer.training.state == "paused"
    assert last_sent_training_state(viewer) == ("paused", 0.001, 0.25)
    page.change(lr=0.5)
    page.change(lr=0.125)
    assert last_sent_training_state(viewer) == ("paused", 0.125, 0.25)
    # A page that has Python's noise but not yet its pause doesn't undo the pause.
    page.sequence += 1
    page.change(state="running", noise=0.25, lr=0.0625)
    assert last_sent_training_state(viewer) == ("paused", 0.0625, 0.25)


def test_what_both_have_changed_is_as_python_has_it(viewer: Viewer) -> None:
    page = FakeTrainingPage(viewer)
    set_training_numbers(viewer, lr=0.5)
    page.change(lr=0.125, noise=0.25)
    assert last_sent_training_state(viewer) == ("running", 0.5, 0.25)
    assert viewer.training is not None and viewer.training.lr == 0.5
    page.change(state="paused")
    assert last_sent_training_state(viewer) == ("paused", 0.5, 0.25)


def test_a_pause_during_a_plan_swap_holds_after_it(viewer: Viewer) -> None:
    page = FakeTrainingPage(viewer)
    viewer.bend("0", transforms.multiply(2.0))
    assert last_sent_training_state(viewer)[0] == "handing"
    page.change(state="paused", lr=0.5)
    assert last_sent_training_state(viewer) == ("handing", 0.5, 0.0)
    assert viewer.training is not None and viewer.training.state == "paused"
    assert viewer.training.state == "paused"
    page = FakeTrainingPage(viewer)
    set_training_numbers(viewer, noise=0.25)
    page.change(lr=0.125)
    assert last_sent_training_state(viewer) == ("handing", 0.125, 0.25)
    assert viewer.training.state == "paused"
    # Another page has not received the pause.
    page.sequence -= 1
    page.change(lr=0.0625)
    assert last_sent_training_state(viewer) == ("handing", 0.0625, 0.25)
    page = FakeTrainingPage(viewer)
    viewer.training.resume()
    page.change(state="paused", noise=0.5)
    assert last_sent_training_state(viewer) == ("handing", 0.0625, 0.5)
    assert viewer.training.state == "running"


def test_a_batch_size_that_comes_late_is_handed_over_and_a_wrong_one_refused(
    viewer: Viewer,
) -> None:
    page = FakeTrainingPage(viewer)
    set_training_numbers(viewer, noise=0.25)
    page.change(batch_size=6)
    assert viewer.get_state()["_training"]["training"]["batch_size"] == 6
    assert last_sent_training_state(viewer)[0] == "handing"
    with pytest.warns(UserWarning, match="batch_size=13"):
        page.change(batch_size=13)
    assert viewer.get_state()["_training"]["training"]["batch_size"] == 4


def test_another_batch_size_keeps_the_number_of_remaining_examples(viewer: Viewer) -> None:
    stop_training(viewer)
    viewer.train((INPUTS, TARGETS), "cross_entropy", batch_size=4, steps=5, held_out=0)
    page = FakeTrainingPage(viewer)
    page.change(batch_size=8)
    assert last_sent_training_state(viewer)[0] == "handing"
    page.send_state(step=2)
    # 3 steps of 4 examples equal one and a half steps of 8.
    assert viewer.network.carried_weights is not None
    course = viewer.network.carried_weights.config
    assert (course.batch_size, course.start_step, course.end_step) == (8, 2, 4)


def test_another_training_takes_nothing_of_the_one_before(viewer: Viewer) -> None:
    page = FakeTrainingPage(viewer)
    stop_training(viewer)
    page.change(lr=0.5)
    assert last_sent_training_state(viewer) == ("stopped", 0.001, 0.0)
    viewer.train((INPUTS, TARGETS), "cross_entropy", batch_size=4, held_out=0)
    page.change(state="paused", noise=0.5)
    assert last_sent_training_state(viewer) == ("running", 0.001, 0.0)
    page.sequence = -5
    page.change(id=viewer.get_state()["_training"]["training"]["id"])
    assert last_sent_training_state(viewer) == ("running", 0.001, 0.0)
