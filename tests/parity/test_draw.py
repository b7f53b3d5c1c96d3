"""Drawn questions: repeatable, and in the format of the recorded files."""

import json

import pytest

from oracle.draw import DRAWS, draw

every_set = pytest.mark.parametrize("set_name", sorted(DRAWS))


@every_set
def test_the_same_seed_draws_the_same_cases_however_many_are_asked_for(set_name: str) -> None:
    few = json.loads(draw(set_name, count=3, seed=7))["cases"]
    many = json.loads(draw(set_name, count=20, seed=7))["cases"]

    assert many[:3] == few


@every_set
def test_another_seed_draws_other_cases_under_other_names(set_name: str) -> None:
    one = json.loads(draw(set_name, count=20, seed=1))["cases"]
    other = json.loads(draw(set_name, count=20, seed=2))["cases"]

    assert {case["name"] for case in one}.isdisjoint(case["name"] for case in other)
    assert [case["input"] for case in one] != [case["input"] for case in other]


@every_set
def test_a_drawn_file_has_one_question_per_line_and_no_answer(set_name: str) -> None:
    text = draw(set_name, count=5, seed=1)
    lines = text.splitlines()[2:-1]

    assert json.loads(text)["set"] == set_name
    assert [set(json.loads(line.rstrip(","))) for line in lines] == [{"name", "input"}] * 5
