/* CRC-32C (Castagnoli), the checksum of what journalfs itself stores. */
#ifndef JFS_CRC32C_H
#define JFS_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Continues `crc` (0 to begin) over `bytes`. Plain function of memory: guard mapped files around it. */
uint32_t jfs_crc32c(uint32_t crc, const uint8_t *bytes, size_t length);

#endif
