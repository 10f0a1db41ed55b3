/* Messages as columns, laid out as Arrow lays out arrays of varying length, so that nothing is copied once more. */
#ifndef JFS_COLUMNS_H
#define JFS_COLUMNS_H

#include <stdint.h>

#include "jfs_line.h"
#include "jfs_status.h"

/* Columns of varying length. KEYS and VALUES have one row a property, the others one a message. */
enum {
    JFS_COLUMN_ADDRESS = 0,
    JFS_COLUMN_USER_ID = 1,
    JFS_COLUMN_GROUP = 2,
    JFS_COLUMN_DUPLICATE = 3,
    JFS_COLUMN_DUPLICATE_BYTES = 4,
    JFS_COLUMN_BODY = 5,       /* what is text: texts, and maps, streams and AMQP values as their files show them */
    JFS_COLUMN_BODY_BYTES = 6, /* what is bytes */
    JFS_COLUMN_BODY_FILE = 7,  /* what the message's own file holds, whatever it is */
    JFS_COLUMN_DAMAGE = 8,
    JFS_COLUMN_RAW = 9, /* the record's payload, where the other columns do not carry every bit of it */
    JFS_COLUMN_KEYS = 10,
    JFS_COLUMN_VALUES = 11,
    JFS_COLUMNS = 12
};

typedef struct {
    int32_t *offsets; /* rows + 1 of them, once there is a row */
    uint8_t *valid;   /* a bit a row, the lowest first; 0: null */
    uint8_t *data;
    uint64_t data_capacity;
    uint32_t data_bytes;
    uint32_t rows;
    uint32_t row_capacity;
    uint32_t nulls;
} jfs_column;

enum {
    JFS_ROW_DURABLE = 1,
    JFS_ROW_LARGE = 2,
    JFS_ROW_AMQP = 4,
    JFS_ROW_HAS_ID = 8,
    JFS_ROW_HAS_HEADER = 16, /* durable, priority and times are known */
    JFS_ROW_HAS_TYPE = 32
};

/* Core types count from 0, AMQP ones (data, value, sequence, no body) from here. */
enum { JFS_ROW_AMQP_TYPES = 256 };

/* What is of one size, a message a row. */
typedef struct {
    int64_t id;
    int64_t timestamp_ms;
    int64_t expiration_ms;
    int64_t scheduled_ms; /* as the message itself says; 0: it does not */
    uint32_t properties; /* how many rows of KEYS and VALUES are this message's */
    uint16_t type;
    int8_t priority;
    uint8_t flags; /* JFS_ROW_* */
} jfs_row;

/* Codes of a core property's type are the store's own (0 to 11); AMQP types count from here. */
enum { JFS_KIND_AMQP = 32 };

typedef struct {
    jfs_column columns[JFS_COLUMNS];
    jfs_row *rows;
    uint8_t *kinds; /* type of each property */
    uint32_t count;
    uint32_t row_capacity;
    uint32_t kind_count;
    uint32_t kind_capacity;
} jfs_columns;

/*
 * Reads messages into `out`, which is all zeros before: those columns whose bits (1 << JFS_COLUMN_*) `wanted` has,
 * and always the rows. Ends before the message that would make the columns hold more than `bytes_max` bytes, but never
 * before the first; out->count says how many were read. Text is UTF-8 in any case: what is none in the message
 * becomes U+FFFD. JFS_RANGE: the first message is longer than a column can be (2 GiB).
 */
jfs_status jfs_columns_read(const jfs_line *lines, uint64_t count, uint32_t wanted, uint64_t bytes_max,
                            jfs_columns *out);
void jfs_columns_free(jfs_columns *columns);

/* The name of an AMQP property's type; NULL when there is none of that number. */
const char *jfs_kind_name(uint8_t kind);

#endif
