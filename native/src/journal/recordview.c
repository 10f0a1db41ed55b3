/* Journal records as JSON lines: the frame, the fields of the small fixed layouts, and the body as it is. */
#include "jfs_recordview.h"

#include "reader.h"
#include "text.h"
#include "view.h"

/* One fixed-width field of a body. A layout ends at the first field without a key. */
typedef struct {
    const char *key;
    uint8_t width;
} field;

enum { FIELDS_MAX = 3 };

static const field *layout_of(int user_type) {
    static const field id_counter[FIELDS_MAX + 1] = {{"value", 8}};
    static const field queue_status[FIELDS_MAX + 1] = {{"queue", 8}, {"status", 2}};
    static const field address_status[FIELDS_MAX + 1] = {{"addressId", 8}, {"status", 2}};
    static const field pending[FIELDS_MAX + 1] = {{"message", 8}};
    static const field reference[FIELDS_MAX + 1] = {{"queue", 8}};
    static const field delivery[FIELDS_MAX + 1] = {{"queue", 8}, {"deliveryCount", 4}};
    static const field page_transaction[FIELDS_MAX + 1] = {{"pageTx", 8}, {"messages", 4}};
    static const field schedule[FIELDS_MAX + 1] = {{"queue", 8}, {"scheduledTime", 8}};
    static const field cursor[FIELDS_MAX + 1] = {{"queue", 8}, {"page", 8}, {"number", 4}};
    static const field counter[FIELDS_MAX + 1] = {{"queue", 8}, {"messages", 8}, {"messageBytes", 8}};
    static const field increment[FIELDS_MAX + 1] = {{"queue", 8}, {"messages", 4}, {"messageBytes", 8}};
    static const field complete[FIELDS_MAX + 1] = {{"queue", 8}, {"page", 8}, {"messages", 4}};
    static const field pending_counter[FIELDS_MAX + 1] = {{"queue", 8}, {"page", 8}};
    switch (user_type) {
    case 22: return queue_status;
    case 24: return id_counter;
    case 29: return pending;
    case 32:
    case 33: return reference;
    case 34: return delivery;
    case 35: return page_transaction;
    case 36: return schedule;
    case 39: return cursor;
    case 40: return counter;
    case 41: return increment;
    case 42: return complete;
    case 43: return pending_counter;
    case 46: return address_status;
    default: return NULL;
    }
}

static int64_t take_width(jfs_reader *reader, uint8_t width) {
    if (width == 8) return (int64_t)jfs_take64(reader);
    if (width == 4) return (int32_t)jfs_take32(reader);
    return (int16_t)jfs_take16(reader);
}

static void put_key(jfs_sink *sink, const char *key) {
    JFS_PUT(sink, ",\"");
    jfs_put(sink, key, strlen(key));
    JFS_PUT(sink, "\":");
}

static void put_number(jfs_sink *sink, const char *key, int64_t value) {
    put_key(sink, key);
    jfs_put_signed(sink, value);
}

static void put_base64(jfs_sink *sink, const char *key, jfs_view bytes) {
    put_key(sink, key);
    jfs_put_byte(sink, '"');
    jfs_put_base64(sink, bytes);
    jfs_put_byte(sink, '"');
}

static void put_layout(jfs_sink *sink, const field *layout, jfs_view body) {
    jfs_reader reader = jfs_reader_over(body);
    for (; layout->key != NULL; layout++) {
        const int64_t value = take_width(&reader, layout->width);
        if (reader.bad) return; /* older writers leave the last ones out */
        put_number(sink, layout->key, value);
    }
}

static void put_duplicate_id(jfs_sink *sink, jfs_view body) {
    jfs_reader reader = jfs_reader_over(body);
    const jfs_view address = jfs_take_sized(&reader), id = jfs_take_sized(&reader);
    if (reader.bad || (address.bytes & 1)) return;
    put_key(sink, "address");
    jfs_put_string16(sink, address);
    put_base64(sink, "duplicateId_base64", id);
}

/* The branch qualifier comes first. */
static jfs_reader put_xid(jfs_sink *sink, jfs_view body) {
    jfs_reader reader = jfs_reader_over(body);
    const int32_t format = (int32_t)jfs_take32(&reader);
    const jfs_view branch = jfs_take_sized(&reader), global = jfs_take_sized(&reader);
    if (reader.bad) return reader;
    JFS_PUT(sink, ",\"xid\":{\"formatId\":");
    jfs_put_signed(sink, format);
    put_base64(sink, "branchQualifier_base64", branch);
    put_base64(sink, "globalTransactionId_base64", global);
    jfs_put_byte(sink, '}');
    return reader;
}

static void put_heuristic(jfs_sink *sink, jfs_view body) {
    jfs_reader reader = put_xid(sink, body);
    const uint8_t committed = jfs_take8(&reader);
    if (reader.bad) return;
    put_key(sink, "committed");
    jfs_put_bool(sink, committed != 0);
}

