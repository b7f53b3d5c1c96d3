"""Where history is to be had, as flags say it."""

from dataclasses import replace
from datetime import timedelta

import pytest

from trimtab.cli.errors import UsageError
from trimtab.cli.flags.recommender import HistoryFlags, LoopFlags, RecommenderFlags
from trimtab.cli.runtime.history_source import PastOrder, order_history
from trimtab.cluster.usage.prometheus import SeriesNames
from trimtab.cluster.usage.prometheus_client import PrometheusAccess, QuerySettings
from trimtab.core.usage.prometheus_labels import PodLabels, UsageLabels

USUAL = HistoryFlags()


def ordered(
    history: HistoryFlags = USUAL,
    storage: str = "prometheus",
    environment: dict[str, str] | None = None,
) -> PastOrder | None:
    flags = RecommenderFlags(loop=LoopFlags(storage=storage), history=history)
    return order_history(flags, environment or {})


def test_flags_that_nobody_sets_are_what_is_usual() -> None:
    assert ordered() == PastOrder(QuerySettings(), PrometheusAccess(), SeriesNames())


@pytest.mark.parametrize("storage", ["", "checkpoint", "etcd"])
def test_history_comes_from_prometheus_only_if_it_is_asked_for(storage: str) -> None:
    assert ordered(storage=storage) is None


def test_every_flag_about_queries_reaches_them() -> None:
    flags = HistoryFlags(
        prometheus_address="https://there:9090/prefix",
        prometheus_query_timeout=timedelta(seconds=7),
        prometheus_max_queries=7,
        prometheus_max_response_bytes=70,
        prometheus_cadvisor_job_name="job",
        history_cpu_metric="cpu",
        history_memory_metric="memory",
        metric_for_pod_labels="labels",
        pod_label_prefix="prefix",
        pod_namespace_label="of_namespace",
        pod_name_label="of_pod",
        container_namespace_label="namespace_of",
        container_pod_name_label="pod_of",
        container_name_label="container_of",
    )

    assert ordered(flags) == PastOrder(
        QuerySettings("https://there:9090/prefix", timedelta(seconds=7), 7, 70),
        PrometheusAccess(),
        SeriesNames(
            "cpu",
            "memory",
            "job",
            UsageLabels("namespace_of", "pod_of", "container_of"),
            PodLabels("labels", "prefix", "of_namespace", "of_pod"),
        ),
    )


ENVIRONMENT = {"PROMETHEUS_USERNAME": "there", "PROMETHEUS_PASSWORD": "secret"}


@pytest.mark.parametrize(
    ("flags", "environment", "expected"),
    [
        pytest.param(
            {"prometheus_bearer_token": "t"},
            {},
            PrometheusAccess("t"),
            id="a token on the command line",
        ),
        pytest.param(
            {"prometheus_bearer_token_file": "f"},
            {},
            PrometheusAccess(token_file="f"),
            id="a token file",
        ),
        pytest.param(
            {"username": "u", "password": "p"},
            ENVIRONMENT,
            PrometheusAccess(username="u", password="p"),
            id="a user on the command line",
        ),
        pytest.param(
            {},
            ENVIRONMENT,
            PrometheusAccess(username="there", password="secret"),
            id="a user of old",
        ),
        pytest.param(
            {"prometheus_insecure": True},
            {},
            PrometheusAccess(is_insecure=True),
            id="nobody is checked",
        ),
    ],
)
def test_who_we_are_is_said_as_the_original_has_it(
    flags: dict[str, object], environment: dict[str, str], expected: PrometheusAccess
) -> None:
    found = ordered(replace(USUAL, **flags), environment=environment)  # type: ignore[arg-type]

    assert found is not None
    assert found.access == expected


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        pytest.param(
            HistoryFlags(prometheus_address="prometheus:9090"),
            "--prometheus-address",
            id="an address without a scheme",
        ),
        pytest.param(
            HistoryFlags(prometheus_address="http://[there"),
            "--prometheus-address",
            id="no address at all",
        ),
        pytest.param(
            HistoryFlags(prometheus_query_timeout=timedelta()),
            "--prometheus-query-timeout",
            id="no time for queries",
        ),
        pytest.param(
            HistoryFlags(prometheus_max_queries=0), "--prometheus-max-queries", id="no queries"
        ),
        pytest.param(
            HistoryFlags(
                prometheus_bearer_token="t", prometheus_bearer_token_file="f", username="u"
            ),
            "--username",
            id="three ways to say who we are",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(flags: HistoryFlags, named: str) -> None:
    with pytest.raises(UsageError, match=named):
        ordered(flags)
