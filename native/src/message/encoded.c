#include "jfs_encoded.h"

#include <inttypes.h>
#include <stdio.h>

#include "jfs_guard.h"
#include "sink.h"

typedef struct {
    const uint8_t *bytes;
    const jfs_scan *scan;
    uint32_t *next;
    uint8_t *out;
    uint64_t capacity;
    uint64_t *written;
} job;

/* What the tools call each kind; they write no line for an event. */
static const char *const operations[] = {
    [JFS_ADD] = "AddRecord",       [JFS_UPDATE] = "Update",            [JFS_ADD_TX] = "AddRecordTX",
    [JFS_UPDATE_TX] = "UpdateTX",  [JFS_DELETE_TX] = "DeleteRecordTX", [JFS_DELETE] = "DeleteRecord",
    [JFS_PREPARE] = "Prepare",     [JFS_COMMIT] = "Commit",            [JFS_ROLLBACK] = "Rollback",
};

/* All of a line up to its body, or to its end where it has none. */
static int put_front(char *to, const jfs_record *record) {
    const char *const operation = operations[record->kind];
    const int in_tx = record->kind == JFS_ADD_TX || record->kind == JFS_UPDATE_TX || record->kind == JFS_DELETE_TX;
    const int update = record->kind != JFS_ADD && record->kind != JFS_ADD_TX;
    char tx[32] = "";
    switch (record->kind) {
    case JFS_DELETE: return snprintf(to, JFS_ENCODED_FRONT_BYTES, "operation@DeleteRecord,id@%" PRId64, record->record_id);
    case JFS_ROLLBACK: return snprintf(to, JFS_ENCODED_FRONT_BYTES, "operation@Rollback,txID@%" PRId64, record->tx_id);
    case JFS_COMMIT:
    case JFS_PREPARE:
        return snprintf(to, JFS_ENCODED_FRONT_BYTES, "operation@%s,txID@%" PRId64 ",numberOfRecords@%" PRId32 "%s",
                        operation, record->tx_id, record->count, record->kind == JFS_PREPARE ? ",extraData@" : "");
    default:
        if (in_tx) snprintf(tx, sizeof tx, "txID@%" PRId64 ",", record->tx_id);
        return snprintf(to, JFS_ENCODED_FRONT_BYTES,
                        "operation@%s,%sid@%" PRId64 ",userRecordType@%d,length@%" PRIu32
                        ",isUpdate@%s,compactCount@%d,data@",
                        operation, tx, record->record_id, record->user_type, record->body_bytes,
                        update ? "true" : "false", record->compact_count);
    }
}

static int has_body(uint8_t kind) { return kind != JFS_DELETE && kind != JFS_ROLLBACK && kind != JFS_COMMIT; }

static jfs_status lines_body(void *context) {
    const job *j = context;
    *j->written = 0;
    for (; *j->next < j->scan->count; ++*j->next) {
        const jfs_record *const record = &j->scan->records[*j->next];
        if (record->kind >= sizeof operations / sizeof *operations || operations[record->kind] == NULL) continue;
        const uint64_t body_bytes = has_body(record->kind) ? record->body_bytes : 0;
        if (JFS_ENCODED_FRONT_BYTES + jfs_base64_bytes(body_bytes) > j->capacity - *j->written) return JFS_OK;
        uint8_t *to = j->out + *j->written;
        to += put_front((char *)to, record);
        if (has_body(record->kind)) to += jfs_base64_of_urls((jfs_view){j->bytes + record->body_offset, body_bytes}, to);
        *to++ = '\n';
        *j->written = (uint64_t)(to - j->out);
    }
    return JFS_OK;
}

jfs_status jfs_encoded_lines(const uint8_t *bytes, const jfs_scan *scan, uint32_t *next, uint8_t *out,
                             uint64_t capacity, uint64_t *written) {
    job j = {bytes, scan, next, out, capacity, written};
    if (*next > scan->count) return JFS_RANGE;
    return jfs_guarded(lines_body, &j);
}
