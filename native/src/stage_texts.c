/* Text messages from UTF-8 to records: docs/format/messages.md, "Core". */
#include "jfs_stage_texts.h"

#include <stdlib.h>
#include <string.h>

#include "bytes.h"

enum {
    PERSISTER_CORE = 1,
    BODY_OFFSET = 13, /* what the end-of-body field counts beside the body */
    BODY_MARK_BYTES = 5,
    USER_ID_BYTES = 17, /* with its mark */
    FIXED_BYTES = 19,
    TYPE_TEXT = 3,
    TYPE_BYTES = 4,
    PRIORITY_DEFAULT = 4,
    RECORD_MESSAGE = 45,
    RECORD_REFERENCE = 32
};

typedef struct {
    jfs_stage *stage;
    jfs_ledger *ledger;
    const jfs_text_batch *batch;
    const uint8_t *bytes;
    uint8_t *payload; /* room for the longest */
} texts_job;

static uint8_t *put_bytes(uint8_t *to, const uint8_t *from, size_t length) {
    memcpy(to, from, length);
    return to + length;
}

static uint8_t *put_i64(uint8_t *to, int64_t value) {
    store_u64(to, (uint64_t)value);
    return to + 8;
}

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

static uint64_t body_bytes_at_most(const jfs_stretch *text) { return jfs_text_bodies_room(text->end - text->begin, 1); }

static uint64_t payload_bytes_at_most(const jfs_text_batch *batch, const jfs_stretch *text) {
    return around_bytes(batch) + body_bytes_at_most(text);
}

/* Returns its length. */
static uint32_t make_payload(const texts_job *job, const jfs_stretch *text, uint32_t message) {
    const jfs_text_batch *const batch = job->batch;
    const int64_t id = batch->first_id + message;
    uint8_t *at = job->payload, *sizes;
    uint64_t body;
    uint8_t plain;
    *at++ = PERSISTER_CORE;
    at = put_i64(at, id);
    sizes = put_bytes(at, batch->address, batch->address_bytes);
    at = sizes + 8;
    jfs_text_bodies(job->bytes, text, 1, at, &body, &plain);
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
    return (uint32_t)(at - job->payload);
}

static uint64_t room(const jfs_stage *stage) { return stage->room_bytes - stage->used_bytes; }

static jfs_status add_message(const texts_job *job, const jfs_stretch *text, jfs_text_progress *progress) {
    const jfs_text_batch *const batch = job->batch;
    const uint8_t kind = batch->tx_id == 0 ? JFS_ADD : JFS_ADD_TX;
    progress->needed_bytes = jfs_record_bytes(kind, payload_bytes_at_most(batch, text));
    if (progress->needed_bytes > room(job->stage)) return JFS_FULL;
    return jfs_stage_one(job->stage, job->ledger, kind, batch->tx_id, batch->first_id + progress->message,
                         RECORD_MESSAGE, job->payload, make_payload(job, text, progress->message));
}

static jfs_status add_reference(const texts_job *job, jfs_text_progress *progress) {
    const jfs_text_batch *const batch = job->batch;
    const uint8_t kind = batch->tx_id == 0 ? JFS_UPDATE : JFS_UPDATE_TX;
    const uint32_t number = progress->step - 1;
    const int64_t queue = number < batch->every_count
                              ? batch->every[number]
                              : batch->in_turn[(batch->turn + progress->message) % batch->in_turn_count];
    uint8_t body[8];
    store_u64(body, (uint64_t)queue);
    progress->needed_bytes = jfs_record_bytes(kind, sizeof body);
    return jfs_stage_one(job->stage, job->ledger, kind, batch->tx_id, batch->first_id + progress->message,
                         RECORD_REFERENCE, body, sizeof body);
}

static uint64_t longest_payload(const jfs_text_batch *batch, const jfs_stretch *texts, uint32_t count) {
    uint64_t longest = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t bytes = payload_bytes_at_most(batch, &texts[i]);
        if (bytes > longest) longest = bytes;
    }
    return longest;
}

static int too_long(const jfs_text_batch *batch, uint64_t payload_bytes) {
    return payload_bytes - around_bytes(batch) > batch->body_bytes_max ||
           jfs_record_bytes(JFS_ADD_TX, payload_bytes) > batch->record_bytes_max;
}

jfs_status jfs_stage_texts(jfs_stage *stage, jfs_ledger *ledger, const jfs_text_batch *batch, const uint8_t *bytes,
                           const jfs_stretch *texts, uint32_t count, jfs_text_progress *progress) {
    const uint32_t steps = 1 + batch->every_count + (batch->in_turn_count > 0);
    const uint64_t longest = longest_payload(batch, texts, count);
    const texts_job job = {stage, ledger, batch, bytes, malloc((size_t)longest + 1)};
    jfs_status status = job.payload == NULL ? JFS_NO_MEMORY : JFS_OK;
    progress->records = 0;
    if (progress->message == 0 && progress->step == 0 && count > 0 && too_long(batch, longest)) status = JFS_RANGE;
    while (status == JFS_OK && progress->message < count) {
        status = progress->step == 0 ? add_message(&job, &texts[progress->message], progress)
                                     : add_reference(&job, progress);
        if (status != JFS_OK) break;
        progress->records++;
        if (++progress->step == steps) {
            progress->step = 0;
            progress->message++;
        }
    }
    free(job.payload);
    return status;
}
