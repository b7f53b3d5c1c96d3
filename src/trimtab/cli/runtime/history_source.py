"""The source of history that the flags name, and the credentials for it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from trimtab.cli.errors import UsageError
from trimtab.cli.flags import start
from trimtab.cli.flags.recommender import PrometheusFlags, RecommenderFlags
from trimtab.cluster.address import parse_address
from trimtab.cluster.ports import Clock
from trimtab.cluster.usage.prometheus import Prometheus, SeriesNames
from trimtab.cluster.usage.prometheus_client import (
    Exchange,
    PrometheusAccess,
    QueryClient,
    QuerySettings,
)
from trimtab.cluster.usage.prometheus_pressure import PrometheusPressure
from trimtab.core.usage.prometheus_labels import PodLabels, UsageLabels
from trimtab.recommender.settings import RecommenderSettings

PROMETHEUS: Final = "prometheus"
"""Value of --storage for Prometheus; all others mean checkpoints, as in the original."""


@dataclass(frozen=True, slots=True)
class PastOrder:
    """Checked settings of a source of history."""

    queries: QuerySettings
    access: PrometheusAccess
    names: SeriesNames

    def source(self, clock: Clock, note: Callable[[Exchange], None]) -> Prometheus:
        """Build the source, not opened yet; `note` receives each exchange with it."""
        client = QueryClient(self.queries, self.access, clock=clock, note=note)
        return Prometheus(client, self.names)


def build_pressure(
    order: PastOrder, settings: RecommenderSettings, clock: Clock
) -> PrometheusPressure:
    """Build a source of pressure in the same Prometheus, with the patience of a tick."""
    # One query at a time: the server has other clients, and the answers are small.
    queries = replace(order.queries, timeout=settings.pressure.timeout, most_queries=1)
    client = QueryClient(queries, order.access, clock=clock)
    rules = settings.recommendations.cost.pressure
    return PrometheusPressure(client, Prometheus(client, order.names), rules, settings.namespace)


def order_history(flags: RecommenderFlags, environment: Mapping[str, str]) -> PastOrder | None:
    """Return the source of --storage=prometheus, else None; a UsageError if flags are invalid."""
    if flags.loop.storage != PROMETHEUS:
        return None
    return order_prometheus(flags.history, environment)


def order_prometheus(flags: PrometheusFlags, environment: Mapping[str, str]) -> PastOrder:
    """Return the Prometheus that the flags name; a UsageError if they are invalid."""
    _check_address(flags.prometheus_address)
    queries = start.make_settings(lambda: _query_settings(flags), start.list_changed(flags))
    return PastOrder(queries, _access(flags, environment), _series_names(flags))


def _check_address(address: str) -> None:
    try:
        parse_address(address)
    except ValueError as error:
        problem = f"--prometheus-address: {address!r} is not an http or https address"
        raise UsageError(problem) from error


def _query_settings(flags: PrometheusFlags) -> QuerySettings:
    return QuerySettings(
        flags.prometheus_address,
        timeout=flags.prometheus_query_timeout,
        most_queries=flags.prometheus_max_queries,
        most_bytes=flags.prometheus_max_response_bytes,
    )


def _access(flags: PrometheusFlags, environment: Mapping[str, str]) -> PrometheusAccess:
    """Choose credentials as the original does: token, user of the flags, or environment."""
    token, file = flags.prometheus_bearer_token, flags.prometheus_bearer_token_file
    if token and file and flags.username:
        raise UsageError(
            "--prometheus-bearer-token, --prometheus-bearer-token-file and --username "
            "cannot all be set"
        )
    username, password = flags.username, flags.password
    if not username:
        username = environment.get("PROMETHEUS_USERNAME", "")
        password = environment.get("PROMETHEUS_PASSWORD", "")
    return PrometheusAccess(token, file, username, password, is_insecure=flags.prometheus_insecure)


def _series_names(flags: PrometheusFlags) -> SeriesNames:
    return SeriesNames(
        flags.history_cpu_metric,
        flags.history_memory_metric,
        flags.prometheus_cadvisor_job_name,
        UsageLabels(
            flags.container_namespace_label,
            flags.container_pod_name_label,
            flags.container_name_label,
        ),
        PodLabels(
            flags.metric_for_pod_labels,
            flags.pod_label_prefix,
            flags.pod_namespace_label,
            flags.pod_name_label,
        ),
    )
