"""Class names: accepted and refused values, the reasons, and the sources of names."""

import enum
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from torch import nn
from traitlets import TraitError

import nbglcnn
from nbglcnn import InputError, Viewer, class_names
from nbglcnn.class_names import (
    MAX_NAME_LENGTH,
    MAX_TEXT_LENGTH,
    clean_name,
    fit_to_outputs,
    parse_names,
    to_class_names,
)
from onnx_models import model_of, node, randn

CLASS_NAMES = ("cat", "dog", "bird")


class FakeTorchvisionWeights(enum.Enum):
    """Like torchvision's weights enums: a member's meta has the names."""

    DEFAULT = "v1"

    @property
    def meta(self) -> dict[str, Any]:
        return {"categories": list(CLASS_NAMES)}


@pytest.mark.parametrize(
    "given",
    [
        list(CLASS_NAMES),
        CLASS_NAMES,
        np.array(CLASS_NAMES),
        {0: "cat", 2: "bird", 1: "dog"},
        {"0": "cat", "1": "dog", "2": "bird"},
        {np.int64(k): name for k, name in enumerate(CLASS_NAMES)},
        FakeTorchvisionWeights.DEFAULT,
    ],
    ids=lambda given: type(given).__name__,
)
def test_names_are_a_list_a_dict_by_index_or_weights(given: Any) -> None:
    assert to_class_names(given) == CLASS_NAMES


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("cat,dog,bird", "a string, 'cat,dog,bird'"),
        (b"cat", "a string"),
        (3, "of type int"),
        ({"cat", "dog"}, "of type set, which has no order"),
        (["cat", 7], r"classes\[1\] is 7, of type int.*\[str\(name\) for name in classes\]"),
        (np.zeros(3), r"classes\[0\] is 0\.0"),
        ({"cat": 0, "dog": 1}, r"the key 'cat'.*\{index: name for name, index in"),
        ({-1: "cat"}, "the key '-1'"),
        ({2**40: "cat"}, "the key '1099511627776'"),
        ({0: None}, r"classes\[0\] is None"),
        (
            FakeTorchvisionWeights,
            r"the enum FakeTorchvisionWeights itself; .* FakeTorchvisionWeights\.DEFAULT",
        ),
        (type("W", (), {"meta": {"size": 3}})(), r"whose \.meta has no 'categories'"),
    ],
)
def test_what_is_no_list_of_names_is_named_with_what_would_be(given: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        to_class_names(given)


def test_a_name_is_one_short_line_of_plain_text() -> None:
    assert clean_name("a\n\t b\r\nc") == "a b c"
    assert clean_name("\u202eevil\u2066 \x00\x1b[31mred\ud800") == "evil [31mred"
    assert clean_name("<b>bold</b>") == "<b>bold</b>"  # text is displayed as text
    assert clean_name("x" * 10**6) == "x" * (MAX_NAME_LENGTH - 1) + "…"
    assert clean_name("Löwe, 狮子 🦁") == "Löwe, 狮子 🦁"
    assert to_class_names(["a\nb"]) == ("a b",)


def test_names_fit_an_output_or_the_error_says_what_there_is() -> None:
    assert fit_to_outputs(CLASS_NAMES, {"output": 3}) == CLASS_NAMES
    assert fit_to_outputs(CLASS_NAMES, {"output[0]": 5, "output[1]": 3}) == CLASS_NAMES
    assert fit_to_outputs(("cat", "", "bird"), {"output": 5}, allow_partial=True) == (
        "cat",
        "",
        "bird",
        "",
        "",
    )
    for names, some, words in (
        (CLASS_NAMES, False, r"3 names, but output has 1,000: give one name for each value.*dict"),
        (("cat",), False, "1 name, but output has 1,000"),
        (("",) * 1000 + ("x",), True, "index 1,000, but output has 1,000:.*counted from 0"),
    ):
        with pytest.raises(InputError, match=words):
            fit_to_outputs(names, {"output": 1000}, allow_partial=some)


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(CLASS_NAMES),
        json.dumps(dict(enumerate(CLASS_NAMES))),
        str(dict(enumerate(CLASS_NAMES))),  # as ultralytics writes it
        str(list(CLASS_NAMES)),
        str(CLASS_NAMES),
        "{0: \"cat\", 1: 'dog',\n 2: 'bird',}",
    ],
)
def test_a_files_names_are_json_or_a_python_literal(text: str) -> None:
    assert parse_names(text) == CLASS_NAMES


def test_quotes_in_a_files_names_stay() -> None:
    names = ("don't", 'a "b"', "c\\d", "e, 1: 'f'", "jack-o'-lantern", "Löwe")
    assert parse_names(str(dict(enumerate(names)))) == names
    assert parse_names(json.dumps(names)) == names
    assert parse_names(r"{0: 'L\xf6we', 1: 'a\tb', 2: '\U0001f981', 3: '\Uffffffff'}") == (
        "Löwe",
        "a b",
        "🦁",
        "",
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "cats and dogs",
        "3",
        "[1, 2]",
        "{'a': 'b'}",
        "{0: ['a']}",
        "{0: 'a'",
        "{0: f'{print(1)}'}",
        "[__import__('os').system('true')]",
        "[" * 10**6,
        "(" * 10**6,
        "{0: " * 10**5,
        "[" + "-" * 10**6 + "1]",
        '["' + "a" * (MAX_TEXT_LENGTH + 1) + '"]',
        "{0: '" + "\\" * 10**6,
        "[9" + "9" * 10**5 + "]",
        "{99999999: 'a'}",
    ],
    ids=lambda text: f"{text[:12]}… {len(text)}",
)
def test_what_a_file_says_otherwise_is_ignored(text: str) -> None:
    assert parse_names(text) == ()


