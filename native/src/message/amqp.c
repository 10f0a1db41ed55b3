/* AMQP 1.0 type system: constructors, and checking of whole values. */
#include "amqp.h"

static jfs_amqp_type type_of(uint8_t code) {
    switch (code) {
    case 0x40: return JFS_A_NULL;
    case 0x41:
    case 0x42:
    case 0x56: return JFS_A_BOOLEAN;
    case 0x50: return JFS_A_UBYTE;
    case 0x51: return JFS_A_BYTE;
    case 0x60: return JFS_A_USHORT;
    case 0x61: return JFS_A_SHORT;
    case 0x70:
    case 0x52:
    case 0x43: return JFS_A_UINT;
    case 0x71:
    case 0x54: return JFS_A_INT;
    case 0x80:
    case 0x53:
    case 0x44: return JFS_A_ULONG;
    case 0x81:
    case 0x55: return JFS_A_LONG;
    case 0x72: return JFS_A_FLOAT;
    case 0x82: return JFS_A_DOUBLE;
    case 0x74: return JFS_A_DECIMAL32;
    case 0x84: return JFS_A_DECIMAL64;
    case 0x94: return JFS_A_DECIMAL128;
    case 0x73: return JFS_A_CHAR;
    case 0x83: return JFS_A_TIMESTAMP;
    case 0x98: return JFS_A_UUID;
    case 0xa0:
    case 0xb0: return JFS_A_BINARY;
    case 0xa1:
    case 0xb1: return JFS_A_STRING;
    case 0xa3:
    case 0xb3: return JFS_A_SYMBOL;
    case 0x45:
    case 0xc0:
    case 0xd0: return JFS_A_LIST;
    case 0xc1:
    case 0xd1: return JFS_A_MAP;
    case 0xe0:
    case 0xf0: return JFS_A_ARRAY;
    case 0x00: return JFS_A_DESCRIBED;
    default: return JFS_A_UNKNOWN;
    }
}

const char *jfs_amqp_type_name(jfs_amqp_type type) {
    static const char *const names[] = {
        "null",   "boolean", "ubyte",  "ushort",    "uint",      "ulong",      "byte",      "short",     "int",
        "long",   "float",   "double", "decimal32", "decimal64", "decimal128", "char",      "timestamp", "uuid",
        "binary", "string",  "symbol", "list",      "map",       "array",      "described", "unknown"};
    return names[type];
}

/* The upper half of a constructor gives the width of what follows. */
static uint64_t fixed_width(uint8_t code) {
    static const uint8_t widths[] = {0, 1, 2, 4, 8, 16};
    return widths[(code >> 4) - 4];
}

static uint64_t number_of(const jfs_amqp *value) {
    const uint8_t *at = value->bytes.at;
    switch (value->code) {
    case 0x41: return 1;
    case 0x42:
    case 0x43:
    case 0x44: return 0;
    case 0x56:
    case 0x50:
    case 0x52:
    case 0x53: return at[0];
    case 0x51:
    case 0x54:
    case 0x55: return (uint64_t)(int64_t)(int8_t)at[0];
    case 0x60: return jfs_load16(at);
    case 0x61: return (uint64_t)(int64_t)(int16_t)jfs_load16(at);
    case 0x70:
    case 0x72:
    case 0x73: return jfs_load32(at);
    case 0x71: return (uint64_t)(int64_t)(int32_t)jfs_load32(at);
    case 0x80:
    case 0x81:
    case 0x82:
    case 0x83: return jfs_load64(at);
    default: return 0;
    }
}

/* A descriptor may itself be described, hence the loop. */
jfs_view jfs_skip_amqp(jfs_reader *reader) {
    const uint8_t *begin = reader->at;
    uint64_t wanted = 1;
    while (wanted > 0 && !reader->bad) {
        uint8_t code = jfs_take8(reader);
        wanted--;
        if (code == 0x00)
            wanted += 2;
        else if (type_of(code) == JFS_A_UNKNOWN)
            reader->bad = 1;
        else if (code >= 0xa0)
            jfs_take(reader, (code & 0x10) != 0 ? jfs_take32(reader) : jfs_take8(reader));
        else
            jfs_take(reader, fixed_width(code));
    }
    return (jfs_view){begin, (uint64_t)(reader->at - begin)};
}

static void take_compound(jfs_reader *reader, jfs_amqp *value) {
    const int wide = (value->code & 0x10) != 0;
    jfs_view inside = jfs_take(reader, wide ? jfs_take32(reader) : jfs_take8(reader));
    jfs_reader items = jfs_reader_over(inside);
    if (reader->bad) return;
    value->count = wide ? jfs_take32(&items) : jfs_take8(&items);
    if (value->type == JFS_A_ARRAY && !(value->count == 0 && jfs_left(&items) == 0)) {
        value->element = (jfs_view){items.at, 1};
        if (jfs_take8(&items) == 0) { /* described: a descriptor, then the constructor proper */
            jfs_skip_amqp(&items);
            jfs_take8(&items);
            value->element.bytes = (uint64_t)(items.at - value->element.at);
        }
    }
    if (items.bad) reader->bad = 1;
    value->bytes = (jfs_view){items.at, jfs_left(&items)};
}

