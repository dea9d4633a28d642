"""The Viewer without a page: in scripts, and in notebooks executed without a browser."""

import asyncio
import io
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest
import torch
from IPython.core.formatters import DisplayFormatter
from nbconvert.preprocessors import ExecutePreprocessor
from PIL import Image
from torch import Tensor, nn
from traitlets import TraitError

import nbglcnn
from assertions import assert_equal
from nbglcnn import InputError, ModelError, PageError, UnsupportedOperator, Viewer
from nbglcnn.widget import reader
from nbglcnn.widget.diagnostics import redact
from viewer_models import NamedOutputs, TwoInputs, autoencoder, hook_values, pictures


@pytest.fixture(scope="module")
def viewer() -> Viewer:
    return Viewer(autoencoder(3), pictures(3))


def test_a_script_computes_at_once_and_without_a_warning(
    viewer: Viewer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So long that slowness isn't mistaken for it.
    monkeypatch.setattr(reader, "HELLO_TIMEOUT_S", 60.0)
    start = time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fresh = Viewer(nn.Sequential(nn.Conv2d(1, 2, 3)).eval(), np.zeros((1, 1, 5, 5), "float32"))
        made = time.monotonic() - start
        output = fresh.output
    assert output.shape == (1, 2, 3, 3)
    assert time.monotonic() - start - made < reader.HELLO_TIMEOUT_S
    assert fresh.activations.source.startswith("local (OpenGL: ")
    fresh.close()


def test_a_misspelt_trait_is_told() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fresh = Viewer(nn.Sequential(nn.Conv2d(1, 2, 3)).eval(), np.zeros((1, 1, 5, 5), "float32"))
        fresh.colormap, fresh.notes, fresh.network = "grey", "mine", fresh.network
    for wrong, right in (("colour_map", "colormap"), ("inputs", "input"), ("exmaple", "example")):
        with pytest.warns(UserWarning, match=f"no '{wrong}'.*did you mean '{right}'") as told:
            setattr(fresh, wrong, None)
        assert told[0].filename == __file__
    fresh.close()


def test_every_layer_is_what_pytorch_hooks_see(viewer: Viewer) -> None:
    expected = hook_values(autoencoder(3), pictures(3))
    values = viewer.activations.to_dict()
    assert set(values) == set(expected)
    for name, value in expected.items():
        assert_equal(values[name], value, name=name)
        assert values[name].flags.c_contiguous


def test_activations_are_a_mapping_in_call_order(viewer: Viewer) -> None:
    names = list(viewer.activations)
    assert names[0] == "input" and names[-1] == "output"
    assert names.index("encoder.0") < names.index("encoder.4") < names.index("decoder.0")
    assert len(viewer.activations) == len(names) == len(viewer.activations.to_dict())
    assert "encoder.0" in viewer.activations and "encoder.9" not in viewer.activations
    assert 0 not in viewer.activations
    with pytest.raises(KeyError, match=r"'encoder\.O' is not a value .* near: 'encoder\.\d'"):
        viewer.activations["encoder.O"]
    assert "encoder.0" in repr(viewer.activations)
    assert "<td>encoder.0</td>" in viewer.activations._repr_html_()


def test_values_are_the_readers_own(viewer: Viewer) -> None:
    value = viewer.activations["encoder.0"]
    value[:] = 0
    assert_equal(
        viewer.activations["encoder.0"], hook_values(autoencoder(3), pictures(3))["encoder.0"]
    )
    given = viewer.input
    given[:] = 7
    assert_equal(viewer.input, pictures(3))


def test_await_works_in_a_script(viewer: Viewer) -> None:
    expected = hook_values(autoencoder(3), pictures(3))
    assert_equal(asyncio.run(viewer.read("encoder.1")), expected["encoder.1"])
    several = asyncio.run(viewer.read(["decoder", "encoder"]))
    assert list(several) == ["decoder", "encoder"]
    with pytest.raises(KeyError):
        asyncio.run(viewer.read("nothing"))


def test_the_output_follows_input_and_weights() -> None:
    viewer = Viewer(autoencoder(3), pictures(3))
    for seed in (5, 6):
        viewer.input = torch.from_numpy(pictures(seed))
        assert_equal(viewer.output, hook_values(autoencoder(3), pictures(seed))["output"])
    viewer.load_state_dict(autoencoder(7).state_dict())
    assert_equal(viewer.output, hook_values(autoencoder(7), pictures(6))["output"])
    assert_equal(viewer.input, pictures(6))
    viewer.close()


def test_run_gives_the_output_of_its_input_and_keeps_it() -> None:
    viewer = Viewer(autoencoder(3), pictures(3))
    for seed in (5, 6):
        assert_equal(
            viewer.run(pictures(seed)), hook_values(autoencoder(3), pictures(seed))["output"]
        )
        assert_equal(viewer.input, pictures(seed))
    with pytest.raises(InputError, match=r"\(2, 1, 20, 18\)"):
        viewer.run(pictures(3)[:, :, :20])
    assert_equal(viewer.input, pictures(6))
    named = Viewer(NamedOutputs().eval(), np.zeros((1, 1, 6, 6), "f4"))
    assert list(named.run(np.ones((1, 1, 6, 6), "f4"))) == ["map", "sign"]
    viewer.close()
    named.close()


def test_activations_are_read_one_or_several(viewer: Viewer) -> None:
    expected = hook_values(autoencoder(3), pictures(3))
    assert_equal(viewer.activations.read("encoder.1"), expected["encoder.1"])
    several = viewer.activations.read("decoder", ["encoder.0", "output"], timeout=1)
    assert list(several) == ["decoder", "encoder.0", "output"]
    assert list(viewer.activations.read(["decoder"])) == ["decoder"]
    with pytest.raises(KeyError, match="encoder"):
        viewer.activations.read("encoder.O")


def test_several_inputs_and_outputs_come_as_the_model_has_them() -> None:
    torch.manual_seed(0)
    model = TwoInputs().eval()
    image, noise = torch.randn(1, 2, 5, 7), torch.randn(1, 3, 5, 7)
    viewer = Viewer(model, (image, noise))
    assert_equal(viewer.input[1], noise.numpy())
    outputs = viewer.output
    assert isinstance(outputs, tuple)
    with torch.no_grad():
        for found, true in zip(outputs, model(image, noise), strict=True):
            assert_equal(found, true.numpy())
    viewer.input = (image * 2, noise)
    with torch.no_grad():
        assert_equal(viewer.output[1], model(image * 2, noise)[1].numpy())
    with pytest.raises(InputError, match="1 input was given; the model takes 2"):
        viewer.input = image
    viewer.close()


def test_a_dict_of_outputs_is_a_dict() -> None:
    model = NamedOutputs().eval()
    x = torch.randn(1, 1, 6, 6)
    viewer = Viewer(model, x)
    assert list(viewer.output) == ["map", "sign"]
    with torch.no_grad():
        assert_equal(viewer.output["sign"], model(x)["sign"].numpy())
    viewer.close()


def test_observe_decides_what_is_there() -> None:
    viewer = Viewer(autoencoder(3), pictures(3), observe="outputs")
    assert list(viewer.activations) == ["output"]
    assert_equal(viewer.output, hook_values(autoencoder(3), pictures(3))["output"])
    viewer.close()


def test_layers_and_channels_that_are_not_there_are_named_with_those_that_are(
    viewer: Viewer,
) -> None:
    for index in (10, -11):
        with pytest.raises(IndexError, match=rf"layer {index}: this network has 10 layers"):
            viewer.layers[index]
    for channel in (0, 8, None):
        viewer.selected = {"layer": "encoder.0", "channel": channel}
    for channel in (9, -1, 0.5):
        with pytest.raises(TraitError, match=rf"encoder\.0 has channels 0 to 8, not {channel}"):
            viewer.selected = {"layer": "encoder.0", "channel": channel}
    assert viewer.selected == {"layer": "encoder.0", "channel": None}


def test_layers_are_a_table(viewer: Viewer) -> None:
    assert viewer.layers["encoder.0"].module == "Conv2d"
    assert viewer.layers[0].name == "encoder.0"
    assert "9×11×9" in repr(viewer.layers) and "<table>" in viewer.layers._repr_html_()


def test_the_snapshot_is_small_and_not_empty(viewer: Viewer) -> None:
    data, _ = viewer._repr_mimebundle_()
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"] == viewer.model_id
    assert "encoder.0" in data["text/plain"]
    assert len(data["image/png"]) < 100_000
    picture = Image.open(io.BytesIO(data["image/png"])).convert("RGB")
    colours = picture.getcolors(2**24)
    assert colours is not None and len(colours) > 16
    assert viewer._repr_mimebundle_()[0]["image/png"] is data["image/png"]


class CountsRuns(nn.Module):
    """Counts the runs of all copies; one of its values belongs to no module."""

    runs = 0

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 4, 3), nn.Conv2d(4, 2, 3)

    def forward(self, x: Tensor) -> Tensor:
        CountsRuns.runs += 1
        return self.second(torch.sin(self.first(x)) * 2)


