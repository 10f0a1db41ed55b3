/* Copies of messages, from memory of exactly their size: whole ones, and such as were cut anywhere. */
#include "jfs_stage_copies.h"
#include "text_message.h"
#include "texts.h"

enum { BUFFER_BYTES = 8192 };

/* Three properties: one of the sender's, and two notes that are made anew. */
static const char PROPERTIES[] = "\1\0\0\0\3"
                                 "\0\0\0\2n\0\6\0\0\0\7"
                                 "\0\0\0\x28_\0A\0M\0Q\0_\0O\0R\0I\0G\0_\0M\0E\0S\0S\0A\0G\0E\0_\0I\0D\0\7"
                                 "\0\0\0\0\0\0\0\5"
                                 "\0\0\0\x1e_\0A\0M\0Q\0_\0O\0R\0I\0G\0_\0Q\0U\0E\0U\0E\0\n\0\0\0\2q\0";

typedef struct {
    uint8_t *payload, *address, *name;
    uint32_t payload_bytes;
    jfs_copies copies;
} message;

static message message_make(void) {
    message made;
    texts source = texts_make();
    uint8_t payload[1000];
    free(source.properties);
    source.properties = exactly(PROPERTIES, sizeof PROPERTIES - 1);
    source.batch.properties = source.properties;
    source.batch.properties_bytes = sizeof PROPERTIES - 1;
    made.payload_bytes = text_message_put(&source.batch, source.source, &source.lines[7], 7, payload);
    made.payload = exactly(payload, made.payload_bytes);
    texts_free(&source);
    made.address = exactly("\1\0\0\0\4t\0o\0", 9);
    made.name = exactly("\0\0\0\2q\0", 6);
    made.copies = (jfs_copies){.address = made.address, .address_bytes = 9, .queue_name = made.name,
                               .queue_name_bytes = 6, .queue = 3, .tx_id = 9, .body_bytes_max = 500,
                               .message_bytes_max = 5000};
    return made;
}

static void message_free(message *made) {
    free(made->payload);
    free(made->address);
    free(made->name);
}

static jfs_line line_of(const uint8_t *payload, uint32_t bytes) {
    return (jfs_line){.payload = payload, .payload_bytes = bytes};
}

static jfs_status stage_one(const jfs_copies *copies, const jfs_line *line, uint64_t *used_bytes) {
    static const int64_t id = 5;
    jfs_batch_progress progress = {0};
    jfs_ledger *ledger;
    jfs_stage *stage;
    jfs_status status;
    uint32_t slot;
    CHECK_EQ(jfs_ledger_new(&ledger), JFS_OK);
    CHECK_EQ(jfs_stage_new(&stage, BUFFER_BYTES), JFS_OK);
    CHECK_EQ(jfs_ledger_add_file(ledger, &slot), JFS_OK);
    jfs_stage_begin(stage, slot, 1, 0, BUFFER_BYTES);
    status = jfs_stage_copies(stage, ledger, copies, line, &id, 1, 1000, &progress);
    CHECK_EQ(progress.records, status == JFS_OK ? 2 : 0);
    CHECK_EQ(stage->record_count, progress.records);
    *used_bytes = stage->used_bytes;
    jfs_stage_free(stage);
    CHECK_WHOLE(jfs_ledger_check(ledger));
    jfs_ledger_free(ledger);
    return status;
}

static void a_whole_one_is_copied(void) {
    message made = message_make();
    const jfs_line line = line_of(made.payload, made.payload_bytes);
    uint64_t used_bytes;
    uint32_t alike;
    int possible;
    CHECK_EQ(jfs_copies_alike(&made.copies, &line, 1, &possible, &alike), JFS_OK);
    CHECK(possible && alike == 1);
    CHECK_EQ(stage_one(&made.copies, &line, &used_bytes), JFS_OK);
    /* The address is there twice, each time longer by a letter, and once more in the note that was missing. */
    CHECK_EQ(used_bytes, jfs_record_bytes(JFS_ADD_TX, made.payload_bytes + 4 + 4 + 34 + 1 + 6) +
                             jfs_record_bytes(JFS_UPDATE_TX, 8));
    message_free(&made);
}

static void one_that_was_cut_is_not(void) {
    message made = message_make();
    for (uint32_t bytes = 0; bytes < made.payload_bytes; bytes++) {
        uint8_t *const cut = exactly(made.payload, bytes);
        const jfs_line line = line_of(cut, bytes);
        uint64_t used_bytes;
        uint32_t alike;
        int possible;
        CHECK_EQ(jfs_copies_alike(&made.copies, &line, 1, &possible, &alike), JFS_OK);
        CHECK(!possible && alike == 1);
        CHECK_EQ(stage_one(&made.copies, &line, &used_bytes), JFS_MALFORMED);
        free(cut);
    }
    message_free(&made);
}

static void one_of_which_bits_were_lost_does_no_harm(void) {
    message made = message_make();
    for (uint32_t at = 0; at < made.payload_bytes; at++) {
        for (int bit = 0; bit < 8; bit++) {
            const jfs_line line = line_of(made.payload, made.payload_bytes);
            uint64_t used_bytes;
            uint32_t alike;
            int possible;
            jfs_status status;
            made.payload[at] ^= (uint8_t)(1 << bit);
            CHECK_EQ(jfs_copies_alike(&made.copies, &line, 1, &possible, &alike), JFS_OK);
            status = stage_one(&made.copies, &line, &used_bytes);
            CHECK(status == JFS_OK || (!possible && status == JFS_MALFORMED));
            made.payload[at] ^= (uint8_t)(1 << bit);
        }
    }
    message_free(&made);
}

int main(void) {
    RUN(a_whole_one_is_copied);
    RUN(one_that_was_cut_is_not);
    RUN(one_of_which_bits_were_lost_does_no_harm);
    return 0;
}
