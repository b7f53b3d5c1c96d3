from collections.abc import Iterator
from itertools import combinations_with_replacement, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.core.model import selectors
from trimtab.core.model.selectors import LabelRequirement, Operator, Overlap, Selector

IN, NOT_IN = Operator.IN, Operator.NOT_IN
EXISTS, DOES_NOT_EXIST = Operator.EXISTS, Operator.DOES_NOT_EXIST

KEYS = ("env", "role", "zone")
VALUES = ("a", "b")
OTHER = "any value that no selector names"


def a_selector(*requirements: LabelRequirement, **labels: str) -> Selector:
    equalities = (selectors.equality(key, value) for key, value in labels.items())
    return Selector((*equalities, *requirements))


def role(operator: Operator, *values: str) -> LabelRequirement:
    return LabelRequirement("role", operator, values)


def universe() -> Iterator[dict[str, str]]:
    """Every label map that selectors over KEYS and VALUES can tell apart."""
    for states in product((None, *VALUES, OTHER), repeat=len(KEYS)):
        pairs = zip(KEYS, states, strict=True)
        yield {key: state for key, state in pairs if state is not None}


UNIVERSE = tuple(universe())


def matched(selector: Selector) -> frozenset[int]:
    return frozenset(index for index, labels in enumerate(UNIVERSE) if selector.matches(labels))


some_values = st.lists(st.sampled_from(VALUES), min_size=1, max_size=3).map(tuple)
requirements = st.one_of(
    st.builds(LabelRequirement, st.sampled_from(KEYS), st.sampled_from([IN, NOT_IN]), some_values),
    st.builds(LabelRequirement, st.sampled_from(KEYS), st.sampled_from([EXISTS, DOES_NOT_EXIST])),
    st.builds(selectors.equality, st.sampled_from(KEYS), st.sampled_from(VALUES)),
)
any_selector = st.lists(requirements, max_size=5).map(tuple).map(Selector)


@given(any_selector, any_selector)
def test_two_selectors_are_disjoint_exactly_if_no_labels_match_both(
    one: Selector, other: Selector
) -> None:
    common = matched(one) & matched(other)

    assert selectors.disjoint(one, other) == (not common)
    assert selectors.disjoint(other, one) == (not common)


@given(any_selector)
def test_an_excluding_requirement_keeps_others_apart(selector: Selector) -> None:
    example = selectors.excluding_requirement(selector)

    assert (example is None) == (not selector.requirements)
    if example is not None:
        assert selectors.disjoint(selector, Selector((example,)))


@given(any_selector)
def test_a_selector_is_satisfiable_exactly_if_some_labels_match(selector: Selector) -> None:
    assert selectors.is_satisfiable(selector) == bool(matched(selector))


@given(any_selector)
def test_a_folded_selector_matches_the_same_labels(selector: Selector) -> None:
    plain = matched(selector)
    selector.fold()

    assert matched(selector) == plain


def test_a_selector_with_many_values_matches_the_same_the_second_time() -> None:
    selector = a_selector(role(NOT_IN, *map(str, range(100))))

    for _ in range(2):
        assert not selector.matches({"role": "99"})
        assert selector.matches({"role": "100"})
        assert selector.matches({})


@given(any_selector, any_selector)
def test_fingerprints_are_equal_exactly_if_the_same_pods_match(
    one: Selector, other: Selector
) -> None:
    same_print = selectors.fingerprint(one) == selectors.fingerprint(other)

    assert same_print == (matched(one) == matched(other))


@given(any_selector)
def test_the_order_of_requirements_means_nothing(selector: Selector) -> None:
    turned = Selector(selector.requirements[::-1])

    assert matched(turned) == matched(selector)
    assert selectors.fingerprint(turned) == selectors.fingerprint(selector)
    assert selectors.is_satisfiable(turned) == selectors.is_satisfiable(selector)


@given(any_selector, any_selector)
def test_an_overlap_is_found_in_both_directions_alike(one: Selector, other: Selector) -> None:
    found = selectors.find_overlap(one, other)

    assert selectors.find_overlap(other, one) == found
    if found is None:
        assert not matched(one) & matched(other)


