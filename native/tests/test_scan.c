/* The scan against files made by hand: layouts, damage of every sort, and what it says of gaps. */
#include "journal_maker.h"

static const uint8_t body[40] = {7, 1, 2, 3};

static void put_every_kind(journal *j, uint32_t *offsets) {
    offsets[0] = put_add(j, JFS_EVENT, 77, 49, body, 10);
    offsets[1] = put_add(j, JFS_ADD, 24, 45, body, 40);
    offsets[2] = put_add(j, JFS_UPDATE, 24, 32, body, 8);
    offsets[3] = put_add_tx(j, JFS_ADD_TX, 38, 25, 45, body, 0);
    offsets[4] = put_add_tx(j, JFS_UPDATE_TX, 38, 24, -5, body, 8);
    offsets[5] = put_add_tx(j, JFS_DELETE_TX, 100, 3, 0, body, 9);
    offsets[6] = put_delete(j, 24);
    offsets[7] = put_prepare(j, 67, 2, body, 19);
    offsets[8] = put_commit(j, 44, 6);
    offsets[9] = put_rollback(j, 49);
}

static void finds_every_kind(void) {
    static const uint32_t lengths[] = {33, 63, 31, 31, 39, 39, 18, 45, 22, 18}; /* format version 2 */
    for (uint8_t version = 1; version <= 2; version++) {
        uint32_t offsets[10];
        journal j;
        jfs_scan scan;
        journal_open(&j, version, 5);
        put_every_kind(&j, offsets);
        scan = journal_scan(&j, JOURNAL_BYTES, 0);
        CHECK_EQ(scan.count, 10);
        CHECK_EQ(scan.gap_count, 0);
        CHECK_EQ(scan.end_offset, j.size);
        for (uint32_t i = 0; i < 10; i++) {
            CHECK_EQ(scan.records[i].kind, JFS_EVENT + i);
            CHECK_EQ(scan.records[i].offset, offsets[i]);
            CHECK_EQ(scan.records[i].length, lengths[i] - (version == 1));
            CHECK_EQ(scan.records[i].flags, 0);
        }
        CHECK_EQ(scan.records[4].user_type, -5);
        CHECK_EQ(scan.records[4].tx_id, 38);
        CHECK_EQ(scan.records[4].record_id, 24);
        CHECK_EQ(scan.records[1].body_bytes, 40);
        CHECK_EQ(j.bytes[scan.records[1].body_offset], 7);
        CHECK_EQ(scan.records[7].count, 2);
        CHECK_EQ(scan.records[7].body_bytes, 19);
        CHECK_EQ(scan.records[8].count, 6);
        jfs_scan_free(&scan);
        journal_close(&j);
    }
}

static void takes_other_lives_only_when_asked(void) {
    journal j;
    jfs_scan scan;
    journal_open(&j, 2, 9);
    put_commit(&j, 1, 0);
    j.rid = 8;
    put_commit(&j, 2, 0);
    j.rid = 9;
    scan = journal_scan(&j, JOURNAL_BYTES, 0);
    CHECK_EQ(scan.count, 1);
    CHECK_EQ(scan.gap_count, 1);
    CHECK_EQ(scan.gaps[0].kind, JFS_GAP_STALE);
    jfs_scan_free(&scan);
    scan = journal_scan(&j, JOURNAL_BYTES, JFS_SCAN_ANY_RID);
    CHECK_EQ(scan.count, 2);
    jfs_scan_free(&scan);
    journal_close(&j);
}

