"""Preprocessing of a picture before the model: layers `preprocess.*` against numpy and Pillow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from PIL import Image
from torch import nn

import nbglcnn
from assertions import assert_all_equal, assert_equal
from nbglcnn import InputError, Plan, Preprocess, Session, Viewer, transforms
from nbglcnn.graph import Array
from nbglcnn.inputs.picture_fit import fit_picture
from onnx_models import model_of, node, randn
from preprocessing import MEAN, STD, small_resnet, tensorflow_model

RANDOM = np.random.default_rng(3)


def smooth_picture(height: int, width: int) -> Image.Image:
    """A picture with large shapes and some noise, like a photograph."""
    coarse = Image.fromarray(RANDOM.integers(0, 256, (5, 6, 3), np.uint8))
    whole = np.asarray(coarse.resize((width, height), Image.Resampling.BICUBIC), np.float32)
    noisy = whole + RANDOM.normal(0, 9, whole.shape)
    return Image.fromarray(noisy.clip(0, 255).astype(np.uint8))


CAT, DOG = smooth_picture(40, 60), smooth_picture(70, 50)
SMALL_PICTURE = smooth_picture(13, 11)


def to_tensor(picture: Image.Image) -> Array:
    """The picture as from torchvision's ToTensor, with a batch axis."""
    grey = picture.mode == "L"
    pixels = np.asarray(picture, np.float32) / np.float32(255)
    return pixels[None, None] if grey else np.ascontiguousarray(pixels.transpose(2, 0, 1)[None])


def hook_values(model: nn.Module, x: torch.Tensor) -> dict[str, Array]:
    """The values that forward hooks see, for every module."""
    seen: dict[str, Array] = {}
    handles = [
        module.register_forward_hook(lambda _, __, out, p=path: seen.update({p: out.numpy()}))
        for path, module in model.named_modules()
        if path
    ]
    with torch.no_grad():
        seen["output"] = model(x).numpy()
    for handle in handles:
        handle.remove()
    return seen


def run_preprocess(
    model: Any, x: Any, preprocess: Any, picture: Any = None
) -> tuple[Plan, dict[str, Array]]:
    plan = nbglcnn.compile(model, x, preprocess=preprocess)
    with Session(plan) as session:
        return plan, session.run(*([x if picture is None else picture] if x is not None else []))


# The results of the steps


def test_each_layer_equals_pytorch_with_the_preprocess_outside() -> None:
    model = small_resnet()
    plan, found = run_preprocess(model, SMALL_PICTURE, Preprocess(mean=MEAN, std=STD))
    mean, std = (torch.tensor(one).reshape(1, 3, 1, 1) for one in (MEAN, STD))
    x = (torch.from_numpy(to_tensor(SMALL_PICTURE)) - mean) / std
    true = hook_values(model, x)
    assert_equal(found["x"], to_tensor(SMALL_PICTURE))
    assert np.abs(found["preprocess.normalize"] - x.numpy()).max() <= 1e-6
    assert true.keys() <= found.keys()
    assert_all_equal({key: found[key] for key in true}, true)
    assert [layer.name for layer in plan.layers][:3] == ["preprocess.normalize", "stem.0", "stem.1"]
    assert plan.header.preprocess == ("preprocess.normalize",)


def test_all_steps_are_layers_in_their_order() -> None:
    """Caffe's convention: values up to 255, BGR, the channel means in that order."""
    model, mean = small_resnet(), (103.939, 116.779, 123.68)
    plan, found = run_preprocess(
        model, SMALL_PICTURE, Preprocess(range=(0, 255), channels="BGR", mean=mean)
    )
    names = ["preprocess.range", "preprocess.channels", "preprocess.normalize"]
    assert [layer.name for layer in plan.layers][:3] == names
    assert [layer.type for layer in plan.layers][:3] == ["Range", "BGR", "Normalize"]
    bytes_ = np.asarray(SMALL_PICTURE, np.float32)[..., ::-1].transpose(2, 0, 1)[None]
    assert_equal(found["preprocess.range"], to_tensor(SMALL_PICTURE) * np.float32(255))
    assert_equal(found["preprocess.channels"], np.ascontiguousarray(bytes_))
    expected = bytes_ - np.array(mean, np.float32).reshape(1, 3, 1, 1)
    assert_equal(found["preprocess.normalize"], expected)
    with torch.no_grad():
        assert_equal(found["output"], model(torch.from_numpy(expected)).numpy())


