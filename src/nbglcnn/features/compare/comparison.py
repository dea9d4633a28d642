"""compare: two networks, or two inputs of one, in a Viewer that shows how each layer differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nbglcnn import load
from nbglcnn.errors import InputError, ModelError
from nbglcnn.features.compare.host import CompareHost, Difference
from nbglcnn.graph import Array
from nbglcnn.inputs.arguments import check_not_empty
from nbglcnn.load import ComparisonModel, ComparisonSide
from nbglcnn.python_fallback import load_with_fallback
from nbglcnn.report import Change, Report
from nbglcnn.widget.viewer import FEATURES, Viewer


def compare(
    a: Any,
    b: Any,
    x: Any = None,
    x_b: Any = None,
    *,
    titles: tuple[str, str] = ("", ""),
    observe: str | Sequence[str] = "all",
    strict: bool = False,
    preprocess: Any = None,
    **options: Any,
) -> Comparison:
    """Run two networks, or one on two inputs, with the difference B − A of every layer.

    Args:
        a: a model as the Viewer takes it, or a Viewer: its network, weights and input of now.
        b: the same; or a state_dict: the network of `a` with these weights.
        x: the input of both. Without it a Viewer's own counts, and for the other side that of `a`.
        x_b: another input for `b`, with as many examples.
        titles: what A and B are called, for example ("epoch 1", "epoch 20").
        observe: which layers are compared and kept: "all", "outputs" alone, or names (in `a`).
        strict: refuse what would be computed in Python, as for the Viewer.
        preprocess: how pictures become what both models take, as for the Viewer; a Viewer that is
            given keeps its own.
        options: further ones of the Viewer: `classes`, `precision`, `height`, `timeout`. Without
            `classes` they are those of `a`, or of `b`, unless both have some and they differ.

    Layers are compared where they have one name and one shape; those without such a partner in
    their order, with one of the same operator and shape, then with one of the same shape.
    `comparison.unmatched` are the rest. A later change of a model or Viewer that was given changes
    nothing here.

    Raises:
        InputError: an input is missing or doesn't fit; the inputs' shapes leave no layer of one
            shape; the state_dict isn't that of the model.
        ModelError: not a model, or two models without a layer of the same shape.
        UnsupportedOperator, UnsupportedModel: as for the Viewer.
    """
    if isinstance(titles, str) or not isinstance(titles, Sequence) or len(titles) != 2:
        raise InputError(f"titles={titles!r}; two are needed, as ('epoch 1', 'epoch 20')")
    title_a, title_b = titles
    same = a is b
    a = _to_model(a, preprocess)
    b = a if same else _to_model(b, preprocess)
    if x is None and not isinstance(a, Viewer) and isinstance(b, Viewer):
        x = b.current_inputs()
    left = _make_side(a, x, strict)
    given = x if x_b is None else x_b
    if given is None and not isinstance(b, Viewer):
        given = left.arrays
    if isinstance(b, Mapping):
        changed = load.with_parameters(left.graph, left.model.convert_state_dict(b))
        right = ComparisonSide(left.model, changed, load.convert_inputs(changed, given))
    else:
        right = _make_side(b, given, strict, left if a is b else None)
    for side in (left, right):
        check_not_empty(side.graph.inputs, side.arrays)
    counts = [{array.shape[:1] for array in side.arrays} for side in (left, right)]
    if len(counts[0]) == len(counts[1]) == 1 and counts[0] != counts[1]:
        few, many = (sizes.pop()[0] for sizes in counts)
        raise InputError(f"A's input has {few} examples, B's {many}: give both as many")
    joined = ComparisonModel(
        left,
        right,
        shared_input=x_b is None and _arrays_equal(left.arrays, right.arrays),
        shared_weights=left.model.source is right.model.source
        and not isinstance(b, Mapping)
        and _has_same_weights(left, right),
        observe=observe,
        titles=(str(title_a), str(title_b)),
    )
    compared = joined.graph.comparison
    assert compared is not None
    kept: str | list[str] = "all"
    if observe != "all":
        keys = [(pair.a, pair.b, pair.difference) for pair in compared.pairs]
        kept = [*(key for three in keys for key in three), compared.table]
    comparison = Comparison(joined, observe=kept, **options)
    comparison.show()
    return comparison


def _to_model(model: Any, preprocess: Any) -> Any:
    """A Model with a preprocess; a Viewer brings its own, and weights alone stay as they are."""
    if isinstance(model, Viewer | Mapping):
        return model
    return load.model_of(model, preprocess)


def _make_side(
    model: Any, x: Any, strict: bool, same: ComparisonSide | None = None
) -> ComparisonSide:
    """A model or Viewer with an input; `same` is a side with the same model."""
    if isinstance(model, Comparison):
        raise ModelError("a comparison is no model: give one of the two that it compares")
    if isinstance(model, Viewer):
        network = model.network
        arrays = (
            model.current_inputs()
            if x is None
            else load.convert_inputs(network.graph, x, network.input_arrays)
        )
        return ComparisonSide(
            network.model, replace(network.graph, classes=network.classes), arrays
        )
    if same is not None:
        try:
            return ComparisonSide(model, same.graph, load.convert_inputs(same.graph, x))
        except InputError:
            pass  # of another shape, or none that fits: then `load` says so
    graph, arrays = (load.load if strict else load_with_fallback)(model, x)
    return ComparisonSide(model, graph, arrays)


def _arrays_equal(a: Sequence[Array], b: Sequence[Array]) -> bool:
    return len(a) == len(b) and all(
        one.dtype == other.dtype and np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
        for one, other in zip(a, b, strict=True)
    )


def _has_same_weights(left: ComparisonSide, right: ComparisonSide) -> bool:
    """Whether both sides have the same weights."""
    ours, theirs = (
        {name: np.asarray(side.graph.values[value].data)
         for name, value in side.graph.parameters.items()}
        for side in (left, right)
    )  # fmt: skip
    return ours.keys() == theirs.keys() and _arrays_equal(
        list(ours.values()), [theirs[name] for name in ours]
    )


class Comparison(Viewer):
    """Two networks in one Viewer, made by `compare`: A, B, and the differences of their layers.

    `comparison["encoder.0"]` has a layer's `a`, `b` and `difference`, `changes()` a row for each.
    The rest is the Viewer's, over the keys "A.encoder.0", "B.encoder.0" and
    "difference.encoder.0". `input` is that of both; a tuple of A's inputs and B's where they have
    inputs of their own.
    """

    _features = (*FEATURES, CompareHost)

    @property
    def matched(self) -> tuple[tuple[str, str], ...]:
        """What is compared: names in A and in B, in the order of A."""
        return self._require_host(CompareHost).matched

    @property
    def unmatched(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The layers of A, and those of B, without a partner of the same shape."""
        return self._require_host(CompareHost).unmatched

    def __getitem__(self, name: str) -> Difference:
        return self._require_host(CompareHost).read([name])[name]

    def to_dict(self, *, timeout: float | None = None) -> dict[str, Difference]:
        """All layers that are compared, by their names in A, read in one round trip."""
        return self._require_host(CompareHost).read(timeout=timeout)

    def changes(self, *, timeout: float | None = None) -> Report[Change]:
        """How much each layer of B differs from A, over all examples: computed where both run.

        A row has the largest and the mean |B − A|, and the mean relative to the mean of |A|.
        Layers in order, then inputs, modules of several layers, and outputs;
        `changes().first_diverging` is the first layer that differs at all.
        """
        return self._require_host(CompareHost).changes(timeout)

    def show(
        self,
        layer: str | int | None = None,
        channels: int | Sequence[int] = (),
        *,
        view: str | None = None,
        pixel: tuple[int, int] | None = None,
    ) -> None:
        """Turn the page to the Compare tab, by the name of a layer; else as `Viewer.show` does."""
        if pixel is None:
            view, layer = self._require_host(CompareHost).resolve_view(layer, view)
        super().show(layer, channels, view=view, pixel=pixel)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Give B other weights of the same shapes; A keeps its own."""
        super().load_state_dict(self._require_host(CompareHost).merge_weights_of_b(state_dict))

    def state_dict(self) -> dict[str, Any]:
        """Every parameter and buffer of B as it is now, as `Viewer.state_dict`."""
        return self._require_host(CompareHost).state_dict()

    def __repr__(self) -> str:
        return f"{self._require_host(CompareHost).summary} ({self._state})"
