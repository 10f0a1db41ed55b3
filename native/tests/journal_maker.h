/* Makes journal files in memory, for tests of scanning and of the live set. */
#ifndef JFS_JOURNAL_MAKER_H
#define JFS_JOURNAL_MAKER_H

#include "check.h"
#include "jfs_scan.h"

enum { JOURNAL_BYTES = 1 << 18 };

typedef struct {
    uint8_t *bytes; /* JOURNAL_BYTES, zeroed behind size */
    uint32_t size;
    uint32_t rid;
    uint8_t version;
} journal;

static inline void put_u8(journal *j, uint8_t value) {
    CHECK(j->size < JOURNAL_BYTES);
    j->bytes[j->size++] = value;
}

static inline void put_number(journal *j, int64_t value, int width) {
    for (int shift = (width - 1) * 8; shift >= 0; shift -= 8) put_u8(j, (uint8_t)((uint64_t)value >> shift));
}

static inline void journal_open(journal *j, uint8_t version, int64_t file_id) {
    memset(j, 0, sizeof *j);
    j->bytes = calloc(1, JOURNAL_BYTES);
    CHECK(j->bytes != NULL);
    j->version = version;
    j->rid = (uint32_t)file_id & 0x7fffffffU;
    put_number(j, version, 4);
    put_number(j, 0, 4);
    put_number(j, file_id, 8);
}

static inline void journal_close(journal *j) {
    free(j->bytes);
    memset(j, 0, sizeof *j);
}

static inline uint32_t record_open(journal *j, uint8_t kind) {
    const uint32_t at = j->size;
    put_u8(j, kind);
    put_number(j, j->rid, 4);
    if (j->version >= 2) put_u8(j, 0);
    return at;
}

/* Ends the record that began at `at`; returns where that was. */
static inline uint32_t record_close(journal *j, uint32_t at) {
    put_number(j, j->size + 4 - at, 4);
    return at;
}

static inline uint32_t put_add(journal *j, uint8_t kind, int64_t id, int user_type, const void *body, uint32_t n) {
    const uint32_t at = record_open(j, kind);
    put_number(j, id, 8);
    put_number(j, n, 4);
    put_u8(j, (uint8_t)user_type);
    for (uint32_t i = 0; i < n; i++) put_u8(j, ((const uint8_t *)body)[i]);
    return record_close(j, at);
}

static inline uint32_t put_add_tx(journal *j, uint8_t kind, int64_t tx, int64_t id, int user_type, const void *body,
                                  uint32_t n) {
    const uint32_t at = record_open(j, kind);
    put_number(j, tx, 8);
    put_number(j, id, 8);
    put_number(j, n, 4);
    if (kind != JFS_DELETE_TX) put_u8(j, (uint8_t)user_type);
    for (uint32_t i = 0; i < n; i++) put_u8(j, ((const uint8_t *)body)[i]);
    return record_close(j, at);
}

static inline uint32_t put_delete(journal *j, int64_t id) {
    const uint32_t at = record_open(j, JFS_DELETE);
    put_number(j, id, 8);
    return record_close(j, at);
}

static inline uint32_t put_prepare(journal *j, int64_t tx, int32_t count, const void *extra, uint32_t n) {
    const uint32_t at = record_open(j, JFS_PREPARE);
    put_number(j, tx, 8);
    put_number(j, count, 4);
    put_number(j, n, 4);
    for (uint32_t i = 0; i < n; i++) put_u8(j, ((const uint8_t *)extra)[i]);
    return record_close(j, at);
}

static inline uint32_t put_commit(journal *j, int64_t tx, int32_t count) {
    const uint32_t at = record_open(j, JFS_COMMIT);
    put_number(j, tx, 8);
    put_number(j, count, 4);
    return record_close(j, at);
}

static inline uint32_t put_rollback(journal *j, int64_t tx) {
    const uint32_t at = record_open(j, JFS_ROLLBACK);
    put_number(j, tx, 8);
    return record_close(j, at);
}

static inline jfs_scan journal_scan(const journal *j, uint64_t stop_offset, uint8_t flags) {
    const jfs_scan_options options = {
        .start_offset = 16, .stop_offset = stop_offset, .rid = (int32_t)j->rid, .version = j->version, .flags = flags};
    jfs_scan scan;
    CHECK_EQ(jfs_scan_journal(j->bytes, JOURNAL_BYTES, &options, &scan), JFS_OK);
    return scan;
}

#endif
