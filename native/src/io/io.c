/* Writes that do not make the caller wait: handing over, the writing thread, and taking back. */
#define _GNU_SOURCE
#include "jfs_io.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "io_internal.h"
#include "jfs_guard.h"
#include "now.h"

enum { PAGE_BYTES = 4096, FILL_BYTES = 1 << 20 };

static int write_whole(int fd, const uint8_t *bytes, uint64_t length, uint64_t offset) {
    while (length > 0) {
        const ssize_t written = pwrite(fd, bytes, (size_t)length, (off_t)offset);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return errno;
        if (written == 0) return EIO;
        bytes += written;
        length -= (uint64_t)written;
        offset += (uint64_t)written;
    }
    return 0;
}

static jfs_status copy_into_map(void *context) {
    const io_job *const job = context;
    memcpy(job->map + job->offset, job->bytes, (size_t)job->length);
    return JFS_OK;
}

/* Only the pages that were touched: a broker syncs the whole mapping each time. */
static int write_mapped(io_job *job) {
    const uint64_t first = job->offset / PAGE_BYTES * PAGE_BYTES;
    if (jfs_guarded(copy_into_map, job) != JFS_OK) return EIO;
    if (!job->durable) return 0;
    return msync(job->map + first, (size_t)(job->offset + job->length - first), MS_SYNC) == 0 ? 0 : errno;
}

static int write_job(int kind, io_job *job) {
    int error;
    if (kind == JFS_IO_MAPPED) return write_mapped(job);
    error = write_whole(job->fd, job->bytes, job->length, job->offset);
    if (error == 0 && job->durable && fdatasync(job->fd) != 0) error = errno;
    return error;
}

static void *thread_main(void *context) {
    jfs_io *const io = context;
    const uint64_t one = 1;
    pthread_mutex_lock(&io->mutex);
    for (;;) {
        while (io->finished == io->queued && !io->stop) pthread_cond_wait(&io->wake, &io->mutex);
        if (io->finished == io->queued) break;
        io_job *const job = &io->jobs[io->finished % io->depth];
        pthread_mutex_unlock(&io->mutex);
        const uint64_t begun = jfs_now_ns();
        job->error = write_job(io->kind, job);
        job->took_ns = jfs_now_ns() - begun;
        pthread_mutex_lock(&io->mutex);
        io->finished++;
        /* Cannot fail: the counter is far from full and the descriptor is ours. */
        if (write(io->event_fd, &one, sizeof one) != (ssize_t)sizeof one) job->error = job->error ? job->error : EIO;
    }
    pthread_mutex_unlock(&io->mutex);
    return NULL;
}

/* Signals are the business of the caller's threads. */
static int thread_start(jfs_io *io) {
    sigset_t every, before;
    int error;
    sigfillset(&every);
    sigdelset(&every, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &every, &before);
    error = pthread_create(&io->thread, NULL, thread_main, io);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    io->thread_runs = error == 0;
    return error;
}

jfs_status jfs_io_open(jfs_io **out, int kind, uint32_t depth, int *system_error) {
    jfs_io *const io = calloc(1, sizeof *io);
    int error = ENOMEM;
    if (io == NULL) return JFS_NO_MEMORY;
    io->kind = kind;
    io->depth = depth == 0 ? 1 : depth;
    pthread_mutex_init(&io->mutex, NULL);
    pthread_cond_init(&io->wake, NULL);
    io->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (io->event_fd < 0) {
        error = errno;
        goto done;
    }
    io->jobs = calloc(io->depth, sizeof *io->jobs);
    if (io->jobs == NULL) goto done;
    error = kind == JFS_IO_AIO ? aio_open(&io->ring, io->depth) : thread_start(io);
done:
    *system_error = error;
    if (error == 0) {
        *out = io;
    } else {
        jfs_io_close(io);
    }
    return error == 0 ? JFS_OK : JFS_SYSTEM;
}

void jfs_io_close(jfs_io *io) {
    if (io == NULL) return;
    if (io->thread_runs) {
        pthread_mutex_lock(&io->mutex);
        io->stop = 1;
        pthread_cond_signal(&io->wake);
        pthread_mutex_unlock(&io->mutex);
        pthread_join(io->thread, NULL);
    }
    aio_close(io->ring);
    if (io->event_fd >= 0) close(io->event_fd);
    pthread_cond_destroy(&io->wake);
    pthread_mutex_destroy(&io->mutex);
    free(io->jobs);
    free(io);
}

int jfs_io_event_fd(const jfs_io *io) { return io->event_fd; }

