"""Takes the documentation's pictures in a real JupyterLab: `make screenshots`, or named ones."""

import argparse
import io
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from PIL import Image
from playwright.sync_api import Locator, Page, sync_playwright

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from browsers import chromium_arguments, find_chromium
from jupyter_lab import LAB_SETTINGS, LabServer, Notebook, local_page, running_lab

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS_FOLDER = ROOT / "notebooks"
PICTURES_FOLDER = ROOT / "docs" / "pictures"
RENDERER = "swiftshader"
MAX_BYTES = 450_000
MAX_ANIMATION_BYTES = 1_500_000  # of an animation
WINDOW = {"width": 1120, "height": 1700}  # fits the whole Layer tab
# The first bends of notebooks/bending.ipynb, and another, disabled one.
BENDING_CELL = """
import nbglcnn
from fashion_autoencoder import load_autoencoder, load_images
from nbglcnn import transforms

viewer = nbglcnn.Viewer(load_autoencoder(), load_images()[0][:8])
ten = [5, 10, 12, 13, 15, 16, 17, 21, 25, 30]
viewer.bend("decoder.5", transforms.rotate(40), channels=ten)
viewer.bend("decoder.5", transforms.multiply(1.6), channels=ten)
viewer.bend("decoder.5", transforms.threshold(0.6), mix=0.8, enabled=False)
viewer.show("decoder.5", view="bend")
viewer
"""

# A data set, and manipulations of its picture.
INPUTS_CELL = """
import nbglcnn, numpy as np
from fashion_classifier import load_classifier, load_pictures
from nbglcnn import transforms
from nbglcnn.datasets import FASHION_MNIST_CLASSES as CLASSES

pictures, labels = load_pictures()
x = np.zeros((1, 1, 28, 28), np.float32)
viewer = nbglcnn.Viewer(load_classifier(), x, classes=CLASSES)
viewer.source = nbglcnn.Images(
    pictures, labels=labels, classes=CLASSES, index=8, title="Fashion-MNIST · test"
)
viewer.bend("x", transforms.rotate(12))
viewer.bend("x", transforms.blur(0.6))
viewer.bend("x", transforms.noise(0.05))
viewer.bend("x", transforms.occlude(0.6, 0.5, 7))
viewer
"""
LATENT_CELL = """
import nbglcnn, numpy as np
from fashion_autoencoder import load_autoencoder
from fashion_classifier import load_pictures
from nbglcnn.datasets import FASHION_MNIST_CLASSES as CLASSES

pictures, labels = load_pictures()
viewer = nbglcnn.Viewer(load_autoencoder(), pictures[:1, None] / np.float32(255))
viewer.source = nbglcnn.Latent("encoder.6", data=pictures, labels=labels, classes=CLASSES)
viewer
"""
# The tour's autoencoder with random weights; each step runs on request.
TRAINING_SETUP_CELL = """
import asyncio, numpy as np, torch, nbglcnn
from fashion_autoencoder import FashionAutoencoder
from fashion_classifier import load_pictures

torch.manual_seed(1)
pictures = load_pictures()[0][:, None]
viewer = nbglcnn.Viewer(FashionAutoencoder().eval(), pictures[:1] / np.float32(255), timeout=60)
viewer
"""
TRAIN_CELL = """
training = viewer.train(pictures, "mse", nbglcnn.Adam(3e-3), batch_size=16)
training.pause()
viewer.show(view="train")
"""
# The lesson's shoes and head.
TEACH_CELL = """
import nbglcnn
from dataclasses import replace
from efficientnet import PREPROCESS, efficientnet_lite0
from shoes import KINDS, scenes, shoes

preprocess = replace(PREPROCESS, size=96, resize=None)
viewer = nbglcnn.Viewer(efficientnet_lite0(), preprocess=preprocess, timeout=120)
pictures = {kind: scenes(shoes(kind), seed) for seed, kind in enumerate(KINDS)}
teaching = viewer.teach(examples={kind: own[:6] for kind, own in pictures.items()})
teaching.train()
viewer.source = nbglcnn.Images(pictures["sneaker"][20:], title="other shoes")
viewer
"""
STEP_TO_CELL = """
if training.step_count < {step}:
    training.step({step} - training.step_count)
while training.state != "paused" or training.step_count != {step}:
    await asyncio.sleep(0.05)
"""
# The animation's frames: closer together where more changes.
ANIMATION_FRAME_STEPS = (
    *(0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 17, 20, 24, 28, 33, 39, 46, 54, 63, 73, 85, 98, 113),
    *(130, 150, 172, 196, 220, 240),
)
FRAME_MS, LAST_MS = 220, 3000
FRAME_WIDTH = 900
ANIMATION_FRAME_PARTS = ("train-top", "checkpoint-heading", "checkpoint-now", "checkpoint-target")
TIMEOUT_S = 600


