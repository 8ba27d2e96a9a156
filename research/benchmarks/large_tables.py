"""Privatising tables of many millions of rows: how long, in how much memory, and the same statistics on every engine.

    python -m research.benchmarks.large_tables --rows 50000000 --compared 5000000 --database postgresql://user@host/name

`saibot privatize` runs on a Parquet file of `rows` rows, in a process whose peak memory is told. Then the statistics of one
of `compared` rows, before any noise, are summed by DuckDB, by Spark where it is installed, and by Postgres where a database
is named; they have to be the same bits. Everything is written into a temporary folder and table, which are removed again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from research.benchmarks.privatize import FEATURES, _write
from saibot.errors import InvalidInput
from saibot.privacy import Budget, Neighbours
from saibot.privacy.ledger import Ledger
from saibot.privatize import Card, ReleaseRequest, prepare
from saibot.privatize.aggregate import aggregate
from saibot.privatize.engines import table_in
from saibot.spark_session import check_spark

KEYS = 1000
TABLE = "saibot_large_table"


def card_text(rows: int) -> str:
    features = "".join(f"[features.x{i}]\nbounds = [-50, 150]\n" for i in range(FEATURES))
    values = ", ".join(f'"key{i}"' for i in range(KEYS))
    return (
        f'[dataset]\nname = "large"\nindividual = "one row"\nneighbours = "replace-one"\nmax_rows = {rows}\n'
        f'[budget]\ncap = {{ epsilon = "1", delta = "1e-6" }}\n{features}'
        f'[keys.k]\ncolumn = "k"\ndomain = {{ values = [{values}], id = "large" }}\n'
    )


def statistics(folder: Path, table: Path, backend: str, database: str | None) -> dict[str, Any]:
    """The digest of all sums of a table, as an engine gives them before noise, and how long that took."""
    source = table if database is None else table_in(database, TABLE)
    asked = ReleaseRequest(
        Card.read(folder / "large.toml"), Budget("1", "1e-6"), Neighbours.REPLACE_ONE, key="k", backend=backend
    )
    ready = prepare(source, asked, Ledger(folder / f"home-{backend}"))
    started = time.perf_counter()
    exact = aggregate(ready.rows, ready.grid, order=2)
    seconds = time.perf_counter() - started
    digest = hashlib.sha256()
    for array in (*exact.levels, exact.whole):
        digest.update(json.dumps([int(value) for value in array.ravel()]).encode())
    return {"digest": digest.hexdigest(), "sum_seconds": seconds}


def measured(command: list[str], home: Path) -> dict[str, Any]:
    """What a process printed as JSON, its seconds, and its own peak memory in MB (of Spark: without Java's)."""
    started, peak = time.perf_counter(), 0.0
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ | {"SAIBOT_HOME": str(home)})
    while process.poll() is None:
        peak = max(peak, _peak_mb(process.pid))
        time.sleep(0.05)
    assert process.stdout is not None
    if process.returncode != 0:
        raise InvalidInput(f"{' '.join(command[:5])} failed.")
    found: dict[str, Any] = json.loads(process.stdout.read())
    return found | {"seconds": time.perf_counter() - started, "peak_mb": peak}


def _peak_mb(pid: int) -> float:
    """The most memory that a process has had so far, as Linux says; 0 once it is gone."""
    with suppress(OSError):
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace").splitlines()
        return next((float(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:")), 0.0)
    return 0.0


def into_postgres(table: Path, database: str) -> None:
    """The rows of a file as a table; what is copied are the shortest texts that mean the same floats."""
    import psycopg
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as parquet

    with psycopg.connect(database) as connection, connection.cursor() as cursor:
        columns = ", ".join(f"x{i} double precision" for i in range(FEATURES))
        cursor.execute(f"DROP TABLE IF EXISTS {TABLE}; CREATE UNLOGGED TABLE {TABLE} (k text, {columns})".encode())
        with cursor.copy(f"COPY {TABLE} FROM STDIN (FORMAT csv)".encode()) as copying:
            for batch in parquet.ParquetFile(table).iter_batches(200_000):
                text = pa.BufferOutputStream()
                pa.csv.write_csv(batch, text, pa.csv.WriteOptions(include_header=False))
                copying.write(text.getvalue().to_pybytes())


def bench_large_tables(*, rows: int, compared: int, database: str | None) -> dict[str, Any]:
    found: dict[str, Any] = {"rows": rows, "compared": compared, "keys": KEYS, "features": FEATURES}
    with tempfile.TemporaryDirectory(prefix="saibot-bench-") as name:
        folder = Path(name)
        (folder / "large.toml").write_text(card_text(max(rows, compared)), encoding="utf-8")
        large, shared = folder / "large.parquet", folder / "shared.parquet"
        _write(large, rows, KEYS)
        found["file_gb"] = large.stat().st_size / 1e9
        command = [
            sys.executable,
            "-m",
            "saibot",
            "privatize",
            str(large),
            "--card",
            str(folder / "large.toml"),
            "--key",
            "k",
        ]
        command += ["--epsilon", "1", "--delta", "1e-6", "--yes", "--json", "--out", str(folder / "large.saibot")]
        run = measured(command, folder / "home")
        found["privatize"] = {part: run[part] for part in ("seconds", "peak_mb")}
        large.unlink()
        _write(shared, compared, KEYS)
        engines: dict[str, list[str]] = {"duckdb": []}
        try:
            check_spark()
            engines["spark"] = []
        except InvalidInput as missing:
            found["without"] = str(missing)
        if database is not None:
            into_postgres(shared, database)
            engines["postgres"] = ["--database", database]
        here = [sys.executable, "-m", "research.benchmarks.large_tables", "--statistics"]
        for engine, more in engines.items():
            found[engine] = measured([*here, str(folder), str(shared), engine, *more], folder / "home")
        found["identical"] = len({found[engine]["digest"] for engine in engines}) == 1
    return found


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--rows", type=int, default=50_000_000)
    asked.add_argument("--compared", type=int, default=5_000_000)
    asked.add_argument("--database", help="postgresql://..., where a table may be made")
    asked.add_argument("--statistics", nargs=3, metavar=("FOLDER", "TABLE", "ENGINE"), help=argparse.SUPPRESS)
    given = asked.parse_args()
    if given.statistics:
        folder, table, engine = given.statistics
        print(json.dumps(statistics(Path(folder), Path(table), engine, given.database)))
        return
    print(json.dumps(bench_large_tables(rows=given.rows, compared=given.compared, database=given.database), indent=2))


if __name__ == "__main__":
    main()
