from hypothesis import given
from hypothesis import strategies as st
from support.makers.records import an_autoscaler
from support.makers.usage import a_selector

from trimtab.core.model.autoscalers import AutoscalerName, ContainerPolicy
from trimtab.core.model.selectors import LabelRequirement, Operator, Selector
from trimtab.core.usage.aggregates import AggregateKey, LabelSet
from trimtab.core.usage.selector_index import AggregateIndex, AutoscalerAggregates

KEYS, VALUES = ["app", "role"], ["a", "b"]

label_sets = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES)).map(
    lambda labels: tuple(sorted(labels.items()))
)
requirements = st.one_of(
    st.builds(
        LabelRequirement,
        st.sampled_from(KEYS),
        st.sampled_from([Operator.IN, Operator.NOT_IN]),
        st.lists(st.sampled_from(VALUES), min_size=1, max_size=3).map(tuple),
    ),
    st.builds(
        LabelRequirement,
        st.sampled_from(KEYS),
        st.sampled_from([Operator.EXISTS, Operator.DOES_NOT_EXIST]),
    ),
)
selectors = st.one_of(
    st.none(), st.lists(requirements, max_size=2).map(lambda some: Selector(tuple(some)))
)
aggregate_keys = st.builds(
    AggregateKey,
    st.sampled_from(["default", "other"]),
    st.sampled_from(["app", "side"]),
    label_sets,
)
operations = st.lists(
    st.one_of(aggregate_keys, st.tuples(st.sampled_from(["x", "y", "z"]), selectors)), max_size=20
)


def key(*labels: tuple[str, str], container: str = "app") -> AggregateKey:
    return AggregateKey("default", container, labels)


def learner(
    name: str, selector: Selector | None, *policies: ContainerPolicy
) -> AutoscalerAggregates:
    return AutoscalerAggregates(an_autoscaler(name=name, policies=policies), selector)


def matches(selector: Selector | None, namespace: str, labels: LabelSet) -> bool:
    return selector is not None and namespace == "default" and selector.matches(dict(labels))


@given(operations)
def test_whatever_comes_and_goes_links_are_exactly_what_selectors_match(
    steps: list[AggregateKey | tuple[str, Selector | None]],
) -> None:
    links, rows = AggregateIndex(), dict[AggregateKey, int]()
    for number, step in enumerate(steps):
        if isinstance(step, AggregateKey) and step in rows:
            links.remove_aggregate(rows.pop(step), step)
        elif isinstance(step, AggregateKey):
            rows[step] = number
            links.add_aggregate(number, step)
        elif AutoscalerName("default", step[0]) in links.learners:
            links.remove_learner(AutoscalerName("default", step[0]))
        else:
            links.add_learner(learner(*step))

    for name, known in links.learners.items():
        expected = {
            row for one, row in rows.items() if matches(known.selector, one.namespace, one.labels)
        }
        assert set(links.linked_rows(name)) == expected


@given(operations)
def test_f33_nothing_is_kept_of_what_is_gone(
    steps: list[AggregateKey | tuple[str, Selector | None]],
) -> None:
    links = AggregateIndex()
    keys = {step for step in steps if isinstance(step, AggregateKey)}
    named = {step[0]: step[1] for step in steps if not isinstance(step, AggregateKey)}
    rows = dict(enumerate(sorted(keys, key=repr)))
    for name, selector in named.items():
        links.add_learner(learner(name, selector))
    for row, one in rows.items():
        links.add_aggregate(row, one)
    for row, one in rows.items():
        links.remove_aggregate(row, one)
    for name in named:
        links.remove_learner(AutoscalerName("default", name))
    links.drain_changed()

    assert not any(vars(links).values())


def test_labels_are_shared_between_all_who_have_them() -> None:
    links = AggregateIndex()
    first = key(("app", "a"))
    links.add_aggregate(1, first)

    same = tuple({"app": "a"}.items())
    assert links.shared_labels("default", same) is first.labels
    assert links.shared_labels("other", same) is same


def test_a_pod_is_wanted_where_some_selector_matches_it() -> None:
    links = AggregateIndex()
    links.add_learner(learner("web", a_selector(app="a")))
    links.add_learner(learner("nobody", None))

    assert links.has_learner("default", (("app", "a"), ("role", "b")))
    assert not links.has_learner("default", (("app", "b"),))
    assert not links.has_learner("other", (("app", "a"),))


def test_a_learner_hears_of_each_change_once() -> None:
    links = AggregateIndex()
    links.add_learner(learner("web", a_selector(app="a")))
    links.add_learner(learner("other", a_selector(app="b")))
    links.drain_changed()
    links.add_aggregate(1, key(("app", "a")))

    assert links.drain_changed() == {AutoscalerName("default", "web")}
    assert links.drain_changed() == set()
    links.touch(1)
    assert links.drain_changed() == {AutoscalerName("default", "web")}


def test_the_restored_aggregate_comes_last_among_a_container_s() -> None:
    links = AggregateIndex()
    links.add_learner(learner("web", a_selector(app="a")))
    links.add_aggregate(7, key(("app", "a")))
    links.add_aggregate(3, key(("app", "a"), ("role", "b")))
    name = AutoscalerName("default", "web")
    links.put_restored(name, "app", 1)
    links.put_restored(name, "ghost", 2)

    known = links.learners[name]
    assert known.rows("app") == [3, 7, 1]
    assert known.rows("ghost") == [2]
    assert known.container_names == {"app", "ghost"}


def test_policies_of_an_aggregate_come_in_the_order_of_autoscalers() -> None:
    links = AggregateIndex()
    exact, general = ContainerPolicy("app"), ContainerPolicy("*", oom_bump_up_ratio=2.0)
    links.add_learner(learner("b", a_selector(app="a"), exact))
    links.add_learner(learner("a", a_selector(app="a"), general))
    links.add_learner(learner("c", a_selector(app="a")))
    links.add_aggregate(1, key(("app", "a")))

    assert links.policies(1, "app") == [general, exact]
