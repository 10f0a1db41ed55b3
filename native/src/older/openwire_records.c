/* Messages of ActiveMQ 5 as records: what journalfs.records.older.openwire_core makes of them, byte for byte. */
#include <inttypes.h>
#include <stdio.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "blake2b.h"
#include "bytes.h"
#include "fields.h"
#include "jfs_guard.h"
#include "jfs_openwire.h"
#include "jfs_scan.h"
#include "older.h"
#include "openwire.h"
#include "properties.h"

enum {
    PERSISTER_CORE = 1,
    BODY_OFFSET = 13,
    USER_ID_BYTES = 16,
    ADD_REFERENCE = 32,
    DELIVERY_COUNT = 34,
    CURRENT = 45,
    PRIORITY_MAX = 9,
    ID_BYTES_MAX = 512,
    LONG_BYTES = 1 << 20,      /* a command that is longer is not usual */
    ROOM_BYTES = 4096,         /* for all names and numbers that a message gets */
    GROWTH = 4,                /* of texts, and of names with what is between them */
    RECORD_ROOM_BYTES = 35,    /* what a record may have beside its body, as files are filled by */
    PER_QUEUE_BYTES = 128
};

/* Types of values in maps. */
enum { IS_NULL, IS_BOOLEAN, IS_BYTE, IS_CHAR, IS_SHORT, IS_INT, IS_LONG, IS_DOUBLE, IS_FLOAT, IS_STRING, IS_BYTES,
       IS_MAP, IS_LIST, IS_BIG_STRING };

/* -- text --------------------------------------------------------------------------------------------------------- */

#if defined(__SSE2__)
/* ASCII sixteen characters at a time: how many bytes of it there were. */
static uint64_t put_ascii_units(uint8_t *to, const uint8_t *at, const uint8_t *end) {
    const __m128i zero = _mm_setzero_si128();
    uint64_t done = 0;
    for (; (uint64_t)(end - at) - done >= 16; done += 16) {
        const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(at + done));
        if (_mm_movemask_epi8(bytes) != 0) break;
        _mm_storeu_si128((__m128i *)(void *)(to + 2 * done), _mm_unpacklo_epi8(bytes, zero));
        _mm_storeu_si128((__m128i *)(void *)(to + 2 * done + 16), _mm_unpackhi_epi8(bytes, zero));
    }
    return done;
}
#else
static uint64_t put_ascii_units(uint8_t *to, const uint8_t *at, const uint8_t *end) { return 0; }
#endif

/* Java's own UTF-8 as UTF-16, low byte first. NULL: it is not what Java writes. */
static uint8_t *put_units(uint8_t *to, jfs_view text) {
    const uint8_t *at = text.at, *const end = text.bytes > 0 ? at + text.bytes : at;
    int high = 0; /* the first half of a pair has just been there */
    while (at < end) {
        uint32_t unit = *at;
        if (unit < 0x80) {
            const uint64_t plain = high ? 0 : put_ascii_units(to, at, end);
            at += plain;
            to += 2 * plain;
            if (plain > 0) continue;
            at++;
        } else if ((unit & 0xe0) == 0xc0) {
            if (end - at < 2 || (at[1] & 0xc0) != 0x80) return NULL;
            unit = (unit & 0x1f) << 6 | (at[1] & 0x3fu);
            if (unit > 0 && unit < 0x80) return NULL;
            at += 2;
        } else if ((unit & 0xf0) == 0xe0) {
            if (end - at < 3 || (at[1] & 0xc0) != 0x80 || (at[2] & 0xc0) != 0x80) return NULL;
            unit = (unit & 0x0f) << 12 | (at[1] & 0x3fu) << 6 | (at[2] & 0x3fu);
            if (unit < 0x800) return NULL;
            at += 3;
        } else {
            return NULL;
        }
        const int low = (unit & 0xfc00) == 0xdc00;
        if (low != high) return NULL; /* a half on its own */
        high = (unit & 0xfc00) == 0xd800;
        *to++ = (uint8_t)unit;
        *to++ = (uint8_t)(unit >> 8);
    }
    return high ? NULL : to;
}

