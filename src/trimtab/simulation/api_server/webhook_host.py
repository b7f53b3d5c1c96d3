"""Objects of a webhook in a simulated cluster: the `WebhookHost` port, without a network.

All holders of the same host share Secrets and registrations. Registration and trust have no effect
here: `admission.py` calls a webhook as long as it runs.
"""

from collections.abc import Mapping
from dataclasses import replace

from trimtab.api.kinds.secrets import Secret
from trimtab.core.model import selector_validation
from trimtab.core.model.pods import Allocation, Container, Pod, PodPhase
from trimtab.core.model.resources import Resource
from trimtab.core.webhook.registration import Registration
from trimtab.simulation.api_server.admission import Admitting
from trimtab.simulation.api_server.quotas import find_quota_flaw
from trimtab.simulation.api_server.requests import conflict, forbidden, invalid
from trimtab.simulation.world.tables import Table
from trimtab.simulation.world.world import World

_AMOUNTS = {Resource.CPU: 1, Resource.MEMORY: 1024 * 1024}


class SimulatedWebhookHost:
    """The objects of a webhook, and trials with pods."""

    def __init__(self, world: World, admitting: Admitting) -> None:
        self._world = world
        self._admitting = admitting
        self._secrets: Table[Secret] = Table(world.versions, _stamp)
        self._registrations: dict[str, Registration] = {}

    async def fetch_secret(self, namespace: str, name: str) -> Secret | None:
        """Fetch the Secret from the server; None if there is none."""
        return self._secrets.find(namespace, name)

    async def write_secret(self, secret: Secret) -> Secret:
        """Create the Secret or change its version; raise ConflictError if it has changed."""
        current = self._secrets.find(secret.namespace, secret.name)
        if secret.resource_version != ("" if current is None else current.resource_version):
            raise conflict(f"write_secret {secret.namespace}/{secret.name}")
        kept = {} if current is None else current.data
        return self._secrets.put(replace(secret, data={**kept, **secret.data}))

    async def fetch_registration(self, name: str) -> Registration | None:
        """Fetch the registration from the server; None if there is none."""
        return self._registrations.get(name)

    async def write_registration(self, found: Registration | None, wanted: Registration) -> None:
        """Create the registration, or replace the one that was found."""
        current = self._registrations.get(wanted.name)
        seen = "" if found is None else found.resource_version
        if seen != ("" if current is None else current.resource_version):
            raise conflict(f"write_registration {wanted.name}")
        version = str(self._world.versions.draw())
        self._registrations[wanted.name] = replace(wanted, resource_version=version)

    async def delete_registration(self, name: str) -> None:
        """Delete the registration, as a user might."""
        self._registrations.pop(name, None)

    async def try_pod(self, namespace: str, labels: Mapping[str, str]) -> Mapping[str, str]:
        """Return the annotations that a small trial pod would get, without creating it."""
        request = f"try pod in {namespace}"
        container = Container("trial", spec=Allocation(_AMOUNTS, _AMOUNTS))
        pod = await self._admitting.try_out(
            Pod(
                namespace=namespace,
                name="trimtab-trial-1",
                labels=labels,
                phase=PodPhase.PENDING,
                containers=(container,),
            )
        )
        for value in pod.labels.values():
            if selector_validation.value_flaws(value):
                raise invalid(request, "metadata.labels", f'Invalid value: "{value}"')
        if flaw := find_quota_flaw(self._world, pod):
            raise forbidden(request, flaw)
        return pod.annotations


def _stamp(secret: Secret, version: str) -> Secret:
    return replace(secret, resource_version=version)
