"""Changes that are refused: the caller gets an errno, and the store's events say what and why."""

from __future__ import annotations

import errno
from collections.abc import Callable
from types import TracebackType
from typing import Final

from pyfuse3 import FUSEError

from journalfs.errors import JournalfsError, SystemFailure
from journalfs.store.api import WritableStore

_ORDINARY: Final = frozenset(
    (errno.ENOENT, errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.EISDIR, errno.ESTALE)
)
"""What programs try and expect to fail with real files. It says all there is to say."""


class Refused(Exception):  # noqa: N818  (says what happened, as those of journalfs.errors)
    """A change that the mount does not make. `reason` is for the one who asked."""

    def __init__(self, number: int, reason: str) -> None:
        super().__init__(reason)
        self.errno = number


class Noted:
    """Around a change: what it fails with is written down and becomes the errno of the request."""

    __slots__ = ("_path", "_store")

    def __init__(self, store: WritableStore, path: Callable[[], str]) -> None:
        self._store = store
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, SystemFailure) and error.system_errno is not None:
            self._refuse(error.system_errno, str(error))
        if isinstance(error, Refused | JournalfsError):
            self._refuse(error.errno, str(error))
        if isinstance(error, OSError):
            number = error.errno or errno.EIO
            if number in _ORDINARY:
                raise FUSEError(number) from None
            self._refuse(number, error.strerror or str(error))

    def _refuse(self, number: int, reason: str) -> None:
        self._store.refused(f"{self._path()}: {errno.errorcode.get(number, number)}", reason)
        raise FUSEError(number) from None
