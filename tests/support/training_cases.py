"""A training as the views receive it: a few steps of a real one in PyTorch."""

import copy
import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn

from views_page import ViewsPage
from webgl_page import encode

# Arrays are base64. The actions are stubs that log their calls.
SET_TRAINING_SCRIPT = """(given) => {
  const revived = (key, value) => {
    if (value === null || typeof value !== 'object') return value;
    if ('f32' in value) {
      return new Float32Array(Uint8Array.from(atob(value.f32), (c) => c.charCodeAt(0)).buffer);
    }
    return key === 'parameterArrays' ? new Map(Object.entries(value)) : value;
  };
  const { progress, training, canRecompile, acts, now } = JSON.parse(given, revived);
  const { state } = views;
  globalThis.asked ??= { looks: [], backs: [], watches: [], watching: 0 };
  globalThis.now = { ...now };
  state.trainingHost.value = { pageId: 'here', canRecompile, planHash: '', contextLossCount: 0 };
  state.training.value = training;
  state.progress.value = { ...state.progress.value, ...progress };
  state.trainingActions.value = !acts ? null : {
    watch(keys, take) {
      asked.watches.push([...keys]);
      asked.watching++;
      take(keys.map((key) => globalThis.now[key] ?? new Float32Array()));
      return () => { asked.watching--; };
    },
    showCheckpoint(id) {
      asked.looks.push(id);
      state.progress.value = { ...state.progress.value, shownCheckpointId: id };
    },
    restoreCheckpoint: (id, keep) => asked.backs.push([id, keep]),
  };
}"""
TRAINING_RECORD: dict[str, Any] = {
    "id": "first", "config": "c", "state": "running", "lr": 0.002, "noise": 0.0, "owner": "here",
    "pause_at": -1, "swap_count": 0, "start_step": 0, "history": "", "batch_size": 0,
    "frozen": [], "marks": [],
    "failed_layer": "",
}  # fmt: skip


def encode_array(array: Any) -> dict[str, str]:
    return {"f32": encode(array)}


@dataclass
class TrainingCase:
    """The result of a training; `progress` is the part that the views receive."""

    model: nn.Module
    progress: dict[str, Any]
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    gradients: dict[str, np.ndarray] = field(default_factory=dict)

    def show_training(
        self, views: ViewsPage, *, can_recompile: bool = True, acts: bool = True, **record: Any
    ) -> None:
        """Show it as a page that trains does; `record` overrides fields of the training record."""
        now = {key: encode_array(one) for key, one in {**self.arrays, **self.gradients}.items()}
        views.page.evaluate(
            SET_TRAINING_SCRIPT,
            json.dumps(
                {
                    "progress": self.progress, "training": {**TRAINING_RECORD, **record},
                    "canRecompile": can_recompile, "acts": acts, "now": now,
                }
            ),
        )  # fmt: skip


def train_case(
    model: nn.Module,
    inputs: np.ndarray,
    targets: np.ndarray | None = None,
    *,
    steps: int = 40,
    at: tuple[int, ...] = (0, 5, 13, 21),
    batch: int = 8,
    lr: float = 2e-3,
) -> TrainingCase:
    """Train some Adam steps in PyTorch, with checkpoints `at` some; the last six are held out."""
    torch.manual_seed(0)
    model = copy.deepcopy(model).train()
    classes = targets is not None
    x = torch.from_numpy(inputs)
    y = torch.from_numpy(targets) if targets is not None else x
    lossof = nn.functional.cross_entropy if classes else nn.functional.mse_loss
    optimizer = torch.optim.Adam(model.parameters(), lr)
    names = [name for name, _ in model.named_parameters()]
    losses, shares, held, checkpoints, ratios = [], [], [], [], [0.0] * len(names)

    def evaluated() -> tuple[float, float | None, np.ndarray]:
        with torch.inference_mode():
            found = model(x[-6:])
            right = (found.argmax(1) == y[-6:]).float().mean().item() if classes else None
            return lossof(found, y[-6:]).item(), right, found.numpy().copy()

    def parameters() -> dict[str, np.ndarray]:
        return {name: one.detach().numpy().copy() for name, one in model.named_parameters()}

    for step in range(steps + 1):
        if step in at or step % 10 == 0 or step == steps:
            loss, right, found = evaluated()
            held.append([step, loss, right])
            if step in at:
                checkpoints.append(
                    {
                        "id": 100 + step, "step": step, "loss": loss, "branchNumber": 0,
                        "isRestorable": True,
                        "parameterArrays": {
                            name: encode_array(one) for name, one in parameters().items()
                        },
                        "predictions": encode_array(found),
                    }
                )  # fmt: skip
        if step == steps:
            break
        chosen = torch.randint(0, len(x) - 6, (batch,))
        optimizer.zero_grad()
        output = model(x[chosen])
        value = lossof(output, y[chosen])
        value.backward()
        before = parameters()
        optimizer.step()
        after = parameters()
        ratios = [
            float(np.linalg.norm(after[n] - before[n]) / max(np.linalg.norm(before[n]), 1e-8))
            for n in names
        ]
        losses.append(value.item())
        shares.append((output.argmax(1) == y[chosen]).float().mean().item() if classes else np.nan)
    gradients = {f"grad {n}": p.grad.numpy().copy() for n, p in model.named_parameters()}
    course = {
        "plan": "p", "loss": "cross_entropy" if classes else "mse", "optimizer": "Adam",
        "batch_size": batch, "example_count": len(x) - 6, "held_out_count": 6, "start_step": 0,
        "end_step": -1, "shuffle": True,
        "seed": 0, "has_accuracy": classes, "learning_rates": "",
        "betas": [0.9, 0.999], "columns": [],
        "inputs": {}, "held_out_inputs": {}, "loss_key": "loss", "held_out_key": "",
        "prediction_key": "output", "update_ratios_key": "", "dead_units_key": "",
        "trained_parameters": names, "relu_layers": [],
        "gradients": {name: f"grad {name}" for name in names}, "state_names": [], "frozen": [],
    }  # fmt: skip
    fixed = {
        "isHeldOut": True, "count": 6, "inputs": encode_array(inputs[-6:]),
        "inputShape": list(inputs.shape[1:]),
        "targets": encode_array(y[-6:].numpy() if classes else []),
        "targetShape": [], "outputShape": list(found.shape[1:]),
    }  # fmt: skip
    progress = {
        "phase": "running", "message": "", "config": course, "step": steps,
        "examplesSeen": steps * batch, "losses": losses,
        "accuracies": shares if classes else [None] * steps, "heldOut": held, "stepMs": 24.0,
        "branches": [], "checkpoints": checkpoints, "shownCheckpointId": None,
        "fixedExamples": fixed,
        "predictions": encode_array(found), "updateRatios": encode_array(ratios),
        "deadUnits": None,
    }  # fmt: skip
    return TrainingCase(model, progress, parameters(), gradients)