def test_numpys_way_of_each_step_is_the_layers() -> None:
    preprocess = Preprocess(
        range=(-1, 1), channels="BGR", mean=(0.1, 0.2, 0.3), std=STD, layout="NHWC"
    )
    x = to_tensor(SMALL_PICTURE)
    for step in preprocess.steps(3):
        x = step.apply(x)
    pictures = (2 * to_tensor(SMALL_PICTURE) - 1)[:, ::-1]
    mean, std = (np.array(one, np.float32).reshape(1, 3, 1, 1) for one in ((0.1, 0.2, 0.3), STD))
    assert_equal(x, ((pictures - mean) / std).transpose(0, 2, 3, 1))


def test_a_range_around_zero_is_a_factor_and_an_offset() -> None:
    plan, found = run_preprocess(small_resnet(), SMALL_PICTURE, Preprocess(range=(-1, 1)))
    assert_equal(found["preprocess.range"], to_tensor(SMALL_PICTURE) * 2 - 1)
    layer = plan.layers["preprocess.range"]
    assert (layer.formula, layer.explanation, layer.is_composite) == (
        "x * 2 - 1",
        "pointwise",
        False,
    )


def test_grey_is_pillows_but_for_its_rounding() -> None:
    plan, found = run_preprocess(
        small_resnet(1), SMALL_PICTURE, Preprocess(channels="grey", mean=0.5, std=0.25)
    )
    grey = to_tensor(SMALL_PICTURE.convert("L"))
    assert found["x"].shape == (1, 3, 13, 11)
    assert found["preprocess.channels"].shape == (1, 1, 13, 11)
    assert np.abs(found["preprocess.channels"] - grey).max() <= 0.5001 / 255
    assert_equal(found["preprocess.normalize"], (found["preprocess.channels"] - 0.5) / 0.25)
    assert plan.layers["preprocess.normalize"].formula == "(x - 0.5) / 0.25"
    assert plan.layers["preprocess.channels"].explanation == "convolution"


def test_grey_is_repeated_for_a_model_of_colours() -> None:
    _, found = run_preprocess(small_resnet(3), SMALL_PICTURE, Preprocess(channels="grey"))
    grey = found["preprocess.channels"]
    assert grey.shape == (1, 3, 13, 11)
    assert (grey == grey[:, :1]).all()


def test_a_model_of_one_channel_takes_grey_pictures() -> None:
    _, found = run_preprocess(small_resnet(1), SMALL_PICTURE, Preprocess(mean=0.1307, std=0.3081))
    assert_equal(found["x"], to_tensor(SMALL_PICTURE.convert("L")))


def test_an_onnx_model_with_channels_last_takes_pictures_by_its_layout() -> None:
    proto = tensorflow_model()
    preprocess = Preprocess(range=(-1, 1), layout="NHWC", fit="stretch")
    plan = nbglcnn.compile(proto, CAT, preprocess=preprocess)
    assert [one.shape for one in plan.inputs] == [(1, 3, 9, 12)]
    with Session(plan) as session:
        found = session.run(CAT)
        assert nbglcnn.verify(session, proto, CAT, preprocess=preprocess).ok
    picture = to_tensor(CAT.resize((12, 9), Image.Resampling.BILINEAR))
    assert_equal(found["image"], picture)
    assert_equal(
        found["preprocess.layout"], np.ascontiguousarray(picture.transpose(0, 2, 3, 1)) * 2 - 1
    )
    conv = nn.functional.conv2d(
        torch.from_numpy(picture * 2 - 1), torch.from_numpy(randn(4, 3, 3, 3))
    )
    assert_equal(found["y"], conv.relu().numpy())


