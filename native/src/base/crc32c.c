/* CRC-32C, reflected polynomial 0x82F63B78: SSE4.2 where the processor has it, else a table made once per call chain. */
#include "jfs_crc32c.h"

#include <string.h>

#include "jfs_guard.h"

#define POLYNOMIAL 0x82F63B78u

static uint32_t crc_bitwise(uint32_t crc, const uint8_t *bytes, size_t length) {
    for (size_t i = 0; i < length; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ (POLYNOMIAL & (0u - (crc & 1u)));
    }
    return crc;
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <nmmintrin.h>

__attribute__((target("sse4.2"))) static uint32_t crc_sse42(uint32_t crc, const uint8_t *bytes, size_t length) {
    uint64_t wide = crc;
    while (length >= 8) {
        uint64_t word;
        memcpy(&word, bytes, sizeof word);
        wide = _mm_crc32_u64(wide, word);
        bytes += 8;
        length -= 8;
    }
    crc = (uint32_t)wide;
    while (length-- > 0) crc = _mm_crc32_u8(crc, *bytes++);
    return crc;
}
#endif

/* A stack table keeps the core free of global state; 256 entries cost less than one page of data. */
static uint32_t crc_table(uint32_t crc, const uint8_t *bytes, size_t length) {
    uint32_t table[256];
    for (uint32_t i = 0; i < 256; i++) {
        uint8_t byte = (uint8_t)i;
        table[i] = crc_bitwise(0, &byte, 1);
    }
    for (size_t i = 0; i < length; i++) crc = table[(crc ^ bytes[i]) & 0xffu] ^ (crc >> 8);
    return crc;
}

uint32_t jfs_crc32c(uint32_t crc, const uint8_t *bytes, size_t length) {
    crc = ~crc;
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("sse4.2")) return ~crc_sse42(crc, bytes, length);
#endif
    if (length < 256) return ~crc_bitwise(crc, bytes, length);
    return ~crc_table(crc, bytes, length);
}

typedef struct {
    uint32_t crc;
    const uint8_t *bytes;
    uint64_t length;
} mapped_job;

static jfs_status mapped_body(void *context) {
    mapped_job *const job = context;
    job->crc = jfs_crc32c(job->crc, job->bytes, (size_t)job->length);
    return JFS_OK;
}

jfs_status jfs_crc32c_mapped(uint32_t *crc, const uint8_t *bytes, uint64_t length) {
    mapped_job job = {*crc, bytes, length};
    const jfs_status status = length == 0 ? JFS_OK : jfs_guarded(mapped_body, &job);
    if (status == JFS_OK) *crc = job.crc;
    return status;
}
