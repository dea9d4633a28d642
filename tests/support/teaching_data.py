"""Fixtures of the Teach tests: pictures of two kinds, a camera that shows them, the Teach tab."""

import numpy as np

SETUP_CELL = """
import json, sys, numpy as np, torch, nbglcnn
sys.path[:0] = [{notebooks!r}, {support!r}]
from teaching_data import bar_pictures
from fashion_autoencoder import load_autoencoder
from nbglcnn import Viewer
model = load_autoencoder()
x = torch.zeros(1, 1, 28, 28)
"""
# A camera whose picture the test draws: a bright bar, vertical ("cup") or horizontal ("hand"), with
# jitter so that no two frames are equal.
FAKE_CAMERA_SCRIPT = """() => {
  const canvas = document.createElement('canvas');
  [canvas.width, canvas.height] = [160, 160];
  const context = canvas.getContext('2d');
  const camera = { shows: 'cup', frames: 0 };
  window.camera = camera;
  setInterval(() => {
    camera.frames += 1;
    context.fillStyle = '#181818';
    context.fillRect(0, 0, 160, 160);
    context.fillStyle = '#e8e8e8';
    const by = 12 * Math.sin(camera.frames / 3);
    const wide = 34 + 8 * Math.cos(camera.frames / 5);
    if (camera.shows === 'cup') context.fillRect(62 + by, 10, wide, 140);
    else context.fillRect(10, 62 + by, 140, wide);
  }, 40);
  const stream = canvas.captureStream(25);
  navigator.mediaDevices.getUserMedia = async () => stream.clone();
}"""


def bar_pictures(kind: str, count: int, seed: int = 0) -> np.ndarray:
    """Pictures of such bars, (count, 28, 28) of uint8."""
    random = np.random.default_rng(seed)
    found = random.integers(0, 40, (count, 28, 28), np.uint8)
    for one in found:
        at, wide = random.integers(8, 15), random.integers(4, 8)
        if kind == "cup":
            one[2:26, at : at + wide] = 230
        else:
            one[at : at + wide, 2:26] = 230
    return found
