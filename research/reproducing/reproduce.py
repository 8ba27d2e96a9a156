"""Make figures: run, keep the numbers, draw, check. A figure whose numbers are already there is only drawn and checked.

Beside `fig10a.csv` lie `fig10a.png`, `fig10a.svg` and `fig10a.json`; the last holds the configuration in full, the commit
and the checks. Every row of the numbers carries seed, configuration hash and commit, so a table that was copied elsewhere
still says where it comes from.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import time
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import saibot
from research.reproducing.figure import Check, Figure, RunConfig, verdict
from research.reproducing.registry import figure
from saibot.errors import InvalidInput
from saibot.extras import how_to_install

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure as Drawing

SUFFIXES = (".csv", ".png", ".svg", ".json")


@dataclass(frozen=True)
class Reproduced:
    """A figure that was made: its files, and what the checks say of it."""

    name: str
    title: str
    shows: str
    files: tuple[Path, ...]
    checks: tuple[Check, ...]
    configuration: str  # hash
    commit: str
    reused: bool
    seconds: float

    @property
    def verdict(self) -> str:
        return verdict(list(self.checks))

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "title": self.title,
            "verdict": self.verdict,
            "checks": [check.to_json() for check in self.checks],
            "reasons": [f"{check.name}: {check.reason}" for check in self.checks if not check.passed],
            "files": [str(path) for path in self.files],
            "configuration": self.configuration,
            "commit": self.commit,
            "reused": self.reused,
            "seconds": round(self.seconds, 2),
        }


def reproduce(names: list[str], config: RunConfig, *, out: Path, fresh: bool = False) -> list[Reproduced]:
    """Make these figures in `out`, one after the other; what is finished stays when a later one is interrupted."""
    _need_matplotlib()
    out.mkdir(parents=True, exist_ok=True)
    made = []
    for number, name in enumerate(names):
        config.progress(name, number / len(names))

        def tell(stage: str, part: float | None, name: str = name, number: int = number) -> None:
            config.progress(f"{name}: {stage}", (number + min(part or 0.0, 1.0)) / len(names))

        made.append(make(figure(name), replace(config, progress=tell), out=out, fresh=fresh))
    return made


def make(wanted: Figure, config: RunConfig, *, out: Path, fresh: bool = False) -> Reproduced:
    started = time.perf_counter()
    csv, png, svg, note = (out / f"{wanted.name}{suffix}" for suffix in SUFFIXES)
    settings = configuration(wanted, config)
    code = digest(settings)
    frame = None if fresh else _kept(csv, note, code)
    reused = frame is not None
    if frame is None:
        note.unlink(missing_ok=True)  # numbers without their note are never taken for finished ones
        rows = wanted.run(config)
        rows = rows.assign(seed=config.seed, configuration=code, commit=commit())
        _replace(csv, rows.to_csv(index=False, float_format="%.6g"))
        frame = _read(csv)  # drawn and checked from what was written, whether it is new or kept
    checks = wanted.check(frame)
    drawing = wanted.draw(frame)
    _save_png(drawing, png)
    _save_svg(drawing, svg)
    done = Reproduced(
        name=wanted.name,
        title=wanted.title,
        shows=wanted.shows,
        files=(csv, png, svg, note),
        checks=tuple(checks),
        configuration=code,
        commit=str(frame["commit"].iloc[0]),
        reused=reused,
        seconds=time.perf_counter() - started,
    )
    document = done.to_json() | {"shows": wanted.shows, "settings": settings}
    document["files"] = [path.name for path in done.files]
    _replace(note, json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    return done


def configuration(wanted: Figure, config: RunConfig) -> dict[str, Any]:
    """Everything that the numbers of a figure depend on, but the code; the commit stands for that."""
    found = {"figure": wanted.name, "seed": config.seed, "quick": config.quick, **wanted.settings(config)}
    if wanted.uses_tables:
        found["tables"] = _inventory(config.tables)
    return found


def digest(settings: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]


@lru_cache(maxsize=1)
def commit() -> str:
    """The commit this code is at, with a plus where files differ from it; in an unpacked archive, the version.

    Asked once: what runs is the code that was loaded, whatever is committed meanwhile.
    """
    folder = Path(__file__).resolve().parents[2]

    def git(*words: str) -> str | None:
        try:
            done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, timeout=10)
        except (OSError, subprocess.SubprocessError):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    # An unpacked archive may lie inside somebody else's repository, whose commit would say nothing.
    if (
        git("ls-files", "--error-unmatch", "research/__init__.py") is None
        or (head := git("rev-parse", "--short=10", "HEAD")) is None
    ):
        return f"v{saibot.__version__}"
    return head + ("+" if git("status", "--porcelain", "--untracked-files=no", "--", "src", "research") else "")


def _inventory(tables: Path | None) -> str | None:
    """A digest of the names and sizes of the tables: another folder is another configuration."""
    if tables is None:
        return None
    files = sorted(path for path in tables.rglob("*") if path.is_file())
    listed = [f"{path.relative_to(tables)} {path.stat().st_size}" for path in files]
    return hashlib.sha256("\n".join(listed).encode()).hexdigest()[:12]


def _kept(csv: Path, note: Path, code: str) -> pd.DataFrame | None:
    if not (csv.is_file() and note.is_file()):
        return None
    try:
        frame = _read(csv)
    except ValueError:  # not a table, or not one of ours: made anew
        return None
    same = len(frame) > 0 and {"configuration", "commit"} <= set(frame) and (frame["configuration"] == code).all()
    return frame if same else None


def _read(csv: Path) -> pd.DataFrame:
    import pandas as pd

    return pd.read_csv(csv, dtype={"configuration": str, "commit": str}, keep_default_na=False, na_values=["", "nan"])


def _replace(path: Path, text: str) -> None:
    """Whole or not at all, so that an interrupted run leaves nothing half written."""
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)


def _save_png(drawing: Drawing, path: Path) -> None:
    """With a palette: a third of the bytes, and no eye can tell, for a figure has few colours."""
    from PIL import Image

    buffer = io.BytesIO()
    drawing.savefig(buffer, dpi=130, format="png")
    picture = Image.open(buffer).convert("RGB")
    picture.quantize(colors=128, dither=Image.Dither.NONE).save(path, optimize=True)


def _save_svg(drawing: Drawing, path: Path) -> None:
    """Text as text: it can be searched and copied, and the file is half the size. Everything has its place by now."""
    from matplotlib import rc_context

    drawing.set_layout_engine("none")
    with rc_context({"svg.fonttype": "none"}):
        drawing.savefig(path, metadata={"Date": None})


def _need_matplotlib() -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise InvalidInput("figures need matplotlib.", hint=how_to_install("figures")) from None
