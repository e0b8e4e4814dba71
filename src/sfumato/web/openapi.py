"""The API described in OpenAPI 3.1."""

from __future__ import annotations

from typing import Any

from ..analysis.families import FAMILIES
from ..version import __version__
from .server_settings import Settings


def openapi(settings: Settings) -> dict[str, Any]:
    """The document of /openapi.json, with this server's limits."""
    release = _in_path("release", "name of a release, as in the list at /")
    sql = _in_query("sql", {"type": "string", "maxLength": settings.max_sql}, "the question; FROM release", needed=True)
    level = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1, "default": 0.95}
    options = [
        _in_query("level", level, "confidence level of the intervals"),
        _in_query("simultaneous", {"type": "boolean", "default": False}, "the level holds for all rows at once"),
        _in_query("format", {"enum": ["json", "csv", "parquet"], "default": "json"}, "form of the answer"),
        _in_query(
            "digest", {"type": "string", "minLength": 8}, "start of the release's digest: answer this one or none"
        ),
    ]
    where = _in_query("where", {"type": "string"}, "an SQL condition: only rows that meet it")
    question = {
        "type": "object",
        "required": ["sql"],
        "properties": {"sql": {"type": "string"}, "level": level, "simultaneous": {"type": "boolean"}, "format": {}},
    }
    answered = {
        "200": _json("the answer", "Answer"),
        "304": {"description": "the answer is the one the caller has"},
        **{
            code: _json(text, "Error")
            for code, text in (
                ("400", "the question is wrong, or cannot be answered with its error"),
                ("409", "another release is served under this name"),
                ("413", "the question or the body is too long"),
                ("503", "too many questions at once; ask again after Retry-After seconds"),
                ("504", "the question took too long"),
                ("507", "the question needed too much memory"),
            )
        },
    }
    ask = "Ask a release SQL; every number comes with its error"
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "sfumato",
            "version": __version__,
            "description": "Releases of tables of people, asked in SQL.",
        },
        "paths": {
            "/": {"get": _plain("The releases served", "Releases")},
            "/{release}": {"get": {"parameters": [release], **_plain("What a release states about itself", "Release")}},
            "/{release}/query": {
                "get": {"summary": ask, "parameters": [release, sql, *options], "responses": answered},
                "post": {
                    "summary": ask,
                    "parameters": [release],
                    "requestBody": {"required": True, "content": {"application/json": {"schema": question}}},
                    "responses": answered,
                },
            },
            "/{release}/fit": {
                "get": {
                    "summary": "Fit a regression; every coefficient comes with its error",
                    "parameters": [
                        release,
                        _in_query("formula", {"type": "string"}, "outcome ~ terms", needed=True),
                        _in_query("family", {"enum": list(FAMILIES), "default": FAMILIES[0]}, "family of the model"),
                        where,
                        options[0],
                        _in_query("format", {"enum": ["json", "csv"], "default": "json"}, "form of the answer"),
                    ],
                    "responses": answered | {"200": _json("the coefficients", "Fit")},
                }
            },
            "/{release}/test": {
                "get": {
                    "summary": "Test whether two columns go together",
                    "parameters": [
                        release,
                        *(_in_query(name, {"type": "string"}, "a column", needed=True) for name in ("x", "y")),
                        where,
                        options[0],
                    ],
                    "responses": answered | {"200": _json("the test", "Test")},
                }
            },
            "/{release}/explain": {
                "get": {
                    "summary": "How a question would be answered",
                    "parameters": [release, sql],
                    "responses": answered,
                }
            },
            "/{release}/vocabulary": {
                "get": {"parameters": [release], **_plain("Columns, values and examples", "Vocabulary")}
            },
            "/{release}/release.zip": {"get": {"parameters": [release], **_file("The bundle", "application/zip")}},
            "/{release}/data.csv": {"get": {"parameters": [release], **_file("The published rows", "text/csv")}},
            "/{release}/files/{file}": {
                "get": {
                    "parameters": [release, _in_path("file", "a file of the bundle")],
                    **_file("One file of the bundle; ranges are answered", "application/octet-stream"),
                }
            },
            "/healthz": {"get": _plain("Whether the server lives, and how busy it is", "Health")},
        },
        "components": {"schemas": _schemas()},
    }


def _schemas() -> dict[str, Any]:
    text, whole = {"type": "string"}, {"type": "integer"}
    nothing = {"type": ["string", "null"]}
    error = {
        "type": "object",
        "required": ["type", "message", "hint", "position", "sql"],
        "properties": {
            "type": text,
            "message": text,
            "hint": nothing,
            "position": {
                "description": "half-open span of the offending text in sql",
                "type": ["array", "null"],
                "items": whole,
                "minItems": 2,
                "maxItems": 2,
            },
            "sql": nothing,
        },
    }
    answer = {
        "type": "object",
        "required": ["method", "level", "kind", "rows"],
        "properties": {
            "method": text,
            "level": {"type": "number"},
            "kind": {"enum": ["exact", "confidence", "bounds"]},
            "rows": {"type": "array", "items": {"type": "object"}},
            "caveats": {"type": "array", "items": text},
        },
    }
    return {
        "Error": {"type": "object", "required": ["error"], "properties": {"error": error}},
        "Answer": answer,
        "Fit": {"type": "object", "required": ["method", "formula", "family", "level", "rows"]},
        "Test": {"type": "object", "required": ["x", "y", "test", "statistic", "df", "p"]},
        "Release": {"type": "object", "required": ["name", "digest", "method", "rows", "columns", "guarantee"]},
        "Releases": {"type": "object", "required": ["releases"]},
        "Vocabulary": {"type": "object", "required": ["columns", "examples"]},
        "Health": {"type": "object", "required": ["status"]},
    }


def _in_path(name: str, said: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "description": said, "schema": {"type": "string"}}


def _in_query(name: str, schema: dict[str, Any], said: str, *, needed: bool = False) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": needed, "description": said, "schema": schema}


def _json(said: str, schema: str) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    return {"description": said, "content": content}


def _plain(summary: str, schema: str) -> dict[str, Any]:
    return {"summary": summary, "responses": {"200": _json(summary, schema)}}


def _file(summary: str, kind: str) -> dict[str, Any]:
    return {"summary": summary, "responses": {"200": {"description": summary, "content": {kind: {}}}}}
