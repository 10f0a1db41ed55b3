/* Fuzz target: checking what checksums among a file's records cover.
 *
 * Input: a journal file with its header.
 */
#include "fuzz.h"
#include "jfs_checksum.h"

enum { MISMATCHES_MAX = 8, HEADER_BYTES = 16 };

static void check_mismatches(const jfs_mismatch *found, uint32_t count, size_t size) {
    for (uint32_t i = 0; i < count && i < MISMATCHES_MAX; i++) {
        FUZZ_CHECK((uint64_t)found[i].offset + found[i].length <= found[i].record_offset);
        FUZZ_CHECK((uint64_t)found[i].record_offset + JFS_CHECKSUM_RECORD_BYTES <= size);
    }
}

/* A checksum of all that the file has, behind it, is right, and is not any more once a byte of it changed. */
static void check_own(const uint8_t *data, size_t size, int64_t file_id) {
    const jfs_checksum_place place = {.file_id = file_id};
    const jfs_scan_options options = {.start_offset = size,
                                      .stop_offset = size + JFS_CHECKSUM_RECORD_BYTES,
                                      .rid = (int32_t)(file_id & 0x7fffffff),
                                      .version = 2};
    uint8_t *const file = malloc(size + JFS_CHECKSUM_RECORD_BYTES);
    jfs_checksum_summary summary;
    jfs_mismatch found;
    jfs_scan scan;
    uint32_t count;
    FUZZ_CHECK(file != NULL);
    memcpy(file, data, size);
    jfs_checksum_record(file + size, file + HEADER_BYTES, HEADER_BYTES, (uint32_t)(size - HEADER_BYTES), &place);
    FUZZ_CHECK(jfs_scan_journal(file, options.stop_offset, &options, &scan) == JFS_OK && scan.count == 1);
    for (int changed = 0; changed < 2; changed++) {
        FUZZ_CHECK(jfs_checksum_check(file, options.stop_offset, scan.records, 1, file_id, &found, 1, &count,
                                      &summary) == JFS_OK);
        FUZZ_CHECK(count == (uint32_t)changed && summary.checked == !changed);
        file[size - 1] ^= 1;
    }
    jfs_scan_free(&scan);
    free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    jfs_scan_options options = {.start_offset = HEADER_BYTES, .stop_offset = size, .version = 2};
    jfs_mismatch found[MISMATCHES_MAX];
    jfs_checksum_summary summary;
    jfs_scan scan;
    uint32_t count;
    if (size <= HEADER_BYTES) return 0;
    const int64_t file_id = fuzz_u32(data + 12) & 0x7fffffffU;
    options.rid = (int32_t)file_id;
    FUZZ_CHECK(jfs_scan_journal(data, size, &options, &scan) == JFS_OK);
    const jfs_status status = jfs_checksum_check(data, size, scan.records, scan.count, file_id, found, MISMATCHES_MAX,
                                                 &count, &summary);
    FUZZ_CHECK(status == (count > MISMATCHES_MAX ? JFS_FULL : JFS_OK));
    FUZZ_CHECK((uint64_t)count + summary.checked <= scan.count);
    check_mismatches(found, count, size);
    jfs_scan_free(&scan);
    check_own(data, size, file_id);
    return 0;
}
