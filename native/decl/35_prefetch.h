void jfs_lines_prefetch(const jfs_lines *lines, uint64_t from, uint64_t to);
