#include "message_copy.h"

#include "bytes.h"
#include "message.h"
#include "properties.h"

enum {
    PERSISTER_CORE = 1,
    BODY_OFFSET = 13, /* what the end-of-body field counts beside the body */
    USER_ID_BYTES = 16,
    FIXED_BYTES = 19
};

/* What a copy says of the message that it is of, as brokers do. */
enum { NOTE_QUEUE, NOTE_ADDRESS, NOTE_ID, NOTES, NOTE_ROUTING_TYPE = NOTES, NOTE_EXPIRY, OWN_ROUTING_TYPE, NAMES };
static const char *const NOTE_NAMES[NAMES] = {"_AMQ_ORIG_QUEUE",        "_AMQ_ORIG_ADDRESS",  "_AMQ_ORIG_MESSAGE_ID",
                                              "_AMQ_ORIG_ROUTING_TYPE", "_AMQ_ACTUAL_EXPIRY", "_AMQ_ROUTING_TYPE"};
static const char SCHEDULED[] = "_AMQ_SCHED_DELIVERY";

typedef struct {
    jfs_view body;
    jfs_view address; /* with its length */
    jfs_view head;    /* from the mark of the user id to the priority */
    jfs_reader entries;
    uint32_t entry_count;
} core_parts;

static jfs_view between(const uint8_t *from, const jfs_reader *to) {
    return (jfs_view){from, (uint64_t)(to->at - from)};
}

/* 0 for one without an address, too. */
static int take_apart(const jfs_line *line, core_parts *parts) {
    jfs_reader reader = jfs_reader_over((jfs_view){line->payload, line->payload_bytes});
    const uint8_t *from;
    int null_address;
    uint32_t body_end;
    if (jfs_take8(&reader) != PERSISTER_CORE) return 0;
    jfs_take64(&reader);
    jfs_take_nullable(&reader, &null_address);
    reader = jfs_reader_over(jfs_take_sized(&reader));
    body_end = jfs_take32(&reader);
    if (reader.bad || body_end < BODY_OFFSET) return 0;
    parts->body = jfs_take(&reader, body_end - BODY_OFFSET);
    jfs_take64(&reader);
    from = reader.at;
    jfs_take_nullable(&reader, &null_address);
    if (reader.bad || null_address) return 0;
    parts->address = between(from + 1, &reader);
    from = reader.at;
    if (jfs_take8(&reader) != 0) jfs_take(&reader, USER_ID_BYTES);
    jfs_take(&reader, FIXED_BYTES);
    if (reader.bad) return 0;
    parts->head = between(from, &reader);
    parts->entry_count = jfs_take8(&reader) == 0 ? 0 : jfs_take32(&reader);
    parts->entries = reader;
    return !reader.bad;
}

static int note_of(jfs_view key) {
    int note = 0;
    while (note < NAMES && !jfs_key_is(key, NOTE_NAMES[note])) note++;
    return note;
}

static int is_routing_type(const jfs_value *value) {
    return value->code == JFS_CODE_BYTE && value->bytes.bytes == 1 && value->bytes.at[0] <= 1;
}

/* Not one that says when it is due, or where it comes from more than once, or was wanted by queues of no kind. */
static int is_plain(const jfs_copies *copies, const core_parts *parts) {
    jfs_reader entries = parts->entries;
    const int names = copies->notes == JFS_NOTES_KEPT ? 0 : copies->notes == JFS_NOTES_TAKEN ? NAMES : NOTES;
    int noted[NAMES + 1] = {0};
    for (uint32_t i = 0; i < parts->entry_count && !entries.bad; i++) {
        const jfs_property property = jfs_next_property(&entries);
        const int note = note_of(property.key);
        if (jfs_key_is(property.key, SCHEDULED) || (note < names && noted[note])) return 0;
        if (copies->notes == JFS_NOTES_TAKEN && note == NOTE_ROUTING_TYPE && !is_routing_type(&property.value)) return 0;
        noted[note] = 1;
    }
    return 1;
}

int message_copy_possible(const jfs_copies *copies, const jfs_line *line) {
    jfs_message message;
    core_parts parts;
    if (line->source != JFS_SOURCE_PERSISTER || line->scheduled_ms != 0 || !take_apart(line, &parts)) return 0;
    if (parts.body.bytes > copies->body_bytes_max) return 0;
    if (message_copy_bytes_at_most(copies, line) > copies->message_bytes_max) return 0;
    jfs_message_parse(line, NULL, &message);
    return message.damage == NULL && !message.irregular && !message.undecoded && message.durable &&
           parts.address.bytes > 4 && is_plain(copies, &parts);
}

uint64_t message_copy_bytes_at_most(const jfs_copies *copies, const jfs_line *line) {
    /* Names, types and lengths of all notes, the id, and that there are properties, take less than this. */
    enum { NOTES_BYTES = 256 };
    return (uint64_t)line->payload_bytes + 2 * (uint64_t)copies->address_bytes + copies->queue_name_bytes + NOTES_BYTES +
           line->payload_bytes; /* the address */
}

static uint8_t *put_view(uint8_t *to, jfs_view view) { return put_bytes(to, view.at, view.bytes); }

