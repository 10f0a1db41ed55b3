/* HornetQ and Artemis 1.x: the same records as of today, but for the layout of messages and a byte in version 1. */
#include "jfs_older.h"

#include <stdlib.h>

#include "bytes.h"
#include "index.h"
#include "jfs_guard.h"
#include "older.h"
#include "properties.h"

enum {
    LARGE = 30,
    LEGACY = 31,
    REFERENCE = 32,
    PAGE_TRANSACTION = 35,
    DUPLICATE_ID = 37,
    COUNTER_VALUE = 40,
    COUNTER_INCREMENT = 41,
    CURRENT = 45,
    LEGACY_BODY_OFFSET = 17, /* what the first field of an old message counts beside the body */
    BODY_OFFSET = 13,
    PERSISTER_CORE = 1,
    USER_ID_BYTES = 16,
    TYPE_MAP = 5,
    COUNTER_BYTES = 8, /* of the size that counters of pages got later */
    ROOM_BYTES = 1024  /* for all that a message gets and had not, but the growth of names */
};

/* A message taken apart. */
typedef struct {
    int64_t id;
    jfs_view address; /* at: NULL for none */
    jfs_view body;
    jfs_view user_id;
    uint8_t type;
    uint8_t durable;
    jfs_view times; /* expiration, timestamp, priority */
    jfs_reader entries;
    uint32_t entry_count;
    int compressed;
} older_message;

jfs_status jfs_older_make_room(jfs_older_out *out, uint64_t wanted) {
    if (out->capacity - out->size >= wanted) return JFS_OK;
    uint64_t capacity = out->capacity == 0 ? 1 << 16 : out->capacity;
    while (capacity - out->size < wanted) capacity *= 2;
    uint8_t *bytes = realloc(out->bytes, capacity);
    if (bytes == NULL) return JFS_NO_MEMORY;
    out->bytes = bytes;
    out->capacity = capacity;
    return JFS_OK;
}

void jfs_older_free(jfs_older_out *out) {
    free(out->bytes);
    memset(out, 0, sizeof *out);
}

/* -- names -------------------------------------------------------------------------------------------------------- */

static int begins(jfs_view text, const char *prefix) {
    uint64_t i = 0;
    for (; prefix[i] != 0; i++)
        if (2 * i + 1 >= text.bytes || text.at[2 * i] != (uint8_t)prefix[i] || text.at[2 * i + 1] != 0) return 0;
    return 1;
}

static jfs_view without(jfs_view text, const char *prefix) {
    const uint64_t bytes = 2 * strlen(prefix);
    return (jfs_view){text.at + bytes, text.bytes - bytes};
}

/* A string of ASCII and what stands behind it. */
static uint8_t *put_joined(uint8_t *to, const char *first, jfs_view rest) {
    const uint64_t length = strlen(first);
    store_u32(to, (uint32_t)(2 * length + rest.bytes));
    to += 4;
    for (uint64_t i = 0; i < length; i++) {
        *to++ = (uint8_t)first[i];
        *to++ = 0;
    }
    return put_bytes(to, rest.at, rest.bytes);
}

static const char *const DESTINATIONS[][2] = {{"jms.queue.", "queue://"},
                                              {"jms.topic.", "topic://"},
                                              {"jms.tempqueue.", "temp-queue://"},
                                              {"jms.temptopic.", "temp-topic://"}};
enum { DESTINATION_KINDS = 4, WITH_PREFIX = 2 };

static uint8_t *put_address(uint8_t *to, jfs_view address, uint32_t flags) {
    for (int i = 0; (flags & JFS_OLDER_RENAME) != 0 && i < WITH_PREFIX; i++)
        if (begins(address, DESTINATIONS[i][0])) address = without(address, DESTINATIONS[i][0]);
    return put_joined(to, "", address);
}

static uint8_t *put_destination(uint8_t *to, jfs_view name) {
    for (int i = 0; i < DESTINATION_KINDS; i++)
        if (begins(name, DESTINATIONS[i][0]))
            return put_joined(to, DESTINATIONS[i][1], without(name, DESTINATIONS[i][0]));
    return put_joined(to, "", name);
}

