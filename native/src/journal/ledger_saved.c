/* The ledger as bytes, so that who opens a journal for writing again reads only what came after.
 *
 * Numbers of seven bits a byte, lowest first; signed ones with their sign lowest. A record's place and length are
 * mostly those of the one before, and so are given only where they differ. What can be derived is left out. The caller
 * guards the bytes with a checksum; bytes that do not fit together are refused: no number in them is believed.
 */
#include <stdlib.h>
#include <string.h>

#include "ledger_internal.h"

enum { LAYOUT_VERSION = 1 };

/* What is not said of a live record. */
enum {
    SAME_FILE = 1,  /* its ADD lies in the file of the one before */
    SAME_BYTES = 2, /* and is as long */
    ONE_UPDATE = 4, /* it was given to one queue at once, by an update as long as the last of the one before */
    NO_UPDATE = 8,
    LEFTOVER = 16,
    OLDER_GROUPS = 32,
    SHAPES = 64
};

/* No counter comes near it, and no sum of them overflows. */
static const int64_t counter_max = (int64_t)1 << 48;

typedef struct {
    uint8_t *out;
    uint64_t room;
    uint64_t at; /* goes on behind the room: how much is needed */
    uint32_t *numbers; /* by slot; NONE: a file that is not kept */
    jfs_status status;
} writer;

typedef struct {
    const uint8_t *at;
    const uint8_t *end;
    uint32_t files; /* one more stands for files that are gone */
    int bad;
} reader;

static void put(writer *to, uint64_t value) {
    for (int more = 1; more; to->at++) {
        more = value >= 0x80;
        if (to->at < to->room) to->out[to->at] = (uint8_t)((value & 0x7f) | (more ? 0x80 : 0));
        value >>= 7;
    }
}

static void put_signed(writer *to, int64_t value) { put(to, ((uint64_t)value << 1) ^ (uint64_t)-(value < 0)); }

static uint64_t take(reader *from) {
    uint64_t value = 0;
    for (uint32_t shift = 0; shift < 64 && from->at < from->end; shift += 7) {
        const uint8_t byte = *from->at++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) return value;
    }
    from->bad = 1;
    return 0;
}

static int64_t take_signed(reader *from) {
    const uint64_t value = take(from);
    return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}

static uint64_t take_to(reader *from, uint64_t most) {
    const uint64_t value = take(from);
    if (value > most) from->bad = 1;
    return value > most ? 0 : value;
}

static uint32_t take32(reader *from) { return (uint32_t)take_to(from, INT32_MAX); }

static int64_t take_counter(reader *from) {
    const int64_t value = take_signed(from);
    if (value > counter_max || value < -counter_max) from->bad = 1;
    return from->bad ? 0 : value;
}

/* Each of that many things takes a byte at least, so that none are made room for that are not there. */
static uint32_t take_count(reader *from) {
    const uint64_t left = (uint64_t)(from->end - from->at);
    return (uint32_t)take_to(from, left < INT32_MAX ? left : INT32_MAX);
}

/* ---- saving ---- */

static uint32_t number_of(writer *to, const live_entry *entry, uint32_t slot, uint32_t gone) {
    const uint32_t number = to->numbers[slot];
    if (number != NONE) return number;
    if (!(entry->flags & LIVE_LEFTOVER)) to->status = JFS_RANGE;
    return gone;
}

static void save_groups(writer *to, const jfs_ledger *ledger, const live_entry *entry, uint32_t gone) {
    uint32_t count = 0;
    for (uint32_t at = entry->older; at != NONE; at = ledger->groups[at].next) count++;
    put(to, count);
    for (uint32_t at = entry->older; at != NONE; at = ledger->groups[at].next) {
        put(to, number_of(to, entry, ledger->groups[at].file, gone));
        put(to, ledger->groups[at].count);
        put(to, ledger->groups[at].bytes);
    }
}

