/* Messages of protocol buffers. */
#ifndef JFS_FIELDS_H
#define JFS_FIELDS_H

#include "reader.h"

enum { FIELD_NUMBER = 0, FIELD_BYTES = 2 };

/* Sets reader->bad when it does not end. Numbers of over 63 bits are not usual, and bad. */
static inline uint64_t take_varint(jfs_reader *reader) {
    uint64_t value = 0;
    for (int shift = 0; shift < 63; shift += 7) {
        const uint8_t byte = jfs_take8(reader);
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) return value;
    }
    reader->bad = 1;
    return 0;
}

/* The bytes of the next field, none of a number; *tag is its number and type. */
static inline jfs_view take_field(jfs_reader *reader, uint64_t *tag) {
    *tag = take_varint(reader);
    switch (*tag & 7) {
    case FIELD_NUMBER: take_varint(reader); break;
    case FIELD_BYTES: return jfs_take(reader, take_varint(reader));
    default: reader->bad = 1;
    }
    return (jfs_view){NULL, 0};
}

#endif
