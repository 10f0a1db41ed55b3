/* Writing without waiting: writes are handed over, and an eventfd says when some are done.
 *
 * NIO and MAPPED have a thread that writes and syncs. AIO is the kernel's own ring (io_submit), spoken to without a
 * library.
 */
#ifndef JFS_IO_H
#define JFS_IO_H

#include <stdint.h>

#include "jfs_status.h"

enum { JFS_IO_NIO = 0, JFS_IO_MAPPED = 1, JFS_IO_AIO = 2 };

typedef struct jfs_io jfs_io;

typedef struct {
    uint64_t tag;
    int32_t error; /* errno, 0: done */
    uint32_t reserved;
    uint64_t took_ns; /* to write it; 0: nobody knows */
} jfs_io_done;

/* depth: most writes under way. JFS_SYSTEM: *system_error is the errno (EAGAIN: the system has no rings left). */
jfs_status jfs_io_open(jfs_io **out, int kind, uint32_t depth, int *system_error);

/* Waits for what is under way, then frees. */
void jfs_io_close(jfs_io *io);

int jfs_io_event_fd(const jfs_io *io);

/* Hands a write over; `bytes` must stay as they are until it is done. MAPPED: `map` is the file's mapping, writable.
 * AIO: everything a multiple of the block size. durable: done means that a power cut does not lose it.
 * JFS_FULL: as many as depth are under way.
 */
jfs_status jfs_io_submit(jfs_io *io, int fd, uint8_t *map, uint64_t file_offset, const uint8_t *bytes,
                         uint64_t length, int durable, uint64_t tag, int *system_error);

/* The same write at once, in the calling thread: for a disk that is known to answer sooner than threads change. Only
 * while nothing is under way. JFS_SYSTEM: *system_error says why it failed.
 */
jfs_status jfs_io_perform(const jfs_io *io, int fd, uint8_t *map, uint64_t file_offset, const uint8_t *bytes,
                          uint64_t length, int durable, uint64_t *took_ns, int *system_error);

/* Gives what is done, waiting at most timeout_ns for the first. *count may be 0. */
jfs_status jfs_io_wait(jfs_io *io, int64_t timeout_ns, jfs_io_done *out, uint32_t room, uint32_t *count,
                       int *system_error);

/* Plain synchronous work, whole or failed. The file is filled with zeros, chunk_bytes (up to 1 MiB) a write, and synced
 * if so wished. The size of the writes becomes that of the pieces in which the page cache keeps the file; one changed
 * byte of a mapping makes the whole piece dirty.
 */
jfs_status jfs_file_fill(int fd, uint64_t size_bytes, uint64_t chunk_bytes, int durable, int *system_error);
jfs_status jfs_file_map(int fd, uint64_t size_bytes, uint8_t **out, int *system_error);
void jfs_file_unmap(uint8_t *map, uint64_t size_bytes);

#define JFS_PLACE_REPLACED (-1) /* another file has the name */
#define JFS_PLACE_SHORT (-2)    /* it lost some of its end */

/* Whether a name leads to a file of that device and inode, which has at least so many bytes: 0, one of the above, or
 * an errno. Its times are not asked for: from Linux 6.13 on a time that was looked at makes the next write change the
 * inode, and every sync write that, too.
 */
int32_t jfs_place_of(int directory, const char *name, uint64_t device, uint64_t inode, uint64_t size_bytes);

#endif
