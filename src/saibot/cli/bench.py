"""`saibot bench`: speed side by side with what users would do instead, as ratios from one run."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from saibot.cli.checkout import find_research
from saibot.cli.show import JsonOption, print_json, progress, say
from saibot.errors import InvalidInput
from saibot.extras import how_to_install
from saibot.report.format import number
from saibot.report.terminal import print_table


class BenchEngine(StrEnum):
    """Where a search is measured."""

    threads = "threads"
    gpu = "gpu"
    spark = "spark"


def add_to(app: typer.Typer) -> None:
    group = typer.Typer(
        help="Speed side by side with what users would do instead, as ratios from one run. Needs a checkout.",
        no_args_is_help=True,
    )
    group.command("privatize")(bench_privatize)
    group.command("search")(bench_search)
    group.command("factors")(bench_factors)
    group.command("platform")(bench_platform)
    group.command("pages")(bench_pages)
    app.add_typer(group, name="bench")


def bench_privatize(
    rows: Annotated[int, typer.Option(help="Rows of the table.", min=1000)] = 10_000_000,
    keys: Annotated[int, typer.Option(help="Keys of the domain.", min=1)] = 1000,
    json: JsonOption = False,
) -> None:
    """Privatising 4 features of a Parquet table, against the plain integer GROUP BY; noise reported apart."""
    find_research("saibot bench")
    from research.benchmarks import privatize

    with progress(quiet=json) as tell:
        found = privatize.bench_privatize(rows=rows, keys=keys, tell=tell)
    if json:
        print_json(found.to_json())
        return
    table = [
        ["plain GROUP BY", f"{number(found.plain_seconds, 3)} s", "1"],
        ["clip to bounds, quantise, aggregate", f"{number(found.box_seconds, 3)} s", f"{number(found.box_ratio, 3)}"],
        ["the same with norm clip", f"{number(found.norm_clip_seconds, 3)} s", f"{number(found.norm_clip_ratio, 3)}"],
    ]
    print_table(f"{rows:,} rows, 4 features, {keys:,} keys, from Parquet", ["", "best of 5", "ratio"], table, right=(1, 2))
    noise = f"noise {number(found.noise_us_per_value, 3)} µs per value of a large release"
    few = f"{number(found.opendp_us_per_value, 3)} µs of a small one ({number(found.noise_speedup, 3)}×)"
    say(f"peak memory {number(found.peak_memory_mb)} MB; {noise}, {few}")


def bench_search(
    candidates: Annotated[int, typer.Option(help="Candidates of one feature each.", min=10)] = 10_000,
    keys: Annotated[int, typer.Option(help="Keys of the domain.", min=2)] = 1000,
    rows: Annotated[int, typer.Option(help="Rows of the request.", min=10)] = 20_000,
    engine: Annotated[
        BenchEngine, typer.Option(help="Where: threads of this machine, a GPU, or Spark beside threads.")
    ] = BenchEngine.threads,
    master: Annotated[
        str | None, typer.Option(help="With --engine spark: the cluster; else Spark's own settings say.")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Folder for a figure of how the cost grows.")] = None,
    larger_than_memory: Annotated[
        bool, typer.Option("--larger-than-memory", help="Instead: write and search a corpus larger than memory.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """A greedy step over a memory-mapped corpus, against the merge-and-fit loop and against streaming memory."""
    if larger_than_memory:
        _bench_memory(json)
        return
    find_research("saibot bench")
    if engine is BenchEngine.gpu:
        _bench_gpu(candidates, keys, json)
        return
    if engine is BenchEngine.spark:
        _bench_spark(candidates, keys, rows, master, json)
        return
    from research.benchmarks import scaling, search

    with progress(quiet=json) as tell:
        found = search.bench_search(candidates=candidates, keys=keys, rows=rows, tell=tell)
        figure = scaling.write_report(scaling.bench_scaling(tell=tell), report) if report else None
    if figure:
        say(f"wrote {figure}", err=True)
    if json:
        print_json(found.to_json())
        return
    table = [
        ["this engine, one greedy step", f"{number(found.engine_us_per_candidate, 3)} µs"],
        ["pandas merge + scikit-learn, per candidate", f"{number(found.loop_us_per_candidate, 3)} µs"],
        ["speed-up", f"{number(found.speedup, 3)}×"],
        ["share of streaming memory bandwidth", f"{number(100 * found.bandwidth_fraction, 3)} %"],
        ["float32 values against float64, the sweep alone", f"{number(found.float32_speedup, 3)}×"],
        ["scores in the sweep against scores after it", f"{number(found.fused_speedup, 3)}×"],
        ["all cores against one", f"{number(found.threads_speedup, 3)}×"],
    ]
    print_table(f"{candidates:,} candidates, {keys:,} keys, {rows:,} rows", ["", "per candidate"], table, right=(1,))


def _bench_gpu(candidates: int, keys: int, json: bool) -> None:
    from research.benchmarks.gpu import bench_gpu

    try:
        import torch
        import triton  # noqa: F401
    except ImportError:
        torch = None
    if torch is None or not torch.cuda.is_available():
        raise InvalidInput("no GPU is to be had here.", hint=f"On a machine with one: {how_to_install('gpu')}")
    found = bench_gpu(candidates=candidates, keys=keys)
    if json:
        print_json(found)
        return
    table = [
        ["a greedy step, the best 50 back", f"{number(found['step_ms'], 3)} ms"],
        ["reading all values once", f"{number(found['read_once_ms'], 3)} ms"],
        ["share of the rate of reading", f"{number(100 * found['fraction_of_read_rate'], 3)} %"],
        ["relative error of gains", f"{found['relative_errors']['gain']:.1g}"],
    ]
    print_table(f"{candidates:,} candidates, {keys:,} keys, {found['device']}", ["", ""], table, right=(1,))


def _bench_spark(candidates: int, keys: int, rows: int, master: str | None, json: bool) -> None:
    from research.benchmarks.spark_search import bench_spark

    with progress(quiet=json) as tell:
        found = bench_spark(candidates=candidates, keys=keys, rows=rows, master=master, tell=tell)
    if json:
        print_json(found.to_json())
        return
    table = [
        ["a greedy step by threads", f"{number(found.threads_ms, 3)} ms"],
        ["the same on Spark, warm", f"{number(found.spark_ms, 3)} ms"],
        ["a Spark job that does nothing", f"{number(found.empty_job_ms, 3)} ms"],
        ["Spark over threads", f"{number(found.spark_over_threads, 3)}×"],
        [f"the best are {'' if found.same_best else 'NOT '}the same; gains differ by", f"{found.largest_difference:.1g}"],
    ]
    print_table(f"{candidates:,} candidates, {keys:,} keys, {found.master}", ["", ""], table, right=(1,))


def bench_factors(
    tables: Annotated[int, typer.Option(help="Sketches of one feature each.", min=8)] = 10_000,
    keys: Annotated[int, typer.Option(help="Keys of the domain.", min=8)] = 1000,
    report: Annotated[Path | None, typer.Option(help="Folder for a figure of how the cost grows.")] = None,
    json: JsonOption = False,
) -> None:
    """Learning what the sketches of a key domain have in common, and improving all their values with it."""
    find_research("saibot bench")
    from research.benchmarks import factors

    with progress(quiet=json) as tell:
        tell("learning", None)
        found = factors.bench_factors(tables=tables, keys=keys)
        figure = factors.write_growth(factors.bench_growth(tell=tell), report) if report else None
    if figure:
        say(f"wrote {figure}", err=True)
    if json:
        print_json(found.to_json())
        return
    table = [
        ["reading the sketches' sums", f"{number(found.readings_seconds, 3)} s"],
        [f"learning, and choosing {found.rank} factors", f"{number(found.learn_seconds, 3)} s"],
        ["better values for all", f"{number(found.apply_seconds, 3)} s"],
        ["expected gains of all for a request", f"{number(found.request_seconds, 3)} s"],
        ["memory at its peak", f"{number(found.peak_mb, 3)} MB"],
    ]
    print_table(f"{tables:,} sketches, {keys:,} keys", ["", ""], table, right=(1,))


def bench_platform(
    clients: Annotated[int, typer.Option(help="People at once, with 1 to 3 s between what they do.", min=1)] = 200,
    seconds: Annotated[float, typer.Option(help="How long.", min=1)] = 60,
    stored: Annotated[int, typer.Option(help="Datasets stored before they come.", min=0)] = 100_000,
    database: Annotated[
        str | None, typer.Option(help="An empty Postgres database, postgresql://...; by default SQLite.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """A server with many datasets while many people browse, publish and search, from a second process on loopback."""
    find_research("saibot bench")
    from research.benchmarks import platform

    with progress(quiet=json) as tell:
        found = platform.bench_platform(clients=clients, seconds=seconds, stored=stored, database=database, tell=tell)
    if json:
        print_json(found.to_json())
        return
    table = [[kind, f"{number(value, 3)} ms"] for kind, value in found.p95_ms.items()]
    table.append(["all browsing", f"{number(found.browsing_p95_ms, 3)} ms"])
    print_table(f"{clients:,} clients, {stored:,} datasets, {seconds:g} s", ["", "p95"], table, right=(1,))
    alone = [[way, f"{number(value, 3)} ms"] for way, value in found.alone_p95_ms.items()]
    print_table("one after the other, nobody else there", ["", "p95"], alone, right=(1,))
    busy = found.statuses.get("429", 0)
    say(f"{found.requests:,} requests, {found.errors} errors, {busy} told to wait (429); {found.published} published")
    say(f"{found.searches_done} searches done; memory {number(found.memory_mb)} MB, × {number(found.memory_growth, 3)}")
    say("cores busy: " + ", ".join(f"{name} {number(cores, 2)}" for name, cores in found.cores.items()))


def bench_pages(
    stored: Annotated[int, typer.Option(help="Datasets in the catalogue.", min=1)] = 100_000,
    candidates: Annotated[int, typer.Option(help="Candidates of the result whose report is written.", min=1)] = 1000,
    keys: Annotated[int, typer.Option(help="Keys of a dataset whose page a browser opens and scrolls; 0: none.")] = 0,
    json: JsonOption = False,
) -> None:
    """The catalogue's pages with very many datasets, and the page of a dataset with very many keys in a real browser."""
    find_research("saibot bench")
    from research.benchmarks import long_keys, pages

    with progress(quiet=json) as tell:
        found = pages.bench_pages(stored=stored, candidates=candidates, tell=tell)
        long = long_keys.bench_long_keys(keys=keys, tell=tell) if keys else None
    if json:
        print_json(found.to_json() | {"long_keys": None if long is None else long.to_json()})
        return
    if long is not None:
        seen = f"first view {number(long.first_view_ms, 3)} ms, with charts {number(long.complete_ms, 3)} ms"
        seen += f", {number(long.cold_view_ms, 3)} ms for the very first visitor"
        moved = f"{number(long.frames_per_second, 3)} frames a second, slowest {number(long.slowest_frame_ms, 3)} ms"
        say(f"{long.keys:,} keys: {seen}; scrolling {moved}; sorting {number(long.sorted_ms, 3)} ms")
    table = [
        [way, f"{number(first, 3)} ms", f"{number(found.median_ms[way], 3)} ms"] for way, first in found.first_ms.items()
    ]
    print_table(f"{stored:,} datasets", ["page", "first time", "median"], table, right=(1, 2))
    say(f"a report of {candidates:,} candidates: {number(found.report_ms, 3)} ms")


def _bench_memory(json: bool) -> None:
    find_research("saibot bench")
    from research.benchmarks import memory

    with progress(quiet=json) as tell:
        found = memory.bench_memory(tell=tell)
    if json:
        print_json(found.to_json())
        return
    table = [
        ["corpus on disk", f"{number(found.corpus_gb, 3)} GB"],
        ["memory of the machine", f"{number(found.memory_gb, 3)} GB"],
        ["one greedy step", f"{number(found.step_seconds, 3)} s"],
        ["memory the step needed for itself", f"{number(found.own_memory_mb, 3)} MB"],
    ]
    print_table(f"{found.candidates:,} candidates, {found.keys:,} keys", ["", ""], table, right=(1,))
