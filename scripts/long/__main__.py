"""Run the long tests file by file, for an hour at most, and go on the next time where that ended.

What a file came to is noted in build/long-runs.jsonl, for the commit that it ran on. When all files of a
folder have run on one commit, its row in docs/inside/long-runs.md says so.

With `--front` it is the quick tests of what uses mounts that run, with the front in that mode; with `--kind`
those of what uses stores, in a database of that kind.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
NOTES: Final = ROOT / "build" / "long-runs.jsonl"
PAGE: Final = ROOT / "docs" / "inside" / "long-runs.md"
HOUR_S: Final = 3600
COUNTED: Final = re.compile(r"(\d+) (passed|failed|error)")
NO_TESTS: Final = 5
"""What pytest ends with where nothing was chosen."""


KINDS: Final = ("sqlite", "postgresql")
FRONTS: Final = ("off", "forward", "on", "chaos", "shadow")
OF_MOUNTS: Final = (
    *("mount", "semantics", "model", "writing", "faults", "crash", "security"),
    *("publish", "cli", "backup", "history", "exchange", "recipes"),
)


OF_STORES: Final = ("mount", "semantics", "writing")


def how_of(chosen: argparse.Namespace) -> str:
    """What the quick tests are told, as a row has it; "": it is those that are marked."""
    given = {"--front": chosen.front, "--kind": chosen.kind}
    return " ".join(f"{name} {value}" for name, value in given.items() if value)


def chosen_by(how: str) -> list[str]:
    """What pytest is told to choose tests by."""
    return ["-m", "not long", *how.split()] if how else ["-m", "long"]


@cache
def files(how: str) -> list[str]:
    """Those with a test that is marked: by itself, or as a kind of store is (`tests/kinds.py`)."""
    names = OF_STORES if "--kind" in how else OF_MOUNTS
    folders = [f"tests/{name}" for name in names] if how else ["tests"]
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", *chosen_by(how), *folders]
    command.append("--continue-on-collection-errors")
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    return sorted({line.partition("::")[0] for line in found.splitlines() if "::" in line})


def commit() -> str:
    """The last one that changed something else than what was recorded."""
    command = ["git", "log", "-1", "--format=%h", "--", ".", f":!{PAGE.relative_to(ROOT)}"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def notes() -> list[dict[str, Any]]:
    return [json.loads(line) for line in NOTES.read_text().splitlines()] if NOTES.exists() else []


def run(file: str, how: str, seed: int, most_s: float, *, is_first: bool) -> dict[str, Any] | None:
    """What pytest came to. None: it was stopped, and begins the next piece; who began this one has failed."""
    began = time.monotonic()
    given = [*chosen_by(how), *([] if how else ["--commands=exec"]), f"--hypothesis-seed={seed}"]
    command = [sys.executable, "-m", "pytest", "-q", "-s", *given, file]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=most_s, check=False)
        tail, good = done.stdout.splitlines()[-1:], done.returncode in {0, NO_TESTS}
        if not good:
            told = NOTES.with_name(f"{file.replace('/', '.')}.{how.rpartition(' ')[2] or 'long'}.out")
            told.write_text(done.stdout + done.stderr)
            print(f"see {told}")
    except subprocess.TimeoutExpired:
        if not is_first:
            return None
        tail, good = [], False
    counts = {what: int(count) for count, what in COUNTED.findall("".join(tail))}
    failed = counts.get("failed", 0) + counts.get("error", 0) or int(not good)
    took_s = round(time.monotonic() - began)
    return {
        "file": file,
        "how": how,
        "passed": counts.get("passed", 0),
        "failed": failed,
        "seconds": took_s,
        "seed": seed,
    }


def rows(noted: list[dict[str, Any]], at: str, how: str) -> dict[str, str]:
    """The rows of all folders whose files have all run at a commit, by their first column."""
    ran = {one["file"]: one for one in noted if (one["commit"], one.get("how")) == (at, how)}
    found = {}
    for folder in sorted({file.rpartition("/")[0] for file in files(how)}):
        wanted = [file for file in files(how) if file.rpartition("/")[0] == folder]
        if all(file in ran for file in wanted):
            of = [ran[file] for file in wanted]
            sums = [sum(one[key] for one in of) for key in ("passed", "failed", "seconds")]
            day = max(one["date"] for one in of)
            name = f"| `{f'{folder} {how}'.rstrip()}` |"
            found[name] = f"{name} {day} | {at} | {sums[0]} | {sums[1]} | {sums[2]} | {of[0]['seed']} |"
    return found


def record(made: dict[str, str]) -> None:
    """A folder has one row: that of its last run."""
    lines = PAGE.read_text().splitlines()
    kept = [line for line in lines if not line.startswith(tuple(made))]
    PAGE.write_text("\n".join([*kept, *made.values()]) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/long-tests", description=__doc__)
    parser.add_argument("--seconds", type=int, default=HOUR_S, help="how long this piece may take")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), help="of random work")
    parser.add_argument("--front", default="", choices=("", *FRONTS), help="quick tests of mounts")
    parser.add_argument("--kind", default="", choices=("", *KINDS), help="quick tests of stores")
    parser.add_argument("files", nargs="*", help="of tests; all that have not passed on this commit")
    chosen = parser.parse_args()
    at, how, until = commit(), how_of(chosen), time.monotonic() + chosen.seconds
    whole = [one for one in notes() if (one["commit"], one.get("how")) == (at, how)]
    passed = {one["file"] for one in whole if not one["failed"]}
    left = chosen.files or [file for file in files(how) if file not in passed]
    NOTES.parent.mkdir(exist_ok=True)
    failed = 0
    for count, file in enumerate(left):
        one = run(file, how, chosen.seed, max(until - time.monotonic(), 0.0), is_first=count == 0)
        if one is None:
            print(f"{len(left) - count} files are left; call again to go on")
            break
        one |= {"date": time.strftime("%Y-%m-%d"), "commit": at}
        failed += one["failed"]
        print(json.dumps(one), flush=True)
        with NOTES.open("a") as out:
            print(json.dumps(one), file=out)
    record(rows(notes(), at, how))
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
