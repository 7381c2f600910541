"""docs/reference.md: every field of the resource, its default and its rules."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from generated.crd import PRINTER_COLUMNS, build_schema
from generated.markdown import code, table
from llama_operator import api
from llama_operator.api.rules import RULES
from llama_operator.api.unsupported import UNSUPPORTED

HEAD = f"""<!-- Written by tools/generate.py from operator/llama_operator/api. -->

# {api.KIND}

`{api.API_VERSION}`, short name `{api.SHORT_NAME}`. `kubectl explain {api.SHORT_NAME}.spec` says
the same. The API server checks every rule on this page at apply; an unknown field is an
error, too.
"""


def page() -> str:
    """The whole page."""
    schema = build_schema()["properties"]
    parts = [HEAD, _unsupported(), _columns()]
    for name in ("spec", "status"):
        parts.extend(_sections(name, schema[name]))
    return "\n".join(parts)


def _unsupported() -> str:
    lines = "".join(f"- {entry.message}\n" for entry in UNSUPPORTED)
    return f"## Not supported yet\n\nThese are refused, never ignored:\n\n{lines}"


def _columns() -> str:
    rows = ((name.upper(), code(path), text) for name, _, path, text in PRINTER_COLUMNS)
    return f"## kubectl get {api.SHORT_NAME}\n\n" + table(("column", "from", "what it is"), rows)


def _sections(path: str, schema: dict[str, Any]) -> Iterator[str]:
    fields = schema["properties"]
    required = schema.get("required", [])
    rows = (
        (code(name), _type(field), _default(name, field, required), field.get("description", ""))
        for name, field in fields.items()
    )
    yield f"## {path}\n\n{schema['description']}\n\n" + table(
        ("field", "type", "default", "what it is"), rows
    )
    rules = [rule for rule in RULES if _section(rule.path, fields, path)]
    if rules:
        lines = "".join(
            f"- {rule.message.replace('%d', 'N').replace('%s', 'X')}\n" for rule in rules
        )
        yield f"Refused with one of these sentences:\n\n{lines}"
    for name, field in fields.items():
        nested = field.get("items", field)
        if "description" in nested and "properties" in nested and name != "affinity":
            yield from _sections(f"{path}.{name}{'[]' if nested is not field else ''}", nested)


def _section(rule_path: str, fields: dict[str, Any], path: str) -> bool:
    """Whether a rule belongs to the section of this path: its own, or of a plain field in it."""
    if not rule_path:
        return path == "spec"
    parent, _, last = rule_path.rpartition(".")
    is_field = parent == path and last in fields and "properties" not in fields[last]
    return rule_path == path or is_field


def _type(field: dict[str, Any]) -> str:
    if "enum" in field:
        return ", ".join(code(value) for value in field["enum"])
    if field.get("x-kubernetes-int-or-string"):
        return "quantity"
    if field["type"] == "array":
        return f"list of {_type(field['items'])}"
    if "additionalProperties" in field:
        return "map of strings"
    name = str(field.get("format", field["type"]))
    if "minimum" in field and "maximum" in field:
        return f"{name}, {field['minimum']} to {field['maximum']}"
    return name


def _default(name: str, field: dict[str, Any], required: list[str]) -> str:
    if name in required:
        return "required"
    if "default" not in field or "properties" in field:
        return ""
    value = field["default"]
    return code(value if isinstance(value, str) else json.dumps(value))
