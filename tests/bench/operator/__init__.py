"""The operator with thousands of resources on a real control plane; KWOK plays the kubelets."""