@pytest.mark.parametrize("states", list(product(VALUES, repeat=2)))
@pytest.mark.parametrize("operators", list(product(Operator, repeat=2)))
def test_every_pair_of_operators_is_judged_as_brute_force_does(
    operators: tuple[Operator, Operator], states: tuple[str, str]
) -> None:
    one, other = (
        a_selector(role(operator, *([value] if operator in (IN, NOT_IN) else [])))
        for operator, value in zip(operators, states, strict=True)
    )

    assert selectors.disjoint(one, other) == (not matched(one) & matched(other))


def all_selectors() -> list[Selector]:
    """Every selector of at most two requirements over two keys and two values."""
    sets = (("a",), ("b",), ("a", "b"))
    about = [
        *(
            LabelRequirement(key, operator, values)
            for key, operator, values in (product(KEYS[:2], (IN, NOT_IN), sets))
        ),
        *(
            LabelRequirement(key, operator)
            for key, operator in (product(KEYS[:2], (EXISTS, DOES_NOT_EXIST)))
        ),
    ]
    pairs = combinations_with_replacement(about, 2)
    return [Selector(), *(Selector((one,)) for one in about), *map(Selector, pairs)]


def test_in_a_small_universe_every_two_selectors_are_judged_as_brute_force_does() -> None:
    everything = [(selector, matched(selector)) for selector in all_selectors()]
    wrong = [
        (one, other)
        for (one, ours), (other, theirs) in product(everything, repeat=2)
        if selectors.disjoint(one, other) != (not ours & theirs)
    ]

    assert len(everything) == 1 + 16 + 16 * 17 / 2
    assert wrong == []


LEADER, FOLLOWER = a_selector(role="leader"), a_selector(role="follower")
AMBIGUOUS, CATCH_ALL = Overlap.NO_EXCLUDING_KEY, Overlap.CATCH_ALL


@pytest.mark.parametrize(
    ("one", "other", "overlap"),
    [
        pytest.param(LEADER, FOLLOWER, None, id="two roles"),
        pytest.param(
            a_selector(role(IN, "a", "b")), a_selector(role(IN, "c")), None, id="lists apart"
        ),
        pytest.param(
            a_selector(role(IN, "a", "b")),
            a_selector(role(IN, "b", "c")),
            AMBIGUOUS,
            id="lists that share a value",
        ),
        pytest.param(
            LEADER, a_selector(role(NOT_IN, "leader")), None, id="a role and all other pods"
        ),
        pytest.param(
            a_selector(role(EXISTS)),
            a_selector(role(DOES_NOT_EXIST)),
            None,
            id="with any role and with none",
        ),
        pytest.param(
            a_selector(role(NOT_IN, "a")),
            a_selector(role(NOT_IN, "b")),
            AMBIGUOUS,
            id="two exclusions leave other values",
        ),
        pytest.param(LEADER, a_selector(env="prod"), AMBIGUOUS, id="different keys"),
        pytest.param(
            a_selector(role="leader", env="prod"),
            a_selector(role="leader", env="dev"),
            None,
            id="apart by the second key",
        ),
        pytest.param(
            a_selector(role="leader", zone="x"), FOLLOWER, None, id="apart by the key they share"
        ),
        pytest.param(None, LEADER, CATCH_ALL, id="no selector beside a role"),
        pytest.param(
            a_selector(role(DOES_NOT_EXIST)),
            a_selector(role(NOT_IN, "leader")),
            AMBIGUOUS,
            id="both take pods without the label",
        ),
        pytest.param(Selector(), LEADER, CATCH_ALL, id="an empty selector beside a role"),
        pytest.param(None, None, CATCH_ALL, id="no selector on either side"),
        pytest.param(LEADER, LEADER, AMBIGUOUS, id="the same selector twice"),
        pytest.param(
            a_selector(role(IN, "a", "b"), role(NOT_IN, "a")),
            a_selector(role(IN, "a")),
            None,
            id="several requirements on a key are intersected",
        ),
    ],
)
def test_selectors_may_share_a_target_only_if_proven_disjoint(
    one: Selector | None, other: Selector | None, overlap: Overlap | None
) -> None:
    assert selectors.find_overlap(one, other) == overlap
    assert selectors.find_overlap(other, one) == overlap


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        pytest.param(role(IN, "a"), ["a"], id="In wants the label"),
        pytest.param(role(IN, "a", ""), ["a", ""], id="an empty value is a value"),
        pytest.param(role(IN), [], id="In nothing matches nothing"),
        pytest.param(role(NOT_IN, "a"), ["b", "", None], id="NotIn takes an absent label"),
        pytest.param(role(EXISTS), ["a", "b", ""], id="Exists takes any value"),
        pytest.param(role(DOES_NOT_EXIST), [None], id="DoesNotExist takes only absence"),
    ],
)
def test_a_requirement_matches_by_its_operator(
    requirement: LabelRequirement, expected: list[str | None]
) -> None:
    states = ["a", "b", "", None]

    found = [
        state
        for state in states
        if requirement.matches({"app": "web"} | ({} if state is None else {"role": state}))
    ]
    assert found == expected


