"""Steps of a long job on a terminal: what runs, for how long, what it usually takes."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console

QUIET_SECONDS = 20
"""Without a terminal, one line about a running step this often."""


@dataclass
class Steps:
    """Numbered steps, each with a spinner on a terminal and plain lines elsewhere."""

    total: int
    console: Console = field(default_factory=lambda: Console(highlight=False, soft_wrap=True))
    number: int = 0
    detail: str = ""

    @contextmanager
    def step(self, title: str, usually: str) -> Iterator[None]:
        """Show ``title`` while the block runs, then the time it took."""
        self.number += 1
        self.detail = ""
        label = f"[{self.number}/{self.total}] {title}"
        started = time.monotonic()
        finished = threading.Event()
        self.console.print(f"[bold]{label}[/bold] [dim](usually {usually})[/dim]")
        reporter = threading.Thread(
            target=self._report, args=(label, started, finished), daemon=True
        )
        reporter.start()
        try:
            yield
        finally:
            finished.set()
            reporter.join()
        self.console.print(f"      done in {time.monotonic() - started:.0f} s")

    def _report(self, label: str, started: float, finished: threading.Event) -> None:
        if not self.console.is_terminal:
            while not finished.wait(QUIET_SECONDS):
                self.console.print(f"      {time.monotonic() - started:.0f} s  {self.detail}")
            return
        with self.console.status(label) as status:
            while not finished.wait(0.5):
                elapsed = f"{time.monotonic() - started:.0f} s"
                width = max(20, self.console.width - len(elapsed) - 10)
                status.update(f"{elapsed}  [dim]{self.detail[:width]}[/dim]")

    def run(self, command: Sequence[str], *, stdin: str | None = None) -> str:
        """Run a command, show its last line as it goes, return its standard output.

        Exits with the command's last lines when it fails.
        """
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        assert process.stdout is not None
        assert process.stderr is not None
        errors: list[str] = []

        def watch() -> None:
            assert process.stderr is not None
            for line in process.stderr:
                errors.append(line.rstrip())
                self.detail = line.strip() or self.detail

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        if stdin is not None:
            assert process.stdin is not None
            process.stdin.write(stdin)
            process.stdin.close()
        output: list[str] = []
        for line in process.stdout:
            output.append(line)
            self.detail = line.strip() or self.detail
        process.wait()
        watcher.join()
        if process.returncode != 0:
            tail = "\n".join((errors or [line.rstrip() for line in output])[-15:])
            sys.exit(f"\n{tail}\n\n{' '.join(command[:4])} failed with {process.returncode}.")
        return "".join(output)
