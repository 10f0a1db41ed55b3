"""Drives our Java client program: one JSON command a line in, one JSON answer a line out."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
from types import TracebackType
from typing import Any

from tests.broker import class_data

ANSWER_S_MAX = 60


class ClientError(Exception):
    """The client could not do what it was told; the message is the Java exception's."""


class CoreClient:
    """A core client of one broker. Everything it returns from is done and confirmed by the broker.

    Methods name what the tests use often; `do` sends any command that `java/` understands.
    """

    def __init__(self, port: int) -> None:
        url = f"tcp://127.0.0.1:{port}"
        command = [
            "setpriv",
            "--pdeathsig",
            "KILL",
            "java",
            "-Xmx256m",
            *class_data.options(class_data.CLIENT),
        ]
        command += ["-cp", class_data.class_path(), class_data.CLIENT, url]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        self._answers: queue.Queue[str | None] = queue.Queue()
        self._errors: list[str] = []
        self._threads = [
            threading.Thread(target=self._read_answers, daemon=True),
            threading.Thread(target=self._read_errors, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def _read_answers(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put(None)

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        self._errors.extend(self._process.stderr)

    def do(self, verb: str, **arguments: object) -> dict[str, Any]:
        """Run one command; raises `ClientError` when it failed."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": verb, **arguments}) + "\n")
        self._process.stdin.flush()
        try:
            line = self._answers.get(timeout=ANSWER_S_MAX)
        except queue.Empty:
            raise ClientError(
                f"no answer to {verb} within {ANSWER_S_MAX} s\n{''.join(self._errors)}"
            ) from None
        if line is None:
            raise ClientError(f"the client ended at {verb}\n{''.join(self._errors)}")
        answer: dict[str, Any] = json.loads(line)
        if not answer["ok"]:
            raise ClientError(f"{verb} {arguments}: {answer['error']}")
        return answer

    def create_queue(self, queue_name: str, **arguments: object) -> None:
        self.do("queue", queue=queue_name, **arguments)

    def send(self, address: str, **arguments: object) -> None:
        self.do("send", address=address, **arguments)

    def send_many(self, address: str, count: int, **arguments: object) -> None:
        """Send `count` messages in one transaction: one flush of the journal for all."""
        self.do("begin", session="many")
        self.do("send", address=address, count=count, session="many", **arguments)
        self.do("commit", session="many")
        self.do("end", session="many")

    def consume(self, queue_name: str, count: int = 1, **arguments: object) -> list[int]:
        """Take and acknowledge `count` messages; returns their ids."""
        taken: list[int] = self.do("consume", queue=queue_name, count=count, **arguments)["taken"]
        return taken

    def consume_many(self, queue_name: str, count: int) -> list[int]:
        """The same in one transaction."""
        self.do("begin", session="take")
        taken = self.consume(queue_name, count, session="take")
        self.do("commit", session="take")
        self.do("end", session="take")
        return taken

    def browse(self, queue_name: str) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = self.do("browse", queue=queue_name)["messages"]
        return messages

    def attribute(self, resource: str, attribute: str) -> Any:
        return self.do("manage", resource=resource, attribute=attribute)["result"]

    def operation(self, resource: str, operation: str, *arguments: object) -> Any:
        return self.do("manage", resource=resource, operation=operation, arguments=list(arguments))["result"]

    def message_count(self, queue_name: str) -> int:
        count: int = self.attribute(f"queue.{queue_name}", "messageCount")
        return count

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(ANSWER_S_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ClientError("the client did not end when told to") from None
        self._finish()

    def kill(self) -> None:
        """End it at once: what it had open is for the broker to clean up."""
        self._process.kill()
        self._process.wait(ANSWER_S_MAX)
        self._finish()

    def _finish(self) -> None:
        for thread in self._threads:
            thread.join(ANSWER_S_MAX)
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None and not stream.closed:
                stream.close()

    def __enter__(self) -> CoreClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self.kill()