static uint8_t *put_key(uint8_t *to, jfs_view key) {
    if (begins(key, "_HQ_")) return put_joined(to, "_AMQ_", without(key, "_HQ_"));
    if (begins(key, "__HQ_")) return put_joined(to, "__AMQ_", without(key, "__HQ_"));
    return put_joined(to, "", key);
}

/* -- properties --------------------------------------------------------------------------------------------------- */

static int is_internal(jfs_view key, const char *name) {
    if (begins(key, "_HQ_")) return jfs_key_is(without(key, "_HQ_"), name);
    return begins(key, "_AMQ_") && jfs_key_is(without(key, "_AMQ_"), name);
}

/* What stands between the code and the next entry, with booleans as they are written today. */
static uint8_t *put_value(uint8_t *to, const jfs_value *value) {
    *to++ = value->code;
    if (value->code == JFS_CODE_BOOLEAN) {
        *to++ = value->bytes.at[0] != 0;
        return to;
    }
    if (value->code == JFS_CODE_STRING || value->code == JFS_CODE_BYTES) {
        store_u32(to, (uint32_t)value->bytes.bytes);
        to += 4;
    }
    return put_bytes(to, value->bytes.at, value->bytes.bytes);
}

static uint8_t *put_property(uint8_t *to, const jfs_property *property, uint32_t flags) {
    const jfs_value *value = &property->value;
    if ((flags & JFS_OLDER_RENAME) == 0) return put_value(put_joined(to, "", property->key), value);
    to = put_key(to, property->key);
    if (value->code != JFS_CODE_STRING) return put_value(to, value);
    if (jfs_key_is(property->key, "JMSReplyTo")) {
        *to++ = value->code;
        return put_destination(to, value->bytes);
    }
    if (is_internal(property->key, "ORIG_ADDRESS") || is_internal(property->key, "ORIG_QUEUE")) {
        *to++ = value->code;
        return put_address(to, value->bytes, flags);
    }
    return put_value(to, value);
}

/* The properties, or a map body. `message`: of which these are the properties, and where a delivery time is left out,
 * since brokers go by the record that says it. */
static uint8_t *put_entries(uint8_t *to, jfs_reader entries, uint32_t count, uint32_t flags, int unscheduled) {
    uint8_t *const begin = to;
    uint32_t put = 0;
    to += 5;
    for (uint32_t i = 0; i < count; i++) {
        const jfs_property property = jfs_next_property(&entries);
        if (unscheduled && is_internal(property.key, "SCHED_DELIVERY")) continue;
        to = put_property(to, &property, flags);
        put++;
    }
    *begin = put > 0;
    if (put == 0) return begin + 1;
    store_u32(begin + 1, put);
    return to;
}

/* -- messages ----------------------------------------------------------------------------------------------------- */

/* From the id to the end of the properties. */
static int take_header(jfs_reader *reader, older_message *message) {
    jfs_entries properties;
    const char *reason;
    uint8_t odd = 0;
    int null_address;
    message->id = (int64_t)jfs_take64(reader);
    message->address = jfs_take_nullable(reader, &null_address);
    if (null_address) message->address.at = NULL;
    if (jfs_take8(reader) != 0) message->user_id = jfs_take(reader, USER_ID_BYTES);
    message->type = jfs_take8(reader);
    message->durable = jfs_take8(reader) != 0;
    message->times = jfs_take(reader, 17);
    if (reader->bad || message->id <= 0 || !jfs_take_properties(reader, &properties, &reason, &odd)) return 0;
    message->entries = jfs_reader_over(properties.bytes);
    message->entry_count = properties.count;
    jfs_reader entries = message->entries;
    for (uint32_t i = 0; i < properties.count; i++) {
        const jfs_property property = jfs_next_property(&entries);
        if (property.value.code == JFS_CODE_BOOLEAN && is_internal(property.key, "LARGE_COMPRESSED"))
            message->compressed = property.value.bytes.at[0] != 0;
    }
    return 1;
}

static int take_legacy(jfs_view payload, older_message *message) {
    jfs_reader reader = jfs_reader_over(payload);
    const uint32_t body_end = jfs_take32(&reader);
    if (reader.bad || body_end < LEGACY_BODY_OFFSET) return 0;
    message->body = jfs_take(&reader, body_end - LEGACY_BODY_OFFSET);
    jfs_take32(&reader);
    return !reader.bad && take_header(&reader, message);
}

