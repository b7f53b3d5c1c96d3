import pytest

from trimtab.api.kinds.selectors import Expression, LabelSelector, convert_selector, select_labels
from trimtab.api.wire.codec import DecodeError


def test_labels_and_expressions_must_all_match() -> None:
    wire = LabelSelector(
        match_labels={"app": "web"},
        match_expressions=(Expression(key="tier", operator="NotIn", values=("old",)),),
    )
    selector = convert_selector(wire, "spec.selector")

    assert selector is not None
    assert selector.matches({"app": "web"})
    assert not selector.matches({"app": "web", "tier": "old"})
    assert not selector.matches({"tier": "new"})


def test_an_empty_selector_takes_everything_and_an_absent_one_is_none() -> None:
    empty = convert_selector(LabelSelector(), "spec.selector")

    assert empty is not None
    assert empty.matches({})
    assert convert_selector(None, "spec.selector") is None


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param(Expression(key="a", operator="Near", values=("b",)), id="unknown operator"),
        pytest.param(Expression(key="a"), id="no operator"),
        pytest.param(Expression(key="a", operator="In"), id="In without values"),
        pytest.param(
            Expression(key="a", operator="Exists", values=("b",)), id="Exists with values"
        ),
        pytest.param(Expression(operator="Exists"), id="no key"),
    ],
)
def test_a_selector_that_kubernetes_refuses_is_refused_here(expression: Expression) -> None:
    with pytest.raises(DecodeError) as caught:
        convert_selector(LabelSelector(match_expressions=(expression,)), "spec.selector")

    assert caught.value.path == "spec.selector"


def test_selecting_by_labels_needs_at_least_one_label() -> None:
    selector = select_labels({"app": "web", "tier": None}, "x")

    assert selector is not None
    assert selector.matches({"app": "web", "tier": "", "more": "1"})
    assert select_labels({}, "x") is None
    assert select_labels(None, "x") is None
