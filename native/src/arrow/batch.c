/* Columns of messages as arrays of Arrow's C data interface. Every array owns its buffers, so that a consumer may move
 * a child away and release it by itself. Allocates; waits for nothing; needs no lock. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jfs_arrow.h"
#include "jfs_columns.h"
#include "message.h"

enum { BUFFERS_MAX = 3, NAME_BYTES_MAX = 32 };

/* A kind of array: how many buffers it has. */
enum { FIXED = 2, VARYING = 3 };

typedef struct {
    const void *buffers[BUFFERS_MAX];
    struct ArrowArray **children;
} owned;

static void release(struct ArrowArray *array) {
    owned *const mine = array->private_data;
    for (int64_t i = 0; i < array->n_children; i++) {
        struct ArrowArray *const child = array->children[i];
        if (child == NULL) continue;
        if (child->release != NULL) child->release(child);
        free(child);
    }
    for (int i = 0; i < BUFFERS_MAX; i++) free((void *)mine->buffers[i]);
    free(mine->children);
    free(mine);
    array->release = NULL;
}

/* An array without buffers and children yet; what it gets is freed with it. */
static jfs_status begin(struct ArrowArray *array, int64_t length, int buffers, int children) {
    owned *const mine = calloc(1, sizeof *mine);
    memset(array, 0, sizeof *array);
    if (mine == NULL) return JFS_NO_MEMORY;
    mine->children = calloc((size_t)children + 1, sizeof *mine->children);
    *array = (struct ArrowArray){
        .length = length, .n_buffers = buffers, .buffers = mine->buffers, .release = release, .private_data = mine,
    };
    if (mine->children == NULL) return JFS_NO_MEMORY;
    array->children = mine->children;
    for (int i = 0; i < children; i++) {
        if ((array->children[i] = calloc(1, sizeof **array->children)) == NULL) return JFS_NO_MEMORY;
        array->n_children = i + 1;
    }
    return JFS_OK;
}

static void *buffer(struct ArrowArray *array, int number, uint64_t bytes) {
    void *const made = calloc(1, bytes + 8);
    array->buffers[number] = made;
    return made;
}

static void set_bit(uint8_t *bits, uint64_t at) { bits[at / 8] |= (uint8_t)(1u << at % 8); }

/* Takes over the buffers of a column. */
static jfs_status take_over(struct ArrowArray *array, jfs_column *column) {
    jfs_status status = begin(array, column->rows, VARYING, 0);
    if (status != JFS_OK) return status;
    array->null_count = column->nulls;
    if (column->nulls > 0) {
        array->buffers[0] = column->valid;
        column->valid = NULL;
    }
    array->buffers[1] = column->offsets;
    array->buffers[2] = column->data;
    column->offsets = NULL;
    column->data = NULL;
    if (array->buffers[1] == NULL && buffer(array, 1, sizeof(int32_t)) == NULL) return JFS_NO_MEMORY;
    return array->buffers[2] == NULL && buffer(array, 2, 1) == NULL ? JFS_NO_MEMORY : JFS_OK;
}

/* The batch that is made. */
typedef struct {
    const jfs_line *lines;
    jfs_columns read;
    const uint8_t *queue;
    uint32_t queue_bytes;
} made;

typedef const char *(*name_of)(const made *batch, uint64_t row, char *room);

/* Texts of which there are few different ones. */
static jfs_status put_names(struct ArrowArray *array, const made *batch, uint64_t rows, name_of name) {
    jfs_status status = begin(array, (int64_t)rows, VARYING, 0);
    if (status != JFS_OK) return status;
    char room[NAME_BYTES_MAX];
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < rows; i++) {
        const char *const text = name(batch, i, room);
        bytes += text == NULL ? 0 : strlen(text);
    }
    if (bytes > INT32_MAX) return JFS_RANGE;
    uint8_t *const valid = buffer(array, 0, (rows + 7) / 8), *const data = buffer(array, 2, bytes);
    int32_t *const offsets = buffer(array, 1, (rows + 1) * sizeof *offsets);
    if (valid == NULL || data == NULL || offsets == NULL) return JFS_NO_MEMORY;
    for (uint64_t i = 0; i < rows; i++) {
        const char *const text = name(batch, i, room);
        const size_t length = text == NULL ? 0 : strlen(text);
        if (text == NULL) array->null_count++;
        else set_bit(valid, i);
        if (length > 0) memcpy(data + offsets[i], text, length);
        offsets[i + 1] = offsets[i] + (int32_t)length;
    }
    return JFS_OK;
}

