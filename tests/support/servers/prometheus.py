"""A small Prometheus on loopback: real HTTP, and just the few forms of queries that we ask.

The real one is asked in `tests/e2e`; this one can be told to be down, slow, strict or wrong.
"""

import asyncio
import math
import re
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

Labels = Mapping[str, str]

_SELECTOR = re.compile(r"([a-zA-Z_:][\w:]*)\{(.*)\}")
_MATCHER = re.compile(r'(\w+)(=|!=)"((?:[^"\\]|\\.)*)"')
_RANGE = re.compile(r"\[(\d+)ms\]")

STALE_SECONDS = 300


@dataclass
class Told:
    """One series: its labels, the name among them, and its samples by time."""

    labels: dict[str, str]
    samples: dict[float, float] = field(default_factory=dict)


@dataclass
class FakePrometheus:
    """What it holds, what it is told to do, and what it was asked."""

    series: list[Told] = field(default_factory=list)
    authorization: str | None = None
    """What the header must be."""
    refusal: tuple[int, str] | None = None
    """The status and the body of every answer, for as long as it is there."""
    strict: tuple[str, ...] = ()
    """Queries that hold one of these are too much."""
    bodies: dict[str, bytes] = field(default_factory=dict)
    """Whole answers to queries that hold a text."""
    delay: float = 0.0
    """Seconds before those answers."""
    crowd: int = 0
    """So many queries have to be under way until one is answered."""
    queries: list[dict[str, str]] = field(default_factory=list)
    in_flight: int = 0
    most_in_flight: int = 0
    now: float = 0.0
    address: str = ""
    _crowded: asyncio.Event = field(default_factory=asyncio.Event)

    def wait_for_crowd(self, size: int) -> None:
        """Answer nobody until so many queries are under way."""
        self.crowd = size
        self._crowded.clear()

    def tell(self, name: str, labels: Labels, samples: Mapping[float, float]) -> None:
        self.series.append(Told({"__name__": name, **labels}, dict(samples)))

    async def answer(self, request: web.Request) -> web.Response:
        asked = dict(request.query)
        self.queries.append({**asked, "kind": request.path.rpartition("/")[2]})
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            if self.in_flight >= self.crowd:
                self._crowded.set()
            await self._crowded.wait()
            for text, body in self.bodies.items():
                if text in asked["query"]:
                    await asyncio.sleep(self.delay)
                    return web.Response(body=body, content_type="application/json")
            return self._answer(request, asked)
        finally:
            self.in_flight -= 1

    def _answer(self, request: web.Request, asked: dict[str, str]) -> web.Response:
        if self.refusal is not None:
            return web.Response(status=self.refusal[0], text=self.refusal[1])
        if self.authorization not in (None, request.headers.get("Authorization")):
            return web.Response(status=401, text="who are you")
        moments = [self.now]
        if "start" in asked:
            begin, end, step = (float(asked[name]) for name in ("start", "end", "step"))
            moments = [begin + n * step for n in range(int((end - begin) / step + 1e-9) + 1)]
        found = self._evaluate(asked["query"], moments)
        if any(text in asked["query"] for text in self.strict):
            problem = {
                "status": "error",
                "errorType": "execution",
                "error": "query processing would load too many samples into memory",
            }
            return web.json_response(problem, status=422)
        is_range = "start" in asked
        result = [
            {"metric": labels, **_shown(samples, is_range=is_range)} for labels, samples in found
        ]
        kind = "matrix" if is_range else "vector"
        data = {"resultType": kind, "result": result}
        return web.json_response({"status": "success", "data": data})

    def _evaluate(
        self, query: str, moments: Sequence[float]
    ) -> list[tuple[dict[str, str], list[tuple[float, float]]]]:
        name, matchers = _SELECTOR.search(query).groups()  # type: ignore[union-attr]
        span = int(found[1]) / 1000 if (found := _RANGE.search(query)) else STALE_SECONDS
        chosen = [one for one in self.series if _matches(one.labels, name, matchers)]
        function = query.partition(name)[0]
        if "count by (job)" in function or function == "count(":
            jobs: dict[str, int] = {}
            for one in chosen:
                if _within(one, moments[-1], STALE_SECONDS):
                    jobs[one.labels.get("job", "")] = jobs.get(one.labels.get("job", ""), 0) + 1
            if function == "count(":
                total = sum(jobs.values())
                return [({}, [(moments[-1], total)])] if total else []
            return [({"job": job}, [(moments[-1], n)]) for job, n in jobs.items()]
        if "count_over_time" in function:
            most = max((len(_within(one, moments[-1], span)) for one in chosen), default=0)
            return [({}, [(moments[-1], most)])] if most else []
        found_series = []
        for one in chosen:
            told = [(at, value) for at in moments if (value := _value(one, at, span, function))]
            if told:
                found_series.append((one.labels, [(at, value[0]) for at, value in told]))
        return found_series


def _value(one: Told, at: float, span: float, function: str) -> tuple[float] | None:
    seen = _within(one, at, span)
    if "rate" in function:
        if len(seen) < 2:
            return None
        (begin, first), (end, last) = seen[0], seen[-1]
        return ((last - first) / (end - begin),)
    return (seen[-1][1],) if seen else None


def _within(one: Told, at: float, span: float) -> list[tuple[float, float]]:
    return [(time, value) for time, value in sorted(one.samples.items()) if at - span < time <= at]


def _matches(labels: Labels, name: str, matchers: str) -> bool:
    if labels["__name__"] != name:
        return False
    return all(
        (labels.get(key, "") == value) is (operator == "=")
        for key, operator, value in _MATCHER.findall(matchers)
    )


def _shown(samples: list[tuple[float, float]], *, is_range: bool) -> dict[str, object]:
    pairs = [[time, _text(value)] for time, value in samples]
    return {"values": pairs} if is_range else {"value": pairs[-1]}


def _text(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return f"{value:+}".replace("inf", "Inf") if math.isinf(value) else repr(value)


@asynccontextmanager
async def serving(
    fake: FakePrometheus, tls: ssl.SSLContext | None = None
) -> AsyncIterator[FakePrometheus]:
    """The fake, where it can be asked for as long as the block lasts."""
    app = web.Application()
    app.router.add_get("/api/v1/query", fake.answer)
    app.router.add_get("/api/v1/query_range", fake.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    try:
        _, port = runner.addresses[0][:2]
        fake.address = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
        yield fake
    finally:
        await runner.cleanup()
