/* CRC-32C (Castagnoli), the checksum of what journalfs itself stores. */
#ifndef JFS_CRC32C_H
#define JFS_CRC32C_H

#include <stddef.h>
#include <stdint.h>

#include "jfs_status.h"

/* Continues `crc` (0 to begin) over `bytes`. Plain function of memory: guard mapped files around it. */
uint32_t jfs_crc32c(uint32_t crc, const uint8_t *bytes, size_t length);

/* The same of bytes of a mapped file, into *crc. */
jfs_status jfs_crc32c_mapped(uint32_t *crc, const uint8_t *bytes, uint64_t length);

#endif
