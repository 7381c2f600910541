"""What the demo tells its reader to type."""

from __future__ import annotations

import subprocess
from pathlib import Path

import demo


def test_the_printed_line_makes_a_shell_reach_the_cluster(tmp_path: Path) -> None:
    state = tmp_path / "a folder's name"
    (state / "bin").mkdir(parents=True)
    kubectl = state / "bin/kubectl"
    kubectl.write_text('#!/bin/sh\necho "$KUBECONFIG"\n')
    kubectl.chmod(0o755)

    said = subprocess.run(
        ["sh", "-c", f"{demo.exports(state)}\nkubectl && command -v ls"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert said.stdout.splitlines()[0] == str(state / "kubeconfig")
    assert said.stdout.splitlines()[1].endswith("/ls")


def test_the_readme_uses_the_demos_names_and_its_line() -> None:
    readme = (demo.REPOSITORY / "README.md").read_text()
    use = readme.split("## Use\n")[1].split("```")[0]
    commands = [line for line in use.splitlines() if line.startswith("    kubectl")]

    assert demo.exports(demo.STATE).replace(str(demo.REPOSITORY), "$PWD") in readme
    assert len(commands) >= 4
    for command in commands:
        assert command.startswith(f"    kubectl -n {demo.NAMESPACE} "), command
    assert f"namespace {demo.NAMESPACE} -f examples/demo.yaml" in readme
