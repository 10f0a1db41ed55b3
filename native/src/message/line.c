/* Lines and message files: measuring them, and writing any window of them. */
#include <stdlib.h>

#include "envelope.h"
#include "jfs_guard.h"
#include "jfs_lines.h"
#include "view.h"

struct jfs_cursor {
    const jfs_line *line; /* whose message and memory these are; NULL: nobody's */
    jfs_message message;
    jfs_memory memory;
    jfs_arena arena;
};

/* Lines of at least this length are kept in the cursor: shorter ones are parsed again in no time. */
enum { KEPT_LINE_BYTES = 65536 };

jfs_status jfs_cursor_new(jfs_cursor **out) {
    *out = calloc(1, sizeof **out);
    return *out == NULL ? JFS_NO_MEMORY : JFS_OK;
}

void jfs_cursor_free(jfs_cursor *cursor) {
    if (cursor != NULL) jfs_arena_free(&cursor->arena);
    free(cursor);
}

/* The parsed message, and the memory of its long pieces, of the line that was read last. */
static const jfs_message *cursor_message(jfs_cursor *cursor, const jfs_line *line) {
    if (cursor->line != line) {
        cursor->line = NULL; /* parsing may be cut off by a fault */
        memset(&cursor->memory, 0, sizeof cursor->memory);
        jfs_message_parse(line, &cursor->arena, &cursor->message);
        cursor->line = line;
    }
    return &cursor->message;
}

static uint8_t measured_priority(const jfs_message *message) {
    const int8_t priority = (int8_t)message->priority;
    return (uint8_t)(priority < 0 ? 0 : priority > 9 ? 9 : priority);
}

/* When a message is over, 0: never. A broker subtracts it from now, and what is negative and near the end of 64 bits, as of
 * clients that add the longest time to live to now, wraps around: never. Other negative ones are over.
 */
static int64_t over_ms(int64_t expiration_ms) {
    const int64_t wrapping = INT64_MIN + ((int64_t)1 << 46); /* which no clock reaches */
    if (expiration_ms >= 0) return expiration_ms;
    return expiration_ms > wrapping ? 1 : 0;
}

static void measure_message(const jfs_message *message, jfs_measure *out) {
    jfs_sink sink;
    jfs_sink_measure(&sink);
    jfs_put_tail(&sink, message);
    out->tail_bytes = sink.pos;
    jfs_sink_measure(&sink);
    jfs_put_body_file(&sink, message);
    out->body_bytes = sink.pos;
    out->message_id = message->id;
    out->timestamp_ms = message->timestamp_ms;
    out->expiration_ms = over_ms(message->expiration_ms);
    out->scheduled_ms = message->scheduled_ms;
    out->priority = measured_priority(message);
    out->suffix = jfs_body_suffix(message);
    out->flags =
        (uint8_t)((message->durable ? JFS_MESSAGE_DURABLE : 0) | (message->is_large ? JFS_MESSAGE_LARGE : 0) |
                  (message->damage != NULL ? JFS_MESSAGE_DAMAGED : 0) |
                  (message->protocol == JFS_AMQP ? JFS_MESSAGE_AMQP : 0) |
                  (message->is_large && message->compressed ? JFS_MESSAGE_COMPRESSED : 0) |
                  (message->misnamed ? JFS_MESSAGE_MISNAMED : 0));
}

typedef struct {
    const jfs_line *line;
    jfs_measure *out;
    jfs_arena arena;
} inflate_job;

static jfs_status inflate_body(void *context) {
    inflate_job *job = context;
    jfs_message message;
    jfs_message_parse(job->line, &job->arena, &message);
    measure_message(&message, job->out);
    return JFS_OK;
}

jfs_status jfs_line_measure(const jfs_line *line, jfs_measure *out) {
    jfs_message message;
    memset(out, 0, sizeof *out);
    jfs_message_parse(line, NULL, &message);
    if (!message.needs_arena) {
        measure_message(&message, out);
        return JFS_OK;
    }
    /* A guard of its own, so that the arena is freed even if the caller's guard has to end. */
    inflate_job job = {line, out, {NULL, 0, NULL}};
    jfs_status status = jfs_guarded(inflate_body, &job);
    jfs_arena_free(&job.arena);
    return status;
}

typedef struct {
    const jfs_line *lines;
    uint64_t count;
    uint64_t prefix_bytes;
    jfs_measure *measures;
    uint64_t *starts;
    jfs_arena arena;
} measure_job;

static jfs_status measure_body(void *context) {
    const measure_job *job = context;
    jfs_status status = JFS_OK;
    for (uint64_t i = 0; i < job->count && status == JFS_OK; i++)
        status = jfs_line_measure(&job->lines[i], &job->measures[i]);
    return status;
}

jfs_status jfs_lines_measure(const jfs_line *lines, uint64_t count, jfs_measure *out) {
    measure_job job = {lines, count, 0, out, NULL, {NULL, 0, NULL}};
    return jfs_guarded(measure_body, &job);
}