def test_the_first_snapshot_shows_what_loading_has_computed() -> None:
    torch.manual_seed(4)
    viewer = Viewer(CountsRuns().eval(), pictures(3))
    runs = CountsRuns.runs
    first = viewer._repr_mimebundle_()[0]["image/png"]
    assert CountsRuns.runs == runs
    viewer.network._snapshot = None
    assert viewer._repr_mimebundle_()[0]["image/png"] == first and CountsRuns.runs == runs + 1
    viewer.input = -pictures(3)
    assert viewer._repr_mimebundle_()[0]["image/png"] != first
    viewer.close()


def test_the_snapshot_of_an_onnx_file_compiles_no_shader(tmp_path: Path) -> None:
    file = str(tmp_path / "model.onnx")
    torch.onnx.export(
        autoencoder(3), (torch.from_numpy(pictures(3)),), file, dynamo=True, verbose=False
    )
    viewer = Viewer(file, pictures(3))
    picture = viewer._repr_mimebundle_()[0]["image/png"]
    assert viewer.network.local.device_name == ""
    viewer.network.local.compute_values(
        viewer.network.plan, viewer.network.graph, viewer.network.input_arrays, 0
    )
    viewer.network._snapshot = None
    ours = viewer._repr_mimebundle_()[0]["image/png"]
    a, b = (np.asarray(Image.open(io.BytesIO(png)).convert("RGB"), int) for png in (picture, ours))
    assert np.abs(a - b)[:130].mean() < 1  # same maps; the line below names another engine
    viewer.close()


