"""Latents: a source that replaces a layer's value by a code, and statistics of the data's codes.

Users create a `Latent`; `host.py` opens it for a network: checks it, computes the codes of its data
and packs them for the page.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal, Self
from uuid import uuid4

import msgspec
import numpy as np
from msgspec import Meta

from nbglcnn.errors import InputError, suggest_names
from nbglcnn.features.edits.records import Edit, editable_value
from nbglcnn.features.edits.skipped_passes import downstream_keys
from nbglcnn.features.edits.transforms import INJECT
from nbglcnn.features.sources.blocks import DatasetBlocks
from nbglcnn.features.sources.images import Images
from nbglcnn.features.sources.input_source import InputSource, folder_of
from nbglcnn.features.sources.records import Name, NonNegative, SourceRecord, Text
from nbglcnn.graph import Array
from nbglcnn.inputs.arrays import native_array
from nbglcnn.plan.schema import Float32, Input, Plan, Value

LATENT_NAME = "latent"  # the name of a latent's edit, and the hash of its array
MAX_CODE_SIZE = 4096  # elements of a code
MAX_ENCODED_ITEMS = 2000  # the most items whose codes are computed
MAX_CODES_BYTES = 2**24  # the most bytes of these codes
THUMBNAIL_SIZE = 28  # the longest side of an item's thumbnail, in pixels


class LatentRecord(SourceRecord, frozen=True, kw_only=True, tag="latent"):
    """A latent: `code` has all numbers of its layer, row-major; `input` is the key of the layer.

    `data` is the blob of its data's codes, with `labels` and `classes` as of a data set. `items` is
    the data itself as a data set, with `count`, `block_size` and `dtype`, which the page can select
    as the source instead; its labels have the same name. `folder` is as of a data set.
    """

    data: Name = ""
    count: NonNegative = 0
    block_size: NonNegative = 0
    dtype: Literal["uint8", "float32"] = "uint8"
    labels: Name = ""
    classes: Name = ""
    items: Name = ""
    code: Annotated[tuple[float, ...], Meta(max_length=MAX_CODE_SIZE)] = ()
    folder: Text = ""

    def for_export(self) -> Self:
        """Return the record for an exported page, with the data's codes but not the data."""
        return msgspec.structs.replace(super().for_export(), items="", folder="")


