/* Publishing texts at the end of a journal: staged as jfs_stage_texts does, written as one flush. */
#define _GNU_SOURCE
#include "jfs_tail.h"

#include <errno.h>
#include <time.h>

#include "jfs_assert.h"
#include "now.h"
#include "text_message.h"

enum { LINES_BYTES_MAX = 64 * 1024, STEPS_PER_MS = 10000, REFERENCE_BYTES = 8 };

static const uint64_t before_1970 = 0x01b21dd213814000; /* from where user ids count, in their steps */

static int64_t wall_ms(const jfs_tail *tail) {
    struct timespec now;
    if (tail->now_ms >= 0) return tail->now_ms;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static uint64_t room(const jfs_tail *tail) {
    JFS_ASSERT(tail->stage->used_bytes <= tail->stage->room_bytes);
    return tail->stage->room_bytes - tail->stage->used_bytes;
}

/* What all records of some texts take at most. */
static uint64_t needed_bytes(const jfs_text_batch *batch, const jfs_stretch *texts, uint32_t count, int alone) {
    const uint64_t reference = jfs_record_bytes(alone ? JFS_UPDATE : JFS_UPDATE_TX, REFERENCE_BYTES);
    uint64_t needed = alone ? 0 : jfs_record_bytes(JFS_COMMIT, 0);
    for (uint32_t i = 0; i < count; i++)
        needed += jfs_record_bytes(alone ? JFS_ADD : JFS_ADD_TX, text_message_bytes_at_most(batch, &texts[i])) +
                  text_message_queues(batch) * reference;
    return needed;
}

static int takes(const jfs_tail *tail, const jfs_tail_way *way) {
    return way->open && tail->error == 0 && !__atomic_load_n(&tail->stopped, __ATOMIC_SEQ_CST) &&
           tail->slowest_ns < tail->stall_ns && tail->flush_ns <= tail->quick_ns_max && way->room_bytes > 0 &&
           way->room_messages > 0 && tail->room_bytes > 0 && tail->room_messages > 0;
}

static void fill_in(const jfs_tail *tail, const jfs_tail_way *way, int alone) {
    JFS_ASSERT(tail->id_last < tail->id_end);
    JFS_ASSERT(way->open);
    jfs_text_batch *const batch = way->batch;
    const uint64_t now = (uint64_t)wall_ms(tail), step = now * STEPS_PER_MS + before_1970;
    batch->turn = way->turn;
    batch->tx_id = alone ? 0 : tail->id_last + 1;
    batch->first_id = tail->id_last + 1 + !alone;
    batch->timestamp_ms = (int64_t)now;
    batch->expiration_ms = way->expires_ms < 0 ? 0 : (int64_t)now + way->expires_ms;
    batch->user_id_step = step > tail->step_last ? step : tail->step_last + 1;
}

static void count_up(jfs_tail *tail, jfs_tail_way *way, const jfs_stretch *texts, uint32_t count) {
    JFS_ASSERT(count > 0);
    JFS_ASSERT(tail->id_last < tail->id_end);
    const uint64_t bytes = count * way->each_bytes + 2 * (texts[count - 1].end - texts[0].begin);
    tail->id_last = way->batch->first_id + count - 1;
    tail->step_last = way->batch->user_id_step + count - 1;
    tail->room_bytes -= (int64_t)bytes;
    tail->room_messages -= count;
    way->room_bytes -= (int64_t)bytes;
    way->room_messages -= count;
    way->messages += count;
    way->bytes += bytes;
    if (way->batch->in_turn_count) way->turn = (way->turn + count) % way->batch->in_turn_count;
}

jfs_status jfs_tail_stage(jfs_tail *tail, jfs_tail_way *way, const uint8_t *lines, uint64_t length) {
    JFS_ASSERT(tail->stage != NULL && tail->ledger != NULL);
    jfs_stretch texts[JFS_TAIL_TEXTS_MAX];
    jfs_batch_progress progress = {0};
    uint64_t found;
    if (!takes(tail, way) || length == 0 || length > LINES_BYTES_MAX || lines[length - 1] != '\n') return JFS_RANGE;
    if (jfs_split_lines(lines, length, texts, JFS_TAIL_TEXTS_MAX, &found) != JFS_OK) return JFS_RANGE;
    const uint32_t count = (uint32_t)found;
    const int alone = count == 1 && text_message_queues(way->batch) == 1;
    if (text_message_too_long(way->batch, text_message_longest(way->batch, texts, count)) ||
        tail->id_last + 1 + count >= tail->id_end) return JFS_RANGE;
    if (needed_bytes(way->batch, texts, count, alone) > room(tail) ||
        (tail->stage->used_bytes && tail->stage->used_bytes + length > tail->shared_bytes_max))
        return JFS_FULL;
    fill_in(tail, way, alone);
    jfs_status status = jfs_stage_texts(tail->stage, tail->ledger, way->batch, lines, texts, count, &progress);
    tail->records += progress.records;
    if (status == JFS_OK && !alone) {
        status = jfs_stage_one(tail->stage, tail->ledger, JFS_COMMIT, way->batch->tx_id, 0, 0, NULL, 0);
        tail->records += status == JFS_OK;
    }
    if (status != JFS_OK) {
        /* Some of it may be staged, and nothing of that must ever be written: there was no memory. */
        tail->error = ENOMEM;
        return status;
    }
    count_up(tail, way, texts, count);
    return JFS_OK;
}

/* Whether the name still leads to what was written, as journalfs.engine.links.NamedFile asks. */
static int32_t lost(const jfs_tail *tail) {
    if (!tail->path) return 0;
    const int32_t found = jfs_place_of(tail->directory, tail->path, tail->device, tail->inode, tail->size_bytes);
    return found == JFS_PLACE_REPLACED ? ENOENT : found == JFS_PLACE_SHORT ? EIO : found;
}

static int32_t written(const jfs_tail *tail, uint64_t length) {
    const jfs_stage *const stage = tail->stage;
    uint64_t took_ns;
    int error = 0;
    if (tail->write) return tail->write(tail->context, length);
    const jfs_status status = jfs_io_perform(tail->io, tail->fd, tail->map, stage->file_offset, stage->bytes, length,
                                             tail->durable, &took_ns, &error);
    return status == JFS_OK ? 0 : error ? error : EIO;
}

static void begin_again(jfs_tail *tail) {
    JFS_ASSERT(tail->end >= tail->records_end);
    const uint64_t used = tail->end + tail->spared_bytes;
    const uint64_t left = used < tail->whole_bytes ? tail->whole_bytes - used : 0;
    jfs_stage_begin(tail->stage, tail->stage->slot, tail->stage->rid, tail->end,
                    left < tail->buffer_bytes ? left : tail->buffer_bytes);
}

static void measure(jfs_tail *tail, uint64_t took, uint64_t length) {
    tail->flushes++;
    tail->written_bytes += length;
    tail->flush_ns = tail->flush_ns == 0 ? took : (7 * tail->flush_ns + took) / 8;
    if (took > tail->slowest_ns) tail->slowest_ns = took;
}

int32_t jfs_tail_flush(jfs_tail *tail) {
    JFS_ASSERT(jfs_stage_check(tail->stage) == NULL);
    jfs_stage *const stage = tail->stage;
    if (tail->error != 0 || stage->record_count == 0) return tail->error;
    const uint64_t begun = jfs_now_ns();
    const int32_t logged = tail->log ? tail->log(tail->context, stage->used_bytes) : 0;
    if (logged == JFS_TAIL_LEFT) {
        __atomic_store_n(&tail->stopped, 1, __ATOMIC_SEQ_CST);
        return JFS_TAIL_LEFT;
    }
    if (logged != 0) return tail->error = logged;
    if (tail->checksums && jfs_stage_checksum(stage, &tail->place) != JFS_OK) return tail->error = ENOMEM;
    const uint64_t records_end = stage->file_offset + stage->used_bytes;
    const uint64_t length = jfs_stage_seal(stage, tail->alignment_bytes);
    tail->error = length ? written(tail, length) : EIO;
    /* P-2: a flush into a file that was removed or replaced succeeds; its lines would be answered as durable. */
    if (tail->error == 0) tail->error = lost(tail);
    if (tail->error != 0) return tail->error;
    measure(tail, jfs_now_ns() - begun, length);
    tail->flushed_records = tail->records;
    tail->records_end = records_end;
    tail->end = stage->file_offset + length;
    begin_again(tail);
    return 0;
}
