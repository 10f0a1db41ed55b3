/* What makes records of older stores. */
#ifndef JFS_OLDER_INTERNAL_H
#define JFS_OLDER_INTERNAL_H

#include "jfs_older.h"

/* Room for so many more bytes. */
jfs_status jfs_older_make_room(jfs_older_out *out, uint64_t wanted);

#endif
