/* What a name leads to, asked for without its times. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "jfs_io.h"

int32_t jfs_place_of(int directory, const char *name, uint64_t device, uint64_t inode, uint64_t size_bytes) {
    struct statx found;
    if (statx(directory, name, 0, STATX_INO | STATX_SIZE, &found) != 0) return errno;
    if (makedev(found.stx_dev_major, found.stx_dev_minor) != device || found.stx_ino != inode) return JFS_PLACE_REPLACED;
    return found.stx_size < size_bytes ? JFS_PLACE_SHORT : 0;
}
