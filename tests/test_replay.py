"""Bends outside of the graphics device: hooks, `apply_bends` and `verify` give the bent network."""

import numpy as np
import pytest
import torch

import nbglcnn
from bent_models import bend_at_random, bent_by_hooks, drawn
from equal import assert_equal
from nbglcnn.load.names import leaves


def tensors_of(output: object) -> list[torch.Tensor]:
    return [one for _, one in leaves(output, lambda one: isinstance(one, torch.Tensor))]


@pytest.mark.parametrize("seed", range(16))
def test_a_session_a_hook_and_the_replay_agree_in_random_networks(seed: int) -> None:
    net, x = drawn(seed)
    with nbglcnn.Session(nbglcnn.compile(net, x)) as session:
        bend_at_random(session, seed)
        found = session.run(x.numpy())
        store = session.bends.store
        true = bent_by_hooks(net, x, session.plan, store.edits, store.arrays)
        assert found.keys() <= true.keys()
        for key, value in found.items():
            assert_equal(value, true[key], name=key)
        seen: dict[str, np.ndarray] = {}
        calls: dict[str, int] = {}

        def look(path: str, output: object) -> None:
            number = calls[path] = calls.get(path, -1) + 1
            name = f"{path}:{number}" if number else path
            for suffix, one in leaves(output, lambda one: isinstance(one, torch.Tensor)):
                seen[name + suffix] = one.detach().numpy().copy()

        for path, module in net.named_modules():
            if path:
                module.register_forward_hook(lambda _, __, out, path=path: look(path, out))
        replayed = nbglcnn.apply_bends(net, session.bends)
        with torch.no_grad():
            output = tensors_of(replayed(x))
        for one, key in zip(output, session.plan.header.outputs, strict=True):
            assert_equal(one.numpy(), found[key], name=key)
        functional = {v.key for v in session.plan.values} - true.keys()
        assert not functional