static void save_entry(writer *to, const jfs_ledger *ledger, const live_entry *entry, live_entry *before,
                       uint32_t gone) {
    const uint32_t file = number_of(to, entry, entry->add_file, gone);
    const int is_new = entry->older == NONE;
    uint8_t shape = 0;
    if (file == before->add_file) shape |= SAME_FILE;
    if (entry->add_bytes == before->add_bytes) shape |= SAME_BYTES;
    if (entry->flags & LIVE_LEFTOVER) shape |= LEFTOVER;
    if (!is_new) shape |= OLDER_GROUPS;
    if (is_new && entry->last_count == 0 && entry->references == 0) {
        shape |= NO_UPDATE;
    } else if (is_new && entry->last_count == 1 && entry->references == 1 && entry->last_file == entry->add_file &&
               entry->last_bytes == before->last_bytes) {
        shape |= ONE_UPDATE;
    }
    put(to, shape);
    put_signed(to, (int64_t)((uint64_t)entry->id - (uint64_t)before->id));
    if (!(shape & SAME_FILE)) put(to, file);
    if (!(shape & SAME_BYTES)) put(to, entry->add_bytes);
    if (!(shape & (ONE_UPDATE | NO_UPDATE))) {
        put(to, number_of(to, entry, entry->last_file, gone));
        put(to, entry->last_count);
        put(to, entry->last_bytes);
        put_signed(to, entry->references);
    }
    if (shape & OLDER_GROUPS) save_groups(to, ledger, entry, gone);
    *before = *entry;
    before->add_file = file;
}

static void save_live(writer *to, const jfs_ledger *ledger, uint32_t gone) {
    live_entry before = {0};
    uint32_t count = 0;
    for (uint32_t i = 0; i < ledger->live_count; i++) count += ledger->live[i].used;
    put(to, count);
    for (uint32_t i = 0; i < ledger->live_count; i++) {
        const live_entry *const entry = &ledger->live[i];
        if (!entry->used) continue;
        if (entry->held > 0 || (entry->flags & ~LIVE_LEFTOVER)) to->status = JFS_HELD;
        save_entry(to, ledger, entry, &before, gone);
    }
}

static void save_file(writer *to, const file_entry *file) {
    uint32_t count = 0;
    for (uint32_t n = 0; n < file->negative_count; n++) count += to->numbers[file->negatives[n].file] != NONE;
    put_signed(to, file->counters.positives);
    put(to, file->counters.adds);
    put(to, file->counters.replaceable);
    put(to, count);
    for (uint32_t n = 0; n < file->negative_count; n++) {
        const uint32_t number = to->numbers[file->negatives[n].file];
        if (number == NONE) continue;
        put(to, number);
        put_signed(to, file->negatives[n].count);
    }
}

jfs_status jfs_ledger_save(jfs_ledger *ledger, const uint32_t *slots, uint32_t count, uint8_t *out, uint64_t room,
                           uint64_t *bytes) {
    writer to = {.out = out, .room = room, .numbers = malloc(((size_t)ledger->file_count + 1) * sizeof(uint32_t))};
    if (to.numbers == NULL) return JFS_NO_MEMORY;
    ledger_settle_all(ledger);
    if (ledger->failed) to.status = JFS_NO_MEMORY;
    if (ledger->tx_index.count > 0) to.status = JFS_HELD;
    memset(to.numbers, 0xff, ledger->file_count * sizeof *to.numbers);
    for (uint32_t i = 0; i < count && to.status == JFS_OK; i++) {
        if (slots[i] >= ledger->file_count) {
            to.status = JFS_RANGE;
        } else {
            to.numbers[slots[i]] = i;
        }
    }
    if (to.status != JFS_OK) goto done;
    put(&to, LAYOUT_VERSION);
    put(&to, count);
    put(&to, ledger->doubts);
    put_signed(&to, ledger->id_max);
    put_signed(&to, ledger->tx_id_max);
    put(&to, ledger->doubtful_count);
    for (uint32_t i = 0; i < ledger->doubtful_count; i++) put_signed(&to, ledger->doubtful[i]);
    for (uint32_t i = 0; i < count; i++) save_file(&to, &ledger->files[slots[i]]);
    save_live(&to, ledger, count);
    *bytes = to.at;
    if (to.status == JFS_OK && to.at > room) to.status = JFS_FULL;
done:
    free(to.numbers);
    return to.status;
}

