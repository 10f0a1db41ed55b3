/* What one rendered line is made of: the seam between the live state, page files and the renderer. */
#ifndef JFS_LINE_H
#define JFS_LINE_H

#include <stddef.h>
#include <stdint.h>

#include "jfs_status.h"

/* How the payload begins (docs/format/messages.md). */
enum {
    JFS_SOURCE_PERSISTER = 0,  /* a persister byte, then its payload: journal type 45, page kinds 0 and 2 */
    JFS_SOURCE_CORE_LARGE = 1, /* a bare core header: journal type 30, page kinds 1 and -1 */
    JFS_SOURCE_UNREADABLE = 2  /* added to one of them: zeros stand for a part that the disk did not give */
};

/* One message to render. Points into buffers that the caller keeps alive and readable. */
typedef struct {
    const uint8_t *payload;
    const uint8_t *large;      /* contents of <id>.msg (inflated if it was compressed); NULL: not there */
    uint64_t large_bytes;
    int64_t scheduled_ms;      /* 0: key left out */
    uint32_t payload_bytes;
    int32_t delivery_count;    /* 0: key left out */
    uint8_t source;            /* JFS_SOURCE_* */
    uint8_t large_missing;     /* the body file is not there or too short: say so in "damage" */
    uint8_t reserved[6];
    int64_t record_id;         /* of its record, by which it is acknowledged; 0: it has none, and goes by what it says */
} jfs_line;

/* Content kinds; they give the suffix of a message's own file. */
enum { JFS_SUFFIX_TXT = 0, JFS_SUFFIX_JSON = 1, JFS_SUFFIX_BIN = 2, JFS_SUFFIX_SER = 3 };

enum {
    JFS_MESSAGE_DURABLE = 1,
    JFS_MESSAGE_LARGE = 2,
    JFS_MESSAGE_DAMAGED = 4,    /* could not be decoded to its last byte */
    JFS_MESSAGE_AMQP = 8,
    JFS_MESSAGE_COMPRESSED = 16, /* large body is a zlib stream on disk */
    JFS_MESSAGE_MISNAMED = 32    /* says another id than its record, or none */
};

/* What the index keeps of a message so that listings read no message. */
typedef struct {
    uint64_t tail_bytes;      /* rendered bytes from `,"address"` up to, not including, the closing brace */
    uint64_t body_bytes;      /* size of the message's own file */
    int64_t message_id;
    int64_t timestamp_ms;
    int64_t expiration_ms;    /* when it is over, which may be long ago; 0: never */
    int64_t scheduled_ms;     /* the message's own schedule (property or annotation); 0: none */
    uint8_t priority;
    uint8_t suffix;           /* JFS_SUFFIX_* */
    uint8_t flags;            /* JFS_MESSAGE_* */
    uint8_t reserved[5];
} jfs_measure;

/* Measures one message without writing anything. Undecodable input is not an error: flags say JFS_MESSAGE_DAMAGED. */
jfs_status jfs_line_measure(const jfs_line *line, jfs_measure *out);

#endif
