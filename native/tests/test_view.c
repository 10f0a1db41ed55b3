/* Windows over lines that are not as long as they were measured: refused, never filled up with what was in memory. */
#include "check.h"
#include "jfs_lines.h"
#include "view.h"

enum { LINES = 4, LINE_BYTES = 10 };

/* Lines of ten bytes each; the one that `context` names is shorter by three. */
static void put_short(jfs_sink *sink, const void *context, uint64_t index) {
    const uint64_t *const shorter = context;
    JFS_PUT(sink, "abcdef");
    if (index != *shorter) JFS_PUT(sink, "ghi");
    jfs_put_byte(sink, '\n');
}

static void every_window_that_lacks_bytes_is_refused(void) {
    static const uint64_t starts[] = {0, 10, 20, 30, 40};
    for (uint64_t shorter = 0; shorter <= LINES; shorter++) {
        for (uint64_t from = 0; from < starts[LINES]; from++) {
            for (uint64_t length = 1; length <= starts[LINES] - from; length++) {
                const uint64_t hole = starts[shorter < LINES ? shorter : 0] + LINE_BYTES - 3;
                const int lacks = shorter < LINES && from < hole + 3 && from + length > hole;
                uint8_t out[LINES * LINE_BYTES];
                uint64_t written = 0;
                const jfs_status status =
                    jfs_view_read(put_short, &shorter, LINES, starts, from, out, length, &written);
                CHECK_EQ(status, lacks ? JFS_MALFORMED : JFS_OK);
                CHECK_EQ(written, lacks ? 0 : length);
            }
        }
    }
}

/* The same of messages, which are rendered by another loop. */
static void messages_shorter_than_measured_are_refused(void) {
    static const uint8_t payload[] = "no message at all";
    jfs_line lines[2] = {{.payload = payload, .payload_bytes = sizeof payload},
                         {.payload = payload, .payload_bytes = sizeof payload}};
    uint64_t starts[3], written;
    uint8_t out[1 << 16];
    jfs_lines batch = {.lines = lines, .starts = starts, .prefix = (const uint8_t *)"{", .prefix_bytes = 1, .count = 2};
    CHECK_EQ(jfs_lines_starts(lines, 2, 1, starts), JFS_OK);
    CHECK(starts[2] + 100 < sizeof out);
    CHECK_EQ(jfs_lines_read(&batch, 0, out, sizeof out, &written, NULL), JFS_OK);
    CHECK_EQ(written, starts[2]);
    const uint64_t real_end = starts[2];
    starts[2] += 90;
    for (uint64_t length = 1; length <= starts[2]; length++) {
        const jfs_status status = jfs_lines_read(&batch, 0, out, length, &written, NULL);
        CHECK_EQ(status, length > real_end ? JFS_MALFORMED : JFS_OK);
    }
    CHECK_EQ(jfs_lines_read(&batch, real_end + 1, out, 10, &written, NULL), JFS_MALFORMED);
}

int main(void) {
    RUN(every_window_that_lacks_bytes_is_refused);
    RUN(messages_shorter_than_measured_are_refused);
    return 0;
}
