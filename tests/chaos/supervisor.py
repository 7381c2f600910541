"""Starts the operator again whenever it ends, as the kubelet of its pod does."""

from __future__ import annotations

import threading

from tests.operator.integration.process import OperatorProcess


class Supervisor:
    """Use as a context manager; at its end the operator is gone for good."""

    def __init__(self, process: OperatorProcess) -> None:
        self._process = process
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.starts = 0

    def __enter__(self) -> Supervisor:
        self._look()
        self._process.wait_ready()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        if self._process.running:
            self._process.kill()

    def kill(self) -> None:
        """SIGKILL, now; it is started again soon."""
        with self._lock:
            if self._process.running:
                self._process.kill()

    @property
    def log(self) -> str:
        return self._process.log

    def _run(self) -> None:
        while not self._stop.wait(0.1):
            self._look()

    def _look(self) -> None:
        with self._lock:
            if not self._process.running:
                self._process.forget()
                self._process.start(resync_seconds=5)
                self.starts += 1