def test_channels_last_are_told_where_they_stand() -> None:
    with pytest.raises(InputError, match=r'channels last: give Preprocess\(layout="NHWC"\)'):
        nbglcnn.compile(tensorflow_model(), CAT, preprocess=Preprocess())
    picture = np.zeros((1, 9, 12, 3), np.float32)
    with pytest.raises(InputError, match=r"preprocess\.layout transposes.*transpose\(0, 3, 1, 2\)"):
        nbglcnn.compile(tensorflow_model(), picture, preprocess=Preprocess(layout="NHWC"))
    with pytest.raises(InputError, match=r'Preprocess\(layout="NHWC"\)'):
        nbglcnn.compile(tensorflow_model(), CAT)


def test_without_anything_to_do_there_are_no_steps() -> None:
    plan, found = run_preprocess(small_resnet(), CAT, Preprocess(size=16))
    assert plan.layers[0].name == "stem.0"
    assert plan.header.preprocess == ()
    assert found["x"].shape == (1, 3, 16, 16)


def test_a_module_that_is_called_like_a_step_keeps_its_name() -> None:
    model = nn.ModuleDict({"normalize": nn.Conv2d(3, 2, 1)})

    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.preprocess = model

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.preprocess["normalize"](x)

    plan, found = run_preprocess(Own().eval(), SMALL_PICTURE, Preprocess(mean=0.5))
    assert found["preprocess.normalize"].shape == (1, 2, 13, 11)
    assert_equal(found["preprocess.normalize:1"], to_tensor(SMALL_PICTURE) - 0.5)
    assert plan.header.preprocess == ("preprocess.normalize:1",)


# Fitting pictures to the input's size


@pytest.mark.parametrize("picture", [CAT, DOG, SMALL_PICTURE])
def test_a_crop_is_what_pillow_makes_of_its_box(picture: Image.Image) -> None:
    width, height = picture.size
    side = min(width, height) * 24 / 32
    box = ((width - side) / 2, (height - side) / 2, (width + side) / 2, (height + side) / 2)
    expected = picture.resize((24, 24), Image.Resampling.BILINEAR, box)
    _, found = run_preprocess(small_resnet(), picture, Preprocess(24, resize=32))
    assert_equal(found["x"], to_tensor(expected))


def test_resize_and_centre_crop_is_near_to_torchvisions() -> None:
    """The whole picture is resized first by torchvision: pixels differ by rounding and box."""
    picture = smooth_picture(320, 480)
    resized = picture.resize((192, 128), Image.Resampling.BILINEAR)
    expected = np.asarray(resized.crop((40, 8, 152, 120)), np.float32)
    found = np.asarray(fit_picture(picture, (112, 112), "crop", 112 / 128), np.float32)
    assert np.abs(found - expected).mean() < 0.5
    assert np.abs(found - expected).max() <= 2


def test_a_letterbox_stands_between_black_bars() -> None:
    _, found = run_preprocess(small_resnet(), CAT, Preprocess((24, 24), fit="letterbox"))
    x = found["x"]
    assert (x[:, :, :4] == 0).all() and (x[:, :, 20:] == 0).all()
    assert_equal(x[:, :, 4:20], to_tensor(CAT.resize((24, 16), Image.Resampling.BILINEAR)))


def test_a_batch_of_pictures_of_several_sizes_and_modes_has_one_size() -> None:
    batch = [CAT, DOG.convert("P"), SMALL_PICTURE.convert("RGBA")]
    plan, found = run_preprocess(
        small_resnet(), batch, Preprocess((10, 14), fit="stretch", mean=0.5)
    )
    assert found["x"].shape == (3, 3, 10, 14)
    assert plan.header.batch == 3
    rgb = DOG.convert("P").convert("RGB").resize((14, 10), Image.Resampling.BILINEAR)
    assert_equal(found["x"][1:2], to_tensor(rgb))