static int take_current(jfs_view payload, older_message *message) {
    jfs_reader reader = jfs_reader_over(payload);
    int null_address;
    if (jfs_take8(&reader) != PERSISTER_CORE) return 0;
    jfs_take64(&reader);
    jfs_take_nullable(&reader, &null_address);
    reader = jfs_reader_over(jfs_take_sized(&reader));
    const uint32_t body_end = jfs_take32(&reader);
    if (reader.bad || body_end < BODY_OFFSET) return 0;
    message->body = jfs_take(&reader, body_end - BODY_OFFSET);
    return !reader.bad && take_header(&reader, message);
}

static uint8_t *put_nullable_address(uint8_t *to, const older_message *message, uint32_t flags) {
    *to++ = message->address.at != NULL;
    return message->address.at == NULL ? to : put_address(to, message->address, flags);
}

static uint8_t *put_header(uint8_t *to, const older_message *message, uint32_t flags, int unscheduled) {
    to = put_i64(to, message->id);
    to = put_nullable_address(to, message, flags);
    *to++ = message->user_id.bytes > 0;
    to = put_bytes(to, message->user_id.at, message->user_id.bytes);
    *to++ = message->type;
    *to++ = message->durable;
    to = put_bytes(to, message->times.at, message->times.bytes);
    return put_entries(to, message->entries, message->entry_count, flags, unscheduled);
}

/* A map's booleans are written otherwise today, too. */
static uint8_t *put_body(uint8_t *to, const older_message *message) {
    jfs_reader reader = jfs_reader_over(message->body);
    jfs_entries entries;
    const char *reason;
    uint8_t odd = 0;
    if (message->type != TYPE_MAP || message->compressed || message->body.bytes == 0 ||
        !jfs_take_properties(&reader, &entries, &reason, &odd) || jfs_left(&reader) > 0 || entries.count == 0)
        return put_bytes(to, message->body.at, message->body.bytes);
    return put_entries(to, jfs_reader_over(entries.bytes), entries.count, 0, 0);
}

static uint8_t *put_message(uint8_t *to, const older_message *message, uint32_t flags, int unscheduled) {
    *to++ = PERSISTER_CORE;
    to = put_i64(to, message->id);
    to = put_nullable_address(to, message, flags);
    uint8_t *const sizes = to;
    to = put_body(to + 8, message);
    store_u32(sizes + 4, BODY_OFFSET + (uint32_t)(to - sizes - 8));
    to = put_header(to, message, flags, unscheduled);
    store_u32(sizes, (uint32_t)(to - sizes - 4));
    return to;
}

/* The payload of a message in today's layout. Names may grow by a character each, and there are fewer of them than
 * bytes. */
static jfs_status add_payload(jfs_older_out *out, jfs_view payload, int type, uint32_t flags, int unscheduled) {
    older_message message = {0};
    jfs_reader reader = jfs_reader_over(payload);
    jfs_status status = jfs_older_make_room(out, 3 * payload.bytes + ROOM_BYTES);
    if (status != JFS_OK) return status;
    uint8_t *const from = out->bytes + out->size;
    uint8_t *to = from;
    const int whole = type == LEGACY  ? take_legacy(payload, &message)
                      : type == LARGE ? take_header(&reader, &message)
                                      : take_current(payload, &message);
    out->messages++;
    if (whole) {
        to = type == LARGE ? put_header(to, &message, flags, unscheduled)
                           : put_message(to, &message, flags, unscheduled);
    } else {
        /* Shown as it is, with what is wrong. Messages of other protocols are not taken apart, and right. */
        if (type == LEGACY) *to++ = PERSISTER_CORE;
        to = put_bytes(to, payload.at, payload.bytes);
        out->undecoded += type != CURRENT || (payload.bytes > 0 && payload.at[0] == PERSISTER_CORE);
    }
    out->size += (uint64_t)(to - from);
    return JFS_OK;
}

/* -- the journal -------------------------------------------------------------------------------------------------- */

