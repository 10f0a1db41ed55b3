/* Fuzz target: finding the records of a journal file.
 *
 * Input: a journal file with its header. The header's user version, which is 0 in real files, says the scan's flags.
 */
#include "fuzz.h"
#include "jfs_scan.h"

static void check_records(const jfs_scan *scan, const uint8_t *data, const jfs_scan_options *options) {
    uint64_t at = options->start_offset;
    for (uint32_t i = 0; i < scan->count; i++) {
        const jfs_record *record = &scan->records[i];
        const uint64_t end = (uint64_t)record->offset + record->length;
        FUZZ_CHECK(record->offset >= at && end <= options->stop_offset);
        FUZZ_CHECK(record->kind >= JFS_EVENT && record->kind <= JFS_ROLLBACK && data[record->offset] == record->kind);
        FUZZ_CHECK(fuzz_u32(data + end - 4) == record->length);
        if (record->body_bytes != 0) {
            FUZZ_CHECK(record->body_offset > record->offset);
            FUZZ_CHECK((uint64_t)record->body_offset + record->body_bytes + 4 <= end);
        }
        at = end;
    }
    FUZZ_CHECK(scan->end_offset == at);
}

static void check_gaps(const jfs_scan *scan, const jfs_scan_options *options) {
    uint64_t at = options->start_offset;
    for (uint32_t i = 0; i < scan->gap_count; i++) {
        FUZZ_CHECK(scan->gaps[i].offset >= at && scan->gaps[i].length > 0);
        at = (uint64_t)scan->gaps[i].offset + scan->gaps[i].length;
        FUZZ_CHECK(at <= options->stop_offset);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    jfs_scan scan;
    jfs_scan_options options = {.start_offset = 16, .stop_offset = size};
    if (size < 16) return 0;
    options.version = fuzz_u32(data) == 1 ? 1 : 2;
    options.flags = data[7] & JFS_SCAN_ANY_RID;
    options.rid = (int32_t)(fuzz_u32(data + 12) & 0x7fffffffU);
    FUZZ_CHECK(jfs_scan_journal(data, size, &options, &scan) == JFS_OK);
    check_records(&scan, data, &options);
    check_gaps(&scan, &options);
    jfs_scan_free(&scan);
    return 0;
}
