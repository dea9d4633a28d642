"""A source as plain data: what Python and the pages of one Viewer tell each other of it."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

import msgspec
from msgspec import Meta

Kind = Literal["webcam", "video", "picture", "images", "drawing", "noise", "latent"]
KINDS: tuple[Kind, ...] = get_args(Kind)
# Sources whose pictures exist in one page alone: that page feeds the others, by way of Python.
OF_ONE_PAGE = ("webcam", "video", "picture", "drawing")
BLOCK_BYTES = 2**20  # of a data set that travel together; at least one item does
MOST_CODES = 4096  # numbers of a latent
MOST_FILM = 2**28  # bytes of a film's file
# Of noise where nobody says: 95 of 100 numbers lie between 0 and 1, as those of a picture do.
NOISE_MEAN, NOISE_STD = 0.5, 0.25

Name = Annotated[str, Meta(max_length=64)]
Text = Annotated[str, Meta(max_length=1000)]
NonNegative = Annotated[int, Meta(ge=0, le=2**31)]


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """Where the input comes from: one of `KINDS`, and what that needs.

    `input` is the key of the input that is fed; of a latent the layer whose value is. `owner` is
    the page that has the pictures, "" as long as none has: of "webcam", "video", "picture" and
    "drawing" alone. `playing` says whether it goes on by itself, `rate` is pictures a second, 0 for
    as many as there are.

    A webcam `faces` the user or the environment, and is `mirrored` like a mirror. `data` is the
    blob of a video. Of a data set it is the name of `count` items in blocks of `block` items each:
    block k is the blob `data.k`, items one after the other, in (channels, height, width) of the
    input. They are "uint8", 255 of which are 1, or "float32" as they are. `index` is the item that
    is shown, counted in the set's own order also while it is `shuffled`; `labels` is a blob of JSON
    with one number an item, -1 for none, and `classes` one with their names; "" where there are
    none. Drawings and noise are of the input's size; `seed` is that of noise, of deviation `std`
    around `mean` (`given.noise` has the formula), and of shuffling. `code` has all numbers of a
    latent's layer, row-major, and `items` names its data as a data set, of `count` and so on, to go
    back to: that one's labels are those of the same name. `title` is what people call it, as a
    file's name. `folder` is where Python finds the data, in the words that it was given and with
    the folder's own labels; "" for other data, and in a page of its own.
    """

    kind: Kind
    input: Text
    owner: Name = ""
    playing: bool = False
    rate: Annotated[float, Meta(ge=0, le=1000)] = 0.0
    faces: Literal["user", "environment"] = "user"
    mirrored: bool = False
    data: Name = ""
    count: NonNegative = 0
    block: NonNegative = 0
    dtype: Literal["uint8", "float32"] = "uint8"
    index: NonNegative = 0
    shuffled: bool = False
    labels: Name = ""
    classes: Name = ""
    seed: NonNegative = 0
    mean: float = 0.0
    std: float = 1.0
    code: Annotated[tuple[float, ...], Meta(max_length=MOST_CODES)] = ()
    items: Name = ""
    title: Text = ""
    folder: Text = ""