def test_no_selector_matches_nothing_and_an_empty_one_everything() -> None:
    labels = {"app": "web"}

    assert not selectors.matches(None, labels)
    assert selectors.matches(Selector(), labels)
    assert selectors.matches(Selector(), {})


def test_no_selector_and_an_empty_one_are_both_catch_alls_of_a_target() -> None:
    assert selectors.is_catch_all(None)
    assert selectors.is_catch_all(Selector())
    assert not selectors.is_catch_all(LEADER)


@pytest.mark.parametrize(
    "contradiction",
    [
        pytest.param([role(EXISTS), role(DOES_NOT_EXIST)], id="there and not there"),
        pytest.param([role(IN, "a"), role(IN, "b")], id="two values at once"),
        pytest.param([role(IN, "a"), role(NOT_IN, "a")], id="a value and not it"),
        pytest.param([role(IN, "a"), role(DOES_NOT_EXIST)], id="a value of an absent label"),
        pytest.param([role(EXISTS), role(NOT_IN, "a"), role(IN, "a")], id="three together"),
    ],
)
def test_a_contradiction_matches_nothing_and_is_disjoint_from_everything(
    contradiction: list[LabelRequirement],
) -> None:
    selector = Selector(tuple(contradiction))

    assert not selectors.is_satisfiable(selector)
    assert selectors.disjoint(selector, selector)
    assert selectors.disjoint(selector, Selector())


def test_all_pods_have_no_fingerprint() -> None:
    assert selectors.fingerprint(None) is None
    assert selectors.fingerprint(Selector()) is None


def test_a_fingerprint_stays_the_same_from_release_to_release() -> None:
    # It is kept in stored objects: were it to change, every checkpoint would be thrown away.
    selector = a_selector(role(NOT_IN, "leader"), env="prod")

    assert (
        selectors.fingerprint(selector)
        == "8e832336ba3becfa8db24b50671df2a5b8cb8d0f988fbe38c45f8ef9098f7ae8"
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(LEADER, a_selector(role(IN, "leader")), id="equality and a list of one"),
        pytest.param(
            a_selector(role(IN, "a", "b", "a")),
            a_selector(role(IN, "b", "a")),
            id="repeated values",
        ),
        pytest.param(
            a_selector(role(IN, "a", "b"), role(NOT_IN, "b")), a_selector(role="a"), id="folded"
        ),
        pytest.param(
            a_selector(role(EXISTS), role(IN, "a")), a_selector(role="a"), id="implied existence"
        ),
    ],
)
def test_spellings_of_one_meaning_share_a_fingerprint(one: Selector, other: Selector) -> None:
    assert selectors.fingerprint(one) == selectors.fingerprint(other)


def test_a_separator_inside_a_value_does_not_confuse_fingerprints() -> None:
    one, other = a_selector(role(IN, "a,b")), a_selector(role(IN, "a", "b"))

    assert selectors.fingerprint(one) != selectors.fingerprint(other)


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        pytest.param(None, "", id="no selector"),
        pytest.param(Selector(), "", id="an empty selector"),
        pytest.param(a_selector(zone="x", app="web"), "app=web,zone=x", id="labels by key"),
        pytest.param(a_selector(role(IN, "b", "a")), "role in (a,b)", id="sorted values"),
        pytest.param(a_selector(role(NOT_IN, "a")), "role notin (a)", id="an exclusion"),
        pytest.param(a_selector(role(EXISTS), role(DOES_NOT_EXIST)), "role,!role", id="existence"),
        pytest.param(
            a_selector(role(IN, "b"), role="a"), "role=a,role in (b)", id="labels before lists"
        ),
    ],
)
def test_a_selector_prints_as_kubectl_takes_it(selector: Selector | None, text: str) -> None:
    assert selectors.format_selector(selector) == text
