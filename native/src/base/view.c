/* Windows over lines that can be rendered one by one. */
#include "view.h"

#include "jfs_guard.h"

uint64_t jfs_find_line(const uint64_t *starts, uint64_t count, uint64_t from) {
    uint64_t low = 0, high = count;
    while (high - low > 1) {
        const uint64_t middle = low + (high - low) / 2;
        if (starts[middle] <= from)
            low = middle;
        else
            high = middle;
    }
    return low;
}

typedef struct {
    jfs_put_line put;
    const void *context;
    uint64_t count;
    uint64_t *starts;
    const uint64_t *known_starts;
    jfs_sink sink;
} view_job;

static jfs_status starts_body(void *context) {
    view_job *job = context;
    for (uint64_t i = 0; i < job->count; i++) {
        job->starts[i] = job->sink.pos;
        job->put(&job->sink, job->context, i);
    }
    job->starts[job->count] = job->sink.pos;
    return JFS_OK;
}

jfs_status jfs_view_starts(jfs_put_line put, const void *context, uint64_t count, uint64_t *starts) {
    view_job job = {put, context, count, starts, NULL, {NULL, 0, 0, 0, NULL}};
    jfs_sink_measure(&job.sink);
    return jfs_guarded(starts_body, &job);
}

static jfs_status read_body(void *context) {
    view_job *job = context;
    jfs_sink *sink = &job->sink;
    const uint64_t *starts = job->known_starts;
    for (uint64_t i = jfs_find_line(starts, job->count, sink->from); i < job->count && starts[i] < sink->to; i++) {
        sink->pos = starts[i];
        job->put(sink, job->context, i);
        if (starts[i + 1] <= sink->to && sink->pos != starts[i + 1]) return JFS_MALFORMED;
        /* A line that came out shorter than it was measured leaves a part of the window unwritten. */
        if (sink->pos < starts[i + 1] && sink->pos < sink->to) return JFS_MALFORMED;
    }
    return JFS_OK;
}

jfs_status jfs_view_read(jfs_put_line put, const void *context, uint64_t count, const uint64_t *starts, uint64_t from,
                         uint8_t *out, uint64_t capacity, uint64_t *written) {
    view_job job = {put, context, count, NULL, starts, {out, 0, from, from, NULL}};
    *written = 0;
    if (count == 0 || from >= starts[count] || capacity == 0) return JFS_OK;
    job.sink.to = capacity < starts[count] - from ? from + capacity : starts[count];
    jfs_status status = jfs_guarded(read_body, &job);
    if (status == JFS_OK) *written = job.sink.to - from;
    return status;
}
