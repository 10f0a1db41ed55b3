/* Inflating a body that lies compressed in its record. */
#include "inflate.h"

#include <stdlib.h>
#include <zlib.h>

static void end_stream(jfs_arena *arena) {
    if (arena->stream == NULL) return;
    inflateEnd(arena->stream);
    free(arena->stream);
    arena->stream = NULL;
}

void jfs_arena_free(jfs_arena *arena) {
    end_stream(arena);
    free(arena->bytes);
    arena->bytes = NULL;
    arena->capacity = 0;
}

static int grow(jfs_arena *arena, uint64_t wanted, uint64_t bytes_max) {
    uint64_t capacity = arena->capacity == 0 ? 65536 : 2 * arena->capacity;
    if (capacity < wanted) capacity = wanted;
    if (capacity > bytes_max) capacity = bytes_max;
    if (capacity <= arena->capacity) return 0;
    uint8_t *bytes = realloc(arena->bytes, capacity);
    if (bytes == NULL) return 0;
    arena->bytes = bytes;
    arena->capacity = capacity;
    return 1;
}

const char *jfs_inflate(jfs_arena *arena, jfs_view compressed, jfs_view *out) {
    const uint64_t ratio_max = JFS_INFLATED_RATIO_MAX * compressed.bytes;
    const uint64_t bytes_max = ratio_max > JFS_INFLATED_FREELY_BYTES ? ratio_max : JFS_INFLATED_FREELY_BYTES;
    const char *reason = NULL;
    uint64_t done = 0;
    int result = Z_OK;
    end_stream(arena); /* a fault may have left one */
    if (compressed.bytes > UINT32_MAX) return "the compressed body is too long";
    z_stream *stream = calloc(1, sizeof *stream);
    if (stream == NULL) return "there is no memory to inflate the body";
    if (inflateInit(stream) != Z_OK) {
        free(stream);
        return "there is no memory to inflate the body";
    }
    arena->stream = stream;
    stream->next_in = (Bytef *)(uintptr_t)compressed.at;
    stream->avail_in = (uInt)compressed.bytes;
    while (result != Z_STREAM_END && reason == NULL) {
        if (done == arena->capacity && !grow(arena, 4 * compressed.bytes, bytes_max)) {
            reason = "the compressed body is too long when inflated";
            break;
        }
        const uint64_t room = arena->capacity - done;
        stream->next_out = arena->bytes + done;
        stream->avail_out = room > UINT32_MAX ? UINT32_MAX : (uInt)room;
        const uInt before = stream->avail_out;
        result = inflate(stream, Z_NO_FLUSH);
        done += before - stream->avail_out;
        if (result != Z_OK && result != Z_STREAM_END) reason = "the compressed body cannot be inflated";
    }
    if (reason == NULL && stream->avail_in > 0) reason = "something follows the compressed body";
    *out = (jfs_view){arena->bytes, done};
    end_stream(arena);
    return reason;
}
