"""The interface description (OpenAPI 3.1), made from the same table and types that serve."""

from functools import cache
from typing import Any

import msgspec

from sudare import __version__
from sudare.collector._endpoints import Content, Endpoint
from sudare.collector._messages import PROBLEMS, ErrorBody
from sudare.collector._routes import ENDPOINTS, JSON
from sudare.collector._sessions import COOKIE

SCHEMAS = "#/components/schemas/{name}"
SHARED_PROBLEMS = ("wrong_method", "internal")
_WORDS = {
    200: "Done", 201: "Made", 204: "Done; there is nothing to add", 304: "Nothing has changed",
}  # fmt: skip


@cache
def document() -> bytes:
    """The description, in JSON."""
    return msgspec.json.encode(description())


def description() -> dict[str, Any]:
    """The description, as plain values."""
    shapes = [c.shape for e in ENDPOINTS for c in _contents(e) if isinstance(c.shape, type)]
    _, components = msgspec.json.schema_components(
        [*dict.fromkeys(shapes), ErrorBody], ref_template=SCHEMAS
    )
    paths: dict[str, Any] = {}
    for endpoint in ENDPOINTS:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "sudare collector",
            "version": __version__,
            "description": "Counts from people's devices, under user-level local differential "
            'privacy. Every refusal has one shape: {"error": {"code", "message"}}.',
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "operator": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The operator's token.",
                },
                "viewer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A viewer's token, where the dashboard is private.",
                },
                "session": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": COOKIE,
                    "description": "What PUT /v1/surveys/{id}/session sets.",
                },
            },
        },
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": _name(endpoint),
        "summary": endpoint.summary,
        "responses": _responses(endpoint),
    }
    if endpoint.about:
        operation["description"] = endpoint.about
    if parameters := _parameters(endpoint):
        operation["parameters"] = parameters
    if endpoint.takes:
        operation["requestBody"] = {
            "required": endpoint.body_required,
            "content": {c.media: {"schema": _schema(c.shape)} for c in endpoint.takes},
        }
    if endpoint.reading:
        operation["security"] = [{}, {"viewer": []}, {"operator": []}, {"session": []}]
    elif endpoint.operator:
        operation["security"] = [{"operator": []}]
    elif "unauthorised" in endpoint.problems and not endpoint.own_pages:
        operation["security"] = [{}, {"operator": []}]
    return operation


def _responses(endpoint: Endpoint) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for status, content in ((endpoint.status, endpoint.answer), *endpoint.more):
        responses[str(status)] = {"description": _WORDS[status]}
        if content is not None:
            responses[str(status)]["content"] = {content.media: {"schema": _schema(content.shape)}}
    by_status: dict[int, list[str]] = {}
    for code in (*endpoint.problems, *SHARED_PROBLEMS):
        by_status.setdefault(PROBLEMS[code].status, []).append(code)
    for status, codes in sorted(by_status.items()):
        told = " ".join(f"`{code}`: {PROBLEMS[code].message}" for code in codes)
        responses[str(status)] = {
            "description": told,
            "content": {JSON: {"schema": _schema(ErrorBody)}},
        }
        if any(PROBLEMS[code].status in (429, 503) for code in codes):
            responses[str(status)]["headers"] = {
                "Retry-After": {"schema": {"type": "integer", "minimum": 1}}
            }
    return responses


def _parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    parameters: list[dict[str, Any]] = []
    if "{id}" in endpoint.path:
        parameters.append(
            {
                "name": "id",
                "in": "path",
                "required": True,
                "description": "The first 16 hexadecimal digits of the survey's digest.",
                "schema": {"type": "string", "pattern": "^[0-9a-f]{16}$"},
            }
        )
    if "{file}" in endpoint.path:
        parameters.append(
            {
                "name": "file",
                "in": "path",
                "required": True,
                "description": "A file's name.",
                "schema": {"type": "string", "pattern": "^[a-z0-9][a-z0-9-]*(\\.[a-z0-9]+)+$"},
            }
        )
    parameters += [
        {"name": q.name, "in": "query", "description": q.about, "schema": dict(q.schema)}
        for q in endpoint.query
    ]
    return parameters


def _contents(endpoint: Endpoint) -> list[Content]:
    answers = [content for _, content in endpoint.more if content is not None]
    return [*endpoint.takes, *answers, *([endpoint.answer] if endpoint.answer else [])]


def _schema(shape: Any) -> dict[str, Any]:
    if isinstance(shape, type):
        return {"$ref": SCHEMAS.format(name=shape.__name__)}
    return dict(shape)


def _name(endpoint: Endpoint) -> str:
    function = endpoint.handle or endpoint.raw
    assert function is not None
    return function.__name__