def test_the_snapshot_of_a_wide_noisy_network_stays_small() -> None:
    torch.manual_seed(0)
    wide = nn.Sequential(nn.Conv2d(3, 64, 3), nn.Conv2d(64, 64, 3), nn.Conv2d(64, 3, 3)).eval()
    viewer = Viewer(wide, torch.randn(1, 3, 120, 200))
    assert len(viewer._repr_mimebundle_()[0]["image/png"]) < 100_000
    viewer.close()


@pytest.mark.parametrize("channels", [1, 2], ids=["picture", "maps"])
def test_nan_and_inf_are_drawn_in_a_colour_of_their_own(channels: int) -> None:
    x = np.zeros((1, channels, 8, 8), np.float32)
    x[0, 0, 2, 3], x[0, 0, 5, 5] = np.nan, np.inf
    viewer = Viewer(nn.Sequential(nn.Conv2d(channels, channels, 1)).eval(), x)
    png = viewer._repr_mimebundle_()[0]["image/png"]
    colours = Image.open(io.BytesIO(png)).convert("RGB").getcolors(2**24)
    assert any(r > 240 and g < 30 and b > 240 for _, (r, g, b) in colours or [])
    viewer.close()


def with_empty_batch(consume_model: Callable[[nn.Module, np.ndarray], Viewer]) -> Viewer:
    return consume_model(NestedOutputs().eval(), np.zeros((0, 2, 3, 3), "float32"))


def compare_with_identity(model: nn.Module, x: np.ndarray) -> Viewer:
    return nbglcnn.compare(model, nn.Identity().eval(), x)


@pytest.mark.parametrize(
    ("make", "kind", "words"),
    [
        (lambda: Viewer(autoencoder(3)), InputError, "needs an example input"),
        (lambda: Viewer(autoencoder(3), np.zeros((1, 1, 22, 18), "uint8")), InputError, "uint8"),
        (lambda: Viewer("a string", np.zeros(3)), ModelError, "."),
        (
            lambda: with_empty_batch(Viewer),
            InputError,
            r"^x: shape \(0, 2, 3, 3\) has no .*one example",
        ),
        (
            lambda: with_empty_batch(compare_with_identity),
            InputError,
            r"shape \(0, 2, 3, 3\) has no .*one example",
        ),
        (
            lambda: Viewer(NestedOutputs, np.zeros(3)),
            ModelError,
            r"NestedOutputs is a class.*instance.*NestedOutputs\(",
        ),
        (
            lambda: Viewer(autoencoder(3).state_dict(), pictures(3)),
            ModelError,
            r"OrderedDict is not a model: it contains weights.*load_state_dict",
        ),
        (
            lambda: Viewer(autoencoder(3), pictures(3).astype(int)),
            InputError,
            r"encoder\.0.*; for float inputs: x\.float\(\), .*astype\('float32'\)",
        ),
        (
            lambda: Viewer(NestedOutputs(), (1, 2)),
            InputError,
            r"NestedOutputs\.forward takes 1 input; 2 were",
        ),
        *[
            (
                lambda s=s: Viewer(NestedOutputs(), pictures(3), timeout=s),
                InputError,
                "timeout=.*> 0",
            )
            for s in ("10s", None, True, 0, -1, float("nan"))
        ],
        (
            lambda: Viewer(nn.LSTM(4, 2).eval(), np.zeros((5, 1, 4), "float32"), strict=True),
            UnsupportedOperator,
            "operator LSTM is not among",
        ),
    ],
)
def test_bad_arguments_are_one_clear_error(make: object, kind: type, words: str) -> None:
    with pytest.raises(kind, match=words):
        make()  # type: ignore[operator]


