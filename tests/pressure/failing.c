/* Preloaded into a process (LD_PRELOAD): fails the calls that the process itself chooses.
 *
 * `failing_arm` says which kind of call fails from its n-th on, how often, and with which errno; SHORT makes it do only
 * a part of what it was asked for. Calls are counted from `failing_arm` to `failing_disarm`, in all threads.
 *
 * KILL ends the process at that call, and CUT does so as if the power had been cut: of each write that was not synced
 * all, nothing, or some of its sectors are left. Writes through mappings, and changes of names, are not undone.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { ALLOC, MAP, OPEN, WRITE, SYNC, RENAME, UNLINK, TRUNCATE, ROOM, LINK, FOLDER, SUBMIT, KINDS };
enum { SHORT = -1, CUT = -2, KILL = -3 };
enum { UNSYNCED_MAX = 1 << 14, FILES_MAX = 1 << 10, SECTOR = 512 };

static atomic_long seen[KINDS];
static long first[KINDS], times[KINDS];
static int with[KINDS];
static atomic_int armed;

static struct { dev_t device; ino_t inode; int fd; } files[FILES_MAX];
static struct { int file; off_t offset; size_t length; unsigned char *before; } unsynced[UNSYNCED_MAX];
static int file_count, unsynced_count;
static atomic_int logs, dead;
static unsigned long chance;
static pthread_mutex_t log_mutex = PTHREAD_MUTEX_INITIALIZER;

void *__libc_malloc(size_t bytes);

static int file_of(int fd) {
    struct stat what;
    char name[64];
    if (fstat(fd, &what) || !S_ISREG(what.st_mode)) return -1;
    for (int i = 0; i < file_count; i++)
        if (files[i].device == what.st_dev && files[i].inode == what.st_ino) return i;
    if (file_count == FILES_MAX) return -1;
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    const int again = (int)syscall(SYS_openat, AT_FDCWD, name, O_RDWR | O_CLOEXEC, 0);
    if (again < 0) return -1;
    files[file_count].device = what.st_dev, files[file_count].inode = what.st_ino, files[file_count].fd = again;
    return file_count++;
}

/* What is there before a write that is not durable by itself. */
static void note_write(int fd, size_t length, off_t offset) {
    if (!atomic_load(&logs)) return;
    pthread_mutex_lock(&log_mutex);
    const int file = file_of(fd);
    if (file >= 0 && unsynced_count < UNSYNCED_MAX) {
        unsigned char *const before = __libc_malloc(length + 1);
        memset(before, 0, length + 1);
        syscall(SYS_pread64, files[file].fd, before, length, offset);
        unsynced[unsynced_count].file = file, unsynced[unsynced_count].offset = offset;
        unsynced[unsynced_count].length = length, unsynced[unsynced_count++].before = before;
    }
    pthread_mutex_unlock(&log_mutex);
}

static void note_sync(int fd) {
    if (!atomic_load(&logs)) return;
    pthread_mutex_lock(&log_mutex);
    const int file = file_of(fd);
    int kept = 0;
    for (int i = 0; i < unsynced_count; i++) {
        if (unsynced[i].file == file)
            free(unsynced[i].before);
        else
            unsynced[kept++] = unsynced[i];
    }
    unsynced_count = kept;
    pthread_mutex_unlock(&log_mutex);
}

static unsigned long draw(void) {
    chance ^= chance << 13, chance ^= chance >> 7, chance ^= chance << 17;
    return chance >> 8;
}

static void undo(int i, size_t at, size_t length) {
    syscall(SYS_pwrite64, files[unsynced[i].file].fd, unsynced[i].before + at, length, unsynced[i].offset + (off_t)at);
}

static void cut(void) {
    atomic_store(&dead, 1);
    pthread_mutex_lock(&log_mutex);
    for (int i = unsynced_count - 1; i >= 0; i--) {
        const unsigned long fate = draw() % 10;
        if (fate < 3) continue;
        if (fate < 6) {
            undo(i, 0, unsynced[i].length);
            continue;
        }
        for (size_t at = 0, length; at < unsynced[i].length; at += length) {
            length = SECTOR - (size_t)(unsynced[i].offset + (off_t)at) % SECTOR;
            if (length > unsynced[i].length - at) length = unsynced[i].length - at;
            if (draw() & 1) undo(i, at, length);
        }
    }
    kill(getpid(), SIGKILL);
}