/* Cut at every byte: whole records are found, the cut one is told from free space. */
static void survives_every_cut(void) {
    uint32_t offsets[11];
    journal j;
    journal_open(&j, 2, 5);
    put_every_kind(&j, offsets);
    offsets[10] = j.size;
    for (uint32_t cut = 16; cut < j.size; cut++) {
        uint32_t whole = 0;
        journal short_file;
        jfs_scan scan;
        journal_open(&short_file, 2, 5);
        memcpy(short_file.bytes, j.bytes, cut);
        scan = journal_scan(&short_file, JOURNAL_BYTES, 0);
        while (offsets[whole + 1] <= cut) whole++;
        /* A check size ends in a byte that is not 0, so a cut record never passes. */
        CHECK_EQ(scan.count, whole);
        CHECK_EQ(scan.end_offset, offsets[whole]);
        CHECK_EQ(scan.gap_count, cut > offsets[whole]);
        if (scan.gap_count == 1) CHECK_EQ(scan.gaps[0].kind, JFS_GAP_TORN);
        jfs_scan_free(&scan);
        scan = journal_scan(&short_file, cut, 0);
        CHECK_EQ(scan.count, whole);
        jfs_scan_free(&scan);
        journal_close(&short_file);
    }
    journal_close(&j);
}

/* One bit flipped anywhere: at most that record is lost, all others are found. */
static void survives_every_flip(void) {
    uint32_t offsets[11];
    journal j;
    journal_open(&j, 2, 5);
    put_every_kind(&j, offsets);
    offsets[10] = j.size;
    for (uint32_t at = 16; at < j.size; at++) {
        for (uint32_t bit = 0; bit < 8; bit++) {
            uint32_t hit = 0, found = 0;
            jfs_scan scan;
            j.bytes[at] ^= (uint8_t)(1U << bit);
            scan = journal_scan(&j, JOURNAL_BYTES, 0);
            while (offsets[hit + 1] <= at) hit++;
            for (uint32_t i = 0; i < scan.count; i++) {
                for (uint32_t k = 0; k < 10; k++) found += k != hit && scan.records[i].offset == offsets[k];
            }
            CHECK_EQ(found, 9);
            jfs_scan_free(&scan);
            j.bytes[at] ^= (uint8_t)(1U << bit);
        }
    }
    journal_close(&j);
}

static void warns_of_a_record_inside_a_damaged_one(void) {
    journal j, inner;
    uint32_t at;
    jfs_scan scan;
    journal_open(&inner, 2, 5);
    inner.size = 0;
    put_commit(&inner, 666, 0);
    journal_open(&j, 2, 5);
    put_commit(&j, 1, 0);
    at = put_add(&j, JFS_ADD, 24, 45, inner.bytes, inner.size);
    put_commit(&j, 2, 0);
    j.bytes[at + 23 + inner.size - 1] ^= 1; /* its check size */
    scan = journal_scan(&j, JOURNAL_BYTES, 0);
    CHECK_EQ(scan.count, 3);
    CHECK_EQ(scan.records[1].tx_id, 666);
    CHECK_EQ(scan.records[1].flags, JFS_RECORD_IN_DAMAGE);
    CHECK_EQ(scan.records[2].flags, 0);
    CHECK_EQ(scan.gap_count, 2);
    CHECK_EQ(scan.gaps[0].kind, JFS_GAP_GARBAGE);
    CHECK_EQ(scan.gaps[0].offset, at);
    jfs_scan_free(&scan);
    journal_close(&j);
    journal_close(&inner);
}

static void tells_gaps_apart(void) {
    journal j;
    jfs_scan scan;
    journal_open(&j, 2, 5);
    j.size = 4096; /* the header owns a block */
    put_commit(&j, 1, 0);
    j.size = 8192;
    put_commit(&j, 2, 0);
    j.size += 100; /* zeros that end at no block */
    put_commit(&j, 3, 0);
    j.size += 8192; /* zeros of whole blocks */
    j.size &= ~4095U;
    put_commit(&j, 4, 0);
    memset(j.bytes + j.size, 0xee, 50);
    j.size += 50;
    put_commit(&j, 5, 0);
    memset(j.bytes + j.size, 0xee, 70);
    scan = journal_scan(&j, JOURNAL_BYTES, 0);
    CHECK_EQ(scan.count, 5);
    CHECK_EQ(scan.gap_count, 6);
    CHECK_EQ(scan.gaps[0].kind, JFS_GAP_PADDING);
    CHECK_EQ(scan.gaps[1].kind, JFS_GAP_PADDING);
    CHECK_EQ(scan.gaps[2].kind, JFS_GAP_ZEROED);
    CHECK_EQ(scan.gaps[2].length, 100);
    CHECK_EQ(scan.gaps[3].kind, JFS_GAP_ZEROED);
    CHECK_EQ(scan.gaps[4].kind, JFS_GAP_GARBAGE);
    CHECK_EQ(scan.gaps[4].length, 50);
    CHECK_EQ(scan.gaps[5].kind, JFS_GAP_STALE);
    CHECK_EQ(scan.gaps[5].length, 70);
    jfs_scan_free(&scan);
    journal_close(&j);
}

