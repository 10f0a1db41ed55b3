/* Text messages that differ in their text alone, as records hold them: docs/format/messages.md, "Core". */
#ifndef JFS_TEXT_MESSAGE_H
#define JFS_TEXT_MESSAGE_H

#include "jfs_stage_texts.h"

/* Of the message that a text becomes. */
uint64_t text_message_bytes_at_most(const jfs_text_batch *batch, const jfs_stretch *text);

/* The longest of them. */
uint64_t text_message_longest(const jfs_text_batch *batch, const jfs_stretch *texts, uint32_t count);

/* Whether a message of so many bytes may not belong in a record. */
int text_message_too_long(const jfs_text_batch *batch, uint64_t bytes);

/* Makes the message; returns its length. `message` is its number in the batch. */
uint32_t text_message_put(const jfs_text_batch *batch, const uint8_t *bytes, const jfs_stretch *text, uint32_t message,
                          uint8_t *to);

static inline uint32_t text_message_queues(const jfs_text_batch *batch) {
    return batch->every_count + (batch->in_turn_count > 0);
}

/* One of the queues of a message. */
static inline int64_t text_message_queue(const jfs_text_batch *batch, uint32_t message, uint32_t number) {
    return number < batch->every_count ? batch->every[number]
                                       : batch->in_turn[(batch->turn + message) % batch->in_turn_count];
}

#endif
