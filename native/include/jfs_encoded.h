/* Records of a journal as the lines that `artemis data encode` writes. */
#ifndef JFS_ENCODED_H
#define JFS_ENCODED_H

#include <stdint.h>

#include "jfs_scan.h"
#include "jfs_status.h"

enum { JFS_ENCODED_FRONT_BYTES = 256 }; /* of a line beside its body, at most */

/*
 * Lines of a scan's records from number *next on, as many as there is room for, and in *next the number of the first
 * that had none. A line takes JFS_ENCODED_FRONT_BYTES and its body in base64. JFS_TORN: nothing of *written counts.
 */
jfs_status jfs_encoded_lines(const uint8_t *bytes, const jfs_scan *scan, uint32_t *next, uint8_t *out,
                             uint64_t capacity, uint64_t *written);

#endif
