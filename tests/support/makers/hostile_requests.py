"""Requests that nobody should send: damaged, endless, deep, mistyped, of every size."""

import json
from collections.abc import Iterator
from random import Random

from support.makers.damage import places, replaced
from support.makers.reviews import AUTOSCALERS, a_pod_object, a_review, an_autoscaler_object

_WHOLE = (
    a_review(a_pod_object()),
    a_review(an_autoscaler_object(), AUTOSCALERS, old=an_autoscaler_object()),
)
_PLACES = tuple((whole, places(whole)) for whole in _WHOLE)
_WRONG: tuple[object, ...] = (None, True, -1, 2**70, 1e308, "", "\x00", [], {}, [[]], {"": None})
_TYPES = ("application/json", "application/json", "text/html", "", "application/json; x=\xff")


def hostile_requests(seed: int, count: int) -> Iterator[tuple[str, bytes]]:
    """So many types and bodies, drawn from the seed."""
    random = Random(seed)
    for _ in range(count):
        yield random.choice(_TYPES), random.choice(_KINDS)(random)


def _damaged(random: Random) -> bytes:
    whole, found = random.choice(_PLACES)
    return json.dumps(replaced(whole, random.choice(found), random.choice(_WRONG))).encode()


def _strange_names(random: Random) -> bytes:
    """Valid, and never the same: what is remembered by name would grow and grow."""
    pod, word = a_pod_object(), str(random.random())
    pod["metadata"] |= {"labels": {word: word}, "annotations": {word: word * 9}}
    pod["metadata"]["ownerReferences"][0] |= {"kind": word, "apiVersion": f"{word}/v1"}
    pod["spec"]["containers"][0] |= {
        "name": word,
        "resources": {"requests": {"cpu": f"{random.random():.3f}", "memory": f"{word}"}},
    }
    return json.dumps(a_review(pod, namespace=word)).encode()


def _cut(random: Random) -> bytes:
    body = json.dumps(random.choice(_WHOLE)).encode()
    return body[: random.randrange(len(body))]


def _noise(random: Random) -> bytes:
    return random.randbytes(random.randrange(2000))


def _deep(random: Random) -> bytes:
    return random.choice((b"[", b'{"request":')) * random.randrange(5000)


def _large(random: Random) -> bytes:
    return b'{"request":{"uid":"' + b"x" * random.randrange(200_000) + b'"}}'


_KINDS = (_damaged, _damaged, _damaged, _strange_names, _strange_names, _cut, _noise, _deep, _large)
