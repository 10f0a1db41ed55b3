/* The least that durable writes of 1 KiB cost: one writer, one record a sync, into a file of zeros.
 * synced_writes KIND COUNT FILE prints writes a second. KIND: NIO, MAPPED, ASYNCIO.
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

enum { RECORD_BYTES = 1024, BLOCK_BYTES = 4096 };

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

int main(int count_arguments, char **arguments) {
    must(count_arguments == 4, "synced_writes KIND COUNT FILE");
    const int direct = strcmp(arguments[1], "ASYNCIO") == 0, mapped = strcmp(arguments[1], "MAPPED") == 0;
    const long count = atol(arguments[2]);
    const size_t step = direct ? BLOCK_BYTES : RECORD_BYTES;
    const size_t size = (size_t)(count + 4) * step;
    const int fd = open(arguments[3], O_RDWR | O_CREAT | O_TRUNC, 0644);
    char *const record = aligned_alloc(BLOCK_BYTES, BLOCK_BYTES);
    must(fd >= 0 && record != NULL, arguments[3]);
    memset(record, 0, BLOCK_BYTES);
    for (size_t at = 0; at < size; at += BLOCK_BYTES) {
        must(pwrite(fd, record, BLOCK_BYTES, (off_t)at) == BLOCK_BYTES, "filling");
    }
    must(fsync(fd) == 0, "fsync");
    if (direct) must(fcntl(fd, F_SETFL, O_DIRECT) == 0, "O_DIRECT");
    char *const map = mapped ? mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : NULL;
    must(map != MAP_FAILED, "mmap");
    memset(record, 7, RECORD_BYTES);
    const double start = seconds();
    for (long i = 0; i < count; i++) {
        const size_t at = (size_t)(i + 1) * step;
        if (mapped) {
            const size_t page = at / BLOCK_BYTES * BLOCK_BYTES;
            memcpy(map + at, record, step);
            must(msync(map + page, at + step - page, MS_SYNC) == 0, "msync");
        } else {
            must(pwrite(fd, record, step, (off_t)at) == (ssize_t)step, "pwrite");
            must(fdatasync(fd) == 0, "fdatasync");
        }
    }
    printf("%.1f\n", (double)count / (seconds() - start));
    return 0;
}
