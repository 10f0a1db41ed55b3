/* What makes records of older stores. */
#ifndef JFS_OLDER_INTERNAL_H
#define JFS_OLDER_INTERNAL_H

#include "jfs_older.h"

/* Room for so many more bytes. */
jfs_status jfs_older_make_room(jfs_older_out *out, uint64_t wanted);

/* The count of records that a transaction has in the file that is written, until the next call. */
jfs_status jfs_older_written(jfs_older_counts *counts, int64_t tx_id, int32_t **out);

#endif
