/* Bounds-checked big-endian reading. The first read past the end sets `bad`, and everything after gives zeros. */
#ifndef JFS_READER_H
#define JFS_READER_H

#include <stdint.h>
#include <string.h>

#include "sink.h"

typedef struct {
    const uint8_t *at;
    const uint8_t *end;
    int bad;
} jfs_reader;

/* Adding to a null pointer is undefined, even adding 0, and the view of nothing is one. */
static inline jfs_reader jfs_reader_over(jfs_view view) {
    return (jfs_reader){view.at, view.bytes == 0 ? view.at : view.at + view.bytes, 0};
}

/* What lies behind the first `length` bytes, of which there are that many. */
static inline jfs_reader jfs_reader_behind(jfs_view view, uint64_t length) {
    jfs_reader reader = jfs_reader_over(view);
    if (length > 0) reader.at += length;
    return reader;
}

static inline uint64_t jfs_left(const jfs_reader *reader) { return (uint64_t)(reader->end - reader->at); }

static inline uint16_t jfs_load16(const uint8_t *at) { return (uint16_t)((at[0] << 8) | at[1]); }

static inline uint32_t jfs_load32(const uint8_t *at) {
    return ((uint32_t)at[0] << 24) | ((uint32_t)at[1] << 16) | ((uint32_t)at[2] << 8) | at[3];
}

static inline uint64_t jfs_load64(const uint8_t *at) { return ((uint64_t)jfs_load32(at) << 32) | jfs_load32(at + 4); }

/* `length` bytes and moves past them; {NULL, 0} and `bad` when there are fewer. */
static inline jfs_view jfs_take(jfs_reader *reader, uint64_t length) {
    if (reader->bad || length > jfs_left(reader)) {
        reader->bad = 1;
        return (jfs_view){NULL, 0};
    }
    jfs_view view = {reader->at, length};
    if (length > 0) reader->at += length;
    return view;
}

static inline uint8_t jfs_take8(jfs_reader *reader) {
    jfs_view view = jfs_take(reader, 1);
    return view.at == NULL ? 0 : view.at[0];
}

static inline uint16_t jfs_take16(jfs_reader *reader) {
    jfs_view view = jfs_take(reader, 2);
    return view.at == NULL ? 0 : jfs_load16(view.at);
}

static inline uint32_t jfs_take32(jfs_reader *reader) {
    jfs_view view = jfs_take(reader, 4);
    return view.at == NULL ? 0 : jfs_load32(view.at);
}

static inline uint64_t jfs_take64(jfs_reader *reader) {
    jfs_view view = jfs_take(reader, 8);
    return view.at == NULL ? 0 : jfs_load64(view.at);
}

/* i32 byte length, then the bytes. A negative length is one that does not fit. */
static inline jfs_view jfs_take_sized(jfs_reader *reader) {
    uint32_t length = jfs_take32(reader);
    return jfs_take(reader, length > INT32_MAX ? UINT64_MAX : length);
}

/* Nullable SimpleString; *null tells null from empty. An odd length cannot be UTF-16. */
static inline jfs_view jfs_take_nullable(jfs_reader *reader, int *null) {
    *null = jfs_take8(reader) == 0;
    if (*null || reader->bad) return (jfs_view){NULL, 0};
    jfs_view view = jfs_take_sized(reader);
    if (view.bytes & 1) reader->bad = 1;
    return view;
}

#endif