/* Where bytes go; `at` is NULL once something was not usual. */
typedef struct {
    uint8_t *at;
} writer;

static void put_u8(writer *out, uint8_t value) {
    if (out->at != NULL) *out->at++ = value;
}

static void put_u32(writer *out, uint32_t value) {
    if (out->at == NULL) return;
    store_u32(out->at, value);
    out->at += 4;
}

static void put_u64(writer *out, uint64_t value) {
    if (out->at != NULL) out->at = put_i64(out->at, (int64_t)value);
}

static void put_view(writer *out, jfs_view view) {
    if (out->at != NULL) out->at = put_bytes(out->at, view.at, view.bytes);
}

static void put_ascii(writer *out, const char *text) {
    for (; out->at != NULL && *text != 0; text++) {
        *out->at++ = (uint8_t)*text;
        *out->at++ = 0;
    }
}

static void put_text(writer *out, jfs_view text) {
    if (out->at != NULL) out->at = put_units(out->at, text);
}

/* A SimpleString of what is put after this; its length is put by `end_string`. */
static uint8_t *begin_string(writer *out) {
    uint8_t *const begin = out->at;
    put_u32(out, 0);
    return begin;
}

static void end_string(writer *out, uint8_t *begin) {
    if (out->at != NULL) store_u32(begin, (uint32_t)(out->at - begin - 4));
}

static void put_string(writer *out, const char *prefix, jfs_view text) {
    uint8_t *const begin = begin_string(out);
    put_ascii(out, prefix);
    put_text(out, text);
    end_string(out, begin);
}

static const jfs_view NOTHING = {NULL, 0};

/* -- values ------------------------------------------------------------------------------------------------------- */

/* A number that becomes another one where a float is made a double and back. */
static int is_signaling(jfs_view bits) {
    const uint32_t value = jfs_load32(bits.at);
    return (value & 0x7f800000) == 0x7f800000 && (value & 0x7fffff) != 0 && (value & 0x400000) == 0;
}

static void put_number(writer *out, uint8_t code, jfs_reader *reader, uint64_t bytes) {
    const jfs_view value = jfs_take(reader, bytes);
    put_u8(out, code);
    put_view(out, value);
}

static void put_sized(writer *out, uint8_t code, jfs_view bytes) {
    put_u8(out, code);
    put_u32(out, (uint32_t)bytes.bytes);
    put_view(out, bytes);
}

/* A value with its code, as properties have it. */
static void put_value(writer *out, jfs_reader *reader) {
    jfs_view value;
    switch (jfs_take8(reader)) {
    case IS_NULL: put_u8(out, JFS_CODE_NULL); break;
    case IS_BOOLEAN:
        put_u8(out, JFS_CODE_BOOLEAN);
        put_u8(out, jfs_take8(reader) != 0);
        break;
    case IS_BYTE: put_number(out, JFS_CODE_BYTE, reader, 1); break;
    case IS_CHAR: put_number(out, JFS_CODE_CHAR, reader, 2); break;
    case IS_SHORT: put_number(out, JFS_CODE_SHORT, reader, 2); break;
    case IS_INT: put_number(out, JFS_CODE_INT, reader, 4); break;
    case IS_LONG: put_number(out, JFS_CODE_LONG, reader, 8); break;
    case IS_DOUBLE: put_number(out, JFS_CODE_DOUBLE, reader, 8); break;
    case IS_FLOAT:
        value = jfs_take(reader, 4);
        if (!reader->bad && is_signaling(value)) reader->bad = 1;
        put_u8(out, JFS_CODE_FLOAT);
        put_view(out, value);
        break;
    case IS_STRING:
        put_u8(out, JFS_CODE_STRING);
        put_string(out, "", jfs_take(reader, jfs_take16(reader)));
        break;
    case IS_BIG_STRING:
        put_u8(out, JFS_CODE_STRING);
        put_string(out, "", jfs_take_sized(reader));
        break;
    case IS_BYTES: put_sized(out, JFS_CODE_BYTES, jfs_take_sized(reader)); break;
    default: reader->bad = 1; /* maps and lists too: they become JSON */
    }
}