/* From here on power may be cut. */
void failing_log(unsigned long seed) {
    chance = seed * 2654435761u + 88172645463325252u;
    atomic_store(&logs, 1);
}

void failing_arm(int kind, long nth, long how_often, int error) {
    for (int i = 0; i < KINDS; i++) seen[i] = first[i] = 0;
    first[kind] = nth, times[kind] = how_often, with[kind] = error;
    atomic_store(&armed, 1);
}

void failing_disarm(void) { atomic_store(&armed, 0); }

long failing_seen(int kind) { return seen[kind]; }

/* 0: goes on as always. 1: fails, and errno says why. SHORT: does a part. */
static int fails(int kind) {
    if (!atomic_load_explicit(&armed, memory_order_relaxed)) return 0;
    const long n = atomic_fetch_add(&seen[kind], 1) + 1;
    if (!first[kind] || n < first[kind] || n >= first[kind] + times[kind]) return 0;
    if (with[kind] == SHORT) return SHORT;
    if (with[kind] == CUT) cut();
    if (with[kind] == KILL) kill(getpid(), SIGKILL);
    errno = with[kind];
    return 1;
}

/* -- memory -- */

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

void *malloc(size_t bytes) { return fails(ALLOC) ? NULL : __libc_malloc(bytes); }
void *calloc(size_t count, size_t bytes) { return fails(ALLOC) ? NULL : __libc_calloc(count, bytes); }
void *realloc(void *old, size_t bytes) { return fails(ALLOC) ? NULL : __libc_realloc(old, bytes); }
void *aligned_alloc(size_t alignment, size_t bytes) { return fails(ALLOC) ? NULL : __libc_memalign(alignment, bytes); }

int posix_memalign(void **out, size_t alignment, size_t bytes) {
    if (fails(ALLOC)) return ENOMEM;
    *out = __libc_memalign(alignment, bytes);
    return *out ? 0 : ENOMEM;
}

static void *mapped(void *at, size_t bytes, int protection, int flags, int fd, off_t offset) {
    if (fails(MAP)) return MAP_FAILED;
    return (void *)syscall(SYS_mmap, at, bytes, protection, flags, fd, offset);
}

void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset) {
    return mapped(at, bytes, protection, flags, fd, offset);
}
void *mmap64(void *at, size_t bytes, int protection, int flags, int fd, off_t offset) {
    return mapped(at, bytes, protection, flags, fd, offset);
}

/* -- files -- */

/* Only what makes or changes something; reading has tests of its own. */
static int opened(int folder, const char *name, int flags, mode_t mode) {
    if (fails(OPEN)) return -1;
    return (int)syscall(SYS_openat, folder, name, flags, mode);
}

#define MODE_OF(flags)                              \
    mode_t mode = 0;                                \
    if ((flags) & (O_CREAT | __O_TMPFILE)) {        \
        va_list more;                               \
        va_start(more, flags);                      \
        mode = va_arg(more, mode_t);                \
        va_end(more);                               \
    }

int open(const char *name, int flags, ...) { MODE_OF(flags) return opened(AT_FDCWD, name, flags, mode); }
int open64(const char *name, int flags, ...) { MODE_OF(flags) return opened(AT_FDCWD, name, flags, mode); }
int openat(int folder, const char *name, int flags, ...) { MODE_OF(flags) return opened(folder, name, flags, mode); }
int openat64(int folder, const char *name, int flags, ...) { MODE_OF(flags) return opened(folder, name, flags, mode); }

static ssize_t written(int fd, const void *bytes, size_t length, off_t offset) {
    const int how = fails(WRITE);
    if (how == 1) return -1;
    while (atomic_load(&dead)) pause();
    note_write(fd, length, offset);
    return syscall(SYS_pwrite64, fd, bytes, how == SHORT && length > 1 ? length / 2 : length, offset);
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset) { return written(fd, bytes, length, offset); }
ssize_t pwrite64(int fd, const void *bytes, size_t length, off_t offset) { return written(fd, bytes, length, offset); }

ssize_t pwritev2(int fd, const struct iovec *pieces, int count, off_t offset, int flags) {
    const int how = fails(WRITE);
    if (how == 1) return -1;
    while (atomic_load(&dead)) pause();
    struct iovec part = pieces[0];
    if (how == SHORT && count == 1 && part.iov_len > 1) part.iov_len /= 2, pieces = &part;
    return syscall(SYS_pwritev2, fd, pieces, count, offset, 0, flags);
}