def test_a_closed_viewer_says_so() -> None:
    viewer = Viewer(nn.Sequential(nn.ReLU()), np.ones((1, 1, 2, 2), "float32"))
    viewer.close()
    viewer.close()
    with pytest.raises(PageError, match="was closed"):
        _ = viewer.output


NO_OPENGL_PROGRAM = """
import sys
sys.modules["moderngl"] = None
import warnings; warnings.simplefilter("error")
import numpy as np, torch
from torch import Tensor, nn
from nbglcnn import Viewer
torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU()).eval()
x = torch.randn(1, 1, 6, 6)
viewer = Viewer(model, x)
with torch.no_grad():
    np.testing.assert_allclose(viewer.output, model(x).numpy(), rtol=1e-6)
viewer.load_state_dict({k: 2 * v for k, v in model.state_dict().items()})
with torch.no_grad():
    np.testing.assert_allclose(viewer.output, 2 * model(x).numpy(), rtol=1e-5)
print(viewer.activations.source)
"""


def test_without_opengl_the_framework_computes() -> None:
    run = subprocess.run([sys.executable, "-c", NO_OPENGL_PROGRAM], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout == f"reference (PyTorch {'.'.join(torch.__version__.split('.')[:2])})\n"


def test_a_notebook_without_a_browser_runs_with_one_warning_a_viewer_and_keeps_a_picture(
    tmp_path: Path,
) -> None:
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [
        nbformat.v4.new_code_cell(source)
        for source in (
            f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1] / 'support')!r})\n"
            "import time, numpy as np\nfrom nbglcnn import Viewer\n"
            "from viewer_models import autoencoder, pictures",
            "viewer = Viewer(autoencoder(3), pictures(3))\nviewer",
            "start = time.monotonic()\nvalue = viewer.activations['encoder.0']\n"
            "print(1.9 < time.monotonic() - start < 30, viewer.activations.source)",
            "from nbglcnn.widget import reader\n"
            "reader.HELLO_TIMEOUT_S = reader.HELLO_RETRY_TIMEOUT_S = 60\n"
            "start = time.monotonic()\nother = await viewer.read('encoder.1')\n"
            "out = viewer.output\nprint(time.monotonic() - start < 30)\n"
            f"np.savez({str(tmp_path / 'values.npz')!r}, value=value, out=out)",
        )
    ]
    ExecutePreprocessor(timeout=200, kernel_name="python3").preprocess(
        notebook, {"metadata": {"path": str(tmp_path)}}
    )
    _, shown, first, later = [cell.outputs for cell in notebook.cells]
    assert {"image/png", "text/plain"} <= set(shown[0].data)
    warned = "".join(o.text for o in first if o.get("name") == "stderr")
    assert warned.count("UserWarning") == 1
    assert "no page has shown this Viewer in 2.0 s" in warned
    assert "computed in Python (OpenGL, " in warned
    assert "".join(o.text for o in first if o.get("name") == "stdout").startswith("True local (")
    assert [o.text for o in later] == ["True\n"]
    with np.load(tmp_path / "values.npz") as values:
        expected = hook_values(autoencoder(3), pictures(3))
        assert_equal(values["value"], expected["encoder.0"])
        assert_equal(values["out"], expected["output"])
    assert len(json.dumps(notebook)) < 200_000


