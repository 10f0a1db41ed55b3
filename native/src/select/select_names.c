/* The values that a selector's names have in one message, as its envelope would show them. */
#include "amqp.h"
#include "properties.h"
#include "select.h"

static jfs_select_value of_type(uint8_t type) { return (jfs_select_value){.type = type}; }

static jfs_select_value of_number(uint8_t type, int64_t number) {
    return (jfs_select_value){.type = type, .number = number};
}

static jfs_select_value of_real(uint8_t type, double real) { return (jfs_select_value){.type = type, .real = real}; }

static jfs_select_value of_utf16(jfs_view text) {
    static const uint8_t empty[2];
    return (jfs_select_value){
        .type = JFS_V_STRING, .utf16 = text.bytes == 0 ? empty : text.at, .utf16_bytes = text.bytes};
}

static jfs_select_value of_utf8(jfs_view text) {
    static const uint8_t empty[1];
    return (jfs_select_value){
        .type = JFS_V_STRING, .utf8 = text.bytes == 0 ? empty : text.at, .utf8_bytes = text.bytes};
}

static double float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

static double double_of(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static jfs_select_value of_core(const jfs_value *value) {
    switch (value->code) {
    case JFS_CODE_NULL: return of_type(JFS_V_NULL);
    case JFS_CODE_BOOLEAN: return of_number(JFS_V_BOOLEAN, value->bytes.at[0] != 0);
    case JFS_CODE_BYTE: return of_number(JFS_V_BYTE, jfs_value_integer(value));
    case JFS_CODE_SHORT: return of_number(JFS_V_SHORT, jfs_value_integer(value));
    case JFS_CODE_INT: return of_number(JFS_V_INT, jfs_value_integer(value));
    case JFS_CODE_LONG: return of_number(JFS_V_LONG, jfs_value_integer(value));
    case JFS_CODE_FLOAT: return of_real(JFS_V_FLOAT, float_of(jfs_load32(value->bytes.at)));
    case JFS_CODE_DOUBLE: return of_real(JFS_V_DOUBLE, double_of(jfs_load64(value->bytes.at)));
    case JFS_CODE_CHAR: return of_number(JFS_V_CHAR, jfs_load16(value->bytes.at));
    case JFS_CODE_STRING: return of_utf16(value->bytes);
    default: return of_type(JFS_V_BYTES);
    }
}

/* Unsigned numbers count as long, as the broker's filter converts them. */
static jfs_select_value of_amqp(const jfs_amqp *value) {
    switch (value->type) {
    case JFS_A_NULL: return of_type(JFS_V_NULL);
    case JFS_A_BOOLEAN: return of_number(JFS_V_BOOLEAN, value->number != 0);
    case JFS_A_BYTE: return of_number(JFS_V_BYTE, (int64_t)value->number);
    case JFS_A_SHORT: return of_number(JFS_V_SHORT, (int64_t)value->number);
    case JFS_A_INT: return of_number(JFS_V_INT, (int64_t)value->number);
    case JFS_A_UBYTE:
    case JFS_A_USHORT:
    case JFS_A_UINT:
    case JFS_A_ULONG:
    case JFS_A_LONG: return of_number(JFS_V_LONG, (int64_t)value->number);
    case JFS_A_FLOAT: return of_real(JFS_V_FLOAT, float_of(jfs_load32(value->bytes.at)));
    case JFS_A_DOUBLE: return of_real(JFS_V_DOUBLE, double_of(jfs_load64(value->bytes.at)));
    case JFS_A_STRING: return of_utf8(value->bytes);
    default: return of_type(JFS_V_OPAQUE);
    }
}

static int is_key(const uint8_t *name, uint32_t bytes, jfs_view key) {
    return key.bytes == bytes && (bytes == 0 || memcmp(name, key.at, bytes) == 0);
}

/* A property that stands twice is one in the envelope, in a way that is not repeated here. */
static void note(jfs_select_value *out, uint8_t *seen, jfs_select_value value) {
    *out = *seen ? of_type(JFS_V_ASK) : value;
    *seen = 1;
}

enum { NAMES_SEEN_MAX = 256 };

/* Core entries. Leaves alone what has a value. */
static void load_core(const jfs_select_program *program, jfs_entries entries, int extra, jfs_select_value *out) {
    uint8_t seen[NAMES_SEEN_MAX] = {0};
    jfs_reader reader = jfs_reader_over(entries.bytes);
    for (uint32_t left = entries.count; left > 0 && !reader.bad; left--) {
        const jfs_property property = jfs_next_property(&reader);
        for (uint32_t i = 0; i < program->name_count; i++) {
            const jfs_select_name *const name = &program->names[i];
            if (!is_key(name->utf16, name->utf16_bytes, property.key)) continue;
            if (!extra || out[i].type == JFS_V_NULL || seen[i]) note(&out[i], &seen[i], of_core(&property.value));
        }
    }
}

static void load_amqp(const jfs_select_program *program, const jfs_message *message, jfs_select_value *out) {
    uint8_t seen[NAMES_SEEN_MAX] = {0};
    const jfs_amqp map = jfs_amqp_section(message, JFS_SECTION_APPLICATION_PROPERTIES);
    jfs_reader reader = jfs_reader_over(map.bytes);
    for (uint32_t at = 0; map.type == JFS_A_MAP && at + 1 < map.count; at += 2) {
        const jfs_amqp key = jfs_take_amqp(&reader), value = jfs_take_amqp(&reader);
        if (key.type != JFS_A_STRING && key.type != JFS_A_SYMBOL) continue;
        for (uint32_t i = 0; i < program->name_count; i++) {
            const jfs_select_name *const name = &program->names[i];
            if (is_key(name->utf8, name->utf8_bytes, key.bytes)) note(&out[i], &seen[i], of_amqp(&value));
        }
    }
    if (message->extra.count > 0 && !message->extra_is_address) load_core(program, message->extra, 1, out);
}

static jfs_select_value word(const char *text) { return of_utf8((jfs_view){(const uint8_t *)text, strlen(text)}); }

/* `ID:` and the number, as UTF-16. */
static jfs_select_value user_id_value(const jfs_message *message, uint8_t *room) {
    uint8_t text[JFS_USER_ID_BYTES / 2] = "ID:";
    jfs_sink sink = {text + 3, 0, 0, 36, NULL};
    jfs_put_uuid(&sink, message->user_id.at);
    for (int i = 0; i < JFS_USER_ID_BYTES / 2; i++) {
        room[2 * i] = text[i];
        room[2 * i + 1] = 0;
    }
    return of_utf16((jfs_view){room, JFS_USER_ID_BYTES});
}

/* Another property comes before the one that has the header's name: it is in the next register. */
static void load_user_id(const jfs_message *message, uint8_t *user_id, jfs_select_value *value) {
    if (message->protocol == JFS_AMQP)
        *value = of_type(JFS_V_ASK);
    else if (message->user_id.at != NULL)
        *value = user_id_value(message, user_id);
    else if (value[1].type == JFS_V_STRING || value[1].type == JFS_V_ASK)
        *value = value[1];
}

/* Where the message has no such header, the property of that name counts, which is in `value` already. */
static void load_header(const jfs_message *message, uint8_t kind, uint8_t *user_id, jfs_select_value *value) {
    const int amqp = message->protocol == JFS_AMQP;
    switch (kind) {
    case JFS_N_AMQP_FIELD:
        if (amqp) *value = of_type(JFS_V_ASK);
        break;
    case JFS_N_PRIORITY: *value = of_number(JFS_V_INT, (int8_t)message->priority); break;
    case JFS_N_TIMESTAMP: *value = of_number(JFS_V_LONG, message->timestamp_ms); break;
    case JFS_N_EXPIRATION: *value = of_number(JFS_V_LONG, message->expiration_ms); break;
    case JFS_N_DURABLE: *value = word(message->durable ? "DURABLE" : "NON_DURABLE"); break;
    case JFS_N_MODE: *value = word(message->durable ? "PERSISTENT" : "NON_PERSISTENT"); break;
    case JFS_N_ADDRESS:
        if ((message->has & JFS_HAS_ADDRESS) && message->address.at != NULL) *value = of_utf16(message->address);
        break;
    case JFS_N_GROUP:
        if (amqp)
            *value = of_type(JFS_V_ASK);
        else if (message->group.at != NULL)
            *value = of_utf16(message->group);
        break;
    case JFS_N_USER_ID: load_user_id(message, user_id, value); break;
    default: break;
    }
}

void jfs_select_load(const jfs_select_program *program, const jfs_message *message, uint8_t *user_id,
                     jfs_select_value *registers) {
    for (uint32_t i = 0; i < program->name_count; i++) registers[i] = of_type(JFS_V_NULL);
    if (message->protocol == JFS_AMQP)
        load_amqp(program, message, registers);
    else
        load_core(program, message->properties, 0, registers);
    for (uint32_t i = 0; i < program->name_count; i++)
        if (program->names[i].kind != JFS_N_PROPERTY)
            load_header(message, program->names[i].kind, user_id, &registers[i]);
}