def main() -> None:
    """Take all pictures, or the named ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(PICTURE_TAKERS)}; all by default")
    names = parser.parse_args().names or list(PICTURE_TAKERS)
    if unknown := set(names) - set(PICTURE_TAKERS):
        parser.error(
            f"no pictures {', '.join(sorted(unknown))}; there are {', '.join(PICTURE_TAKERS)}"
        )
    PICTURES_FOLDER.mkdir(parents=True, exist_ok=True)
    chromium = find_chromium()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=chromium_arguments(RENDERER)
        )
        with running_lab(Path(folder, "lab"), settings=LAB_SETTINGS) as lab:
            copy_notebooks(lab.root)
            with local_page(browser, viewport=WINDOW, device_scale_factor=2) as page:
                for picture in [one for name in names for one in PICTURE_TAKERS[name](lab, page)]:
                    print(f"{picture.relative_to(ROOT)}: {shrink(picture):,} bytes")
        browser.close()


def copy_notebooks(folder: Path) -> None:
    """Copy the checkout's notebooks, and the files beside them, to a folder."""
    for file in NOTEBOOKS_FOLDER.iterdir():
        if file.is_file():
            shutil.copy(file, folder)


def run_all_cells(notebook: Notebook) -> None:
    """Start running every cell of a notebook."""
    notebook.page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-all-cells')")


def hide_sidebar(notebook: Notebook) -> None:
    """Close the file browser and select a cell that isn't in the pictures."""
    notebook.page.evaluate(
        """async () => {
          await window.jupyterapp.commands.execute("application:toggle-left-area");
          window.lab.panel().content.activeCellIndex = 0;
        }"""
    )


def viewer_cell(notebook: Notebook, number: int = 0) -> Locator:
    """Scroll to the cell with the Viewer of this number and return it."""
    index = notebook.page.evaluate(
        """async (number) => {
          const { content } = window.lab.panel();
          const shows = (cell) => cell.outputs?.toJSON().some((output) =>
            "application/vnd.jupyter.widget-view+json" in (output.data ?? {}));
          const indices = [...content.model.cells].flatMap((cell, i) => (shows(cell) ? [i] : []));
          await content.scrollToItem(indices[number], "start");
          return indices[number];
        }""",
        number,
    )
    cell = notebook.page.locator(f".jp-Cell[data-windowed-list-index='{index}']")
    cell.locator(".nbglcnn[data-phase=ready]").wait_for(timeout=60_000)
    return cell


def take_tour(lab: LabServer, page: Page) -> list[Path]:
    """Take the Network tab (both themes), the Layer tab of encoder.2, a pixel, bends, Compare."""
    notebook = lab.open_notebook(page, "tour.ipynb")
    run_all_cells(notebook)
    hide_sidebar(notebook)
    cell = viewer_cell(notebook)
    select_stage(cell, "encoder.2")
    notebook.page.evaluate("() => { window.lab.panel().content.activeCellIndex = 0; }")
    notebook.wait_settled()
    notebook.page.wait_for_timeout(16_000)  # by then even a short run has been measured again
    names = ("tour", "layer", "tour-dark", "explain", "compare")
    pictures = {name: PICTURES_FOLDER / f"{name}.png" for name in names}
    cell.screenshot(path=pictures["tour"])
    change_theme(notebook, "Dark")
    cell.screenshot(path=pictures["tour-dark"])
    change_theme(notebook, "Light")
    cell.get_by_role("tab", name="Layer").click()
    cell.get_by_role("button", name="channel 23,").click()
    notebook.wait_settled()
    cell.locator(".nbglcnn").screenshot(path=pictures["layer"])
    cell.get_by_role("button", name="Explain").first.click()
    cell.locator(".nbg-question").wait_for()
    cell.locator(".nbg-fields canvas").last.scroll_into_view_if_needed()  # drawn once visible
    notebook.wait_settled()
    cell.locator(".nbglcnn").screenshot(path=pictures["explain"])
    compared = viewer_cell(notebook, 3).locator(".nbglcnn")
    compared.get_by_role("button", name="encoder.2", exact=True).click()
    compared.get_by_role("button", name="channel 22,").click()
    notebook.wait_settled()
    compared.screenshot(path=pictures["compare"])
    return list(pictures.values())


