"""The CustomResourceDefinition, made from the typed models and the rules."""

from __future__ import annotations

from typing import Any, Final

from kubernetes import client

from llama_operator import api
from llama_operator.api.rules import Rule, all_rules

Schema = dict[str, Any]

_DROPPED: Final = ("title", "examples", "propertyNames", "additionalProperties")
"""JSON Schema that a structural schema does not have. Unknown fields are pruned, or refused
under strict validation, without `additionalProperties: false`."""

_CORE_TYPES: Final = {"V1Affinity": client.V1Affinity}

PRINTER_COLUMNS: Final = (
    ("Ready", "string", ".status.ready", "Pods that serve, of those asked for"),
    ("Model", "string", ".status.model", "Id of the model at /v1/models"),
    ("Sequences", "integer", ".spec.kv.maxSequences", "Sequences of a pod's KV cache"),
    ("Context", "integer", ".spec.kv.contextPerSequence", "Tokens of a sequence"),
    ("NUMA", "string", '.status.conditions[?(@.type=="NUMAAligned")].reason', "Pinning"),
    ("Span", "number", ".status.kv.spanRatio", "Part of the cells that hold nothing; the worst"),
    ("Next Restart", "string", ".status.restart.nextTime", "When the next window opens"),
    ("Age", "date", ".metadata.creationTimestamp", "Age of the resource"),
)

WIDE_COLUMN: Final = {
    "name": "Restart",
    "type": "string",
    "jsonPath": ".status.restart.message",
    "description": "What the last restarts did, or wait for",
    "priority": 1,
}
"""With `kubectl get -o wide`."""


def build_crd() -> dict[str, Any]:
    """The CRD as plain JSON, the same at every call."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{api.PLURAL}.{api.GROUP}"},
        "spec": {
            "group": api.GROUP,
            "names": {
                "kind": api.KIND,
                "listKind": f"{api.KIND}List",
                "plural": api.PLURAL,
                "singular": api.SINGULAR,
                "shortNames": [api.SHORT_NAME],
                "categories": ["llama-operator"],
            },
            "scope": "Namespaced",
            "versions": [
                {
                    "name": api.VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": build_schema()},
                    "subresources": {
                        "status": {},
                        "scale": {
                            "specReplicasPath": ".spec.replicas",
                            "statusReplicasPath": ".status.replicas",
                            "labelSelectorPath": ".status.selector",
                        },
                    },
                    "additionalPrinterColumns": [
                        {"name": name, "type": kind, "jsonPath": path, "description": description}
                        for name, kind, path, description in PRINTER_COLUMNS
                    ]
                    + [WIDE_COLUMN],
                }
            ],
        },
    }


def build_schema() -> Schema:
    """The structural schema of the resource, with its rules."""
    schema = structural(api.LlamaDeployment.model_json_schema(by_alias=True))
    properties = schema["properties"]
    properties["apiVersion"] = {"type": "string", "description": "Version of this API."}
    properties["kind"] = {"type": "string", "description": f"{api.KIND}."}
    properties["metadata"] = {"type": "object"}
    schema["required"] = ["spec"]
    properties["status"]["default"] = api.UNSEEN_STATUS
    for rule in all_rules():
        _attach(schema, rule)
    return schema


def structural(schema: Schema) -> Schema:
    """A structural schema (KEP-1979) from one that pydantic made.

    References are put in place and `null` is left out.
    """
    return _convert(schema, schema.get("$defs", {}))


def _convert(node: Schema, definitions: dict[str, Schema]) -> Schema:
    if "$ref" in node:
        definition = definitions[node["$ref"].rsplit("/", 1)[1]]
        node = definition | {key: value for key, value in node.items() if key != "$ref"}
    if "anyOf" in node:
        node = _without_null(node, definitions)
    if "core-type" in node:
        return _core_type(node)
    converted = {key: value for key, value in node.items() if key not in (*_DROPPED, "$defs")}
    if "description" in converted:
        converted["description"] = " ".join(converted["description"].split())
    if "const" in converted:
        converted["enum"] = [converted.pop("const")]
    if "properties" in node:
        converted["properties"] = {
            name: _convert(value, definitions) for name, value in node["properties"].items()
        }
    elif isinstance(node.get("additionalProperties"), dict):
        converted["additionalProperties"] = _convert(node["additionalProperties"], definitions)
    if "items" in node:
        converted["items"] = _convert(node["items"], definitions)
    return _in_order(_with_default(converted))


def _in_order(node: Schema) -> Schema:
    """Short keys before the long ones, for people who read the file."""
    return dict(sorted(node.items(), key=lambda item: isinstance(item[1], dict | list)))


def _without_null(node: Schema, definitions: dict[str, Schema]) -> Schema:
    choice: Schema
    (choice,) = (choice for choice in node["anyOf"] if choice.get("type") != "null")
    if "$ref" in choice:
        choice = definitions[choice["$ref"].rsplit("/", 1)[1]]
    rest: Schema = {key: value for key, value in node.items() if key != "anyOf"}
    return choice | rest


def _with_default(node: Schema) -> Schema:
    default = node.pop("default", None)
    if isinstance(default, dict):
        # The whole default, not `{}`: the API server checks rules against it as it is.
        node["default"] = {key: value for key, value in default.items() if value is not None}
    elif default not in (None, []):
        node["default"] = default
    return node


def _core_type(node: Schema) -> Schema:
    """The schema of a core type from the Kubernetes client, without its long descriptions."""
    core_type = _CORE_TYPES[node["core-type"]]
    schema: Schema = structural(core_type.model_json_schema(by_alias=True))
    _drop_descriptions(schema)
    return schema | {"description": " ".join(node["description"].split())}


def _drop_descriptions(schema: Schema) -> None:
    schema.pop("description", None)
    for child in (*schema.get("properties", {}).values(), schema.get("items")):
        if child is not None:
            _drop_descriptions(child)


def _attach(schema: Schema, rule: Rule) -> None:
    node: Schema = schema
    for step in rule.path.split(".") if rule.path else ():
        node = node["properties"][step.removesuffix("[]")]
        if step.endswith("[]"):
            node = node["items"]
    entry = {"rule": rule.rule}
    if rule.values:
        entry["messageExpression"] = f"'{rule.message}'.format([{', '.join(rule.values)}])"
    else:
        entry["message"] = rule.message
    if rule.field:
        entry["fieldPath"] = f".{rule.field}"
    node.setdefault("x-kubernetes-validations", []).append(entry)
