"""What a webhook keeps in a real cluster: which requests are made, and what their refusals mean."""

import json
from collections.abc import Awaitable, Callable

import pytest
from support.servers.api_server import Server, a_client, in_turn, ok, refused, serving

from trimtab.api.kinds.secrets import Secret
from trimtab.cluster.errors import ClusterError, ConflictError, ForbiddenError, InvalidError
from trimtab.cluster.live.webhook_host import LiveWebhookHost
from trimtab.core.webhook.registration import RegistrationSettings, plan_registration

REGISTRATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
WANTED = plan_registration(None, RegistrationSettings("https://127.0.0.1:1"), "bundle\n")
SEEN = Secret("trimtab", "keys", {"a": b"1"}, "7")

Act = Callable[[LiveWebhookHost], Awaitable[object]]


async def asked(act: Act, *answers: object) -> Server:
    """The server after the act, which got these answers."""
    async with (
        serving(in_turn(*(answers or (ok(),)))) as server,  # type: ignore[arg-type]
        a_client(server.url) as client,
    ):
        await act(LiveWebhookHost(client))
        return server


@pytest.mark.parametrize(
    ("act", "call"),
    [
        pytest.param(
            lambda host: host.fetch_secret("trimtab", "keys"),
            "GET /api/v1/namespaces/trimtab/secrets/keys",
            id="a secret is read",
        ),
        pytest.param(
            lambda host: host.write_secret(Secret("trimtab", "keys")),
            "POST /api/v1/namespaces/trimtab/secrets",
            id="a secret is created",
        ),
        pytest.param(
            lambda host: host.write_secret(SEEN),
            "PATCH /api/v1/namespaces/trimtab/secrets/keys",
            id="a secret is changed",
        ),
        pytest.param(
            lambda host: host.fetch_registration("vpa-webhook-config"),
            f"GET {REGISTRATIONS}/vpa-webhook-config",
            id="a registration is read",
        ),
        pytest.param(
            lambda host: host.write_registration(None, WANTED),
            f"POST {REGISTRATIONS}",
            id="a registration is created",
        ),
        pytest.param(
            lambda host: host.write_registration(WANTED, WANTED),
            f"PATCH {REGISTRATIONS}/vpa-webhook-config",
            id="a registration is changed",
        ),
        pytest.param(
            lambda host: host.try_pod("trimtab", {}),
            "POST /api/v1/namespaces/trimtab/pods",
            id="a pod is tried",
        ),
    ],
)
async def test_each_act_is_one_request(act: Act, call: str) -> None:
    assert (await asked(act)).calls == [call]


async def test_a_pod_that_is_tried_is_never_made() -> None:
    server = await asked(lambda host: host.try_pod("trimtab", {"word": "x"}))

    assert server.asked[0].query == {"dryRun": "All"}
    assert server.asked[0].json["metadata"]["labels"] == {"word": "x"}


async def test_what_is_not_there_is_nothing() -> None:
    async with (
        serving(in_turn(refused(404), refused(404))) as server,
        a_client(server.url) as client,
    ):
        host = LiveWebhookHost(client)

        assert await host.fetch_secret("trimtab", "keys") is None
        assert await host.fetch_registration("some") is None


@pytest.mark.parametrize(
    ("act", "answer", "error"),
    [
        pytest.param(
            lambda host: host.write_secret(SEEN), refused(409), ConflictError, id="a changed secret"
        ),
        pytest.param(
            lambda host: host.write_secret(SEEN), refused(404), ConflictError, id="a lost secret"
        ),
        pytest.param(
            lambda host: host.write_registration(WANTED, WANTED),
            refused(422),
            ConflictError,
            id="a changed registration",
        ),
        pytest.param(
            lambda host: host.write_registration(WANTED, WANTED),
            refused(404),
            ConflictError,
            id="a lost registration",
        ),
        pytest.param(
            lambda host: host.write_registration(WANTED, WANTED),
            refused(422, causes=["FieldValueInvalid"]),
            InvalidError,
            id="a registration that makes no sense",
        ),
    ],
)
async def test_what_another_has_changed_or_deleted_is_a_conflict(
    act: Act, answer: object, error: type[ClusterError]
) -> None:
    with pytest.raises(error):
        await asked(act, answer)


async def test_a_missing_right_is_told_until_it_is_there() -> None:
    message = 'cannot get resource "secrets" in API group "" in the namespace "trimtab"'
    async with (
        serving(in_turn(refused(403, message=message), ok())) as server,
        a_client(server.url) as client,
    ):
        host = LiveWebhookHost(client)
        with pytest.raises(ForbiddenError):
            await host.fetch_secret("trimtab", "keys")
        before = {act: str(error) for act, error in host.problems().items()}
        await host.fetch_secret("trimtab", "keys")

        assert json.dumps(before).count("secrets") > 0
        assert host.problems() == {}
