/* Preloaded into a process: notes what it syncs in the file SYNCS_LOG, and fails every sync of a file or a
 * mapping while the file SYNCS_FAIL_IF exists.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static void note(const char *what) {
    const char *const log = getenv("SYNCS_LOG");
    const int fd = log == NULL ? -1 : open(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) return;
    dprintf(fd, "%s\n", what);
    close(fd);
}

static int refused(void) {
    const char *const when = getenv("SYNCS_FAIL_IF");
    return when != NULL && access(when, F_OK) == 0;
}

static int synced(int fd, long call) {
    struct stat status;
    const int directory = fstat(fd, &status) == 0 && S_ISDIR(status.st_mode);
    note(directory ? "directory" : "file");
    if (!directory && refused()) {
        note("refused");
        errno = EIO;
        return -1;
    }
    return (int)syscall(call, fd);
}

int msync(void *map, size_t length, int flags) {
    note("map");
    if (refused()) {
        note("refused");
        errno = EIO;
        return -1;
    }
    return (int)syscall(SYS_msync, map, length, flags);
}

int fsync(int fd) { return synced(fd, SYS_fsync); }
int fdatasync(int fd) { return synced(fd, SYS_fdatasync); }
