/* Rows of a journal's table in a database as records (docs/format/jdbc.md). */
#include <stddef.h>

#include "jfs_encode.h"
#include "jfs_older.h"
#include "older.h"

enum { REFERENCE = 32, ACKNOWLEDGE = 33, DELIVERY_COUNT = 34, SCHEDULED = 36 };

/* A broker's table calls some of these ADD. */
static int only_changes(int64_t user_type) {
    return user_type == REFERENCE || user_type == ACKNOWLEDGE || user_type == DELIVERY_COUNT || user_type == SCHEDULED;
}

static jfs_status record_of(const jfs_older_rows *rows, uint32_t row, jfs_older_counts *counts, jfs_new_record *out) {
    int32_t *written = NULL;
    int64_t kind = rows->kind[row];
    if (kind < JFS_ADD || kind > JFS_ROLLBACK) return JFS_MALFORMED;
    if (kind == JFS_ADD && only_changes(rows->user_type[row])) kind = JFS_UPDATE;
    *out = (jfs_new_record){.tx_id = rows->tx[row],
                            .record_id = rows->id[row],
                            .body_bytes = rows->length[row],
                            .kind = (uint8_t)kind,
                            .user_type = (int8_t)rows->user_type[row]};
    if (kind < JFS_ADD_TX || kind == JFS_DELETE || kind == JFS_ROLLBACK) return JFS_OK;
    const jfs_status status = jfs_older_written(counts, out->tx_id, &written);
    if (status != JFS_OK) return status;
    out->count = *written;
    *written += kind <= JFS_DELETE_TX;
    return JFS_OK;
}

jfs_status jfs_older_table(jfs_older_counts *counts, const jfs_older_rows *rows, jfs_older_place *place,
                           jfs_older_out *out) {
    uint64_t at = 0;
    for (uint32_t row = 0; row < rows->count; row++) {
        if (rows->length[row] > rows->body_bytes - at) return JFS_MALFORMED;
        if (row >= place->next) {
            const uint64_t total = jfs_record_bytes((uint8_t)rows->kind[row], rows->length[row]);
            jfs_new_record record;
            uint64_t used;
            uint32_t done;
            if (out->size + total > place->room_bytes && !place->empty) return JFS_OK;
            jfs_status status = jfs_older_make_room(out, total);
            if (status == JFS_OK) status = record_of(rows, row, counts, &record);
            if (status != JFS_OK) return status;
            record.body = rows->bodies + at;
            status = jfs_encode(out->bytes + out->size, total, place->rid, &record, 1, &used, &done);
            if (status != JFS_OK) return status;
            out->size += used;
            place->empty = 0;
            place->next = row + 1;
        }
        at += rows->length[row];
    }
    return JFS_OK;
}
