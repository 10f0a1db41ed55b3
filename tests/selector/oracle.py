"""The broker's own selector code as a process that answers questions (`java/SelectorOracle.java`)."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from tests.broker.distribution import class_path

SOURCES = Path(__file__).parent / "java"


class OracleEndedError(Exception):
    """The process ended; the message is what it wrote about it."""


class Oracle:
    """One running process. Not thread safe."""

    def __init__(self) -> None:
        command = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:-UsePerfData"]
        command += ["-Dlog4j2.level=off", "-cp", class_path(SOURCES), "SelectorOracle"]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        )

    def __enter__(self) -> Oracle:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)

    def _ask(self, question: Mapping[str, object]) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise OracleEndedError(f"no answer to {question}")
        return answer.strip()

    def evaluate(self, selector: str, properties: Mapping[str, tuple[str, str]]) -> tuple[str, bool] | None:
        """(`true` `false` `unknown` or `fails`, accepted); None when the broker refuses the selector."""
        typed = {name: list(value) for name, value in properties.items()}
        answer = self._ask({"selector": selector, "properties": typed})
        if answer == "invalid":
            return None
        word, accepted = answer.split()
        return word, accepted == "true"

    def keep(self, payloads: Sequence[bytes]) -> None:
        """Keep messages, as records of type 45 hold them, for `filter`."""
        answer = self._ask({"messages": [base64.b64encode(payload).decode() for payload in payloads]})
        assert answer == f"kept {len(payloads)}"

    def filter(self, text: str, *, jms: bool) -> str | None:
        """A digit for each kept message, 1 if a filter accepts it; None when the broker refuses it."""
        answer = self._ask({"filter": text, "jms": jms})
        return None if answer == "invalid" else answer
