/* Small messages may hold a compressed body: a client compresses first and looks at the size afterwards. */
#ifndef JFS_INFLATE_H
#define JFS_INFLATE_H

#include "sink.h"

/* A record of half a megabyte can claim to inflate to half a gigabyte, in the time of everybody. What is longer than
 * this, or than so many times its record, is shown compressed.
 */
#define JFS_INFLATED_FREELY_BYTES (16ull * 1024 * 1024)
#define JFS_INFLATED_RATIO_MAX 64

/*
 * Memory of one inflated body, used again for the next. It outlives the guarded function that fills it, because a
 * fault while mapped bytes are inflated cuts that function's stack off.
 */
typedef struct {
    uint8_t *bytes;
    uint64_t capacity;
    void *stream;
} jfs_arena;

/* Inflates one zlib stream; *out lies in the arena until its next use. Returns NULL, or why it cannot be done. */
const char *jfs_inflate(jfs_arena *arena, jfs_view compressed, jfs_view *out);
void jfs_arena_free(jfs_arena *arena);

#endif
