"""What the operator wants to exist, as plain dicts. Pure: no clock, no client."""

from llama_operator.builders.pod import build_pod
from llama_operator.builders.pod_disruption_budget import build_pod_disruption_budget
from llama_operator.builders.service import build_service

__all__ = ["build_pod", "build_pod_disruption_budget", "build_service"]
