/* Times single filesystem operations from C, so that the caller costs next to nothing.
 *
 * operations_client getattr PATH COUNT          statx that always asks the filesystem, of a name in an open directory
 * operations_client missing DIRECTORY COUNT     look up names that are not there, a new one each time
 * operations_client read PATH COUNT             4 KiB reads past the page cache, at multiples of 4 KiB in turn
 * operations_client open PATH COUNT             open and close
 * operations_client write PATH COUNT            append 128 bytes, a line
 * operations_client make PATH COUNT             open a name that is not there to append to it, and close it
 * operations_client statfs PATH COUNT           ask how full the filesystem is
 *
 * Prints one line: the latencies in nanoseconds at 10, 50, 90, 99 percent, their mean, and at 99.9 percent.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

enum { READ_BYTES = 4096, WRITE_BYTES = 128 };

typedef struct {
    const char *path;
    int fd;
    off_t size_bytes;
    char *buffer;
} target;

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int do_getattr(target *t, uint64_t i)
{
    struct statx found;
    (void)i;
    return statx(t->fd, strrchr(t->path, '/') + 1, AT_STATX_FORCE_SYNC, STATX_BASIC_STATS, &found);
}

static int do_missing(target *t, uint64_t i)
{
    char name[64];
    struct stat found;
    snprintf(name, sizeof name, "missing-%d-%llu", (int)getpid(), (unsigned long long)i);
    return fstatat(t->fd, name, &found, 0) == -1 && errno == ENOENT ? 0 : -1;
}

static int do_read(target *t, uint64_t i)
{
    off_t pages = t->size_bytes / READ_BYTES;
    return pread(t->fd, t->buffer, READ_BYTES, (off_t)(i % (uint64_t)pages) * READ_BYTES) == READ_BYTES ? 0 : -1;
}

static int do_open(target *t, uint64_t i)
{
    (void)i;
    int fd = open(t->path, O_RDONLY);
    return fd >= 0 && close(fd) == 0 ? 0 : -1;
}

static int do_make(target *t, uint64_t i)
{
    (void)i;
    int fd = open(t->path, O_WRONLY | O_APPEND | O_CREAT, 0644);
    return fd >= 0 && close(fd) == 0 ? 0 : -1;
}

static int do_statfs(target *t, uint64_t i)
{
    struct statfs found;
    (void)i;
    return statfs(t->path, &found);
}

static int do_write(target *t, uint64_t i)
{
    (void)i;
    return write(t->fd, t->buffer, WRITE_BYTES) == WRITE_BYTES ? 0 : -1;
}

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static int run(target *t, int (*operation)(target *, uint64_t), uint64_t count)
{
    uint64_t warm_up = count / 10, total = 0;
    uint64_t *taken_ns = malloc(count * sizeof *taken_ns);
    if (taken_ns == NULL)
        return 1;
    for (uint64_t i = 0; i < warm_up + count; i++) {
        uint64_t start = now_ns();
        if (operation(t, i) != 0) {
            perror(t->path);
            free(taken_ns);
            return 1;
        }
        if (i >= warm_up) {
            taken_ns[i - warm_up] = now_ns() - start;
            total += taken_ns[i - warm_up];
        }
    }
    qsort(taken_ns, count, sizeof *taken_ns, ascending);
    printf("%llu %llu %llu %llu %llu %llu\n", (unsigned long long)taken_ns[count / 10],
           (unsigned long long)taken_ns[count / 2], (unsigned long long)taken_ns[count - count / 10 - 1],
           (unsigned long long)taken_ns[count - count / 100 - 1], (unsigned long long)(total / count),
           (unsigned long long)taken_ns[count - count / 1000 - 1]);
    free(taken_ns);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 4 || strtoull(argv[3], NULL, 10) < 100) {
        fprintf(stderr, "usage: %s getattr|missing|read|open|write|make|statfs PATH COUNT   (COUNT from 100)\n", argv[0]);
        return 2;
    }
    target t = {.path = argv[2], .fd = -1};
    struct stat found;
    int (*operation)(target *, uint64_t) = do_getattr;
    if (strcmp(argv[1], "getattr") == 0) {
        const char *const slash = strrchr(t.path, '/');
        char *const parent = slash == NULL ? NULL : strndup(t.path, (size_t)(slash - t.path) + 1);
        if (parent == NULL)
            return 1;
        t.fd = open(parent, O_RDONLY | O_DIRECTORY);
        free(parent);
    } else if (strcmp(argv[1], "missing") == 0) {
        operation = do_missing;
        t.fd = open(t.path, O_RDONLY | O_DIRECTORY);
    } else if (strcmp(argv[1], "read") == 0) {
        operation = do_read;
        t.fd = open(t.path, O_RDONLY | O_DIRECT);
        if (posix_memalign((void **)&t.buffer, READ_BYTES, READ_BYTES) != 0 || fstat(t.fd, &found) != 0)
            return 1;
        t.size_bytes = found.st_size;
        if (t.size_bytes < READ_BYTES) {
            fprintf(stderr, "%s: shorter than one read\n", t.path);
            return 1;
        }
    } else if (strcmp(argv[1], "write") == 0) {
        operation = do_write;
        t.fd = open(t.path, O_WRONLY | O_APPEND | O_CREAT, 0644);
        if (t.fd < 0 || (t.buffer = malloc(WRITE_BYTES)) == NULL)
            return 1;
        memset(t.buffer, 'x', WRITE_BYTES);
        t.buffer[WRITE_BYTES - 1] = '\n';
    } else if (strcmp(argv[1], "make") == 0) {
        operation = do_make;
        t.fd = 0;
    } else if (strcmp(argv[1], "statfs") == 0) {
        operation = do_statfs;
        t.fd = 0;
    } else if (strcmp(argv[1], "open") == 0) {
        operation = do_open;
    }
    int status = run(&t, operation, strtoull(argv[3], NULL, 10));
    free(t.buffer);
    if (t.fd >= 0)
        close(t.fd);
    return status;
}