static const char *type_name(const made *batch, uint64_t row, char *room) {
    static const char *const core[] = {"default", "type-1", "object", "text", "bytes",
                                       "map",     "stream", "embedded", "largeEmbedded"};
    static const char *const amqp[] = {"amqp-data", "amqp-value", "amqp-sequence", "none"};
    const jfs_row *const found = &batch->read.rows[row];
    if (!(found->flags & JFS_ROW_HAS_TYPE)) return NULL;
    if (found->type >= JFS_ROW_AMQP_TYPES) return amqp[(found->type - JFS_ROW_AMQP_TYPES) % 4];
    if (found->type < sizeof core / sizeof *core) return core[found->type];
    snprintf(room, NAME_BYTES_MAX, "type-%d", (int8_t)found->type);
    return room;
}

static const char *protocol_name(const made *batch, uint64_t row, char *room) {
    return batch->read.rows[row].flags & JFS_ROW_AMQP ? "AMQP" : "CORE";
}

static const char *kind_name(const made *batch, uint64_t row, char *room) {
    return jfs_kind_name(batch->read.kinds[row]);
}

/* Of any length, with a zero in it or not. */
static jfs_status put_queue(struct ArrowArray *array, const made *batch) {
    const uint64_t rows = batch->read.count, bytes = rows * batch->queue_bytes;
    jfs_status status = begin(array, (int64_t)rows, VARYING, 0);
    if (status != JFS_OK) return status;
    if (bytes > INT32_MAX) return JFS_RANGE;
    int32_t *const offsets = buffer(array, 1, (rows + 1) * sizeof *offsets);
    uint8_t *const data = buffer(array, 2, bytes);
    if (offsets == NULL || data == NULL) return JFS_NO_MEMORY;
    for (uint64_t i = 0; i < rows; i++) {
        memcpy(data + offsets[i], batch->queue, batch->queue_bytes);
        offsets[i + 1] = offsets[i] + (int32_t)batch->queue_bytes;
    }
    return JFS_OK;
}

/* What a fixed column says of a message; *known: or that it is not known. */
typedef int64_t (*value_of)(const made *batch, uint64_t row, int *known);

static int header_of(const made *batch, uint64_t row) {
    return (batch->read.rows[row].flags & JFS_ROW_HAS_HEADER) != 0;
}

static int64_t id_of(const made *batch, uint64_t row, int *known) {
    *known = (batch->read.rows[row].flags & JFS_ROW_HAS_ID) != 0;
    return batch->read.rows[row].id;
}

/* Within what microseconds of 64 bits can say, into which most readers convert it. */
static int64_t time_of(int64_t time_ms, int *known) {
    const int64_t most = INT64_MAX / 1000;
    *known = *known && time_ms != 0 && time_ms <= most && time_ms >= -most;
    return time_ms;
}

static int64_t timestamp_of(const made *batch, uint64_t row, int *known) {
    *known = header_of(batch, row);
    return time_of(batch->read.rows[row].timestamp_ms, known);
}

static int64_t expiration_of(const made *batch, uint64_t row, int *known) {
    *known = header_of(batch, row);
    return time_of(batch->read.rows[row].expiration_ms, known);
}

static int64_t scheduled_of(const made *batch, uint64_t row, int *known) {
    *known = 1;
    return time_of(batch->lines[row].scheduled_ms, known);
}

static int64_t priority_of(const made *batch, uint64_t row, int *known) {
    *known = header_of(batch, row);
    return batch->read.rows[row].priority;
}

static int64_t deliveries_of(const made *batch, uint64_t row, int *known) { return batch->lines[row].delivery_count; }

static int64_t durable_of(const made *batch, uint64_t row, int *known) {
    *known = header_of(batch, row);
    return (batch->read.rows[row].flags & JFS_ROW_DURABLE) != 0;
}

static int64_t large_of(const made *batch, uint64_t row, int *known) {
    return (batch->read.rows[row].flags & JFS_ROW_LARGE) != 0;
}

/* `bits`: how long a value is. */
static jfs_status put_fixed(struct ArrowArray *array, const made *batch, value_of value, int bits) {
    const uint64_t rows = batch->read.count;
    jfs_status status = begin(array, (int64_t)rows, FIXED, 0);
    if (status != JFS_OK) return status;
    uint8_t *const valid = buffer(array, 0, (rows + 7) / 8), *const data = buffer(array, 1, (rows * bits + 7) / 8);
    if (valid == NULL || data == NULL) return JFS_NO_MEMORY;
    for (uint64_t i = 0; i < rows; i++) {
        int known = 1;
        const int64_t found = value(batch, i, &known);
        if (known) set_bit(valid, i);
        else array->null_count++;
        if (!known) continue;
        if (bits == 64) ((int64_t *)data)[i] = found;
        else if (bits == 32) ((int32_t *)data)[i] = (int32_t)found;
        else if (found) set_bit(data, i);
    }
    return JFS_OK;
}

