"""The workers of docs/use/worker.md, in each language that is on this machine."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mount.conftest import until
from tests.writing.conftest import Address, bodies
from tests.writing.test_taking import counts, publish

PAGE = Path(__file__).parents[2] / "docs/use/worker.md"
SLOW = {"go": pytest.mark.long, "java": pytest.mark.long}
"""They compile the program first."""
SUFFIXES = {"sh": "sh", "python": "py", "java": "java", "go": "go", "js": "js"}
COMMANDS = {
    "sh": ["sh"], "python": [sys.executable], "java": ["java"], "go": ["go", "run"], "js": ["node"],
}  # fmt: skip


def programs() -> list[tuple[str, str]]:
    """Language and text of each program of the page."""
    return re.findall(r"```(\w+)\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.rule("S-370")
@pytest.mark.parametrize(
    ("language", "program"),
    [
        pytest.param(language, text, id=f"{language}-{at}", marks=SLOW.get(language, ()))
        for at, (language, text) in enumerate(programs())
    ],
)  # fmt: skip
def test_a_worker_acknowledges_what_it_did(
    address: Address, tmp_path: Path, language: str, program: str
) -> None:
    command = COMMANDS[language]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not here")
    queue = address.first
    os.setxattr(address.path, "user.journalfs.max-delivery-attempts", b"3")
    (address.path.parent / "DLQ/DLQ").mkdir(parents=True, exist_ok=True)
    os.setxattr(address.path, "user.journalfs.dead-letter-address", b"DLQ")
    publish(queue, "one", "bad", "zwölf €")
    named = program.replace("/mnt/work/work", str(queue.path)).replace('"/mnt"', f'"{address.path.parent}"')
    named = named.replace("work::work", f"{address.path.name}::{queue.path.name}")
    file = tmp_path / f"Worker.{SUFFIXES[language]}"
    file.write_text(named)
    environment = {**os.environ, "GOCACHE": str(tmp_path / "go"), "GO111MODULE": "off", "LC_ALL": "C.UTF-8"}
    output = tmp_path / "output"
    with (
        output.open("wb") as out,
        subprocess.Popen([*command, file], stdout=out, env=environment, start_new_session=True) as worker,
    ):
        until(lambda: worker.poll() is not None or bodies(queue) == [], "all is done, or a dead letter")
        ended = worker.poll()
        os.killpg(worker.pid, signal.SIGKILL)  # `go run` starts the program as a child
    said = output.read_text("utf-8")
    assert ended is None, f"it ended with {ended} and said {said!r}"
    assert re.findall(r'"body":"(.*?)"}', said) == ["one", "zwölf €"]
    dead = address.path.parent / "DLQ/DLQ"
    assert '"body":"bad"' in (dead / ".all.jsonl").read_text()
    assert counts(queue) == []
