/* The id set for those outside of the core. */
#include "jfs_ids.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "index.h"

/* Ids mostly come in the order in which they were drawn: such are kept as they are, which takes a tenth of the time. */
struct jfs_ids {
    id_set set;
    int64_t *ascending;
    uint32_t count;
};

static bool is_ascending(const int64_t *ids, uint32_t count) {
    for (uint32_t i = 1; i < count; i++) {
        if (ids[i - 1] >= ids[i]) return false;
    }
    return true;
}

/* How many of them are below an id, if the first `from` are. What is asked for next is near, as a rule. */
static uint32_t below(const jfs_ids *set, int64_t id, uint32_t from) {
    uint32_t step = 1, end = from;
    while (end < set->count && set->ascending[end] < id) {
        from = end + 1;
        end = set->count - end > step ? end + step : set->count;
        step *= 2;
    }
    while (from < end) {
        const uint32_t middle = from + (end - from) / 2;
        if (set->ascending[middle] < id) from = middle + 1;
        else end = middle;
    }
    return from;
}

jfs_status jfs_ids_new(jfs_ids **out) {
    *out = calloc(1, sizeof **out);
    return *out == NULL ? JFS_NO_MEMORY : JFS_OK;
}

void jfs_ids_free(jfs_ids *set) {
    if (set == NULL) return;
    id_set_free(&set->set);
    free(set->ascending);
    free(set);
}

jfs_status jfs_ids_fill(jfs_ids *set, const int64_t *ids, uint32_t count) {
    jfs_status status = JFS_OK;
    if (is_ascending(ids, count)) {
        set->ascending = malloc((count ? count : 1) * sizeof *ids);
        if (set->ascending == NULL) return JFS_NO_MEMORY;
        memcpy(set->ascending, ids, count * sizeof *ids);
        set->count = count;
        return JFS_OK;
    }
    for (uint32_t i = 0; i < count && status == JFS_OK; i++) status = id_set_add(&set->set, ids[i]);
    return status;
}

uint32_t jfs_ids_without(const jfs_ids *set, const int64_t *ids, uint32_t count, int64_t *out) {
    uint32_t found = 0, at = 0;
    for (uint32_t i = 0; i < count; i++) {
        bool is_in;
        if (set->ascending != NULL) {
            at = below(set, ids[i], i > 0 && ids[i - 1] < ids[i] ? at : 0);
            is_in = at < set->count && set->ascending[at] == ids[i];
        } else {
            is_in = id_set_has(&set->set, ids[i]);
        }
        if (!is_in) out[found++] = ids[i];
    }
    return found;
}
