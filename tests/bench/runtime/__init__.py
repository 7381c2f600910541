"""The runtime beside llama-server, llama_cpp.server and llama-batched-bench."""
