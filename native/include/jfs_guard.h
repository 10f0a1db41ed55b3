/* Files are mapped, and a mapped file can lose its bytes while they are read: the kernel answers with SIGBUS.
 * Every public function that touches mapped bytes runs its body under jfs_guarded(), which turns that into JFS_TORN.
 */
#ifndef JFS_GUARD_H
#define JFS_GUARD_H

#include <stdint.h>

#include "jfs_status.h"

/* A guarded body must own nothing that only its stack knows: the stack is cut off when the file is. */
typedef jfs_status (*jfs_body)(void *context);

/* Runs body(context). Returns its status, or JFS_TORN when a mapped page was gone. Calls may nest. */
jfs_status jfs_guarded(jfs_body body, void *context);

/* Maps size_bytes of the file for reading. *out is NULL for 0 bytes. JFS_NO_MEMORY when the kernel refuses. */
jfs_status jfs_map(int fd, uint64_t size_bytes, const uint8_t **out);
void jfs_unmap(const uint8_t *bytes, uint64_t size_bytes);

/* A copy of the file in memory, for filesystems that share no mappings (9p, virtiofs). It is used as a mapping is, but
 * shows what the file held at this call, or at the last jfs_map_reread. JFS_NO_MEMORY, with errno, when the kernel
 * refuses memory or a read.
 */
jfs_status jfs_map_copy(int fd, uint64_t size_bytes, const uint8_t **out);

/* Reads a copy again from `at` on. What the file lost is zeros. */
jfs_status jfs_map_reread(const uint8_t *bytes, int fd, uint64_t at, uint64_t size_bytes);

/* Lets go of the memory that reading a mapping took; the bytes come back from the page cache when they are read. */
void jfs_map_release(const uint8_t *bytes, uint64_t size_bytes);

/* Another mapping of what jfs_map mapped, also when the file has no name any more. Not for 0 bytes. */
jfs_status jfs_map_again(const uint8_t *bytes, uint64_t size_bytes, const uint8_t **out);

/* Puts zeros over the first stretch of pages at or behind *at that cannot be read, and says where it is; *length is 0
 * when everything can be read. Others must not be reading the mapping for what the file holds.
 */
jfs_status jfs_map_mend(const uint8_t *bytes, uint64_t size_bytes, uint64_t *at, uint64_t *length);

/* Copies out of a mapped file. */
jfs_status jfs_copy(uint8_t *to, const uint8_t *from, uint64_t length);

#endif
