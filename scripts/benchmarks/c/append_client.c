/* Appends lines to one file from several processes at once, each waiting for every write.
 * append_client PATH COUNT CLIENTS BYTES prints writes a second, and how long a write took in microseconds:
 * the median and what 99 and 99.9 percent took at most.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BYTES_MAX = 1 << 20, CLIENTS_MAX = 1024 };

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void must(int good, const char *what) {
    if (good) return;
    perror(what);
    exit(1);
}

static int ascending(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* One client: opens, says so, waits for the start, writes. */
static void client(const char *path, size_t bytes, uint64_t count, uint64_t *taken_ns, int ready, int start) {
    char *const line = malloc(bytes);
    const int fd = open(path, O_WRONLY | O_APPEND | O_CREAT, 0644);
    char begin = 0;
    must(line != NULL && fd >= 0, path);
    memset(line, 'x', bytes - 1);
    line[bytes - 1] = '\n';
    must(write(ready, &begin, 1) == 1 && read(start, &begin, 1) == 0, "starting");
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t from = now_ns();
        must(write(fd, line, bytes) == (ssize_t)bytes, "write");
        taken_ns[i] = now_ns() - from;
    }
    must(close(fd) == 0, "close");
    exit(0);
}

int main(int argument_count, char **arguments) {
    int ready[2], start[2];
    char begin;
    must(argument_count == 5, "append_client PATH COUNT CLIENTS BYTES");
    const uint64_t clients = strtoull(arguments[3], NULL, 10), bytes = strtoull(arguments[4], NULL, 10);
    must(clients > 0 && clients <= CLIENTS_MAX && bytes > 0 && bytes <= BYTES_MAX, "CLIENTS, BYTES");
    const uint64_t each = strtoull(arguments[2], NULL, 10) / clients, count = each * clients;
    uint64_t *const taken_ns =
        mmap(NULL, count * sizeof *taken_ns, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(each > 0 && taken_ns != MAP_FAILED && pipe(ready) == 0 && pipe(start) == 0, "preparing");
    for (uint64_t i = 0; i < clients; i++) {
        const pid_t child = fork();
        must(child >= 0, "fork");
        if (child == 0) {
            close(start[1]);
            client(arguments[1], bytes, each, taken_ns + i * each, ready[1], start[0]);
        }
    }
    for (uint64_t i = 0; i < clients; i++) must(read(ready[0], &begin, 1) == 1, "waiting for clients");
    const uint64_t from = now_ns();
    close(start[1]);
    for (uint64_t i = 0; i < clients; i++) {
        int status = 0;
        must(wait(&status) > 0, "wait");
        if (status != 0) return 1;
    }
    const double seconds = (double)(now_ns() - from) / 1e9;
    qsort(taken_ns, count, sizeof *taken_ns, ascending);
    printf("%.1f %.2f %.2f %.2f\n", (double)count / seconds, (double)taken_ns[count / 2] / 1e3,
           (double)taken_ns[count - count / 100 - 1] / 1e3, (double)taken_ns[count - count / 1000 - 1] / 1e3);
    return 0;
}
