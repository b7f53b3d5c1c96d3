"""Reviews of who may read pages, by a real client."""

import json

import pytest
from support.servers.api_server import Asked, Response, a_client, ok, serving

from trimtab.cluster.live.page_reviews import review_access
from trimtab.core.webhook.page_access import Access, Token


@pytest.mark.parametrize(
    ("status", "access"),
    [
        pytest.param({"allowed": True}, Access.GRANTED, id="allowed"),
        pytest.param({"allowed": True, "denied": True}, Access.FORBIDDEN, id="denied as well"),
        pytest.param({"allowed": False, "denied": True}, Access.FORBIDDEN, id="denied"),
        pytest.param({"allowed": False}, Access.FORBIDDEN, id="not allowed"),
    ],
)
async def test_a_denial_outweighs_a_permission(status: dict[str, bool], access: Access) -> None:
    def answer(asked: Asked) -> Response:
        if asked.path.endswith("/tokenreviews"):
            return ok({"status": {"authenticated": True, "user": {"username": "reader"}}})
        assert json.loads(asked.body)["spec"]["user"] == "reader"
        return ok({"status": status})

    async with serving(answer) as server, a_client(server.url) as client:
        decision = await review_access(client, Token("a token"), "/metrics")

    assert decision.access is access
