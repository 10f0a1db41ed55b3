/* Fuzz target: splitting what is written into lines and JSON values, and making text bodies of them.
 *
 * Input: where the second write begins (u8) and the third (u8), then the bytes. However they are cut, the same is found.
 */
#include "fuzz.h"
#include "jfs_publish.h"

enum { ROOM = 3 };

typedef struct {
    uint64_t count;
    uint64_t digest;
    uint64_t mistake_at; /* UINT64_MAX: none */
    int may_end;
} outcome;

static void note(outcome *found, const uint8_t *bytes, jfs_stretch stretch, uint64_t size) {
    FUZZ_CHECK(stretch.begin < stretch.end && stretch.end <= size);
    found->count++;
    for (uint64_t i = stretch.begin; i < stretch.end; i++) found->digest = found->digest * 31 + bytes[i];
}

static outcome values_of(const uint8_t *bytes, size_t size, const size_t *ends, int pieces) {
    outcome found = {0, 0, UINT64_MAX, 0};
    jfs_values *values;
    uint64_t begin = 0, from = 0;
    FUZZ_CHECK(jfs_values_new(&values) == JFS_OK);
    for (int piece = 0; piece < pieces && found.mistake_at == UINT64_MAX; piece++) {
        jfs_stretch stretches[ROOM];
        uint64_t at = 0, count;
        const uint64_t base = begin;
        jfs_status status;
        do {
            status = jfs_values_split(values, bytes + from, ends[piece] - from, from - base, &at, stretches, ROOM, &count,
                                      &begin);
            FUZZ_CHECK(count <= ROOM && at <= ends[piece] - from);
            for (uint64_t i = 0; i < count; i++) note(&found, bytes + base, stretches[i], size - base);
        } while (status == JFS_FULL);
        FUZZ_CHECK(status == JFS_OK || status == JFS_MALFORMED);
        if (status == JFS_MALFORMED) found.mistake_at = from + at;
        begin += base;
        from = ends[piece];
    }
    found.may_end = jfs_values_may_end(values);
    jfs_values_free(values);
    return found;
}

static void check_bodies(const uint8_t *bytes, size_t size) {
    const uint64_t room = jfs_count_lines(bytes, size);
    jfs_stretch *lines = malloc((room + 1) * sizeof *lines);
    uint8_t *plain = malloc(room + 1), *out = malloc(jfs_text_bodies_room(size, room) + 1);
    uint64_t *ends = malloc((room + 1) * sizeof *ends), count, begin = 0;
    FUZZ_CHECK(lines != NULL && plain != NULL && out != NULL && ends != NULL);
    FUZZ_CHECK(jfs_split_lines(bytes, size, lines, room, &count) == JFS_OK && count == room);
    jfs_text_bodies(bytes, lines, count, out, ends, plain);
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t length = lines[i].end - lines[i].begin;
        FUZZ_CHECK(plain[i] <= 1 && ends[i] <= jfs_text_bodies_room(size, room));
        if (plain[i])
            FUZZ_CHECK(ends[i] - begin == length && memcmp(out + begin, bytes + lines[i].begin, length) == 0);
        else
            FUZZ_CHECK(out[begin] == 1 && fuzz_u32(out + begin + 1) == ends[i] - begin - 5);
        begin = ends[i];
    }
    free(lines);
    free(plain);
    free(out);
    free(ends);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) return 0;
    const uint8_t *const bytes = data + 2;
    size -= 2;
    const size_t second = data[0] < size ? data[0] : size;
    const size_t third = second + data[1] < size ? second + data[1] : size;
    const size_t whole[] = {size}, cut[] = {second, third, size};
    const outcome once = values_of(bytes, size, whole, 1), pieces = values_of(bytes, size, cut, 3);
    FUZZ_CHECK(once.count == pieces.count && once.digest == pieces.digest && once.mistake_at == pieces.mistake_at);
    FUZZ_CHECK(once.may_end == pieces.may_end || once.mistake_at != UINT64_MAX);
    check_bodies(bytes, size);
    return 0;
}
