"""The training or teaching of an exported page: validation of its arguments, and its data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from nbglcnn.errors import InputError, suggest_names
from nbglcnn.features.teaching.feature_vectors import FeatureExtractor
from nbglcnn.features.teaching.records import TeachingRecord
from nbglcnn.features.teaching.safetensors import serialize
from nbglcnn.features.training.compiled_training import CompiledTraining, compile_initial_training
from nbglcnn.features.training.local_training import compile_training
from nbglcnn.features.training.optimizers import Adam
from nbglcnn.features.training.records import TrainingRecord
from nbglcnn.plan.schema import Target, content_hash
from nbglcnn.widget.network import Network

TRAIN_DEFAULTS: Mapping[str, Any] = {
    "loss": "mse",
    "optimizer": Adam(1e-3),
    "batch_size": None,
    "epochs": None,
    "steps": None,
    "held_out": 0.1,
    "parameters": "all",
    "shuffle": True,
    "seed": 0,
    "output": "output",
    "weights": "given",
}
WEIGHT_CHOICES = ("given", "random")


@dataclass(frozen=True)
class PageTraining:
    """A page's training: `record` is its initial state, `blobs` maps names to data.

    `network` has the initial weights. `weight_names` are the parameters that the page can read
    back, `other_weights_blob` is the name of a blob with the others, or "".
    """

    network: Network
    compiled_training: CompiledTraining
    record: TrainingRecord
    blobs: Mapping[str, memoryview]
    weight_names: tuple[str, ...]
    other_weights_blob: str


def prepare_training(network: Network, train: Any, precision: str, max_bytes: int) -> PageTraining:
    """Prepare a network's training in a page, from the arguments of `viewer.train` and `weights`.

    The data may have at most `max_bytes` bytes. Raises as `viewer.train`; InputError for invalid
    arguments, too much data, or a `precision` other than float32.
    """
    arguments = _validate_arguments(train)
    if precision != "float32":
        raise InputError(
            f"train: precision={precision!r}; training needs 32-bit floats, since in 16 bits "
            'most gradients would be 0. Give precision="float32"'
        )
    if network.latent_edit is not None:
        raise InputError(
            "train: an active latent skips part of the network: set viewer.source = None first"
        )
    if network.graph.comparison:
        raise InputError("train: a comparison can't be trained; export one of its two models")
    if arguments["weights"] == "random":
        drawn = network.loaded_model.initial_weights(arguments["seed"])
        own = {name: array for name, array in drawn.items() if name in network.graph.parameters}
        network = network.with_weights(own)
    trained = _compile_page_training(network, arguments)
    size = sum(len(blob) for blob in trained.blobs.values())
    if size > max_bytes:
        raise InputError(
            f"train: the data has {size:,} bytes; an exported page takes at most {max_bytes:,}. "
            "Give fewer examples, or pictures as uint8"
        )
    record = TrainingRecord(
        "page", trained.config_hash, "paused", trained.arguments.optimizer.learning_rate_at(0)
    )
    readable = {value.key for value in trained.plan.header.parameters}
    if not readable.issuperset(trained.config.state_names):
        raise InputError(
            f"train: observe={trained.plan.header.observe!r} keeps no parameters, which training "
            'needs; give observe="all", or the names of layers'
        )
    names = tuple(name for name in network.graph.parameters if name in readable)
    whole = network.loaded_model.state_dict_arrays(network.weights())
    others = {name: array for name, array in whole.items() if name not in names}
    blobs = dict(trained.blobs)
    rest = ""
    if others:
        file = serialize(others)
        rest = content_hash(file)
        blobs[rest] = memoryview(file)
    return PageTraining(network, trained, record, blobs, names, rest)


def _validate_arguments(train: Any) -> dict[str, Any]:
    """Validate the arguments, and add the defaults."""
    if not isinstance(train, Mapping):
        raise InputError(
            f"train={train!r:.80}; expected a dict of viewer.train's arguments: "
            'train={"data": images, "loss": "mse"}'
        )
    known = ["data", *TRAIN_DEFAULTS]
    for key in train:
        if key not in known:
            raise InputError(
                f"train: unknown key {key!r}{suggest_names(str(key), known)}; expected some of "
                f"{', '.join(known)}"
            )
    if "data" not in train:
        raise InputError('train: "data" is missing: the training examples')
    arguments = {**TRAIN_DEFAULTS, **train}
    if arguments["weights"] not in WEIGHT_CHOICES:
        raise InputError(
            f'train: weights={arguments["weights"]!r}; expected "given", or "random" for newly '
            "initialised weights"
        )
    if not isinstance(arguments["seed"], int) or not 0 <= arguments["seed"] < 2**31:
        raise InputError(f"train: seed={arguments['seed']!r}; expected an integer from 0 to 2³¹")
    return arguments


def _editable_keys(network: Network) -> list[str]:
    """Return all keys that the page's user may bend: unlike a notebook, a page cannot recompile."""
    return [key.name for key in network.graph.keys if key.kind != "output"]


def _compile_page_training(network: Network, arguments: Mapping[str, Any]) -> CompiledTraining:
    """Return the Plan of network, training and evaluation for any device, with its data."""
    run, batches = compile_training(
        network.loaded_model, arguments["data"], arguments["loss"], arguments["optimizer"],
        arguments["batch_size"], parameters=arguments["parameters"],
        shuffle=arguments["shuffle"], seed=arguments["seed"], output=arguments["output"],
        weights=network.weights(), edited_keys=_editable_keys(network),
    )  # fmt: skip
    return compile_initial_training(network, run, arguments, batches, {}, Target())


def prepare_teaching(
    network: Network, teach: Any, max_bytes: int
) -> tuple[TeachingRecord, dict[str, memoryview]]:
    """Return a page's teaching record, and its blobs by name.

    `teach` is a Viewer's record and lesson, or the classes, or a mapping with the arguments of
    `viewer.teach`. Raises as `viewer.teach`; InputError for invalid arguments, and for more than
    `max_bytes` bytes.
    """
    if isinstance(teach, tuple) and teach and isinstance(teach[0], TeachingRecord):
        record, lesson = teach
    else:
        arguments: dict[str, Any] = {"classes": (), "cut": None, "examples": None, "head": None}
        given = teach if isinstance(teach, Mapping) else {"classes": teach}
        for name in given:
            if name not in arguments:
                raise InputError(
                    f"teach: unknown class {name!r}{suggest_names(str(name), arguments)}; the "
                    f"classes are {', '.join(arguments)}"
                )
        arguments |= given
        features = FeatureExtractor(network, arguments["cut"])
        if network.plan.header.batch > 1:
            network.reduce_to_one_example()
        features.ensure_observed()
        record = features.to_record("page")
        lesson = features.make_lesson(
            arguments["classes"], arguments["examples"], arguments["head"]
        )
    listing = msgspec.json.encode(lesson.snapshot(0, {}))
    blobs = {"page.1": memoryview(listing)}
    blobs |= {name: memoryview(data) for name, data in lesson.blobs()}
    if (size := sum(map(len, blobs.values()))) > max_bytes:
        raise InputError(
            f"teach: the examples have {size:,} bytes; an exported page takes at most "
            f"{max_bytes:,}. Give fewer"
        )
    return record, blobs
