jfs_status jfs_page_listing(const jfs_page *page, const uint32_t *numbers, uint32_t count, const jfs_listing *out);
jfs_status jfs_page_schedules(const jfs_page *page, const uint32_t *numbers, uint32_t count, int64_t now_ms,
                              int64_t *times_ms);
