"""The operator, asking Ready pods five times a second instead of twice a minute."""

from __future__ import annotations

import sys

from llama_operator import poller
from llama_operator.__main__ import main

poller.READY_SECONDS = 0.2
sys.exit(main())
