/* Fuzz target: what older stores are made of, written anew.
 *
 * Input: what it is (u8), flags (u8), then a file: a journal of KahaDB (0) or a data log of an AMQ Message Store (1), a
 * journal file (2), a page (3), messages of ActiveMQ 5 one behind the other, each with its length (u16) before it (4), or
 * rows of a table (5): kind, user type, transaction, id and length (u8 each), and so many bytes; or such rows as
 * PostgreSQL copies them (6).
 */
#include "fuzz.h"
#include "jfs_openwire.h"
#include "jfs_replay.h"

enum { KAHADB, AMQ, JOURNAL, PAGE, MESSAGES, TABLE, COPIED, WHAT_COUNT, ROWS = 8, MESSAGES_MAX = 64, RID = 7, HEADER_BYTES = 16 };

static const uint8_t ADDRESS[] = {1, 0, 0, 0, 2, 'a', 0};
static const uint32_t ADDRESS_STARTS[] = {0, sizeof ADDRESS};
static const int64_t QUEUES[] = {21, 22};

typedef struct {
    uint64_t offset[MESSAGES_MAX];
    uint32_t length[MESSAGES_MAX];
    uint32_t count;
} places;

/* What was made are records that are found again, three of each message at least. */
static void read_back(const jfs_older_out *out) {
    const jfs_scan_options options = {
        .start_offset = HEADER_BYTES, .stop_offset = HEADER_BYTES + out->whole, .rid = RID, .version = 2};
    uint8_t *file = calloc(1, HEADER_BYTES + out->whole + 1);
    jfs_scan scan;
    FUZZ_CHECK(file != NULL);
    if (out->whole > 0) memcpy(file + HEADER_BYTES, out->bytes, out->whole);
    FUZZ_CHECK(jfs_scan_journal(file, HEADER_BYTES + out->whole, &options, &scan) == JFS_OK);
    FUZZ_CHECK(scan.gap_count == 0 && scan.end_offset == HEADER_BYTES + out->whole);
    FUZZ_CHECK(scan.count >= 3 * out->messages);
    jfs_scan_free(&scan);
    free(file);
}

static void make_records(const uint8_t *data, size_t size, const places *found, uint8_t layout, uint8_t flags) {
    uint32_t none[MESSAGES_MAX] = {0}, starts[MESSAGES_MAX + 1];
    const uint8_t *const files[] = {data};
    const uint64_t sizes[] = {size};
    for (uint32_t i = 0; i <= found->count; i++) starts[i] = 2 * i;
    int64_t queues[2 * MESSAGES_MAX];
    for (uint32_t i = 0; i < 2 * found->count; i++) queues[i] = QUEUES[i & 1];
    const jfs_openwire_batch batch = {.files = files,
                                      .file_bytes = sizes,
                                      .file_count = 1,
                                      .count = found->count,
                                      .file = none,
                                      .offset = found->offset,
                                      .length = found->length,
                                      .address = none,
                                      .addresses = ADDRESS,
                                      .address_starts = ADDRESS_STARTS,
                                      .address_count = 1,
                                      .starts = starts,
                                      .queues = queues,
                                      .queue_count = 2 * found->count,
                                      .layout = layout,
                                      .topic = flags & 1,
                                      .rid = RID,
                                      .room_bytes = flags & 2 ? 2000 : 1 << 20,
                                      .body_bytes_max = flags & 4 ? 100 : 1 << 18};
    jfs_openwire_progress progress = {0, 1000};
    while (progress.next < found->count) {
        jfs_older_out out = {0};
        FUZZ_CHECK(jfs_openwire_records(&batch, &progress, &out) == JFS_OK);
        FUZZ_CHECK(out.whole <= batch.room_bytes);
        read_back(&out);
        jfs_older_free(&out);
        progress.next++;
    }
}

static int lies_within(jfs_replay_span span, size_t size) { return span.at <= size && span.bytes <= size - span.at; }

static void replay(const uint8_t *data, size_t size, uint8_t what, uint8_t flags) {
    places whole = {.count = 0}, bare = {.count = 0};
    uint64_t at = 0;
    while (at < size) {
        jfs_replay_row rows[ROWS];
        uint32_t count;
        const uint64_t before = at;
        FUZZ_CHECK((what == KAHADB ? jfs_replay_kahadb : jfs_replay_amq)(data, size, &at, rows, ROWS, &count) == JFS_OK);
        FUZZ_CHECK(at <= size && count <= ROWS);
        for (uint32_t i = 0; i < count; i++) {
            const jfs_replay_row *row = &rows[i];
            FUZZ_CHECK(lies_within(row->content, size));
            if (!row->usual) continue;
            FUZZ_CHECK(lies_within(row->transaction, size) && lies_within(row->destination, size));
            FUZZ_CHECK(lies_within(row->id, size) && lies_within(row->extra, size));
            if (whole.count == MESSAGES_MAX) continue;
            whole.offset[whole.count] = row->start;
            whole.length[whole.count++] = 0;
            bare.offset[bare.count] = what == KAHADB ? row->extra.at + 4 : row->content.at;
            bare.length[bare.count++] = what == KAHADB ? row->extra.bytes - 4 : row->content.bytes;
        }
        if (at == before) at++; /* what is not regular is passed over */
    }
    make_records(data, size, &whole, what == KAHADB ? JFS_OPENWIRE_KAHADB : JFS_OPENWIRE_AMQ, flags);
    make_records(data, size, &bare, JFS_OPENWIRE_AMQ, flags);
}