typedef struct {
    int64_t tx_id;
    uint32_t source; /* the number of the file that `read` counts in; 0: the slot is free */
    uint32_t output;
    int32_t read;
    int32_t written;
} tx_count;

struct jfs_older_counts {
    tx_count *slots;
    uint64_t mask;
    uint64_t used;
    uint64_t seeds[2];
    uint32_t source;
    uint32_t output;
};

enum { SLOTS_MIN = 1024 };

jfs_status jfs_older_counts_new(jfs_older_counts **out) {
    jfs_older_counts *counts = calloc(1, sizeof *counts);
    if (counts != NULL) counts->slots = calloc(SLOTS_MIN, sizeof *counts->slots);
    if (counts == NULL || counts->slots == NULL || hash_seeds(counts->seeds) != JFS_OK) {
        jfs_older_counts_free(counts);
        return JFS_NO_MEMORY;
    }
    counts->mask = SLOTS_MIN - 1;
    counts->source = counts->output = 1;
    *out = counts;
    return JFS_OK;
}

void jfs_older_counts_free(jfs_older_counts *counts) {
    if (counts == NULL) return;
    free(counts->slots);
    free(counts);
}

void jfs_older_next_source(jfs_older_counts *counts) { counts->source++; }

void jfs_older_next_output(jfs_older_counts *counts) { counts->output++; }

static tx_count *slot_of(const uint64_t seeds[2], tx_count *slots, uint64_t mask, int64_t tx_id) {
    uint64_t at = hash_of(seeds, tx_id);
    while (slots[at & mask].source != 0 && slots[at & mask].tx_id != tx_id) at++;
    return &slots[at & mask];
}

/* Room for one more: what counts in neither of the two files any more goes. */
static jfs_status grow_counts(jfs_older_counts *counts) {
    uint64_t kept = 1;
    for (uint64_t i = 0; i <= counts->mask; i++)
        kept += counts->slots[i].source == counts->source || counts->slots[i].output == counts->output;
    uint64_t size = SLOTS_MIN;
    while (size < 4 * kept) size *= 2;
    tx_count *slots = calloc(size, sizeof *slots);
    if (slots == NULL) return JFS_NO_MEMORY;
    counts->used = 0;
    for (uint64_t i = 0; i <= counts->mask; i++) {
        const tx_count *old = &counts->slots[i];
        if (old->source == 0 || (old->source != counts->source && old->output != counts->output)) continue;
        *slot_of(counts->seeds, slots, size - 1, old->tx_id) = *old;
        counts->used++;
    }
    free(counts->slots);
    counts->slots = slots;
    counts->mask = size - 1;
    return JFS_OK;
}

/* What is counted of a transaction; what was counted in earlier files is forgotten. */
static jfs_status count_of(jfs_older_counts *counts, int64_t tx_id, tx_count **out) {
    if (2 * (counts->used + 1) > counts->mask) {
        const jfs_status status = grow_counts(counts);
        if (status != JFS_OK) return status;
    }
    tx_count *found = slot_of(counts->seeds, counts->slots, counts->mask, tx_id);
    counts->used += found->source == 0;
    found->tx_id = tx_id;
    if (found->source != counts->source) found->read = 0;
    if (found->output != counts->output) found->written = 0;
    found->source = counts->source;
    found->output = counts->output;
    *out = found;
    return JFS_OK;
}

jfs_status jfs_older_written(jfs_older_counts *counts, int64_t tx_id, int32_t **out) {
    tx_count *found;
    const jfs_status status = count_of(counts, tx_id, &found);
    if (status == JFS_OK) *out = &found->written;
    return status;
}

typedef struct {
    jfs_older_counts *counts;
    const uint8_t *bytes;
    const jfs_scan *scan;
    jfs_older_place *place;
    jfs_older_out *out;
} journal_job;

/* With JFS_OLDER_RECOVER transactions are forgotten, and what they added stays. */
static int is_left_out(const jfs_record *record, uint32_t flags) {
    if ((flags & JFS_OLDER_RECOVER) == 0) return record->kind == JFS_EVENT;
    if (record->kind == JFS_ADD || record->kind == JFS_ADD_TX)
        return record->user_type != LARGE && record->user_type != LEGACY && record->user_type != CURRENT &&
               record->user_type != PAGE_TRANSACTION;
    return (record->kind != JFS_UPDATE && record->kind != JFS_UPDATE_TX) || record->user_type != REFERENCE;
}

