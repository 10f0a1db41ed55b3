/* Fuzz target: messages as columns for Arrow.
 *
 * Input: which columns are wanted (u16, big-endian), how many bytes one call may hold (u16), then messages: how each
 * payload begins (u8, JFS_SOURCE_*; 2 and above: its large body is missing), the payload's length (u16), the payload.
 * Whatever one call may hold, the same comes out.
 */
#include "fuzz.h"
#include "jfs_columns.h"

enum { LINES_MAX = 64, HEAD_BYTES = 4, MESSAGE_HEAD_BYTES = 3, CALLS_MAX = LINES_MAX };

static uint32_t u16(const uint8_t *bytes) { return (uint32_t)bytes[0] << 8 | bytes[1]; }

static uint32_t lines_of(const uint8_t *data, size_t size, jfs_line *lines) {
    uint32_t count = 0;
    while (size > MESSAGE_HEAD_BYTES && count < LINES_MAX) {
        const uint32_t wanted = u16(data + 1), room = (uint32_t)(size - MESSAGE_HEAD_BYTES);
        const uint32_t length = wanted < room ? wanted : room;
        lines[count++] = (jfs_line){.payload = data + MESSAGE_HEAD_BYTES,
                                    .payload_bytes = length,
                                    .source = data[0] & 1,
                                    .large_missing = data[0] >= 2};
        data += MESSAGE_HEAD_BYTES + length;
        size -= MESSAGE_HEAD_BYTES + length;
    }
    return count;
}

static int is_valid(const jfs_column *column, uint32_t row) { return column->valid[row / 8] >> row % 8 & 1; }

/* Each row of the column lies behind the one before, and what is null holds nothing. */
static void check_column(const jfs_column *column, uint32_t rows) {
    uint32_t nulls = 0;
    FUZZ_CHECK(column->rows == rows);
    if (rows == 0) return;
    FUZZ_CHECK(column->offsets[0] == 0 && (uint32_t)column->offsets[rows] == column->data_bytes);
    FUZZ_CHECK(column->data_bytes <= column->data_capacity);
    for (uint32_t row = 0; row < rows; row++) {
        FUZZ_CHECK(column->offsets[row] <= column->offsets[row + 1]);
        if (is_valid(column, row)) continue;
        FUZZ_CHECK(column->offsets[row] == column->offsets[row + 1]);
        nulls++;
    }
    FUZZ_CHECK(column->nulls == nulls);
}

static void check_columns(const jfs_columns *found, uint32_t wanted) {
    uint32_t properties = 0;
    for (uint32_t i = 0; i < found->count; i++) properties += found->rows[i].properties;
    for (uint32_t i = 0; i < JFS_COLUMNS; i++) {
        const int of_properties = i == JFS_COLUMN_KEYS || i == JFS_COLUMN_VALUES;
        const int there = (wanted >> (i == JFS_COLUMN_VALUES ? JFS_COLUMN_KEYS : i) & 1) != 0;
        check_column(&found->columns[i], !there ? 0 : of_properties ? properties : found->count);
    }
    FUZZ_CHECK(found->kind_count == properties);
}

/* The rows of `part` are those of `whole` from `row` on. */
static void check_same(const jfs_column *whole, const jfs_column *part, uint32_t row) {
    for (uint32_t i = 0; i < part->rows; i++) {
        const int32_t from = whole->offsets[row + i], length = whole->offsets[row + i + 1] - from;
        FUZZ_CHECK(is_valid(whole, row + i) == is_valid(part, i));
        FUZZ_CHECK(part->offsets[i + 1] - part->offsets[i] == length);
        if (length > 0) FUZZ_CHECK(memcmp(whole->data + from, part->data + part->offsets[i], (size_t)length) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    jfs_line lines[LINES_MAX];
    jfs_columns whole = {0};
    uint32_t count, wanted, read = 0, properties = 0;
    if (size < HEAD_BYTES) return 0;
    wanted = u16(data) & ((1u << JFS_COLUMNS) - 1);
    count = lines_of(data + HEAD_BYTES, size - HEAD_BYTES, lines);
    if (count == 0) return 0;
    FUZZ_CHECK(jfs_columns_read(lines, count, wanted, UINT64_MAX, &whole) == JFS_OK && whole.count == count);
    check_columns(&whole, wanted);
    for (uint32_t calls = 0; read < count; calls++) {
        jfs_columns part = {0};
        FUZZ_CHECK(calls < CALLS_MAX);
        FUZZ_CHECK(jfs_columns_read(lines + read, count - read, wanted, u16(data + 2), &part) == JFS_OK);
        FUZZ_CHECK(part.count > 0 && memcmp(part.rows, whole.rows + read, part.count * sizeof *part.rows) == 0);
        check_columns(&part, wanted);
        for (int i = 0; i < JFS_COLUMNS; i++) {
            const int of_properties = i == JFS_COLUMN_KEYS || i == JFS_COLUMN_VALUES;
            check_same(&whole.columns[i], &part.columns[i], of_properties ? properties : read);
        }
        if (part.kind_count > 0) FUZZ_CHECK(memcmp(part.kinds, whole.kinds + properties, part.kind_count) == 0);
        read += part.count;
        properties += part.kind_count;
        jfs_columns_free(&part);
    }
    jfs_columns_free(&whole);
    return 0;
}
