"""The operator with a bookmark's time of seconds, for streams that a proxy keeps silent.

The API server's bookmarks are a minute apart, so a healthy stream would not survive this.
"""

from __future__ import annotations

import sys

from llama_operator import freshness, handlers
from llama_operator.__main__ import main

freshness.SUSPICIOUS_SECONDS = 6.0  # type: ignore[misc]
freshness.DEAD_SECONDS = 20.0  # type: ignore[misc]
handlers.Backoffs.longest = 0.5

sys.exit(main())
