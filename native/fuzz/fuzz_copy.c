/* Fuzz target: copies of messages for another address.
 *
 * Input: the payload of a message. What can be copied is a message again, with another id and address and the same body.
 */
#include "message.h"
#include "message_copy.h"
#include "fuzz.h"

static const uint8_t ADDRESS[] = "\1\0\0\0\4t\0o", NAME[] = "\0\0\0\2q";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const jfs_copies copies = {.address = ADDRESS, .address_bytes = sizeof ADDRESS, .queue_name = NAME,
                               .queue_name_bytes = sizeof NAME, .queue = 3, .body_bytes_max = 1 << 20,
                               .message_bytes_max = 1 << 20};
    const jfs_line line = {.payload = data, .payload_bytes = (uint32_t)size};
    const uint64_t room = message_copy_bytes_at_most(&copies, &line);
    uint8_t *const copied = malloc(room);
    uint32_t bytes = 0;
    FUZZ_CHECK(copied != NULL);
    const int possible = message_copy_possible(&copies, &line);
    const jfs_status status = message_copy_put(&copies, &line, 5, 1000, copied, &bytes);
    FUZZ_CHECK(bytes <= room && (status == JFS_OK || (!possible && status == JFS_MALFORMED)));
    if (possible) {
        const jfs_line copy = {.payload = copied, .payload_bytes = bytes};
        jfs_message before, after;
        jfs_message_parse(&line, NULL, &before);
        jfs_message_parse(&copy, NULL, &after);
        FUZZ_CHECK(after.damage == NULL && !after.irregular && after.id == 1000);
        FUZZ_CHECK(after.address.bytes == 4 && memcmp(after.address.at, ADDRESS + 5, 4) == 0);
        FUZZ_CHECK(after.type == before.type && after.priority == before.priority && after.durable == before.durable);
        FUZZ_CHECK(after.timestamp_ms == before.timestamp_ms && after.expiration_ms == before.expiration_ms);
        FUZZ_CHECK(after.body_kind == before.body_kind && after.body.bytes == before.body.bytes);
        FUZZ_CHECK(before.body.bytes == 0 || memcmp(after.body.at, before.body.at, before.body.bytes) == 0);
        FUZZ_CHECK(after.properties.count <= before.properties.count + 3);
    }
    free(copied);
    return 0;
}
