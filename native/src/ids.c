/* The id set for those outside of the core. */
#include "jfs_ids.h"

#include <stdlib.h>

#include "index.h"

struct jfs_ids {
    id_set set;
};

jfs_status jfs_ids_new(jfs_ids **out) {
    *out = calloc(1, sizeof **out);
    return *out == NULL ? JFS_NO_MEMORY : JFS_OK;
}

void jfs_ids_free(jfs_ids *set) {
    if (set == NULL) return;
    id_set_free(&set->set);
    free(set);
}

jfs_status jfs_ids_add(jfs_ids *set, const int64_t *ids, uint32_t count) {
    jfs_status status = JFS_OK;
    for (uint32_t i = 0; i < count && status == JFS_OK; i++) status = id_set_add(&set->set, ids[i]);
    return status;
}

uint32_t jfs_ids_without(const jfs_ids *set, const int64_t *ids, uint32_t count, int64_t *out) {
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!id_set_has(&set->set, ids[i])) out[found++] = ids[i];
    }
    return found;
}
