/* Fuzz target: what is exported. Input: a payload of a message, or (behind a byte of 255) a journal file. */
#include "fuzz.h"
#include "jfs_encoded.h"
#include "jfs_xml.h"

enum { ROOM_BYTES = 1 << 18, RID = 7, WHOLE_FILE = 255 };

static void lines(const uint8_t *data, size_t size, uint8_t *out) {
    const jfs_scan_options options = {
        .stop_offset = size, .rid = RID, .version = 2, .flags = JFS_SCAN_ANY_RID};
    jfs_scan scan;
    FUZZ_CHECK(jfs_scan_journal(data, size, &options, &scan) == JFS_OK);
    for (uint32_t next = 0, before = 0; next < scan.count; before = next) {
        uint64_t written;
        FUZZ_CHECK(jfs_encoded_lines(data, &scan, &next, out, ROOM_BYTES, &written) == JFS_OK);
        FUZZ_CHECK(written <= ROOM_BYTES && next > before);
        FUZZ_CHECK(written == 0 || out[written - 1] == '\n');
    }
    jfs_scan_free(&scan);
}

static void elements(const uint8_t *data, size_t size, uint8_t *out) {
    static const uint8_t queues[] = "<queue/>";
    static const uint32_t starts[] = {0, sizeof queues - 1};
    static const int64_t ids[] = {1, 2, 3};
    static const int32_t numbers[] = {0, JFS_XML_LEFT_OUT, 0};
    const jfs_line line = {.payload = data, .payload_bytes = (uint32_t)size}, all[] = {line, line, line};
    const jfs_xml_messages messages = {all, ids, 3, queues, starts, numbers};
    for (uint64_t room = ROOM_BYTES; room > 100; room /= 2) {
        uint64_t next = 0, written;
        FUZZ_CHECK(jfs_xml_elements(&messages, &next, out, room, &written) == JFS_OK);
        FUZZ_CHECK(written <= room && (written > 0) == (next > 0));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t *out = malloc(ROOM_BYTES);
    FUZZ_CHECK(out != NULL);
    if (size > 0 && data[0] == WHOLE_FILE)
        lines(data + 1, size - 1, out);
    else
        elements(data, size, out);
    free(out);
    return 0;
}
