/* A zlib stream in a file, shown as if what it inflates to lay in memory: a stretch of it is inflated when it is
 * looked at, and given up for another one later. However long it is, it takes a few megabytes.
 */
#ifndef JFS_INFLATED_H
#define JFS_INFLATED_H

#include <stdint.h>

#include "jfs_status.h"

typedef struct jfs_inflated jfs_inflated;

/* Takes the descriptor over, also when it fails. */
jfs_status jfs_inflated_new(int fd, jfs_inflated **out);
/* Nobody may look at its bytes any more. */
void jfs_inflated_free(jfs_inflated *body);

/* Inflates on by about `step_bytes`, to find out how long it is. JFS_FULL: there is more, call again. JFS_RANGE: it is
 * longer than `bytes_max`. JFS_MALFORMED: it is no stream, or ends too early. *bytes and *consumed: how far it came,
 * inflated and in the file.
 */
jfs_status jfs_inflated_count(jfs_inflated *body, uint64_t step_bytes, uint64_t bytes_max, uint64_t *bytes,
                              uint64_t *consumed);

/* It was counted before, and inflates to so many bytes. */
void jfs_inflated_expect(jfs_inflated *body, uint64_t bytes);

/* What it inflates to, once that was counted; NULL for 0 bytes. It may be looked at in guarded functions only. */
jfs_status jfs_inflated_show(jfs_inflated *body, const uint8_t **out);

#endif
