"""Takes pictures of eight networks' views, light and dark, in four widths.

They are saved in docs/pictures/views. `make gallery` takes all pictures, `make gallery ARGS="vit
resnet18"` those of some networks.
"""

import io
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from browsers import chromium_arguments, find_chromium
from jupyter_lab import LAB_SETTINGS, LabServer, Notebook, local_page, running_lab

ROOT = Path(__file__).resolve().parents[1]
PICTURES_FOLDER = ROOT / "docs" / "pictures" / "views"
WIDTHS = (420, 620, 848, 1420)  # the narrowest layout, a small one, JupyterLab's own, a projector
THEMES = ("Light", "Dark")
WINDOW = {"width": 1900, "height": 2700}  # everything inside is drawn
GAP = 24
SCALE = 0.6  # of the saved picture; text of 12 px stays readable
MAX_BYTES = 400_000
MIN_COLORS = {"profile": 60}  # text alone has a few dozen colours

SETUP_CELL = f"""
import sys
sys.path[:0] = [*{[str(ROOT / name) for name in ("notebooks", "tests/support")]!r}]
import torch, nbglcnn
import gallery_networks as networks
from denoiser import train_denoiser
from fashion_autoencoder import load_autoencoder, load_images
from zoo import ResNet18

torch.manual_seed(0)
pictures = torch.from_numpy(load_images()[0])

def coloured(size):
    x = torch.cat([pictures[:4], pictures[4:8], pictures[8:12]], 1)
    return torch.nn.functional.interpolate(x, size=size, mode="bilinear")
"""
COMPARE_SETUP_CELL = """
other = load_autoencoder()
with torch.no_grad():
    for one in other.parameters(): one += 0.1 * one.abs().mean() * torch.randn_like(one)
"""


def random_network_code(network: str, x: str) -> str:
    """The code that builds a network with random weights and its input."""
    return f"x = {x}\nmodel = networks.settled({network}, x)"


# By name: code for a network and its input, a representative layer, and two of its channels.
NETWORKS = {
    "autoencoder": ("model, x = load_autoencoder(), pictures[:3]", "encoder.2", (23, 7)),
    "unet": ("model, x = train_denoiser()", "down2.2", (3, 8)),
    "vgg11": (random_network_code("networks.vgg11()", "coloured(64)"), "features.6", (3, 8)),
    "resnet18": (random_network_code("ResNet18(32, 10)", "coloured(112)"), "layer1.0.bn1", (3, 8)),
    "densenet121": (
        random_network_code("networks.DenseNet121()", "coloured(112)"),
        "dense1.2.conv2",
        (3, 5),
    ),
    "attention-unet": (
        random_network_code("networks.AttentionUNet()", "coloured(64)"),
        "up1",
        (3, 8),
    ),
    "vit": (
        random_network_code("networks.VisionTransformer()", "coloured(56)"),
        "blocks.2.attn.softmax",
        (1, 3),
    ),
    "signals": (random_network_code("networks.signals()", "networks.signal()"), "3", (2, 5)),
}
COMMON_VIEWS = ("network", "maps", "explain")
# Bends of the autoencoder, as a beginner might set them.
BEND_CELL = """
from nbglcnn import transforms
some = [5, 10, 12, 13, 15, 16, 17, 21, 25, 30]
viewer.bend("decoder.5", transforms.rotate(40), channels=some)
viewer.bend("decoder.5", transforms.multiply(1.6), channels=some)
viewer.bend("decoder.5", transforms.threshold(0.6), mix=0.8, enabled=False)
viewer.show("decoder.5", 13, view="bend")
"""
# The autoencoder during training, from random weights.
TRAIN_SETUP_CELL = """
import asyncio
from fashion_autoencoder import FashionAutoencoder
from fashion_classifier import load_pictures
model, x = FashionAutoencoder().eval(), pictures[:1]
"""
TRAIN_CELL = """
training = viewer.train(load_pictures()[0][:, None], "mse", nbglcnn.Adam(3e-3), batch_size=8)
viewer.show(view="train")
training.step(60)
while training.step_count < 60:
    await asyncio.sleep(0.05)
"""
TRAIN_WIDTHS = (620, 1420)
TRAIN_TIMEOUT_S = 600
# More views of the trained networks, and the filters that are curves.
EXTRA_VIEWS = {
    "autoencoder": ("filters", "profile"),
    "unet": ("filters", "profile"),
    "signals": ("filters",),
}