static void put_decoded(jfs_sink *sink, const jfs_record *record, jfs_view body) {
    const field *layout = layout_of(record->user_type);
    if (record->kind == JFS_PREPARE)
        put_xid(sink, body);
    else if (record->kind == JFS_DELETE_TX)
        return;
    else if (layout != NULL)
        put_layout(sink, layout, body);
    else if (record->user_type == 37)
        put_duplicate_id(sink, body);
    else if (record->user_type == 38)
        put_heuristic(sink, body);
}

static const char *kind_name(uint8_t kind) {
    static const char *const names[] = {"EVENT",     "ADD",    "UPDATE",  "ADD_TX", "UPDATE_TX",
                                        "DELETE_TX", "DELETE", "PREPARE", "COMMIT", "ROLLBACK"};
    return kind < JFS_EVENT || kind > JFS_ROLLBACK ? "UNKNOWN" : names[kind - JFS_EVENT];
}

static void put_frame(jfs_sink *sink, const jfs_record *record) {
    const uint8_t kind = record->kind;
    const char *name = kind_name(kind);
    const int ends_tx = kind == JFS_PREPARE || kind == JFS_COMMIT || kind == JFS_ROLLBACK;
    put_number(sink, "offset", record->offset);
    JFS_PUT(sink, ",\"kind\":\"");
    jfs_put(sink, name, strlen(name));
    jfs_put_byte(sink, '"');
    if (!ends_tx) put_number(sink, "id", record->record_id);
    if (ends_tx || (kind >= JFS_ADD_TX && kind <= JFS_DELETE_TX)) put_number(sink, "tx", record->tx_id);
    if (kind < JFS_DELETE_TX) {
        const char *type = jfs_user_type_name(record->user_type);
        put_number(sink, "userType", record->user_type);
        if (type != NULL) {
            JFS_PUT(sink, ",\"userTypeName\":\"");
            jfs_put(sink, type, strlen(type));
            jfs_put_byte(sink, '"');
        }
    }
    put_number(sink, "bytes", record->length);
    if (record->compact_count != 0) put_number(sink, "compactCount", record->compact_count);
    if (kind == JFS_PREPARE || kind == JFS_COMMIT) put_number(sink, "count", record->count);
    if (record->flags & JFS_RECORD_IN_DAMAGE) JFS_PUT(sink, ",\"inDamage\":true");
}

static void put_record(jfs_sink *sink, const void *context, uint64_t index) {
    const jfs_record_view *view = context;
    const jfs_record *record = &view->records[index];
    jfs_view body = {view->bytes + record->body_offset, record->body_bytes};
    if ((uint64_t)record->body_offset + record->body_bytes > view->size_bytes) body.bytes = 0;
    jfs_put(sink, view->prefix, view->prefix_bytes);
    put_frame(sink, record);
    put_decoded(sink, record, body);
    if (body.bytes > 0) put_base64(sink, "body_base64", body);
    JFS_PUT(sink, "}\n");
}

static void put_page_record(jfs_sink *sink, const void *context, uint64_t index) {
    const jfs_record_view *view = context;
    const jfs_page_entry *entry = &view->page->entries[index];
    const jfs_view payload = {view->bytes + entry->payload_offset, entry->payload_bytes};
    const char *kind = entry->kind == 0 ? "SMALL" : entry->kind == 2 ? "LARGE" : "CORE_LARGE";
    jfs_put(sink, view->prefix, view->prefix_bytes);
    put_number(sink, "number", (int64_t)(view->first + index));
    put_number(sink, "offset", (int64_t)entry->offset);
    JFS_PUT(sink, ",\"kind\":\"");
    jfs_put(sink, kind, strlen(kind));
    jfs_put_byte(sink, '"');
    put_number(sink, "id", view->page->measures[index].message_id);
    if (entry->tx_id > 0) put_number(sink, "tx", entry->tx_id);
    JFS_PUT(sink, ",\"queues\":[");
    for (uint32_t i = 0; i < entry->queue_count; i++) {
        if (i > 0) jfs_put_byte(sink, ',');
        jfs_put_signed(sink, view->page->queue_ids[entry->queue_index + i]);
    }
    jfs_put_byte(sink, ']');
    put_number(sink, "bytes", entry->record_bytes);
    if (entry->flags & JFS_PAGE_UNDECODED) JFS_PUT(sink, ",\"undecoded\":true");
    if (entry->payload_offset + entry->payload_bytes <= view->size_bytes) put_base64(sink, "body_base64", payload);
    JFS_PUT(sink, "}\n");
}

static jfs_put_line put_of(const jfs_record_view *view) {
    return view->records != NULL ? put_record : put_page_record;
}

jfs_status jfs_record_view_starts(const jfs_record_view *view, uint64_t *starts) {
    return jfs_view_starts(put_of(view), view, view->count, starts);
}

jfs_status jfs_record_view_read(const jfs_record_view *view, uint64_t from, uint8_t *out, uint64_t capacity,
                                uint64_t *written) {
    return jfs_view_read(put_of(view), view, view->count, view->starts, from, out, capacity, written);
}
