"""Autoscalers that are created or changed at once, against an API server that stores them later."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest
from support.fakes.clocks import run_virtually
from support.fakes.updater_cluster import UpdaterCluster
from support.makers.reviews import AUTOSCALERS, Json, Webhook, a_review, an_autoscaler_object

from trimtab.admission.settings import AdmissionSettings
from trimtab.api.kinds.autoscalers import decode_autoscaler
from trimtab.api.wire.codec import encode
from trimtab.api.wire.status_errors import Status
from trimtab.cluster.errors import (
    ApiError,
    ClusterError,
    ForbiddenError,
    TooManyRequestsError,
    UnreachableError,
)
from trimtab.core.model.autoscalers import Autoscaler, AutoscalerName

MIB = 1024 * 1024


class Server:
    """An API server that asks the webhook, stores after a while, and shows that later still."""

    def __init__(self, settings: AdmissionSettings | None = None) -> None:
        self.cluster = UpdaterCluster()
        self.stored: dict[AutoscalerName, Autoscaler] = {}
        self.cluster.live_autoscalers = self.stored
        self.webhook = Webhook(self.cluster, settings)
        self.store_seconds = 0.05
        self.watch_seconds = 0.05
        self.refuses: set[str] = set()
        """Names that the API server itself refuses after the webhook has allowed them."""
        self._count = 0

    async def create(self, name: str = "", **fields: object) -> Json:
        """Create an autoscaler of the Deployment `api`; one without a name gets one."""
        return await self._change(an_autoscaler_object(name, **fields), None)  # type: ignore[arg-type]

    async def update(self, name: str, before: Json, **fields: object) -> Json:
        """Change an autoscaler that is stored."""
        return await self._change(
            an_autoscaler_object(name, **fields),  # type: ignore[arg-type]
            an_autoscaler_object(name, **before),
        )

    def delete(self, name: str, *, is_shown: bool = True) -> None:
        """Delete an autoscaler; the watch may not have shown that yet."""
        del self.stored[AutoscalerName("default", name)]
        if is_shown:
            self.cluster.drop_autoscaler(name)

    async def _change(self, new: Json, old: Json | None) -> Json:
        self._count += 1
        review = a_review(new, AUTOSCALERS, old=old, uid=f"u-{self._count}")
        if not new["metadata"]["name"]:
            del new["metadata"]["name"]
        response = await self.webhook.ask_patiently(review)
        if response["allowed"]:
            await asyncio.sleep(self.store_seconds)
            name = new["metadata"].get("name") or f"generated-{self._count}"
            if name not in self.refuses:
                self._store(name, new)
        return response

    def _store(self, name: str, new: Json) -> None:
        metadata = {"namespace": "default", "name": name}
        stored = decode_autoscaler(encode({**new, "metadata": metadata}))
        self.stored[stored.identity] = stored

        def show() -> None:
            target, selector = stored.target, stored.selector
            self.cluster.autoscale(name=name, target=target, selector=selector)

        asyncio.get_running_loop().call_later(self.watch_seconds, show)


def play(scene: Callable[[Server], Awaitable[None]], **settings: bool) -> None:
    """Play a scene on an API server whose webhook has run for a minute."""

    async def run() -> None:
        server = Server(AdmissionSettings(**settings))  # type: ignore[arg-type]
        server.cluster.deploy("api")
        background = asyncio.create_task(server.webhook.claims.run())
        await asyncio.sleep(60)
        await scene(server)
        background.cancel()

    run_virtually(run())


def allowed(responses: list[Json]) -> int:
    return sum(response["allowed"] for response in responses)


@pytest.mark.parametrize(
    ("store_seconds", "watch_seconds"),
    [
        pytest.param(0.001, 0.001, id="quick"),
        pytest.param(0.3, 0.01, id="stored slowly"),
        pytest.param(0.9, 0.3, id="stored and shown slowly"),
    ],
)
@pytest.mark.parametrize("is_named", [True, False])
def test_of_several_that_are_created_at_once_exactly_one_passes(
    store_seconds: float, watch_seconds: float, *, is_named: bool
) -> None:
    async def scene(server: Server) -> None:
        server.store_seconds, server.watch_seconds = store_seconds, watch_seconds
        names = ["first", "second", "third", "fourth"] if is_named else [""] * 4
        responses = await asyncio.gather(*map(server.create, names))

        assert allowed(responses) == 1
        assert len(server.stored) == 1
        (stored,) = server.stored
        assert all(
            f'"{stored.name}"' in each["status"]["message"]
            for each in responses
            if not each["allowed"]
        )

    play(scene)


def test_of_several_that_are_changed_at_once_to_one_target_exactly_one_passes() -> None:
    async def scene(server: Server) -> None:
        names = ["first", "second", "third"]
        for name in names:
            await server.create(name, target=name)
        await asyncio.sleep(20)
        responses = await asyncio.gather(*(server.update(name, {"target": name}) for name in names))

        assert allowed(responses) == 1

    play(scene)


def selecting(role: str) -> Json:
    return {
        "selector": {"matchLabels": {"role": role}},
        "updatePolicy": {"updateMode": "InPlace"},
    }


def test_of_several_that_are_changed_at_once_to_one_selector_exactly_one_passes() -> None:
    async def scene(server: Server) -> None:
        names = ["first", "second", "third"]
        for name in names:
            await server.create(name, **selecting(name))
        await asyncio.sleep(20)
        responses = await asyncio.gather(
            *(server.update(name, selecting(name), **selecting("all")) for name in names)
        )

        assert allowed(responses) == 1

    play(scene)


def test_one_that_is_deleted_and_created_under_another_name_passes_at_once() -> None:
    async def scene(server: Server) -> None:
        await server.create("old")
        await asyncio.sleep(1)
        server.delete("old")
        began = asyncio.get_running_loop().time()
        response = await server.create("new")

        assert response["allowed"]
        assert asyncio.get_running_loop().time() - began < 0.2

    play(scene)


@pytest.mark.parametrize("is_shown", [True, False])
def test_one_that_was_deleted_before_the_watch_showed_it_is_no_hindrance(*, is_shown: bool) -> None:
    async def scene(server: Server) -> None:
        server.watch_seconds = 0.0 if is_shown else 3600.0
        await server.create("old")
        await asyncio.sleep(0.01)
        server.delete("old", is_shown=False)
        response = await server.create("new")

        assert response["allowed"]
        assert not response.get("warnings")

    play(scene)


def test_one_that_the_api_server_refused_is_no_hindrance_to_the_corrected_one() -> None:
    async def scene(server: Server) -> None:
        server.refuses.add("quota-is-full")
        await server.create("quota-is-full")
        response = await server.create("corrected")

        assert response["allowed"]
        assert not response.get("warnings")

    play(scene)


def test_one_with_a_name_that_no_object_can_have_makes_no_other_wait() -> None:
    async def scene(server: Server) -> None:
        server.refuses.add("Bad_Name")
        await server.create("Bad_Name")
        began = asyncio.get_running_loop().time()
        await server.create("corrected")

        assert asyncio.get_running_loop().time() - began < 0.1

    play(scene)


def test_of_those_that_wait_for_one_that_is_refused_exactly_one_passes() -> None:
    async def scene(server: Server) -> None:
        server.refuses.add("doomed")
        names = ["doomed", "second", "third", "fourth"]
        responses = await asyncio.gather(*map(server.create, names))

        assert allowed(responses) == 2
        assert len(server.stored) == 1

    play(scene)


def test_a_forged_review_delays_another_and_does_not_refuse_it() -> None:
    async def scene(server: Server) -> None:
        for number in range(100):
            forged = an_autoscaler_object(f"forged-{number}")
            server.webhook.ask(a_review(forged, AUTOSCALERS, uid=f"forged-{number}"))
        response = await server.create("real")

        assert response["allowed"]

    play(scene)


def test_forged_reviews_without_end_do_not_refuse_anything() -> None:
    async def scene(server: Server) -> None:
        async def forge() -> None:
            for number in range(200):
                forged = an_autoscaler_object(f"forged-{number}")
                server.webhook.ask(a_review(forged, AUTOSCALERS, uid=f"forged-{number}"))
                await asyncio.sleep(0.05)

        forging = asyncio.create_task(forge())
        await asyncio.sleep(1)
        response = await server.create("real")
        await forging

        assert response["allowed"]

    play(scene)


def test_one_that_the_watch_shows_and_the_api_server_does_not_have_is_no_hindrance() -> None:
    async def scene(server: Server) -> None:
        await server.create("old")
        await asyncio.sleep(30)
        server.delete("old", is_shown=False)

        assert (await server.create("new"))["allowed"]

    play(scene)


@pytest.mark.parametrize("is_shown", [True, False])
@pytest.mark.parametrize(
    "error",
    [
        UnreachableError("GET", "no route"),
        ForbiddenError("GET", Status(code=403)),
        TooManyRequestsError("GET", Status(code=429)),
        ApiError("GET", Status(code=500)),
    ],
    ids=lambda error: type(error).__name__,
)
def test_while_the_api_server_refuses_to_answer_doubt_is_a_warning(
    error: ClusterError, *, is_shown: bool
) -> None:
    async def scene(server: Server) -> None:
        server.watch_seconds = 0.0 if is_shown else 3600.0
        await server.create("old")
        await asyncio.sleep(0.01)
        server.cluster.refusals["fetch_autoscaler"] = [error] * 1000
        response = await server.create("new")

        assert response["allowed"]
        (warning,) = response["warnings"]
        assert '"old"' in warning
        assert "the oldest that acts on pods is in charge" in warning
        assert "ConfigConflict" in warning

    play(scene)


def test_an_api_server_that_hangs_delays_an_answer_for_seconds_only() -> None:
    async def scene(server: Server) -> None:
        await server.create("old")
        await asyncio.sleep(30)
        server.cluster.latency = timedelta(hours=1)
        began = asyncio.get_running_loop().time()
        response = await server.create("new")

        assert response["allowed"]
        assert '"old"' in response["warnings"][0]
        assert asyncio.get_running_loop().time() - began < 3

    play(scene)


def test_one_that_must_not_wait_is_not_refused_on_doubt() -> None:
    async def scene(server: Server) -> None:
        await server.create("old")
        await asyncio.sleep(30)
        server.delete("old", is_shown=False)
        response = server.webhook.ask(a_review(an_autoscaler_object("new"), AUTOSCALERS))

        assert response["allowed"]
        assert '"old"' in response["warnings"][0]

    play(scene)


SLOW_SECONDS = (0.2, 0.25, 0.3, 0.4, 0.6, 0.9, 1.5, 2.2)


@pytest.mark.parametrize("lookup_seconds", SLOW_SECONDS)
def test_a_slow_answer_that_the_other_one_is_gone_counts(lookup_seconds: float) -> None:
    async def scene(server: Server) -> None:
        await server.create("old")
        await asyncio.sleep(30)
        server.delete("old", is_shown=False)
        server.cluster.latency = timedelta(seconds=lookup_seconds)
        before = server.cluster.requests["fetch_autoscaler"]
        response = await server.create("new")

        assert response["allowed"]
        assert not response.get("warnings")
        assert server.cluster.requests["fetch_autoscaler"] == before + 1

    play(scene)


@pytest.mark.parametrize("lookup_seconds", SLOW_SECONDS)
def test_a_slow_answer_that_the_other_one_exists_counts(lookup_seconds: float) -> None:
    async def scene(server: Server) -> None:
        await server.create("old")
        await asyncio.sleep(30)
        server.cluster.latency = timedelta(seconds=lookup_seconds)
        response = await server.create("new")

        assert not response["allowed"]
        assert '"old"' in response["status"]["message"]

    play(scene)


@pytest.mark.parametrize("lookup_seconds", [0.2, 0.4, 0.7])
@pytest.mark.parametrize("is_named", [True, False])
def test_of_several_at_once_exactly_one_passes_beside_slow_lookups(
    lookup_seconds: float, *, is_named: bool
) -> None:
    async def scene(server: Server) -> None:
        server.cluster.latency = timedelta(seconds=lookup_seconds)
        names = ["first", "second", "third", "fourth"] if is_named else [""] * 4
        responses = await asyncio.gather(*map(server.create, names))

        assert allowed(responses) == 1
        assert len(server.stored) == 1

    play(scene)


def test_lookups_of_one_namespace_do_not_hold_up_those_of_another() -> None:
    async def scene(server: Server) -> None:
        await server.create("old")
        await asyncio.sleep(30)
        server.cluster.latency = timedelta(seconds=0.5)
        for number in range(100):
            forged = an_autoscaler_object(f"forged-{number}", f"target-{number}")
            server.webhook.ask(a_review(forged, AUTOSCALERS, namespace="tenant", uid=f"f-{number}"))
        waiting = [
            asyncio.create_task(
                server.webhook.ask_patiently(
                    a_review(
                        an_autoscaler_object(f"new-{number}", f"target-{number}"),
                        AUTOSCALERS,
                        namespace="tenant",
                    )
                )
            )
            for number in range(100)
        ]
        await asyncio.sleep(0.1)
        response = await server.create("new")
        await asyncio.gather(*waiting)

        assert not response["allowed"]
        assert '"old"' in response["status"]["message"]

    play(scene)


def test_an_edit_that_claims_nothing_new_asks_nothing_and_claims_nothing() -> None:
    async def scene(server: Server) -> None:
        await server.create("old")
        await asyncio.sleep(30)
        claimed = server.webhook.claims.size_bytes
        before = server.cluster.requests["fetch_autoscaler"]
        response = await server.update("old", {}, updatePolicy={"updateMode": "Off"})

        assert response["allowed"]
        assert server.cluster.requests["fetch_autoscaler"] == before
        assert server.webhook.claims.size_bytes == claimed

    play(scene)


def test_one_that_moves_to_another_target_leaves_its_old_one_free() -> None:
    async def scene(server: Server) -> None:
        await server.create("old")
        await asyncio.sleep(30)
        await server.update("old", {}, target="other")

        assert (await server.create("new"))["allowed"]

    play(scene)


def test_one_that_is_only_tried_out_is_no_hindrance() -> None:
    async def scene(server: Server) -> None:
        tried = a_review(an_autoscaler_object("tried"), AUTOSCALERS, dryRun=True)
        server.webhook.ask(tried)

        assert server.webhook.claims.size_bytes == 0

    play(scene)


def test_one_that_is_created_again_is_no_hindrance_to_itself() -> None:
    async def scene(server: Server) -> None:
        server.refuses.add("again")
        await server.create("again")
        began = asyncio.get_running_loop().time()

        assert (await server.create("again"))["allowed"]
        assert asyncio.get_running_loop().time() - began < 0.1

    play(scene)


def test_claims_keep_the_target_and_the_selector_and_nothing_else() -> None:
    async def scene(server: Server) -> None:
        policies = [{"containerName": "x" * 900_000}]
        for number in range(40):
            large = an_autoscaler_object(
                f"large-{number}",
                target=f"target-{number}",
                resourcePolicy={"containerPolicies": policies},
            )
            server.webhook.ask(a_review(large, AUTOSCALERS, uid=f"u-{number}"))

        assert server.webhook.claims.size_bytes < 0.1 * MIB

    play(scene)


def test_claims_are_bounded_in_bytes_whatever_the_selectors_are() -> None:
    async def scene(server: Server) -> None:
        for number in range(200):
            values = [f"{number}-{value}".ljust(63, "x") for value in range(400)]
            expression = {"key": "role", "operator": "In", "values": values}
            large = an_autoscaler_object(
                f"large-{number}",
                target=f"target-{number}",
                selector={"matchExpressions": [expression]},
                updatePolicy={"updateMode": "InPlace"},
            )
            server.webhook.ask(a_review(large, AUTOSCALERS, uid=f"u-{number}"))

        assert 3 * MIB < server.webhook.claims.size_bytes <= 4 * MIB

    play(scene)


@pytest.mark.parametrize(
    ("name", "target", "path"),
    [
        pytest.param("n" * 254, "api", "metadata.name", id="of an autoscaler"),
        pytest.param("new", "t" * 254, "spec.targetRef.name", id="of a target"),
    ],
)
def test_a_name_that_is_longer_than_any_object_has_is_refused(
    name: str, target: str, path: str
) -> None:
    async def scene(server: Server) -> None:
        response = await server.create(name, target=target)

        assert not response["allowed"]
        assert f"{path}: Too long" in response["status"]["message"]
        assert server.webhook.claims.size_bytes == 0

    play(scene)


def test_where_overlaps_are_allowed_nothing_waits() -> None:
    async def scene(server: Server) -> None:
        first = await server.create("first")
        await asyncio.sleep(1)
        before = server.cluster.requests["fetch_autoscaler"]
        second = await server.create("second")

        assert first["allowed"]
        assert second["allowed"]
        assert "first" in second["warnings"][0]
        assert server.cluster.requests["fetch_autoscaler"] == before

    play(scene, allows_overlapping=True)
