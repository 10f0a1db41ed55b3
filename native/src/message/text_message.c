#include "text_message.h"

#include "bytes.h"

enum {
    PERSISTER_CORE = 1,
    BODY_OFFSET = 13,   /* what the end-of-body field counts beside the body */
    USER_ID_BYTES = 17, /* with its mark */
    FIXED_BYTES = 19,
    TYPE_TEXT = 3,
    TYPE_BYTES = 4,
    PRIORITY_DEFAULT = 4
};

static uint8_t *put_user_id(uint8_t *to, const jfs_text_batch *batch, uint32_t message) {
    const uint64_t step = batch->user_id_step + message;
    *to++ = 1;
    store_u32(to, (uint32_t)step);
    store_u32(to + 4, (uint32_t)(step >> 32 & 0xffff) << 16 | (uint32_t)(step >> 48 & 0x0fff) | 0x1000);
    return put_bytes(to + 8, batch->user_id_node, sizeof batch->user_id_node);
}

/* Behind the body, and in the length of it all. */
static uint32_t header_bytes(const jfs_text_batch *batch) {
    return 8 + batch->address_bytes + USER_ID_BYTES + FIXED_BYTES + batch->properties_bytes;
}

/* Beside the body. */
static uint64_t around_bytes(const jfs_text_batch *batch) {
    return 1 + 8 + (uint64_t)batch->address_bytes + 8 + header_bytes(batch);
}

uint64_t text_message_bytes_at_most(const jfs_text_batch *batch, const jfs_stretch *text) {
    return around_bytes(batch) + jfs_text_bodies_room(text->end - text->begin, 1);
}

uint64_t text_message_longest(const jfs_text_batch *batch, const jfs_stretch *texts, uint32_t count) {
    uint64_t longest = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t bytes = text_message_bytes_at_most(batch, &texts[i]);
        if (bytes > longest) longest = bytes;
    }
    return longest;
}

int text_message_too_long(const jfs_text_batch *batch, uint64_t bytes) {
    return bytes - around_bytes(batch) > batch->body_bytes_max ||
           jfs_record_bytes(JFS_ADD_TX, bytes) > batch->record_bytes_max;
}

uint32_t text_message_put(const jfs_text_batch *batch, const uint8_t *bytes, const jfs_stretch *text, uint32_t message,
                          uint8_t *to) {
    const int64_t id = batch->first_id + message;
    uint8_t *at = to, *sizes;
    uint64_t body;
    uint8_t plain;
    *at++ = PERSISTER_CORE;
    at = put_i64(at, id);
    sizes = put_bytes(at, batch->address, batch->address_bytes);
    at = sizes + 8;
    jfs_text_bodies(bytes, text, 1, at, &body, &plain);
    store_u32(sizes, 4 + (uint32_t)body + header_bytes(batch));
    store_u32(sizes + 4, BODY_OFFSET + (uint32_t)body);
    at = put_i64(at + body, id);
    at = put_bytes(at, batch->address, batch->address_bytes);
    at = put_user_id(at, batch, message);
    *at++ = plain ? TYPE_BYTES : TYPE_TEXT;
    *at++ = 1; /* durable */
    at = put_i64(at, batch->expiration_ms);
    at = put_i64(at, batch->timestamp_ms);
    *at++ = PRIORITY_DEFAULT;
    at = put_bytes(at, batch->properties, batch->properties_bytes);
    return (uint32_t)(at - to);
}
