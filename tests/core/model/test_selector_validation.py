from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.core.model import selector_validation, selectors
from trimtab.core.model.selector_validation import (
    Expression,
    ProblemKind,
    SelectorError,
    SelectorProblem,
)
from trimtab.core.model.selectors import LabelRequirement, Operator, Selector

INVALID, REQUIRED = ProblemKind.INVALID, ProblemKind.REQUIRED
FORBIDDEN = ProblemKind.FORBIDDEN


def test_labels_come_first_by_key_then_expressions_as_written() -> None:
    selector = selector_validation.build(
        {"zone": "x", "app": "web"},
        [Expression("tier", "NotIn", ("b", "a")), Expression("env", "Exists")],
    )

    assert selector == Selector(
        (
            selectors.equality("app", "web"),
            selectors.equality("zone", "x"),
            LabelRequirement("tier", Operator.NOT_IN, ("b", "a")),
            LabelRequirement("env", Operator.EXISTS),
        )
    )


def test_empty_parts_build_a_selector_of_everything() -> None:
    assert selector_validation.build({}, []) == Selector()
    assert selector_validation.check({}, []) == []


@pytest.mark.parametrize(
    ("labels", "expressions", "message"),
    [
        pytest.param(
            {},
            [Expression("app", "In"), Expression("app", "Nope")],
            r"values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty",
            id="only the first expression is told",
        ),
        pytest.param(
            {"app": "a b"},
            [Expression("app", "Nope")],
            r'values\[0\]\[app\]: Invalid value: "a b": a valid label must be .*',
            id="labels come before expressions",
        ),
        pytest.param(
            {},
            [Expression("a b", "Exists", ("-x", "y"))],
            r'\[key: Invalid value: "a b": .*, values: Invalid value: \["-x","y"\]: values set .*, '
            r'values\[0\]\[a b\]: Invalid value: "-x": .*\]',
            id="everything about one expression is told at once",
        ),
        pytest.param(
            {},
            [Expression("", "", ())],
            r'"" is not a valid label selector operator',
            id="the operator comes before the key",
        ),
        pytest.param(
            {"": "-"},
            [],
            r'\[key: Invalid value: "": name part must be non-empty; name part must consist .*, '
            r'values\[0\]\[\]: Invalid value: "-": .*\]',
            id="a label with both sides wrong",
        ),
    ],
)
def test_a_bad_selector_is_refused_in_the_words_of_kubernetes(
    labels: Mapping[str, str], expressions: list[Expression], message: str
) -> None:
    with pytest.raises(SelectorError, match=f"^{message}$"):
        selector_validation.build(labels, expressions)


@pytest.mark.parametrize(
    ("labels", "expressions", "expected"),
    [
        pytest.param(
            {},
            [Expression("app", "Equals", ("web",))],
            [("matchExpressions[0].operator", INVALID, "Equals")],
            id="an unknown operator",
        ),
        pytest.param(
            {},
            [Expression("app", "Exists"), Expression("app", "In")],
            [("matchExpressions[1].values", REQUIRED, "")],
            id="a list operator without values",
        ),
        pytest.param(
            {},
            [Expression("app", "DoesNotExist", ("web",))],
            [("matchExpressions[0].values", FORBIDDEN, "")],
            id="an existence operator with values",
        ),
        pytest.param(
            {"-app": "a b", "zone": "x" * 64},
            [],
            [
                ("matchLabels", INVALID, "-app"),
                ("matchLabels[-app]", INVALID, "a b"),
                ("matchLabels[zone]", INVALID, "x" * 64),
            ],
            id="labels by key",
        ),
        pytest.param(
            {},
            [Expression("", "NotIn", ("a", "-"))],
            [
                ("matchExpressions[0].key", INVALID, ""),
                ("matchExpressions[0].key", INVALID, ""),
                ("matchExpressions[0].values[1]", INVALID, "-"),
            ],
            id="two flaws of a key and one of a value",
        ),
        pytest.param(
            {"a b": "x"},
            [Expression("a b", "in", ("a b",))],
            [
                ("matchLabels", INVALID, "a b"),
                ("matchExpressions[0].operator", INVALID, "in"),
                ("matchExpressions[0].key", INVALID, "a b"),
                ("matchExpressions[0].values[0]", INVALID, "a b"),
            ],
            id="everything at once",
        ),
    ],
)
def test_every_problem_is_found_at_its_precise_path(
    labels: Mapping[str, str],
    expressions: list[Expression],
    expected: list[tuple[str, ProblemKind, str]],
) -> None:
    problems = selector_validation.check(labels, expressions)

    assert [(problem.path, problem.kind, problem.value) for problem in problems] == expected
    assert all(problem.detail for problem in problems)


def test_a_problem_tells_what_is_wrong_in_the_words_of_the_api_server() -> None:
    problems = selector_validation.check({}, [Expression("app", "In")])

    assert problems == [
        SelectorProblem(
            path="matchExpressions[0].values",
            kind=REQUIRED,
            value="",
            detail="must be specified when `operator` is 'In' or 'NotIn'",
        )
    ]


odd_text = st.sampled_from(["", "app", "a b", "x/y", "X/y", "a/b/c", "-", "v" * 64])
odd_expressions = st.builds(
    Expression,
    key=odd_text,
    operator=st.sampled_from([*Operator, "Gt", ""]),
    values=st.lists(odd_text, max_size=2).map(tuple),
)


@given(st.dictionaries(odd_text, odd_text, max_size=2), st.lists(odd_expressions, max_size=2))
def test_a_selector_is_built_exactly_if_nothing_is_wrong_with_it(
    labels: dict[str, str], expressions: list[Expression]
) -> None:
    problems = selector_validation.check(labels, expressions)
    try:
        built = selector_validation.build(labels, expressions)
    except SelectorError:
        built = None

    assert (built is None) == bool(problems)
