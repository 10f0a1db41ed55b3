/* Fuzz target: the view of a journal file's records as lines.
 *
 * Input: a journal file with its header.
 */
#include "fuzz.h"
#include "jfs_recordview.h"

enum { WINDOW_BYTES = 97 };

static void check_windows(const jfs_record_view *view, const uint8_t *whole, uint64_t size) {
    uint8_t window[WINDOW_BYTES];
    uint64_t written;
    for (uint64_t at = 0; at < size; at += 1 + size / 32) {
        FUZZ_CHECK(jfs_record_view_read(view, at, window, sizeof window, &written) == JFS_OK);
        FUZZ_CHECK(written == (size - at < sizeof window ? size - at : sizeof window));
        FUZZ_CHECK(memcmp(window, whole + at, written) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const uint8_t prefix[] = "{\"file\":\"f\"";
    jfs_scan scan;
    jfs_scan_options options = {.start_offset = 16, .stop_offset = size, .version = 2};
    jfs_record_view view = {.bytes = data, .size_bytes = size, .prefix = prefix};
    uint64_t *starts, written, lines = 0;
    uint8_t *whole;
    if (size < 16) return 0;
    options.rid = (int32_t)(fuzz_u32(data + 12) & 0x7fffffffU);
    options.flags = data[7] & JFS_SCAN_ANY_RID;
    if (fuzz_u32(data) == 1) options.version = 1;
    FUZZ_CHECK(jfs_scan_journal(data, size, &options, &scan) == JFS_OK);
    if (scan.count == 0) {
        jfs_scan_free(&scan);
        return 0;
    }
    starts = calloc((size_t)scan.count + 1, sizeof *starts);
    FUZZ_CHECK(starts != NULL);
    view.prefix_bytes = sizeof prefix - 1;
    view.records = scan.records;
    view.count = scan.count;
    FUZZ_CHECK(jfs_record_view_starts(&view, starts) == JFS_OK);
    view.starts = starts;
    whole = malloc(starts[scan.count] + 1);
    FUZZ_CHECK(whole != NULL);
    FUZZ_CHECK(jfs_record_view_read(&view, 0, whole, starts[scan.count] + 1, &written) == JFS_OK);
    FUZZ_CHECK(written == starts[scan.count]);
    for (uint64_t i = 0; i < written; i++) lines += whole[i] == '\n';
    FUZZ_CHECK(lines == scan.count);
    check_windows(&view, whole, written);
    free(whole);
    free(starts);
    jfs_scan_free(&scan);
    return 0;
}
