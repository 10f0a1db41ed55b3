/* BLAKE2b without a key (RFC 7693). */
#ifndef JFS_BLAKE2B_H
#define JFS_BLAKE2B_H

#include <stdint.h>

/* The digest of `digest_bytes`, at most 64. */
void jfs_blake2b(uint8_t *digest, uint64_t digest_bytes, const uint8_t *from, uint64_t length);

#endif