/* Entries of a map. Returns how many. */
static uint32_t put_entries(writer *out, jfs_view map) {
    jfs_reader reader = jfs_reader_over(map);
    const uint32_t count = jfs_take32(&reader);
    if (count > INT32_MAX) reader.bad = 1;
    for (uint32_t i = 0; i < count && !reader.bad && out->at != NULL; i++) {
        put_string(out, "", jfs_take(&reader, jfs_take16(&reader)));
        put_value(out, &reader);
    }
    if (reader.bad) out->at = NULL;
    return count;
}

/* A short string of a stream: its length in characters chooses one of three encodings. */
static void put_short_string(writer *out, jfs_view text) {
    enum { PLAIN_UNITS = 9, UTF_UNITS = 4095 };
    put_u8(out, JFS_CODE_STRING);
    put_u8(out, 1);
    uint8_t *const begin = out->at;
    put_u32(out, 0);
    uint8_t *const units_at = out->at;
    put_text(out, text);
    if (out->at == NULL) return;
    const uint32_t units = (uint32_t)(out->at - units_at) / 2;
    store_u32(begin, units);
    if (units < PLAIN_UNITS) {
        for (uint32_t i = 0; i < units; i++) {
            const uint8_t low = units_at[2 * i];
            units_at[2 * i] = units_at[2 * i + 1];
            units_at[2 * i + 1] = low;
        }
    } else if (units < UTF_UNITS) {
        /* What Java wrote is nearly what it is to be, but for NUL, which has one byte here. */
        uint8_t *to = units_at + 2;
        for (uint64_t i = 0; i < text.bytes; i++) {
            const int nul = text.at[i] == 0xc0;
            *to++ = nul ? 0 : text.at[i];
            i += (uint64_t)nul;
        }
        const uint64_t bytes = (uint64_t)(to - units_at - 2);
        units_at[0] = (uint8_t)(bytes >> 8);
        units_at[1] = (uint8_t)bytes;
        out->at = to;
    } else {
        memmove(units_at + 4, units_at, 2 * (uint64_t)units);
        store_u32(units_at, 2 * units);
        out->at += 4;
    }
}

static void put_stream(writer *out, jfs_view content) {
    jfs_reader reader = jfs_reader_over(content);
    while (!reader.bad && jfs_left(&reader) > 0 && out->at != NULL) {
        const uint8_t kind = reader.at[0];
        if (kind == IS_STRING || kind == IS_BIG_STRING) {
            jfs_take8(&reader);
            put_short_string(out, kind == IS_STRING ? jfs_take(&reader, jfs_take16(&reader)) : jfs_take_sized(&reader));
        } else if (kind == IS_NULL) {
            jfs_take8(&reader);
            put_u8(out, JFS_CODE_STRING);
            put_u8(out, 0);
        } else {
            uint8_t *const begin = out->at;
            put_value(out, &reader);
            if (kind == IS_BOOLEAN && out->at != NULL) begin[1] = begin[1] != 0 ? 0xff : 0;
        }
    }
    if (reader.bad) out->at = NULL;
}

static void put_text_body(writer *out, jfs_view content) {
    jfs_reader reader = jfs_reader_over(content);
    const uint32_t length = jfs_take32(&reader);
    if (reader.bad) out->at = NULL;
    put_u8(out, length <= INT32_MAX);
    if (length > INT32_MAX) return;
    const jfs_view text = jfs_take(&reader, length);
    if (reader.bad) out->at = NULL;
    put_string(out, "", text);
}

