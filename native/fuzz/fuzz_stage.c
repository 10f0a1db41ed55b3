/* Fuzz target: staging records and text messages for a journal file, and reading back what would be written.
 *
 * Input: steps. Each begins with a kind (u8): a record kind, then transaction (u8), record (u8), user type (u8), the
 * body's length (u8) and the body; or TEXTS, then how many queues get each (u8, low bits) or one of them (high bits),
 * transaction (u8), length (u8) and so many bytes, cut into texts at their line feeds; or SEAL, which ends a flush.
 */
#include "fuzz.h"
#include "jfs_checksum.h"
#include "jfs_stage_texts.h"

enum { TEXTS = 1, SEAL = 2, BUFFER_BYTES = 8192, FILE_BYTES = 65536, HEADER_BYTES = 16, LINES_MAX = 256, FILE_ID = 7 };

typedef struct {
    jfs_stage *stage;
    jfs_ledger *ledger;
    uint8_t *file;
    uint64_t written;   /* of the file, header included */
    uint64_t staged;    /* records of all flushes */
    uint64_t checksums;
    int64_t next_id;
} job;

static void begin(job *j) {
    jfs_stage_begin(j->stage, 0, FILE_ID, j->written, FILE_BYTES - JFS_CHECKSUM_RECORD_BYTES - j->written);
}

/* What was staged goes to the file with a checksum behind it. False: the file is full. */
static int flush(job *j) {
    const jfs_checksum_place place = {.file_id = FILE_ID};
    uint64_t bytes;
    if (j->stage->used_bytes > 0 && jfs_stage_checksum(j->stage, &place) == JFS_OK) j->checksums++;
    j->staged += j->stage->record_count;
    bytes = jfs_stage_seal(j->stage, 1);
    FUZZ_CHECK(bytes == j->stage->used_bytes && j->written + bytes <= FILE_BYTES);
    memcpy(j->file + j->written, j->stage->bytes, bytes);
    j->written += bytes;
    if (FILE_BYTES - j->written < 2 * JFS_CHECKSUM_RECORD_BYTES) return 0;
    begin(j);
    return 1;
}

static int stage_record(job *j, const uint8_t *data, size_t size, size_t *used) {
    const uint32_t length = data[4] < size - 5 ? data[4] : (uint32_t)(size - 5);
    const uint64_t before = j->stage->used_bytes;
    const jfs_status status =
        jfs_stage_one(j->stage, j->ledger, data[0], data[1], data[2], (int8_t)data[3], data + 5, length);
    FUZZ_CHECK(status != JFS_NO_MEMORY && status != JFS_RANGE);
    if (status != JFS_OK) FUZZ_CHECK(j->stage->used_bytes == before);
    *used = 5 + (size_t)length;
    return status != JFS_FULL || flush(j);
}

static int stage_texts(job *j, const uint8_t *data, size_t size, size_t *used) {
    static const uint8_t address[] = {1, 0, 0, 0, 2, 'a', 0}, properties[] = {0};
    static const int64_t queues[] = {21, 22, 23, 24};
    const uint32_t length = data[3] < size - 4 ? data[3] : (uint32_t)(size - 4);
    jfs_stretch texts[LINES_MAX];
    jfs_batch_progress progress = {0};
    jfs_text_batch batch = {.address = address,
                            .properties = properties,
                            .every = queues,
                            .in_turn = queues,
                            .first_id = j->next_id,
                            .tx_id = data[2],
                            .address_bytes = sizeof address,
                            .properties_bytes = sizeof properties,
                            .every_count = data[1] & 3,
                            .in_turn_count = data[1] >> 4 & 3,
                            .body_bytes_max = 1000,
                            .record_bytes_max = 2000};
    uint64_t count;
    jfs_status status;
    FUZZ_CHECK(jfs_split_lines(data + 4, length, texts, LINES_MAX, &count) == JFS_OK);
    *used = 4 + (size_t)length;
    j->next_id += (int64_t)count;
    while ((status = jfs_stage_texts(j->stage, j->ledger, &batch, data + 4, texts, (uint32_t)count, &progress)) ==
           JFS_FULL) {
        FUZZ_CHECK(progress.needed_bytes > j->stage->room_bytes - j->stage->used_bytes);
        if (j->stage->used_bytes == 0) return 0; /* longer than what is left of the file */
        if (!flush(j)) return 0;
    }
    FUZZ_CHECK(status != JFS_NO_MEMORY && (status != JFS_OK || progress.message == count));
    return 1;
}

static void take_steps(job *j, const uint8_t *data, size_t size) {
    size_t used = 0;
    int goes_on = 1;
    while (goes_on && size > 5) {
        switch (data[0]) {
        case TEXTS: goes_on = stage_texts(j, data, size, &used); break;
        case SEAL:
            goes_on = flush(j);
            used = 1;
            break;
        default: goes_on = stage_record(j, data, size, &used);
        }
        FUZZ_WHOLE(jfs_ledger_check(j->ledger));
        FUZZ_WHOLE(jfs_stage_check(j->stage));
        data += used;
        size -= used;
    }
    if (goes_on) flush(j);
}

/* All that was staged is found again, and is what the checksums say. */
static void read_back(const job *j) {
    const jfs_scan_options options = {
        .start_offset = HEADER_BYTES, .stop_offset = j->written, .rid = FILE_ID, .version = 2};
    jfs_checksum_summary summary;
    jfs_mismatch found;
    jfs_scan scan;
    uint32_t count;
    FUZZ_CHECK(jfs_scan_journal(j->file, j->written, &options, &scan) == JFS_OK);
    FUZZ_CHECK(scan.count == j->staged + j->checksums && scan.gap_count == 0 && scan.end_offset == j->written);
    FUZZ_CHECK(jfs_checksum_check(j->file, j->written, scan.records, scan.count, FILE_ID, &found, 1, &count,
                                  &summary) <= JFS_FULL);
    FUZZ_CHECK(summary.checked >= j->checksums);
    jfs_scan_free(&scan);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    job j = {.written = HEADER_BYTES, .next_id = 1000};
    uint32_t slot;
    FUZZ_CHECK(jfs_stage_new(&j.stage, BUFFER_BYTES) == JFS_OK && jfs_ledger_new(&j.ledger) == JFS_OK);
    FUZZ_CHECK(jfs_ledger_add_file(j.ledger, &slot) == JFS_OK && slot == 0);
    j.file = calloc(1, FILE_BYTES);
    FUZZ_CHECK(j.file != NULL);
    begin(&j);
    take_steps(&j, data, size);
    read_back(&j);
    free(j.file);
    FUZZ_WHOLE(jfs_ledger_check(j.ledger));
    FUZZ_WHOLE(jfs_stage_check(j.stage));
    jfs_ledger_free(j.ledger);
    jfs_stage_free(j.stage);
    return 0;
}
