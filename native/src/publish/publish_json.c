/* JSON values of a stream, one behind the other. */
#include <stdlib.h>

#include "classify.h"
#include "jfs_publish.h"

struct jfs_values {
    jfs_json json;
    uint64_t begin; /* of the value that is open */
    int open;
};

jfs_status jfs_values_new(jfs_values **out) {
    *out = calloc(1, sizeof **out);
    return *out == NULL ? JFS_NO_MEMORY : JFS_OK;
}

void jfs_values_free(jfs_values *values) { free(values); }

void jfs_values_assign(jfs_values *values, const jfs_values *other) { *values = *other; }

int jfs_values_may_end(const jfs_values *values) { return !values->open || jfs_json_may_end(&values->json); }

int jfs_values_too_deep(const jfs_values *values) { return values->json.too_deep; }

static inline int is_gap(uint8_t byte) { return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r'; }

jfs_status jfs_values_split(jfs_values *values, const uint8_t *bytes, uint64_t length, uint64_t before, uint64_t *at,
                            jfs_stretch *found, uint64_t room, uint64_t *count, uint64_t *begin) {
    *count = 0;
    if (values->open) values->begin = 0;
    for (;;) {
        if (!values->open) {
            while (*at < length && is_gap(bytes[*at])) ++*at;
            *begin = before + *at;
            if (*at == length) return JFS_OK;
            if (*count == room) return JFS_FULL;
            values->begin = before + *at;
            values->open = 1;
            jfs_json_begin_value(&values->json);
        }
        *begin = values->begin;
        jfs_json_end end;
        *at += jfs_json_take(&values->json, bytes + *at, (size_t)(length - *at), &end);
        if (end == JFS_JSON_MORE) return JFS_OK;
        if (end == JFS_JSON_BAD) return JFS_MALFORMED;
        found[(*count)++] = (jfs_stretch){values->begin, before + *at};
        values->open = 0;
    }
}
