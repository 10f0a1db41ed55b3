/* A set of ids, filled once. */
#ifndef JFS_IDS_H
#define JFS_IDS_H

#include <stdint.h>

#include "jfs_status.h"

typedef struct jfs_ids jfs_ids;

jfs_status jfs_ids_new(jfs_ids **out);
void jfs_ids_free(jfs_ids *set);
jfs_status jfs_ids_fill(jfs_ids *set, const int64_t *ids, uint32_t count);

/* Copies those that are not in the set, in their order. Returns how many that are. */
uint32_t jfs_ids_without(const jfs_ids *set, const int64_t *ids, uint32_t count, int64_t *out);

#endif
