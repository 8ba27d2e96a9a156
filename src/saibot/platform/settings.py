"""What whoever runs a platform can choose. Every field is also an environment variable: `SAIBOT_MAX_UPLOAD_BYTES=...`."""

from __future__ import annotations

import os
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from saibot.wire.options import EngineName

MIB = 1 << 20


class Settings(BaseSettings):
    """One platform: where it keeps things, what it accepts, and how much of it."""

    model_config = SettingsConfigDict(env_prefix="SAIBOT_", extra="ignore", frozen=True)

    data: Path = Field(default=Path("saibot-data"), description="Folder of everything the platform keeps.")
    database: str | None = Field(
        default=None, description="Address of the database, postgresql://...; by default an SQLite file in the data folder."
    )
    files: str | None = Field(
        default=None, description="Where sketches are kept: a folder, or s3://bucket/prefix; by default DATA/sketches."
    )
    public_url: str | None = Field(default=None, description="The address that people reach the platform at.")

    pages: bool = Field(default=True, description="Serve the web pages beside the API.")

    max_upload_bytes: int = Field(default=24 * MIB, ge=1024, description="Largest sketch or key domain that is accepted.")
    accept_unsafe: bool = Field(
        default=False, description="Accept sketches with simulated noise or unpaid preparation. For experiments only."
    )
    max_epsilon: Decimal = Field(
        default=Decimal(20),
        gt=0,
        description="Largest epsilon of a sketch that is listed. Searching with one is not limited.",
    )
    max_delta: Decimal = Field(
        default=Decimal("0.0001"), ge=0, lt=1, description="Largest delta of a sketch that is listed."
    )
    datasets_per_provider: int = Field(default=10_000, ge=1, description="Datasets that one provider may have at a time.")
    bytes_per_provider: int = Field(
        default=20 << 30, ge=1, description="Bytes that one provider's sketches, all versions, and key domains may take."
    )
    domains_per_provider: int = Field(default=1_000, ge=1, description="Key domains that one provider may register.")
    keys_per_domain: int = Field(
        default=100_000,
        ge=1,
        le=5_000_000,
        description="Keys that one key domain, or a sketch, may have. A search that meets a list of a million takes up "
        "to half a gigabyte and some seconds.",
    )
    keys_per_provider: int = Field(
        default=20_000_000, ge=1, description="Keys that one provider's key domains may have together."
    )
    searches_per_requester: int = Field(
        default=20, ge=1, description="Searches that one requester may have queued or running at a time."
    )
    enquiries_per_requester: int = Field(
        default=20, ge=1, description="Enquiries without an answer that one requester may have at a time."
    )

    read_rate: float = Field(default=50, gt=0, description="Reading requests a second of one account or address, lastingly.")
    read_burst: int = Field(default=300, ge=1, description="Reading requests of one account or address at once.")
    write_rate: float = Field(default=5, gt=0, description="Publishing, withdrawing and asking a second, lastingly.")
    write_burst: int = Field(default=120, ge=1, description="Publishing, withdrawing and asking at once.")

    connections: int = Field(default=2000, ge=10, description="Connections that a server has at a time.")
    connections_per_address: int = Field(
        default=256,
        ge=1,
        description="Connections of one address at a time (of IPv6, of one /64); behind a proxy, requests under way.",
    )
    streams_per_account: int = Field(
        default=40, ge=1, description="Searches that one account may watch at a time (streams of events)."
    )
    streams_per_address: int = Field(default=200, ge=1, description="The same of one address.")
    head_seconds: float = Field(default=10, gt=0, description="Seconds in which the head of a request has to be there.")
    patience_seconds: float = Field(
        default=30,
        gt=0,
        description="Seconds after which a body, or somebody who reads an answer, is cut off below 1,000 bytes a second.",
    )

    workers: int = Field(
        default_factory=lambda: max(1, (os.cpu_count() or 2) - 1), ge=1, le=64, description="Searches that run at a time."
    )
    engine: EngineName = Field(
        default="auto", description="Who scores candidates: auto (a GPU where there is one), threads, gpu or spark."
    )
    spark_master: str | None = Field(
        default=None, description="With engine spark: the cluster, spark://HOST:PORT; else Spark's own settings say."
    )
    search_seconds: float = Field(default=900, gt=0, description="A search that takes longer is stopped.")
    search_bytes: int = Field(
        default=4 << 30, ge=256 * MIB, description="Memory that one search may allocate; shards that it maps do not count."
    )
    drain_seconds: float = Field(
        default=0,
        ge=0,
        description="Seconds that a server told to stop still answers, while /readyz says that it is not ready.",
    )
    result_days: float = Field(default=7, gt=0, description="Days that a search and its result are kept.")
    trail_days: float = Field(
        default=730, gt=0, description="Days that entries of the trail, and tokens that were revoked, are kept."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="Least severity logged.")

    @model_validator(mode="before")
    @classmethod
    def _one_application(cls, given: Any) -> Any:
        """Every worker is an application of Spark's, and takes all of a cluster's cores unless that is told otherwise."""
        return {"workers": 1} | given if given.get("engine") == "spark" else given

    @field_validator("spark_master")
    @classmethod
    def _of_spark(cls, master: str | None, known: ValidationInfo) -> str | None:
        if master is not None and known.data.get("engine") != "spark":
            raise ValueError("a Spark master goes with the engine spark")
        return master

    @property
    def database_url(self) -> str:
        """The address as SQLAlchemy spells it."""
        if self.database is None:
            return f"sqlite:///{(self.data / 'saibot.db').absolute()}"
        for spelling in ("postgresql://", "postgres://"):
            if self.database.startswith(spelling):
                return "postgresql+psycopg://" + self.database.removeprefix(spelling)
        return self.database

    @property
    def files_address(self) -> str:
        return self.files if self.files is not None else str(self.data / "sketches")
