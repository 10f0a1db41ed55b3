"""The life of a mount: mounting, serving, following the store, and leaving without a trace."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import pyfuse3
import trio

from journalfs.api import REST, Store, in_a_thread
from journalfs.clock import Clock, SystemClock
from journalfs.errors import JournalfsError, MountFailed, SystemFailure
from journalfs.store_owner import as_started
from journalfs_mount.front.front import Front, FrontUnavailableError
from journalfs_mount.kernel.fastwait import FastWait, FastWaitUnavailableError, fuse_descriptors
from journalfs_mount.kernel.loop_watch import LoopWatch
from journalfs_mount.kernel.operations import Operations
from journalfs_mount.limits import READ_AHEAD_KIB, WORKERS_MAX
from journalfs_mount.nodes.base import MountContext
from journalfs_mount.nodes.report import MountReport
from journalfs_mount.options import MountOptions
from journalfs_mount.process.mount_table import mounted_at

log = logging.getLogger("journalfs.mount")

ENDING_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

GARBAGE_THRESHOLDS: Final = (700, 10, 2)
"""When all that is not known to stay is looked through: some 20,000 objects, in a few milliseconds."""

SILENT_MAX: Final = "JOURNALFS_SILENT_MAX_S"
"""For tests: instead of the next."""

SILENT_MAX_S: Final = 120.0
"""So long the event loop may do nothing, and wait for no disk either, before the mount is given up."""

NO_MEMORY_WAIT_S: Final = 1.0
"""Until what ended for lack of memory is begun again."""

OLDEST: Final = 2
"""The generation of objects that is looked through with all others."""

KERNEL_REFUSES: Final = (
    "mounted to be read only with -o ro or allow_other: the kernel refuses changes itself, so no event tells "
    "of them"
)


def run(
    store: Store,
    source: Path,
    mountpoint: Path,
    options: MountOptions,
    *,
    ready: Callable[[], None],
    clock: Clock | None = None,
) -> None:
    """Mount `store`, serve it until it is unmounted or a signal asks for the end, and close it.

    `source` is the store's path, `mountpoint` one that `mountpoint.prepare` returned. `ready` is called when
    the mount answers. Raises `MountFailed` when it cannot be mounted, `SystemFailure` when serving broke off.
    """
    report = MountReport(clock or SystemClock())
    report.details = {
        "store": str(source),
        "mountpoint": str(mountpoint),
        "readOnly": options.read_only,
        "extendedAttributes": options.xattr,
    }
    try:
        mount = _Mount(store, mountpoint, options, report, ready)
        gc.callbacks.append(_keep_survivors)
        gc.set_threshold(*GARBAGE_THRESHOLDS)
        _keep_survivors("stop", {"generation": OLDEST})
        try:
            trio.run(mount.serve, str(source), strict_exception_groups=True)
        finally:
            mount.operations.close()
    except* JournalfsError as group:
        raise _first(group) from None
    except* OSError as group:
        error = _first(group)
        place = f"{error.filename}: " if isinstance(error, OSError) and error.filename else ""
        said = error.strerror or error if isinstance(error, OSError) else error
        raise SystemFailure(f"{mountpoint}: the mount broke off: {place}{said}") from None
    finally:
        store.close()


class _Mount:
    """One mount while it lives. pyfuse3 allows one in a process."""

    def __init__(
        self,
        store: Store,
        mountpoint: Path,
        options: MountOptions,
        report: MountReport,
        ready: Callable[[], None],
    ) -> None:
        self._store = store
        self._mountpoint = mountpoint
        self._options = options
        self._report = report
        self._tell_ready = ready
        self._answers = trio.Event()
        self._fast: FastWait | None = None
        self._front: Front | None = None
        self._asked_to_end = False
        self._device: str | None = None
        """The mount's, in the kernel's table."""
        self._context = context = MountContext(store, options, report)
        report.shares = context.shares
        self.operations = Operations(context, self._ready)
        self._watch = LoopWatch(store.loop_lag, self.operations.latest_request)
        if not context.read_only:
            for path in context.sweep_staging():
                log.info("swept %s, which was staged and left", path)

    async def serve(self, source: str) -> None:
        # Signals first: from the moment of mounting on, dying from one would leave a dead mount.
        with trio.open_signal_receiver(*ENDING_SIGNALS) as signals:
            before = fuse_descriptors()
            self._mount(source)
            try:
                opened = fuse_descriptors() - before
                self._context.interruptions.descriptors = frozenset(opened)
                if len(opened) == 1 and not self._context.read_only:
                    self._store.waking.leaving_told(self._context.believed)
                    self._context.believed.begin(*opened)
                self._choose_loop(opened)
                trio.lowlevel.add_instrument(self._watch)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._end_on_signal, signals)
                    nursery.start_soon(self._tune)
                    nursery.start_soon(self._beat)
                    nursery.start_soon(self._keep_up)
                    nursery.start_soon(self._store.measure)
                    nursery.start_soon(self._context.interruptions.run)
                    nursery.start_soon(self.operations.notify)
                    nursery.start_soon(self._context.believed.run)
                    nursery.start_soon(self._context.endings.run)
                    if not self._context.read_only:
                        nursery.start_soon(self._context.staging().run)
                        nursery.start_soon(self.operations.settle)
                        await nursery.start(self._publish_left)
                    # From here on: what the store does by itself rests for nobody.
                    REST.set(self.operations.pacing.rest)
                    try:
                        await pyfuse3.main(1, WORKERS_MAX)
                        self._tell_of_loss()
                    finally:
                        if self._fast is not None:
                            self._fast.close()  # no request comes any more that a commit could wait for
                        with trio.CancelScope(shield=True):
                            await self.operations.end()
                    nursery.cancel_scope.cancel()
            finally:
                trio.lowlevel.remove_instrument(self._watch)
                self._context.believed.end()
                if self._fast is not None:
                    self._fast.uninstall()
                if self._front is not None:
                    self._front.stop()
                    self._tell_of_differences(self._front.counts())
                with as_started():
                    pyfuse3.close(unmount=True)
                if self._front is not None:
                    self._front.watch_no_more()
                log.info("%s is unmounted", self._mountpoint)

    def _mount(self, source: str) -> None:
        with _captured_stderr() as complaint, as_started():
            try:
                pyfuse3.init(self.operations, str(self._mountpoint), self._options.fuse_options(source))
            except RuntimeError as error:
                reason = " ".join(complaint().split()) or str(error)
                raise MountFailed(f"{self._mountpoint}: cannot mount: {reason}") from None
        mount = mounted_at(self._mountpoint)
        self._device = mount.device if mount is not None else None

    def _choose_loop(self, opened: set[int]) -> None:
        if self._options.loop == "stock":
            self._tell_frontless("the stock loop reads for itself")
            return
        try:
            if len(opened) != 1:
                raise FastWaitUnavailableError("the FUSE descriptor was not found")
            fast = FastWait.prepare(
                opened.pop(), self._watch, self._start_front, self.operations.close_returned
            )
        except FastWaitUnavailableError as reason:
            log.warning("the stock request loop is used, requests take longer: %s", reason)
            self._report.details["loopFallback"] = str(reason)
            self._tell_frontless(str(reason))
            return
        fast.install()
        self._fast = fast
        if self._front is not None and self._options.front == "on":
            self.operations.front = self._front
            # A request that only looks may find that a broker changed the store.
            self._store.waking.watched_by(self._front)
        self._notice_signals(fast)
        self._report.loop = "fast"
        if not self._context.read_only:
            self._context.changing().gather_with(fast)
            self.operations.publish_in_front()

    def _start_front(self, trio_fd: int) -> Front | None:
        """None where it is not wanted, or cannot be used: then the report says why."""
        if self._options.front == "off":
            return None
        try:
            front = Front.claimed()
            front.start(trio_fd, hot=self._options.front == "on")
        except FrontUnavailableError as reason:
            self._tell_frontless(str(reason))
            return None
        self._report.details["front"] = self._options.front
        self._report.front = self._front = self._store.loop_lag.front = front
        return front

    def _tell_frontless(self, reason: str) -> None:
        if self._options.front != "off":
            log.warning("the front is not used, requests take longer: %s", reason)
            self._report.details["frontFallback"] = reason

    @staticmethod
    def _tell_of_differences(counts: Mapping[str, int]) -> None:
        if counts["differed"]:
            log.error("the front would have answered %(differed)d of %(compared)d requests otherwise", counts)

    def _notice_signals(self, fast: FastWait) -> None:
        interruptions, operations = self._context.interruptions, self.operations
        interruptions.told = True
        fast.tell(operations, interruptions)

    def _ready(self) -> None:
        self._answers.set()
        self._tell_ready()
        if self._options.kernel_refuses:
            # Now that nobody's terminal is written to any more.
            self._store.refused("every change: EROFS", KERNEL_REFUSES)

    async def _end_on_signal(self, signals: AsyncIterator[int]) -> None:
        async for number in signals:
            self._asked_to_end = True
            log.info("%s: unmounting %s", signal.Signals(number).name, self._mountpoint)
            self._context.interruptions.end()
            if self._fast is not None:
                self._fast.close()
            pyfuse3.terminate()

    def _tell_of_loss(self) -> None:
        """Say why the mount ended, where nobody asked it to.

        An unmount takes the mount out of the kernel's table before the process hears of it; where it is still
        there, the kernel has broken the connection off.
        """
        mount = mounted_at(self._mountpoint)
        if not self._asked_to_end and mount is not None and mount.device == self._device:
            log.error(
                "%s: the kernel broke the mount's connection off, with %d files open: somebody wrote to "
                "/sys/fs/fuse/connections/*/abort; durable content is published; mount again",
                self._mountpoint,
                self.operations.open_files,
            )

    async def _keep_up(self) -> None:
        """The store's own work, or keeping up with a live broker. If that fails, what was read stays mounted,
        and the report says so.
        """
        changing = not self._context.read_only
        if not (changing or self._options.follow):
            return
        self._report.follow = "writing" if changing else "following"
        try:
            while not await self._kept_up(self._context.changing().run if changing else self._store.follow):
                await trio.sleep(NO_MEMORY_WAIT_S)
        except Exception as error:
            log.exception("the store is no longer followed; what was read until now stays mounted")
            self._report.follow = "failed"
            self._report.follow_failure = str(error) or type(error).__name__
        else:
            self._report.follow = "ended"

    async def _kept_up(self, work: Callable[[], Awaitable[None]]) -> bool:
        """Do the store's own work. False where it ended for lack of memory, which others may give back:
        without that work, lines that nobody waits for are never written, and no file is set free.
        """
        ended = True
        try:
            await work()
        except* MemoryError:
            log.error("there was no memory for the store's own work, which begins again")
            ended = False
        return ended

    async def _publish_left(self, task_status: trio.TaskStatus[None]) -> None:
        """What an earlier mount was told to keep: who asks for its address waits for it, as after a close."""
        store = self._context.changing()
        with contextlib.ExitStack() as waited_for:
            for address_name in store.left_unpublished():
                waited_for.enter_context(self._context.publications.begun(address_name))
            task_status.started()
            await store.publish_left()

    async def _beat(self) -> None:
        """Tell the watchdog that the event loop runs. Where it does not, the watchdog answers EIO to all who
        wait, and ends the mount: as where a thread that was being started found no memory, which Python waits
        for without an end, deaf to signals.
        """
        await in_a_thread(lambda: None)  # while there is memory for threads: some of them stay
        front = self._front
        if front is None:
            return
        silent_max_s = float(os.environ.get(SILENT_MAX) or SILENT_MAX_S)
        front.watch(str(self._mountpoint), silent_max_s)
        while True:
            front.beat()
            await trio.sleep(silent_max_s / 8)

    async def _tune(self) -> None:
        """Raise the kernel's read-ahead. After the first request only: the handshake would lower it again."""
        await self._answers.wait()
        mount = mounted_at(self._mountpoint)
        if mount is None:
            return
        setting = Path(f"/sys/class/bdi/{mount.device}/read_ahead_kb")
        try:
            with as_started():
                setting.write_text(f"{READ_AHEAD_KIB}\n")
        except OSError as error:
            # Needs root. Reading works all the same, at half the speed.
            log.debug("%s stays as it is: %s", setting, error)
            self._report.details["readAheadKib"] = "default"
        else:
            self._report.details["readAheadKib"] = READ_AHEAD_KIB


def _keep_survivors(phase: str, collected: Mapping[str, int]) -> None:
    """What was there once when all was looked through stays, as what the store is made of does: looking for
    garbage in all of it again and again would stop everybody for up to seconds.
    """
    if phase == "stop" and collected["generation"] == OLDEST:
        gc.freeze()


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error


@contextlib.contextmanager
def _captured_stderr() -> Iterator[Callable[[], str]]:
    """Catch what libfuse and fusermount3 write to descriptor 2: they say there why they cannot mount."""
    # In memory: a full disk must not keep anybody from mounting.
    with open(os.memfd_create("complaint"), "rb", closefd=True) as file:
        saved = os.dup(2)
        os.dup2(file.fileno(), 2)

        def caught() -> str:
            return os.pread(file.fileno(), 4096, 0).decode(errors="replace")

        try:
            yield caught
        finally:
            os.dup2(saved, 2)
            os.close(saved)
