jfs_status jfs_state_ref_files(const jfs_state *state, const uint32_t *refs, uint32_t count, uint8_t *used,
                               uint32_t file_count);
jfs_status jfs_state_large_refs(const jfs_state *state, const uint32_t *refs, uint32_t count, uint32_t *out,
                                uint32_t *found);
jfs_status jfs_state_adopt(jfs_state *state, const jfs_state *old);
jfs_status jfs_state_places(const jfs_state *state, uint32_t slot, int include, const int64_t *ids, uint32_t count,
                            uint32_t *refs, int64_t *scheduled_ms);
jfs_status jfs_state_message_flags(const jfs_state *state, const uint32_t *refs, uint32_t count, uint8_t *flags);
enum { JFS_UNREFERENCED = 1, JFS_UNREFERENCED_LARGE = 2 };
void jfs_state_unreferenced(const jfs_state *state, const int64_t *ids, uint32_t count, uint8_t *found);
jfs_status jfs_state_unreadable(jfs_state *state, uint32_t file_slot, uint64_t from, uint64_t to);
jfs_status jfs_state_part_ids(const jfs_state *state, uint32_t slot, uint32_t number, uint8_t *out, uint64_t capacity,
                              uint64_t *size_bytes);
jfs_status jfs_state_keep_part(jfs_state *state, uint32_t slot, const jfs_part_info *info, const uint8_t *ids,
                               uint64_t size_bytes);