static uint8_t *put_front(uint8_t *to, const jfs_record *record, uint8_t kind, int32_t rid) {
    *to++ = kind;
    store_u32(to, (uint32_t)rid);
    to += 4;
    *to++ = (uint8_t)record->compact_count;
    if (kind >= JFS_ADD_TX && kind != JFS_DELETE) to = put_i64(to, record->tx_id);
    if (kind < JFS_PREPARE) to = put_i64(to, record->record_id);
    return to;
}

static int is_message(const jfs_record *record) {
    const int added = record->kind == JFS_ADD || record->kind == JFS_ADD_TX;
    return added && (record->user_type == LEGACY || record->user_type == LARGE || record->user_type == CURRENT);
}

static jfs_status add_body(jfs_older_out *out, const jfs_record *record, jfs_view body, uint32_t flags) {
    if (is_message(record)) return add_payload(out, body, record->user_type, flags, (flags & JFS_OLDER_UNSCHEDULED) != 0);
    if (record->user_type == DUPLICATE_ID && (flags & JFS_OLDER_RENAME) != 0 && record->kind != JFS_DELETE_TX) {
        jfs_reader reader = jfs_reader_over(body);
        const jfs_view address = jfs_take_sized(&reader);
        if (!reader.bad) {
            uint8_t *const to = put_address(out->bytes + out->size, address, flags);
            out->size = (uint64_t)(put_bytes(to, reader.at, jfs_left(&reader)) - out->bytes);
            return JFS_OK;
        }
    }
    out->size += (uint64_t)(put_bytes(out->bytes + out->size, body.at, body.bytes) - (out->bytes + out->size));
    const int counter = (record->user_type == COUNTER_VALUE && body.bytes == 16) ||
                        (record->user_type == COUNTER_INCREMENT && body.bytes == 12);
    if (!counter || record->kind == JFS_DELETE_TX) return JFS_OK;
    memset(out->bytes + out->size, 0, COUNTER_BYTES);
    out->size += COUNTER_BYTES;
    return JFS_OK;
}

static int is_in_transaction(uint8_t kind) {
    return kind == JFS_ADD_TX || kind == JFS_UPDATE_TX || kind == JFS_DELETE_TX;
}

/* From the kind to the body: for a COMMIT or PREPARE the count that is right where it goes. */
static jfs_status put_counted(const journal_job *job, const jfs_record *record, uint8_t *to) {
    tx_count *count;
    const jfs_status status = count_of(job->counts, record->tx_id, &count);
    if (status != JFS_OK) return status;
    store_u32(to, (uint32_t)record->count - (uint32_t)count->read + (uint32_t)count->written);
    return JFS_OK;
}

static jfs_status add_record(const journal_job *job, const jfs_record *record) {
    jfs_older_out *out = job->out;
    const uint32_t flags = job->place->flags;
    const jfs_view body = {job->bytes + record->body_offset, record->body_bytes};
    const uint64_t begin = out->size;
    jfs_status status = jfs_older_make_room(out, body.bytes + ROOM_BYTES);
    if (status != JFS_OK) return status;
    uint8_t kind = record->kind;
    if ((flags & JFS_OLDER_RECOVER) != 0 && kind == JFS_ADD_TX) kind = JFS_ADD;
    if ((flags & JFS_OLDER_RECOVER) != 0 && kind == JFS_UPDATE_TX) kind = JFS_UPDATE;
    uint8_t *to = put_front(out->bytes + out->size, record, kind, job->place->rid);
    uint64_t length_at = 0;
    if (kind == JFS_PREPARE || kind == JFS_COMMIT) {
        status = put_counted(job, record, to);
        if (status != JFS_OK) return status;
        to += 4;
    }
    if (kind < JFS_DELETE || kind == JFS_PREPARE) {
        length_at = (uint64_t)(to - out->bytes);
        to += 4;
        if (kind < JFS_DELETE_TX) {
            *to++ = record->user_type == LEGACY && is_message(record) ? CURRENT : (uint8_t)record->user_type;
        }
    }
    out->size = (uint64_t)(to - out->bytes);
    const uint64_t body_at = out->size;
    if (length_at != 0) {
        status = add_body(out, record, body, flags);
        if (status != JFS_OK) return status;
        store_u32(out->bytes + length_at, (uint32_t)(out->size - body_at));
    }
    status = jfs_older_make_room(out, 4);
    if (status != JFS_OK) return status;
    out->size += 4;
    store_u32(out->bytes + out->size - 4, (uint32_t)(out->size - begin));
    return JFS_OK;
}

