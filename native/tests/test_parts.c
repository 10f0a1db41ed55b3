/* Parts: they are made from the tail, only shrink, and their lines never change. */
#include "jfs_state_batch.h"
#include "live.h"

enum { Q = 21, NOW_MS = 5000 };

static uint32_t parts_of(const live *l, jfs_part_info *out) {
    uint32_t count;
    CHECK_EQ(jfs_state_parts(l->state, slot_of(l, Q), out, 64, &count), JFS_OK);
    return count;
}

static uint32_t seal(live *l, uint32_t messages_max, uint64_t bytes_max) {
    uint32_t made;
    CHECK_EQ(jfs_state_seal(l->state, slot_of(l, Q), NOW_MS, &(jfs_seal_limits){bytes_max, messages_max, 1, UINT32_MAX}, &made), JFS_OK);
    return made;
}

#define CHECK_PART(l, number, ...)                                                                            \
    do {                                                                                                      \
        uint32_t refs_[256], count_;                                                                          \
        CHECK_EQ(jfs_state_part_refs((l)->state, slot_of((l), Q), (number), refs_, 256, &count_), JFS_OK);     \
        check_ids((l), refs_, count_, (const int64_t[]){__VA_ARGS__});                                        \
    } while (0)

#define CHECK_TAIL(l, ...)                                                                            \
    do {                                                                                              \
        uint32_t refs_[256], count_;                                                                  \
        CHECK_EQ(jfs_state_tail_refs((l)->state, slot_of((l), Q), refs_, 256, &count_), JFS_OK);       \
        check_ids((l), refs_, count_, (const int64_t[]){__VA_ARGS__});                                \
    } while (0)

/* Bytes of all lines of a part, without prefixes, from the lines themselves. */
static uint64_t bytes_of(const live *l, uint32_t number) {
    const jfs_line_options options = {.prefix_bytes = 0, .now_ms = NOW_MS, .sealed = 1};
    uint32_t refs[256], count;
    uint64_t starts[257];
    CHECK_EQ(jfs_state_part_refs(l->state, slot_of(l, Q), number, refs, 256, &count), JFS_OK);
    CHECK_EQ(jfs_state_line_starts(l->state, refs, count, &options, starts), JFS_OK);
    return starts[count];
}

static void the_tail_becomes_parts(void) {
    journal j;
    live l;
    jfs_part_info parts[64];
    uint64_t line_bytes;
    journal_open(&j, 2, 1);
    for (int64_t id = 1; id <= 7; id++) sent(&j, id, Q);
    l = live_of(&j);
    CHECK_TAIL(&l, 1, 2, 3, 4, 5, 6, 7, 0);
    CHECK_EQ(seal(&l, 3, UINT64_MAX), 3);
    CHECK_EQ(seal(&l, 3, UINT64_MAX), 0);
    CHECK_TAIL(&l, 0);
    CHECK_PART(&l, 1, 1, 2, 3, 0);
    CHECK_PART(&l, 3, 7, 0);
    CHECK_PART(&l, 4, 0);
    CHECK_EQ(parts_of(&l, parts), 3);
    CHECK_EQ(parts[1].number, 2);
    CHECK_EQ(parts[1].live_count, 3);
    CHECK_EQ(parts[1].live_bytes, bytes_of(&l, 2));
    CHECK_EQ(parts[1].mtime_ms, NOW_MS);
    line_bytes = parts[2].live_bytes;
    sent(&j, 8, Q);
    sent(&j, 9, Q);
    live_apply(&l, 0, &j);
    CHECK_TAIL(&l, 8, 9, 0);
    CHECK_EQ(seal(&l, 100, line_bytes), 0); /* they have no measure yet */
    CHECK_EQ(jfs_state_measure(l.state, l.files, l.file_count), JFS_OK);
    CHECK_EQ(seal(&l, 100, line_bytes - 1), 2); /* a line longer than a part may be gets one of its own */
    CHECK_PART(&l, 4, 8, 0);
    CHECK_PART(&l, 5, 9, 0);
    live_free(&l);
    journal_close(&j);
}

