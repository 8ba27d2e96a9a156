"""`/docs`: the HTTP interface, in the frame of all other pages."""

from __future__ import annotations

from markupsafe import Markup
from starlette.responses import Response

from saibot.platform.api.docs import operations
from saibot.platform.pages.visit import Visit


def show(visit: Visit) -> Response:
    return visit.page("docs.html", operations=Markup(operations(visit.request.app.openapi())))
