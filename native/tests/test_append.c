/* Staging, the ledger and the writing thread, under the sanitizers. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <unistd.h>

#include "check.h"
#include "jfs_io.h"
#include "jfs_scan.h"
#include "jfs_stage.h"

enum { BUFFER_BYTES = 8192, RECORDS = 20000 };

typedef struct {
    jfs_ledger *ledger;
    jfs_stage *stage;
    uint32_t slot;
} journal;

static journal journal_new(void) {
    journal made = {0};
    CHECK_EQ(jfs_ledger_new(&made.ledger), JFS_OK);
    CHECK_EQ(jfs_stage_new(&made.stage, BUFFER_BYTES), JFS_OK);
    CHECK_EQ(jfs_ledger_add_file(made.ledger, &made.slot), JFS_OK);
    jfs_stage_begin(made.stage, made.slot, 1, 16, BUFFER_BYTES);
    return made;
}

static void journal_free(journal *it) {
    jfs_stage_free(it->stage);
    CHECK_WHOLE(jfs_ledger_check(it->ledger));
    jfs_ledger_free(it->ledger);
}

static jfs_status put(journal *it, uint8_t kind, int64_t tx_id, int64_t record_id) {
    static const uint8_t body[3] = {1, 2, 3};
    jfs_status status = jfs_stage_one(it->stage, it->ledger, kind, tx_id, record_id, 45, body, sizeof body);
    if (status != JFS_FULL) return status;
    CHECK_EQ(jfs_ledger_add_file(it->ledger, &it->slot), JFS_OK);
    jfs_stage_begin(it->stage, it->slot, (int32_t)it->slot + 1, 16, BUFFER_BYTES);
    return jfs_stage_one(it->stage, it->ledger, kind, tx_id, record_id, 45, body, sizeof body);
}

static uint64_t live(const journal *it) {
    jfs_ledger_counts counts;
    jfs_ledger_totals(it->ledger, &counts);
    return counts.live_records;
}

static void a_buffer_scans_as_it_was_staged(void) {
    journal it = journal_new();
    uint8_t *const file = calloc(1, BUFFER_BYTES + 16);
    jfs_scan found;
    uint64_t length;
    for (int64_t id = 1; id <= 50; id++) CHECK_EQ(put(&it, JFS_ADD_TX, 7, id), JFS_OK);
    CHECK_EQ(put(&it, JFS_PREPARE, 7, 0), JFS_OK);
    CHECK_EQ(put(&it, JFS_COMMIT, 7, 0), JFS_OK);
    CHECK_EQ(jfs_stage_seal(it.stage, 2 * it.stage->buffer_bytes), 0);
    length = jfs_stage_seal(it.stage, 512);
    CHECK_EQ(length % 512, 0);
    memcpy(file + 16, it.stage->bytes, length);
    const jfs_scan_options options = {16, 16 + length, 1, 2, 0};
    CHECK_EQ(jfs_scan_journal(file, BUFFER_BYTES + 16, &options, &found), JFS_OK);
    CHECK_EQ(found.count, 52);
    CHECK(memcmp(found.records, it.stage->records, found.count * sizeof *found.records) == 0);
    CHECK_EQ(found.records[51].count, 50);
    jfs_scan_free(&found);
    free(file);
    journal_free(&it);
}

static void ids_come_and_go_in_any_order(void) {
    journal it = journal_new();
    uint64_t random = 4411, expected = 0;
    uint8_t *const there = calloc(RECORDS, 1);
    for (uint32_t step = 0; step < RECORDS * 4; step++) {
        random = random * 6364136223846793005ULL + 1442695040888963407ULL;
        const int64_t id = (int64_t)((random >> 33) % RECORDS);
        const int del = (random >> 20) & 1;
        const jfs_status status = put(&it, del ? JFS_DELETE : JFS_ADD, 0, id);
        CHECK_EQ(status, del ? (there[id] ? JFS_OK : JFS_ABSENT) : (there[id] ? JFS_EXISTS : JFS_OK));
        if (status == JFS_OK && !del && (random >> 21) % 3) CHECK_EQ(put(&it, JFS_UPDATE, 0, id), JFS_OK);
        if (status == JFS_OK) expected += del ? (uint64_t)-1 : 1;
        if (status == JFS_OK) there[id] = !del;
    }
    CHECK_EQ(live(&it), expected);
    free(there);
    journal_free(&it);
}

static void transactions_take_back_what_they_claimed(void) {
    journal it = journal_new();
    CHECK_EQ(put(&it, JFS_ADD, 0, 1), JFS_OK);
    for (int64_t tx = 10; tx < 200; tx++) {
        CHECK_EQ(put(&it, JFS_ADD_TX, tx, tx * 100), JFS_OK);
        CHECK_EQ(put(&it, JFS_UPDATE_TX, tx, tx * 100), JFS_OK);
        CHECK_EQ(put(&it, JFS_UPDATE_TX, tx, 1), JFS_OK);
    }
    CHECK_EQ(put(&it, JFS_DELETE, 0, 1), JFS_HELD);
    for (int64_t tx = 10; tx < 200; tx++) CHECK_EQ(put(&it, tx % 2 ? JFS_COMMIT : JFS_ROLLBACK, tx, 0), JFS_OK);
    CHECK_EQ(live(&it), 1 + 95);
    CHECK_EQ(put(&it, JFS_DELETE, 0, 1), JFS_OK);
    CHECK_EQ(put(&it, JFS_UPDATE, 0, 10 * 100), JFS_ABSENT);
    CHECK_EQ(live(&it), 95);
    journal_free(&it);
}

static void written(int kind) {
    char name[] = "/tmp/jfs-append-XXXXXX";
    const int fd = mkstemp(name);
    uint8_t *const block = aligned_alloc(4096, 4096), *map = NULL, *const again = calloc(1, 4096);
    jfs_io *io;
    jfs_io_done done[4];
    uint64_t took_ns = 0;
    uint32_t count = 0, all = 0;
    int error;
    CHECK(fd >= 0 && block != NULL && again != NULL);
    memset(block, 7, 4096);
    CHECK_EQ(jfs_file_fill(fd, 65536, 4096, 1, &error), JFS_OK);
    if (kind == JFS_IO_MAPPED) CHECK_EQ(jfs_file_map(fd, 65536, &map, &error), JFS_OK);
    CHECK_EQ(jfs_io_open(&io, kind, 4, &error), JFS_OK);
    for (uint64_t i = 0; i < 4; i++) {
        CHECK_EQ(jfs_io_submit(io, fd, map, i * 8192, block, 4096, 1, i, &error), JFS_OK);
    }
    CHECK_EQ(jfs_io_submit(io, fd, map, 0, block, 4096, 1, 9, &error), JFS_FULL);
    CHECK_EQ(jfs_io_perform(io, fd, map, 0, block, 4096, 1, &took_ns, &error), JFS_FULL);
    while (all < 4) {
        CHECK_EQ(jfs_io_wait(io, 1000000000, done, 4, &count, &error), JFS_OK);
        for (uint32_t i = 0; i < count; i++) {
            CHECK_EQ(done[i].error, 0);
            CHECK_EQ(done[i].took_ns > 0, kind != JFS_IO_AIO);
        }
        all += count;
    }
    CHECK_EQ(jfs_io_perform(io, fd, map, 4096, block, 4096, 1, &took_ns, &error), JFS_OK);
    CHECK(took_ns > 0);
    CHECK_EQ(pread(fd, again, 4096, 3 * 8192), 4096);
    CHECK(memcmp(block, again, 4096) == 0);
    jfs_io_close(io);
    jfs_file_unmap(map, 65536);
    close(fd);
    unlink(name);
    free(again);
    free(block);
}

static void writes_arrive(void) {
    written(JFS_IO_NIO);
    written(JFS_IO_MAPPED);
    written(JFS_IO_AIO);
}

int main(void) {
    RUN(a_buffer_scans_as_it_was_staged);
    RUN(ids_come_and_go_in_any_order);
    RUN(transactions_take_back_what_they_claimed);
    RUN(writes_arrive);
    return 0;
}
