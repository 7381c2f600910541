"""The operator as the image has it: its own packages only, its own rights, its own process."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from tests.operator.integration.process import free_port, get, without_cluster

REPOSITORY = Path(__file__).resolve().parents[3]
TICKS = os.sysconf("SC_CLK_TCK")
MIB = 1 << 20


class Subject:
    """A running operator and what it costs."""

    def __init__(self, kubeconfig: Path, folder: Path, *flags: str) -> None:
        self._health = free_port()
        self.log = folder / "operator.log"
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    packages(folder),
                    "-m",
                    "llama_operator",
                    "--runtime-image=llama-runtime:bench",
                    f"--health-port={self._health}",
                    f"--metrics-port={free_port()}",
                    *flags,
                ],
                cwd=REPOSITORY / "operator",
                env={**without_cluster(), "KUBECONFIG": str(kubeconfig)},
                stdout=log,
                stderr=log,
            )

    def wait_ready(self) -> None:
        while get(f"http://127.0.0.1:{self._health}/readyz")[0] != 200:
            if self._process.poll() is not None:
                raise RuntimeError(f"The operator ended: {self.log} says why.")
            time.sleep(0.2)

    def cpu_seconds(self) -> float:
        """CPU time since its start, user and system."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def memory(self, what: str = "VmRSS") -> float:
        """Resident memory in MiB: now, or at its highest (VmHWM)."""
        for line in Path(f"/proc/{self._process.pid}/status").read_text().splitlines():
            if line.startswith(f"{what}:"):
                return int(line.split()[1]) * 1024 / MIB
        raise RuntimeError(f"The operator has no {what}: it ended.")

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def packages(folder: Path) -> str:
    """The Python of an environment with what the operator's image has, and nothing else."""
    python = folder / "venv/bin/python"
    locked = REPOSITORY / "requirements/operator.txt"
    if not python.exists() or python.stat().st_mtime < locked.stat().st_mtime:
        uv = str(REPOSITORY / ".venv/bin/uv")
        subprocess.run(
            [uv, "venv", "--quiet", "--clear", "--python", sys.executable, folder / "venv"],
            check=True,
        )
        subprocess.run(
            [uv, "pip", "sync", "--quiet", "--python", python, "--require-hashes", locked],
            check=True,
        )
    return str(python)
