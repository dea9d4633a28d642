"""The notebook on inputs runs as in class, and its results are PyTorch's."""

import re
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from playwright.sync_api import Browser, expect

from fashion_autoencoder import load_autoencoder
from fashion_classifier import load_classifier, load_pictures
from jupyter_lab import LabServer, Notebook, local_page
from nbglcnn.datasets import FASHION_MNIST_CLASSES as CLASSES
from screenshots import copy_notebooks, run_all_cells, viewer_cell


@pytest.fixture(scope="module")
def notebook(lab: LabServer, browser: Callable[[str], Browser]) -> Iterator[Notebook]:
    copy_notebooks(lab.root)
    with local_page(browser("llvmpipe"), viewport={"width": 1120, "height": 1500}) as page:
        notebook = lab.open_notebook(page, "inputs.ipynb")
        run_all_cells(notebook)
        notebook.wait(notebook.start("done = True"))
        yield notebook
        notebook.page.evaluate("() => window.lab.panel().sessionContext.shutdown()")


def printed_text(notebook: Notebook) -> str:
    """The printed text of all cells; an error in a cell fails the test."""
    outputs = notebook.page.evaluate(
        """() => [...window.lab.panel().content.model.cells].flatMap((cell) =>
          cell.type === "code" ? cell.outputs.toJSON() : [])"""
    )
    errors = [f"{one['ename']}: {one['evalue']}" for one in outputs if "ename" in one]
    assert not errors, errors
    return "".join("".join(one["text"]) for one in outputs if one["output_type"] == "stream")


def test_what_it_says_is_what_pytorch_says(notebook: Notebook) -> None:
    text = printed_text(notebook)
    pixels, labels = load_pictures()
    x = torch.from_numpy(pixels[:60, None].astype(np.float32) / 255)
    with torch.no_grad():
        found = load_classifier()(x).argmax(1).numpy()
    wrong = [
        f"{k}: {CLASSES[labels[k]]}, taken for {CLASSES[found[k]]}"
        for k in range(60)
        if found[k] != labels[k]
    ]
    assert wrong
    assert re.findall(r"^\d+: .*taken for.*$", text, re.MULTILINE) == wrong
    assert "label: sandal; the network says sandal" in text
    assert "['preprocess.channels', 'features.0', 'features.1']" in text
    # The share of nearest neighbours of the same class, by the codes of PyTorch's encoder.
    whole = torch.from_numpy(pixels[:, None].astype(np.float32) / 255)
    with torch.no_grad():
        codes = load_autoencoder().encoder(whole).flatten(1)
    apart = torch.cdist(codes, codes).fill_diagonal_(torch.inf)
    nearest = labels[apart.argmin(1).numpy()]
    for number, name in enumerate(CLASSES):
        share = np.mean(nearest[labels == number] == number)
        told = re.search(rf"^{re.escape(name)} +(\d+)%$", text, re.MULTILINE)
        assert told is not None
        assert abs(int(told[1]) / 100 - share) < 0.016  # distances between codes can tie


def test_a_class_finds_its_viewers_at_work(notebook: Notebook) -> None:
    garments = viewer_cell(notebook, 0)  # its source was a drawing, so the drawer is open
    expect(garments.locator(".nbg-drawer")).to_contain_text("label ankle boot (9)")
    expect(garments.get_by_role("button", name="Next wrong prediction")).to_be_enabled()
    space = viewer_cell(notebook, 3)  # the drawer is open, with the latent workbench
    expect(space.get_by_text("Decoded on a grid over the same plane")).to_be_visible()
    expect(space.locator(".nbg-latent-decoded")).to_contain_text("before encoder.6 are skipped")
