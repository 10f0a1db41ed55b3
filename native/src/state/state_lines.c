/* What listings and part files need of references: measures, columns, line lengths, lines to render. */
#include "jfs_guard.h"
#include "state_internal.h"

/* Persister byte of an AMQP message whose encoding is in a large-message file. */
enum { PERSISTER_AMQP_LARGE = 4 };

typedef struct {
    jfs_state *state;
    const jfs_span *files;
    uint32_t file_count;
    uint32_t next; /* what is done already */
} measure_job;

/* Without what its queue says of it, and without a large body. */
static void line_of(const message_item *m, const jfs_span *file, jfs_line *line) {
    memset(line, 0, sizeof *line);
    line->payload = file->bytes + m->body_offset;
    line->payload_bytes = m->body_bytes;
    line->source = m->source;
    line->record_id = m->id;
}

static jfs_status measure_one(const measure_job *job, uint32_t message) {
    message_item *const m = &job->state->messages.items[message];
    jfs_line line;
    jfs_measure measure;
    jfs_status status;
    const jfs_span *span;
    if (!(m->state & MESSAGE_USED) || (m->state & (MESSAGE_MEASURED | MESSAGE_LARGE_SOURCE))) return JFS_OK;
    if (m->file_slot >= job->file_count) return JFS_RANGE;
    span = &job->files[m->file_slot];
    if ((uint64_t)m->body_offset + m->body_bytes > span->size_bytes) return JFS_RANGE;
    line_of(m, span, &line);
    if (m->source & JFS_SOURCE_CORE_LARGE || (m->body_bytes > 0 && line.payload[0] == PERSISTER_AMQP_LARGE)) {
        m->state |= MESSAGE_LARGE_SOURCE;
        m->flags |= JFS_MESSAGE_LARGE;
        return JFS_OK;
    }
    memset(&measure, 0, sizeof measure);
    status = jfs_line_measure(&line, &measure);
    if (status == JFS_OK) status = message_set_measure(job->state, message, &measure);
    return status;
}

static jfs_status measure_body(void *context) {
    measure_job *const job = context;
    jfs_state *const state = job->state;
    const uint32_t count = state->measure_all ? state->messages.count : state->pending.count;
    jfs_status status = JFS_OK;
    while (job->next < count && status == JFS_OK) {
        status = measure_one(job, state->measure_all ? job->next : state->pending.items[job->next]);
        if (status == JFS_OK) job->next++;
    }
    return status;
}

static int is_unmeasured(const message_item *m) {
    return (m->state & MESSAGE_USED) && !(m->state & MESSAGE_MEASURED);
}

static int by_number(const void *a, const void *b) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* What is still unmeasured stays in `pending`, each once: messages whose bodies are in files of their own. */
static jfs_status keep_unmeasured(jfs_state *state) {
    uint32_t *const items = state->pending.items;
    uint32_t left = 0, to = 0;
    if (state->measure_all) {
        for (uint32_t i = 0; i < state->messages.count && state->pending.count < state->unmeasured; i++) {
            jfs_status status;
            if (!is_unmeasured(&state->messages.items[i])) continue;
            status = VECTOR_ROOM(&state->pending);
            if (status != JFS_OK) return status;
            state->pending.items[state->pending.count++] = i;
        }
        return JFS_OK;
    }
    for (uint32_t i = 0; i < state->pending.count; i++) {
        if (is_unmeasured(&state->messages.items[items[i]])) items[left++] = items[i];
    }
    if (left > 1) qsort(items, left, sizeof *items, by_number);
    for (uint32_t i = 0; i < left; i++) {
        if (i == 0 || items[i] != items[i - 1]) items[to++] = items[i];
    }
    state->pending.count = to;
    return JFS_OK;
}

jfs_status jfs_state_measure(jfs_state *state, const jfs_span *files, uint32_t file_count) {
    measure_job job = {state, files, file_count, 0};
    jfs_status status = jfs_guarded(measure_body, &job);
    if (status != JFS_OK) return status; /* asked again, it goes over all of them again: done ones are skipped */
    if (state->measure_all) state->pending.count = 0;
    status = keep_unmeasured(state);
    if (status == JFS_OK) state->measure_all = 0;
    return status;
}

