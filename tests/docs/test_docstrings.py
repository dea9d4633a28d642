"""Public docstrings are complete: every parameter, every result and every field is documented."""

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from functools import cached_property
from importlib import import_module
from typing import Any

import msgspec
import pytest
import traitlets

import nbglcnn
from nbglcnn import channels, losses, transforms
from nbglcnn.datasets import fashion_mnist
from nbglcnn.features.compare.comparison import Comparison
from nbglcnn.plan import schema

# The objects that users import, by public name.
IMPORTED_CLASSES: dict[str, Any] = {
    **{f"nbglcnn.{name}": getattr(nbglcnn, name) for name in nbglcnn.__all__},
    **{f"nbglcnn.channels.{name}": getattr(channels, name) for name in channels.__all__},
    **{f"nbglcnn.transforms.{name}": getattr(transforms, name) for name in transforms.__all__},
    **{f"nbglcnn.losses.{name}": getattr(losses, name) for name in ("Loss", *losses._LOSSES)},
    "nbglcnn.datasets.fashion_mnist": fashion_mnist,
}

# The classes of the objects that public calls return.
RETURNED_CLASSES = (
    "features.compare.comparison.Comparison",
    "features.compare.host.Difference",
    "features.edits.bends.Bend",
    "features.edits.bends.Bends",
    "features.edits.records.Edit",
    "features.latent.latent.LatentCodes",
    "features.mirror.mirror.Mirror",
    "features.teaching.teaching.Teaching",
    "features.training.live_training.LiveTraining",
    "features.training.result.Training",
    "inputs.preprocess.PreprocessStep",
    "plan.layers.Layers",
    "report.Change",
    "report.Match",
    "report.Report",
    "report.Support",
    "runtime.profiling.LayerTime",
    "runtime.profiling.Profile",
    "widget.activations.Activations",
)
METHODS_CALLED_BY_OPERATOR = ("__call__",)  # underscore methods that need a docstring
IMPLICIT_PARAMETERS = ("self", "cls")


def docstring_sections(text: str) -> dict[str, str]:
    """The Google sections of a docstring, by their titles."""
    parts = re.split(r"^(Args|Attributes|Returns|Raises|Example):\n", text, flags=re.M)
    return {title: body.split("\n\n")[0] for title, body in zip(parts[1::2], parts[2::2])}  # noqa: B905


def documented_names(body: str) -> set[str]:
    """The names that a section documents."""
    return {one.lstrip("*") for one in re.findall(r"^    (\*{0,2}\w+): \S", body, re.M)}


def public_parameters(function: Callable[..., Any]) -> set[str]:
    """The public parameters of a function or constructor."""
    own = inspect.signature(function).parameters
    return {name for name in own if name not in IMPLICIT_PARAMETERS and not name.startswith("_")}


def public_fields(cls: type) -> set[str]:
    """The public fields of a record class."""
    if issubclass(cls, msgspec.Struct):
        return set(cls.__struct_fields__)
    return {name for name in vars(cls).get("__dataclass_fields__", ()) if name[0] != "_"}


def returned_objects() -> Iterator[tuple[str, Any]]:
    for path in RETURNED_CLASSES:
        module_name, _, name = path.rpartition(".")
        yield f"nbglcnn.{path}", getattr(import_module(f"nbglcnn.{module_name}"), name)
    for name, one in vars(schema).items():  # the records of a Plan
        if inspect.isclass(one) and one.__module__.startswith("nbglcnn") and public_fields(one):
            yield f"nbglcnn.plan.schema.{name}", one


def public_members(cls: type) -> Iterator[tuple[str, Any]]:
    """Yield the methods and properties of a class that nbglcnn defines."""
    for owner in cls.__mro__:
        if not owner.__module__.startswith("nbglcnn"):
            continue
        for name, member in vars(owner).items():
            is_public = not name.startswith("_") or name in METHODS_CALLED_BY_OPERATOR
            if not is_public or inspect.getattr_static(cls, name) is not member:
                continue
            if isinstance(member, classmethod | staticmethod):
                yield name, member.__func__
            elif isinstance(member, property | cached_property) or inspect.isfunction(member):
                yield name, member


def public_objects() -> dict[str, Any]:
    """All public functions, classes, methods and properties, by name."""
    found = {}
    for name, one in (*IMPORTED_CLASSES.items(), *returned_objects()):
        found[name] = one
        if inspect.isclass(one):
            found |= {f"{name}.{member}": value for member, value in public_members(one)}
    return found


