"""The runtime beside llama-server, llama_cpp.server and llama-batched-bench."""

import sys
from pathlib import Path

# tools/ holds programs and what they share; the bench keeps its builds in the same cache.
sys.path.append(str(Path(__file__).resolve().parents[3] / "tools"))
