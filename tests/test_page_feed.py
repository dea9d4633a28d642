"""Pictures become a network's input in the page, as Pillow would have made it."""

import pytest

from fed import check, feed, random_picture, reference, taking
from nbglcnn.plan import Fit
from page import GlPage

SIZES = [
    ((7, 5), (28, 28)),  # larger
    ((640, 480), (28, 28)),  # by about twenty
    ((560, 560), (28, 28)),  # by twenty
    ((101, 67), (33, 51)),
    ((1, 1), (6, 5)),
    ((1, 90), (9, 7)),
    ((90, 2), (7, 1)),
    ((33, 51), (33, 51)),  # as it is
]


@pytest.mark.parametrize("fit", ["crop", "letterbox", "stretch"])
def test_pictures_of_any_size_are_resampled_as_pillow_does_it(gl: GlPage, fit: Fit) -> None:
    gl.open(taking((1, 1, 2, 2)))  # which keeps the programs
    for (width, height), (w, h) in SIZES:
        picture = random_picture(width, height)
        for channels in (1, 3, 4):
            shape = (1, channels, h, w)
            session = gl.open(taking(shape, fit))
            feed(gl, session, picture)
            check(gl.read(session, "x"), reference(picture, shape, fit))
            gl.close(session)
