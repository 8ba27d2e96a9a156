"""Numbers about the platform for Prometheus: how much, how fast, how often it failed. Nothing about anyone's data."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """One registry for each platform: several can live in one process."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        buckets = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
        self.requests = Counter(
            "saibot_requests", "Requests answered.", ["method", "route", "status"], registry=self._registry
        )
        self.seconds = Histogram(
            "saibot_request_seconds", "Seconds until answered.", ["route"], buckets=buckets, registry=self._registry
        )
        self.uploads = Counter("saibot_published", "Sketches published.", registry=self._registry)
        self.searches = Counter("saibot_searches", "Searches ended.", ["status"], registry=self._registry)
        self.connections = Gauge("saibot_connections", "Connections that are open.", registry=self._registry)
        self.refused_connections = Counter(
            "saibot_refused_connections",
            "Connections ended by the platform, by reason.",
            ["reason"],
            registry=self._registry,
        )
        self.worker_deaths = Counter("saibot_worker_deaths", "Workers that died in a search.", registry=self._registry)

    def gauge(self, name: str, help: str, value: Callable[[], float]) -> None:
        Gauge(f"saibot_{name}", help, registry=self._registry).set_function(value)

    def text(self) -> bytes:
        return generate_latest(self._registry)