def take_graph(lab: LabServer, page: Page) -> list[Path]:
    """Take the Network tab of a U-Net, drawn as a graph."""
    shutil.copy(ROOT / "tests" / "support" / "denoiser.py", lab.root)
    notebook = lab.open_notebook(page)
    notebook.run(
        "import nbglcnn\nfrom denoiser import train_denoiser\n"
        "viewer = nbglcnn.Viewer(*train_denoiser())\nviewer"
    )
    hide_sidebar(notebook)
    cell = viewer_cell(notebook)
    cell.locator(".nbg-node[data-node='down2'] .nbg-picture").click()
    notebook.wait_settled()
    picture = PICTURES_FOLDER / "graph.png"
    cell.locator(".nbglcnn").screenshot(path=picture)
    return [picture]


def take_bending(lab: LabServer, page: Page) -> list[Path]:
    """Take the Bend section with two bends of the tour's decoder, light and dark."""
    notebook = lab.open_notebook(page)
    notebook.run(BENDING_CELL)
    hide_sidebar(notebook)
    cell = viewer_cell(notebook)
    cell.get_by_text("10 of 32").first.click()  # selects these channels
    pictures = []
    for picture in picture_files_by_theme(notebook, "bending"):
        notebook.wait_settled()
        cell.get_by_text("with bends applied").wait_for()
        cell.locator(".nbglcnn").screenshot(path=picture)
        pictures.append(picture)
    return pictures


def take_inputs(lab: LabServer, page: Page) -> list[Path]:
    """Take the source drawer with a data set, light and dark."""
    notebook = lab.open_notebook(page)
    notebook.run(INPUTS_CELL)
    hide_sidebar(notebook)
    cell = viewer_cell(notebook)
    cell.get_by_role("button", name="Fashion-MNIST").click()
    pictures = []
    for picture in picture_files_by_theme(notebook, "inputs"):
        notebook.wait_settled()
        cell.get_by_text("with bends applied").wait_for()
        cell.locator(".nbglcnn").screenshot(path=picture)
        pictures.append(picture)
    return pictures


def take_latent(lab: LabServer, page: Page) -> list[Path]:
    """Take the source drawer with the latent workbench, light and dark."""
    notebook = lab.open_notebook(page)
    notebook.run(LATENT_CELL)
    hide_sidebar(notebook)
    cell = viewer_cell(notebook)
    pictures = []
    for picture in picture_files_by_theme(notebook, "latent"):
        page.wait_for_timeout(3_000)  # skipped layers have no numbers to wait for
        cell.locator(".nbg-latent-cells canvas[data-done='64']").wait_for(timeout=60_000)
        view = cell.locator(".nbglcnn").bounding_box()
        drawer = cell.locator(".nbg-drawer").bounding_box()
        assert view is not None and drawer is not None
        height = drawer["y"] + drawer["height"] - view["y"]
        page.screenshot(path=picture, clip={**view, "height": height})
        pictures.append(picture)
    return pictures


def take_training(lab: LabServer, page: Page) -> list[Path]:
    """Take the Train tab after 240 steps, light and dark, and an animation of the training."""
    notebook = lab.open_notebook(page)
    notebook.run(TRAINING_SETUP_CELL)
    hide_sidebar(notebook)
    cell = viewer_cell(notebook)
    notebook.run(TRAIN_CELL)
    frames = []
    for step in ANIMATION_FRAME_STEPS:
        code = STEP_TO_CELL.format(step=step)
        notebook.wait(notebook.start(code), TIMEOUT_S)
        notebook.delete_cells(2)
        notebook.page.evaluate("() => { window.lab.panel().content.activeCellIndex = 0; }")
        viewer_cell(notebook)
        frames.append(capture_parts(cell, step))
    moving = save_animation(frames)
    last = cell.locator(".nbg-checkpoints [role=option]").last
    last.click()
    cell.get_by_text(f"All views show step {ANIMATION_FRAME_STEPS[-1]}").wait_for()
    pictures = []
    for picture in picture_files_by_theme(notebook, "training"):
        page.wait_for_timeout(3_000)  # no comparison with PyTorch runs now
        cell.locator(".nbglcnn").screenshot(path=picture)
        pictures.append(picture)
    return [*pictures, moving]


def take_playground(lab: LabServer, page: Page) -> list[Path]:
    """Take the playground's runs and a comparison of two, light and dark."""
    notebook = lab.open_notebook(page, "playground.ipynb")
    run_all_cells(notebook)
    notebook.wait(notebook.start("done = True"), TIMEOUT_S)
    notebook.evaluate_silently("playground.a.value = transposed.number")
    hide_sidebar(notebook)
    page.evaluate("() => window.lab.panel().content.scrollToItem(1, 'start')")
    runs = page.locator(".playground-runs")
    pictures = []
    for picture in picture_files_by_theme(notebook, "playground"):
        runs.screenshot(path=picture)
        pictures.append(picture)
    return pictures