def main(names: list[str]) -> None:
    """Take the pictures of these networks, or of all if none is named."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=find_chromium(), args=chromium_arguments("swiftshader")
        )
        with running_lab(Path(folder, "lab"), settings=LAB_SETTINGS) as lab:
            for picture in take_pictures(lab, browser, names or list(NETWORKS)):
                size = picture.stat().st_size
                print(f"{picture.relative_to(ROOT)}: {size:,} bytes", flush=True)
        browser.close()


def take_pictures(lab: LabServer, browser: Browser, names: list[str]) -> Iterator[Path]:
    """Take the pictures; each shows one view of one network, eight times."""
    PICTURES_FOLDER.mkdir(parents=True, exist_ok=True)
    for name in names:
        made, layer, channels = NETWORKS[name]
        with open_viewer(lab, browser, made, "nbglcnn.Viewer(model, x, height=1500)") as notebook:
            for view in (*COMMON_VIEWS, *EXTRA_VIEWS.get(name, ())):
                words = {"network": "", "profile": "", "maps": f"{layer!r}, {list(channels)}"}
                first = words.get(view, f"{layer!r}, {channels[0]}")
                notebook.run(f"viewer.show({first}{', ' if first else ''}view={view!r})")
                yield save_montage(notebook, PICTURES_FOLDER / f"{name}-{view}.webp")
    if "autoencoder" in names:
        both = "nbglcnn.compare(load_autoencoder(), other, pictures[:3])"
        with open_viewer(lab, browser, COMPARE_SETUP_CELL, both) as notebook:
            yield save_montage(notebook, PICTURES_FOLDER / "autoencoder-compare.webp")
        yield take_bend_picture(lab, browser)
        yield take_training_picture(lab, browser)


def take_bend_picture(lab: LabServer, browser: Browser) -> Path:
    """Take the Bend section with some bends."""
    made = NETWORKS["autoencoder"][0]
    with open_viewer(lab, browser, made, "nbglcnn.Viewer(model, x, height=2600)") as notebook:
        notebook.run(BEND_CELL)
        return save_montage(notebook, PICTURES_FOLDER / "autoencoder-bend.webp")


def take_training_picture(lab: LabServer, browser: Browser) -> Path:
    """Take the Train tab, paused at step 60."""
    with open_viewer(
        lab, browser, TRAIN_SETUP_CELL, "nbglcnn.Viewer(model, x, height=2400)"
    ) as notebook:
        notebook.wait(notebook.start(TRAIN_CELL), TRAIN_TIMEOUT_S)
        tab = notebook.page.locator(".nbg-train[data-phase=paused]")
        tab.wait_for(timeout=60_000)

        def rest() -> None:
            notebook.page.mouse.move(0, 0)
            notebook.page.wait_for_timeout(3_000)  # no comparison with PyTorch runs now

        return save_montage(
            notebook, PICTURES_FOLDER / "autoencoder-train.webp", TRAIN_WIDTHS, rest
        )


@contextmanager
def open_viewer(
    lab: LabServer, browser: Browser, setup_code: str, viewer_code: str
) -> Iterator[Notebook]:
    """Open a notebook with one live Viewer.

    With several Viewers, those far outside the viewport wouldn't be drawn.
    """
    with local_page(browser, viewport=WINDOW) as page:
        notebook = lab.open_notebook(page)
        notebook.run(SETUP_CELL + setup_code)
        notebook.run(f"viewer = {viewer_code}\nviewer")
        page.locator(".nbglcnn[data-phase=ready]").wait_for(timeout=120_000)
        yield notebook


def save_montage(
    notebook: Notebook,
    file: Path,
    widths: tuple[int, ...] = WIDTHS,
    wait_until_drawn: Callable[[], None] | None = None,
) -> Path:
    """Save a view at several widths, light above dark.

    `wait_until_drawn` waits until the view is drawn.
    """
    viewer = notebook.page.locator(".nbglcnn")
    rows = []
    for theme in THEMES:
        notebook.change_theme(theme)
        row = []
        for width in widths:
            viewer.evaluate(
                "(root, width) => { root.parentElement.style.width = `${width}px`; }", width
            )
            viewer.scroll_into_view_if_needed()
            (wait_until_drawn or notebook.wait_settled)()
            row.append(Image.open(io.BytesIO(viewer.screenshot())).convert("RGB"))
        rows.append(row)
    check_pictures([one for row in rows for one in row], file.name)
    heights = [max(one.height for one in row) for row in rows]
    size = (sum(widths) + GAP * (len(widths) - 1), sum(heights) + GAP)
    sheet = Image.new("RGB", size, "#808080")
    for row, top in zip(rows, (0, heights[0] + GAP), strict=True):
        for number, one in enumerate(row):
            sheet.paste(one, (sum(widths[:number]) + GAP * number, top))
    small = sheet.resize([round(SCALE * side) for side in size], Image.Resampling.LANCZOS)
    small.save(file, quality=50, method=6)
    if file.stat().st_size > MAX_BYTES:
        sys.exit(f"{file} has {file.stat().st_size:,} bytes; at most {MAX_BYTES:,}")
    return file


def check_pictures(pictures: list[Image.Image], name: str) -> None:
    """Exit unless the pictures are distinct and have many colours, which shows they are drawn."""
    for number, one in enumerate(pictures):
        colours = one.getcolors(one.width * one.height) or []
        if len(colours) < MIN_COLORS.get(name.split("-")[-1].removesuffix(".webp"), 200):
            sys.exit(f"{name}, picture {number}, has only {len(colours)} colours")
    if len({one.tobytes() for one in pictures}) < len(pictures):
        sys.exit(f"{name}: two pictures are the same")


if __name__ == "__main__":
    main(sys.argv[1:])