jfs_status jfs_io_submit(jfs_io *io, int fd, uint8_t *map, uint64_t file_offset, const uint8_t *bytes,
                         uint64_t length, int durable, uint64_t tag, int *system_error) {
    const io_job job = {fd, durable, map, bytes, file_offset, length, tag, 0, 0};
    *system_error = 0;
    if (io->under_way == io->depth) return JFS_FULL;
    if (io->kind == JFS_IO_AIO) {
        *system_error = aio_submit(io->ring, io->event_fd, &job);
        if (*system_error != 0) return JFS_SYSTEM;
    } else {
        pthread_mutex_lock(&io->mutex);
        io->jobs[io->queued % io->depth] = job;
        io->queued++;
        pthread_cond_signal(&io->wake);
        pthread_mutex_unlock(&io->mutex);
    }
    io->under_way++;
    return JFS_OK;
}

/* A direct write that is durable by itself. The flag spares a second call, not the flush. */
static int write_direct(const io_job *job) {
    struct iovec piece = {(void *)(uintptr_t)job->bytes, (size_t)job->length};
    ssize_t written;
    do {
        written = pwritev2(job->fd, &piece, 1, (off_t)job->offset, job->durable ? RWF_DSYNC : 0);
    } while (written < 0 && errno == EINTR);
    if (written < 0) return errno;
    return (uint64_t)written == job->length ? 0 : EIO;
}

jfs_status jfs_io_perform(const jfs_io *io, int fd, uint8_t *map, uint64_t file_offset, const uint8_t *bytes,
                          uint64_t length, int durable, uint64_t *took_ns, int *system_error) {
    io_job job = {fd, durable, map, bytes, file_offset, length, 0, 0, 0};
    const uint64_t begun = jfs_now_ns();
    if (io->under_way != 0) return JFS_FULL;
    *system_error = io->kind == JFS_IO_AIO ? write_direct(&job) : write_job(io->kind, &job);
    *took_ns = jfs_now_ns() - begun;
    return *system_error == 0 ? JFS_OK : JFS_SYSTEM;
}

static void collect_thread(jfs_io *io, jfs_io_done *out, uint32_t room, uint32_t *count) {
    pthread_mutex_lock(&io->mutex);
    for (*count = 0; *count < room && io->given < io->finished; io->given++) {
        const io_job *const job = &io->jobs[io->given % io->depth];
        out[(*count)++] = (jfs_io_done){job->tag, job->error, 0, job->took_ns};
    }
    pthread_mutex_unlock(&io->mutex);
}

jfs_status jfs_io_wait(jfs_io *io, int64_t timeout_ns, jfs_io_done *out, uint32_t room, uint32_t *count,
                       int *system_error) {
    struct pollfd wanted = {io->event_fd, POLLIN, 0};
    const struct timespec timeout = {timeout_ns / 1000000000, timeout_ns % 1000000000};
    uint64_t events;
    *system_error = 0;
    *count = 0;
    if (io->under_way == 0) return JFS_OK;
    if (ppoll(&wanted, 1, &timeout, NULL) <= 0) return JFS_OK;
    if (read(io->event_fd, &events, sizeof events) < 0) return JFS_OK;
    if (io->kind == JFS_IO_AIO) {
        *system_error = aio_collect(io->ring, out, room, count);
    } else {
        collect_thread(io, out, room, count);
    }
    io->under_way -= *count;
    return *system_error == 0 ? JFS_OK : JFS_SYSTEM;
}

jfs_status jfs_file_fill(int fd, uint64_t size_bytes, uint64_t chunk_bytes, int durable, int *system_error) {
    uint8_t *const zeros = calloc(1, FILL_BYTES);
    uint64_t at = 0;
    *system_error = 0;
    if (zeros == NULL) return JFS_NO_MEMORY;
    if (chunk_bytes == 0 || chunk_bytes > FILL_BYTES) chunk_bytes = FILL_BYTES;
    while (at < size_bytes && *system_error == 0) {
        const uint64_t length = size_bytes - at < chunk_bytes ? size_bytes - at : chunk_bytes;
        *system_error = write_whole(fd, zeros, length, at);
        at += length;
    }
    free(zeros);
    if (*system_error == 0 && durable && fsync(fd) != 0) *system_error = errno;
    return *system_error == 0 ? JFS_OK : JFS_SYSTEM;
}

jfs_status jfs_file_map(int fd, uint64_t size_bytes, uint8_t **out, int *system_error) {
    void *const map = mmap(NULL, (size_t)size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    *system_error = map == MAP_FAILED ? errno : 0;
    *out = map == MAP_FAILED ? NULL : map;
    return map == MAP_FAILED ? JFS_SYSTEM : JFS_OK;
}

void jfs_file_unmap(uint8_t *map, uint64_t size_bytes) {
    if (map != NULL) munmap(map, (size_t)size_bytes);
}