/* Count a record that is written. */
static jfs_status count_record(const journal_job *job, const jfs_record *record) {
    tx_count *count;
    if (!is_in_transaction(record->kind)) return JFS_OK;
    const jfs_status status = count_of(job->counts, record->tx_id, &count);
    if (status != JFS_OK) return status;
    count->read++;
    count->written++;
    return JFS_OK;
}

static jfs_status journal_body(void *context) {
    const journal_job *job = context;
    jfs_older_out *out = job->out;
    jfs_older_place *place = job->place;
    out->size = out->whole;
    for (; place->next < job->scan->count; place->next++) {
        const jfs_record *record = &job->scan->records[place->next];
        if (is_left_out(record, place->flags)) continue;
        const uint32_t messages = out->messages, undecoded = out->undecoded;
        jfs_status status = add_record(job, record);
        if (status != JFS_OK) return status;
        if (out->size > place->room_bytes && !place->empty) {
            out->size = out->whole;
            out->messages = messages;
            out->undecoded = undecoded;
            return JFS_OK;
        }
        status = count_record(job, record);
        if (status != JFS_OK) return status;
        out->whole = out->size;
        place->empty = 0;
    }
    return JFS_OK;
}

jfs_status jfs_older_journal(jfs_older_counts *counts, const uint8_t *bytes, const jfs_scan *scan,
                             jfs_older_place *place, jfs_older_out *out) {
    journal_job job = {counts, bytes, scan, place, out};
    out->damaged_at = UINT64_MAX;
    if (place->next > scan->count) return JFS_RANGE;
    return jfs_guarded(journal_body, &job);
}

/* -- pages -------------------------------------------------------------------------------------------------------- */

enum { OPENING = '{', CLOSING = '}', FRAME_BYTES = 6, FRONT_BYTES = 13 };

typedef struct {
    const uint8_t *bytes;
    uint64_t size;
    uint32_t flags;
    const int64_t *routes;
    const uint32_t *starts;
    uint32_t routed;
    jfs_older_out *out;
} page_job;

static int frame_at(const page_job *job, uint64_t at, jfs_view *content) {
    if (job->size - at < FRAME_BYTES || job->bytes[at] != OPENING) return 0;
    const uint32_t length = jfs_load32(job->bytes + at + 1);
    if (length < FRONT_BYTES || length > job->size - at - FRAME_BYTES) return 0;
    *content = (jfs_view){job->bytes + at + 5, length};
    return job->bytes[at + 5 + length] == CLOSING;
}

/* Whether the content is a message and then queues, to the last byte. */
static int fits(const page_job *job, jfs_view content) {
    jfs_reader reader = jfs_reader_over(content);
    jfs_take(&reader, 9);
    jfs_take_sized(&reader);
    if ((job->flags & JFS_OLDER_UNROUTED) != 0) return !reader.bad && jfs_left(&reader) == 0;
    const uint64_t queues = jfs_take32(&reader);
    return !reader.bad && 8 * queues == jfs_left(&reader);
}

/* Where the next whole record begins that is not before `at`, with another one or the end of the page behind it. */
static uint64_t resume_at(const page_job *job, uint64_t at) {
    for (; at < job->size; at++) {
        jfs_view content, next;
        const uint8_t *found = memchr(job->bytes + at, OPENING, job->size - at);
        if (found == NULL) return job->size;
        at = (uint64_t)(found - job->bytes);
        if (!frame_at(job, at, &content) || !fits(job, content)) continue;
        const uint64_t end = at + content.bytes + FRAME_BYTES;
        if (job->size - end < FRAME_BYTES || frame_at(job, end, &next)) return at;
    }
    return job->size;
}