static uint8_t *put_name(uint8_t *to, const char *name) {
    const uint32_t length = (uint32_t)strlen(name);
    store_u32(to, 2 * length);
    to += 4;
    for (uint32_t i = 0; i < length; i++) {
        *to++ = (uint8_t)name[i];
        *to++ = 0;
    }
    return to;
}

static uint8_t *put_note(uint8_t *to, int note, const jfs_copies *copies, const core_parts *parts, int64_t id) {
    to = put_name(to, NOTE_NAMES[note]);
    if (note == NOTE_ID) {
        *to++ = JFS_CODE_LONG;
        return put_i64(to, id);
    }
    *to++ = JFS_CODE_STRING;
    if (note == NOTE_ADDRESS) return put_view(to, parts->address);
    return put_bytes(to, copies->queue_name, copies->queue_name_bytes);
}

/* Notes take the place of those that were there before. NULL: they are none, or one is there twice. */
static uint8_t *put_properties(uint8_t *to, const jfs_copies *copies, const core_parts *parts, int64_t id) {
    jfs_reader entries = parts->entries;
    uint32_t count = parts->entry_count;
    int noted[NOTES] = {0};
    uint8_t *const counted = to + 1;
    *to = 1;
    to += 5;
    for (uint32_t i = 0; i < parts->entry_count; i++) {
        const uint8_t *const from = entries.at;
        const jfs_property property = jfs_next_property(&entries);
        const int note = note_of(property.key);
        if (entries.bad || property.value.code == UINT8_MAX || (note < NOTES && noted[note])) return NULL;
        if (note < NOTES) {
            noted[note] = 1;
            to = put_note(to, note, copies, parts, id);
        } else {
            to = put_view(to, between(from, &entries));
        }
    }
    for (int note = 0; note < NOTES; note++) {
        if (noted[note]) continue;
        to = put_note(to, note, copies, parts, id);
        count++;
    }
    store_u32(counted, count);
    return to;
}

/* Without any notes, and with the routing type that was noted. NULL: they are none. */
static uint8_t *put_restored(uint8_t *to, const core_parts *parts) {
    jfs_reader entries = parts->entries;
    uint32_t count = 0;
    jfs_value routing_type = {.code = JFS_CODE_NULL};
    uint8_t *const mark = to;
    to += 5;
    for (uint32_t i = 0; i < parts->entry_count; i++) {
        const uint8_t *const from = entries.at;
        const jfs_property property = jfs_next_property(&entries);
        const int note = note_of(property.key);
        if (entries.bad || property.value.code == UINT8_MAX) return NULL;
        if (note == NOTE_ROUTING_TYPE) routing_type = property.value;
        if (note < NAMES) continue;
        to = put_view(to, between(from, &entries));
        count++;
    }
    if (routing_type.code != JFS_CODE_NULL) {
        to = put_name(to, NOTE_NAMES[OWN_ROUTING_TYPE]);
        *to++ = routing_type.code;
        to = put_view(to, routing_type.bytes);
        count++;
    }
    mark[0] = count > 0;
    store_u32(mark + 1, count);
    return count > 0 ? to : mark + 1;
}

/* As they are. NULL: they are none. */
static uint8_t *put_kept(uint8_t *to, const core_parts *parts) {
    jfs_reader entries = parts->entries;
    const uint8_t *const from = entries.at;
    for (uint32_t i = 0; i < parts->entry_count && !entries.bad; i++) jfs_next_property(&entries);
    if (entries.bad) return NULL;
    *to++ = parts->entry_count > 0;
    if (parts->entry_count == 0) return to;
    store_u32(to, parts->entry_count);
    return put_view(to + 4, between(from, &entries));
}

/* The expiration stands before the timestamp and the priority. */
static void never_expires(uint8_t *head_end) { memset(head_end - 17, 0, 8); }

jfs_status message_copy_put(const jfs_copies *copies, const jfs_line *line, int64_t id, int64_t copy_id, uint8_t *to,
                            uint32_t *bytes) {
    core_parts parts;
    uint8_t *at = to, *sizes;
    if (!take_apart(line, &parts)) return JFS_MALFORMED;
    *at++ = PERSISTER_CORE;
    at = put_i64(at, copy_id);
    sizes = put_bytes(at, copies->address, copies->address_bytes);
    at = put_view(sizes + 8, parts.body);
    at = put_i64(at, copy_id);
    at = put_bytes(at, copies->address, copies->address_bytes);
    at = put_view(at, parts.head);
    if (copies->notes == JFS_NOTES_TAKEN) never_expires(at);
    switch (copies->notes) {
        case JFS_NOTES_TAKEN: at = put_restored(at, &parts); break;
        case JFS_NOTES_KEPT: at = put_kept(at, &parts); break;
        default: at = put_properties(at, copies, &parts, id);
    }
    if (at == NULL) return JFS_MALFORMED;
    store_u32(sizes, (uint32_t)(at - sizes - 4));
    store_u32(sizes + 4, BODY_OFFSET + (uint32_t)parts.body.bytes);
    *bytes = (uint32_t)(at - to);
    return JFS_OK;
}
