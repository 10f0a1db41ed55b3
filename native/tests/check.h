/* The least that a C unit test needs: a check that says where it failed, and a runner. */
#ifndef JFS_CHECK_H
#define JFS_CHECK_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                             \
    do {                                                                             \
        if (!(condition)) {                                                          \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                                 \
        }                                                                            \
    } while (0)

#define CHECK_EQ(got, wanted)                                                                                \
    do {                                                                                                     \
        const int64_t got_ = (int64_t)(got), wanted_ = (int64_t)(wanted);                                    \
        if (got_ != wanted_) {                                                                               \
            fprintf(stderr, "%s:%d: %s is %" PRId64 ", not %" PRId64 "\n", __FILE__, __LINE__, #got, got_, wanted_); \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

/* For `jfs_…_check`, which says what is wrong with a whole structure, or NULL. */
#define CHECK_WHOLE(check)                                                               \
    do {                                                                                 \
        const char *const wrong_ = (check);                                              \
        if (wrong_ != NULL) {                                                            \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, wrong_);   \
            exit(1);                                                                     \
        }                                                                                \
    } while (0)

#define RUN(test)                      \
    do {                               \
        test();                        \
        printf("  %s ok\n", #test);    \
        fflush(stdout);                \
    } while (0)

#endif
