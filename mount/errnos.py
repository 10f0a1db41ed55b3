"""Which errno a request fails with, and the wall between a failing handler and the rest of the mount."""

from __future__ import annotations

import errno
import functools
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from pyfuse3 import FUSEError

from journalfs.errors import JournalfsError, OutOfResources

log = logging.getLogger("journalfs.mount")


class Counting(Protocol):
    """What a guarded handler's owner offers."""

    def count(self, request: str, of: tuple[object, ...]) -> None: ...


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


Owner = TypeVar("Owner", bound=Counting)
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Handler = Callable[Concatenate[Owner, Arguments], Coroutine[Any, Any, Result]]


def guarded(handler: Handler[Owner, Arguments, Result]) -> Handler[Owner, Arguments, Result]:
    """Let nothing but `FUSEError` out of a request handler: anything else would end the whole mount.

    A failure the store names keeps its errno, but for ENOSYS, on which the kernel never again sends requests
    of that kind. What nobody foresaw is logged with its traceback and becomes EIO.
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
        except Exception:
            log.exception("%s%r failed unexpectedly and is answered with EIO", request, arguments[:2])
            raise FUSEError(errno.EIO) from None

    return functools.update_wrapper(guard, handler)
