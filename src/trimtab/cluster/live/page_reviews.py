"""Reviews of the right to read pages, made by a real API server."""

from typing import Final

from trimtab.api.kinds import access_reviews
from trimtab.cluster.http import paths
from trimtab.cluster.http.client import Client
from trimtab.core.webhook import page_access
from trimtab.core.webhook.page_access import PAGES_ACCOUNT, PAGES_AUDIENCE, Decision, Token

_TOKEN_REVIEWS: Final = paths.collection("authentication.k8s.io/v1", "tokenreviews")
_ACCESS_REVIEWS: Final = paths.collection("authorization.k8s.io/v1", "subjectaccessreviews")
_TOKEN_SECONDS: Final = 600
"""The shortest life that an API server grants."""


async def review_access(client: Client, token: Token, path: str) -> Decision:
    """Ask the API server whose token it is, and if they may get the path."""
    audiences = [PAGES_AUDIENCE] if token.is_for_pages else []
    reviewed = await client.post(
        _TOKEN_REVIEWS, access_reviews.encode_token_review(token.text, audiences)
    )
    caller = access_reviews.decode_token_review(reviewed, audiences)
    if caller is None:
        return page_access.decide(None, is_allowed=None)
    answered = await client.post(_ACCESS_REVIEWS, access_reviews.encode_page_question(caller, path))
    return page_access.decide(caller, is_allowed=access_reviews.decode_answer(answered))


async def fetch_pages_token(client: Client, namespace: str) -> str:
    """Fetch a token for the pages of components in a namespace, and for nothing else."""
    accounts = paths.collection("v1", "serviceaccounts", namespace)
    path = paths.item(accounts, PAGES_ACCOUNT, "token")
    return access_reviews.decode_token_request(
        await client.post(path, access_reviews.encode_token_request(PAGES_AUDIENCE, _TOKEN_SECONDS))
    )
