/* One growing column of varying length. */
#ifndef JFS_COLUMN_H
#define JFS_COLUMN_H

#include "jfs_columns.h"
#include "sink.h"
#include "text.h"

/* Offsets are 32 bits with a sign. */
enum { JFS_COLUMN_BYTES_MAX = INT32_MAX };

/* Makes room for a row of up to `bytes`. JFS_RANGE: the column cannot be so long. */
jfs_status jfs_column_room(jfs_column *column, uint64_t bytes);
/* Where the row's bytes go; after jfs_column_room. */
jfs_sink jfs_column_sink(const jfs_column *column);
/* Ends a row: what lies behind the row before is its value. */
void jfs_column_end(jfs_column *column, uint64_t bytes);
jfs_status jfs_column_null(jfs_column *column);
jfs_status jfs_column_bytes(jfs_column *column, jfs_view bytes);
/* A NULL view is a null. */
jfs_status jfs_column_text16(jfs_column *column, jfs_view utf16);
/* AMQP strings need not be UTF-8, though they should. */
jfs_status jfs_column_text8(jfs_column *column, jfs_view utf8);
void jfs_column_free(jfs_column *column);

#endif
