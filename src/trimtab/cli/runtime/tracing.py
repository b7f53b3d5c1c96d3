"""Traces by OpenTelemetry, if its extra is installed and the environment names an endpoint.

Without both nothing of it is imported. The caller that begins a span names its purpose.
"""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import structlog

from trimtab import __version__
from trimtab.cluster.ports import NO_TRACES, Span, Tracer

if TYPE_CHECKING:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider

_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
"""Variables of the OpenTelemetry SDK that name the endpoint; the first takes precedence."""
_OFF: Final = "OTEL_SDK_DISABLED"
_PATIENCE: Final = timedelta(seconds=3)
"""Timeout for sending the last spans, in case the collector is gone."""

_logger: Final = structlog.stdlib.get_logger(__name__)


@asynccontextmanager
async def traced(component: str, environment: Mapping[str, str]) -> AsyncIterator[Tracer]:
    """Yield a tracer; one that does nothing unless the environment names an endpoint."""
    endpoint = next(filter(None, (environment.get(name) for name in _ENDPOINTS)), None)
    is_off = environment.get(_OFF, "").lower() == "true"
    provider = None if endpoint is None or is_off else _make_provider(component, environment)
    if provider is None:
        yield NO_TRACES
        return
    _logger.info("traces are sent", endpoint=endpoint)
    try:
        yield OtelTracer(provider)
    finally:
        # A daemon, so that a collector that does not answer cannot keep the process alive.
        ending = threading.Thread(target=provider.shutdown, daemon=True)
        ending.start()
        await asyncio.to_thread(ending.join, _PATIENCE.total_seconds())


class OtelTracer:
    """Makes spans of OpenTelemetry; a span within another is its child."""

    def __init__(self, provider: "TracerProvider") -> None:
        self._tracer = provider.get_tracer("trimtab", __version__)

    def span(
        self, name: str, about: Mapping[str, str | int] | None = None, /
    ) -> AbstractContextManager[Span]:
        """Open a span for the block; an error that leaves the block marks the span."""
        return self._last(name, about)

    @contextmanager
    def _last(self, name: str, about: Mapping[str, str | int] | None) -> Iterator[Span]:
        with self._tracer.start_as_current_span(name, attributes=about) as span:
            yield _OtelSpan(span)


class _OtelSpan:
    def __init__(self, span: "trace.Span") -> None:
        self._span = span

    def note(self, name: str, value: str | int) -> None:
        self._span.set_attribute(name, value)


def _make_provider(component: str, environment: Mapping[str, str]) -> "TracerProvider | None":
    """Make the provider that sends spans; None if the extra is not installed."""
    try:
        # Imported here, since these cost megabytes that only users of traces should pay.
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
            OTLPSpanExporter,
        )
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    except ImportError:
        problem = "the extra otel is not installed: pip install 'trimtab[otel]'"
        _logger.warning("traces cannot be sent", problem=problem)
        return None
    # If the collector is gone, one log line per batch is enough.
    logging.getLogger("opentelemetry").setLevel(logging.ERROR)
    name = environment.get("OTEL_SERVICE_NAME") or f"trimtab-{component}"
    resource = Resource.create({"service.name": name, "service.version": __version__})
    # `traced` shuts the provider down with a timeout; the hook at exit has none.
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider
