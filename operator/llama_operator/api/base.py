"""What every model of the resource shares: camelCase in JSON, snake_case in Python."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel


class Resource(BaseModel):
    """A part of the resource. Immutable; unknown fields are refused."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
    )

    def to_json(self) -> dict[str, Any]:
        """This part as plain JSON, the way the API server stores it: camelCase, no nulls."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def _rfc3339(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


Timestamp = Annotated[
    AwareDatetime,
    PlainSerializer(_rfc3339, return_type=str),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
"""A moment, written as metav1.Time is: RFC 3339 in UTC, whole seconds."""

Duration = Annotated[str, Field(max_length=20, examples=["5m"])]
"""Hours, minutes and seconds, as `1h30m`, `5m` or `90s`; see `units.parse_duration`."""

Quantity = Annotated[
    int | str,
    WithJsonSchema({"x-kubernetes-int-or-string": True}),
]
"""A Kubernetes quantity in the user's own text, never normalised; see `units.parse_quantity`."""
