/* Big-endian loads and stores. The caller has checked the bounds. */
#ifndef JFS_BYTES_H
#define JFS_BYTES_H

#include <stdint.h>
#include <string.h>

static inline uint32_t load_u32(const uint8_t *at) {
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return __builtin_bswap32(value);
}

static inline int32_t load_i32(const uint8_t *at) { return (int32_t)load_u32(at); }

static inline int64_t load_i64(const uint8_t *at) {
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return (int64_t)__builtin_bswap64(value);
}

static inline void store_u32(uint8_t *at, uint32_t value) {
    const uint32_t swapped = __builtin_bswap32(value);
    memcpy(at, &swapped, sizeof swapped);
}

static inline void store_u64(uint8_t *at, uint64_t value) {
    const uint64_t swapped = __builtin_bswap64(value);
    memcpy(at, &swapped, sizeof swapped);
}

/* These return what is behind. `from` may be the null pointer of nothing. */
static inline uint8_t *put_bytes(uint8_t *to, const uint8_t *from, uint64_t length) {
    if (length > 0) memcpy(to, from, length);
    return to + length;
}

static inline uint8_t *put_i64(uint8_t *to, int64_t value) {
    store_u64(to, (uint64_t)value);
    return to + 8;
}

#endif
