"""Selectors: their syntax, and that two autoscalers of one target never select the same pod."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.makers.wire_autoscalers import judged, told, written

from trimtab.api.kinds.autoscaler_wire import VerticalPodAutoscaler
from trimtab.api.validation.autoscaler import validate
from trimtab.core.model.feature_gates import FeatureGates

TARGET = {"kind": "Deployment", "name": "web"}


def equal(**labels: str) -> dict[str, Any]:
    return {"matchLabels": labels}


def where(*expressions: str) -> dict[str, Any]:
    """A selector out of expressions such as `role In a b`."""
    split = [expression.split() for expression in expressions]
    return {
        "matchExpressions": [
            {"key": key, "operator": operator, **({"values": values} if values else {})}
            for key, operator, *values in split
        ]
    }


def selecting(selector: Any, name: str = "web", **spec: Any) -> VerticalPodAutoscaler:
    chosen = {} if selector is None else {"selector": selector}
    return written(name, **chosen, updatePolicy={"updateMode": "InPlace"}, **spec)


PAIRS = [
    pytest.param(equal(role="leader"), equal(role="follower"), True, id="different values"),
    pytest.param(where("role In a b"), where("role In c"), True, id="sets without common value"),
    pytest.param(where("role In a b"), where("role In b c"), False, id="sets with common value"),
    pytest.param(
        equal(role="leader"), where("role NotIn leader"), True, id="a value and all others"
    ),
    pytest.param(where("role Exists"), where("role DoesNotExist"), True, id="with or without"),
    pytest.param(where("role NotIn a"), where("role NotIn b"), False, id="two exclusions"),
    pytest.param(equal(role="leader"), equal(env="prod"), False, id="different keys"),
    pytest.param(
        equal(role="leader", env="prod"),
        equal(role="leader", env="dev"),
        True,
        id="one of two keys keeps them apart",
    ),
    pytest.param(
        equal(role="leader", zone="x"), equal(role="follower"), True, id="one shared key is enough"
    ),
    pytest.param(None, equal(role="leader"), False, id="no selector beside one"),
    pytest.param({}, equal(role="leader"), False, id="an empty selector beside one"),
    pytest.param(None, None, False, id="two without selector"),
    pytest.param(None, {}, False, id="one without, one with an empty selector"),
    pytest.param(
        where("role DoesNotExist"),
        where("role NotIn leader"),
        False,
        id="both take unlabelled pods",
    ),
]


@pytest.mark.parametrize(("one", "other", "disjoint"), PAIRS)
def test_two_autoscalers_of_one_target_must_be_proven_disjoint(
    one: Any, other: Any, *, disjoint: bool
) -> None:
    there, back = (
        validate(selecting(new, "new"), siblings=[selecting(old, "old")])
        for new, old in ((one, other), (other, one))
    )

    assert there.allowed == back.allowed == disjoint


@pytest.mark.parametrize(
    ("ours", "theirs", "why"),
    [
        pytest.param(None, equal(a="b"), "this object selects all of its pods", id="we take all"),
        pytest.param({}, equal(a="b"), "this object selects all of its pods", id="we are empty"),
        pytest.param(
            equal(a="b"),
            None,
            'VerticalPodAutoscaler "old" selects all of its pods',
            id="they take all",
        ),
        pytest.param(
            equal(a="b"),
            {"matchExpressions": []},
            'VerticalPodAutoscaler "old" selects all of its pods',
            id="they are empty",
        ),
        pytest.param(
            equal(a="b"),
            where("a Sometimes"),
            'VerticalPodAutoscaler "old" selects all of its pods',
            id="nobody can read theirs",
        ),
        pytest.param(
            equal(a="b"),
            equal(c="d"),
            "there is no label key on which the two selectors exclude each other",
            id="no key keeps them apart",
        ),
    ],
)
def test_a_conflict_names_the_other_autoscaler_and_the_reason(
    ours: Any, theirs: Any, why: str
) -> None:
    verdict = validate(selecting(ours, "new"), siblings=[selecting(theirs, "old")])

    (message,) = told(verdict)
    assert message.startswith('spec.selector: Forbidden: VerticalPodAutoscaler "old" (')
    assert f') has the same target Deployment "web", and {why}; ' in message


@pytest.mark.parametrize(
    ("theirs", "shown", "example"),
    [
        pytest.param(
            equal(role="leader"),
            "(selector role=leader)",
            "disjoint from it is, for example, {matchExpressions: [{key: role, operator: NotIn,"
            ' values: ["leader"]}]}',
            id="a label",
        ),
        pytest.param(
            where("role NotIn a b"),
            "(selector role notin (a,b))",
            'for example, {matchExpressions: [{key: role, operator: In, values: ["a"]}]}',
            id="all but some values",
        ),
        pytest.param(
            where("role Exists"),
            "(selector role)",
            "for example, {matchExpressions: [{key: role, operator: DoesNotExist}]}",
            id="any value",
        ),
        pytest.param(
            None,
            "(no selector)",
            "give both a selector, such as {matchLabels: {role: leader}} and {matchExpressions:",
            id="no selector",
        ),
        pytest.param(
            where("role In " + " ".join(f"value-{number}" for number in range(100))),
            "…) has the same target",
            "exclude each other",
            id="a long one is cut, and its example left out",
        ),
    ],
)
def test_a_conflict_shows_the_other_selector_and_a_disjoint_one(
    theirs: Any, shown: str, example: str
) -> None:
    verdict = validate(selecting(equal(zone="a"), "new"), siblings=[selecting(theirs, "old")])

    (message,) = told(verdict)
    assert shown in message
    assert example in message
    assert len(message) < 600


def test_each_conflicting_autoscaler_is_named_in_the_order_of_names() -> None:
    siblings = [selecting(None, "c"), selecting(equal(role="b"), "b"), selecting(None, "a")]

    verdict = validate(selecting(equal(role="a"), "new"), siblings=siblings)

    assert ['"a" (no' in text or '"c" (no' in text for text in told(verdict)] == [True, True]
    assert told(verdict) == sorted(told(verdict))


def test_overlapping_autoscalers_can_be_allowed_with_a_warning() -> None:
    verdict = validate(
        selecting(None, "new"), siblings=[selecting(None, "old")], allow_overlapping=True
    )

    assert verdict.allowed
    (warning,) = verdict.warnings
    assert warning.startswith(
        'spec.selector: VerticalPodAutoscaler "old" (no selector) has the same target Deployment'
        ' "web", and this object selects all of its pods'
    )


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(selecting(None, "web"), id="the stored object itself"),
        pytest.param(selecting(None, "b", targetRef={**TARGET, "name": "db"}), id="another name"),
        pytest.param(selecting(None, "b", targetRef={**TARGET, "kind": "Job"}), id="another kind"),
        pytest.param(selecting(None, "b", namespace="other"), id="another namespace"),
        pytest.param(selecting(None, "b", targetRef=None), id="no target"),
    ],
)
def test_autoscalers_of_other_targets_do_not_matter(other: VerticalPodAutoscaler) -> None:
    assert validate(selecting(None), siblings=[other]).allowed


def test_the_api_version_of_the_target_does_not_keep_autoscalers_apart() -> None:
    sibling = selecting(None, "old", targetRef={**TARGET, "apiVersion": "apps/v2"})

    assert not validate(selecting(None, "new"), siblings=[sibling]).allowed


def test_objects_without_target_have_no_siblings() -> None:
    alone = selecting(None, "a", targetRef=None)

    assert validate(alone, siblings=[selecting(None, "b", targetRef=None)]).allowed


def test_objects_whose_names_are_yet_to_be_made_are_siblings_of_all() -> None:
    unnamed = selecting(None, "")

    assert not validate(unnamed, siblings=[selecting(None, "old")]).allowed
    assert not validate(unnamed, siblings=[unnamed]).allowed


def test_an_update_that_changes_neither_target_nor_selector_meets_no_sibling() -> None:
    old = selecting(None)
    new = selecting(None, recommenders=[{"name": "special"}])

    assert validate(new, old, siblings=[selecting(None, "b")]).allowed


@pytest.mark.parametrize(
    "new",
    [
        pytest.param(selecting(equal(role="b")), id="a changed selector"),
        pytest.param(
            selecting(equal(role="a"), targetRef={**TARGET, "name": "db"}), id="a changed target"
        ),
    ],
)
def test_an_update_of_target_or_selector_meets_its_siblings(new: VerticalPodAutoscaler) -> None:
    siblings = [
        selecting(equal(role="b"), "b"),
        selecting(None, "c", targetRef={**TARGET, "name": "db"}),
    ]

    verdict = validate(new, selecting(equal(role="a")), siblings=siblings)

    assert [error.path for error in verdict.errors] == ["spec.selector"]


def test_a_change_of_the_api_version_alone_is_no_change_of_the_target() -> None:
    old = selecting(None)
    new = selecting(None, targetRef={**TARGET, "apiVersion": "apps/v2"})

    assert validate(new, old, siblings=[selecting(None, "b")]).allowed


@pytest.mark.parametrize(
    ("selector", "paths"),
    [
        pytest.param(equal(role="a"), [], id="a good selector"),
        pytest.param(equal(role=""), [], id="an empty value"),
        pytest.param(
            {"matchLabels": {"a b": "c d"}},
            ["matchLabels", "matchLabels[a b]"],
            id="key and value of a label",
        ),
        pytest.param(where("role In"), ["matchExpressions[0].values"], id="In without values"),
        pytest.param(where("role NotIn"), ["matchExpressions[0].values"], id="NotIn without any"),
        pytest.param(where("role Exists a"), ["matchExpressions[0].values"], id="Exists with some"),
        pytest.param(
            where("role Like a"), ["matchExpressions[0].operator"], id="an unknown operator"
        ),
        pytest.param(
            where("ok Exists", "-a In -b"),
            ["matchExpressions[1].key", "matchExpressions[1].values[0]"],
            id="key and value of an expression",
        ),
        pytest.param({"matchExpressions": [{}]}, ["matchExpressions[0].operator",
            "matchExpressions[0].key"], id="an expression without content"),
    ],
)  # fmt: skip
def test_mistakes_in_a_selector_are_found_at_their_exact_paths(
    selector: Any, paths: list[str]
) -> None:
    verdict = validate(selecting(selector))

    assert list(dict.fromkeys(error.path for error in verdict.errors)) == [
        f"spec.selector.{path}" for path in paths
    ]


def test_a_missing_value_is_required_and_a_needless_one_forbidden() -> None:
    verdict = validate(selecting(where("a In", "b Exists c")))

    assert told(verdict) == [
        (
            "spec.selector.matchExpressions[0].values: Required value: "
            "must be specified when `operator` is 'In' or 'NotIn'"
        ),
        (
            "spec.selector.matchExpressions[1].values: Forbidden: "
            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        ),
    ]


def test_a_selector_that_contradicts_itself_is_refused() -> None:
    verdict = validate(selecting({**equal(role="a"), **where("role In b c")}))

    assert told(verdict) == [
        (
            'spec.selector: Invalid value: "role=a,role in (b,c)": '
            "contradicts itself: no labels can match it"
        )
    ]


def test_a_selector_in_error_is_not_also_reported_as_overlapping() -> None:
    verdict = validate(selecting(where("role In"), "new"), siblings=[selecting(None, "old")])

    assert [error.path for error in verdict.errors] == ["spec.selector.matchExpressions[0].values"]


def test_a_bad_selector_that_an_update_leaves_as_it_was_passes() -> None:
    old = selecting(where("role In"))

    assert validate(selecting(where("role In"), recommenders=[{"name": "x"}]), old).allowed


def test_an_empty_selector_is_accepted_with_the_advice_to_leave_it_out() -> None:
    verdict = validate(selecting({}))

    assert verdict.allowed
    assert verdict.warnings == (
        "spec.selector: an empty selector selects all pods of the target; leave it out instead",
    )


REQUIREMENT = {"resources": ["cpu"], "changeRequirement": "TargetHigherThanRequests"}


@pytest.mark.parametrize(
    ("policy", "warned"),
    [
        pytest.param(None, True, id="by default pods are recreated"),
        pytest.param({"updateMode": "Recreate"}, True, id="Recreate"),
        pytest.param({"updateMode": "Auto"}, True, id="Auto"),
        pytest.param({"updateMode": "InPlaceOrRecreate"}, True, id="InPlaceOrRecreate"),
        pytest.param({"updateMode": "UpscaleOnly"}, True, id="UpscaleOnly"),
        pytest.param(
            {"updateMode": "InPlaceOrRecreate", "evictionRequirements": [REQUIREMENT]},
            False,
            id="InPlaceOrRecreate with requirements",
        ),
        pytest.param({"updateMode": "InPlace"}, False, id="InPlace"),
        pytest.param({"updateMode": "Initial"}, False, id="Initial"),
        pytest.param({"updateMode": "Off"}, False, id="Off"),
    ],
)
def test_a_selector_with_a_mode_that_may_evict_is_warned_about(
    policy: Any, *, warned: bool
) -> None:
    verdict = judged({"selector": equal(role="leader"), "updatePolicy": policy})

    assert verdict.allowed
    assert any("goes on for ever" in warning for warning in verdict.warnings) == warned


def test_without_its_gate_a_selector_is_refused_before_it_is_read() -> None:
    gates = FeatureGates(pod_selector=False)

    verdict = validate(selecting(where("role In")), gates=gates)

    assert told(verdict) == [
        (
            "spec.selector: Forbidden: in order to use selector, you must enable feature gate "
            "PodSelector in the admission-controller args"
        )
    ]


VALUES = st.sampled_from(["a", "b"])
EXPRESSIONS = st.one_of(
    st.tuples(st.sampled_from(["k", "l"]), st.sampled_from(["Exists", "DoesNotExist"])).map(
        " ".join
    ),
    st.tuples(
        st.sampled_from(["k", "l"]), st.sampled_from(["In", "NotIn"]), st.sets(VALUES, min_size=1)
    ).map(lambda parts: f"{parts[0]} {parts[1]} {' '.join(sorted(parts[2]))}"),
)
SELECTORS = st.none() | st.lists(EXPRESSIONS, max_size=3).map(lambda listed: where(*listed))


@given(SELECTORS, SELECTORS)
def test_whichever_of_two_comes_second_is_treated_alike(one: Any, other: Any) -> None:
    def conflicts(new: Any, old: Any) -> bool:
        verdict = validate(selecting(new, "new"), siblings=[selecting(old, "old")])
        return any("has the same target" in text for text in told(verdict))

    both_good = all(validate(selecting(each)).allowed for each in (one, other))

    assert conflicts(one, other) == conflicts(other, one) or not both_good