static void parts_only_shrink(void) {
    journal j;
    live l;
    jfs_part_info parts[64];
    uint64_t before;
    journal_open(&j, 2, 1);
    for (int64_t id = 1; id <= 6; id++) sent(&j, id, Q);
    l = live_of(&j);
    CHECK_EQ(seal(&l, 3, UINT64_MAX), 2);
    parts_of(&l, parts);
    before = parts[0].live_bytes;
    update(&j, ACK, 2, Q, 0);
    update(&j, ADD_REF, 2, Q, 0); /* comes again: it is new */
    put_delete(&j, 4);
    put_delete(&j, 5);
    put_delete(&j, 6);
    live_apply(&l, 0, &j);
    CHECK_EQ(parts_of(&l, parts), 1);
    CHECK_EQ(parts[0].live_count, 2);
    CHECK_EQ(parts[0].live_bytes, bytes_of(&l, 1));
    CHECK(parts[0].live_bytes < before);
    CHECK_PART(&l, 1, 1, 3, 0);
    CHECK_TAIL(&l, 2, 0);
    CHECK_EQ(seal(&l, 3, UINT64_MAX), 1);
    CHECK_PART(&l, 2, 0);
    CHECK_PART(&l, 3, 2, 0); /* number 2 is never used again */
    live_free(&l);
    journal_close(&j);
}

static void a_line_keeps_what_it_was_sealed_with(void) {
    journal j;
    live l;
    jfs_part_info parts[64];
    jfs_line lines[2];
    uint32_t refs[2], count;
    const jfs_line_options sealed = {.now_ms = NOW_MS, .sealed = 1}, unsealed = {.now_ms = NOW_MS};
    journal_open(&j, 2, 1);
    sent(&j, 1, Q);
    sent(&j, 2, Q);
    update(&j, DELIVERIES, 1, Q, 12);
    update(&j, SCHEDULE, 1, Q, NOW_MS); /* due: not in the line */
    update(&j, SCHEDULE, 2, Q, NOW_MS + 1);
    l = live_of(&j);
    CHECK_EQ(seal(&l, 3, UINT64_MAX), 1);
    parts_of(&l, parts);
    update(&j, DELIVERIES, 1, Q, 13000);
    update(&j, SCHEDULE, 2, Q, 0);
    update(&j, DELIVERIES, 2, Q, 1);
    live_apply(&l, 0, &j);
    CHECK_EQ(jfs_state_part_refs(l.state, slot_of(&l, Q), 1, refs, 2, &count), JFS_OK);
    CHECK_EQ(count, 2);
    CHECK_EQ(jfs_state_fill_lines(l.state, refs, 2, &sealed, l.files, l.file_count, lines), JFS_OK);
    CHECK_EQ(lines[0].delivery_count, 12);
    CHECK_EQ(lines[0].scheduled_ms, 0);
    CHECK_EQ(lines[1].delivery_count, 0);
    CHECK_EQ(lines[1].scheduled_ms, NOW_MS + 1);
    CHECK_EQ(jfs_state_fill_lines(l.state, refs, 2, &unsealed, l.files, l.file_count, lines), JFS_OK);
    CHECK_EQ(lines[0].delivery_count, 13000);
    CHECK_EQ(lines[1].delivery_count, 1);
    CHECK_EQ(lines[1].scheduled_ms, 0);
    CHECK_EQ(parts[0].live_bytes, bytes_of(&l, 1));
    CHECK_EQ(jfs_state_fill_lines(l.state, refs, 2, &sealed, l.files, 0, lines), JFS_RANGE);
    l.files[0].size_bytes = 100;
    CHECK_EQ(jfs_state_fill_lines(l.state, refs, 2, &sealed, l.files, 1, lines), JFS_RANGE);
    live_free(&l);
    journal_close(&j);
}

/* Hidden by a prepared transaction it leaves its part; back again it is in the tail, but in its place in the queue. */
static void what_was_hidden_comes_back_to_the_tail(void) {
    journal j;
    live l;
    journal_open(&j, 2, 1);
    for (int64_t id = 1; id <= 4; id++) sent(&j, id, Q);
    l = live_of(&j);
    CHECK_EQ(seal(&l, 2, UINT64_MAX), 2);
    update_tx(&j, 67, ACK, 1, Q);
    put_prepare(&j, 67, 1, "", 0);
    live_apply(&l, 0, &j);
    CHECK_PART(&l, 1, 2, 0);
    CHECK_TAIL(&l, 0);
    sent(&j, 5, Q);
    put_rollback(&j, 67);
    live_apply(&l, 0, &j);
    CHECK_EQ(jfs_state_measure(l.state, l.files, l.file_count), JFS_OK);
    CHECK_PART(&l, 1, 2, 0);
    CHECK_TAIL(&l, 1, 5, 0);
    CHECK_LIVE(&l, Q, 1, 2, 3, 4, 5, 0);
    CHECK_EQ(seal(&l, 9, UINT64_MAX), 1);
    CHECK_PART(&l, 3, 1, 5, 0);
    CHECK_PART(&l, 2, 3, 4, 0);
    live_free(&l);
    journal_close(&j);
}

