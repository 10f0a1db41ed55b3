"""Timing what an honest client waits for while another one does its worst."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path

REQUESTS = 40

_FORK = multiprocessing.get_context("spawn")


def many_messages(file: Path, count: int, properties: str = '"n":%d,"region":"EU"') -> Path:
    """A file of as many envelopes, whose property `n` counts from 0."""
    types = '"propertyTypes":{"n":"int"}'
    with file.open("w") as out:
        for n in range(count):
            out.write(f'{{"type":"text","properties":{{{properties % n}}},{types},"body":"m{n}"}}\n')
    return file


def publish(file: Path, target: Path) -> None:
    """By a program that copies, as anybody would."""
    subprocess.run(["cp", file, target], check=True, timeout=120)


def look(queue: Path) -> None:
    os.stat(queue / "_tail.jsonl")
    os.listdir(queue)


def write(address: Path) -> None:
    with (address / "in.txt").open("a") as out:
        out.write("a line\n")


def timed(work: Callable[[], None], count: int = REQUESTS) -> list[float]:
    """How long each of many calls took, in seconds, rising."""
    took = []
    for _ in range(count):
        began = time.perf_counter()
        work()
        took.append(time.perf_counter() - began)
    return sorted(took)


def p99(took: Sequence[float]) -> float:
    return took[min(len(took) - 1, len(took) * 99 // 100)]


def _ask_on(where: Path, selectors: Sequence[str], begun: Event, over: Event) -> None:
    while not over.is_set():
        for n, selector in enumerate(selectors):
            new = f"{selector} AND x{os.getpid()}_{time.monotonic_ns()}_{n} IS NULL"
            try:
                os.listdir(where / new)
            except OSError as error:
                print(error, file=sys.stderr)
            begun.set()
            if over.is_set():
                break


@contextmanager
def asking_for(queue: Path, selectors: Sequence[str], clients: int = 2) -> Iterator[None]:
    """Other processes list one new selection after the other meanwhile."""
    over, begun = _FORK.Event(), [_FORK.Event() for _ in range(clients)]
    others = [
        _FORK.Process(target=_ask_on, args=(queue / ".where", selectors, one, over), daemon=True)
        for one in begun
    ]
    for other in others:
        other.start()
    for one in begun:
        assert one.wait(timeout=120)
    try:
        yield
    finally:
        over.set()
        for other in others:
            other.join(timeout=120)
            assert other.exitcode == 0