/* ---- loading ---- */

static jfs_status load_head(jfs_ledger *ledger, reader *from) {
    ledger->doubts = (uint8_t)take_to(from, 1);
    ledger->id_max = take_signed(from);
    ledger->tx_id_max = take_signed(from);
    for (uint32_t left = take_count(from); left > 0; left--) {
        const jfs_status status = ledger_grow((void **)&ledger->doubtful, ledger->doubtful_count,
                                              &ledger->doubtful_room, sizeof *ledger->doubtful);
        if (status != JFS_OK) return status;
        ledger->doubtful[ledger->doubtful_count++] = take_signed(from);
    }
    return JFS_OK;
}

static jfs_status load_file(jfs_ledger *ledger, uint32_t slot, reader *from) {
    file_entry *const file = &ledger->files[slot];
    file->counters.positives = take_counter(from);
    file->counters.adds = take_to(from, (uint64_t)counter_max);
    file->counters.replaceable = take_to(from, (uint64_t)counter_max);
    const uint32_t count = (uint32_t)take_to(from, from->files);
    file->negatives = calloc((size_t)count + 1, sizeof *file->negatives);
    if (file->negatives == NULL) return JFS_NO_MEMORY;
    file->negative_room = count + 1;
    for (; file->negative_count < count && !from->bad; file->negative_count++) {
        const uint32_t number = take32(from);
        if (number >= from->files) from->bad = 1;
        file->negatives[file->negative_count] = (jfs_ledger_cancelled){number, take_counter(from)};
    }
    return from->bad ? JFS_MALFORMED : JFS_OK;
}

static void count_live(jfs_ledger *ledger, uint32_t file, uint32_t records, uint32_t bytes, int64_t *needed) {
    ledger->files[file].counters.live_bytes += bytes;
    needed[file] += records;
}

static jfs_status load_groups(jfs_ledger *ledger, live_entry *entry, reader *from, int64_t *needed) {
    uint32_t *link = &entry->older;
    const uint32_t first = ledger->group_count;
    const uint32_t count = take_count(from);
    for (uint32_t i = 0; i < count && !from->bad; i++) {
        update_group group = {.next = NONE};
        const jfs_status status =
            ledger_grow((void **)&ledger->groups, ledger->group_count, &ledger->group_room, sizeof *ledger->groups);
        if (status != JFS_OK) return status;
        group.file = take32(from);
        group.count = take32(from);
        group.bytes = take32(from);
        if (group.file > from->files) return JFS_MALFORMED;
        if (!(entry->flags & LIVE_LEFTOVER)) count_live(ledger, group.file, group.count, group.bytes, needed);
        ledger->groups[ledger->group_count++] = group;
    }
    for (uint32_t at = first; at < ledger->group_count; at++) {
        *link = at;
        link = &ledger->groups[at].next;
    }
    return JFS_OK;
}

