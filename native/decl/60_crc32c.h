uint32_t jfs_crc32c(uint32_t crc, const uint8_t *bytes, size_t length);
jfs_status jfs_crc32c_mapped(uint32_t *crc, const uint8_t *bytes, uint64_t length);