/* A map: key -> type and value, as text. */
static jfs_status put_properties(struct ArrowArray *array, made *batch) {
    const uint64_t rows = batch->read.count, kinds = batch->read.kind_count;
    jfs_status status = begin(array, (int64_t)rows, FIXED, 1);
    if (status != JFS_OK) return status;
    int32_t *const offsets = buffer(array, 1, (rows + 1) * sizeof *offsets);
    if (offsets == NULL) return JFS_NO_MEMORY;
    for (uint64_t i = 0; i < rows; i++) offsets[i + 1] = offsets[i] + (int32_t)batch->read.rows[i].properties;
    struct ArrowArray *const entries = array->children[0];
    if ((status = begin(entries, (int64_t)kinds, 1, 2)) != JFS_OK) return status;
    if ((status = take_over(entries->children[0], &batch->read.columns[JFS_COLUMN_KEYS])) != JFS_OK) return status;
    struct ArrowArray *const values = entries->children[1];
    if ((status = begin(values, (int64_t)kinds, 1, 2)) != JFS_OK) return status;
    if ((status = put_names(values->children[0], batch, kinds, kind_name)) != JFS_OK) return status;
    return take_over(values->children[1], &batch->read.columns[JFS_COLUMN_VALUES]);
}

typedef struct {
    const char *name, *format;
    int column; /* of jfs_columns; -1: another */
    value_of value;
    int bits;
} kind;

static const kind kinds[] = {
    {"id", "l", -1, id_of, 64},
    {"queue", "u", -1, NULL, 0},
    {"address", "u", JFS_COLUMN_ADDRESS, NULL, 0},
    {"type", "u", -1, NULL, 0},
    {"protocol", "u", -1, NULL, 0},
    {"durable", "b", -1, durable_of, 1},
    {"priority", "i", -1, priority_of, 32},
    {"timestamp", "tsm:UTC", -1, timestamp_of, 64},
    {"expiration", "tsm:UTC", -1, expiration_of, 64},
    {"deliveryCount", "i", -1, deliveries_of, 32},
    {"scheduledTime", "tsm:UTC", -1, scheduled_of, 64},
    {"userId", "u", JFS_COLUMN_USER_ID, NULL, 0},
    {"groupId", "u", JFS_COLUMN_GROUP, NULL, 0},
    {"duplicateId", "u", JFS_COLUMN_DUPLICATE, NULL, 0},
    {"largeMessage", "b", -1, large_of, 1},
    {"properties", "+m", JFS_COLUMN_KEYS, NULL, 0},
    {"body", "u", JFS_COLUMN_BODY, NULL, 0},
    {"bodyBytes", "z", JFS_COLUMN_BODY_BYTES, NULL, 0},
    {"damage", "u", JFS_COLUMN_DAMAGE, NULL, 0},
    {"duplicateIdBytes", "z", JFS_COLUMN_DUPLICATE_BYTES, NULL, 0},
    {"rawMessage", "z", JFS_COLUMN_RAW, NULL, 0},
};
enum { QUEUE = 1, TYPE = 3, PROTOCOL = 4, PROPERTIES = 15, KINDS = sizeof kinds / sizeof *kinds };

const char *jfs_arrow_column(uint32_t column) { return column < KINDS ? kinds[column].name : NULL; }

static jfs_status put_column(struct ArrowArray *array, made *batch, uint8_t column) {
    switch (column) {
    case QUEUE: return put_queue(array, batch);
    case TYPE: return put_names(array, batch, batch->read.count, type_name);
    case PROTOCOL: return put_names(array, batch, batch->read.count, protocol_name);
    case PROPERTIES: return put_properties(array, batch);
    default: break;
    }
    if (kinds[column].value != NULL) return put_fixed(array, batch, kinds[column].value, kinds[column].bits);
    return take_over(array, &batch->read.columns[kinds[column].column]);
}

static uint32_t wanted(const uint8_t *columns, uint32_t count) {
    uint32_t bits = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (kinds[columns[i]].column >= 0) bits |= 1u << kinds[columns[i]].column;
        if (columns[i] == PROPERTIES) bits |= 1u << JFS_COLUMN_VALUES;
    }
    return bits;
}

