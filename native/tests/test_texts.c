/* Texts that are staged together, from memory of exactly their size and into buffers of any. */
#include "jfs_scan.h"
#include "texts.h"

enum { BUFFER_BYTES = 8192 };

static uint32_t references_of(const jfs_scan *found) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < found->count; i++) count += found->records[i].kind == JFS_UPDATE_TX;
    return count;
}

static void stage_all(uint64_t room_bytes) {
    texts made = texts_make();
    jfs_batch_progress progress = {0};
    jfs_ledger *ledger;
    jfs_stage *stage;
    uint32_t slot, adds = 0, references = 0;
    uint64_t records = 0;
    jfs_status status;
    CHECK_EQ(jfs_ledger_new(&ledger), JFS_OK);
    CHECK_EQ(jfs_stage_new(&stage, BUFFER_BYTES), JFS_OK);
    CHECK_EQ(jfs_ledger_add_file(ledger, &slot), JFS_OK);
    do {
        const jfs_scan_options options = {0, BUFFER_BYTES, 1, 2, 0};
        jfs_scan found;
        jfs_stage_begin(stage, slot, 1, 0, progress.needed_bytes > room_bytes ? progress.needed_bytes : room_bytes);
        status = jfs_stage_texts(stage, ledger, &made.batch, made.source, made.lines, TEXTS, &progress);
        CHECK(status == JFS_OK || status == JFS_FULL);
        CHECK(stage->used_bytes <= stage->room_bytes);
        memset(stage->bytes + stage->used_bytes, 0, BUFFER_BYTES - stage->used_bytes);
        CHECK_EQ(jfs_scan_journal(stage->bytes, BUFFER_BYTES, &options, &found), JFS_OK);
        CHECK_EQ(found.count, progress.records);
        CHECK_EQ(found.count, stage->record_count);
        records += progress.records;
        references += references_of(&found);
        adds += found.count - references_of(&found);
        jfs_scan_free(&found);
    } while (status == JFS_FULL);
    CHECK_EQ(adds, TEXTS);
    CHECK_EQ(references, TEXTS * 3);
    CHECK_EQ(records, TEXTS * 4);
    jfs_stage_free(stage);
    CHECK_WHOLE(jfs_ledger_check(ledger));
    jfs_ledger_free(ledger);
    texts_free(&made);
}

static void texts_go_on_wherever_a_buffer_ends(void) {
    for (uint64_t room_bytes = 0; room_bytes < 2000; room_bytes += 37) stage_all(room_bytes);
    stage_all(BUFFER_BYTES);
}

static void what_is_too_long_stages_nothing(void) {
    uint8_t *const source = exactly("0123456789", 10), *const address = exactly("\0", 1);
    const jfs_stretch line = {0, 10};
    jfs_text_batch batch = {.address = address, .address_bytes = 1, .properties = address, .properties_bytes = 1,
                            .every = every, .every_count = 1, .first_id = 1,
                            .body_bytes_max = 24, .record_bytes_max = 5000};
    jfs_batch_progress progress = {0};
    jfs_ledger *ledger;
    jfs_stage *stage;
    uint32_t slot;
    CHECK_EQ(jfs_ledger_new(&ledger), JFS_OK);
    CHECK_EQ(jfs_stage_new(&stage, BUFFER_BYTES), JFS_OK);
    CHECK_EQ(jfs_ledger_add_file(ledger, &slot), JFS_OK);
    jfs_stage_begin(stage, slot, 1, 0, BUFFER_BYTES);
    CHECK_EQ(jfs_stage_texts(stage, ledger, &batch, source, &line, 1, &progress), JFS_RANGE);
    CHECK_EQ(stage->record_count, 0);
    batch.body_bytes_max = 25;
    batch.record_bytes_max = 60;
    CHECK_EQ(jfs_stage_texts(stage, ledger, &batch, source, &line, 1, &progress), JFS_RANGE);
    batch.record_bytes_max = 5000;
    CHECK_EQ(jfs_stage_texts(stage, ledger, &batch, source, &line, 1, &progress), JFS_OK);
    CHECK_EQ(stage->record_count, 2);
    jfs_stage_free(stage);
    CHECK_WHOLE(jfs_ledger_check(ledger));
    jfs_ledger_free(ledger);
    free(source);
    free(address);
}

int main(void) {
    RUN(texts_go_on_wherever_a_buffer_ends);
    RUN(what_is_too_long_stages_nothing);
    return 0;
}
