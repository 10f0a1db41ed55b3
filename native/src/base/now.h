/* The time that passes. */
#ifndef JFS_NOW_H
#define JFS_NOW_H

#include <stdint.h>
#include <time.h>

static inline uint64_t jfs_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif
