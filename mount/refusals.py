"""Changes that are refused: the caller gets an errno, and the store's events say what and why."""

from __future__ import annotations

import errno
from collections.abc import Callable
from types import TracebackType
from typing import Final

from pyfuse3 import FUSEError

from journalfs.errors import JournalfsError, SystemFailure
from journalfs.store.api import Store

_ORDINARY: Final = frozenset(
    (errno.ENOENT, errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.EISDIR, errno.ESTALE)
)
"""What programs try and expect to fail with real files. It says all there is to say."""

COMES_BACK: Final = "; what was removed comes back by journalfs undo MNT"
"""For who removed something to put something else in its place, and learns now that it cannot."""


class Refused(Exception):  # noqa: N818  (says what happened, as those of journalfs.errors)
    """A change that the mount does not make. `reason` is for the one who asked."""

    def __init__(self, number: int, reason: str, *, told: bool = False) -> None:
        """`told`: the same fault has its event already."""
        super().__init__(reason)
        self.errno = number
        self.told = told


def nothing_else() -> str:
    """Where what is refused has no consequence."""
    return ""


class Noted:
    """Around a change: what it fails with is written down and becomes the errno of the request."""

    __slots__ = ("_consequence", "_path", "_store")

    def __init__(
        self, store: Store, path: Callable[[], str], consequence: Callable[[], str] = nothing_else
    ) -> None:
        """`consequence` goes on in the sentence that says why."""
        self._store = store
        self._path = path
        self._consequence = consequence

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, SystemFailure) and error.system_errno is not None:
            self._refuse(error.system_errno, str(error))
        if isinstance(error, Refused) and error.told:
            raise FUSEError(error.errno) from None
        if isinstance(error, Refused | JournalfsError):
            self._refuse(error.errno, str(error))
        if isinstance(error, OSError):
            number = error.errno or errno.EIO
            if number in _ORDINARY:
                raise FUSEError(number) from None
            self._refuse(number, error.strerror or str(error))

    def _refuse(self, number: int, reason: str) -> None:
        what = f"{self._path() or '/'}: {errno.errorcode.get(number, number)}"
        self._store.refused(what, reason + self._consequence())
        raise FUSEError(number) from None
