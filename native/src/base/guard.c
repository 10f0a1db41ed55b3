/* SIGBUS into JFS_TORN, and the mappings themselves.
 *
 * The one piece of process-wide state of the core lives here, because signal handlers are process-wide: the handler
 * that was there before ours. A fault outside a guarded body is handed on to it.
 */
#define _GNU_SOURCE
#include "jfs_guard.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "inflated.h"

static _Thread_local sigjmp_buf *innermost;

static pthread_mutex_t install_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sigaction previous;

static void hand_on(int number, siginfo_t *info, void *machine) {
    const struct sigaction before = previous;
    /* A handler that was told of the fault may raise it again through ours: the second time nobody is left. */
    memset(&previous, 0, sizeof previous);
    if (before.sa_flags & SA_SIGINFO) {
        before.sa_sigaction(number, info, machine);
    } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
        before.sa_handler(number);
    } else {
        /* Returning runs the faulting load again, which now ends the process as it would have without us. */
        signal(number, SIG_DFL);
    }
}

static void on_bus_error(int number, siginfo_t *info, void *machine) {
    if (innermost != NULL) {
        if (jfs_inflated_fault(info->si_addr)) return;
        siglongjmp(*innermost, 1);
    }
    hand_on(number, info, machine);
}

/* Others may set SIGBUS at any time (Python's faulthandler does), so every outermost guard looks again. */
static jfs_status ensure_installed(void) {
    struct sigaction current;
    jfs_status status = JFS_OK;
    if (sigaction(SIGBUS, NULL, &current) != 0) return JFS_NO_MEMORY;
    if ((current.sa_flags & SA_SIGINFO) && current.sa_sigaction == on_bus_error) return JFS_OK;
    pthread_mutex_lock(&install_lock);
    if (sigaction(SIGBUS, NULL, &current) == 0 &&
        !((current.sa_flags & SA_SIGINFO) && current.sa_sigaction == on_bus_error)) {
        struct sigaction ours;
        memset(&ours, 0, sizeof ours);
        ours.sa_sigaction = on_bus_error;
        /* NODEFER: the handler leaves by a jump, which would otherwise leave SIGBUS blocked. */
        ours.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
        sigemptyset(&ours.sa_mask);
        previous = current;
        if (sigaction(SIGBUS, &ours, NULL) != 0) status = JFS_NO_MEMORY;
    }
    pthread_mutex_unlock(&install_lock);
    return status;
}

jfs_status jfs_guarded(jfs_body body, void *context) {
    sigjmp_buf jump;
    sigjmp_buf *const outer = innermost;
    jfs_status status;
    if (outer == NULL) {
        status = ensure_installed();
        if (status != JFS_OK) return status;
    }
    if (sigsetjmp(jump, 0) == 0) {
        innermost = &jump;
        status = body(context);
    } else {
        status = JFS_TORN;
    }
    innermost = outer;
    return status;
}

