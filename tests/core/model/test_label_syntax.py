import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.core.model import selector_validation

NAME_PATTERN = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"


@pytest.mark.parametrize(
    "key",
    [
        pytest.param("app", id="a name"),
        pytest.param("App_1.x-y", id="all characters of a name"),
        pytest.param("app.kubernetes.io/name", id="a prefix and a name"),
        pytest.param("0/0", id="the shortest prefix"),
        pytest.param("a" * 63, id="the longest name"),
        pytest.param("a" * 253 + "/b", id="the longest prefix"),
    ],
)
def test_a_good_key_has_no_flaws(key: str) -> None:
    assert selector_validation.key_flaws(key) == []


@pytest.mark.parametrize(
    ("key", "openings"),
    [
        pytest.param("", ["name part must be non-empty", "name part must consist"], id="nothing"),
        pytest.param("a b", ["name part must consist of alphanumeric"], id="a space"),
        pytest.param("-app", ["name part must consist of alphanumeric"], id="a dash in front"),
        pytest.param("app\n", ["name part must consist of alphanumeric"], id="a line end"),
        pytest.param("a" * 64, ["name part must be no more than 63 bytes"], id="a long name"),
        pytest.param(
            "é" * 32,
            ["name part must be no more than 63 bytes", "name part must consist"],
            id="length is counted in bytes",
        ),
        pytest.param("/app", ["prefix part must be non-empty"], id="an empty prefix"),
        pytest.param(
            "Example.com/x", ["prefix part a lowercase RFC 1123 subdomain"], id="a capital prefix"
        ),
        pytest.param(
            "a" * 254 + "/x", ["prefix part must be no more than 253 bytes"], id="a long prefix"
        ),
        pytest.param(
            "a_b/",
            ["prefix part a lowercase", "name part must be non-empty", "name part must consist"],
            id="wrong on both sides of the slash",
        ),
        pytest.param("a/b/c", ["a valid label key must consist"], id="two slashes"),
    ],
)
def test_each_flaw_of_a_key_is_told_in_order(key: str, openings: list[str]) -> None:
    flaws = selector_validation.key_flaws(key)

    assert len(flaws) == len(openings)
    assert all(flaw.startswith(start) for flaw, start in zip(flaws, openings, strict=True))


@pytest.mark.parametrize("value", ["", "a", "v1.2_3-x", "0", "A" * 63])
def test_a_good_value_has_no_flaws(value: str) -> None:
    assert selector_validation.value_flaws(value) == []


@pytest.mark.parametrize(
    ("value", "openings"),
    [
        pytest.param("a b", ["a valid label must be an empty string or"], id="a space"),
        pytest.param("a/b", ["a valid label must be an empty string or"], id="a slash"),
        pytest.param("web-", ["a valid label must be an empty string or"], id="a dash at the end"),
        pytest.param("a" * 64, ["must be no more than 63 bytes"], id="too long"),
        pytest.param(
            "-" * 64, ["must be no more than 63 bytes", "a valid label must"], id="long and wrong"
        ),
    ],
)
def test_each_flaw_of_a_value_is_told_in_order(value: str, openings: list[str]) -> None:
    flaws = selector_validation.value_flaws(value)

    assert len(flaws) == len(openings)
    assert all(flaw.startswith(start) for flaw, start in zip(flaws, openings, strict=True))


@given(st.from_regex(NAME_PATTERN, fullmatch=True, alphabet=st.characters(codec="ascii")))
def test_whatever_follows_the_pattern_and_is_short_is_a_good_key_and_value(name: str) -> None:
    short = name[:62] + "z"

    assert selector_validation.key_flaws(short) == []
    assert selector_validation.value_flaws(short) == []


@given(st.text())
def test_any_text_is_judged_as_key_and_as_value(text: str) -> None:
    is_name = bool(text) and not selector_validation.value_flaws(text)

    assert is_name == ("/" not in text and not selector_validation.key_flaws(text))
