from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.api.wire.codec import DecodeError
from trimtab.api.wire.selector_text import decode_selector_text
from trimtab.core.model.selectors import LabelRequirement, Operator, Selector, format_selector

KEYS = st.sampled_from(["app", "tier", "app.kubernetes.io/name", "in", "notin"])
WORDS = st.sampled_from(["web", "a.b", "1", "x_y", "in"])


@st.composite
def requirements(draw: st.DrawFn) -> LabelRequirement:
    operator = draw(st.sampled_from(Operator))
    takes_values = operator in (Operator.IN, Operator.NOT_IN)
    values = draw(st.sets(WORDS, min_size=1)) if takes_values else ()
    return LabelRequirement(draw(KEYS), operator, tuple(sorted(values)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("app=web", ("app", Operator.IN, ("web",)), id="equal"),
        pytest.param("app == web", ("app", Operator.IN, ("web",)), id="equal, twice and spaced"),
        pytest.param("app=", ("app", Operator.IN, ("",)), id="equal to nothing"),
        pytest.param("app!=web", ("app", Operator.NOT_IN, ("web",)), id="not equal"),
        pytest.param("app in (b, a)", ("app", Operator.IN, ("a", "b")), id="one of several"),
        pytest.param("app notin(a)", ("app", Operator.NOT_IN, ("a",)), id="none of several"),
        pytest.param("app", ("app", Operator.EXISTS, ()), id="there"),
        pytest.param(" ! app ", ("app", Operator.DOES_NOT_EXIST, ()), id="not there"),
        pytest.param("in in (in)", ("in", Operator.IN, ("in",)), id="a key named like a word"),
        pytest.param("app in (,)", ("app", Operator.IN, ("",)), id="an empty value in a list"),
    ],
)
def test_each_form_of_a_requirement_is_read(
    text: str, expected: tuple[str, Operator, tuple[str, ...]]
) -> None:
    assert decode_selector_text(text, "x") == Selector((LabelRequirement(*expected),))


def test_several_requirements_are_all_kept_in_their_order() -> None:
    selector = decode_selector_text("app=web, tier in (a,b),!old", "x")

    assert [requirement.key for requirement in selector.requirements] == ["app", "tier", "old"]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("app=web,", id="a comma at the end"),
        pytest.param(",app", id="a comma at the start"),
        pytest.param("app in (a", id="an open list"),
        pytest.param("app in ()", id="an empty list"),
        pytest.param("app>1", id="an order that pods are not selected by"),
        pytest.param("app web", id="two words"),
        pytest.param("app=a b", id="a value of two words"),
        pytest.param("-app=web", id="a key that is no label key"),
        pytest.param("app in (a b)", id="a listed value that is no label value"),
        pytest.param("!", id="a denial of nothing"),
        pytest.param(" ", id="a blank"),
    ],
)
def test_text_that_is_no_selector_is_refused_and_shown(text: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_selector_text(text, "status.selector")

    assert caught.value.path == "status.selector"
    assert repr(text) in caught.value.problem


@given(st.lists(requirements(), min_size=1, max_size=4))
def test_a_formatted_selector_is_read_back_as_the_same(found: list[LabelRequirement]) -> None:
    ordered = Selector(tuple(sorted(found, key=lambda requirement: requirement.key)))

    assert decode_selector_text(format_selector(ordered), "x") == ordered


@given(st.text(alphabet="ab=!,() intow", max_size=20))
def test_any_text_is_a_selector_or_a_decode_error(text: str) -> None:
    with suppress(DecodeError):
        assert isinstance(decode_selector_text(text, "x"), Selector)