static void put_body(writer *out, const openwire_message *message) {
    const jfs_view content = message->content.text;
    uint8_t *const begin = out->at;
    if (!message->content.present) {
        if (message->kind == OPENWIRE_TEXT || message->kind == OPENWIRE_MAP) put_u8(out, 0);
        return;
    }
    switch (message->kind) {
    case OPENWIRE_TEXT: put_text_body(out, content); break;
    case OPENWIRE_STREAM: put_stream(out, content); break;
    case OPENWIRE_OBJECT:
        put_u32(out, (uint32_t)content.bytes);
        put_view(out, content);
        break;
    case OPENWIRE_MAP: {
        put_u8(out, 1);
        put_u32(out, 0);
        const uint32_t count = put_entries(out, content);
        if (out->at == NULL) break;
        if (count == 0) {
            *begin = 0;
            out->at = begin + 1;
        } else {
            store_u32(begin + 1, count);
        }
        break;
    }
    default: put_view(out, content);
    }
}

/* -- properties --------------------------------------------------------------------------------------------------- */

typedef struct {
    writer *out;
    uint32_t count;
} entries;

static void put_name(entries *to, const char *prefix, const char *name, uint8_t code) {
    uint8_t *const begin = begin_string(to->out);
    put_ascii(to->out, prefix);
    put_ascii(to->out, name);
    end_string(to->out, begin);
    put_u8(to->out, code);
    to->count++;
}

static void put_said(entries *to, const char *prefix, const char *name, openwire_text text) {
    if (!text.present) return;
    put_name(to, prefix, name, JFS_CODE_STRING);
    put_string(to->out, "", text.text);
}

static void put_destination(entries *to, const char *prefix, const char *name, openwire_text destination) {
    static const char *const qualified[] = {"queue://", "topic://", "temp-queue://", "temp-topic://"};
    if (!destination.present) return;
    put_name(to, prefix, name, JFS_CODE_STRING);
    put_string(to->out, qualified[destination.kind - 100], destination.text);
}

static void put_integer(writer *out, int64_t value) {
    char digits[24];
    snprintf(digits, sizeof digits, ":%" PRId64, value);
    put_ascii(out, digits);
}

static void put_producer(writer *out, const openwire_producer *producer) {
    if (!producer->connection.present) out->at = NULL;
    put_text(out, producer->connection.text);
    put_integer(out, producer->session);
    put_integer(out, producer->value);
}

static const char HEADER[] = "__HDR_";

static void put_long(entries *to, const char *name, int64_t value) {
    put_name(to, HEADER, name, JFS_CODE_LONG);
    put_u64(to->out, (uint64_t)value);
}

/* The names with commas between them; nothing where that is empty. */
static void put_brokers(entries *to, const char *name, const openwire_brokers *brokers) {
    uint64_t bytes = brokers->count > 1 ? brokers->count - 1 : 0;
    for (uint32_t i = 0; i < brokers->count; i++) bytes += brokers->names[i].bytes;
    if (bytes == 0) return;
    put_name(to, HEADER, name, JFS_CODE_STRING);
    uint8_t *const begin = begin_string(to->out);
    for (uint32_t i = 0; i < brokers->count; i++) {
        if (i > 0) put_ascii(to->out, ",");
        put_text(to->out, brokers->names[i]);
    }
    end_string(to->out, begin);
}

static int begins_with_id(jfs_view text) { return text.bytes >= 3 && memcmp(text.at, "ID:", 3) == 0; }

/* The id in UTF-16; its digest, which goes by UTF-8, is only made here for ASCII. */
static void put_id(writer *out, const openwire_message *message, uint8_t *digest) {
    uint8_t plain[ID_BYTES_MAX];
    uint8_t *const begin = begin_string(out);
    if (message->foreign_id.present) {
        put_ascii(out, begins_with_id(message->foreign_id.text) ? "" : "ID:");
        put_text(out, message->foreign_id.text);
    } else if (message->id_producer.present) {
        put_producer(out, &message->id_producer);
        put_integer(out, message->id_sequence);
    } else {
        out->at = NULL;
    }
    end_string(out, begin);
    if (out->at == NULL) return;
    const uint64_t units = (uint64_t)(out->at - begin - 4) / 2;
    if (units > ID_BYTES_MAX) {
        out->at = NULL;
        return;
    }
    for (uint64_t i = 0; i < units; i++) {
        if (begin[4 + 2 * i] >= 0x80 || begin[5 + 2 * i] != 0) {
            out->at = NULL;
            return;
        }
        plain[i] = begin[4 + 2 * i];
    }
    jfs_blake2b(digest, USER_ID_BYTES, plain, units);
}

