/* Base64 that can start anywhere: position p of the output needs source bytes 3 * (p / 4) and two more. */
#include "sink.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define FIRST_62 "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

static const char standard[] = FIRST_62 "+/", of_urls[] = FIRST_62 "-_";

uint64_t jfs_base64_bytes(uint64_t bytes) { return (bytes + 2) / 3 * 4; }

static void encode_group(const char *alphabet, const uint8_t *source, uint8_t *out) {
    uint32_t bits = ((uint32_t)source[0] << 16) | ((uint32_t)source[1] << 8) | source[2];
    out[0] = (uint8_t)alphabet[bits >> 18];
    out[1] = (uint8_t)alphabet[(bits >> 12) & 63];
    out[2] = (uint8_t)alphabet[(bits >> 6) & 63];
    out[3] = (uint8_t)alphabet[bits & 63];
}

#if defined(__x86_64__)
/* Twelve source bytes to sixteen letters at a time; reads four bytes beyond them. Returns the groups done. */
__attribute__((target("ssse3"))) static uint64_t encode_vectors(const char *alphabet, const uint8_t *source,
                                                                uint64_t groups, uint8_t *out) {
    const __m128i spread = _mm_setr_epi8(1, 0, 2, 1, 4, 3, 5, 4, 7, 6, 8, 7, 10, 9, 11, 10);
    /* What to add to a 6-bit value, by its class: 13 = A-Z, 0 = a-z, 1-10 = 0-9, 11 and 12 = the last two. */
    const __m128i shift_by_class =
        _mm_setr_epi8('a' - 26, '0' - 52, '0' - 52, '0' - 52, '0' - 52, '0' - 52, '0' - 52, '0' - 52, '0' - 52,
                      '0' - 52, '0' - 52, (char)(alphabet[62] - 62), (char)(alphabet[63] - 63), 'A', 0, 0);
    uint64_t done = 0;
    while (groups - done >= 6) {
        __m128i in = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)(source + 3 * done)), spread);
        __m128i odd = _mm_mulhi_epu16(_mm_and_si128(in, _mm_set1_epi32(0x0fc0fc00)), _mm_set1_epi32(0x04000040));
        __m128i even = _mm_mullo_epi16(_mm_and_si128(in, _mm_set1_epi32(0x003f03f0)), _mm_set1_epi32(0x01000010));
        __m128i six = _mm_or_si128(odd, even);
        __m128i class = _mm_subs_epu8(six, _mm_set1_epi8(51));
        class = _mm_or_si128(class, _mm_and_si128(_mm_cmpgt_epi8(_mm_set1_epi8(26), six), _mm_set1_epi8(13)));
        _mm_storeu_si128((__m128i *)(void *)(out + 4 * done),
                         _mm_add_epi8(six, _mm_shuffle_epi8(shift_by_class, class)));
        done += 4;
    }
    return done;
}
#endif

static void encode_groups(const char *alphabet, const uint8_t *source, uint64_t groups, uint8_t *out) {
    uint64_t done = 0;
#if defined(__x86_64__)
    if (groups >= 8 && __builtin_cpu_supports("ssse3")) done = encode_vectors(alphabet, source, groups, out);
#endif
    for (; done < groups; done++) encode_group(alphabet, source + 3 * done, out + 4 * done);
}

static void encode_last(const char *alphabet, const uint8_t *source, uint64_t bytes, uint8_t *out) {
    const uint8_t padded[3] = {source[0], bytes > 1 ? source[1] : 0, 0};
    encode_group(alphabet, padded, out);
    out[3] = '=';
    if (bytes == 1) out[2] = '=';
}

uint64_t jfs_base64_of_urls(jfs_view bytes, uint8_t *out) {
    const uint64_t groups = bytes.bytes / 3;
    encode_groups(of_urls, bytes.at, groups, out);
    if (bytes.bytes % 3 != 0) encode_last(of_urls, bytes.at + 3 * groups, bytes.bytes % 3, out + 4 * groups);
    return jfs_base64_bytes(bytes.bytes);
}

void jfs_put_base64(jfs_sink *sink, jfs_view bytes) {
    uint64_t start = sink->pos, groups = bytes.bytes / 3, group = 0;
    if (jfs_full(sink)) return;
    if (start < sink->from) {
        group = (sink->from - start) / 4;
        if (group > groups) group = groups;
        sink->pos += 4 * group;
    }
    if (group < groups && sink->pos < sink->from) { /* the group that the window's beginning cuts */
        uint8_t letters[4];
        encode_group(standard, bytes.at + 3 * group++, letters);
        jfs_put(sink, letters, 4);
    }
    if (group < groups && !jfs_full(sink)) {
        uint64_t room = (sink->to - sink->pos) / 4, run = groups - group < room ? groups - group : room;
        encode_groups(standard, bytes.at + 3 * group, run, sink->out + (sink->pos - sink->from));
        sink->pos += 4 * run;
        group += run;
    }
    if (group < groups && !jfs_full(sink)) { /* the group that its end cuts */
        uint8_t letters[4];
        encode_group(standard, bytes.at + 3 * group++, letters);
        jfs_put(sink, letters, 4);
    }
    if (group == groups && bytes.bytes % 3 != 0 && !jfs_full(sink)) {
        uint8_t letters[4];
        encode_last(standard, bytes.at + 3 * groups, bytes.bytes % 3, letters);
        jfs_put(sink, letters, 4);
    }
}
