"""What sketches of a key domain have in common: which factors are in use, and their files."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response

from saibot.platform.api import schemas
from saibot.platform.api.answers import documented, file_answer, page_answer
from saibot.platform.api.asking import Asking, Here
from saibot.platform.pagination import Page

router = APIRouter(prefix="/v1", tags=["factors"])
Version = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$", description="A version that `GET /v1/factors` or a result names.")]
_FILE = {200: {"content": {"application/octet-stream": {}}, "description": "An Arrow file."}}


@router.get("/factors", summary="Shared factors in use", responses=documented({200: schemas.FactorsList}))
def list_factors(caller: Asking, here: Here) -> Response:
    """They are learned from public sketches and improve the values of all; a search at home uses the same files."""
    return page_answer(Page([entry.to_json() for entry in here.shards.lessons.factors()], None))


@router.get(
    "/factors/{version}",
    summary="Download shared factors",
    response_class=Response,
    responses=documented({}, 404, 416, extra=_FILE),
)
def download(request: Request, caller: Asking, here: Here, version: Version) -> Response:
    """Earlier versions are kept as long as nothing that taught them was withdrawn."""
    file = here.shards.lessons.open_factors(version)
    return file_answer(request, file, etag=version, media_type="application/octet-stream", name=f"{version[:16]}.arrow")
