"""A process to which the kernel refuses a system call, as it would if something of the machine were spent."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct

import pytest

PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
LOAD_WORD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
REFUSE, ALLOW = 0x00050000, 0x7FFF0000
NUMBER_AT, ARCHITECTURE_AT = 0, 4
"""Where a filter finds the call and the architecture."""

IO_SETUP = {"x86_64": (0xC000003E, 206), "aarch64": (0xC00000B7, 0)}
"""Machine -> what the kernel calls it, and the number of io_setup(2)."""


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def need_a_filter() -> None:
    """Skip the test where no process can be kept from a call, or none that still mounts."""
    if platform.machine() not in IO_SETUP:
        pytest.skip(f"the number of io_setup is not known for {platform.machine()}")
    if os.geteuid() != 0:
        pytest.skip("only root may filter calls and keep the rights that mounting takes")


def refuse_io_setup() -> None:
    """Let io_setup(2) fail with EAGAIN in this process and its children, as where `aio-max-nr` is spent.

    To be called between fork and exec.
    """
    architecture, number = IO_SETUP[platform.machine()]
    code = b"".join(
        (
            _instruction(LOAD_WORD, ARCHITECTURE_AT),
            _instruction(JUMP_IF_EQUAL, architecture, 0, 3),
            _instruction(LOAD_WORD, NUMBER_AT),
            _instruction(JUMP_IF_EQUAL, number, 0, 1),
            _instruction(RETURN, REFUSE | errno.EAGAIN),
            _instruction(RETURN, ALLOW),
        )
    )
    program = _Program(len(code) // 8, code)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_SECCOMP)")
