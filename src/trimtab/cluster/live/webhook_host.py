"""The webhook's objects in a real cluster: its Secret, its registration, and trials with pods."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from trimtab.api.admission import dry_run_pod
from trimtab.api.kinds import secrets, webhook_configurations
from trimtab.api.kinds.secrets import Secret
from trimtab.cluster.errors import ConflictError, InvalidError, NotFoundError
from trimtab.cluster.http import paths
from trimtab.cluster.http.client import MERGE_PATCH, Client
from trimtab.cluster.live.missing_permissions import MissingRights
from trimtab.core.webhook.registration import Registration

_REGISTRATIONS: Final = paths.collection(
    "admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations"
)


class LiveWebhookHost:
    """The `WebhookHost` of a real API server."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._rights = MissingRights()

    def problems(self) -> Mapping[str, Exception]:
        """Return the missing right of each act that failed last time, by act."""
        return self._rights.refusals()

    async def fetch_secret(self, namespace: str, name: str) -> Secret | None:
        """Fetch the Secret from the server, if there is one."""
        path = paths.item(paths.collection("v1", "secrets", namespace), name)
        with self._rights.noted("fetch secret"), suppress(NotFoundError):
            return secrets.decode_secret(await self._client.fetch(path))
        return None

    async def write_secret(self, secret: Secret) -> Secret:
        """Create the Secret or change the version that it names; ConflictError if another did."""
        path = paths.collection("v1", "secrets", secret.namespace)
        with self._rights.noted("write secret"):
            if not secret.resource_version:
                return secrets.decode_secret(
                    await self._client.post(path, secrets.encode_secret(secret))
                )
            named, body = paths.item(path, secret.name), secrets.encode_secret_patch(secret)
            try:
                return secrets.decode_secret(await self._client.patch(named, body, MERGE_PATCH))
            except NotFoundError as error:
                raise ConflictError(error.request, error.status) from error

    async def fetch_registration(self, name: str) -> Registration | None:
        """Fetch the registration from the server, if there is one."""
        path = paths.item(_REGISTRATIONS, name)
        with self._rights.noted("fetch registration"), suppress(NotFoundError):
            return webhook_configurations.decode_registration(await self._client.fetch(path))
        return None

    async def write_registration(self, found: Registration | None, wanted: Registration) -> None:
        """Create the registration, or patch the one that was found into the wanted one."""
        with self._rights.noted("write registration"):
            if found is None:
                await self._client.post(
                    _REGISTRATIONS, webhook_configurations.encode_registration(wanted)
                )
            else:
                await self._patch_registration(found, wanted)

    async def try_pod(self, namespace: str, labels: Mapping[str, str]) -> Mapping[str, str]:
        """Return the annotations that a small pod with these labels would have; none is created."""
        path = f"{paths.pods(namespace)}?dryRun=All"
        with self._rights.noted("try pod"):
            return dry_run_pod.decode_annotations(
                await self._client.post(path, dry_run_pod.encode_trial_pod(labels))
            )

    async def _patch_registration(self, found: Registration, wanted: Registration) -> None:
        body = webhook_configurations.encode_registration_patch(found, wanted)
        try:
            await self._client.patch(paths.item(_REGISTRATIONS, found.name), body)
        except NotFoundError as error:
            raise ConflictError(error.request, error.status) from error
        except InvalidError as error:
            if error.causes:
                raise
            # Without causes the patch did not apply at all: the object is not what was seen.
            raise ConflictError(error.request, error.status) from error
