"""`/docs`: the OpenAPI document as a plain page. No script, nothing from another server."""

from __future__ import annotations

from html import escape
from typing import Any

from fastapi import FastAPI
from fastapi.responses import HTMLResponse

_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1b1f24;background:#fff}
h1{font-size:1.6rem}h2{margin-top:2.5rem;border-bottom:1px solid #d0d7de}
details{border:1px solid #d0d7de;border-radius:6px;margin:.5rem 0;padding:.4rem .8rem}
summary{cursor:pointer}code,.method{font-family:ui-monospace,monospace}.method{font-weight:700;display:inline-block;width:4.5rem}
table{border-collapse:collapse;width:100%;margin:.5rem 0}td,th{text-align:left;vertical-align:top;padding:.25rem .5rem;
border-top:1px solid #d0d7de}.lock{color:#57606a}
@media (prefers-color-scheme:dark){body{background:#0d1117;color:#e6edf3}details,td,th,h2{border-color:#30363d}}
"""


def add_to(app: FastAPI) -> None:
    @app.get("/docs", include_in_schema=False)
    def docs() -> HTMLResponse:
        policy = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}
        return HTMLResponse(page(app.openapi()), headers=policy)


def page(document: dict[str, Any]) -> str:
    groups: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            for tag in operation.get("tags", ["other"])[:1]:
                groups.setdefault(tag, []).append(_operation(method, path, operation))
    parts = [f"<h2>{escape(tag)}</h2>{''.join(entries)}" for tag, entries in groups.items()]
    shapes = [_shape(name, shape) for name, shape in sorted(document["components"]["schemas"].items())]
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'><meta name='viewport' content='width=device-width'>"
        f"<title>Saibot: HTTP interface</title><style>{_STYLE}</style></head><body><main><h1>Saibot: HTTP interface</h1>"
        f"<p>{escape(document['info']['description'])} The same for programs: <a href='/openapi.json'>openapi.json</a>. "
        "Operations marked <span class='lock'>token</span> need <code>Authorization: Bearer TOKEN</code>.</p>"
        f"{''.join(parts)}<h2>shapes</h2>{''.join(shapes)}</main></body></html>"
    )


def _operation(method: str, path: str, operation: dict[str, Any]) -> str:
    secured = "<span class='lock'>token</span>" if operation.get("security") else ""
    rows = [
        f"<tr><td><code>{escape(entry['name'])}</code></td><td>{escape(entry['in'])}</td>"
        f"<td>{_kind(entry.get('schema', {}))}</td><td>{escape(entry.get('description', ''))}</td></tr>"
        for entry in operation.get("parameters", [])
    ]
    table = f"<table><tr><th>parameter</th><th>in</th><th>type</th><th></th></tr>{''.join(rows)}</table>" if rows else ""
    body = operation.get("requestBody")
    kinds = "".join(f"<p>Body: {escape(kind)} {_kind(facts.get('schema', {}))}</p>" for kind, facts in _content(body))
    answers = "".join(_answer(status, facts) for status, facts in operation["responses"].items())
    return (
        f"<details><summary><span class='method'>{escape(method.upper())}</span> <code>{escape(path)}</code> "
        f"{escape(operation.get('summary', ''))} {secured}</summary><p>{escape(operation.get('description', ''))}</p>"
        f"{table}{kinds}<table><tr><th>answer</th><th></th><th>shape</th></tr>{answers}</table></details>"
    )


def _answer(status: str, facts: dict[str, Any]) -> str:
    shapes = ", ".join(f"{escape(kind)} {_kind(entry.get('schema', {}))}" for kind, entry in _content(facts))
    return f"<tr><td>{escape(status)}</td><td>{escape(facts.get('description', ''))}</td><td>{shapes}</td></tr>"


def _shape(name: str, shape: dict[str, Any]) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(field)}</code></td><td>{_kind(facts)}</td>"
        f"<td>{escape(facts.get('description', ''))}</td></tr>"
        for field, facts in shape.get("properties", {}).items()
    )
    head = "<tr><th>field</th><th>type</th><th></th></tr>"
    return (
        f"<details id='{escape(name)}'><summary><code>{escape(name)}</code></summary><table>{head}{rows}</table></details>"
    )


def _kind(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = escape(schema["$ref"].rsplit("/", 1)[-1])
        return f"<a href='#{name}'>{name}</a>"
    if "anyOf" in schema:
        return " or ".join(_kind(one) for one in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(f"<code>{escape(str(one))}</code>" for one in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    return escape(str(schema.get("type", "")))


def _content(part: dict[str, Any] | None) -> list[tuple[str, dict[str, Any]]]:
    return list((part or {}).get("content", {}).items())
