"""Every view of three networks, light and dark, at three widths: docs/pictures/views."""

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser

from lab import Lab, Notebook, local_page

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "pictures" / "views"
WIDTHS = (420, 900, 1200)
THEMES = ("Light", "Dark")
WINDOW = {"width": 1900, "height": 2400}  # all that is in it is drawn
GAP = 24
MAX_BYTES = 600_000
LEAST_COLOURS = {"profile": 60}  # words alone have a few dozen

SETUP = f"""
import sys
sys.path[:0] = [*{[str(ROOT / name) for name in ("scripts", "notebooks", "tests/support")]!r}]
import torch, nbglcnn
from denoiser import trained
from fashion_autoencoder import load_autoencoder, load_images
from zoo import ResNet18

torch.manual_seed(0)
pictures = torch.from_numpy(load_images()[0])
"""
RESNET18 = """
model = ResNet18(32, 10)
x = torch.cat([pictures[:4], pictures[4:8], pictures[8:12]], 1)
x = torch.nn.functional.interpolate(x, size=112, mode="bilinear")
with torch.no_grad():
    model.train()(x)  # running statistics of pictures: weights are random
model.eval()
"""
COMPARED = """
other = load_autoencoder()
with torch.no_grad():
    for one in other.parameters(): one += 0.1 * one.abs().mean() * torch.randn_like(one)
"""
# A network's name: how it and its input are made, a layer that says much, and two of its channels.
NETWORKS = {
    "autoencoder": ("model, x = load_autoencoder(), pictures[:3]", "encoder.2", (23, 7)),
    "resnet18": (RESNET18, "layer1.0.bn1", (3, 8)),
    "unet": ("model, x = trained()", "down2.2", (3, 8)),
}
VIEWS = ("network", "maps", "filters", "explain", "profile")


def take(lab: Lab, browser: Browser) -> list[Path]:
    """The pictures; each is one view of one network, six times."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    taken = []
    for name, (made, layer, channels) in NETWORKS.items():
        with shown(lab, browser, made, "nbglcnn.Viewer(model, x, height=1500)") as notebook:
            for view in VIEWS:
                words = {"network": "", "profile": "", "maps": f"{layer!r}, {list(channels)}"}
                first = words.get(view, f"{layer!r}, {channels[0]}")
                notebook.run(f"viewer.show({first}{', ' if first else ''}view={view!r})")
                taken.append(montage(notebook, FOLDER / f"{name}-{view}.webp"))
    both = "nbglcnn.compare(load_autoencoder(), other, pictures[:3])"
    with shown(lab, browser, COMPARED, both) as notebook:
        taken.append(montage(notebook, FOLDER / "autoencoder-compare.webp"))
    return taken


@contextmanager
def shown(lab: Lab, browser: Browser, made: str, viewer: str) -> Iterator[Notebook]:
    """A notebook with one Viewer, live: of several, those far out of sight would not be drawn."""
    with local_page(browser, viewport=WINDOW) as page:
        notebook = lab.notebook(page)
        notebook.run(SETUP + made)
        notebook.run(f"viewer = {viewer}\nviewer")
        page.locator(".nbglcnn[data-phase=ready]").wait_for(timeout=120_000)
        yield notebook


def montage(notebook: Notebook, file: Path) -> Path:
    """One view at all widths, light above dark, in a file."""
    viewer = notebook.page.locator(".nbglcnn")
    rows = []
    for theme in THEMES:
        notebook.change_theme(theme)
        row = []
        for width in WIDTHS:
            viewer.evaluate(
                "(root, width) => { root.parentElement.style.width = `${width}px`; }", width
            )
            viewer.scroll_into_view_if_needed()
            notebook.rest()
            row.append(Image.open(io.BytesIO(viewer.screenshot())).convert("RGB"))
        rows.append(row)
    check([one for row in rows for one in row], file.name)
    heights = [max(one.height for one in row) for row in rows]
    size = (sum(WIDTHS) + GAP * (len(WIDTHS) - 1), sum(heights) + GAP)
    sheet = Image.new("RGB", size, "#808080")
    for row, top in zip(rows, (0, heights[0] + GAP), strict=True):
        for number, one in enumerate(row):
            sheet.paste(one, (sum(WIDTHS[:number]) + GAP * number, top))
    sheet.save(file, quality=50, method=6)
    if file.stat().st_size > MAX_BYTES:
        sys.exit(f"{file} has {file.stat().st_size:,} bytes; at most {MAX_BYTES:,}")
    return file


def check(pictures: list[Image.Image], name: str) -> None:
    """Stop unless each is a picture of its own with many colours: all of it was drawn."""
    for number, one in enumerate(pictures):
        colours = one.getcolors(one.width * one.height) or []
        if len(colours) < LEAST_COLOURS.get(name.split("-")[1].removesuffix(".webp"), 200):
            sys.exit(f"{name}, picture {number}, has only {len(colours)} colours")
    if len({one.tobytes() for one in pictures}) < len(pictures):
        sys.exit(f"{name}: two pictures are the same")