def test_deep_greys_are_resampled_as_numbers() -> None:
    deep = Image.fromarray(RANDOM.random((20, 30), np.float32))
    _, found = run_preprocess(small_resnet(1), deep, Preprocess(12))
    box = (5, 0, 25, 20)
    assert_equal(
        found["x"][0, 0], np.asarray(deep.resize((12, 12), Image.Resampling.BILINEAR, box))
    )


def test_a_plan_file_takes_pictures_of_any_size(tmp_path: Path) -> None:
    nbglcnn.compile(small_resnet(), preprocess=Preprocess(24, resize=32)).save(
        tmp_path / "net.plan"
    )
    plan = Plan.load(tmp_path / "net.plan")
    assert [(one.fit, one.crop_fraction) for one in plan.inputs] == [("crop", 0.75)]
    with Session(plan) as session:
        found = session.run([DOG])["x"]
    assert_equal(found, to_tensor(fit_picture(DOG, (24, 24), "crop", 0.75)))


def test_without_a_preprocess_a_picture_of_another_size_is_refused() -> None:
    with (
        Session(nbglcnn.compile(small_resnet(), SMALL_PICTURE)) as session,
        pytest.raises(InputError),
    ):
        session.run(CAT)


# Values of x


def test_without_a_picture_the_input_is_black() -> None:
    viewer = Viewer(small_resnet(), preprocess=Preprocess(size=(9, 7), mean=MEAN))
    assert viewer.input.shape == (1, 3, 9, 7)
    assert not viewer.input.any()
    viewer.input = CAT
    assert_equal(viewer.input, to_tensor(fit_picture(CAT, (9, 7), "crop")))
    expected = to_tensor(fit_picture(CAT, (9, 7), "crop")) - np.array(MEAN, np.float32).reshape(
        1, 3, 1, 1
    )
    assert_equal(viewer.activations["preprocess.normalize"], expected)
    viewer.close()
    with pytest.raises(InputError, match=r"SmallResNet needs an example input or its size"):
        Viewer(small_resnet(), preprocess=Preprocess(mean=MEAN))