/* Closing the holes of a queue keeps parts and tail as they were. */
static void parts_survive_closing_up(void) {
    journal j;
    live l;
    jfs_part_info parts[64];
    journal_open(&j, 2, 1);
    for (int64_t id = 1; id <= 600; id++) sent(&j, id, Q);
    l = live_of(&j);
    CHECK_EQ(seal(&l, 100, UINT64_MAX), 6);
    for (int64_t id = 601; id <= 610; id++) sent(&j, id, Q);
    for (int64_t id = 1; id <= 605; id++) {
        if (id % 50 != 0) update(&j, ACK, id, Q, 0);
    }
    live_apply(&l, 0, &j);
    CHECK_PART(&l, 1, 50, 100, 0);
    CHECK_PART(&l, 6, 550, 600, 0);
    CHECK_TAIL(&l, 606, 607, 608, 609, 610, 0);
    CHECK_EQ(parts_of(&l, parts), 6);
    CHECK_EQ(parts[5].live_bytes, bytes_of(&l, 6));
    live_free(&l);
    journal_close(&j);
}

static void large(journal *j, int64_t id, const char *header) {
    put_add(j, JFS_ADD, id, 30, header, strlen(header));
    update(j, ADD_REF, id, Q, 0);
}

/* What was left unmeasured is told again until somebody measures it, once each, whatever became of its place. */
static void the_unmeasured_are_told_each_once(void) {
    const jfs_measure measure = {.tail_bytes = 5, .body_bytes = 6};
    jfs_unmeasured found[8];
    uint32_t count;
    journal j;
    live l;
    journal_open(&j, 2, 1);
    large(&j, 1, "header");
    sent(&j, 2, Q);
    l = live_of(&j);
    large(&j, 3, "header");
    sent(&j, 4, Q);
    large(&j, 5, "header");
    live_apply(&l, 0, &j);
    CHECK_EQ(jfs_state_measure(l.state, l.files, l.file_count), JFS_OK);
    CHECK_EQ(jfs_state_unmeasured(l.state, found, 8, &count), JFS_OK);
    CHECK_EQ(count, 3);
    CHECK_EQ(found[0].message_id, 1);
    CHECK_EQ(found[1].message_id, 3);
    CHECK_EQ(found[2].message_id, 5);
    CHECK_EQ(jfs_state_set_measure(l.state, found[1].message, 3, &measure), JFS_OK);
    update(&j, ACK, 5, Q, 0);
    put_delete(&j, 5);
    large(&j, 6, "header"); /* where 5 was */
    large(&j, 3, "longer header");
    live_apply(&l, 0, &j);
    CHECK_EQ(jfs_state_measure(l.state, l.files, l.file_count), JFS_OK);
    CHECK_EQ(jfs_state_measure(l.state, l.files, l.file_count), JFS_OK);
    CHECK_EQ(jfs_state_unmeasured(l.state, found, 2, &count), JFS_FULL);
    CHECK_EQ(count, 3);
    CHECK_EQ(jfs_state_unmeasured(l.state, found, 8, &count), JFS_OK);
    CHECK_EQ(count, 3);
    CHECK_EQ(found[0].message_id, 1);
    CHECK_EQ(found[1].message_id + found[2].message_id, 3 + 6);
    CHECK_EQ(found[1].message_id * found[2].message_id, 3 * 6);
    for (uint32_t i = 0; i < count; i++) {
        CHECK_EQ(jfs_state_set_measure(l.state, found[i].message, found[i].message_id, &measure), JFS_OK);
    }
    CHECK_EQ(jfs_state_measure(l.state, l.files, l.file_count), JFS_OK);
    CHECK_EQ(jfs_state_unmeasured(l.state, found, 8, &count), JFS_OK);
    CHECK_EQ(count, 0);
    live_free(&l);
    journal_close(&j);
}