static jfs_amqp take_after(jfs_reader *reader, uint8_t code) {
    jfs_amqp value = {type_of(code), code, {NULL, 0}, 0, 0, {NULL, 0}};
    switch (value.type) {
    case JFS_A_UNKNOWN: break;
    case JFS_A_BINARY:
    case JFS_A_STRING:
    case JFS_A_SYMBOL:
        value.bytes = jfs_take(reader, (code & 0x10) != 0 ? jfs_take32(reader) : jfs_take8(reader));
        break;
    case JFS_A_LIST:
        if (code == 0x45)
            value.bytes = (jfs_view){reader->at, 0};
        else
            take_compound(reader, &value);
        break;
    case JFS_A_MAP:
    case JFS_A_ARRAY: take_compound(reader, &value); break;
    case JFS_A_DESCRIBED: {
        const uint8_t *begin = reader->at;
        jfs_skip_amqp(reader);
        jfs_skip_amqp(reader);
        value.bytes = (jfs_view){begin, (uint64_t)(reader->at - begin)};
        break;
    }
    default:
        value.bytes = jfs_take(reader, fixed_width(code));
        if (!reader->bad) value.number = number_of(&value);
        break;
    }
    return value;
}

jfs_amqp jfs_take_amqp(jfs_reader *reader) { return take_after(reader, jfs_take8(reader)); }

jfs_amqp jfs_take_amqp_element(jfs_reader *reader, jfs_view constructor) {
    return take_after(reader, constructor.at[constructor.bytes - 1]);
}

static int refuse(jfs_amqp_budget *budget, const char *reason) {
    budget->reason = reason;
    return 0;
}

static int check_inside(const jfs_amqp *value, jfs_amqp_budget *budget, int depth);

static int check_one(const jfs_reader *reader, const jfs_amqp *value, jfs_amqp_budget *budget, int depth) {
    if (value->type == JFS_A_UNKNOWN) return refuse(budget, "an AMQP value has an unknown constructor");
    if (reader->bad) return refuse(budget, "an AMQP value ends too early");
    if (value->type == JFS_A_CHAR && value->number > 0x10ffff) return refuse(budget, "an AMQP char is no character");
    if (value->type == JFS_A_BOOLEAN && value->number > 1)
        return refuse(budget, "an AMQP boolean is neither 0 nor 1");
    if (value->type < JFS_A_LIST) return 1;
    if (depth >= JFS_AMQP_DEPTH_MAX) return refuse(budget, "AMQP values are nested too deeply");
    return check_inside(value, budget, depth + 1);
}

static int check_array(const jfs_amqp *value, jfs_reader *items, jfs_amqp_budget *budget, int depth) {
    if (value->element.bytes == 0) return 1;
    if (value->element.bytes > 1) {
        /* It is written out with every element. */
        const uint64_t repeated = value->element.bytes * value->count;
        if (repeated > budget->repeated) return refuse(budget, "AMQP arrays repeat too long a descriptor too often");
        budget->repeated -= repeated;
        jfs_reader descriptor = {value->element.at + 1, value->element.at + value->element.bytes - 1, 0};
        if (!jfs_check_amqp(&descriptor, budget, depth)) return 0;
    }
    const uint8_t code = value->element.at[value->element.bytes - 1];
    if (code == 0x00 || type_of(code) == JFS_A_UNKNOWN)
        return refuse(budget, "an AMQP array has an unknown constructor");
    if (code < 0x50) {
        if (value->count > budget->widthless) return refuse(budget, "AMQP arrays have too many elements of no width");
        budget->widthless -= value->count;
    } else if (value->count > value->bytes.bytes) {
        return refuse(budget, "an AMQP array has more elements than bytes");
    }
    for (uint32_t i = 0; i < value->count; i++) {
        jfs_amqp element = jfs_take_amqp_element(items, value->element);
        if (!check_one(items, &element, budget, depth)) return 0;
    }
    return 1;
}

static int check_inside(const jfs_amqp *value, jfs_amqp_budget *budget, int depth) {
    jfs_reader items = jfs_reader_over(value->bytes);
    if (value->type == JFS_A_ARRAY) {
        if (!check_array(value, &items, budget, depth)) return 0;
    } else {
        const uint64_t count = value->type == JFS_A_DESCRIBED ? 2 : value->count;
        if (value->type == JFS_A_MAP && (count & 1)) return refuse(budget, "an AMQP map has a key without a value");
        for (uint64_t i = 0; i < count; i++)
            if (!jfs_check_amqp(&items, budget, depth)) return 0;
    }
    if (jfs_left(&items) > 0) return refuse(budget, "an AMQP value is longer than its items");
    return 1;
}

int jfs_check_amqp(jfs_reader *reader, jfs_amqp_budget *budget, int depth) {
    jfs_amqp value = jfs_take_amqp(reader);
    return check_one(reader, &value, budget, depth);
}
