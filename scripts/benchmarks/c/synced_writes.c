/* The least that durable writes cost: one writer, one record a sync, into a file of zeros.
 * synced_writes KIND COUNT FILE BYTES prints writes a second, and how long a write took in microseconds: the median
 * and what 99 percent took at most. KIND: NIO, MAPPED, ASYNCIO; BYTES: up to 4096.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK_BYTES = 4096 };

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void must(int good, const char *what) {
    if (good) return;
    perror(what);
    exit(1);
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int count_arguments, char **arguments) {
    must(count_arguments == 5, "synced_writes KIND COUNT FILE BYTES");
    const int direct = strcmp(arguments[1], "ASYNCIO") == 0, mapped = strcmp(arguments[1], "MAPPED") == 0;
    const long count = atol(arguments[2]);
    const size_t bytes = (size_t)atol(arguments[4]), step = direct ? BLOCK_BYTES : bytes;
    const size_t size = (size_t)(count + 4) * step;
    const int fd = open(arguments[3], O_RDWR | O_CREAT | O_TRUNC, 0644);
    char *const record = aligned_alloc(BLOCK_BYTES, BLOCK_BYTES);
    double *const taken = malloc((size_t)count * sizeof *taken);
    must(fd >= 0 && record != NULL && taken != NULL && count > 0 && bytes > 0 && bytes <= BLOCK_BYTES, arguments[3]);
    memset(record, 0, BLOCK_BYTES);
    for (size_t at = 0; at < size; at += BLOCK_BYTES) {
        must(pwrite(fd, record, BLOCK_BYTES, (off_t)at) == BLOCK_BYTES, "filling");
    }
    must(fsync(fd) == 0, "fsync");
    if (direct) must(fcntl(fd, F_SETFL, O_DIRECT) == 0, "O_DIRECT");
    char *const map = mapped ? mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : NULL;
    must(map != MAP_FAILED, "mmap");
    memset(record, 7, bytes);
    const double start = seconds();
    for (long i = 0; i < count; i++) {
        const size_t at = (size_t)(i + 1) * step;
        const double from = seconds();
        if (mapped) {
            const size_t page = at / BLOCK_BYTES * BLOCK_BYTES;
            memcpy(map + at, record, step);
            must(msync(map + page, at + step - page, MS_SYNC) == 0, "msync");
        } else {
            must(pwrite(fd, record, step, (off_t)at) == (ssize_t)step, "pwrite");
            must(fdatasync(fd) == 0, "fdatasync");
        }
        taken[i] = seconds() - from;
    }
    const double whole = seconds() - start;
    qsort(taken, (size_t)count, sizeof *taken, ascending);
    printf("%.1f %.2f %.2f\n", (double)count / whole, taken[count / 2] * 1e6, taken[count - count / 100 - 1] * 1e6);
    return 0;
}