def test_a_report_for_a_bug_says_versions_and_sizes_and_nothing_private() -> None:
    viewer = Viewer(autoencoder(3), pictures(3))
    text = viewer.report()
    assert text.startswith("nbglcnn ") and f"torch {torch.__version__}" in text
    assert "no page has connected" in text and "nothing computed" in text
    plan = viewer.network.plan
    assert f"10 layers, {len(plan.header.passes)} passes" in text
    assert f"{plan.gpu_bytes} bytes" in text
    _ = viewer.output
    assert "in Python     OpenGL: " in viewer.report()
    assert "encoder" not in text and "Sequential" not in text and str(Path.home()) not in text
    viewer.close()


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("no value \"secret.layer\"; and '/home/ann/x.onnx'", "no value …; and …"),
        ("cannot open /home/ann/models/my net.onnx (2)", "cannot open … (2)"),
        (r"at C:\Users\ann\net.py line 3", "at …"),
        ("see https://host/ann?token=1 now", "see … now"),
        ("1.5 and/or 3/4 of 12 ms", "1.5 and/or 3/4 of 12 ms"),
    ],
)
def test_messages_in_a_report_hold_no_names_and_paths(text: str, left: str) -> None:
    assert redact(text) == left


class NestedOutputs(nn.Module):
    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        return {"a": x + 1, "pair": (x, [x * 2, x * 3])}


def test_nested_outputs_come_as_the_model_returns_them() -> None:
    x = torch.rand(1, 2, 3, 3)
    viewer = Viewer(NestedOutputs().eval(), x)
    true, found = NestedOutputs()(x), viewer.output
    assert list(found) == ["a", "pair"] and len(found["pair"]) == len(found["pair"][1]) == 2
    np.testing.assert_allclose(found["a"], true["a"], rtol=1e-6)
    np.testing.assert_allclose(found["pair"][1][1], true["pair"][1][1], rtol=1e-6)
    viewer.close()


class InputNamedAsModule(nn.Module):
    """Its second input has the name of a module."""

    def __init__(self) -> None:
        super().__init__()
        self.mask = nn.Conv2d(2, 2, 1)

    def forward(self, image: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.mask(image) * mask


def test_inputs_have_the_names_that_forward_gives_them_wherever_they_are_taken() -> None:
    model, named = (
        InputNamedAsModule().eval(),
        {"image": torch.rand(1, 2, 3, 3), "mask": torch.ones(1, 2, 3, 3)},
    )
    viewer = Viewer(model, named)
    other = {"mask": torch.rand(1, 2, 3, 3), "image": torch.rand(1, 2, 3, 3)}
    with torch.no_grad():
        true = model(**other)
    viewer.input = other
    np.testing.assert_allclose(viewer.output, true, rtol=1e-5)
    assert viewer.verify(other).ok
    np.testing.assert_allclose(viewer.run(other), true, rtol=1e-5)
    with nbglcnn.Session(nbglcnn.compile(model, named)) as session:
        np.testing.assert_allclose(session.run(**other)["output"], true, rtol=1e-5)
        np.testing.assert_allclose(session.run(other)["output"], true, rtol=1e-5)
    viewer.close()


def test_a_closed_viewer_takes_nothing() -> None:
    viewer = Viewer(NestedOutputs().eval(), torch.rand(1, 2, 3, 3))
    viewer.close()
    with pytest.raises(PageError, match="closed"):
        viewer.input = torch.rand(1, 2, 3, 3)
    with pytest.raises(PageError, match="closed"):
        viewer.load_state_dict({})
    with pytest.raises(PageError, match="closed"):
        viewer.show(0)
    words = {"text/plain": "Viewer of NestedOutputs: this Viewer was closed; create another one"}
    assert DisplayFormatter().format(viewer)[0] == words


def test_a_snapshot_needs_a_page() -> None:
    viewer = Viewer(nn.ReLU(), np.ones((1, 1, 2, 2), np.float32))
    with pytest.raises(nbglcnn.PageNotConnected, match=r"viewer\.picture\(key\)"):
        viewer.snapshot()
    viewer.close()


def test_a_folder_that_is_not_there_is_said_before_anything_is_made(tmp_path: Path) -> None:
    model, x = nn.Conv2d(1, 2, 3).eval(), torch.zeros(1, 1, 5, 5)
    viewer = nbglcnn.Viewer(model, x)
    gone = tmp_path / "gone"
    writers: list[Callable[[Path], object]] = [
        viewer.to_html,
        viewer.to_onnx,
        lambda path: nbglcnn.export_html(model, x, path),
    ]
    for write in writers:
        with pytest.raises(FileNotFoundError) as found:
            write(gone / "file")
        assert "the folder does not exist; create it first" in str(found.value)
        assert found.value.filename == str(gone)
        with pytest.raises(IsADirectoryError, match="this is a folder; give a file name in it"):
            write(tmp_path)
        with pytest.raises(TypeError, match="path: expected a file path, not Ten"):
            write(x)  # type: ignore[arg-type]