static void put_broker_properties(entries *to, const openwire_message *message, uint8_t *digest) {
    put_long(to, "ARRIVAL", message->arrival_ms);
    put_long(to, "BROKER_IN_TIME", message->broker_in_ms);
    put_brokers(to, "BROKER_PATH", &message->broker_path);
    put_brokers(to, "CLUSTER", &message->cluster);
    put_name(to, HEADER, "COMMAND_ID", JFS_CODE_INT);
    put_u32(to->out, (uint32_t)message->command_id);
    put_name(to, HEADER, "DROPPABLE", JFS_CODE_BOOLEAN);
    put_u8(to->out, message->droppable != 0);
    put_name(to, HEADER, "MESSAGE_ID", JFS_CODE_STRING);
    put_id(to->out, message, digest);
    put_destination(to, HEADER, "ORIG_DESTINATION", message->original);
    if (message->producer.present) {
        put_name(to, HEADER, "PRODUCER_ID", JFS_CODE_STRING);
        uint8_t *const begin = begin_string(to->out);
        put_producer(to->out, &message->producer);
        end_string(to->out, begin);
    }
    put_said(to, HEADER, "USER_ID", message->user);
}

static void put_properties(writer *out, const openwire_message *message, int topic, uint8_t *digest) {
    entries to = {out, 0};
    put_u8(out, 1);
    uint8_t *const begin = out->at;
    put_u32(out, 0);
    if (message->properties.present) to.count = put_entries(out, message->properties.text);
    put_said(&to, "", "JMSType", message->jms_type);
    put_said(&to, "", "JMSCorrelationID", message->correlation_id);
    put_destination(&to, "", "JMSReplyTo", message->reply_to);
    put_said(&to, "", "_AMQ_GROUP_ID", message->group);
    put_name(&to, "", "_AMQ_GROUP_SEQUENCE", JFS_CODE_INT);
    put_u32(out, (uint32_t)message->group_sequence);
    put_name(&to, "", "_AMQ_ROUTING_TYPE", JFS_CODE_BYTE);
    put_u8(out, !topic);
    put_broker_properties(&to, message, digest);
    if (out->at != NULL) store_u32(begin, to.count);
}

/* -- messages ----------------------------------------------------------------------------------------------------- */

static uint8_t core_type(uint8_t kind) {
    static const uint8_t types[] = {JFS_TYPE_DEFAULT, JFS_TYPE_BYTES,  JFS_TYPE_MAP,
                                    JFS_TYPE_OBJECT,  JFS_TYPE_STREAM, JFS_TYPE_TEXT};
    return types[kind - OPENWIRE_MESSAGE];
}

typedef struct {
    const jfs_openwire_batch *batch;
    jfs_openwire_progress *progress;
    jfs_older_out *out;
} job;

static jfs_view address_of(const jfs_openwire_batch *batch, uint32_t message) {
    const uint32_t number = batch->address[message];
    const uint32_t begin = batch->address_starts[number];
    return (jfs_view){batch->addresses + begin, batch->address_starts[number + 1] - begin};
}

/* The payload of a message. */
static void put_payload(writer *out, const job *j, const openwire_message *message, jfs_view address) {
    uint8_t digest[USER_ID_BYTES];
    put_u8(out, PERSISTER_CORE);
    put_u64(out, (uint64_t)j->progress->message_id);
    put_view(out, address);
    uint8_t *const sizes = out->at;
    put_u64(out, 0);
    uint8_t *const body = out->at;
    put_body(out, message);
    if (out->at == NULL || (uint64_t)(out->at - body) > j->batch->body_bytes_max) {
        out->at = NULL;
        return;
    }
    store_u32(sizes + 4, BODY_OFFSET + (uint32_t)(out->at - body));
    put_u64(out, (uint64_t)j->progress->message_id);
    put_view(out, address);
    put_u8(out, 1);
    uint8_t *const user_id = out->at;
    out->at += USER_ID_BYTES;
    put_u8(out, core_type(message->kind));
    put_u8(out, message->persistent != 0);
    put_u64(out, (uint64_t)message->expiration_ms);
    put_u64(out, (uint64_t)message->timestamp_ms);
    put_u8(out, message->priority < PRIORITY_MAX ? message->priority : PRIORITY_MAX);
    put_properties(out, message, j->batch->topic, digest);
    if (out->at == NULL) return;
    memcpy(user_id, digest, USER_ID_BYTES);
    store_u32(sizes, (uint32_t)(out->at - sizes - 4));
}