jfs_status jfs_map(int fd, uint64_t size_bytes, const uint8_t **out) {
    void *bytes;
    *out = NULL;
    if (size_bytes == 0) return JFS_OK;
    if (size_bytes > PTRDIFF_MAX) return JFS_RANGE;
    bytes = mmap(NULL, (size_t)size_bytes, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (bytes == MAP_FAILED) return JFS_NO_MEMORY;
    *out = bytes;
    return JFS_OK;
}

jfs_status jfs_map_reread(const uint8_t *bytes, int fd, uint64_t at, uint64_t size_bytes) {
    uint8_t *const to = (uint8_t *)(uintptr_t)bytes; /* writable: it is a copy of our own */
    while (at < size_bytes) {
        const ssize_t got = pread(fd, to + at, (size_t)(size_bytes - at), (off_t)at);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return JFS_NO_MEMORY;
        if (got == 0) {
            memset(to + at, 0, (size_t)(size_bytes - at));
            break;
        }
        at += (uint64_t)got;
    }
    return JFS_OK;
}

jfs_status jfs_map_copy(int fd, uint64_t size_bytes, const uint8_t **out) {
    /* A file in memory, so that jfs_map_again finds something shared. */
    void *bytes = MAP_FAILED;
    int memory;
    *out = NULL;
    if (size_bytes == 0) return JFS_OK;
    if (size_bytes > PTRDIFF_MAX) return JFS_RANGE;
    memory = memfd_create("journalfs", MFD_CLOEXEC);
    if (memory < 0) return JFS_NO_MEMORY;
    if (ftruncate(memory, (off_t)size_bytes) == 0) {
        bytes = mmap(NULL, (size_t)size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, memory, 0);
    }
    close(memory);
    if (bytes == MAP_FAILED) return JFS_NO_MEMORY;
    if (jfs_map_reread(bytes, fd, 0, size_bytes) != JFS_OK) {
        const int refused = errno;
        munmap(bytes, (size_t)size_bytes);
        errno = refused;
        return JFS_NO_MEMORY;
    }
    *out = bytes;
    return JFS_OK;
}

void jfs_unmap(const uint8_t *bytes, uint64_t size_bytes) {
    if (bytes != NULL) munmap((void *)(uintptr_t)bytes, (size_t)size_bytes);
}

void jfs_map_release(const uint8_t *bytes, uint64_t size_bytes) {
    if (bytes != NULL) madvise((void *)(uintptr_t)bytes, (size_t)size_bytes, MADV_DONTNEED);
}

typedef struct {
    const uint8_t *bytes;
    uint64_t size_bytes;
    uint64_t step;
    volatile uint64_t at; /* the page looked at: known also after the jump out of it */
    volatile uint8_t seen;
} touch_job;

static jfs_status touch_pages(void *context) {
    touch_job *const job = context;
    for (; job->at < job->size_bytes; job->at += job->step) job->seen = *(const volatile uint8_t *)(job->bytes + job->at);
    return JFS_OK;
}

jfs_status jfs_map_again(const uint8_t *bytes, uint64_t size_bytes, const uint8_t **out) {
    /* An old size of 0 makes a second mapping of a shared one, whatever became of the file's name. */
    void *copy = mremap((void *)(uintptr_t)bytes, 0, (size_t)size_bytes, MREMAP_MAYMOVE);
    *out = NULL;
    if (copy == MAP_FAILED) return JFS_NO_MEMORY;
    *out = copy;
    return JFS_OK;
}

jfs_status jfs_map_mend(const uint8_t *bytes, uint64_t size_bytes, uint64_t *at, uint64_t *length) {
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    touch_job job = {bytes, size_bytes, page, *at / page * page, 0};
    *length = 0;
    while (job.at < size_bytes) {
        jfs_status status;
        /* Once a stretch has begun, one page is looked at: is it part of the stretch? */
        if (*length != 0) job.size_bytes = job.at + 1;
        status = jfs_guarded(touch_pages, &job);
        if (status == JFS_OK) break;
        if (status != JFS_TORN) return status;
        if (*length == 0) *at = job.at;
        if (mmap((void *)(uintptr_t)(bytes + job.at), (size_t)page, PROT_READ,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED) {
            return JFS_NO_MEMORY;
        }
        job.at += page;
        *length = (job.at < size_bytes ? job.at : size_bytes) - *at;
    }
    return JFS_OK;
}

typedef struct {
    uint8_t *to;
    const uint8_t *from;
    uint64_t length;
} copy_job;

static jfs_status copy_body(void *context) {
    const copy_job *job = context;
    memcpy(job->to, job->from, (size_t)job->length);
    return JFS_OK;
}

jfs_status jfs_copy(uint8_t *to, const uint8_t *from, uint64_t length) {
    copy_job job = {to, from, length};
    return length == 0 ? JFS_OK : jfs_guarded(copy_body, &job);
}
