uint32_t jfs_crc32c(uint32_t crc, const uint8_t *bytes, size_t length);
