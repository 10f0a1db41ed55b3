typedef struct jfs_ids jfs_ids;

jfs_status jfs_ids_new(jfs_ids **out);
void jfs_ids_free(jfs_ids *set);
jfs_status jfs_ids_add(jfs_ids *set, const int64_t *ids, uint32_t count);
uint32_t jfs_ids_without(const jfs_ids *set, const int64_t *ids, uint32_t count, int64_t *out);
