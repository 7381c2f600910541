"""The operator: turns LlamaDeployment resources into pods that serve llama.cpp."""
