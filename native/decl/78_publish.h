typedef struct {
    uint64_t begin;
    uint64_t end;
} jfs_stretch;

jfs_status jfs_split_lines(const uint8_t *bytes, uint64_t length, jfs_stretch *lines, uint64_t room,
                           uint64_t *count);
uint64_t jfs_count_lines(const uint8_t *bytes, uint64_t length);

typedef struct jfs_values jfs_values;

jfs_status jfs_values_new(jfs_values **out);
void jfs_values_free(jfs_values *values);
void jfs_values_assign(jfs_values *values, const jfs_values *other);
jfs_status jfs_values_split(jfs_values *values, const uint8_t *bytes, uint64_t length, uint64_t before, uint64_t *at,
                            jfs_stretch *found, uint64_t room, uint64_t *count, uint64_t *begin);
int jfs_values_may_end(const jfs_values *values);
int jfs_values_too_deep(const jfs_values *values);

uint64_t jfs_text_bodies_room(uint64_t bytes, uint64_t count);
void jfs_text_bodies(const uint8_t *bytes, const jfs_stretch *texts, uint64_t count, uint8_t *out, uint64_t *ends,
                     uint8_t *plain);
