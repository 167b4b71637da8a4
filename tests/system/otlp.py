"""A minimal OpenTelemetry collector: receives metrics and traces over OTLP/HTTP."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any, NamedTuple

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.servers import LocalServer, body_of, send


class Point(NamedTuple):
    """The latest state of a metric with its tags. For a histogram, the value is the sum of ``count`` values."""

    name: str
    tags: dict[str, str]
    value: float
    kind: str
    count: int = 1


class Span(NamedTuple):
    """A finished span."""

    name: str
    id: bytes
    parent: bytes
    trace: bytes
    attributes: dict[str, Any]
    events: list[str]
    is_error: bool


class OtlpReceiver(LocalServer):
    """Receive metrics and spans while the context is active."""

    def __init__(self) -> None:
        super().__init__()
        self.url = f"http://{self.host}"
        self.spans: list[Span] = []
        # Sums are cumulative per sending process, so add up the latest value of each.
        self._points: dict[tuple[bytes, str, frozenset[tuple[str, str]]], Point] = {}

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        body = body_of(request)
        if request.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        self.receive(request.path, body)
        send(request, 200, b"", {})

    def metrics(self, name: str, **tags: str) -> list[Point]:
        """Return the points received under a name with at least these tags."""
        points = tuple(self._points.values())
        return [point for point in points if point.name == name and tags.items() <= point.tags.items()]

    def receive(self, path: str, body: bytes) -> None:
        """Process one request of an exporter."""
        if path == "/v1/metrics":
            for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                for metric in _items(resource.scope_metrics, "metrics"):
                    self._take(resource.resource.SerializeToString(), metric)
        else:
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                self.spans += map(_span, _items(resource.scope_spans, "spans"))

    def _take(self, source: bytes, metric: Any) -> None:
        kind = metric.WhichOneof("data")
        for point in getattr(metric, kind).data_points:
            tags = _attributes(point.attributes)
            if kind in {"histogram", "exponential_histogram"}:
                found = Point(metric.name, tags, point.sum, kind, point.count)
            else:
                found = Point(metric.name, tags, point.as_double or point.as_int, kind)
            began = point.start_time_unix_nano.to_bytes(8)
            self._points[source + began, metric.name, frozenset(tags.items())] = found


def _items(scopes: Any, name: str) -> Iterator[Any]:
    return (item for scope in scopes for item in getattr(scope, name))


def _span(span: Any) -> Span:
    events = [event.name for event in span.events]
    return Span(
        span.name,
        span.span_id,
        span.parent_span_id,
        span.trace_id,
        _attributes(span.attributes),
        events,
        span.status.code == 2,
    )


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}