@dataclass(frozen=True, repr=False)
class Latent(InputSource):
    """A code that replaces the value of a layer, as a source: the decoder runs without its encoder.

    The page shows the latent workbench: a plane through the data's codes with a ring to drag, a
    slider for each number, and the decoded result. Layers that only lead to `layer` don't run;
    reading one raises a KeyError. Whatever else the decoder needs, such as the other end of a skip
    connection, is computed from the current input.

    A source is immutable: `viewer.source = viewer.source.with_code(z)` moves to another code.
    `viewer.load_state_dict` computes the codes of the data again.

    Args:
        layer: The name of a layer or module with a float32 value of at most 4,096 numbers per
            example, which the output depends on.
        data: Pictures whose codes are shown, as for `Images`. For more than 2,000 items, the codes
            of 2,000 or fewer, evenly spaced, are computed. Default: none.
        labels: An integer per item of the data, -1 for none, as for `Images`. Default: those of the
            data.
        classes: The names of the labels. Default: those of the data.
        code: The numbers to start with, in row-major order and any shape. Default: the layer's
            value for the current input.
        input: The key of the input that the data belongs to, if the network has several. Default:
            the first compatible one.
        owner: Read-only: unused for a latent.

    Raises:
        InputError: If an argument is not valid; when a Viewer takes it, if the network cannot be
            cut at the layer, an array doesn't fit or a number is not finite.
        KeyError: When a Viewer takes it, if the layer doesn't exist or isn't kept.

    Example:
        >>> viewer.input = nbglcnn.Latent("encoder.6", data=images)
        >>> viewer.source = viewer.source.with_code(viewer.source.codes.mean(0))
    """

    public_methods: ClassVar[tuple[str, ...]] = ("codes", "items", "known", "with_code")
    record_type: ClassVar[type[SourceRecord]] = LatentRecord
    pages_can_start: ClassVar[bool] = False
    feeds_input: ClassVar[bool] = False
    accepted_inputs_text: ClassVar[str] = "float32"

    layer: str
    data: Any = field(default=None, compare=False)
    labels: Any = field(default=None, compare=False)
    classes: Any = field(default=None, compare=False)
    code: Any = field(default=None, compare=False)
    _known: LatentCodes | None = field(default=None, kw_only=True, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.layer, str):
            raise InputError(f"Latent: expected the name of a layer, not {self.layer!r}")
        if self.data is None and (self.labels is not None or self.classes is not None):
            raise InputError("Latent: labels and classes describe data; give data=… too")
        if self.code is not None:
            code = _to_floats(self.code)
            code.flags.writeable = False
            object.__setattr__(self, "code", code)

    @property
    def codes(self) -> Float32:
        """The codes of the data, shape (items, numbers), float32; a copy.

        Raises an InputError before a Viewer has computed them, and without data.
        """
        return self.known.codes.copy()

    @property
    def items(self) -> Array:
        """The indices of the items that `codes` belong to, from 0."""
        return self.known.items.copy()

    @property
    def known(self) -> LatentCodes:
        """The codes of the data with their principal directions: a `LatentCodes`.

        Raises an InputError before a Viewer has computed them, and without data.
        """
        if self._known is None:
            raise InputError(
                f"the codes of Latent({self.layer!r}) are available after it is a Viewer's "
                "source: viewer.input = latent, then viewer.source.codes"
                if self.data is not None
                else f"Latent({self.layer!r}) has no data, so it has no codes: "
                f"Latent({self.layer!r}, data=images)"
            )
        return self._known

    @property
    def has_known_codes(self) -> bool:
        """Whether the codes of the data are known, or there is no data."""
        return self.data is None or self._known is not None

    def with_code(self, code: Any) -> Latent:
        """Return the same latent with another code; the codes of the data are kept.

        Args:
            code: The numbers, in row-major order and any shape.

        Returns:
            The new source.

        Raises:
            InputError: If `code` is not an array of numbers.
        """
        return replace(self, code=code)

    def with_codes(self, code: Float32, data_codes: LatentCodes | None) -> Latent:
        """Return the same latent with a code and the codes of its data.

        Args:
            code: The current code, shape (numbers,).
            data_codes: The codes of the data; None without data.

        Returns:
            The new source.
        """
        return replace(self, code=code, _known=data_codes)

    def without_codes(self) -> Latent:
        """Return the same latent without the codes of its data.

        Returns:
            The new source.
        """
        return replace(self, _known=None)

    def has_codes_in(self, *known: LatentCodes) -> bool:
        """Return whether its codes are one of these objects.

        Args:
            *known: The objects, compared by identity.

        Returns:
            True if one of them is its own.
        """
        return any(self._known is one for one in known)

    def fits_input(self, model_input: Input) -> bool:
        """Return whether its data can belong to an input: float32.

        Args:
            model_input: The input.

        Returns:
            True if it can.
        """
        return model_input.dtype == "float32"

    def to_record(self, input_key: str) -> SourceRecord:
        """Return the source as the record that pages get, without data.

        Args:
            input_key: Not used: the record has the key of the layer.

        Returns:
            The record.
        """
        code = () if self.code is None else tuple(float(one) for one in self.code)
        folder = folder_of(self.data, self.labels, self.classes)
        return LatentRecord(input=self.layer, code=code, folder=folder)

    def updated_from(self, record: SourceRecord) -> Latent:
        """Return this source with the code that a page has chosen.

        Args:
            record: The record of the page.

        Returns:
            The changed source.

        Raises:
            InputError: If the record has another layer or its code doesn't fit.
        """
        assert isinstance(record, LatentRecord)
        if record.input != self.layer:
            raise InputError(
                f"Latent({self.layer!r}): the layer can't be changed to {record.input!r}; create "
                "another Latent"
            )
        count = len(record.code) if self.code is None else self.code.size
        return self.with_code(validate_code(self.layer, record.code, count))

    def __repr__(self) -> str:
        data = "" if self._known is None else f", codes of {len(self._known.items)} items"
        size = "" if self.code is None else f", {self.code.size} values"
        return f"Latent({self.layer!r}{size}{data})"


@dataclass(frozen=True, eq=False)
class LatentCodes:
    """The codes of a data set and their principal directions.

    Attributes:
        codes: The codes, shape (items, numbers), float32.
        items: The indices of these items in the data set.
        total: The number of items in the data set.
        mean: The mean of each number, shape (numbers,).
        std: The standard deviation of each number, shape (numbers,).
        directions: The first two principal directions, shape (2, numbers), of length 1; zeros if
            there are fewer.
        deviations: The standard deviation of the codes along each direction.
        explained: The share of the variance along each direction, from 0 to 1.
    """

    codes: Float32
    items: Array
    total: int
    mean: Float32
    std: Float32
    directions: Float32
    deviations: tuple[float, float]
    explained: tuple[float, float]


def validate_layer(plan: Plan, layer: str) -> Value:
    """Return the value that a latent can replace; KeyError or InputError if it can't."""
    value = editable_value(plan, layer)
    if value.kind == "input":
        layers = [one.name for one in plan.layers]
        raise InputError(
            f"Latent({layer!r}): this is the input itself; choose a "
            f"layer{suggest_names(layer, layers)}, as Latent({layers[len(layers) // 2]!r})"
        )
    if (count := code_size(plan, value)) > MAX_CODE_SIZE:
        small = [
            one.key
            for one in plan.values
            if one.kind == "layer" and one.edit_pass >= 0 and code_size(plan, one) <= MAX_CODE_SIZE
        ]
        near = f": {', '.join(small[:6])}" if small else ""
        raise InputError(
            f"Latent({layer!r}): its value has {count:,} elements; a code has at most "
            f"{MAX_CODE_SIZE:,}. Choose a smaller layer{near}"
        )
    if not downstream_keys(plan.header, layer) & {*plan.header.outputs}:
        raise InputError(
            f"Latent({layer!r}): no output depends on this layer. Choose a layer that the output "
            "depends on"
        )
    return value


def code_size(plan: Plan, value: Value) -> int:
    """Return the number of elements of a value for one example."""
    batch = plan.header.batch
    shared = batch > 1 and bool(value.shape) and value.shape[0] == batch
    return value.readback.count // batch if shared else value.readback.count


def validate_code(layer: str, code: Any, count: int) -> Float32:
    """Return a code as `count` finite numbers, row-major; InputError if it doesn't fit."""
    numbers = _to_floats(code)
    if numbers.size != count:
        raise InputError(f"Latent({layer!r}): the code needs {count} values, not {numbers.size}")
    if not np.isfinite(numbers).all():
        wrong = int(np.flatnonzero(~np.isfinite(numbers))[0])
        raise InputError(
            f"Latent({layer!r}): value {wrong} of the code is {numbers[wrong]}; expected finite "
            "numbers"
        )
    return numbers


def _to_floats(code: Any) -> Float32:
    if hasattr(code, "detach"):
        code = code.detach().cpu().numpy()
    try:
        found = native_array(code, "Latent: a code").astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"Latent: expected a code as an array of numbers ({error})") from None
    with np.errstate(over="ignore"):
        return np.array(found.reshape(-1), np.float32)


def latent_edit(layer: str) -> Edit:
    """Return the edit that injects the array LATENT_NAME into a layer and skips upstream passes."""
    return Edit(
        layer=layer, name=LATENT_NAME, transform=INJECT, array_hash=LATENT_NAME, skips_upstream=True
    )