def public_traits(cls: type) -> set[str]:
    """The public traits of a class that nbglcnn defines."""
    own = (vars(one) for one in cls.__mro__ if one.__module__.startswith("nbglcnn"))
    return {
        name
        for values in own
        for name, one in values.items()
        if isinstance(one, traitlets.TraitType) and not name.startswith("_")
    }


def is_record(cls: type) -> bool:
    """Whether only nbglcnn creates instances: the docstring lists Attributes, not Args."""
    return bool(public_fields(cls)) and cls not in IMPORTED_CLASSES.values()


def returns_something(function: Callable[..., Any]) -> bool:
    """Whether the result of a function is annotated and not None."""
    found = inspect.signature(function).return_annotation
    return found not in (None, "None", inspect.Signature.empty)


def missing_docstring_parts(public_object: Any) -> list[str]:
    """The parts that a public object's docstring lacks."""
    text = inspect.getdoc(public_object) or ""
    if not text:
        return ["has no docstring"]
    found = []
    summary, _, rest = text.partition("\n")
    if not summary.endswith(".") or rest[:1] not in ("", "\n"):
        found.append(f"has no one-line summary that ends in a full stop, but {summary!r}")
    parts = docstring_sections(text)
    if isinstance(public_object, property | cached_property):
        return found
    if inspect.isclass(public_object):
        if issubclass(public_object, BaseException) or public_object is Comparison:
            return found  # errors are raised; `compare` makes Comparisons
        title = "Attributes" if is_record(public_object) else "Args"
        needed = (
            public_fields(public_object)
            if title == "Attributes"
            else public_parameters(public_object)
        )
        attributes = documented_names(parts.get("Attributes", ""))
        found += [
            f"lacks {name} in Attributes"
            for name in sorted(public_traits(public_object) - attributes)
        ]
    else:
        title, needed = "Args", public_parameters(public_object)
        if returns_something(public_object) and "Returns" not in parts:
            found.append("has no Returns")
        if not returns_something(public_object) and "Returns" in parts:
            found.append("has Returns, but returns nothing")
    known = documented_names(parts.get(title, ""))
    found += [f"lacks {name} in {title}" for name in sorted(needed - known)]
    if title == "Args":
        found += [f"has {name} in Args, but no such parameter" for name in sorted(known - needed)]
    return found


PUBLIC_OBJECTS = public_objects()


def test_the_public_objects_are_found() -> None:
    assert len(PUBLIC_OBJECTS) > 250
    assert {"nbglcnn.Viewer.bend", "nbglcnn.transforms.blur", "nbglcnn.losses.mse"} <= {
        *PUBLIC_OBJECTS
    }


@pytest.mark.parametrize("name", PUBLIC_OBJECTS)
def test_a_public_docstring_is_complete(name: str) -> None:
    assert missing_docstring_parts(PUBLIC_OBJECTS[name]) == []


@pytest.mark.parametrize("name", PUBLIC_OBJECTS)
def test_an_example_is_python(name: str) -> None:
    lines = (
        docstring_sections(inspect.getdoc(PUBLIC_OBJECTS[name]) or "")
        .get("Example", "")
        .splitlines()
    )
    code = [line.strip()[4:] for line in lines if line.strip().startswith((">>> ", "... "))]
    compile("\n".join(code), name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_a_gap_is_found() -> None:
    def complete(x: int, *rest: int, scale: float = 1.0) -> int:
        """Scale a number.

        Args:
            x: The number.
            *rest: Further numbers.
            scale: The factor.

        Returns:
            The product.
        """
        return int(x * scale)

    assert missing_docstring_parts(complete) == []
    text = complete.__doc__ or ""
    cases = {
        "            scale: The factor.\n": "lacks scale in Args",
        "            *rest: Further numbers.\n": "lacks rest in Args",
        "Returns:": "has no Returns",
        "number.\n\n        Args": "has no one-line summary",
    }
    for removed, message in cases.items():
        complete.__doc__ = text.replace(removed, "Args" if "Args" in removed else "")
        assert any(gap.startswith(message) for gap in missing_docstring_parts(complete)), message
    complete.__doc__ = text.replace("scale:", "factor:")
    assert missing_docstring_parts(complete) == [
        "lacks scale in Args",
        "has factor in Args, but no such parameter",
    ]