ssize_t write(int fd, const void *bytes, size_t length) {
    struct stat what;
    const int looks = atomic_load(&armed) || atomic_load(&logs);
    const int is_file = looks && fstat(fd, &what) == 0 && S_ISREG(what.st_mode);
    const int how = is_file ? fails(WRITE) : 0;
    if (how == 1) return -1;
    while (is_file && atomic_load(&dead)) pause();
    if (is_file) note_write(fd, length, lseek(fd, 0, SEEK_CUR));
    return syscall(SYS_write, fd, bytes, how == SHORT && length > 1 ? length / 2 : length);
}

/* Who loads this is killed, and the machine goes on: nothing has to reach the disk. */
int fsync(int fd) {
    if (fails(SYNC) || fcntl(fd, F_GETFD) < 0) return -1;
    while (atomic_load(&dead)) pause();
    note_sync(fd);
    return 0;
}
int fdatasync(int fd) { return fsync(fd); }
int msync(void *map, size_t length, int flags) { return fails(SYNC) ? -1 : 0; }

int rename(const char *old, const char *new) {
    return fails(RENAME) ? -1 : (int)syscall(SYS_renameat2, AT_FDCWD, old, AT_FDCWD, new, 0);
}
int renameat(int from, const char *old, int to, const char *new) {
    return fails(RENAME) ? -1 : (int)syscall(SYS_renameat2, from, old, to, new, 0);
}
int unlink(const char *name) { return fails(UNLINK) ? -1 : (int)syscall(SYS_unlinkat, AT_FDCWD, name, 0); }
int unlinkat(int folder, const char *name, int flags) {
    return fails(UNLINK) ? -1 : (int)syscall(SYS_unlinkat, folder, name, flags);
}
int rmdir(const char *name) { return fails(UNLINK) ? -1 : (int)syscall(SYS_unlinkat, AT_FDCWD, name, AT_REMOVEDIR); }
int ftruncate(int fd, off_t length) { return fails(TRUNCATE) ? -1 : (int)syscall(SYS_ftruncate, fd, length); }
int ftruncate64(int fd, off_t length) { return fails(TRUNCATE) ? -1 : (int)syscall(SYS_ftruncate, fd, length); }
int fallocate(int fd, int mode, off_t at, off_t length) {
    return fails(ROOM) ? -1 : (int)syscall(SYS_fallocate, fd, mode, at, length);
}
int fallocate64(int fd, int mode, off_t at, off_t length) {
    return fails(ROOM) ? -1 : (int)syscall(SYS_fallocate, fd, mode, at, length);
}
int posix_fallocate(int fd, off_t at, off_t length) {
    if (fails(ROOM)) return errno;
    return syscall(SYS_fallocate, fd, 0, at, length) ? errno : 0;
}
int posix_fallocate64(int fd, off_t at, off_t length) { return posix_fallocate(fd, at, length); }
int link(const char *old, const char *new) {
    return fails(LINK) ? -1 : (int)syscall(SYS_linkat, AT_FDCWD, old, AT_FDCWD, new, 0);
}
int linkat(int from, const char *old, int to, const char *new, int flags) {
    return fails(LINK) ? -1 : (int)syscall(SYS_linkat, from, old, to, new, flags);
}
int mkdir(const char *name, mode_t mode) { return fails(FOLDER) ? -1 : (int)syscall(SYS_mkdirat, AT_FDCWD, name, mode); }
int mkdirat(int folder, const char *name, mode_t mode) {
    return fails(FOLDER) ? -1 : (int)syscall(SYS_mkdirat, folder, name, mode);
}

/* By which openat2 and asynchronous I/O are called. */
long syscall(long number, ...) {
    static long (*next)(long, ...);
    va_list more;
    va_start(more, number);
    const long a = va_arg(more, long), b = va_arg(more, long), c = va_arg(more, long);
    const long d = va_arg(more, long), e = va_arg(more, long), f = va_arg(more, long);
    va_end(more);
    if (!next) next = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    if (number == SYS_io_submit && fails(SUBMIT)) return -1;
    if (number == SYS_openat2 && fails(OPEN)) return -1;
    return next(number, a, b, c, d, e, f);
}
