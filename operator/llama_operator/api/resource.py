"""The resource itself and its names."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import ConfigDict, Field

from llama_operator.api.base import Resource, Timestamp
from llama_operator.api.spec import LlamaDeploymentSpec
from llama_operator.api.status import LlamaDeploymentStatus

GROUP: Final = "llama-operator.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = "llama-operator.dev/v1alpha1"
KIND: Final = "LlamaDeployment"
SINGULAR: Final = "llamadeployment"
PLURAL: Final = "llamadeployments"
SHORT_NAME: Final = "llama"


class Metadata(Resource):
    """What the operator reads of the object's metadata; the rest is left alone."""

    model_config = ConfigDict(extra="ignore")

    name: str
    namespace: str
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    creation_timestamp: Timestamp | None = None
    deletion_timestamp: Timestamp | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)


class LlamaDeployment(Resource):
    """A model served by llama.cpp in pods that are pinned to NUMA nodes."""

    model_config = ConfigDict(extra="ignore")

    api_version: Literal["llama-operator.dev/v1alpha1"] = API_VERSION
    kind: Literal["LlamaDeployment"] = KIND
    metadata: Metadata
    spec: LlamaDeploymentSpec
    status: LlamaDeploymentStatus = LlamaDeploymentStatus()

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> LlamaDeployment:
        """Read an object as the API server gives it.

        Raises pydantic.ValidationError when it does not fit this version's models.
        """
        return cls.model_validate(body)
