"""Passes that a latent skips: its encoder's, in a Session and in the page, but no needed one."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from playwright.sync_api import Error, Page
from torch import nn

import nbglcnn
from nbglcnn import Plan, Session, transforms
from nbglcnn.errors import InputError
from nbglcnn.features.edits.records import Edit, validate_edits
from nbglcnn.features.edits.skipped_passes import find_skipped_passes
from recurrent import INPUTS, leaky_integrator
from webgl_page import ONE_RENDERER, GlPage

RANDOM = np.random.default_rng(3)
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}


class AutoencoderNet(nn.Module):
    """An autoencoder with a vector as code, outputs for a loss, and a path around the code."""

    def __init__(self, has_bypass: bool = False, has_loss_outputs: bool = False) -> None:
        super().__init__()
        self.has_bypass, self.has_loss_outputs = has_bypass, has_loss_outputs
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 5, 3, 2, 1), nn.BatchNorm2d(5), nn.ReLU(), nn.Conv2d(5, 6, 3, 2, 1),
            nn.ReLU(), nn.Flatten(), nn.Linear(6 * 3 * 4, 7),
        )  # fmt: skip
        self.first = nn.Conv2d(1, 3, 3, padding=1)
        self.deviation = nn.Linear(7, 7)
        self.decoder = nn.Sequential(
            nn.Linear(7, 6 * 3 * 4), nn.ReLU(), nn.Unflatten(1, (6, 3, 4)),
            nn.ConvTranspose2d(6, 5, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(5, 1, 4, 2, 1),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor | tuple[torch.Tensor, ...]:
        code = self.encoder(x)
        y = self.decoder(code)
        if self.has_bypass:
            y = y + self.first(x).sum(1, keepdim=True)
        return (y, self.deviation(code), x.mean()) if self.has_loss_outputs else y


X = RANDOM.standard_normal((1, 1, 12, 16)).astype(np.float32)
CODE = RANDOM.standard_normal((1, 7, 1, 1)).astype(np.float32)


def latent_edit(layer: str, array: str = "code") -> Edit:
    return Edit(
        layer=layer, name="latent", transform="inject", array_hash=array, skips_upstream=True
    )


def make_net(**how: bool) -> AutoencoderNet:
    torch.manual_seed(0)
    return AutoencoderNet(**how).eval()


def decode(model: AutoencoderNet, code: np.ndarray = CODE) -> np.ndarray:
    with torch.no_grad():
        return model.decoder(torch.from_numpy(code.reshape(1, 7))).numpy()


def skipped_layers(plan: Plan, layer: str) -> tuple[set[str], int]:
    """The layers without a value, and the number of skipped passes."""
    found = find_skipped_passes(plan.header, [latent_edit(layer)])
    return {plan.values[number].key for number in found.value_indices}, len(found.pass_indices)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return nbglcnn.compile(make_net(), X)


@pytest.fixture
def session(plan: Plan) -> Iterator[Session]:
    with Session(plan) as session:
        yield session


def test_all_passes_of_the_encoder_and_no_other_are_spared(plan: Plan) -> None:
    layers = {one.name for one in plan.layers}
    keys, count = skipped_layers(plan, "encoder.6")
    # The module's key has the value after its last layer, which is the code too.
    assert keys & layers == {one for one in layers if one.startswith("encoder.")} - {"encoder.6"}
    decoder = [k for k, one in enumerate(plan.layers) if one.name.startswith("decoder")]
    of_decoder = sum(step.layer in decoder for step in plan.header.passes)
    assert count == len(plan.header.passes) - of_decoder > 4
    # For a latent of the module the last layer is skipped too: a hook of the module runs after it.
    assert skipped_layers(plan, "encoder")[0] == keys | {"encoder.6"}


def test_what_follows_is_the_decoder_of_the_code_and_the_rest_is_a_key_error(
    session: Session,
) -> None:
    before = session.run(X)
    session.set_edits([latent_edit("encoder.6")], {"code": CODE})
    found = session.run(X + 1)
    np.testing.assert_allclose(found["output"], decode(make_net()), **TOLERANCE)
    assert "encoder.3" not in found and "decoder.0" in found and "x" in found
    np.testing.assert_array_equal(session.read("encoder.6"), CODE.reshape(1, 7))
    np.testing.assert_array_equal(session.read("encoder"), CODE.reshape(1, 7))
    with pytest.raises(KeyError, match=r"encoder.3.* has no value: an active .*viewer.source"):
        session.read("encoder.3")
    many = session.run(np.concatenate([X, X]))
    assert "encoder.3" not in many and len(many["output"]) == 2
    session.set_edits([], {})
    after = session.run(X)
    assert all((after[key] == before[key]).all() for key in before)


def test_bends_stand_behind_the_code_and_those_of_spared_layers_wait(session: Session) -> None:
    session.write("x", X)
    edits = [
        latent_edit("encoder.6"),
        Edit(layer="encoder.0", name="far", transform="multiply", parameters=(3,)),
        *(
            Edit(layer="encoder.6", name=f"n{k}", transform="add", parameters=(float(k),))
            for k in range(4)
        ),
    ]
    session.set_edits(edits, {"code": CODE})
    found = session.run(X)
    np.testing.assert_allclose(found["output"], decode(make_net(), CODE + 6), **TOLERANCE)
    # The layer's value before its bends is the code.
    np.testing.assert_array_equal(session.read("encoder.6", unbent=True), CODE.reshape(1, 7))


def test_what_the_decoder_needs_besides_the_code_runs() -> None:
    model = make_net(has_bypass=True)
    with Session(nbglcnn.compile(model, X)) as session:
        keys, _ = skipped_layers(session.plan, "encoder.6")
        assert "encoder.5" in keys and "first" not in keys
        session.set_edits([latent_edit("encoder.6")], {"code": CODE})
        found = session.run(X)
        with torch.no_grad():
            has_bypass = model.first(torch.from_numpy(X)).sum(1, keepdim=True).numpy()
        np.testing.assert_allclose(found["output"], decode(model) + has_bypass, **TOLERANCE)


def test_outputs_that_do_not_follow_from_the_code_are_spared() -> None:
    """As in a VAE's loss: a latent before one of these outputs doesn't keep the encoder running."""
    model = make_net(has_loss_outputs=True)
    with Session(nbglcnn.compile(model, X)) as session:
        session.set_edits([latent_edit("decoder.0")], {"code": np.ones((1, 72, 1, 1), np.float32)})
        found = session.run(X)
        assert "output[0]" in found
        assert {"output[1]", "output[2]", "encoder.6"}.isdisjoint(found)


def test_every_cut_of_a_network_gives_what_injecting_there_gives() -> None:
    """Also with layers that share textures, and with values that are views of others."""
    from zoo import UNet

    torch.manual_seed(1)
    models: list[tuple[nn.Module, np.ndarray]] = [
        (make_net(has_bypass=True, has_loss_outputs=True), X),
        (UNet().eval(), RANDOM.standard_normal((1, 3, 16, 16)).astype(np.float32)),
    ]
    for model, x in models:
        every = nbglcnn.compile(model, x)
        for observe in ("all", [*every.header.outputs, *[one.name for one in every.layers][2:9:3]]):
            plan = nbglcnn.compile(model, x, observe=observe)
            with Session(plan) as session:
                session.run(x)
                for value in plan.values:
                    if value.edit_pass == -2:
                        continue
                    code = RANDOM.standard_normal(value.nchw).astype(np.float32)
                    plain = Edit(layer=value.key, name="i", transform="inject", array_hash="code")
                    session.set_edits([plain], {"code": code})
                    expected = session.run(x)
                    session.set_edits([latent_edit(value.key)], {"code": code})
                    session.write(plan.inputs[0].key, x)
                    found = session.run(x)
                    assert value.key in found
                    for key, array in found.items():
                        assert (array == expected[key]).all(), (value.key, key)


def test_a_state_is_carried_on_whatever_is_spared() -> None:
    from nbglcnn.lowering.lower import lower

    plan = lower(leaky_integrator())
    [key] = [one.key for one in plan.inputs][:1]
    found = find_skipped_passes(plan.header, [latent_edit(key)])
    sources = {carry.source for carry in plan.header.carries}
    written = {plan.header.passes[k].output for k in found.pass_indices}
    assert sources and not sources & written
    assert INPUTS  # the other tests cover this case


def test_only_a_whole_injected_value_can_spare_anything(plan: Plan, session: Session) -> None:
    for wrong in (
        Edit(layer="encoder.6", name="a", transform="add", parameters=(1,), skips_upstream=True),
        Edit(
            layer="encoder.6",
            name="a",
            transform="inject",
            array_hash="x",
            mix=0.5,
            skips_upstream=True,
        ),
        Edit(
            layer="encoder.6",
            name="a",
            transform="inject",
            array_hash="x",
            channels=(0,),
            skips_upstream=True,
        ),
    ):
        with pytest.raises(InputError, match="only a whole injected value"):
            validate_edits([wrong], plan)
    session.run(X)
    session.inject("encoder.6", CODE.reshape(1, 7))
    found = session.run(X)
    assert "encoder.3" in found  # inject alone skips nothing; all values stay readable
    session.bend("encoder.6", transforms.add(1))


# In the page


@pytest.fixture
def gl(
    gl_page: Callable[..., Page], static_site: tuple[str, dict[str, bytes]], backend: str
) -> GlPage:
    return GlPage(gl_page(backend), static_site[1])


def test_the_page_runs_the_decoder_alone(gl: GlPage, plan: Plan) -> None:
    session = gl.open(plan)
    gl.write(session, "x", X)
    gl.run(session)
    whole = len(plan.header.passes)
    gl.set_edits(session, [latent_edit("encoder.6")], {"code": CODE})
    run = gl.run(session)
    # One pass writes the code.
    assert run["passes"] == whole - skipped_layers(plan, "encoder.6")[1] + 1
    assert_close(gl.read(session, "output"), decode(make_net()))
    np.testing.assert_array_equal(gl.read(session, "encoder").reshape(-1), CODE.reshape(-1))
    with pytest.raises(Error, match=r"encoder\.3 has no value: an active latent skips its layer"):
        gl.read(session, "encoder.3")
    with pytest.raises(Error, match="has no value: an active latent"):
        gl.statistics(session, "encoder.3")
    gl.set_edits(session, [])
    gl.run(session)
    with Session(plan) as local:
        assert_close(gl.read(session, "encoder.3"), local.run(X)["encoder.3"])


@ONE_RENDERER
def test_bends_behind_a_latent_are_compared_with_the_code_alone(gl: GlPage, plan: Plan) -> None:
    session = gl.open(plan)
    gl.write(session, "x", X)
    gl.run(session)
    bend = Edit(layer="encoder.6", name="add", transform="add", parameters=(1.0,))
    gl.page.evaluate(
        "([k, keys]) => gl.the(k).keepUnedited(keys)", [session, ["output", "encoder.3"]]
    )
    for code in (CODE, 2 * CODE):
        name = f"code {code.sum()}"
        gl.set_edits(session, [latent_edit("encoder.6", name), bend], {name: code})
        gl.run(session)
        assert_close(gl.read(session, "output"), decode(make_net(), code + 1))
        assert_close(gl.read_derived(session, "without", "output"), decode(make_net(), code))
        assert_close(gl.read_derived(session, "before", "encoder.6"), code)


@ONE_RENDERER
def test_page_and_session_spare_the_same_in_every_cut(gl: GlPage) -> None:
    from zoo import UNet

    torch.manual_seed(1)
    x = RANDOM.standard_normal((1, 3, 16, 16)).astype(np.float32)
    plan = nbglcnn.compile(UNet().eval(), x)
    session = gl.open(plan)
    gl.write(session, plan.inputs[0].key, x)
    gl.run(session)
    whole = len(plan.header.passes)
    for value in plan.values[::3]:
        code = RANDOM.standard_normal(value.nchw).astype(np.float32)
        gl.set_edits(session, [latent_edit(value.key, value.key)], {value.key: code})
        keys, count = skipped_layers(plan, value.key)
        assert gl.run(session)["passes"] == whole - count + 1
        for other in list(plan.values)[::5]:
            if other.key in keys:
                with pytest.raises(Error, match="has no value: an active latent"):
                    gl.read(session, other.key)


def assert_close(found: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(found.reshape(-1), expected.reshape(-1), **TOLERANCE)
