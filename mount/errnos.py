"""Which errno a request fails with, and the wall between a failing handler and the rest of the mount."""

from __future__ import annotations

import errno
import functools
import logging
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypeVar

from pyfuse3 import FUSEError

from journalfs.errors import JournalfsError, OutOfResources, SystemFailure

log = logging.getLogger("journalfs.mount")


class Counting(Protocol):
    """What a guarded handler's owner offers."""

    def count(self, request: str, of: tuple[object, ...]) -> None: ...

    def failed(self, request: str, error: Exception) -> None:
        """Tell the store's events of a failure that nobody foresaw."""


def refuse(number: int) -> FUSEError:
    """The exception that answers a request with errno `number`. A new one each time: tracebacks would pile
    up."""
    return FUSEError(number)


def no_such_name() -> FUSEError:
    return FUSEError(errno.ENOENT)


def gone() -> FUSEError:
    """What a number stood for is no longer there, or no longer the same.

    ESTALE, not ENOENT: on it the kernel looks the path up once more, past its caches, and tries again. So a
    file that was replaced opens as its new self, and one that is gone ends as ENOENT.
    """
    return FUSEError(errno.ESTALE)


_NO_MEMORY: Final = FUSEError(errno.ENOMEM)
"""Made before it is needed: then there may be no memory for it."""

Owner = TypeVar("Owner", bound=Counting)
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Handler = Callable[Concatenate[Owner, Arguments], Coroutine[Any, Any, Result]]


def guarded(handler: Handler[Owner, Arguments, Result]) -> Handler[Owner, Arguments, Result]:
    """Let nothing but `FUSEError` out of a request handler: anything else would end the whole mount.

    A failure the store names keeps its errno, but for ENOSYS, on which the kernel never again sends requests
    of that kind. An exception that nobody foresaw is logged with its traceback, becomes an event and EIO.
    """
    request = handler.__name__

    async def guard(self: Owner, /, *arguments: Arguments.args, **keywords: Arguments.kwargs) -> Result:
        self.count(request, arguments[:2])
        try:
            return await handler(self, *arguments, **keywords)
        except FUSEError:
            raise
        except JournalfsError as error:
            number = errno.EOPNOTSUPP if error.errno == errno.ENOSYS else error.errno
            if isinstance(error, OutOfResources):
                number = error.system_errno or number
            log.info("%s fails with %s: %s", request, errno.errorcode.get(number, number), error)
            raise FUSEError(number) from None
        except MemoryError:
            raise _NO_MEMORY from None  # to say more takes memory
        except Exception as error:
            log.exception("%s%r failed unexpectedly and is answered with EIO", request, arguments[:2])
            self.failed(request, error)
            raise FUSEError(errno.EIO) from None

    return functools.update_wrapper(guard, handler)


# Changes that are refused: the caller gets an errno, and the store's events say what and why.

_ORDINARY: Final = frozenset(
    (errno.ENOENT, errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.EISDIR, errno.ESTALE)
)
"""What programs try and expect to fail with real files. It says all there is to say."""


def fault(error: Exception) -> str:
    """The reason that an event gives for an exception that nobody foresaw."""
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return f"a fault of journalfs, not of the request ({said}); the log of the mount says where"


COMES_BACK: Final = "; what was removed comes back by journalfs undo MNT"
"""For who removed something to put something else in its place, and learns now that it cannot."""


class Refused(Exception):  # noqa: N818  (says what happened, as those of journalfs.errors)
    """A change that the mount does not make. `reason` is for the one who asked."""

    def __init__(self, number: int, reason: str) -> None:
        super().__init__(reason)
        self.errno = number


@contextmanager
def bad_content() -> Iterator[None]:
    """Give EBADMSG for staged files that cannot become messages. Of a rename that gets EINVAL, `mv` says that
    it would move something into itself; and it asks again without RENAME_NOREPLACE.
    """
    try:
        yield
    except JournalfsError as error:
        if error.errno != errno.EINVAL:
            raise
        raise Refused(errno.EBADMSG, str(error)) from None


def nothing_else() -> str:
    """Where what is refused has no consequence."""
    return ""


class Noted:
    """Around a change: what it fails with is written down and becomes the errno of the request."""

    def __init__(
        self,
        refused: Callable[[str, str], None],
        path: Callable[[], str],
        consequence: Callable[[], str] = nothing_else,
    ) -> None:
        """`refused` is told what was refused, and why; `consequence` goes on in that sentence."""
        self._refused = refused
        self._path = path
        self._consequence = consequence

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
        if isinstance(error, Exception) and not isinstance(error, FUSEError):
            # Without this its caller would get an EIO that no event explains: a shell does not even see that.
            log.error("%s failed unexpectedly", self._path() or "/", exc_info=error)
            self._refuse(errno.EIO, fault(error))

    def _refuse(self, number: int, reason: str) -> None:
        what = f"{self._path() or '/'}: {errno.errorcode.get(number, number)}"
        self._refused(what, reason + self._consequence())
        raise FUSEError(number) from None
