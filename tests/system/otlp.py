"""A minimal OpenTelemetry collector: receives metrics over OTLP/HTTP."""

from __future__ import annotations

import gzip
from http.server import BaseHTTPRequestHandler
from typing import Any, NamedTuple

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from tests.servers import LocalServer, body_of, send


class Point(NamedTuple):
    """The latest state of a metric with its tags. For a histogram, the value is the sum of ``count`` values."""

    name: str
    tags: dict[str, str]
    value: float
    kind: str
    count: int = 1


class OtlpReceiver(LocalServer):
    """Receive metrics while the context is active."""

    def __init__(self) -> None:
        super().__init__()
        self.url = f"http://{self.host}"
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
        assert path == "/v1/metrics"
        for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    self._take(resource.resource.SerializeToString(), metric)

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


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}