def classifier(count: int = 3, **metadata: str) -> onnx.ModelProto:
    model = model_of(
        [node("Gemm", ["x", "w"], ["y"])],
        {"x": (2, 4)},
        ["y"],
        constants={"w": randn(4, count)},
    )
    onnx.helper.set_model_props(model, metadata)
    return model


def test_an_onnx_file_names_its_classes_itself() -> None:
    for key in ("names", "classes", "labels"):
        assert Viewer(classifier(**{key: str(dict(enumerate(CLASS_NAMES)))})).classes == CLASS_NAMES
    first = classifier(
        labels='["x", "y", "z"]', names="what it likes", classes=json.dumps(CLASS_NAMES)
    )
    assert Viewer(first).classes == CLASS_NAMES
    assert Viewer(classifier()).classes == ()
    # A detector's four box coordinates precede its classes, so the names don't apply.
    assert Viewer(classifier(7, names=json.dumps(CLASS_NAMES))).classes == ()


def test_given_names_go_before_the_files_own_and_none_brings_those_back() -> None:
    viewer = Viewer(classifier(names=json.dumps(CLASS_NAMES)), classes=["a", "b", "c"])
    assert viewer.classes == ("a", "b", "c")
    viewer.classes = {1: "only"}
    assert viewer.classes == ("", "only", "")
    viewer.classes = []
    assert viewer.classes == ()
    viewer.classes = None
    assert viewer.classes == CLASS_NAMES


@pytest.fixture(scope="module")
def viewer() -> Iterator[Viewer]:
    viewer = Viewer(classifier())
    yield viewer
    viewer.close()


def test_classes_can_be_set_later_and_what_does_not_fit_changes_nothing(viewer: Viewer) -> None:
    seen = []
    viewer.observe(lambda change: seen.append(change["new"]), "classes")
    viewer.classes = FakeTorchvisionWeights.DEFAULT
    assert viewer.classes == CLASS_NAMES and seen == [CLASS_NAMES]
    for wrong in (["a"], "abc", {"a": 0}):
        with pytest.raises(TraitError, match="classes"):
            viewer.classes = wrong
    assert viewer.classes == viewer.network.classes == CLASS_NAMES
    offered = viewer.network.build_manifest()
    assert json.loads(bytes(offered.blobs[offered.class_names_hash])) == list(CLASS_NAMES)
    viewer.classes = ()
    assert viewer.network.build_manifest().class_names_hash == ""


def test_pages_get_the_names_and_no_trait_of_a_saved_notebook_has_them(viewer: Viewer) -> None:
    viewer.classes = CLASS_NAMES
    assert "classes" not in viewer.get_state() and "bird" not in repr(viewer.get_state())
    revision = viewer._connection.revision
    viewer.set_state({"classes": ["x", "y", "z"]})  # read-only for pages
    assert viewer.classes == CLASS_NAMES and viewer._connection.revision == revision


def test_wrong_names_are_said_before_anything_is_compiled() -> None:
    with pytest.raises(InputError, match="classes is a string"):
        Viewer(nn.Linear(4, 3), classes="cat")  # without x, whose absence is the next error
    with pytest.raises(InputError, match="4 names, but y has 3"):
        Viewer(classifier(), classes=list("abcd"))


def test_a_comparison_takes_names_or_has_those_of_either() -> None:
    mine, other = classifier(names=json.dumps(CLASS_NAMES)), classifier(names='["x", "y", "z"]')
    plain, x = classifier(), randn(2, 4)
    assert nbglcnn.compare(plain, plain, x, classes=CLASS_NAMES).classes == CLASS_NAMES
    assert nbglcnn.compare(mine, plain, x).classes == CLASS_NAMES
    assert nbglcnn.compare(plain, mine, x).classes == CLASS_NAMES
    assert nbglcnn.compare(mine, mine, x).classes == CLASS_NAMES
    assert nbglcnn.compare(mine, other, x).classes == ()
    assert nbglcnn.compare(Viewer(plain, x, classes=CLASS_NAMES), other, x).classes == ()
    named = Viewer(plain, x, classes=CLASS_NAMES)
    assert nbglcnn.compare(named, plain).classes == CLASS_NAMES
    with pytest.raises(InputError, match=r"A\.y has 3 and B\.y has 3"):
        nbglcnn.compare(plain, plain, x, classes=["a"])


def test_a_name_has_a_hundred_letters_at_most() -> None:
    assert MAX_NAME_LENGTH == 100
    assert clean_name("x" * MAX_NAME_LENGTH) == "x" * MAX_NAME_LENGTH
    assert clean_name("x" * (MAX_NAME_LENGTH + 1)) == "x" * (MAX_NAME_LENGTH - 1) + "…"


def test_a_list_or_an_index_has_its_most(monkeypatch: pytest.MonkeyPatch) -> None:
    assert class_names.MAX_NAMES == 2**20
    monkeypatch.setattr(class_names, "MAX_NAMES", 3)
    assert to_class_names(["a"] * 3) == ("a",) * 3
    assert to_class_names({2: "c", "1": "b"}) == ("", "b", "c")
    for wrong in (["a"] * 4, {3: "d"}, {"3": "d"}, {-1: "d"}):
        with pytest.raises(InputError):
            to_class_names(wrong)


def test_names_of_a_dict_may_be_fewer_than_the_outputs_and_no_more() -> None:
    assert fit_to_outputs(("a",), {"one": 1, "two": 2}, allow_partial=True) == ("a",)
    assert fit_to_outputs(("a", "b"), {"one": 1, "two": 3}, allow_partial=True) == ("a", "b", "")
    for some in (False, True):
        with pytest.raises(InputError):
            fit_to_outputs(("a", "b", "c"), {"one": 1, "two": 2}, allow_partial=some)
