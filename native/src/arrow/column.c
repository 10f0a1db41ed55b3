/* One growing column of varying length: Arrow's offsets, data and validity. */
#include "column.h"

#include <stdlib.h>

enum { ROWS_FIRST = 256, DATA_FIRST = 4096, REPLACEMENT_BYTES = 3 };

static const uint8_t replacement[REPLACEMENT_BYTES] = {0xef, 0xbf, 0xbd};

static jfs_status row_room(jfs_column *column) {
    if (column->rows + 1 < column->row_capacity) return JFS_OK;
    const uint32_t capacity = column->row_capacity == 0 ? ROWS_FIRST : 2 * column->row_capacity;
    int32_t *const offsets = realloc(column->offsets, capacity * sizeof *offsets);
    if (offsets == NULL) return JFS_NO_MEMORY;
    column->offsets = offsets;
    uint8_t *const valid = realloc(column->valid, capacity / 8);
    if (valid == NULL) return JFS_NO_MEMORY;
    memset(valid + column->row_capacity / 8, 0, (capacity - column->row_capacity) / 8);
    column->valid = valid;
    if (column->row_capacity == 0) offsets[0] = 0;
    column->row_capacity = capacity;
    return JFS_OK;
}

jfs_status jfs_column_room(jfs_column *column, uint64_t bytes) {
    jfs_status status = row_room(column);
    if (status != JFS_OK) return status;
    if (bytes > JFS_COLUMN_BYTES_MAX || column->data_bytes + bytes > JFS_COLUMN_BYTES_MAX) return JFS_RANGE;
    const uint64_t needed = column->data_bytes + bytes;
    if (needed <= column->data_capacity && column->data != NULL) return JFS_OK;
    uint64_t capacity = column->data_capacity == 0 ? DATA_FIRST : 2 * column->data_capacity;
    if (capacity < needed) capacity = needed;
    uint8_t *const data = realloc(column->data, capacity);
    if (data == NULL) return JFS_NO_MEMORY;
    column->data = data;
    column->data_capacity = capacity;
    return JFS_OK;
}

jfs_sink jfs_column_sink(const jfs_column *column) {
    return (jfs_sink){column->data + column->data_bytes, 0, 0, column->data_capacity - column->data_bytes, NULL};
}

void jfs_column_end(jfs_column *column, uint64_t bytes) {
    column->data_bytes += (uint32_t)bytes;
    column->valid[column->rows / 8] |= (uint8_t)(1u << (column->rows % 8));
    column->offsets[++column->rows] = (int32_t)column->data_bytes;
}

jfs_status jfs_column_null(jfs_column *column) {
    jfs_status status = row_room(column);
    if (status != JFS_OK) return status;
    column->nulls++;
    column->offsets[++column->rows] = (int32_t)column->data_bytes;
    return JFS_OK;
}

jfs_status jfs_column_bytes(jfs_column *column, jfs_view bytes) {
    jfs_status status = jfs_column_room(column, bytes.bytes);
    if (status != JFS_OK) return status;
    if (bytes.bytes > 0) memcpy(column->data + column->data_bytes, bytes.at, bytes.bytes);
    jfs_column_end(column, bytes.bytes);
    return JFS_OK;
}

/* A lone surrogate comes out as the three bytes it would have, which is as long as what stands for it here. */
static void replace_surrogates(uint8_t *at, uint64_t bytes) {
    const uint8_t *const end = at + bytes;
    while (at < end && (at = memchr(at, 0xed, (size_t)(end - at))) != NULL) {
        if (end - at >= REPLACEMENT_BYTES && at[1] > 0x9f) memcpy(at, replacement, REPLACEMENT_BYTES);
        at += REPLACEMENT_BYTES;
    }
}

/* Room for a text, with which the conversion needs no care for the end: see jfs_convert. */
static uint64_t room_for(uint64_t bytes) {
    enum { GENEROUS_BYTES = 1 << 20 };
    return bytes <= GENEROUS_BYTES ? 6 * bytes + 64 : 0;
}

jfs_status jfs_column_text16(jfs_column *column, jfs_view utf16) {
    if (utf16.at == NULL) return jfs_column_null(column);
    uint64_t room = room_for(utf16.bytes);
    if (room == 0 || column->data_bytes + room > JFS_COLUMN_BYTES_MAX) room = jfs_text_bytes(utf16, JFS_UTF16LE_UTF8);
    const jfs_status status = jfs_column_room(column, room);
    if (status != JFS_OK) return status;
    jfs_sink sink = jfs_column_sink(column);
    jfs_put_text(&sink, utf16, JFS_UTF16LE_UTF8);
    replace_surrogates(column->data + column->data_bytes, sink.pos);
    jfs_column_end(column, sink.pos);
    return JFS_OK;
}

jfs_status jfs_column_text8(jfs_column *column, jfs_view utf8) {
    if (utf8.at == NULL) return jfs_column_null(column);
    const uint8_t *at = utf8.at, *const end = utf8.at + utf8.bytes;
    uint64_t length = 0;
    while (at < end) {
        const size_t width = jfs_utf8_sequence(at, end);
        length += width == 0 ? REPLACEMENT_BYTES : width;
        at += width == 0 ? 1 : width;
    }
    if (length == utf8.bytes) return jfs_column_bytes(column, utf8); /* whatever is replaced grows */
    const jfs_status status = jfs_column_room(column, length);
    if (status != JFS_OK) return status;
    uint8_t *to = column->data + column->data_bytes;
    for (at = utf8.at; at < end;) {
        const size_t width = jfs_utf8_sequence(at, end);
        memcpy(to, width == 0 ? replacement : at, width == 0 ? REPLACEMENT_BYTES : width);
        to += width == 0 ? REPLACEMENT_BYTES : width;
        at += width == 0 ? 1 : width;
    }
    jfs_column_end(column, length);
    return JFS_OK;
}

void jfs_column_free(jfs_column *column) {
    free(column->offsets);
    free(column->valid);
    free(column->data);
}