/* A negative length is damage even where the check size agrees with it. */
static void refuses_negative_lengths(void) {
    journal j;
    jfs_scan scan;
    uint32_t at;
    journal_open(&j, 2, 5);
    at = record_open(&j, JFS_PREPARE);
    put_number(&j, 67, 8);
    put_number(&j, 0, 4);
    put_number(&j, -4, 4);
    put_number(&j, j.size + 4 - at - 4, 4);
    at = record_open(&j, JFS_ADD);
    put_number(&j, 67, 8);
    put_number(&j, INT32_MIN, 4);
    put_u8(&j, 45);
    put_number(&j, 23, 4);
    scan = journal_scan(&j, JOURNAL_BYTES, 0);
    CHECK_EQ(scan.count, 0);
    CHECK_EQ(scan.end_offset, 16);
    jfs_scan_free(&scan);
    journal_close(&j);
}

/* What makes a file a data file though no record is valid (the broker then keeps it). */
static void marks_as_the_broker_does(void) {
    static const struct {
        uint8_t bytes[32];
        uint32_t size;
        uint8_t marked;
    } cases[] = {
        {{12, 0, 0}, 3, 1},                                    /* the file id overruns */
        {{12, 0, 0, 0, 6}, 5, 0},                              /* another file's */
        {{12, 0, 0, 0, 5}, 5, 1},                              /* the compact count overruns */
        {{19, 0, 0, 0, 5, 0, 0, 0}, 8, 1},                     /* the transaction id overruns */
        {{11, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0}, 15, 1}, /* the body length overruns */
        {{11, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2}, 18, 0}, /* the user type overruns */
        {{11, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 45, 1}, 20, 0}, /* the body overruns */
        {{18, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0}, 15, 0}, /* the count overruns */
        {{16, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 17}, 18, 1}, /* the check size is wrong */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        journal j;
        jfs_scan scan;
        journal_open(&j, 2, 5);
        memcpy(j.bytes + 16, cases[i].bytes, cases[i].size);
        scan = journal_scan(&j, 16 + cases[i].size, 0);
        CHECK_EQ(scan.count, 0);
        if (scan.marked != cases[i].marked) fprintf(stderr, "case %zu\n", i);
        CHECK_EQ(scan.marked, cases[i].marked);
        jfs_scan_free(&scan);
        journal_close(&j);
    }
}

static void refuses_ranges_outside_the_file(void) {
    const uint8_t bytes[32] = {0};
    jfs_scan_options options = {.start_offset = 16, .stop_offset = 33, .rid = 1, .version = 2};
    jfs_scan scan;
    CHECK_EQ(jfs_scan_journal(bytes, sizeof bytes, &options, &scan), JFS_RANGE);
    options.stop_offset = 15;
    CHECK_EQ(jfs_scan_journal(bytes, sizeof bytes, &options, &scan), JFS_RANGE);
    options.stop_offset = 16;
    CHECK_EQ(jfs_scan_journal(bytes, sizeof bytes, &options, &scan), JFS_OK);
    CHECK_EQ(scan.count, 0);
    jfs_scan_free(&scan);
}

int main(void) {
    RUN(finds_every_kind);
    RUN(takes_other_lives_only_when_asked);
    RUN(survives_every_cut);
    RUN(survives_every_flip);
    RUN(warns_of_a_record_inside_a_damaged_one);
    RUN(tells_gaps_apart);
    RUN(refuses_negative_lengths);
    RUN(marks_as_the_broker_does);
    RUN(refuses_ranges_outside_the_file);
    return 0;
}
