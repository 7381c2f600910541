"""The CRD as a file, and as a template of the chart."""

from __future__ import annotations

from typing import Any

import yaml

from generated.crd import build_crd

NOTICE = "# Written by tools/generate.py from operator/llama_operator/api.\n"


class _Dumper(yaml.SafeDumper):
    """YAML without anchors, lists indented as kubectl prints them."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def crd_file() -> str:
    """crds/llamadeployments.yaml."""
    return NOTICE + _yaml(build_crd())


def crd_template() -> str:
    """The same CRD, installed by the chart unless it is told not to."""
    text = _yaml(build_crd())
    if "{{" in text:
        raise ValueError("The CRD contains '{{', which Helm would read as a template.")
    head, spec = text.split("\nspec:\n", 1)
    return (
        f"{{{{- if .Values.crds.install }}}}\n{NOTICE}{head}\n"
        "  labels:\n"
        '    {{- include "llama-operator.labels" . | nindent 4 }}\n'
        "  {{- if .Values.crds.keep }}\n"
        "  annotations:\n"
        "    helm.sh/resource-policy: keep\n"
        "  {{- end }}\n"
        f"spec:\n{spec}"
        "{{- end }}\n"
    )


def _yaml(document: dict[str, Any]) -> str:
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=100, allow_unicode=True)