/* From the kind to the body, and what is to be done when that is there. */
static uint8_t *begin_record(writer *out, const job *j, uint8_t kind, uint8_t user_type) {
    uint8_t *const begin = out->at;
    put_u8(out, kind);
    put_u32(out, (uint32_t)j->batch->rid);
    put_u8(out, 0);
    put_u64(out, (uint64_t)j->progress->message_id);
    put_u32(out, 0);
    put_u8(out, user_type);
    return begin;
}

/* NULL as well where the file has no room for it. */
static void end_record(writer *out, const job *j, uint8_t *begin) {
    enum { FRONT_BYTES = 19 };
    if (out->at == NULL) return;
    const uint64_t body_bytes = (uint64_t)(out->at - begin) - FRONT_BYTES;
    if ((uint64_t)(begin - j->out->bytes) + body_bytes + RECORD_ROOM_BYTES > j->batch->room_bytes) {
        out->at = NULL;
        return;
    }
    store_u32(begin + 14, (uint32_t)body_bytes);
    put_u32(out, (uint32_t)(out->at + 4 - begin));
}

static void put_for_queue(writer *out, const job *j, uint8_t user_type, int64_t queue, const int32_t *count) {
    uint8_t *const begin = begin_record(out, j, JFS_UPDATE, user_type);
    put_u64(out, (uint64_t)queue);
    if (count != NULL) put_u32(out, (uint32_t)*count);
    end_record(out, j, begin);
}

/* The records of one message; *made = 0 where it is not usual. */
static jfs_status put_message(const job *j, uint32_t number, jfs_view command, int *made) {
    const jfs_openwire_batch *batch = j->batch;
    const uint32_t first = batch->starts[number], last = batch->starts[number + 1];
    const jfs_view address = address_of(batch, number);
    openwire_message message;
    *made = 0;
    if (command.bytes > LONG_BYTES || !jfs_openwire_parse(command, &message) || message.compressed) return JFS_OK;
    const jfs_status status = jfs_older_make_room(j->out, GROWTH * command.bytes + 2 * address.bytes + ROOM_BYTES +
                                                    PER_QUEUE_BYTES * (uint64_t)(last - first));
    if (status != JFS_OK) return status;
    writer out = {j->out->bytes + j->out->size};
    uint8_t *const begin = begin_record(&out, j, JFS_ADD, CURRENT);
    put_payload(&out, j, &message, address);
    end_record(&out, j, begin);
    for (uint32_t i = first; i < last; i++) put_for_queue(&out, j, ADD_REFERENCE, batch->queues[i], NULL);
    for (uint32_t i = first; i < last && message.redeliveries > 0; i++)
        put_for_queue(&out, j, DELIVERY_COUNT, batch->queues[i], &message.redeliveries);
    if (out.at == NULL) return JFS_OK;
    j->out->size = (uint64_t)(out.at - j->out->bytes);
    *made = 1;
    return JFS_OK;
}

/* The last field of that number that is bytes, or nothing. */
static jfs_view last_field(jfs_view fields, uint64_t wanted) {
    jfs_reader reader = jfs_reader_over(fields);
    jfs_view found = NOTHING;
    while (!reader.bad && jfs_left(&reader) > 0) {
        uint64_t tag;
        const jfs_view value = take_field(&reader, &tag);
        if (tag == (wanted << 3 | FIELD_BYTES)) found = value;
    }
    return reader.bad ? NOTHING : found;
}