uint64_t jfs_line_frame_bytes(const jfs_line *line, uint64_t prefix_bytes) {
    jfs_sink sink;
    jfs_sink_measure(&sink);
    jfs_put_line_state(&sink, line);
    return prefix_bytes + sink.pos + 2;
}

static jfs_status starts_body(void *context) {
    measure_job *job = context;
    uint64_t at = 0;
    for (uint64_t i = 0; i < job->count; i++) {
        jfs_message message;
        jfs_sink sink;
        job->starts[i] = at;
        jfs_message_parse(&job->lines[i], &job->arena, &message);
        jfs_sink_measure(&sink);
        jfs_put_tail(&sink, &message);
        at += sink.pos + jfs_line_frame_bytes(&job->lines[i], job->prefix_bytes);
    }
    job->starts[job->count] = at;
    return JFS_OK;
}

jfs_status jfs_lines_starts(const jfs_line *lines, uint64_t count, uint64_t prefix_bytes, uint64_t *starts) {
    measure_job job = {lines, count, prefix_bytes, NULL, starts, {NULL, 0, NULL}};
    jfs_status status = jfs_guarded(starts_body, &job);
    jfs_arena_free(&job.arena);
    return status;
}

typedef struct {
    const jfs_lines *lines;
    const jfs_line *line; /* body only */
    jfs_cursor *cursor;
    jfs_sink sink;
    jfs_arena arena;
} read_job;

static void put_line(jfs_sink *sink, const jfs_lines *lines, const jfs_line *line, const jfs_message *message) {
    jfs_put(sink, lines->prefix, lines->prefix_bytes);
    jfs_put_line_state(sink, line);
    jfs_put_tail(sink, message);
    JFS_PUT(sink, "}\n");
}

static jfs_status lines_body(void *context) {
    read_job *job = context;
    const jfs_lines *lines = job->lines;
    jfs_sink *sink = &job->sink;
    for (uint64_t i = jfs_find_line(lines->starts, lines->count, sink->from);
         i < lines->count && lines->starts[i] < sink->to; i++) {
        const jfs_line *line = &lines->lines[i];
        const uint64_t end = lines->starts[i + 1];
        const int kept = job->cursor != NULL && end - lines->starts[i] >= KEPT_LINE_BYTES;
        jfs_message here;
        const jfs_message *message = &here;
        if (kept)
            message = cursor_message(job->cursor, line);
        else
            jfs_message_parse(line, &job->arena, &here);
        sink->pos = lines->starts[i];
        sink->memory = kept ? &job->cursor->memory : NULL;
        put_line(sink, lines, line, message);
        if (end <= sink->to && sink->pos != end) return JFS_MALFORMED;
        /* A line that came out shorter than it was measured leaves a part of the window unwritten. */
        if (sink->pos < end && sink->pos < sink->to) return JFS_MALFORMED;
    }
    return JFS_OK;
}

jfs_status jfs_lines_read(const jfs_lines *lines, uint64_t from, uint8_t *out, uint64_t capacity, uint64_t *written,
                          jfs_cursor *cursor) {
    read_job job = {lines, NULL, cursor, {out, 0, from, from, NULL}, {NULL, 0, NULL}};
    const uint64_t end = lines->count == 0 ? 0 : lines->starts[lines->count];
    *written = 0;
    if (from >= end || capacity == 0) return JFS_OK;
    job.sink.to = capacity < end - from ? from + capacity : end;
    jfs_status status = jfs_guarded(lines_body, &job);
    jfs_arena_free(&job.arena);
    if (status == JFS_OK) *written = job.sink.to - from;
    if (status == JFS_TORN && cursor != NULL) cursor->line = NULL;
    return status;
}

static jfs_status body_body(void *context) {
    read_job *job = context;
    jfs_message here;
    const jfs_message *message = &here;
    if (job->cursor != NULL) {
        message = cursor_message(job->cursor, job->line);
        job->sink.memory = &job->cursor->memory;
    } else {
        jfs_message_parse(job->line, &job->arena, &here);
    }
    jfs_put_body_file(&job->sink, message);
    return job->sink.pos < job->sink.to ? JFS_MALFORMED : JFS_OK;
}

jfs_status jfs_body_read(const jfs_line *line, uint64_t body_bytes, uint64_t from, uint8_t *out, uint64_t capacity,
                         uint64_t *written, jfs_cursor *cursor) {
    read_job job = {NULL, line, cursor, {out, 0, from, from, NULL}, {NULL, 0, NULL}};
    *written = 0;
    if (from >= body_bytes || capacity == 0) return JFS_OK;
    job.sink.to = capacity < body_bytes - from ? from + capacity : body_bytes;
    jfs_status status = jfs_guarded(body_body, &job);
    jfs_arena_free(&job.arena);
    if (status == JFS_OK) *written = job.sink.to - from;
    if (status == JFS_TORN && cursor != NULL) cursor->line = NULL;
    return status;
}