def take_teach(lab: LabServer, page: Page) -> list[Path]:
    """Take the Teach tab with the lesson's shoes, light and dark."""
    notebook = lab.open_notebook(page)
    notebook.wait(notebook.start(TEACH_CELL), TIMEOUT_S)
    hide_sidebar(notebook)
    cell = viewer_cell(notebook)
    cell.locator(".nbg-teach [data-verdict]").wait_for(timeout=60_000)
    pictures = []
    for picture in picture_files_by_theme(notebook, "teach"):
        page.wait_for_timeout(3_000)  # no comparison with PyTorch runs now
        cell.locator(".nbglcnn").screenshot(path=picture)
        pictures.append(picture)
    return pictures


def capture_parts(cell: Locator, step: int) -> list[Image.Image]:
    """Capture the curve, a layer, and the predictions of the examples after a step."""
    cell.locator(".nbg-train[data-phase=paused]").wait_for(timeout=60_000)
    cell.locator("[data-now]").get_by_text(f"step {step} ·").wait_for()
    whole = cell.locator(".nbglcnn")
    picture = Image.open(io.BytesIO(whole.screenshot())).convert("RGB")
    edges = whole.evaluate(
        """(root, names) => {
          const { top, height } = root.getBoundingClientRect();
          return names.map((name) => {
            const part = root.querySelector(`.nbg-${name}`).getBoundingClientRect();
            return [(part.top - top) / height, (part.bottom - top) / height];
          });
        }""",
        ANIMATION_FRAME_PARTS,
    )
    return [
        picture.crop((0, round(top * picture.height), picture.width, round(end * picture.height)))
        for top, end in edges
    ]


def save_animation(frames: list[list[Image.Image]]) -> Path:
    """Save a looping animation; each part has the same position in all frames."""
    heights = [max(one.height for one in part) for part in zip(*frames, strict=True)]
    width = frames[0][0].width
    size = (FRAME_WIDTH, round(sum(heights) * FRAME_WIDTH / width))
    made = []
    for parts in frames:
        whole = Image.new("RGB", (width, sum(heights)), "white")
        for number, part in enumerate(parts):
            whole.paste(part, (0, sum(heights[:number])))
        made.append(whole.resize(size, Image.Resampling.LANCZOS))
    file = PICTURES_FOLDER / "training.webp"
    durations = [*[FRAME_MS] * (len(made) - 1), LAST_MS]
    made[0].save(
        file, save_all=True, append_images=made[1:], duration=durations, loop=0,
        quality=60, method=6,
    )  # fmt: skip
    return file


def select_stage(cell: Locator, layer: str) -> None:
    """Click a stage of the Network tab."""
    cell.locator(f".nbg-stage[data-layer='{layer}'] .nbg-picture").click()


def picture_files_by_theme(notebook: Notebook, name: str) -> Iterator[Path]:
    """Yield a picture's file for each theme, light and dark, with JupyterLab set to the theme.

    Restores the light theme at the end.
    """
    for word, ending in (("Light", ""), ("Dark", "-dark")):
        notebook.change_theme(word)
        notebook.page.mouse.move(0, 0)
        yield PICTURES_FOLDER / f"{name}{ending}.png"
    notebook.change_theme("Light")


def change_theme(notebook: Notebook, theme: str) -> None:
    """Switch JupyterLab to light or dark, and wait until the Viewer is redrawn."""
    notebook.change_theme(theme)
    notebook.wait_settled()


def shrink(picture: Path) -> int:
    """Compress a PNG as far as possible; return its size, or exit if it exceeds the limit."""
    moves = picture.suffix == ".webp"
    if not moves:
        with Image.open(picture) as image:
            # zlib's default strategy: the one of `optimize` makes these files 4 % larger.
            image.convert("RGB").save(picture, compress_level=9, compress_type=0)
    size, most = picture.stat().st_size, MAX_ANIMATION_BYTES if moves else MAX_BYTES
    if size > most:
        sys.exit(f"{picture} has {size:,} bytes; at most {most:,}")
    return size


PICTURE_TAKERS = {
    "tour": take_tour,
    "graph": take_graph,
    "bending": take_bending,
    "inputs": take_inputs,
    "latent": take_latent,
    "training": take_training,
    "playground": take_playground,
    "teach": take_teach,
}

if __name__ == "__main__":
    main()