/* The command in a record of KahaDB that begins at an offset. */
static jfs_view in_kahadb(jfs_view file, uint64_t offset) {
    enum { HEAD_BYTES = 5, ADD = 1, UPDATE = 10, INNER = 1, MESSAGE = 4, LENGTH_BYTES = 4 };
    jfs_reader reader = jfs_reader_behind(file, offset);
    const uint32_t size = jfs_take32(&reader);
    if (reader.bad || size < HEAD_BYTES + 2) return NOTHING;
    reader = jfs_reader_behind(file, offset);
    reader = jfs_reader_over(jfs_take(&reader, size));
    jfs_take(&reader, HEAD_BYTES);
    const uint8_t kind = jfs_take8(&reader);
    jfs_view fields = jfs_take(&reader, take_varint(&reader));
    if (kind == UPDATE) fields = last_field(fields, INNER);
    if (reader.bad || (kind != ADD && kind != UPDATE)) return NOTHING;
    const jfs_view message = last_field(fields, MESSAGE);
    return message.bytes < LENGTH_BYTES ? NOTHING : (jfs_view){message.at + LENGTH_BYTES, message.bytes - LENGTH_BYTES};
}

/* The command at an offset, whose length the record of a data log says before it. */
static jfs_view in_amq(jfs_view file, uint64_t offset) {
    enum { HEAD_BYTES = 29, TAIL_BYTES = 3, MARK_AT = 26, LENGTH_BYTES = 4 };
    if (offset < HEAD_BYTES + LENGTH_BYTES) return NOTHING;
    jfs_reader reader = jfs_reader_behind(file, offset - HEAD_BYTES - LENGTH_BYTES);
    const jfs_view head = jfs_take(&reader, HEAD_BYTES + LENGTH_BYTES);
    if (reader.bad || memcmp(head.at + MARK_AT, "SOR", 3) != 0) return NOTHING;
    const int64_t size = load_i32(head.at), length = load_i32(head.at + HEAD_BYTES);
    if (length <= 0 || length > size - HEAD_BYTES - TAIL_BYTES - LENGTH_BYTES) return NOTHING;
    return jfs_take(&reader, (uint64_t)length);
}

static jfs_view command_at(const jfs_openwire_batch *batch, uint32_t number) {
    const uint32_t slot = batch->file[number], length = batch->length[number];
    const uint64_t offset = batch->offset[number];
    const jfs_view file = {batch->files[slot], batch->file_bytes[slot]};
    if (offset > file.bytes || file.at == NULL) return NOTHING;
    if (length == 0) return batch->layout == JFS_OPENWIRE_AMQ ? in_amq(file, offset) : in_kahadb(file, offset);
    return length > file.bytes - offset ? NOTHING : (jfs_view){file.at + offset, length};
}

static jfs_status records_body(void *context) {
    const job *j = context;
    jfs_openwire_progress *progress = j->progress;
    for (; progress->next < j->batch->count; progress->next++) {
        int made;
        const jfs_status status = put_message(j, progress->next, command_at(j->batch, progress->next), &made);
        if (status != JFS_OK || !made) return status;
        progress->message_id++;
        j->out->whole = j->out->size;
        j->out->messages++;
    }
    return JFS_OK;
}

static int is_sound(const jfs_openwire_batch *batch, uint32_t next) {
    for (uint32_t i = next; i < batch->count; i++)
        if (batch->file[i] >= batch->file_count || batch->address[i] >= batch->address_count ||
            batch->starts[i] > batch->starts[i + 1] || batch->starts[i + 1] > batch->queue_count)
            return 0;
    return 1;
}

jfs_status jfs_openwire_records(const jfs_openwire_batch *batch, jfs_openwire_progress *progress, jfs_older_out *out) {
    job j = {batch, progress, out};
    if (progress->next > batch->count || !is_sound(batch, progress->next)) return JFS_RANGE;
    return jfs_guarded(records_body, &j);
}
