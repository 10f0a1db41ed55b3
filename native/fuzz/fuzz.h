/* What the fuzz targets share. */
#ifndef JFS_FUZZ_H
#define JFS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Unlike assert, never compiled out. */
#define FUZZ_CHECK(condition)                                                              \
    do {                                                                                   \
        if (!(condition)) {                                                                \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);        \
            abort();                                                                       \
        }                                                                                  \
    } while (0)

/* For `jfs_…_check`, which says what is wrong with a whole structure, or NULL. */
#define FUZZ_WHOLE(check)                                                                  \
    do {                                                                                   \
        const char *const wrong_ = (check);                                                \
        if (wrong_ != NULL) {                                                              \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, wrong_);     \
            abort();                                                                       \
        }                                                                                  \
    } while (0)

static inline uint32_t fuzz_u32(const uint8_t *bytes) {
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

#endif
