"""OpenTelemetry events: log records with a name, sent to a collector over OTLP/HTTP."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, cast

from airflow_provider_assistant import __version__

# Events per request. Each request is awaited, because the SDK drops events that it cannot send fast enough.
BATCH = 500
# Seconds after which no further batch is sent: a slow collector must not hold up the task.
LONGEST = 300
# Older versions of the SDK have no names for events.
LOWEST_SDK = "1.37"


def send_events(
    name: str, events: Iterable[Mapping[str, str | float]], *, clock: Callable[[], float] = time.monotonic
) -> int:
    """
    Send events to the collector that OpenTelemetry's environment variables name, and wait for its responses.

    The events belong to the current span, if there is one. Sending stops at the first batch that the collector does not
    accept, and after ``LONGEST`` seconds. The SDK repeats a request for ``OTEL_EXPORTER_OTLP_TIMEOUT`` seconds, 10 by
    default, and logs why it failed.

    :param name: Name of the events, such as ``gen_ai.evaluation.result``.
    :param events: Attributes of each event.
    :return: Number of events that the collector accepted.
    :raises TypeError: OpenTelemetry's SDK is older than ``LOWEST_SDK``.
    """
    from opentelemetry._logs import LogRecord
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor

    exporter = _Counted(OTLPLogExporter())
    processor = BatchLogRecordProcessor(
        cast("Any", exporter),
        max_queue_size=2 * BATCH,
        max_export_batch_size=BATCH,
    )
    # Not the global provider: Airflow sets none, and this one ends with the events.
    provider = LoggerProvider(shutdown_on_exit=False)
    provider.add_log_record_processor(processor)
    logger = provider.get_logger("airflow_provider_assistant", __version__)
    remaining = iter(events)
    now = time.time_ns()
    deadline = clock() + LONGEST
    try:
        while batch := list(islice(remaining, BATCH)):
            for attributes in batch:
                record = LogRecord(timestamp=now, event_name=name, attributes=attributes)
                logger.emit(record)
            provider.force_flush()
            is_refused = exporter.accepted < exporter.attempted
            if is_refused or clock() > deadline:
                break
    finally:
        provider.shutdown()
    return exporter.accepted


class _Counted:
    """
    An exporter that counts the events that the collector accepts: the SDK does not report failures.

    It has no base class, because the SDK's has another name before 1.39.
    """

    def __init__(self, exporter: Any) -> None:
        self._exporter = exporter
        self.attempted = 0
        self.accepted = 0

    def export(self, batch: Sequence[Any]) -> Any:
        self.attempted += len(batch)
        result = self._exporter.export(batch)
        # The class of the result, too, has another name before 1.39.
        if result.name == "SUCCESS":
            self.accepted += len(batch)
        return result

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        done: bool = self._exporter.force_flush(timeout_millis)
        return done

    def shutdown(self) -> None:
        self._exporter.shutdown()
