/* Fuzz target: decoding, measuring and rendering a message, core or AMQP, with or without its large body.
 *
 * Input: how the payload begins (u8, JFS_SOURCE_*; 2 and above: no large body is there), the payload's length (u32,
 * big-endian), the payload, and what follows is the large body.
 */
#include "fuzz.h"
#include "jfs_lines.h"

enum { WINDOW_BYTES = 61, WHOLE_BYTES_MAX = 4 << 20 };

/* Whatever the bytes were, a line is one line of JSON's outermost shape, and no control character stands in it. */
static void check_line(const uint8_t *line, uint64_t size) {
    FUZZ_CHECK(size > 3 && line[0] == '{' && line[size - 2] == '}' && line[size - 1] == '\n');
    for (uint64_t i = 0; i + 1 < size; i++) FUZZ_CHECK(line[i] >= 0x20);
}

static void check_windows(const jfs_lines *lines, const uint8_t *whole, uint64_t size, jfs_cursor *cursor) {
    uint8_t window[WINDOW_BYTES];
    uint64_t written;
    const uint64_t step = size > 4096 ? size / 64 : WINDOW_BYTES;
    for (uint64_t at = 0; at < size; at += step) {
        FUZZ_CHECK(jfs_lines_read(lines, at, window, sizeof window, &written, cursor) == JFS_OK);
        FUZZ_CHECK(written == (size - at < sizeof window ? size - at : sizeof window));
        FUZZ_CHECK(memcmp(window, whole + at, written) == 0);
    }
}

static void check_body(const jfs_line *line, const jfs_measure *measure, jfs_cursor *cursor) {
    uint64_t written;
    uint8_t *body, window[WINDOW_BYTES];
    if (measure->body_bytes > WHOLE_BYTES_MAX) return;
    body = malloc(measure->body_bytes + 1);
    FUZZ_CHECK(body != NULL);
    FUZZ_CHECK(jfs_body_read(line, measure->body_bytes, 0, body, measure->body_bytes, &written, cursor) == JFS_OK);
    FUZZ_CHECK(written == measure->body_bytes);
    for (uint64_t at = 0; at < written; at += 1 + written / 16) {
        uint64_t got;
        FUZZ_CHECK(jfs_body_read(line, measure->body_bytes, at, window, sizeof window, &got, NULL) == JFS_OK);
        FUZZ_CHECK(got == (written - at < sizeof window ? written - at : sizeof window));
        FUZZ_CHECK(memcmp(window, body + at, got) == 0);
    }
    free(body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const uint8_t prefix[] = "{\"queue\":\"q\"";
    jfs_line line = {.delivery_count = 3, .scheduled_ms = 1};
    jfs_measure measure;
    uint64_t starts[2], written;
    jfs_cursor *cursor = NULL;
    uint8_t *whole;
    if (size < 5) return 0;
    line.source = data[0] & 1;
    line.record_id = data[0] & 4 ? 1001 : 0;
    line.payload = data + 5;
    line.payload_bytes = fuzz_u32(data + 1) < size - 5 ? fuzz_u32(data + 1) : (uint32_t)(size - 5);
    if (data[0] < 2) {
        line.large = data + 5 + line.payload_bytes;
        line.large_bytes = size - 5 - line.payload_bytes;
    } else {
        line.large_missing = 1;
    }
    FUZZ_CHECK(jfs_line_measure(&line, &measure) == JFS_OK);
    FUZZ_CHECK(measure.suffix <= JFS_SUFFIX_SER);
    FUZZ_CHECK(line.record_id == 0 || measure.message_id == line.record_id);
    FUZZ_CHECK(jfs_lines_starts(&line, 1, sizeof prefix - 1, starts) == JFS_OK);
    if (starts[1] > WHOLE_BYTES_MAX) return 0;
    const jfs_lines lines = {&line, starts, prefix, sizeof prefix - 1, 1};
    whole = malloc(starts[1] + 1);
    FUZZ_CHECK(whole != NULL && jfs_cursor_new(&cursor) == JFS_OK);
    FUZZ_CHECK(jfs_lines_read(&lines, 0, whole, starts[1] + 1, &written, NULL) == JFS_OK && written == starts[1]);
    check_line(whole, written);
    check_windows(&lines, whole, written, cursor);
    check_body(&line, &measure, cursor);
    jfs_cursor_free(cursor);
    free(whole);
    return 0;
}
