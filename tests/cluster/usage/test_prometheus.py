"""History over real HTTP, from a Prometheus that can be told to misbehave."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from support.fakes.clocks import StillClock
from support.makers.certificates import a_pair, an_authority
from support.makers.records import NOW
from support.servers.prometheus import FakePrometheus, serving

from trimtab.cluster.errors import ClusterError, HistoryError, TooMuchHistoryError
from trimtab.cluster.usage.prometheus import Prometheus, SeriesNames
from trimtab.cluster.usage.prometheus_client import (
    Exchange,
    PrometheusAccess,
    QueryClient,
    QuerySettings,
)
from trimtab.core.model.resources import Resource
from trimtab.core.usage.history_samples import PastUsage, Shard
from trimtab.core.usage.prometheus_labels import PodLabels, UsageLabels

END = NOW.timestamp()
HOUR = timedelta(hours=1)
SHARD = Shard("a", NOW - 3 * HOUR, NOW, HOUR)
MODERN = UsageLabels("namespace", "pod", "container")


def tell_usage(
    fake: FakePrometheus,
    labels: UsageLabels = MODERN,
    *,
    namespace: str = "a",
    pod: str = "web-0",
    job: str = "kubelet",
) -> None:
    """A container that uses half a core and 100 bytes, scraped each minute for four hours."""
    named = {labels.namespace: namespace, labels.pod: pod, labels.container: "app", "job": job}
    minutes = range(-240, 1)
    counter = {END + 60.0 * minute: 30.0 * (minute + 300) for minute in minutes}
    fake.tell("container_cpu_usage_seconds_total", named, counter)
    fake.tell("container_memory_working_set_bytes", named, dict.fromkeys(counter, 100.7))


@asynccontextmanager
async def a_source(
    fake: FakePrometheus,
    names: SeriesNames | None = None,
    access: PrometheusAccess | None = None,
    **settings: object,
) -> AsyncIterator[tuple[Prometheus, list[Exchange]]]:
    fake.now = END
    seen: list[Exchange] = []
    given = QuerySettings(fake.address, **settings)  # type: ignore[arg-type]
    client = QueryClient(given, access or PrometheusAccess(), clock=StillClock(), note=seen.append)
    async with Prometheus(client, names or SeriesNames()) as source:
        yield source, seen


def told(past: PastUsage) -> list[tuple[str, str, float, float]]:
    return [
        (*past.containers[owner], (time - END) / 3600, value)
        for owner, time, value in zip(
            past.owners.tolist(), past.times.tolist(), past.values.tolist(), strict=True
        )
    ]


async def test_usage_of_a_namespace_comes_as_columns_in_whole_amounts() -> None:
    async with serving(FakePrometheus()) as fake, a_source(fake) as (source, seen):
        tell_usage(fake)
        tell_usage(fake, namespace="b")
        cpu = await source.fetch_usage(Resource.CPU, SHARD)
        memory = await source.fetch_usage(Resource.MEMORY, SHARD)

    assert told(cpu) == [("web-0", "app", hour, 500) for hour in (-3, -2, -1, 0)]
    assert told(memory) == [("web-0", "app", hour, 100) for hour in (-3, -2, -1, 0)]
    assert {(one.status, one.method) for one in seen} == {(200, "get")}


@pytest.mark.parametrize(
    "labels",
    [
        pytest.param(MODERN, id="the kubelet of today"),
        pytest.param(UsageLabels("namespace", "pod_name", "container_name"), id="an old kubelet"),
        pytest.param(UsageLabels("namespace", "pod_name", "name"), id="the original's default"),
        pytest.param(
            UsageLabels("exported_namespace", "exported_pod", "exported_container"),
            id="labels that are not honoured",
        ),
        pytest.param(
            UsageLabels(
                "container_label_io_kubernetes_pod_namespace",
                "container_label_io_kubernetes_pod_name",
                "container_label_io_kubernetes_container_name",
            ),
            id="cadvisor on its own",
        ),
    ],
)
async def test_the_labels_of_containers_are_found_out(labels: UsageLabels) -> None:
    async with serving(FakePrometheus()) as fake, a_source(fake) as (source, _):
        tell_usage(fake, labels)
        memory = await source.fetch_usage(Resource.MEMORY, SHARD)
        found = source.conventions()

    assert len(memory) == 4
    assert found["containers"] == f"{labels.namespace}/{labels.pod}/{labels.container}"


async def test_series_of_usage_are_counted_by_metric() -> None:
    async with serving(FakePrometheus()) as fake, a_source(fake) as (source, _):
        tell_usage(fake)
        tell_usage(fake, pod="web-1")
        fake.series = [one for one in fake.series if not _is_cpu_of(one.labels, "web-1")]
        found = await source.count_series()

    assert found == {
        "container_cpu_usage_seconds_total": 1,
        "container_memory_working_set_bytes": 2,
    }


def _is_cpu_of(labels: Mapping[str, str], pod: str) -> bool:
    return labels["pod"] == pod and "cpu" in labels["__name__"]


async def test_labels_and_a_job_that_are_said_are_the_ones_that_count() -> None:
    names = SeriesNames(job="mine", usage_labels=UsageLabels("tenant", "unit", "part"))
    async with serving(FakePrometheus()) as fake, a_source(fake, names) as (source, _):
        tell_usage(fake)
        tell_usage(fake, names.usage_labels, pod="said", job="mine")
        tell_usage(fake, names.usage_labels, pod="other", job="theirs")
        memory = await source.fetch_usage(Resource.MEMORY, SHARD)

    assert memory.containers == (("said", "app"),)


async def test_two_jobs_that_tell_of_one_container_tell_it_once() -> None:
    async with serving(FakePrometheus()) as fake, a_source(fake) as (source, _):
        tell_usage(fake, job="one")
        tell_usage(fake, job="two")
        memory = await source.fetch_usage(Resource.MEMORY, SHARD)

    assert len(memory) == 4


async def test_a_rate_finer_than_scrapes_are_still_has_samples() -> None:
    fine = Shard("a", NOW - timedelta(minutes=10), NOW, timedelta(seconds=30))
    async with serving(FakePrometheus()) as fake, a_source(fake) as (source, _):
        tell_usage(fake)
        cpu = await source.fetch_usage(Resource.CPU, fine)

    assert len(cpu) == fine.moments
    assert set(cpu.values.tolist()) == {500}


async def test_how_often_it_is_scraped_need_not_be_known() -> None:
    async with (
        serving(FakePrometheus(strict=("[60000ms]",))) as fake,
        a_source(fake) as (source, _),
    ):
        tell_usage(fake)
        cpu = await source.fetch_usage(Resource.CPU, SHARD)

    assert len(cpu) == 4


async def test_without_any_series_that_is_what_is_said() -> None:
    async with serving(FakePrometheus()) as fake, a_source(fake) as (source, _):
        with pytest.raises(HistoryError, match="there are no series container_memory") as caught:
            await source.fetch_usage(Resource.CPU, SHARD)
        tell_usage(fake)
        later = await source.fetch_usage(Resource.CPU, SHARD)

    assert str(caught.value).startswith(fake.address)
    assert len(later) == 4


async def test_another_namespace_without_series_has_no_past() -> None:
    async with serving(FakePrometheus()) as fake, a_source(fake) as (source, _):
        tell_usage(fake, namespace="b")
        cpu = await source.fetch_usage(Resource.CPU, SHARD)

    assert len(cpu) == 0


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        pytest.param(
            PodLabels("kube_pod_labels", "label_", "namespace", "pod"),
            SeriesNames(),
            id="of kube-state-metrics",
        ),
        pytest.param(
            PodLabels("kube_pod_labels", "label_", "exported_namespace", "exported_pod"),
            SeriesNames(),
            id="of kube-state-metrics that are not honoured",
        ),
        pytest.param(
            PodLabels("mine", "l_", "ns", "unit"),
            SeriesNames(pod_labels=PodLabels('mine{a="b"}[8d]', "l_", "ns", "unit")),
            id="of what was said",
        ),
    ],
)
async def test_labels_of_past_pods_are_found(labels: PodLabels, names: SeriesNames) -> None:
    async with serving(FakePrometheus()) as fake, a_source(fake, names) as (source, _):
        tell_usage(fake)
        for pod, until in (("old", -7200), ("new", 0)):
            named = {labels.namespace: "a", labels.pod: pod, f"{labels.prefix}app": "web"}
            fake.tell(labels.metric, {**named, "a": "b"}, {END + until: 1.0})
        found = await source.fetch_pods(SHARD)

    assert [(one.pod, one.labels) for one in found] == [
        ("old", {"app": "web"}),
        ("new", {"app": "web"}),
    ]
    assert found[0].until < found[1].until


@pytest.mark.parametrize("prefix", ["", "exported_"])
async def test_owners_of_past_pods_stand_in_for_labels_that_nobody_tells(prefix: str) -> None:
    async with serving(FakePrometheus()) as fake, a_source(fake) as (source, _):
        tell_usage(fake)
        place = {f"{prefix}namespace": "a", f"{prefix}pod": "web-1-x"}
        fake.tell("kube_pod_labels", place, {END: 1.0})
        by_set = {"owner_kind": "ReplicaSet", "owner_name": "web-1"}
        fake.tell("kube_pod_owner", {**place, **by_set}, {END: 1.0})
        of_set = {f"{prefix}namespace": "a", "replicaset": "web-1"}
        by_deployment = {"owner_kind": "Deployment", "owner_name": "web"}
        fake.tell("kube_replicaset_owner", {**of_set, **by_deployment}, {END: 1.0})
        (found,) = await source.fetch_pods(SHARD)

    assert found.pod == "web-1-x"
    assert found.owners == (("ReplicaSet", "web-1"), ("Deployment", "web"))


async def test_nobody_has_to_tell_labels_of_pods() -> None:
    async with serving(FakePrometheus()) as fake, a_source(fake) as (source, _):
        tell_usage(fake)
        found = await source.fetch_pods(SHARD)

    assert list(found) == []
    assert source.conventions()["pod_labels"] == "(none)"


@pytest.mark.parametrize(
    ("access", "header"),
    [
        pytest.param(PrometheusAccess(token="t1"), "Bearer t1", id="a token"),
        pytest.param(PrometheusAccess(username="u", password="p"), "Basic dTpw", id="a password"),
        pytest.param(
            PrometheusAccess(token="t1", username="u", password="p"), "Bearer t1", id="a token wins"
        ),
    ],
)
async def test_prometheus_is_shown_who_we_are(access: PrometheusAccess, header: str) -> None:
    fake = FakePrometheus(authorization=header)
    async with serving(fake), a_source(fake, access=access) as (source, _):
        tell_usage(fake)
        memory = await source.fetch_usage(Resource.MEMORY, SHARD)

    assert len(memory) == 4


async def test_a_token_file_is_read_again_when_its_token_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old\n", encoding="utf-8")
    access = PrometheusAccess(token="ignored", token_file=str(file))
    async with serving(FakePrometheus()) as fake, a_source(fake, access=access) as (source, _):
        tell_usage(fake)
        fake.authorization = "Bearer old"
        first = await source.fetch_usage(Resource.MEMORY, SHARD)
        fake.authorization = "Bearer new"
        file.write_text("new\n", encoding="utf-8")
        second = await source.fetch_usage(Resource.MEMORY, SHARD)

    assert len(first) == len(second) == 4


async def test_a_token_file_that_is_missing_is_an_error_until_it_is_there(tmp_path: Path) -> None:
    file = tmp_path / "token"
    access = PrometheusAccess(token_file=str(file))
    async with serving(FakePrometheus()) as fake, a_source(fake, access=access) as (source, _):
        tell_usage(fake)
        with pytest.raises(ClusterError, match="cannot be read"):
            await source.fetch_usage(Resource.MEMORY, SHARD)
        file.write_text("t", encoding="utf-8")
        memory = await source.fetch_usage(Resource.MEMORY, SHARD)

    assert len(memory) == 4


@pytest.mark.parametrize(
    ("refusal", "kind", "told"),
    [
        pytest.param((503, "starting"), HistoryError, "starting \\(503\\)", id="it starts"),
        pytest.param((401, "no"), HistoryError, "no \\(401\\)", id="it does not know us"),
        pytest.param((302, ""), HistoryError, "302", id="it sends us elsewhere"),
        pytest.param((200, "<html>"), HistoryError, "not an answer", id="it is something else"),
        pytest.param(
            (503, '{"errorType":"timeout","error":"query timed out"}'),
            TooMuchHistoryError,
            "query timed out",
            id="a query takes too long",
        ),
        pytest.param(
            (400, '{"errorType":"bad_data","error":"exceeded maximum resolution of 11,000"}'),
            TooMuchHistoryError,
            "maximum resolution",
            id="a query has too many moments",
        ),
        pytest.param(
            (422, '{"errorType":"execution","error":"query processing would load too many"}'),
            TooMuchHistoryError,
            "would load too many",
            id="a query has too many samples",
        ),
        pytest.param((413, "no"), TooMuchHistoryError, "no", id="an answer is too large"),
        pytest.param(
            (503, '{"error":"cannot select more than -search.maxSamplesPerQuery"}'),
            TooMuchHistoryError,
            "cannot select",
            id="somebody else finds it too much",
        ),
        pytest.param(
            (429, "too many requests"), HistoryError, "429", id="we ask too often, not too much"
        ),
    ],
)
async def test_a_refusal_is_an_error_of_our_own(
    refusal: tuple[int, str], kind: type[HistoryError], told: str
) -> None:
    async with serving(FakePrometheus()) as fake, a_source(fake) as (source, _):
        tell_usage(fake)
        await source.fetch_usage(Resource.MEMORY, SHARD)
        fake.refusal = refusal
        with pytest.raises(HistoryError, match=told) as caught:
            await source.fetch_usage(Resource.MEMORY, SHARD)

    assert type(caught.value) is kind


async def test_an_answer_that_is_too_large_is_not_read_to_its_end() -> None:
    async with serving(FakePrometheus()) as fake, a_source(fake, most_bytes=1000) as (source, _):
        for number in range(20):
            tell_usage(fake, pod=f"web-{number}")
        with pytest.raises(TooMuchHistoryError, match="more than 1000 bytes"):
            await source.fetch_usage(Resource.MEMORY, SHARD)


async def test_a_server_that_is_not_there_is_an_error_of_our_own() -> None:
    async with serving(FakePrometheus()) as fake:
        pass
    async with a_source(fake) as (source, seen):
        with pytest.raises(HistoryError, match=fake.address):
            await source.fetch_usage(Resource.MEMORY, SHARD)

    assert seen == []


async def test_a_password_in_the_address_is_not_shown() -> None:
    async with serving(FakePrometheus()) as fake:
        pass
    fake.address = fake.address.replace("http://", "http://me:secret@")
    async with a_source(fake) as (source, _):
        with pytest.raises(HistoryError) as caught:
            await source.fetch_usage(Resource.MEMORY, SHARD)

    assert "secret" not in str(caught.value)


async def test_no_more_queries_are_under_way_than_allowed() -> None:
    async with serving(FakePrometheus()) as fake, a_source(fake, most_queries=2) as (source, _):
        tell_usage(fake)
        await source.fetch_usage(Resource.MEMORY, SHARD)
        fake.wait_for_crowd(2)
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(source.fetch_usage(Resource.MEMORY, SHARD)) for _ in range(10)
            ]
        answers = [len(task.result()) for task in tasks]

    assert answers == [4] * 10
    assert fake.most_in_flight == 2


async def test_a_certificate_of_anybody_is_accepted_only_on_demand(tmp_path: Path) -> None:
    async with serving(FakePrometheus(), a_server_context(tmp_path)) as fake:
        tell_usage(fake)
        async with a_source(fake) as (source, _):
            with pytest.raises(HistoryError, match="certificate is not trusted"):
                await source.fetch_usage(Resource.MEMORY, SHARD)
        async with a_source(fake, access=PrometheusAccess(is_insecure=True)) as (source, _):
            memory = await source.fetch_usage(Resource.MEMORY, SHARD)

    assert len(memory) == 4


def a_server_context(folder: Path) -> ssl.SSLContext:
    """The TLS of a server whose authority nobody knows."""
    pair = a_pair(an_authority(), "prometheus")
    (folder / "crt").write_text(pair.certificate, encoding="utf-8")
    (folder / "key").write_text(pair.key, encoding="utf-8")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "crt", folder / "key")
    return context