def test_several_inputs_have_the_picture_in_front() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 2, 3)

        def forward(self, image: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
            return self.conv(image) * scale

    model, scale = Scaled().eval(), np.array([[[[3.0]]]], np.float32)
    for x in ((CAT, scale), {"scale": scale, "image": CAT}):
        plan = nbglcnn.compile(model, x, preprocess=Preprocess(8, mean=0.5))
        assert [one.shape for one in plan.inputs] == [(1, 3, 8, 8), (1, 1, 1, 1)]
    with Session(plan) as session:
        report = nbglcnn.verify(session, model, x, preprocess=Preprocess(8, mean=0.5))
    assert report.ok


@pytest.mark.parametrize(
    ("settings", "x", "words"),
    [
        ({"mean": (1, 2)}, SMALL_PICTURE, r"mean has 2 values; the model takes 3 channels"),
        ({"size": 8}, np.zeros((1, 3, 9, 9), np.float32), r"With preprocess, x is the original"),
        ({"channels": "BGR"}, np.zeros((1, 1, 9, 9), np.float32), r'channels="BGR" is computed'),
        ({}, np.zeros((1, 3, 9, 9), np.uint8), r"astype\('float32'\) / 255"),
        ({}, None, r"Preprocess\(size=224"),
    ],
)
def test_what_does_not_fit_is_said(settings: dict[str, Any], x: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        nbglcnn.compile(small_resnet(), x, preprocess=Preprocess(**settings))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"size": 0}, "size is 0: give pixels"),
        ({"size": (3, 4, 5)}, "size is"),
        ({"fit": "cover"}, "fit"),
        ({"channels": "RBG"}, "near: 'RGB'"),
        ({"layout": "nhwc"}, "layout"),
        ({"std": (1, 0, 1)}, "expected values other than 0"),
        ({"mean": "grey"}, "mean is 'grey'"),
        ({"mean": float("nan")}, "finite number"),
        ({"range": (1, 1)}, r"range is \(1, 1\)"),
        ({"size": 256, "resize": 224}, "smaller than size"),
        ({"size": (10, 20), "resize": (20, 20)}, "different aspect ratios"),
        ({"resize": 256, "fit": "letterbox"}, "shows the whole"),
    ],
)
def test_a_setting_that_means_nothing_is_refused_at_once(
    settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        Preprocess(**settings)


# Together with other features


def test_verify_parity_and_weights_know_the_preprocess() -> None:
    model, preprocess = small_resnet(), Preprocess(16, mean=MEAN, std=STD, channels="BGR")
    viewer = Viewer(model, [CAT, DOG], preprocess=preprocess)
    report = viewer.verify()
    assert report.ok
    assert {"preprocess.channels", "preprocess.normalize"} <= {row.layer for row in report.rows}
    state = {name: 2 * tensor for name, tensor in model.state_dict().items()}
    viewer.load_state_dict(state)
    assert viewer.verify().ok
    assert viewer.state_dict().keys() == model.state_dict().keys()
    torch.testing.assert_close(viewer.state_dict()["fc.bias"], state["fc.bias"])
    assert viewer.network.snapshot(1)
    viewer.close()


def test_check_names_what_cannot_run_behind_a_preprocess() -> None:
    report = nbglcnn.check(small_resnet(), preprocess=Preprocess(16, std=0.5))
    assert report.ok
    assert report.rows[0].layer == "preprocess.normalize"
    proto = model_of([node("Conv", ["x", "w"], ["y"])], {"x": (1, 3, 9, 9)}, ["y"],
                     constants={"w": randn(2, 3, 3, 3)})  # fmt: skip
    assert nbglcnn.check(proto, CAT, preprocess=Preprocess(range=(0, 255))).ok


def test_bends_of_the_picture_and_of_steps_are_replayed_by_verify() -> None:
    model = small_resnet()
    viewer = Viewer(model, CAT, preprocess=Preprocess(16, mean=MEAN, std=STD, range=(-1, 1)))
    viewer.bend("x", transforms.invert())
    viewer.bend("preprocess.range", transforms.multiply(1.5))
    viewer.bend("preprocess.normalize", transforms.add(0.25))
    viewer.bend("stem.0", transforms.ablate(), channels=[1])
    assert viewer.verify().ok
    x = torch.from_numpy((1 - viewer.input) * 2 - 1) * 1.5
    mean, std = (torch.tensor(one).reshape(1, 3, 1, 1) for one in (MEAN, STD))
    found = viewer.activations["preprocess.normalize"]
    assert_equal(found, ((x - mean) / std + 0.25).numpy())
    viewer.close()


def test_apply_bends_takes_the_models_own_input() -> None:
    model = small_resnet()
    viewer = Viewer(model, CAT, preprocess=Preprocess(16, mean=MEAN, std=STD, range=(-1, 1)))
    viewer.bend("preprocess.normalize", transforms.add(0.25))
    viewer.bend("stem.0", transforms.ablate(), channels=[1])
    bent = nbglcnn.apply_bends(model, viewer.bends)
    unbent = viewer.unbent["preprocess.normalize"]
    with torch.no_grad():
        assert_equal(viewer.output, bent(torch.from_numpy(unbent)).numpy())
    for layer in ("x", "preprocess.range"):
        viewer.bend(layer, transforms.invert(), name="mine")
        with pytest.raises(InputError, match=f"'mine' of {layer} belongs to preprocess"):
            nbglcnn.apply_bends(model, viewer.bends)
        viewer.bends["mine"].remove()
    with pytest.raises(InputError, match=r"preprocess\.normalize belongs to preprocess"):
        nbglcnn.apply_bends(model, viewer.bends.to_dict())
    viewer.close()


def test_two_networks_are_compared_behind_the_same_preprocess() -> None:
    a, b = small_resnet(), small_resnet()
    with torch.no_grad():
        b.fc.bias += 1
    preprocess = Preprocess(16, mean=MEAN, channels="BGR")
    both = nbglcnn.compare(a, b, CAT, preprocess=preprocess)
    assert both.changes().first_diverging == "fc"
    assert both.verify().ok
    both.close()
    inputs = nbglcnn.compare(a, a, CAT, DOG, preprocess=preprocess)
    assert inputs.changes().first_diverging == "preprocess.channels"
    assert inputs.verify().ok
    inputs.close()
    viewer = Viewer(a, CAT, preprocess=preprocess)
    weights = nbglcnn.compare(viewer, b.state_dict())
    assert weights.changes().first_diverging == "fc"
    weights.close()
    viewer.close()


def test_an_exported_page_has_the_steps(tmp_path: Path) -> None:
    path = nbglcnn.export_html(
        small_resnet(), None, tmp_path / "net.html", preprocess=Preprocess(16, mean=0.5)
    )
    assert path.stat().st_size > 100_000


def test_an_onnx_file_says_its_own_size(tmp_path: Path) -> None:
    proto = model_of(
        [node("Conv", ["x", "w"], ["y"])], {"x": ("n", 3, 9, 12)}, ["y"],
        constants={"w": randn(2, 3, 3, 3)},
    )  # fmt: skip
    onnx.save(proto, tmp_path / "net.onnx")
    plan = nbglcnn.compile(tmp_path / "net.onnx", preprocess=Preprocess(std=0.5))
    assert [one.shape for one in plan.inputs] == [(1, 3, 9, 12)]
    with pytest.raises(InputError, match=r"size is \(8, 8\); the model's input 'x' is 9×12"):
        nbglcnn.compile(tmp_path / "net.onnx", preprocess=Preprocess(8))
    viewer = Viewer(tmp_path / "net.onnx", [CAT, DOG], preprocess=Preprocess(std=0.5))
    assert viewer.verify().ok
    viewer.to_onnx(tmp_path / "again.onnx")
    assert onnx.load(tmp_path / "again.onnx").graph.input[0].name == "x"
    viewer.close()


def test_what_python_computes_follows_from_the_preprocess() -> None:
    class Ranked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 3)
            self.lstm = nn.LSTM(4, 3, batch_first=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.lstm(self.conv(x).flatten(2).transpose(1, 2))[0]

    model = Ranked().eval()
    viewer = Viewer(model, CAT, preprocess=Preprocess(7, mean=MEAN, std=STD))
    x = (viewer.input - np.array(MEAN, np.float32).reshape(1, 3, 1, 1)) / np.array(
        STD, np.float32
    ).reshape(1, 3, 1, 1)
    with torch.no_grad():
        assert_equal(viewer.output, model(torch.from_numpy(x)).numpy())
    viewer.close()


def test_noise_stands_behind_the_picture() -> None:
    class Variational(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 2, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            z = self.conv(x)
            return z + torch.randn_like(z)

    model, preprocess = Variational().eval(), Preprocess(8, mean=MEAN, std=STD)
    noise = RANDOM.standard_normal((1, 2, 6, 6)).astype(np.float32)
    x = (
        to_tensor(fit_picture(CAT, (8, 8), "crop")) - np.array(MEAN, np.float32).reshape(1, 3, 1, 1)
    ) / (np.array(STD, np.float32).reshape(1, 3, 1, 1))
    with torch.no_grad():
        expected = model.conv(torch.from_numpy(x)).numpy() + noise
    for given in ((CAT, noise), {"noise": noise, "x": CAT}):
        viewer = Viewer(model, given, preprocess=preprocess)
        assert_equal(viewer.output, expected)
        assert viewer.verify().ok
        viewer.close()


@pytest.mark.parametrize("size", [(24, 16), (16, 24)])
def test_of_a_resized_picture_the_middle_of_an_uneven_size_is_kept(size: tuple[int, int]) -> None:
    preprocess = Preprocess(size=size, resize=32)
    assert preprocess.share(size) == 0.5  # of the shorter side, 16 of 32
    with pytest.raises(InputError, match=r"resize is 15, smaller than size"):
        Preprocess(size=size, resize=15)
    assert Preprocess(size=size, resize=16).share(size) == 1
