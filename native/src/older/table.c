/* Rows of a journal's table in a database as records (docs/format/jdbc.md). */
#include <stddef.h>

#include "bytes.h"
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
    while (place->next < rows->count) {
        const uint32_t row = place->next;
        const uint64_t at = rows->offset[row], total = jfs_record_bytes((uint8_t)rows->kind[row], rows->length[row]);
        jfs_new_record record;
        uint64_t used;
        uint32_t done;
        if (at > rows->body_bytes || rows->length[row] > rows->body_bytes - at) return JFS_MALFORMED;
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
    return JFS_OK;
}

enum { FIELDS = 7, NULL_BYTES = -1 };

/* The fields of one row, which may be null; `at` is moved behind it. */
static int fields_of(const uint8_t **at, const uint8_t *end, const uint8_t **field, int32_t *length) {
    if (end - *at < 2 || (*at)[0] != 0 || (*at)[1] != FIELDS) return 0;
    *at += 2;
    for (int i = 0; i < FIELDS; i++) {
        if (end - *at < 4) return 0;
        length[i] = load_i32(*at);
        field[i] = *at += 4;
        if (length[i] < NULL_BYTES || length[i] > end - *at) return 0;
        *at += length[i] > 0 ? length[i] : 0;
    }
    return 1;
}

/* A number of any length that PostgreSQL has. */
static int number_of(const uint8_t *field, int32_t length, int64_t *out) {
    if (length == 8) *out = load_i64(field);
    else if (length == 4) *out = load_i32(field);
    else if (length == 2) *out = (int16_t)(field[0] << 8 | field[1]);
    else return 0;
    return 1;
}

jfs_status jfs_older_copied(const uint8_t *bytes, uint64_t size_bytes, int64_t id_max, jfs_older_rows *rows,
                            int64_t *seq) {
    const uint8_t *at = bytes, *end = bytes + size_bytes;
    for (uint32_t row = 0; row < rows->count; row++) {
        const uint8_t *field[FIELDS];
        int32_t length[FIELDS];
        int64_t *numbers[] = {rows->id + row, rows->kind + row, rows->tx + row, rows->user_type + row};
        if (!fields_of(&at, end, field, length) || !number_of(field[6], length[6], seq + row)) return JFS_MALFORMED;
        for (int i = 0; i < 4; i++)
            if (!number_of(field[i], length[i], numbers[i])) return JFS_MALFORMED;
        const int64_t id = rows->id[row], kind = rows->kind[row], tx = rows->tx[row], type = rows->user_type[row];
        if (id > id_max || id < -id_max || tx > id_max || tx < -id_max) return JFS_MALFORMED;
        const int untyped = kind == JFS_COMMIT || kind == JFS_PREPARE || kind == JFS_DELETE_TX;
        if (!untyped && (type < 0 || type > UINT8_MAX)) return JFS_MALFORMED;
        const int content = kind == JFS_PREPARE ? 5 : 4;
        rows->offset[row] = (uint64_t)(field[content] - bytes);
        rows->length[row] = length[content] > 0 ? (uint32_t)length[content] : 0;
    }
    rows->bodies = bytes;
    rows->body_bytes = size_bytes;
    return at == end ? JFS_OK : JFS_MALFORMED;
}