jfs_status jfs_arrow_batch(const jfs_line *lines, uint64_t count, const uint8_t *columns, uint32_t column_count,
                           const uint8_t *queue, uint32_t queue_bytes, uint64_t bytes_max, struct ArrowArray *out,
                           uint64_t *read) {
    made batch = {.lines = lines, .queue = queue, .queue_bytes = queue_bytes};
    memset(out, 0, sizeof *out);
    for (uint32_t i = 0; i < column_count; i++)
        if (columns[i] >= KINDS) return JFS_RANGE;
    jfs_status status = jfs_columns_read(lines, count, wanted(columns, column_count), bytes_max, &batch.read);
    if (status == JFS_OK) {
        *read = batch.read.count;
        status = begin(out, (int64_t)batch.read.count, 1, (int)column_count);
    }
    for (uint32_t i = 0; i < column_count && status == JFS_OK; i++)
        status = put_column(out->children[i], &batch, columns[i]);
    jfs_columns_free(&batch.read);
    if (status != JFS_OK && out->release != NULL) out->release(out);
    return status;
}

/* ---- schemas and streams ---- */

static void release_schema(struct ArrowSchema *schema) {
    for (int64_t i = 0; i < schema->n_children; i++) {
        if (schema->children[i] == NULL) continue;
        if (schema->children[i]->release != NULL) schema->children[i]->release(schema->children[i]);
        free(schema->children[i]);
    }
    free(schema->children);
    schema->release = NULL;
}

static int schema_of(struct ArrowSchema *out, const char *name, const char *format, int nullable, int children) {
    enum { NULLABLE = 2 };
    *out = (struct ArrowSchema){
        .format = format, .name = name, .flags = nullable ? NULLABLE : 0, .release = release_schema,
    };
    if (children == 0) return 1;
    if ((out->children = calloc((size_t)children, sizeof *out->children)) == NULL) return 0;
    for (int i = 0; i < children; i++) {
        if ((out->children[i] = calloc(1, sizeof **out->children)) == NULL) return 0;
        out->n_children = i + 1;
    }
    return 1;
}

static int schema_of_properties(struct ArrowSchema *out) {
    if (!schema_of(out, "properties", "+m", 1, 1)) return 0;
    struct ArrowSchema *const entries = out->children[0];
    if (!schema_of(entries, "entries", "+s", 0, 2) || !schema_of(entries->children[0], "key", "u", 0, 0)) return 0;
    struct ArrowSchema *const value = entries->children[1];
    return schema_of(value, "value", "+s", 1, 2) && schema_of(value->children[0], "type", "u", 1, 0) &&
           schema_of(value->children[1], "value", "u", 1, 0);
}

typedef struct {
    jfs_arrow_next next;
    jfs_arrow_done done;
    void *context;
    char error[JFS_ARROW_ERROR_BYTES];
    uint32_t count;
    uint8_t columns[];
} source;

static int get_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out) {
    enum { NO_MEMORY = 12 };
    const source *const from = stream->private_data;
    int made_it = schema_of(out, "", "+s", 0, (int)from->count);
    for (uint32_t i = 0; i < from->count && made_it; i++) {
        const kind *const one = &kinds[from->columns[i]];
        made_it = from->columns[i] == PROPERTIES ? schema_of_properties(out->children[i])
                                                 : schema_of(out->children[i], one->name, one->format, 1, 0);
    }
    if (!made_it) release_schema(out);
    return made_it ? 0 : NO_MEMORY;
}

static int get_next(struct ArrowArrayStream *stream, struct ArrowArray *out) {
    source *const from = stream->private_data;
    memset(out, 0, sizeof *out);
    return from->next(from->context, out, from->error);
}

static const char *get_last_error(struct ArrowArrayStream *stream) {
    const source *const from = stream->private_data;
    return from->error[0] == 0 ? NULL : from->error;
}

static void release_stream(struct ArrowArrayStream *stream) {
    source *const from = stream->private_data;
    from->done(from->context);
    free(from);
    stream->release = NULL;
}

struct ArrowArrayStream *jfs_arrow_stream(const uint8_t *columns, uint32_t column_count, jfs_arrow_next next,
                                          jfs_arrow_done done, void *context) {
    struct ArrowArrayStream *const stream = calloc(1, sizeof *stream);
    source *const from = calloc(1, sizeof *from + column_count);
    if (stream == NULL || from == NULL) {
        free(stream);
        free(from);
        return NULL;
    }
    from->next = next;
    from->done = done;
    from->context = context;
    from->count = column_count;
    memcpy(from->columns, columns, column_count);
    *stream = (struct ArrowArrayStream){get_schema, get_next, get_last_error, release_stream, from};
    return stream;
}

void jfs_arrow_stream_free(struct ArrowArrayStream *stream) {
    if (stream == NULL) return;
    if (stream->release != NULL) stream->release(stream);
    free(stream);
}
