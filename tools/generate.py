"""Write the generated files: the CRD, the chart's copy and schema, the reference pages.

tools/generate.py           write what differs
tools/generate.py --check   write nothing; exit 1 and list what differs
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
CHART = "helm/llama-operator"

# The packages are read from this tree, whether they are installed or not.
sys.path[:0] = [str(REPOSITORY / folder) for folder in ("operator", "runtime")]


def generate() -> dict[str, str]:
    """The generated files: path in the repository to content."""
    from generated import chart_files, crd_files, markdown, metrics_page, reference_page

    helm_page = (REPOSITORY / "docs/helm.md").read_text()
    return {
        "crds/llamadeployments.yaml": crd_files.crd_file(),
        f"{CHART}/templates/crds.yaml": crd_files.crd_template(),
        f"{CHART}/values.yaml": chart_files.values_file(),
        f"{CHART}/values.schema.json": chart_files.schema_file(),
        "docs/helm.md": markdown.replace_block(helm_page, "values", chart_files.values_table()),
        "docs/reference.md": reference_page.page(),
        "docs/metrics.md": metrics_page.page(),
    }


def different(files: dict[str, str], root: Path) -> list[str]:
    """The paths whose file under root is missing or has another content."""
    return [
        path
        for path, content in files.items()
        if not (root / path).is_file() or (root / path).read_text() != content
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing, exit 1 on a difference"
    )
    options = parser.parse_args(arguments)
    files = generate()
    stale = different(files, REPOSITORY)
    if options.check:
        if stale:
            print(f"Not up to date: {', '.join(stale)}. Run make generate.", file=sys.stderr)
        return 1 if stale else 0
    for path in stale:
        (REPOSITORY / path).parent.mkdir(parents=True, exist_ok=True)
        (REPOSITORY / path).write_text(files[path])
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