static jfs_status load_entry(jfs_ledger *ledger, live_entry *entry, const live_entry *before, reader *from,
                             int64_t *needed) {
    const uint8_t shape = (uint8_t)take_to(from, SHAPES - 1);
    *entry = (live_entry){.older = NONE, .flags = shape & LEFTOVER ? LIVE_LEFTOVER : 0, .used = 1};
    entry->id = (int64_t)((uint64_t)before->id + (uint64_t)take_signed(from));
    entry->add_file = shape & SAME_FILE ? before->add_file : take32(from);
    entry->add_bytes = shape & SAME_BYTES ? before->add_bytes : take32(from);
    entry->last_bytes = before->last_bytes;
    if (shape & ONE_UPDATE) {
        entry->last_file = entry->add_file;
        entry->last_count = 1;
        entry->references = 1;
    } else if (shape & NO_UPDATE) {
        entry->last_bytes = 0;
    } else {
        entry->last_file = take32(from);
        entry->last_count = take32(from);
        entry->last_bytes = take32(from);
        const int64_t references = take_signed(from);
        if (references < INT16_MIN || references > INT16_MAX) return JFS_MALFORMED;
        entry->references = (int16_t)references;
    }
    if (from->bad || entry->add_file > from->files || entry->last_file > from->files) return JFS_MALFORMED;
    if (!(entry->flags & LIVE_LEFTOVER)) {
        count_live(ledger, entry->add_file, 1, entry->add_bytes, needed);
        count_live(ledger, entry->last_file, entry->last_count, entry->last_bytes, needed);
        ledger->files[entry->add_file].counters.live_adds++;
        ledger->live_records++;
    }
    return shape & OLDER_GROUPS ? load_groups(ledger, entry, from, needed) : JFS_OK;
}

static jfs_status load_live(jfs_ledger *ledger, reader *from, int64_t *needed) {
    const uint32_t count = take_count(from);
    live_entry before = {0};
    int ascending = 1;
    jfs_status status = JFS_OK;
    ledger->live = malloc(((size_t)count + 1) * sizeof *ledger->live);
    if (ledger->live == NULL) return JFS_NO_MEMORY;
    ledger->live_room = count + 1;
    for (uint32_t i = 0; i < count && status == JFS_OK; i++) {
        live_entry *const entry = &ledger->live[i];
        status = load_entry(ledger, entry, &before, from, needed);
        if (i > 0 && entry->id <= before.id) ascending = 0;
        before = *entry;
        ledger->live_count++;
    }
    if (status != JFS_OK) return status;
    return index_fill(&ledger->live_index, ledger->live, sizeof *ledger->live, count, ascending);
}

/* No file may be said to be free in which something lives. */
static int keeps_live(const jfs_ledger *ledger, uint32_t files, int64_t *needed) {
    for (uint32_t i = 0; i < files; i++) {
        const file_entry *const file = &ledger->files[i];
        for (uint32_t n = 0; n < file->negative_count; n++) needed[file->negatives[n].file] += file->negatives[n].count;
    }
    for (uint32_t i = 0; i < files; i++) {
        if (needed[i] > ledger->files[i].counters.positives) return 0;
    }
    return needed[files] == 0;
}

jfs_status jfs_ledger_load(const uint8_t *bytes, uint64_t size_bytes, uint32_t file_count, jfs_ledger **out) {
    reader from = {bytes, bytes + size_bytes, file_count, 0};
    int64_t *const needed = calloc((size_t)file_count + 1, sizeof *needed);
    jfs_ledger *ledger = NULL;
    uint32_t slot;
    jfs_status status = needed == NULL ? JFS_NO_MEMORY : jfs_ledger_new(&ledger);
    *out = NULL;
    if (status == JFS_OK && (take(&from) != LAYOUT_VERSION || take(&from) != file_count)) status = JFS_MALFORMED;
    for (uint32_t i = 0; i <= file_count && status == JFS_OK; i++) status = jfs_ledger_add_file(ledger, &slot);
    if (status == JFS_OK) status = load_head(ledger, &from);
    for (uint32_t i = 0; i < file_count && status == JFS_OK; i++) status = load_file(ledger, i, &from);
    if (status == JFS_OK) status = load_live(ledger, &from, needed);
    if (status == JFS_OK && (from.bad || from.at != from.end || !keeps_live(ledger, file_count, needed))) {
        status = JFS_MALFORMED;
    }
    free(needed);
    if (status == JFS_OK) {
        *out = ledger;
    } else {
        jfs_ledger_free(ledger);
    }
    return status;
}