static void messages(const uint8_t *data, size_t size, uint8_t flags) {
    places found = {.count = 0};
    for (size_t at = 0; size - at > 2 && found.count < MESSAGES_MAX;) {
        const size_t wanted = (size_t)data[at] << 8 | data[at + 1], left = size - at - 2;
        found.offset[found.count] = at + 2;
        found.length[found.count] = (uint32_t)(wanted < left ? wanted : left);
        at += 2 + found.length[found.count++];
    }
    make_records(data, size, &found, JFS_OPENWIRE_AMQ, flags);
}

static void journal(const uint8_t *data, size_t size, uint8_t flags) {
    const jfs_scan_options options = {.start_offset = 0, .stop_offset = size, .rid = RID, .version = 1 + (flags >> 7)};
    jfs_older_counts *counts;
    jfs_scan scan;
    jfs_older_out out = {0};
    jfs_older_place place = {.room_bytes = 4000, .rid = RID, .flags = flags & 15, .empty = 1};
    FUZZ_CHECK(jfs_scan_journal(data, size, &options, &scan) == JFS_OK);
    FUZZ_CHECK(jfs_older_counts_new(&counts) == JFS_OK);
    do {
        out.whole = 0;
        FUZZ_CHECK(jfs_older_journal(counts, data, &scan, &place, &out) == JFS_OK);
        jfs_older_next_output(counts);
        place.empty = 1;
    } while (place.next < scan.count);
    jfs_older_free(&out);
    jfs_older_counts_free(counts);
    jfs_scan_free(&scan);
}

static void page(const uint8_t *data, size_t size, uint8_t flags) {
    static const uint32_t starts[] = {0, 2, 2, 1000};
    int64_t routes[1000] = {0};
    jfs_older_out out = {0};
    FUZZ_CHECK(jfs_older_page(data, size, flags & 15, routes, starts, 3, &out) == JFS_OK);
    jfs_older_free(&out);
}

static void table(const uint8_t *data, size_t size, uint8_t flags) {
    int64_t numbers[4][MESSAGES_MAX];
    uint64_t offsets[MESSAGES_MAX];
    uint32_t lengths[MESSAGES_MAX];
    uint8_t bodies[MESSAGES_MAX * 255 + 1];
    jfs_older_rows rows = {numbers[0], numbers[1], numbers[2], numbers[3], offsets, lengths, bodies, 0, 0};
    for (size_t at = 0; size - at >= 5 && rows.count < MESSAGES_MAX; rows.count++) {
        const size_t left = size - at - 5, length = data[at + 4] < left ? data[at + 4] : left;
        numbers[0][rows.count] = data[at + 3] - 1;
        numbers[1][rows.count] = data[at];
        numbers[2][rows.count] = data[at + 2];
        numbers[3][rows.count] = data[at + 1];
        offsets[rows.count] = rows.body_bytes;
        lengths[rows.count] = (uint32_t)length;
        memcpy(bodies + rows.body_bytes, data + at + 5, length);
        rows.body_bytes += length;
        at += 5 + length;
    }
    if (flags & 1) rows.body_bytes /= 2;
    jfs_older_counts *counts;
    jfs_older_place place = {.room_bytes = 300, .rid = RID, .empty = 1};
    FUZZ_CHECK(jfs_older_counts_new(&counts) == JFS_OK);
    jfs_status status;
    do {
        const uint32_t before = place.next;
        jfs_older_out out = {0};
        status = jfs_older_table(counts, &rows, &place, &out);
        FUZZ_CHECK(status == JFS_MALFORMED || place.next > before || rows.count == 0);
        FUZZ_CHECK(out.size <= place.room_bytes || place.next == before + 1);
        out.whole = out.size;
        read_back(&out);
        jfs_older_free(&out);
        jfs_older_next_output(counts);
        place.empty = 1;
    } while (status == JFS_OK && place.next < rows.count);
    jfs_older_counts_free(counts);
}

/* What is taken apart lies in the input. */
static void copied(const uint8_t *data, size_t size, uint8_t flags) {
    int64_t numbers[5][ROWS];
    uint64_t offsets[ROWS];
    uint32_t lengths[ROWS];
    jfs_older_rows rows = {
        .id = numbers[0], .kind = numbers[1], .tx = numbers[2], .user_type = numbers[3], .offset = offsets, .length = lengths};
    rows.count = flags % (ROWS + 1);
    if (jfs_older_copied(data, size, INT64_MAX / 2, &rows, numbers[4]) != JFS_OK) return;
    FUZZ_CHECK(rows.body_bytes == size);
    for (uint32_t i = 0; i < rows.count; i++) FUZZ_CHECK(offsets[i] + lengths[i] <= size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) return 0;
    const uint8_t what = data[0] % WHAT_COUNT, flags = data[1];
    data += 2;
    size -= 2;
    switch (what) {
    case JOURNAL: journal(data, size, flags); break;
    case PAGE: page(data, size, flags); break;
    case MESSAGES: messages(data, size, flags); break;
    case TABLE: table(data, size, flags); break;
    case COPIED: copied(data, size, flags); break;
    default: replay(data, size, what, flags);
    }
    return 0;
}
