"""The guide at /help; or, where the package came without it, how to get it."""

from __future__ import annotations

from starlette.responses import Response

from saibot.platform.pages.help_site import FIRST, HelpSite
from saibot.platform.pages.visit import Visit


def show(visit: Visit, *, site: HelpSite) -> Response:
    name = visit.request.path_params.get("name", "")
    if not site.there:
        return visit.page("help.html", status=404)
    if not name:
        return visit.go(f"/help/{FIRST}")
    return site.respond(visit.request, name)
