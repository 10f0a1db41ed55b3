/* Core messages from record to record. */
#include "jfs_stage_copies.h"

#include <stdlib.h>

#include "jfs_guard.h"
#include "message_copy.h"
#include "stage_messages.h"

enum { STEPS = 2 };

typedef struct {
    const jfs_copies *copies;
    const jfs_line *lines;
    uint32_t count;
    int possible;
    uint32_t alike;
} alike_job;

static jfs_status alike_body(void *context) {
    alike_job *const job = context;
    if (job->count > 0) job->possible = message_copy_possible(job->copies, job->lines);
    for (job->alike = job->count > 0; job->alike < job->count; job->alike++)
        if (message_copy_possible(job->copies, &job->lines[job->alike]) != job->possible) break;
    return JFS_OK;
}

jfs_status jfs_copies_alike(const jfs_copies *copies, const jfs_line *lines, uint32_t count, int *possible,
                            uint32_t *alike) {
    alike_job job = {copies, lines, count, 0, 0};
    const jfs_status status = jfs_guarded(alike_body, &job);
    *possible = job.possible;
    *alike = job.alike;
    return status;
}

typedef struct {
    const jfs_copies *copies;
    const jfs_line *line;
    int64_t id;
    int64_t copy_id;
    uint8_t *payload; /* room for the longest */
    uint32_t payload_bytes;
} copy_job;

static jfs_status copy_body(void *context) {
    copy_job *const job = context;
    return message_copy_put(job->copies, job->line, job->id, job->copy_id, job->payload, &job->payload_bytes);
}

static jfs_status add_message(jfs_stage *stage, jfs_ledger *ledger, copy_job *job, jfs_batch_progress *progress) {
    const jfs_status status = jfs_guarded(copy_body, job);
    if (status != JFS_OK) return status;
    progress->needed_bytes = jfs_record_bytes(JFS_ADD_TX, job->payload_bytes);
    return jfs_stage_one(stage, ledger, JFS_ADD_TX, job->copies->tx_id, job->copy_id, RECORD_MESSAGE, job->payload,
                         job->payload_bytes);
}

static uint64_t longest(const jfs_copies *copies, const jfs_line *lines, uint32_t count) {
    uint64_t found = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t bytes = message_copy_bytes_at_most(copies, &lines[i]);
        if (bytes > found) found = bytes;
    }
    return found;
}

jfs_status jfs_stage_copies(jfs_stage *stage, jfs_ledger *ledger, const jfs_copies *copies, const jfs_line *lines,
                            const int64_t *ids, uint32_t count, int64_t first_id, jfs_batch_progress *progress) {
    copy_job job = {copies, NULL, 0, 0, malloc((size_t)longest(copies, lines, count) + 1), 0};
    jfs_status status = job.payload == NULL ? JFS_NO_MEMORY : JFS_OK;
    progress->records = 0;
    while (status == JFS_OK && progress->message < count) {
        job.line = &lines[progress->message];
        job.id = ids[progress->message];
        job.copy_id = first_id + progress->message;
        status = progress->step == 0
                     ? add_message(stage, ledger, &job, progress)
                     : stage_reference(stage, ledger, copies->tx_id, job.copy_id, copies->queue, progress);
        if (status != JFS_OK) break;
        step_staged(progress, STEPS);
    }
    free(job.payload);
    return status;
}
