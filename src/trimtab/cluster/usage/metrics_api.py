"""Usage from the metrics API: the newest reading of every container."""

from dataclasses import dataclass

from trimtab.api.usage import pod_metrics
from trimtab.api.usage.pod_metrics import UsageColumns
from trimtab.api.wire.lists import Unreadable
from trimtab.cluster.http import paths
from trimtab.cluster.http.api_server import ApiServer


@dataclass(slots=True)
class MetricsApi:
    """The metrics API (`metrics.k8s.io`) as a source of samples."""

    server: ApiServer
    namespace: str = ""
    """Empty for all namespaces."""
    unreadable: tuple[Unreadable, ...] = ()
    """The pods whose metrics could not be read last time."""

    async def fetch(self) -> UsageColumns:
        """Return the newest reading of every container."""
        # The API has neither pages nor watches; one list has everything.
        path = paths.collection("metrics.k8s.io/v1beta1", "pods", self.namespace)
        columns, self.unreadable = pod_metrics.decode_pod_metrics(await self.server.fetch(path))
        return columns