static uint8_t *put_queues(const page_job *job, uint8_t *to, uint32_t number, jfs_reader *reader) {
    if ((job->flags & JFS_OLDER_UNROUTED) == 0) return put_bytes(to, reader->at, jfs_left(reader));
    const uint32_t first = number < job->routed ? job->starts[number] : 0;
    const uint32_t count = number < job->routed ? job->starts[number + 1] - first : 0;
    store_u32(to, count);
    to += 4;
    for (uint32_t i = 0; i < count; i++) to = put_i64(to, job->routes[first + i]);
    return to;
}

/* What keeps the place of a record that nobody can read: a message for no queue. */
static uint8_t *put_nothing(uint8_t *to) {
    const older_message nothing = {.times = {(const uint8_t *)"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\4", 17}};
    to = put_message(to, &nothing, 0, 0);
    store_u32(to, 0);
    return to + 4;
}

/* One record; a content that is none of a record keeps the place of one. */
static jfs_status add_page_record(const page_job *job, jfs_view content, uint32_t number) {
    jfs_older_out *out = job->out;
    const uint32_t count = number < job->routed ? job->starts[number + 1] - job->starts[number] : 0;
    const uint64_t begin = out->size;
    jfs_status status = jfs_older_make_room(out, content.bytes + ROOM_BYTES + 8 * (uint64_t)count);
    if (status != JFS_OK) return status;
    jfs_reader reader = jfs_reader_over(content);
    uint8_t *to = out->bytes + out->size;
    *to++ = OPENING;
    to += 4;
    const int whole = fits(job, content);
    const int64_t tx = whole ? (int64_t)jfs_take64(&reader) : -1;
    const int large = whole && jfs_take8(&reader) != 0;
    to = put_i64(to, tx);
    *to++ = (uint8_t)large;
    out->size = (uint64_t)(to - out->bytes);
    if (whole) {
        const jfs_view message = jfs_take_sized(&reader);
        const uint64_t length_at = out->size;
        if (large) out->size += 4;
        status = add_payload(out, message, large ? LARGE : LEGACY, job->flags, 0);
        if (status == JFS_OK) status = jfs_older_make_room(out, jfs_left(&reader) + ROOM_BYTES + 8 * (uint64_t)count);
        if (status != JFS_OK) return status;
        if (large) store_u32(out->bytes + length_at, (uint32_t)(out->size - length_at - 4));
        out->size = (uint64_t)(put_queues(job, out->bytes + out->size, number, &reader) - out->bytes);
    } else {
        out->size = (uint64_t)(put_nothing(out->bytes + out->size) - out->bytes);
    }
    store_u32(out->bytes + begin + 1, (uint32_t)(out->size - begin - 5));
    out->bytes[out->size++] = CLOSING;
    return JFS_OK;
}

static jfs_status page_body(void *context) {
    const page_job *job = context;
    jfs_older_out *out = job->out;
    uint64_t at = 0;
    for (uint32_t number = 0; job->size - at >= FRAME_BYTES; number++) {
        jfs_view content = {NULL, 0};
        uint64_t end = at;
        if (frame_at(job, at, &content)) {
            end += content.bytes + FRAME_BYTES;
            if (out->damaged_at == UINT64_MAX && !fits(job, content)) out->damaged_at = at;
        } else {
            if (out->damaged_at == UINT64_MAX) out->damaged_at = at;
            end = resume_at(job, at + 1);
            if (end == job->size) break;
            content = (jfs_view){NULL, 0};
        }
        const jfs_status status = add_page_record(job, content, number);
        if (status != JFS_OK) return status;
        at = end;
    }
    return JFS_OK;
}

jfs_status jfs_older_page(const uint8_t *bytes, uint64_t size_bytes, uint32_t flags, const int64_t *routes,
                          const uint32_t *starts, uint32_t routed, jfs_older_out *out) {
    page_job job = {bytes, size_bytes, flags, routes, starts, routed, out};
    out->damaged_at = UINT64_MAX;
    out->size = 0;
    out->messages = out->undecoded = 0;
    return jfs_guarded(page_body, &job);
}
