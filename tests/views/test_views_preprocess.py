"""Preprocessing steps before a model, in a page: stages, table, graph, explanations, values."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from PIL import Image
from playwright.sync_api import expect

import nbglcnn
from assertions import assert_all_equal
from nbglcnn import Preprocess, Session
from preprocessing import STD, small_resnet, tensorflow_model
from views_page import ViewsPage, parse_number

ShowViews = Callable[..., ViewsPage]
PICTURE = Image.fromarray(np.random.default_rng(8).integers(0, 256, (18, 14, 3), np.uint8))
PREPROCESS = Preprocess(range=(0, 255), channels="BGR", mean=(123.5, 7.25, 103), std=57.5)
READ_VALUE_SCRIPT = "k => views.state.session.value.read(k).then((v) => [...v])"
FORMULAS = ("x · 255", "", "(x − 7.25) / 57.5")


def open_views(show: ShowViews, model: object, preprocess: Preprocess) -> tuple[ViewsPage, dict]:
    plan = nbglcnn.compile(model, PICTURE, preprocess=preprocess)
    with Session(plan) as session:
        found = dict(session.run(PICTURE))
    return show(plan, found[plan.inputs[0].key]), found


def test_the_steps_are_a_stage_in_front_and_each_is_explained(show: ShowViews) -> None:
    views, found = open_views(show, small_resnet(), PREPROCESS)
    page = views.page
    stage = page.get_by_role("button", name="preprocess.range–normalize")
    expect(stage).to_be_visible()
    for word in ("Range", "BGR", "Normalize"):
        expect(page.get_by_role("button", name=word, exact=True)).to_be_visible()
    names = ("preprocess.range", "preprocess.channels", "preprocess.normalize")
    for name, formula in zip(names, FORMULAS, strict=True):
        views.open_layer(name, 1)
        views.set(layerSection="explain", pixel={"mapHeight": 18, "mapWidth": 14, "y": 5, "x": 3})
        views.wait_idle()
        question = page.locator(".nbg-question")
        expect(question).to_contain_text(f"Why is {name},")
        expect(page.locator(".nbg-layer")).to_contain_text(formula)
        expect(page.locator(".nbg-layer")).not_to_contain_text("Difference from rounding")
        said = parse_number(question.inner_text().split("=")[-1])
        assert said == pytest.approx(float(found[name][0, 1, 5, 3]), rel=1e-2)


def test_a_page_computes_what_a_session_does(show: ShowViews) -> None:
    views, found = open_views(show, tensorflow_model(), Preprocess(std=STD, layout="NHWC"))
    plan_keys = ["preprocess.normalize", "preprocess.layout", "y"]
    read = {}
    for key in plan_keys:
        numbers = views.page.evaluate(READ_VALUE_SCRIPT, key)
        read[key] = np.array(numbers, np.float32).reshape(found[key].shape)
    assert_all_equal(read, {key: found[key] for key in plan_keys})
    views.open_layer("preprocess.layout")
    views.set(layerSection="explain")
    views.wait_idle()


def test_grey_is_explained_as_the_sum_that_it_is(show: ShowViews) -> None:
    torch.manual_seed(0)
    views, _ = open_views(show, small_resnet(1), Preprocess(channels="grey", mean=0.5))
    for name in ("preprocess.channels", "preprocess.normalize"):
        views.open_layer(name, 0)
        views.set(layerSection="explain", pixel={"mapHeight": 18, "mapWidth": 14, "y": 5, "x": 3})
        views.wait_idle()
        expect(views.page.locator(".nbg-layer")).to_contain_text("preprocess.channels")
