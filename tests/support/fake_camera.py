"""The browser's fake camera as an input: start, pause, and the frame of the last run."""

from collections.abc import Callable
from functools import cache

import numpy as np
import torch
from PIL import Image
from playwright.sync_api import Page
from torch import nn

import nbglcnn
from nbglcnn import Plan
from source_references import decode_data_url
from sources_page import SourcesPage
from views_page import ViewsPage

ShowViews = Callable[..., ViewsPage]
START_LABEL = "Start the camera"  # label of the button
# Records each stream that the browser provides, and the getUserMedia calls.
RECORD_STREAMS_SCRIPT = """() => {
  const media = navigator.mediaDevices;
  const ask = media.getUserMedia.bind(media);
  globalThis.given = { asked: [], tracks: [] };
  media.getUserMedia = async (wanted) => {
    given.asked.push(wanted);
    const stream = await ask(wanted);
    given.tracks.push(...stream.getTracks());
    return stream;
  };
}"""
# The frame of the last run, grabbed in the task in which the run starts, while the video stands
# still.
GRAB_FRAME_SCRIPT = """() => {
  const video = views.state.sourceControls.value.video;
  const canvas = document.createElement('canvas');
  [canvas.width, canvas.height] = [video.videoWidth, video.videoHeight];
  canvas.getContext('2d').drawImage(video, 0, 0);
  return canvas.toDataURL();
}"""


@cache
def compile_network() -> tuple[Plan, np.ndarray]:
    """A Plan for grey pictures of 26×20, and one of them."""
    torch.manual_seed(4)
    model = nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), nn.ReLU()).eval()
    x = np.random.default_rng(4).random((1, 1, 20, 26), np.float32)
    return nbglcnn.compile(model, torch.from_numpy(x)), x


def open_camera_page(show: ShowViews, width: int = 900) -> SourcesPage:
    """The views of that network, with the camera's streams recorded."""
    plan, x = compile_network()
    views = show(plan, x, width=width)
    views.page.evaluate(RECORD_STREAMS_SCRIPT)
    return SourcesPage(views, plan)


def start_camera(source_views: SourcesPage) -> None:
    """Start the camera in the drawer, and wait until its pictures are fed."""
    source_views.open_drawer()
    source_views.page.locator("[data-kind=webcam]").click()
    source_views.page.get_by_role("button", name=START_LABEL).click()
    source_views.wait_phase("live")


def pause_camera(page: Page) -> None:
    """Pause the source."""
    page.get_by_role("button", name="Pause the source").click()
    page.wait_for_function("() => views.state.sourceStatus.value.phase === 'still'")


def last_frame(page: Page) -> Image.Image:
    """The frame that the last run used."""
    return decode_data_url(page.evaluate(GRAB_FRAME_SCRIPT))
