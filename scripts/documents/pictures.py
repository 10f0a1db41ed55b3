"""The pictures of README.md, from what a mounted store really prints: a terminal, and a plot by Spark.

`python -m scripts.documents.pictures` writes them into docs/pictures/. Needs the extras mount and pipeline.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

from rich.console import Console
from rich.text import Text

from scripts.documents.rules import DOCS, ROOT

TARGET = DOCS / "pictures"
BIN = Path(sys.executable).parent

SESSION = [
    "journalfs mount /var/lib/artemis/data /mnt",
    "ls -d /mnt/orders/* /mnt/claims/* /mnt/DLQ/*",
    "jq -c '[.id, .priority, .timestamp]' /mnt/orders/orders/.all.jsonl | tail -n 2",
    "echo '{\"total\": 12.5}' > /mnt/orders/new.json",
    "tail -n 1 /mnt/orders/orders/.all.jsonl | jq -c '{id, type, body}'",
    "mv /mnt/DLQ/DLQ/.messages/428.txt /mnt/orders/orders/",
    "head -n 1 /mnt/claims/claims/.take | jq -c '{id, priority}'",
    "rm /mnt/orders/orders/.all.jsonl; jq .messageCount /mnt/orders/orders/.status",
    "echo x > /mnt/nowhere.txt",
    "tail -n 1 /mnt/.journalfs/events.jsonl | jq -r .reason",
    "journalfs umount /mnt",
]
WIDTH = 104
"""Characters of a line."""


def main() -> None:
    TARGET.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        packed = ROOT / "tests/stores/orders-basic.tar.zst"
        subprocess.run(["tar", "-C", str(work), "--zstd", "-xf", str(packed)], check=True)
        (work / "mnt").mkdir()
        (store,) = [found.parent for found in work.rglob("journal") if (found.parent / "bindings").is_dir()]
        draw_plot(count_with_spark(store))
        draw_terminal(work, store)


def draw_terminal(work: Path, store: Path) -> None:
    """Record a session with the store, and write it as a picture whose text can be selected."""
    console = Console(record=True, width=WIDTH, file=io.StringIO())
    for command in SESSION:
        console.print(Text(f"$ {command}", style="bold green"))
        typed = command.replace("/mnt", str(work / "mnt")).replace("/var/lib/artemis/data", str(store))
        done = subprocess.run(
            ["bash", "-c", typed],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "XDG_CACHE_HOME": str(work / "cache")},
        )
        said = done.stderr.replace(f"bash: line 1: {work}", "bash: ")
        for line in (done.stdout + said).replace(str(work), "").splitlines():
            console.print(Text(line, style="red" if done.returncode else ""))
    # Without fonts from other hosts: a reader's own fixed-width font will do.
    picture = re.sub(
        r"@font-face \{.*?\}|<!--.*?-->", "", console.export_svg(title="journalfs"), flags=re.DOTALL
    )
    (TARGET / "terminal.svg").write_text("\n".join(filter(str.strip, picture.splitlines())) + "\n")


def count_with_spark(store: Path) -> Any:
    """Messages by queue and priority, as pandas has them."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - starts a virtual machine

    import journalfs.spark  # noqa: PLC0415

    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    journalfs.spark.register(spark)
    messages = spark.read.format("journalfs").load(str(store))
    counted = messages.groupBy("queue").pivot("priority").count().na.fill(0).toPandas()
    spark.stop()
    return counted.set_index("queue").sort_index()


def draw_plot(counted: Any) -> None:
    largest = counted.loc[counted.sum(axis=1).sort_values().index[-8:]]
    axes = largest.plot.barh(stacked=True, figsize=(8.2, 3.4), colormap="viridis", width=0.75)
    axes.set_xlabel("live messages")
    axes.set_ylabel("")
    axes.set_title(
        'spark.read.format("journalfs").load(STORE).groupBy("queue").pivot("priority").count()', size=9
    )
    axes.legend(title="priority", frameon=False, ncols=2, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.figure.tight_layout()
    axes.figure.savefig(TARGET / "spark.png", dpi=110)


if __name__ == "__main__":
    main()
