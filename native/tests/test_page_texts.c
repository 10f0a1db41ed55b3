/* Texts that become records of pages, from memory of exactly their size and into buffers of any. */
#include "jfs_page.h"
#include "jfs_page_texts.h"
#include "texts.h"

enum { PAGE_BYTES = 3000 };

/* A scan finds what was made; returns how many records it were. */
static uint32_t check_records(const uint8_t *records, uint64_t length, int64_t first_id) {
    jfs_page found;
    CHECK_EQ(jfs_scan_page(records, length, 0, NULL, 0, &found), JFS_OK);
    CHECK_EQ(found.end_offset, length);
    CHECK(found.damaged_at == JFS_PAGE_WHOLE);
    for (uint32_t i = 0; i < found.count; i++) {
        CHECK_EQ(found.entries[i].flags, 0);
        CHECK_EQ(found.entries[i].tx_id, 9);
        CHECK_EQ(found.entries[i].queue_count, 3);
        CHECK_EQ(found.measures[i].message_id, first_id + i);
    }
    const uint32_t count = found.count;
    jfs_page_free(&found);
    return count;
}

static void make_all(uint64_t buffer_bytes) {
    texts made = texts_make();
    jfs_batch_progress progress = {0};
    jfs_page_room room = {malloc(buffer_bytes), buffer_bytes, 0, PAGE_BYTES, 0};
    uint32_t records = 0, pages = 1;
    jfs_status status;
    CHECK(!jfs_texts_too_long(&made.batch, made.lines, TEXTS));
    do {
        uint64_t used;
        status = jfs_page_texts(&room, &made.batch, made.source, made.lines, TEXTS, &progress, &used);
        CHECK(status == JFS_OK || status == JFS_FULL);
        CHECK(used <= room.buffer_bytes);
        CHECK(room.page_records == 0 || room.page_bytes + used <= PAGE_BYTES);
        CHECK_EQ(check_records(room.buffer, used, 100 + records), progress.records);
        records += (uint32_t)progress.records;
        room.page_bytes += used;
        room.page_records += progress.records;
        if (status != JFS_FULL) continue;
        if (progress.needed_bytes == 0) {
            room.page_bytes = room.page_records = 0;
            pages++;
        } else if (progress.records == 0) {
            free(room.buffer);
            room.buffer = malloc(progress.needed_bytes);
            room.buffer_bytes = progress.needed_bytes;
        }
    } while (status == JFS_FULL);
    CHECK_EQ(records, TEXTS);
    CHECK(pages > 1);
    free(room.buffer);
    texts_free(&made);
}

static void texts_go_on_wherever_a_buffer_ends(void) {
    for (uint64_t buffer_bytes = 1; buffer_bytes < 2000; buffer_bytes += 37) make_all(buffer_bytes);
    make_all(100000);
}

int main(void) {
    RUN(texts_go_on_wherever_a_buffer_ends);
    return 0;
}
