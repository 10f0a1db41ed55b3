/* Whether messages still lie where a scan found them. */
#include "jfs_places.h"

#include "bytes.h"
#include "jfs_guard.h"
#include "user_types.h"

/* Bytes before a payload, see docs/format/records.md and docs/format/pages.md. */
enum {
    TYPE_BACK = 1,    /* user type */
    LENGTH_BACK = 5,  /* i32 length, i8 user type */
    ID_BACK = 13,     /* i64 id before them */
    TX_BYTES = 8,     /* before the id, in a transaction */
    FRONT_BYTES = 5,  /* i8 kind, i32 rid; a version 2 file has an i8 compact count behind them */
    PAGE_BACK = 14,   /* i8 opening, i32 length, i64 transaction, i8 kind */
    SIZE_BYTES = 4,   /* before a bare core header in a page */
    PAGE_OPENING = '{',
};

enum { KIND_ADD = 11, KIND_UPDATE = 12, KIND_ADD_TX = 13, KIND_UPDATE_TX = 14 };

typedef struct {
    const uint8_t *first_byte;
    int64_t rid;
    const jfs_line *lines;
    uint64_t count;
    uint64_t at;
    int (*is_there)(const uint8_t *payload, uint64_t before, int64_t rid, const jfs_line *line);
} places_job;

static int begins_at(const uint8_t *payload, uint64_t before, uint64_t back, int64_t rid, uint8_t kind) {
    if (before < back) return 0;
    const uint8_t *const front = payload - back;
    return (*front == kind || *front == kind + 1) && (rid < 0 || load_u32(front + 1) == (uint32_t)rid);
}

static int is_record(const uint8_t *payload, uint64_t before, int64_t rid, const jfs_line *line) {
    const uint64_t back = ID_BACK + FRONT_BYTES;
    const uint8_t type = line->source & JFS_SOURCE_CORE_LARGE ? TYPE_LARGE_MESSAGE : TYPE_MESSAGE;
    if (before < back || payload[-TYPE_BACK] != type) return 0;
    if (load_u32(payload - LENGTH_BACK) != line->payload_bytes || load_i64(payload - ID_BACK) != line->record_id) return 0;
    return begins_at(payload, before, back + 1, rid, KIND_ADD) || begins_at(payload, before, back, rid, KIND_ADD) ||
           begins_at(payload, before, back + TX_BYTES + 1, rid, KIND_ADD_TX) ||
           begins_at(payload, before, back + TX_BYTES, rid, KIND_ADD_TX);
}

static int opens_at(const uint8_t *payload, uint64_t before, uint64_t back, const jfs_line *line) {
    if (before < back || payload[-(int64_t)back] != PAGE_OPENING) return 0;
    return load_u32(payload - back + 1) >= line->payload_bytes + back - FRONT_BYTES;
}

static int is_in_page(const uint8_t *payload, uint64_t before, int64_t rid, const jfs_line *line) {
    (void)rid;
    return opens_at(payload, before, PAGE_BACK, line) || opens_at(payload, before, PAGE_BACK + SIZE_BYTES, line);
}

static jfs_status places_body(void *context) {
    places_job *const job = context;
    for (; job->at < job->count; job->at++) {
        const jfs_line *const line = &job->lines[job->at];
        if (line->source & JFS_SOURCE_UNREADABLE) continue;
        if (!job->is_there(line->payload, (uint64_t)(line->payload - job->first_byte), job->rid, line)) return JFS_OK;
    }
    return JFS_OK;
}

jfs_status jfs_places_journal(const uint8_t *first_byte, int64_t rid, const jfs_line *lines, uint64_t count,
                              uint64_t *wrong) {
    places_job job = {first_byte, rid, lines, count, 0, is_record};
    const jfs_status status = jfs_guarded(places_body, &job);
    *wrong = job.at;
    return status;
}

jfs_status jfs_places_page(const uint8_t *first_byte, const jfs_line *lines, uint64_t count, uint64_t *wrong) {
    places_job job = {first_byte, -1, lines, count, 0, is_in_page};
    const jfs_status status = jfs_guarded(places_body, &job);
    *wrong = job.at;
    return status;
}
