"""The status of a LlamaDeployment, built from what was observed. Pure."""
