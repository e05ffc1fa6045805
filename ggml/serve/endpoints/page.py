"""The pages at `/`, a conversation with the model, and `/docs`, the endpoints.

Their files are those of this package; they ask no other host.
"""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import FileResponse

router = APIRouter(include_in_schema=False)
FOLDER = Path(__file__).parents[1] / "page"
FILES = {
    "/": ("index.html", "text/html"),
    "/page.js": ("page.js", "text/javascript"),
    "/page.css": ("page.css", "text/css"),
    "/docs": ("docs.html", "text/html"),
    "/docs.js": ("docs.js", "text/javascript"),
}
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src data:; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}


def add(path: str, name: str, kind: str) -> None:
    """Adds a file of the page."""

    @router.get(path)
    async def file() -> FileResponse:
        return FileResponse(FOLDER / name, media_type=kind, headers=HEADERS)


for _path, (_name, _kind) in FILES.items():
    add(_path, _name, _kind)
