"""Who has read a file, and who puts another one in its place."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass, field

import pytest

from journalfs.ids import MessageId
from journalfs.store.api import Shown
from journalfs_mount.callers import program_of, started_s
from journalfs_mount.readings import CLOCK_STEP_S, READ_MAX, READERS_MAX, SHOWN_MAX, Readings

SHOWN = Shown((), [MessageId(1)])


@dataclass
class File:
    shown: Shown = SHOWN


@dataclass
class Processes:
    programs: dict[int, bytes] = field(default_factory=dict)
    started: dict[int, float] = field(default_factory=dict)
    threads: dict[int, set[int]] = field(default_factory=dict)
    now_s: float = 100.0

    def readings(self) -> Readings:
        return Readings(
            program=lambda process: self.programs.get(process, b""),
            threads=lambda thread: self.threads.get(thread, set()),
            started=lambda process: self.started.get(process, 1.0),
            now_s=lambda: self.now_s,
        )


def test_what_was_shown_is_known_of_who_read_it() -> None:
    readings = Processes().readings()
    readings.note(7, 1, File())
    assert readings.shown(7, 1) is SHOWN
    assert readings.shown(7, 2) is readings.shown(8, 1) is None


def test_what_one_thread_read_another_removes() -> None:
    readings = Processes({9: b"mv"}, threads={9: {7, 8, 9}}).readings()
    early, late = File(), File(Shown((), [MessageId(2)]))
    readings.note(8, 1, early)
    readings.note(7, 1, early)
    readings.note(8, 1, late)
    readings.note(7, 2, None)
    assert readings.shown(9, 1) is late.shown
    assert not readings.replaces(9, 1)
    assert readings.replaces(9, 3)


def test_another_process_of_the_same_number_has_read_nothing() -> None:
    processes = Processes({7: b"mv"})
    readings = processes.readings()
    readings.note(7, 1, File())
    assert not readings.replaces(7, 1)
    processes.started[7] = processes.now_s + 2 * CLOCK_STEP_S
    assert readings.shown(7, 1) is None
    assert readings.replaces(7, 1)


def test_what_another_process_of_the_same_number_reads_is_its_own() -> None:
    processes = Processes()
    readings = processes.readings()
    readings.note(7, 1, File())
    readings.note(7, 2, File())
    processes.now_s += 10
    processes.started[7] = processes.now_s - 1
    readings.note(7, 1, File())
    assert readings.shown(7, 1) is SHOWN
    assert readings.shown(7, 2) is None


@pytest.mark.parametrize(
    ("program", "replaces"), [(b"mv", True), (b"tar", True), (b"rm", False), (b"", False)]
)
def test_programs_that_replace(program: bytes, replaces: bool) -> None:
    readings = Processes({7: program}).readings()
    assert readings.replaces(7, 1) == replaces
    readings.note(7, 1, None)
    assert not readings.replaces(7, 1)
    assert readings.replaces(7, 2) == replaces


def test_what_is_remembered_is_bounded() -> None:
    readings = Processes({0: b"mv"}).readings()
    for inode in range(READ_MAX + 1):
        readings.note(0, inode, None)
    assert readings.replaces(0, 0)
    assert not readings.replaces(0, 1)
    for process in range(1, READERS_MAX + 1):
        readings.note(process, 1, File())
    assert readings.replaces(0, 1)
    assert readings.shown(1, 1) is SHOWN


def test_who_has_ended_is_forgotten_first() -> None:
    processes = Processes()
    readings = processes.readings()
    for process in range(READERS_MAX):
        readings.note(process, 1, File())
    processes.started = dict.fromkeys(range(1, READERS_MAX), 0.0)
    readings.note(READERS_MAX, 1, File())
    assert readings.shown(0, 1) is readings.shown(READERS_MAX, 1) is SHOWN
    assert readings.shown(1, 1) is None


def test_messages_that_are_remembered_are_bounded() -> None:
    readings = Processes().readings()
    half = Shown((), range(SHOWN_MAX // 2 + 1))  # type: ignore[arg-type]
    whole = Shown((), range(SHOWN_MAX + 1))  # type: ignore[arg-type]
    readings.note(1, 1, File(half))
    assert readings.shown(1, 1) is half
    readings.note(2, 1, File(half))
    assert (readings.shown(1, 1), readings.shown(2, 1)) == (None, half)
    readings.note(3, 1, File(whole))
    assert (readings.shown(2, 1), readings.shown(3, 1)) == (None, whole)


def test_what_the_system_says_of_a_process() -> None:
    before_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        started = started_s(child.pid)
        assert before_s - CLOCK_STEP_S <= started <= time.clock_gettime(time.CLOCK_BOOTTIME)
        child.communicate(b"\n")
    with open(f"/proc/{os.getpid()}/comm", "rb") as file:
        assert program_of(os.getpid()) == file.read().strip()
    gone = child.pid
    assert (program_of(gone), started_s(gone)) == (b"", 0.0)
