"""The function compare: a Viewer of two networks, or two inputs of one, with differences."""

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
from nbglcnn.widget.viewer import FEATURE_HOST_TYPES, Viewer


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
    """Run two networks, or one network on two inputs, with the difference B − A of every layer.

    Layers are compared if they have the same name and shape. Each remaining layer is matched in
    order with one of the same operator and shape, otherwise with one of the same shape.
    `comparison.unmatched` lists the layers without a partner. The arguments are copied: later
    changes of a model or Viewer don't change the comparison.

    Args:
        a: A model as for the Viewer, or a Viewer: its network with the current weights and input.
        b: The same; or a state_dict: the network of `a` with these weights.
        x: The input of both. Default: a Viewer uses its own input, and a model or state_dict uses
            the input of the Viewer that it is compared with.
        x_b: Another input for `b`, with the same number of examples. Default: none.
        titles: The names of A and B in the view, such as ("epoch 1", "epoch 20"). Default: none.
        observe: The layers to compare and keep: `"all"` (default), `"outputs"`, or a list of names
            in `a`.
        strict: Whether layers that cannot run on the GPU are an error, as for the Viewer. Default:
            False.
        preprocess: The steps from a picture to the input of both models, as for the Viewer. A
            Viewer keeps its own.
        **options: `classes`, `precision`, `height` and `timeout` of the Viewer. Default of
            `classes`: those of `a` or `b`; none if both have different ones.

    Returns:
        A Viewer of both networks, which also has the differences.

    Raises:
        InputError: If an input is missing or doesn't fit, the numbers of examples differ, the
            inputs' shapes leave no layers of equal shape, or the state_dict doesn't fit the model.
        KeyError: If `observe` contains an unknown name.
        ModelError: If an argument is not a model, or the models have no layers of equal shape.
        UnsupportedOperator: As for the Viewer.
        UnsupportedModel: As for the Viewer.

    Example:
        >>> comparison = nbglcnn.compare(model, state_dict, x, titles=("before", "after"))
        >>> comparison.changes().first_diverging
    """
    if isinstance(titles, str) or not isinstance(titles, Sequence) or len(titles) != 2:
        raise InputError(f"titles={titles!r}; expected two strings, as ('epoch 1', 'epoch 20')")
    title_a, title_b = titles
    same = a is b
    a = _to_model(a, preprocess)
    b = a if same else _to_model(b, preprocess)
    if x is None and not isinstance(a, Viewer) and isinstance(b, Viewer):
        x = b.current_inputs()
    left = _make_side(a, x, strict)
    given = x if x_b is None else x_b
    if given is None and not isinstance(b, Viewer):
        given = left.input_arrays
    if isinstance(b, Mapping):
        changed = load.with_parameters(left.graph, left.model.convert_state_dict(b))
        right = ComparisonSide(left.model, changed, load.convert_inputs(changed, given))
    else:
        right = _make_side(b, given, strict, left if a is b else None)
    for side in (left, right):
        check_not_empty(side.graph.inputs, side.input_arrays)
    counts = [{array.shape[:1] for array in side.input_arrays} for side in (left, right)]
    if len(counts[0]) == len(counts[1]) == 1 and counts[0] != counts[1]:
        few, many = (sizes.pop()[0] for sizes in counts)
        raise InputError(f"A's input has {few} examples, B's {many}: give both the same number")
    joined = ComparisonModel(
        left,
        right,
        shared_input=x_b is None and _arrays_equal(left.input_arrays, right.input_arrays),
        shared_weights=left.model.user_model is right.model.user_model
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
    """Wrap a model with its preprocess; a Viewer has its own, a state_dict is returned as it is."""
    if isinstance(model, Viewer | Mapping):
        return model
    return load.wrap_model(model, preprocess)


def _make_side(
    model: Any, x: Any, strict: bool, same: ComparisonSide | None = None
) -> ComparisonSide:
    """Build a side from a model or Viewer and its input; `same` is a side with the same model."""
    if isinstance(model, Comparison):
        raise ModelError("a comparison is not a model: give one of the two models that it compares")
    if isinstance(model, Viewer):
        network = model.network
        arrays = (
            model.current_inputs()
            if x is None
            else load.convert_inputs(network.graph, x, network.input_arrays)
        )
        return ComparisonSide(
            network.loaded_model, replace(network.graph, class_names=network.classes), arrays
        )
    if same is not None:
        try:
            return ComparisonSide(model, same.graph, load.convert_inputs(same.graph, x))
        except InputError:
            pass  # the input doesn't fit: `load` below raises the error
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
    """A Viewer of two networks, A and B, with the differences of their layers; made by `compare`.

    `comparison["encoder.0"]` has the arrays `a`, `b` and `difference` of a layer. Everything else
    is as in a Viewer, with the keys "A.encoder.0", "B.encoder.0" and "difference.encoder.0".
    `input` is the input of both, or a tuple of A's inputs and then B's if they differ.

    Example:
        >>> comparison["encoder.0"].difference
    """

    _feature_host_types = (*FEATURE_HOST_TYPES, CompareHost)

    @property
    def matched(self) -> tuple[tuple[str, str], ...]:
        """The compared layers: pairs of names in A and in B, in the order of A."""
        return self._require_host(CompareHost).matched

    @property
    def unmatched(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The names of the layers of A, and of B, without a partner of the same shape."""
        return self._require_host(CompareHost).unmatched

    def __getitem__(self, name: str) -> Difference:
        return self._require_host(CompareHost).read([name])[name]

    def to_dict(self, *, timeout: float | None = None) -> dict[str, Difference]:
        """Read all compared layers in one round trip.

        Args:
            timeout: The time in seconds without a message from the page after which this fails.
                Default: the Viewer's own.

        Returns:
            A dict by name in A of records with the arrays `a`, `b` and `difference`.

        Raises:
            PageError: If the page cannot answer.
        """
        return self._require_host(CompareHost).read(timeout=timeout)

    def changes(self, *, timeout: float | None = None) -> Report[Change]:
        """Measure how much each layer of B differs from A, over all examples.

        The device that runs both networks computes the measures. Rows are layers in order, then
        inputs, modules of several layers, and outputs.

        Args:
            timeout: The time in seconds without a message from the page after which this fails.
                Default: the Viewer's own.

        Returns:
            A Report with one `Change` row per layer: the largest and the mean |B − A|, the mean
            relative to the mean |A|, and whether both are equal. `first_diverging` is the first
            layer that differs.

        Raises:
            PageError: If the page cannot answer.
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
        """Show a layer in the Compare tab, or another view as `Viewer.show` does.

        Args:
            layer: The name of a layer in A, the key of a value, or the position of a layer.
                Default: none.
            channels: A channel, or up to four channels to show large. Default: none.
            view: The view, as for `Viewer.show`, or `"compare"`. Default: `"compare"` for a
                compared layer.
            pixel: The position `(y, x)` to explain. Default: none.

        Raises:
            KeyError: If the layer doesn't exist.
            TraitError: If the view doesn't exist, or the layer has no such channel or pixel.
            PageError: If the Viewer is closed.
        """
        if pixel is None:
            view, layer = self._require_host(CompareHost).resolve_view(layer, view)
        super().show(layer, channels, view=view, pixel=pixel)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Set the weights of B; A doesn't change.

        Args:
            state_dict: Tensors or arrays by name, in the shapes of B's.

        Raises:
            InputError: If the names or shapes don't fit, or both sides are one model with the same
                weights.
        """
        super().load_state_dict(self._require_host(CompareHost).merge_weights_of_b(state_dict))

    def state_dict(self) -> dict[str, Any]:
        """Return the current parameters and buffers of B.

        Returns:
            A dict by name: tensors that the torch module loads, or arrays for an ONNX model.
        """
        return self._require_host(CompareHost).state_dict()

    def __repr__(self) -> str:
        return f"{self._require_host(CompareHost).summary} ({self._state})"
