/* Records of a page file. Layout and rules: docs/format/messages.md, "Paging". */
#ifndef JFS_PAGE_H
#define JFS_PAGE_H

#include <stdint.h>

#include "jfs_line.h"
#include "jfs_status.h"

enum {
    JFS_PAGE_UNDECODED = 1 /* damaged: it belongs to no queue, and may stand for more than one record */
};

/* One record. Its number is its place among all records of the file, which is what acknowledgements name. */
typedef struct {
    uint64_t offset;         /* of the opening byte */
    uint64_t payload_offset; /* of the message, as a jfs_line wants it */
    int64_t tx_id;           /* page transaction; not above 0: none */
    uint32_t record_bytes;
    uint32_t payload_bytes;
    uint32_t queue_index;    /* its first queue id in queue_ids */
    uint32_t queue_count;
    int8_t kind;             /* as stored: 0 small, 1 and -1 core large, 2 other large */
    uint8_t source;          /* JFS_SOURCE_* */
    uint8_t flags;           /* JFS_PAGE_* */
    uint8_t reserved[5];
} jfs_page_entry;

typedef struct {
    jfs_page_entry *entries;
    jfs_measure *measures;   /* of each entry; a large message's only after its body was seen */
    int64_t *queue_ids;
    uint64_t end_offset;     /* behind the last record */
    uint64_t damaged_at;     /* JFS_PAGE_WHOLE: nowhere; otherwise no record can be found from there on */
    const char *reason;      /* of the damage, NULL: none */
    uint32_t count;
    uint32_t capacity;
    uint32_t queue_count;
    uint32_t queue_capacity;
} jfs_page;

#define JFS_PAGE_WHOLE UINT64_MAX

/* Bytes [start, end) of a file. */
typedef struct {
    uint64_t start;
    uint64_t end;
} jfs_hole;

/*
 * Scans bytes[start, size). *out is overwritten; free it with jfs_page_free whatever the status. Fewer than 6 bytes at
 * the end are no damage: a broker ignores them too. `holes` are stretches that the file does not store, rising and
 * apart; no record is looked for in them.
 */
jfs_status jfs_scan_page(const uint8_t *bytes, uint64_t size_bytes, uint64_t start, const jfs_hole *holes,
                         uint32_t hole_count, jfs_page *out);
void jfs_page_free(jfs_page *page);

/* One value of every record; `out` has room for page->count of the type named. */
enum {
    JFS_PAGE_TX_IDS = 0,        /* int64_t */
    JFS_PAGE_MESSAGE_IDS = 1,   /* int64_t */
    JFS_PAGE_QUEUE_STARTS = 2,  /* uint32_t: its first queue id in queue_ids */
    JFS_PAGE_ALL_FLAGS = 3,     /* uint8_t: JFS_PAGE_* */
    JFS_PAGE_MEASURE_FLAGS = 4, /* uint8_t: JFS_MESSAGE_* */
    JFS_PAGE_EXPIRATIONS = 5    /* int64_t: epoch ms, 0: never */
};

jfs_status jfs_page_column(const jfs_page *page, int column, void *out);

/* Numbers of the records that were routed to a queue; `out` has room for page->count. */
uint32_t jfs_page_of_queue(const jfs_page *page, int64_t queue_id, uint32_t *out);

/*
 * Fills lines[0..count) and starts[0..count] for the given records. Their own schedules are named while they are later
 * than now_ms. Large bodies are left to the caller. JFS_RANGE: there is no such record.
 */
jfs_status jfs_page_lines(const jfs_page *page, const uint8_t *bytes, const uint32_t *numbers, uint32_t count,
                          uint64_t prefix_bytes, int64_t now_ms, jfs_line *lines, uint64_t *starts);

#endif
