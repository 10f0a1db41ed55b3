/* The journals of ActiveMQ 5: what is regular of them, for those who replay it. */
#include "jfs_replay.h"

#include <zlib.h>

#include "bytes.h"
#include "fields.h"
#include "openwire.h"

typedef struct {
    const uint8_t *bytes;
    uint64_t size;
    uint64_t at;
} journal;

static jfs_replay_span span(const journal *from, jfs_view view) {
    if (view.at == NULL) return (jfs_replay_span){0, 0};
    return (jfs_replay_span){(uint32_t)(view.at - from->bytes), (uint32_t)view.bytes};
}

/* Takes what lies at `from->at`, and says in *found whether it is a command. Returns 0 where nothing regular is. */
typedef int (*take_record)(journal *from, jfs_replay_row *row, int *found);

static jfs_status take_all(take_record take, const uint8_t *bytes, uint64_t size_bytes, uint64_t *at,
                           jfs_replay_row *rows, uint32_t capacity, uint32_t *count) {
    journal from = {bytes, size_bytes, *at};
    *count = 0;
    if (*at > size_bytes) return JFS_RANGE;
    while (size_bytes <= UINT32_MAX && *count < capacity) {
        int found = 0;
        rows[*count] = (jfs_replay_row){0};
        if (!take(&from, &rows[*count], &found)) break;
        *count += (uint32_t)found;
    }
    *at = from.at;
    return JFS_OK;
}

/* -- KahaDB ------------------------------------------------------------------------------------------------------- */

enum {
    HEAD_BYTES = 5,
    USER_RECORD = 1,
    BATCH_RECORD = 2,
    BATCH_BYTES = 28,
    COMMAND_ADD = 1,
    COMMAND_REMOVE = 2,
    FIELD_TRANSACTION = 1,
    FIELD_DESTINATION = 2,
    FIELD_ID = 3,
    FIELD_MESSAGE = 4,
    FIELD_SUBSCRIPTION = 5,
    LENGTH_BYTES = 4
};

static const uint8_t BATCH_START[] = {0, 0, 0, BATCH_BYTES, BATCH_RECORD, 'W', 'R', 'I', 'T', 'E', ' ', 'B', 'A', 'T', 'C', 'H'};

/* Whether a batch is whole and is what its checksum says. */
static int is_right(const journal *from) {
    const int64_t length = load_i32(from->bytes + from->at + 16), checksum = load_i64(from->bytes + from->at + 20);
    const uint64_t start = from->at + BATCH_BYTES;
    if (length < 0 || (uint64_t)length > from->size - start) return 0;
    return checksum <= 0 || adler32(1, from->bytes + start, (uInt)length) == (uint64_t)checksum;
}

static void take_kahadb_fields(const journal *from, jfs_replay_row *row) {
    jfs_reader reader = jfs_reader_over((jfs_view){from->bytes + row->content.at, row->content.bytes});
    const uint64_t extra = row->command == COMMAND_ADD ? FIELD_MESSAGE : FIELD_SUBSCRIPTION;
    if (row->command != COMMAND_ADD && row->command != COMMAND_REMOVE) return;
    while (!reader.bad && jfs_left(&reader) > 0) {
        uint64_t tag;
        const jfs_replay_span value = span(from, take_field(&reader, &tag));
        if ((tag & 7) != FIELD_BYTES) continue;
        switch (tag >> 3) {
        case FIELD_TRANSACTION: row->transaction = value; break;
        case FIELD_DESTINATION: row->destination = value; break;
        case FIELD_ID: row->id = value; break;
        default:
            if (tag >> 3 == extra) row->extra = value;
        }
    }
    row->usual = !reader.bad && row->destination.at > 0 && row->id.at > 0 &&
                 (row->command != COMMAND_ADD || row->extra.bytes > LENGTH_BYTES);
}

static int take_kahadb(journal *from, jfs_replay_row *row, int *found) {
    if (from->size - from->at < HEAD_BYTES) return 0;
    const uint8_t *const record = from->bytes + from->at;
    const int64_t size = load_i32(record);
    if (size < HEAD_BYTES || (uint64_t)size > from->size - from->at) return 0;
    if (record[4] == BATCH_RECORD) {
        if (size != BATCH_BYTES || memcmp(record, BATCH_START, sizeof BATCH_START) != 0 || !is_right(from)) return 0;
    } else {
        if (record[4] != USER_RECORD || size < HEAD_BYTES + 2) return 0;
        jfs_reader reader = jfs_reader_over((jfs_view){record, (uint64_t)size});
        jfs_take(&reader, HEAD_BYTES);
        row->start = (uint32_t)from->at;
        row->command = jfs_take8(&reader);
        row->content = span(from, jfs_take(&reader, take_varint(&reader)));
        if (reader.bad) return 0;
        take_kahadb_fields(from, row);
        *found = 1;
    }
    from->at += (uint64_t)size;
    return 1;
}

jfs_status jfs_replay_kahadb(const uint8_t *bytes, uint64_t size_bytes, uint64_t *at, jfs_replay_row *rows,
                             uint32_t capacity, uint32_t *count) {
    return take_all(take_kahadb, bytes, size_bytes, at, rows, capacity, count);
}

/* -- AMQ Message Store -------------------------------------------------------------------------------------------- */

enum { FRAME_HEAD_BYTES = 29, FRAME_TAIL_BYTES = 3, FRAME_MARK_AT = 26 };

static int take_amq(journal *from, jfs_replay_row *row, int *found) {
    const uint64_t left = from->size - from->at;
    if (left < FRAME_HEAD_BYTES + FRAME_TAIL_BYTES) return 0;
    const uint8_t *const record = from->bytes + from->at;
    const int64_t size = load_i32(record);
    if (size < FRAME_HEAD_BYTES + FRAME_TAIL_BYTES || (uint64_t)size > left) return 0;
    if (memcmp(record + FRAME_MARK_AT, "SOR", 3) != 0 || memcmp(record + size - FRAME_TAIL_BYTES, "EOR", 3) != 0)
        return 0;
    const int64_t room = size - FRAME_HEAD_BYTES - FRAME_TAIL_BYTES - LENGTH_BYTES;
    if (record[4] == USER_RECORD && room > 0) {
        const int64_t length = load_i32(record + FRAME_HEAD_BYTES);
        openwire_head head;
        if (length <= 0 || length > room) return 0;
        const jfs_view command = {record + FRAME_HEAD_BYTES + LENGTH_BYTES, (uint64_t)length};
        row->content = span(from, command);
        row->start = row->content.at;
        row->command = command.at[0];
        row->usual = (uint32_t)jfs_openwire_head(command, &head);
        row->transaction = span(from, head.transaction);
        row->destination = span(from, head.destination);
        row->id = span(from, head.producer);
        row->extra = span(from, head.subscription);
        row->sequence = head.sequence;
        *found = 1;
    }
    from->at += (uint64_t)size;
    return 1;
}

jfs_status jfs_replay_amq(const uint8_t *bytes, uint64_t size_bytes, uint64_t *at, jfs_replay_row *rows,
                          uint32_t capacity, uint32_t *count) {
    return take_all(take_amq, bytes, size_bytes, at, rows, capacity, count);
}
