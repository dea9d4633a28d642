"""Batch axes: for each value, the axis that counts examples, or the node that mixes examples.

A network accepts more examples than a Plan's batch size if each example is computed independently.
The receptive field of each operator gives the input positions that an output position depends on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from nbglcnn.graph import Array, Graph, Node
from nbglcnn.lowering.receptive_fields import ReceptiveFields
from nbglcnn.ops import OPERATOR_RECORDS
from nbglcnn.ops.operator import Shape
from nbglcnn.ops.receptive_field import OperatorField, full_fields, same_position, source_positions

NO_EXAMPLE = -1  # an entry that belongs to no example
# A batch of one has no axis of its own if a view has merged or dropped axes of length 1.
NO_AXIS = -1


@dataclass(frozen=True, slots=True)
class BatchAxis:
    """An axis of a value, with the example number of each position along it."""

    axis: int
    example_numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MixedExamples:
    """The state of a value that depends on several examples; `node` mixes them first."""

    node: Node


BatchState = BatchAxis | MixedExamples


class BatchAxes:
    """The batch state of each value of a Graph, for a batch of `batch` examples."""

    def __init__(self, graph: Graph, receptive_fields: ReceptiveFields, batch: int) -> None:
        self._graph = graph
        self._receptive_fields = receptive_fields
        self._batch = batch
        self._input_axis = BatchAxis(0, tuple(range(batch)))
        self._states: dict[str, BatchState] = {
            name: self._input_axis for name in graph.inputs if graph.shape(name)[:1] == (batch,)
        }
        # Observed results of the framework at another batch size.
        self._observed_dependences = {
            key.value_name: graph.batch_dependences[key.name]
            for key in graph.keys
            if key.name in graph.batch_dependences
        }
        mixed_values = self._find_mixed()
        # MaxPool's indices count elements of the whole batch.
        self._batch_index_values = {
            n.outputs[1] for n in graph.nodes if n.op == "MaxPool" and n.outputs[1:]
        }
        for node in graph.nodes:
            for position, name in enumerate(node.outputs):
                if not name:
                    continue
                found = self._output_state(node, position, name)
                if name in mixed_values and not isinstance(found, MixedExamples):
                    found = MixedExamples(mixed_values[name])
                if found is not None:
                    self._states[name] = found

    def _find_mixed(self) -> dict[str, Node]:
        """Values that may mix examples: those observed to do so, and unobserved values before them.

        Each has the node of the value that was observed to mix examples. For the unobserved values
        it is unknown whether they do.
        """
        made_by = {name: node for node in self._graph.nodes for name in node.outputs if name}
        found: dict[str, Node] = {}
        for node in self._graph.nodes:
            reached = [
                name for name in node.outputs if self._observed_dependences.get(name) == "across"
            ]
            while reached:
                name = reached.pop()
                if name in found or name not in made_by:
                    continue
                found[name] = node
                reached += [
                    one for one in made_by[name].inputs if one not in self._observed_dependences
                ]
        return found

    def mixing_node(self, value: str) -> Node | None:
        """The node that mixes the examples a value depends on; None if no node does."""
        state = self._states.get(value)
        return state.node if isinstance(state, MixedExamples) else None

    def is_mixed(self, key: str) -> bool:
        """Whether the framework's results show that a key mixes examples.

        An operator that has no effect on a single example leaves no node: its output becomes an
        alias of its input's value, for example `x.cumprod(0)`.
        """
        return self._graph.batch_dependences.get(key) == "across"

    def is_per_example(self, value: str) -> bool:
        """Whether a value's first axis counts examples that are computed independently."""
        state, shape = self._states.get(value), self._graph.shape(value)
        if (
            shape[:1] != (self._batch,)
            or isinstance(state, MixedExamples)
            or value in self._batch_index_values
        ):
            return False
        shown = self._observed_dependences.get(value)
        if shown == "elsewhere":
            return False
        if state is None:
            if (
                self._batch == 1 and self._observed_dependences
            ):  # the framework ran a larger batch: its result decides
                return shown == "apart"
            data = self._graph.constant_data(value)
            return self._batch == 1 or (data is not None and _is_repeated(data, self._input_axis))
        return state == self._input_axis or state.axis == NO_AXIS

    def _output_state(self, node: Node, output_index: int, name: str) -> BatchState | None:
        if node.op == "Concat" and (joined := self._concat_axis(node)) is not None:
            return joined
        links = self._receptive_fields.input_fields(name)
        shape = self._graph.shape(name)
        found: list[BatchAxis] = []
        for number, (source, linked) in enumerate(zip(node.inputs, links, strict=True)):
            state = self._states.get(source)
            if state is None or linked is None:
                continue
            if isinstance(state, MixedExamples):
                return state
            passed = self._propagate(node, number, state, linked, shape)
            if passed is None:
                return MixedExamples(node)
            found.append(passed)
        if not found:
            return None
        joined = _join_axes(found)
        if joined is None or not self._constants_are_shared(node, links, joined, shape):
            return MixedExamples(node)
        return joined

    def _concat_axis(self, node: Node) -> BatchAxis | None:
        """The batch axis of a Concat along the batch axis of all its batched inputs; else None."""
        axis = node.attributes["axis"]
        assert isinstance(axis, int)
        axis %= len(self._graph.shape(node.outputs[0]))
        states = [self._states.get(source) for source in node.inputs]
        if not any(states) or any(
            state is not None and (isinstance(state, MixedExamples) or state.axis != axis)
            for state in states
        ):
            return None
        numbers: list[int] = []
        for source, state in zip(node.inputs, states, strict=True):
            length = self._graph.shape(source)[axis]
            numbers += (
                state.example_numbers if isinstance(state, BatchAxis) else [NO_EXAMPLE] * length
            )
        return BatchAxis(axis, tuple(numbers))

    def _propagate(
        self,
        node: Node,
        input_index: int,
        state: BatchAxis,
        operator_field: OperatorField,
        shape: Shape,
    ) -> BatchAxis | None:
        """The batch axis of an output as implied by one input; None if examples are mixed."""
        source = self._graph.shape(node.inputs[input_index])
        move = partial(_reshape_axis, batch=self._batch)
        if state.axis == NO_AXIS:
            return state
        if node.op in ("Squeeze", "Unsqueeze"):
            return self._squeeze_axis(node, state, source, shape)
        if operator_field.output_shape == operator_field.input_shape != shape and _is_identity(
            operator_field
        ):
            return move(state, source, shape)  # a view; its merged axes omit length 1
        if self._batch == 1 and self._selects_example(node, input_index, state):
            return None
        grouped = self._grouped_conv_axis(node, input_index, state, shape)
        if grouped is not None:
            return grouped
        seen = move(state, source, operator_field.input_shape)
        if seen is None or seen.axis == NO_AXIS:
            return seen
        along = operator_field.windows[seen.axis]
        if along is None:
            # A single example with its own filters, or an operator with an unknown receptive field.
            whole = input_index > 0 or OPERATOR_RECORDS[node.op].receptive_field is full_fields
            unknown = whole and not any(operator_field.windows)
            return BatchAxis(NO_AXIS, ()) if self._batch == 1 and unknown else None
        numbers = seen.example_numbers
        length = operator_field.output_shape[along.axis]
        if along != same_position(along.axis) or length != len(numbers):
            rows = [
                {numbers[k] for k in row} - {NO_EXAMPLE}
                for row in source_positions(len(numbers), along, length)
            ]
            if any(len(row) > 1 for row in rows):
                return None
            numbers = tuple(next(iter(row), NO_EXAMPLE) for row in rows)
        return move(BatchAxis(along.axis, numbers), operator_field.output_shape, shape)

    def _squeeze_axis(
        self, node: Node, state: BatchAxis, source_shape: Shape, shape: Shape
    ) -> BatchAxis | None:
        """The batch axis after Squeeze or Unsqueeze, by axis number: lengths of 1 are ambiguous."""
        axes = node.attributes.get("axes")
        if axes is None and len(node.inputs) > 1:
            axes = self._graph.constant_data(node.inputs[1])
        rank = max(len(source_shape), len(shape))
        if axes is None:
            changed = {k for k, length in enumerate(source_shape) if length == 1}
        else:
            changed = {int(axis) % rank for axis in np.reshape(np.asarray(axes), -1)}
        kept = [k for k in range(rank) if k not in changed]
        if node.op == "Unsqueeze":
            return BatchAxis(kept[state.axis], state.example_numbers)
        if state.axis in kept:
            return BatchAxis(kept.index(state.axis), state.example_numbers)
        return _reshape_axis(state, source_shape, shape, self._batch)

    def _selects_example(self, node: Node, input_index: int, state: BatchAxis) -> bool:
        """Whether a node indexes a batch of one, and would take the first of a larger batch."""
        if input_index or len(state.example_numbers) > 1:
            return False
        rank = len(self._graph.shape(node.inputs[0]))
        if node.op == "Gather":
            axis = node.attributes.get("axis", 0)
            assert isinstance(axis, int)
            return axis % rank == state.axis
        if node.op == "Slice":
            axes = self._graph.constant_data(node.inputs[3]) if len(node.inputs) > 3 else None
            listed = range(rank) if axes is None else [int(k) % rank for k in axes.reshape(-1)]
            return state.axis in listed
        return False

    def _grouped_conv_axis(
        self, node: Node, input_index: int, state: BatchAxis, shape: Shape
    ) -> BatchAxis | None:
        """The batch axis of a convolution that has separate groups and filters for each example."""
        group = node.attributes.get("group", 1)
        count = self._batch
        if node.op not in ("Conv", "ConvTranspose") or count == 1 or input_index > 1:
            return None
        assert isinstance(group, int)
        axis = 1 - input_index
        if (
            state.axis != axis
            or group % count
            or _repeat_pattern(state.example_numbers, count) is None
        ):
            return None
        if _repeat_pattern(state.example_numbers, count) != (
            1,
            len(state.example_numbers) // count,
        ):
            return None
        return BatchAxis(1, tuple(int(k) for k in np.repeat(np.arange(count), shape[1] // count)))

    def _constants_are_shared(
        self,
        node: Node,
        operator_fields: Sequence[OperatorField | None],
        state: BatchAxis,
        shape: Shape,
    ) -> bool:
        """Whether constants are equal for all examples, so that no result depends on its number."""
        if self._batch == 1:
            return True
        for source, linked in zip(node.inputs, operator_fields, strict=True):
            data = self._graph.constant_data(source) if source else None
            if data is None or linked is None or data.shape != linked.input_shape:
                continue
            for axis, along in enumerate(linked.windows):
                if (
                    along is not None
                    and linked.output_shape == shape
                    and along == same_position(state.axis)
                    and data.shape[axis] == len(state.example_numbers)
                    and not _is_repeated(data, BatchAxis(axis, state.example_numbers))
                ):
                    return False
        return True


def _is_identity(operator_field: OperatorField) -> bool:
    return all(along == same_position(k) for k, along in enumerate(operator_field.windows))


def _join_axes(axes: Sequence[BatchAxis]) -> BatchAxis | None:
    """Combine the batch axes from several inputs of one node; None if they disagree."""
    placed = [one for one in axes if one.axis != NO_AXIS]
    if not placed:
        return axes[0]
    first = placed[0]
    if any(one.axis != first.axis for one in placed):
        return None
    if all(one.example_numbers == first.example_numbers for one in placed):
        return first
    rows = np.array([one.example_numbers for one in placed])
    known = rows.max(axis=0)  # NO_EXAMPLE is less than any number
    if ((rows != known) & (rows != NO_EXAMPLE)).any():
        return None
    return BatchAxis(first.axis, tuple(known.tolist()))


def _repeat_pattern(numbers: Sequence[int], count: int) -> tuple[int, int] | None:
    """How often 0 … count − 1 repeats, and how often each number in it repeats; else None."""
    after = next((k for k, number in enumerate(numbers) if number != 0), len(numbers))
    if not after or len(numbers) % (after * count):
        return None
    before = len(numbers) // (after * count)
    expected = np.tile(np.repeat(np.arange(count), after), before)
    return (before, after) if np.array_equal(expected, numbers) else None


def _reshape_axis(
    state: BatchAxis, source_shape: Shape, shape: Shape, batch: int
) -> BatchAxis | None:
    """The batch axis after a reshape; None if no axis fits."""
    if source_shape == shape or state.axis == NO_AXIS:
        return state
    length, inner = len(state.example_numbers), math.prod(source_shape[state.axis + 1 :])
    steps = [math.prod(shape[k + 1 :]) for k in range(len(shape))]
    exact = [k for k, n in enumerate(shape) if n == length and steps[k] == inner]
    pattern = _repeat_pattern(state.example_numbers, batch)
    each = 0 if pattern is None else pattern[1] * inner  # consecutive elements of one example
    if batch == 1 and length > 1:  # the batch axis reappears
        own = [k for k, n in enumerate(shape) if n == 1 and steps[k] == each]
        if own:
            return BatchAxis(own[0], (0,))
    if exact:
        axis = state.axis if state.axis in exact else exact[0]
        return BatchAxis(axis, state.example_numbers)
    # A single example may be merged with the axes after it, but only if no axis before it is longer
    # than 1.
    if each and (batch > 1 or each == math.prod(source_shape)):
        for axis, step in enumerate(steps):
            if step and each % step == 0 and step * shape[axis] % (each * batch) == 0:
                numbers = np.arange(shape[axis]) // (each // step) % batch
                return BatchAxis(axis, tuple(map(int, numbers)))
    return BatchAxis(NO_AXIS, ()) if batch == 1 else None


def _is_repeated(data: Array, state: BatchAxis) -> bool:
    """Whether the slices along an axis are equal for all examples."""
    rows = np.moveaxis(data, state.axis, 0)
    count = max(state.example_numbers) + 1
    pattern = _repeat_pattern(state.example_numbers, count)
    if pattern is None:
        return bool((rows == rows[:1]).all())
    before, after = pattern
    parts = rows.reshape(before, count, after, *rows.shape[1:])
    return bool((parts == parts[:, :1]).all())
