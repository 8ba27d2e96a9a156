"""For whoever runs the platform: accounts and tokens, what waits and what is stored, and the trail of who did what."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from starlette.responses import Response

from saibot.platform.catalog import Filter
from saibot.platform.pages.admin_words import facts_told, how_far, kept_on_disk
from saibot.platform.pages.visit import Visit, in_thread
from saibot.platform.pagination import read_cursor, write_cursor
from saibot.wire import Token, TrailEntry

TOKENS = 500
TRAIL = 50
SEARCHES = 20
ASIDE = 50


def show(visit: Visit) -> Response:
    visit.need("admin")
    tokens = visit.platform.accounts.list(visit.caller, None, TOKENS)
    trail = visit.platform.trail.list(visit.caller, read_cursor(visit.request.query_params.get("cursor"), int), TRAIL)
    return visit.page(
        "admin.html",
        here="admin",
        accounts=_accounts(visit, tokens.items),
        tokens=tokens.items,
        more_tokens=tokens.next is not None,
        this_token=visit.caller.token,
        queue=visit.platform.searches.by_status(visit.caller),
        searches=[(one, how_far(one)) for one in visit.platform.searches.list(visit.caller, None, SEARCHES).items],
        aside=visit.platform.list_set_aside(ASIDE + 1)[:ASIDE],
        unusable=_unusable(visit),
        disk=_disk(visit.platform.settings.data),
        free=shutil.disk_usage(visit.platform.settings.data).free,
        elsewhere=visit.platform.settings.database is not None or visit.platform.settings.files is not None,
        trail=[(entry, facts_told(entry.facts)) for entry in (TrailEntry(**one) for one in trail.items)],
        next=write_cursor(trail.next),
    )


async def verify(visit: Visit) -> Response:
    """Say who a provider is, or take that back."""
    fields = await visit.form()
    name, wanted = str(fields.get("account", "")), "take-back" not in fields
    await in_thread(visit.platform.verify if wanted else visit.platform.take_verification, visit.caller, name)
    return visit.go(f"/admin?done={'verified' if wanted else 'unverified'}#accounts")


async def take_key(visit: Visit) -> Response:
    fields = await visit.form()
    await in_thread(visit.platform.providers.take_key, visit.caller, str(fields.get("account", "")))
    return visit.go("/admin?done=key-taken#accounts")


async def revoke(visit: Visit) -> Response:
    await visit.form()
    await in_thread(visit.platform.accounts.revoke, visit.caller, visit.request.path_params["id"])
    return visit.go("/admin?done=revoked" if visit.caller.has("admin") else "/account?done=revoked")


def _accounts(visit: Visit, tokens: list[Token]) -> list[dict[str, Any]]:
    """Each account with all its roles, and how much it has published."""
    counted = visit.platform.catalog.facets(visit.caller, Filter())["providers"]
    datasets = {one["provider"]: one["count"] for one in counted}
    made = []
    names = sorted({token.name for token in tokens})
    standings = visit.platform.providers.standings(visit.caller, names, datasets)
    for name in names:
        active = [token for token in tokens if token.name == name and not token.revoked]
        made.append({
            "name": name,
            "roles": sorted({role for token in active for role in token.roles}),
            "tokens": len(active),
            "last_used": max((token.last_used for token in active if token.last_used), default=None),
            "datasets": datasets.get(name, 0),
            "standing": standings[name],
            "may_verify": name != visit.caller.name,
        })  # fmt: skip
    return made


def _unusable(visit: Visit) -> list[dict[str, str]]:
    """Published sketches that searches cannot use, with the reason: what their datasets are called where they still are."""
    reasons = dict(list(visit.platform.shards.refused.items())[:ASIDE])
    known = {dataset["digest"]: dataset for dataset in visit.platform.catalog.latest(visit.caller, list(reasons))}
    return [
        {
            "digest": digest,
            "reason": reason,
            "name": known[digest]["name"] if digest in known else "",
            "id": known[digest]["id"] if digest in known else "",
            "provider": known[digest]["provider"] if digest in known else "",
        }
        for digest, reason in reasons.items()
    ]


def _disk(data: Path) -> list[tuple[str, str, int]]:
    """Bytes of everything under the platform's folder, by what it is, largest first."""
    return kept_on_disk({entry.name: _size(entry) for entry in os.scandir(data)})


def _size(entry: os.DirEntry[str]) -> int:
    return sum(_files(entry.path)) if entry.is_dir(follow_symlinks=False) else entry.stat(follow_symlinks=False).st_size


def _files(folder: str) -> Iterator[int]:
    try:
        for entry in os.scandir(folder):
            if entry.is_dir(follow_symlinks=False):
                yield from _files(entry.path)
            else:
                yield entry.stat(follow_symlinks=False).st_size
    except FileNotFoundError:  # packing replaces files while we look
        return
