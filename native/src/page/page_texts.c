/* Text messages from UTF-8 to records of pages: docs/format/pages.md, "Record". */
#include "jfs_page_texts.h"

#include "bytes.h"
#include "text_message.h"

enum {
    OPENING = '{',
    CLOSING = '}',
    FRAME_BYTES = 6,  /* opening byte, length, closing byte */
    FRONT_BYTES = 14, /* opening byte, length, transaction and kind */
    KIND_SMALL = 0,
    NO_TRANSACTION = -1
};

static uint32_t routed_bytes(const jfs_text_batch *batch) { return 4 + 8 * text_message_queues(batch); }

static uint64_t record_bytes_at_most(const jfs_text_batch *batch, const jfs_stretch *text) {
    return FRONT_BYTES + text_message_bytes_at_most(batch, text) + routed_bytes(batch) + 1;
}

/* Returns its length. */
static uint64_t put_record(const jfs_text_batch *batch, const uint8_t *bytes, const jfs_stretch *text,
                           uint32_t message, uint8_t *to) {
    const uint32_t queues = text_message_queues(batch);
    uint8_t *at = to + FRONT_BYTES;
    at += text_message_put(batch, bytes, text, message, at);
    store_u32(at, queues);
    at += 4;
    for (uint32_t i = 0; i < queues; i++, at += 8) store_u64(at, (uint64_t)text_message_queue(batch, message, i));
    *at++ = CLOSING;
    to[0] = OPENING;
    store_u32(to + 1, (uint32_t)(at - to) - FRAME_BYTES);
    store_u64(to + 5, (uint64_t)(batch->tx_id == 0 ? NO_TRANSACTION : batch->tx_id));
    to[FRONT_BYTES - 1] = KIND_SMALL;
    return (uint64_t)(at - to);
}

int jfs_texts_too_long(const jfs_text_batch *batch, const jfs_stretch *texts, uint32_t count) {
    return count > 0 && text_message_too_long(batch, text_message_longest(batch, texts, count));
}

jfs_status jfs_page_texts(const jfs_page_room *room, const jfs_text_batch *batch, const uint8_t *bytes,
                          const jfs_stretch *texts, uint32_t count, jfs_batch_progress *progress, uint64_t *used) {
    *used = 0;
    progress->records = 0;
    for (; progress->message < count; progress->message++, progress->records++) {
        const jfs_stretch *const text = &texts[progress->message];
        uint64_t length;
        progress->needed_bytes = record_bytes_at_most(batch, text);
        if (progress->needed_bytes > room->buffer_bytes - *used) return JFS_FULL;
        length = put_record(batch, bytes, text, progress->message, room->buffer + *used);
        if (room->page_records + progress->records > 0 && room->page_bytes + *used + length > room->page_bytes_max) {
            progress->needed_bytes = 0;
            return JFS_FULL;
        }
        *used += length;
    }
    return JFS_OK;
}