jfs_status jfs_state_unmeasured(const jfs_state *state, jfs_unmeasured *out, uint32_t capacity, uint32_t *count) {
    const int all = state->measure_all || !state->finished;
    const uint32_t end = all ? state->messages.count : state->pending.count;
    uint32_t found = 0;
    for (uint32_t at = 0; at < end && (!all || found < state->unmeasured); at++) {
        const uint32_t i = all ? at : state->pending.items[at];
        const message_item *const m = &state->messages.items[i];
        if (!is_unmeasured(m)) continue;
        if (found < capacity) {
            memset(&out[found], 0, sizeof out[found]);
            out[found].message_id = m->id;
            out[found].message = i;
            out[found].file_slot = m->file_slot;
            out[found].body_offset = m->body_offset;
            out[found].body_bytes = m->body_bytes;
            out[found].source = m->source;
        }
        found++;
    }
    return listed(found, capacity, count);
}

jfs_status jfs_state_set_measure(jfs_state *state, uint32_t message, int64_t message_id, const jfs_measure *measure) {
    if (message >= state->messages.count) return JFS_RANGE;
    if (!(state->messages.items[message].state & MESSAGE_USED)) return JFS_RANGE;
    if (state->messages.items[message].id != message_id) return JFS_RANGE;
    return message_set_measure(state, message, measure);
}

jfs_status jfs_state_large_ids(const jfs_state *state, int64_t *out, uint32_t capacity, uint32_t *count) {
    uint32_t found = 0;
    for (uint32_t i = 0; i < state->messages.count; i++) {
        const message_item *const m = &state->messages.items[i];
        if (!(m->state & MESSAGE_USED)) continue;
        if (!(m->state & MESSAGE_LARGE_SOURCE) && !(m->source & JFS_SOURCE_CORE_LARGE)) continue;
        if (found < capacity) out[found] = m->id;
        found++;
    }
    return listed(found, capacity, count);
}

jfs_status jfs_state_damaged_ids(const jfs_state *state, int64_t *out, uint32_t capacity, uint32_t *count) {
    uint32_t found = 0;
    for (uint32_t i = 0; i < state->messages.count; i++) {
        const message_item *const m = &state->messages.items[i];
        if (!(m->state & MESSAGE_USED) || !(m->flags & JFS_MESSAGE_DAMAGED)) continue;
        if (found < capacity) out[found] = m->id;
        found++;
    }
    return listed(found, capacity, count);
}

/* NULL: no such reference (any more). */
static const ref_item *ref_at(const jfs_state *state, uint32_t ref) {
    if (ref >= state->refs.count || state->refs.items[ref].state == REF_FREE) return NULL;
    return &state->refs.items[ref];
}

jfs_status jfs_state_listing(const jfs_state *state, const uint32_t *refs, uint32_t count, const jfs_listing *out) {
    for (uint32_t i = 0; i < count; i++) {
        const ref_item *const r = ref_at(state, refs[i]);
        const message_item *m;
        if (r == NULL) return JFS_RANGE;
        m = &state->messages.items[r->message];
        if (out->ids != NULL) out->ids[i] = m->id;
        if (out->sizes != NULL) out->sizes[i] = message_file_bytes(m);
        if (out->mtimes_ms != NULL) out->mtimes_ms[i] = m->timestamp_ms;
        if (out->suffixes != NULL) out->suffixes[i] = m->suffix;
    }
    return JFS_OK;
}

jfs_status jfs_state_line_starts(const jfs_state *state, const uint32_t *refs, uint32_t count,
                                 const jfs_line_options *options, uint64_t *starts) {
    uint64_t at = 0;
    for (uint32_t i = 0; i < count; i++) {
        const ref_item *const r = ref_at(state, refs[i]);
        if (r == NULL) return JFS_RANGE;
        starts[i] = at;
        at += options->prefix_bytes + ref_line_bytes(state, r, options->sealed, options->now_ms);
    }
    starts[count] = at;
    return JFS_OK;
}

jfs_status jfs_state_fill_lines(const jfs_state *state, const uint32_t *refs, uint32_t count,
                                const jfs_line_options *options, const jfs_span *files, uint32_t file_count,
                                jfs_line *out) {
    for (uint32_t i = 0; i < count; i++) {
        const ref_item *const r = ref_at(state, refs[i]);
        const message_item *m;
        if (r == NULL) return JFS_RANGE;
        m = &state->messages.items[r->message];
        if (m->file_slot >= file_count) return JFS_RANGE;
        if ((uint64_t)m->body_offset + m->body_bytes > files[m->file_slot].size_bytes) return JFS_RANGE;
        line_of(m, &files[m->file_slot], &out[i]);
        ref_decor_values(state, r, options->sealed, options->now_ms, &out[i].delivery_count, &out[i].scheduled_ms);
    }
    return JFS_OK;
}
