"""values.yaml, values.schema.json and the table of values."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from typing import Any

import yaml
from pydantic import BaseModel

from generated.chart_values import Values
from generated.markdown import code, table

NOTICE = "# Written by tools/generate.py from tools/generated/chart_values.py.\n"


def values_file() -> str:
    """values.yaml: every value with its default and what it does."""
    return NOTICE + "".join(_values(Values(), indent=0))


def schema_file() -> str:
    """values.schema.json: a name that the chart does not have is an error."""
    schema = Values.model_json_schema(by_alias=True)
    # Helm puts `global` into the values of a chart that is part of another.
    schema["properties"]["global"] = {"type": "object"}
    document = {"$schema": "https://json-schema.org/draft/2020-12/schema", **_untitled(schema)}
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def values_table() -> str:
    """Every value as a row of a Markdown table."""
    return table(("value", "default", "what it is"), _rows(Values(), prefix=""))


def _values(part: BaseModel, indent: int) -> Iterator[str]:
    margin = " " * indent
    for name, description, value in _fields(part):
        yield "\n" if indent == 0 else ""
        yield textwrap.indent(textwrap.fill(description, 96 - indent), f"{margin}# ") + "\n"
        if isinstance(value, BaseModel):
            yield f"{margin}{name}:\n"
            yield from _values(value, indent + 2)
        else:
            yield textwrap.indent(_yaml({name: value}), margin)


def _rows(part: BaseModel, prefix: str) -> Iterator[tuple[str, str, str]]:
    for name, description, value in _fields(part):
        if isinstance(value, BaseModel):
            yield from _rows(value, f"{prefix}{name}.")
        else:
            yield code(prefix + name), code(json.dumps(value)), description


def _fields(part: BaseModel) -> Iterator[tuple[str, str, Any]]:
    for attribute, field in type(part).model_fields.items():
        yield (
            field.alias or attribute,
            " ".join((field.description or "").split()),
            getattr(part, attribute),
        )


def _yaml(document: dict[str, Any]) -> str:
    text: str = yaml.safe_dump(document, sort_keys=False, width=100)
    return text


def _untitled(node: Any) -> Any:
    """Without the titles that pydantic makes of names; `title` may be a property, too."""
    if isinstance(node, dict):
        return {
            key: _untitled(value)
            for key, value in node.items()
            if not (key == "title" and isinstance(value, str))
        }
    if isinstance(node, list):
        return [_untitled(item) for item in node]
    return node