static void a_new_measure_changes_the_sums(void) {
    journal j;
    live l;
    jfs_part_info parts[64];
    jfs_measure measure = {.tail_bytes = 5000000000, .body_bytes = 6000000000, .priority = 9, .timestamp_ms = 77};
    jfs_unmeasured found[4];
    uint32_t count;
    journal_open(&j, 2, 1);
    put_add(&j, JFS_ADD, 1, 30, "header", 6); /* a large message: its measure comes from elsewhere */
    update(&j, ADD_REF, 1, Q, 0);
    sent(&j, 2, Q);
    l = live_of(&j);
    CHECK_EQ(jfs_state_unmeasured(l.state, found, 4, &count), JFS_OK);
    CHECK_EQ(count, 1);
    CHECK_EQ(found[0].message_id, 1);
    CHECK_EQ(found[0].source, JFS_SOURCE_CORE_LARGE);
    CHECK_EQ(seal(&l, 9, UINT64_MAX), 0); /* it comes first and has no length yet */
    CHECK_EQ(jfs_state_set_measure(l.state, found[0].message, 2, &measure), JFS_RANGE);
    CHECK_EQ(jfs_state_set_measure(l.state, found[0].message, 1, &measure), JFS_OK);
    CHECK_EQ(jfs_state_unmeasured(l.state, found, 4, &count), JFS_OK);
    CHECK_EQ(count, 0);
    CHECK_EQ(queue_of(&l, Q).live_bytes, 6000000010);
    CHECK_EQ(seal(&l, 9, UINT64_MAX), 1);
    measure.tail_bytes = 10;
    measure.body_bytes = 7;
    CHECK_EQ(jfs_state_set_measure(l.state, 0, 1, &measure), JFS_OK);
    CHECK_EQ(queue_of(&l, Q).live_bytes, 17);
    parts_of(&l, parts);
    CHECK_EQ(parts[0].live_bytes, bytes_of(&l, 1));
    live_free(&l);
    journal_close(&j);
}

static uint64_t ids_of(const live *l, uint32_t number, uint8_t *out) {
    uint64_t size_bytes;
    CHECK_EQ(jfs_state_part_ids(l->state, slot_of(l, Q), number, out, 1000, &size_bytes), JFS_OK);
    return size_bytes;
}

static jfs_status keep(live *l, uint32_t number, const uint8_t *ids, uint64_t size_bytes) {
    const jfs_part_info info = {.number = number, .mtime_ms = NOW_MS};
    return jfs_state_keep_part(l->state, slot_of(l, Q), &info, ids, size_bytes);
}

static void parts_are_found_again(void) {
    const int64_t ids[] = {5, INT64_MAX, 6, INT64_MIN, 70000, 7};
    uint8_t one[1000], two[1000];
    uint64_t one_bytes, two_bytes, size_bytes;
    jfs_part_info parts[64];
    journal j;
    live l;
    journal_open(&j, 2, 1);
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) sent(&j, ids[i], Q);
    l = live_of(&j);
    CHECK_EQ(seal(&l, 4, UINT64_MAX), 2);
    one_bytes = ids_of(&l, 1, one);
    two_bytes = ids_of(&l, 2, two);
    CHECK_EQ(ids_of(&l, 3, two + two_bytes), 0);
    CHECK_EQ(jfs_state_part_ids(l.state, slot_of(&l, Q), 1, one, 39, &size_bytes), JFS_RANGE);
    live_free(&l);

    update(&j, ACK, 6, Q, 0);
    sent(&j, 8, Q);
    l = live_of(&j);
    CHECK_EQ(keep(&l, 10, one, one_bytes), JFS_OK);
    CHECK_EQ(keep(&l, 12, two, two_bytes), JFS_OK);
    CHECK_PART(&l, 10, 5, INT64_MAX, INT64_MIN, 0);
    CHECK_PART(&l, 12, 70000, 7, 0);
    CHECK_TAIL(&l, 8, 0);
    CHECK_EQ(parts_of(&l, parts), 2);
    CHECK_EQ(parts[0].live_bytes, bytes_of(&l, 10));
    CHECK_EQ(parts[0].mtime_ms, NOW_MS);
    CHECK_EQ(keep(&l, 11, one, one_bytes), JFS_OK); /* a number that is used is not used again */
    CHECK_PART(&l, 11, 0);
    CHECK_EQ(keep(&l, 13, two, two_bytes), JFS_OK); /* what came back later is where it was last */
    CHECK_PART(&l, 12, 0);
    CHECK_PART(&l, 13, 70000, 7, 0);
    CHECK_EQ(keep(&l, 14, two, two_bytes - 1), JFS_MALFORMED);
    CHECK_EQ(keep(&l, 15, (const uint8_t *)"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 11), JFS_MALFORMED);
    CHECK_EQ(keep(&l, UINT32_MAX, one, one_bytes), JFS_RANGE);
    CHECK_EQ(seal(&l, 9, UINT64_MAX), 1);
    CHECK_PART(&l, 16, 8, 0);
    live_free(&l);
    journal_close(&j);
}

int main(void) {
    RUN(the_tail_becomes_parts);
    RUN(parts_only_shrink);
    RUN(a_line_keeps_what_it_was_sealed_with);
    RUN(what_was_hidden_comes_back_to_the_tail);
    RUN(parts_survive_closing_up);
    RUN(the_unmeasured_are_told_each_once);
    RUN(a_new_measure_changes_the_sums);
    RUN(parts_are_found_again);
    return 0;
}