def sample_item_indices(total: int, numbers_per_code: int) -> Array:
    """Return the indices of the items to encode, evenly spaced over all."""
    most = max(2, min(MAX_ENCODED_ITEMS, MAX_CODES_BYTES // (4 * numbers_per_code)))
    if total <= most:
        return np.arange(total)
    return np.arange(most) * total // most


def analyze_codes(codes: Float32, item_indices: Array, total: int) -> LatentCodes:
    """Compute mean, deviations and two principal directions of codes, by numpy's SVD in float64."""
    count, size = codes.shape
    whole = codes.astype(np.float64)
    mean = whole.mean(0)
    _, values, rows = np.linalg.svd(whole - mean, full_matrices=False)
    directions, deviations, explained = np.zeros((2, size)), [0.0, 0.0], [0.0, 0.0]
    total_variance = float((values**2).sum())
    for k in range(min(2, len(values))):
        if values[k] <= 1e-12 * max(1.0, float(np.abs(whole).max())) * math.sqrt(count):
            break  # only rounding
        # An SVD's signs are arbitrary: make the element of largest magnitude positive, to be
        # deterministic.
        sign = 1.0 if rows[k][np.abs(rows[k]).argmax()] >= 0 else -1.0
        directions[k] = sign * rows[k]
        deviations[k] = float(values[k]) / math.sqrt(max(1, count - 1))
        explained[k] = float(values[k] ** 2) / total_variance
    return LatentCodes(
        np.ascontiguousarray(codes, np.float32),
        item_indices,
        total,
        mean.astype(np.float32),
        whole.std(0).astype(np.float32),
        directions.astype(np.float32),
        (deviations[0], deviations[1]),
        (explained[0], explained[1]),
    )


class LatentBlobs:
    """The blobs of a latent's data for pages: codes, labels and classes; empty without data.

    `dataset` has the Images and Blocks of the data set, if pages can feed its items to the
    network's input; otherwise it is None.
    """

    def __init__(
        self,
        latent_codes: LatentCodes | None = None,
        thumbnails: Array | None = None,
        labels: Sequence[int] | None = None,
        classes: Sequence[str] = (),
        dataset: tuple[Images, DatasetBlocks] | None = None,
    ) -> None:
        self.dataset = dataset
        self._name = uuid4().hex
        self._blobs: dict[str, bytes] = {}
        self._count = 0 if latent_codes is None else latent_codes.total
        if latent_codes is None:
            return
        self._blobs[self._name] = pack_codes(latent_codes, thumbnails)
        if labels is not None:
            own = [int(labels[at]) for at in latent_codes.items]
            self._blobs[f"{self._name}.labels"] = json.dumps(own).encode()
        if classes:
            self._blobs[f"{self._name}.classes"] = json.dumps(list(classes)).encode()

    def record_fields(self) -> dict[str, Any]:
        """Return the fields of the record that name the blobs."""
        names = {"data": "", "labels": ".labels", "classes": ".classes"}
        own = {field: f"{self._name}{part}" for field, part in names.items()}
        found: dict[str, Any] = {field: name for field, name in own.items() if name in self._blobs}
        if self._blobs:
            found |= {"count": self._count}
        if self.dataset is not None:
            of_set = self.dataset[1].record_fields()
            found |= {
                "items": of_set["data"],
                "block_size": of_set["block_size"],
                "dtype": of_set["dtype"],
            }
        return found

    def blob(self, name: str) -> memoryview | None:
        """Return a blob's bytes, or None for an unknown name."""
        return memoryview(self._blobs[name]) if name in self._blobs else None

    def blob_names(self) -> Iterator[str]:
        """Iterate over the names of all blobs."""
        yield from self._blobs

    @property
    def nbytes(self) -> int:
        """The size of all blobs in bytes."""
        return sum(map(len, self._blobs.values()))


def pack_codes(latent_codes: LatentCodes, thumbnails: Array | None) -> bytes:
    """Pack codes for pages: the length of a JSON text, the text, float32 numbers, uint8 pictures.

    The numbers are mean, std, both directions, then all codes; `thumbnails` is (items, height,
    width) or (items, height, width, 3). The numbers start at a multiple of four bytes.
    """
    text = json.dumps(
        {
            "items": latent_codes.items.tolist(),
            "total": latent_codes.total,
            "numbers": latent_codes.codes.shape[1],
            "deviations": latent_codes.deviations,
            "explained": latent_codes.explained,
            "picture": None if thumbnails is None else [*thumbnails.shape[1:], 1][:3],
        }
    ).encode()
    text += b" " * (-len(text) % 4)
    parts = (latent_codes.mean, latent_codes.std, latent_codes.directions, latent_codes.codes)
    numbers = b"".join(np.ascontiguousarray(one, "<f4").tobytes() for one in parts)
    small = b"" if thumbnails is None else np.ascontiguousarray(thumbnails, np.uint8).tobytes()
    return len(text).to_bytes(4, "little") + text + numbers + small


def make_thumbnails(items: Array) -> Array | None:
    """Return inputs as uint8 pictures, sides <= THUMBNAIL_SIZE; None if they aren't pictures."""
    from PIL import Image

    if items.ndim != 4 or items.shape[1] not in (1, 3, 4) or min(items.shape) == 0:
        return None
    colours = items[:, :3] if items.shape[1] > 1 else items
    low, high = float(np.nanmin(colours)), float(np.nanmax(colours))
    if low >= 0 and high <= 1:
        low, high = 0.0, 1.0  # pictures keep their range; others are scaled from min to max
    shares = (colours - low) / ((high - low) or 1.0)
    pixels = np.nan_to_num(np.clip(shares * 255 + 0.5, 0, 255)).astype(np.uint8)
    pixels = pixels[:, 0] if pixels.shape[1] == 1 else pixels.transpose(0, 2, 3, 1)
    height, width = pixels.shape[1:3]
    if max(height, width) <= THUMBNAIL_SIZE:
        return pixels
    scale = THUMBNAIL_SIZE / max(height, width)
    size = max(1, round(width * scale)), max(1, round(height * scale))
    filtered = Image.Resampling.BOX
    return np.stack([np.array(Image.fromarray(one).resize(size, filtered)) for one in pixels])
