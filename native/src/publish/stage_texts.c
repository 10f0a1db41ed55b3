/* Text messages from UTF-8 to records. */
#include "jfs_stage_texts.h"

#include <stdlib.h>

#include "stage_messages.h"
#include "text_message.h"

typedef struct {
    jfs_stage *stage;
    jfs_ledger *ledger;
    const jfs_text_batch *batch;
    const uint8_t *bytes;
    uint8_t *payload; /* room for the longest */
} texts_job;

static uint64_t room(const jfs_stage *stage) { return stage->room_bytes - stage->used_bytes; }

static jfs_status add_message(const texts_job *job, const jfs_stretch *text, jfs_batch_progress *progress) {
    const jfs_text_batch *const batch = job->batch;
    const uint8_t kind = batch->tx_id == 0 ? JFS_ADD : JFS_ADD_TX;
    progress->needed_bytes = jfs_record_bytes(kind, text_message_bytes_at_most(batch, text));
    if (progress->needed_bytes > room(job->stage)) return JFS_FULL;
    return jfs_stage_one(job->stage, job->ledger, kind, batch->tx_id, batch->first_id + progress->message,
                         RECORD_MESSAGE, job->payload,
                         text_message_put(batch, job->bytes, text, progress->message, job->payload));
}

static jfs_status add_reference(const texts_job *job, jfs_batch_progress *progress) {
    const jfs_text_batch *const batch = job->batch;
    return stage_reference(job->stage, job->ledger, batch->tx_id, batch->first_id + progress->message,
                           text_message_queue(batch, progress->message, progress->step - 1), progress);
}

jfs_status jfs_stage_texts(jfs_stage *stage, jfs_ledger *ledger, const jfs_text_batch *batch, const uint8_t *bytes,
                           const jfs_stretch *texts, uint32_t count, jfs_batch_progress *progress) {
    const uint32_t steps = 1 + text_message_queues(batch);
    const uint64_t longest = text_message_longest(batch, texts, count);
    const texts_job job = {stage, ledger, batch, bytes, malloc((size_t)longest + 1)};
    jfs_status status = job.payload == NULL ? JFS_NO_MEMORY : JFS_OK;
    progress->records = 0;
    if (progress->message == 0 && progress->step == 0 && count > 0 && text_message_too_long(batch, longest))
        status = JFS_RANGE;
    while (status == JFS_OK && progress->message < count) {
        status = progress->step == 0 ? add_message(&job, &texts[progress->message], progress)
                                     : add_reference(&job, progress);
        if (status != JFS_OK) break;
        step_staged(progress, steps);
    }
    free(job.payload);
    return status;
}
