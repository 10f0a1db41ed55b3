/* Lines that become text messages, in memory of exactly their size. */
#ifndef JFS_TEXTS_H
#define JFS_TEXTS_H

#include "check.h"
#include "jfs_stage_texts.h"

enum { TEXTS = 40, QUEUES = 3 };

static const int64_t every[] = {3, 4}, in_turn[] = {10, 11, 12};

typedef struct {
    uint8_t *source, *address, *properties;
    jfs_stretch lines[TEXTS];
    jfs_text_batch batch;
} texts;

static inline uint8_t *exactly(const void *bytes, size_t length) {
    uint8_t *const copy = malloc(length);
    CHECK(copy != NULL);
    memcpy(copy, bytes, length);
    return copy;
}

static inline texts texts_make(void) {
    char text[2000];
    texts made;
    size_t length = 0;
    for (int i = 0; i < TEXTS; i++) {
        made.lines[i].begin = length;
        for (int j = 0; j < i; j++) text[length++] = (char)('a' + j % 26);
        if (i % 3 == 0) text[length++] = (char)0xc3; /* no UTF-8 at the end of the line */
        made.lines[i].end = length;
    }
    made.source = exactly(text, length);
    made.address = exactly("\1\0\0\0\2a\0", 7);
    made.properties = exactly("", 1);
    made.batch = (jfs_text_batch){.address = made.address, .address_bytes = 7,
                                  .properties = made.properties, .properties_bytes = 1,
                                  .every = every, .every_count = 2, .in_turn = in_turn, .in_turn_count = QUEUES,
                                  .first_id = 100, .tx_id = 9, .body_bytes_max = 1000, .record_bytes_max = 5000};
    return made;
}

static inline void texts_free(texts *made) {
    free(made->source);
    free(made->address);
    free(made->properties);
}

#endif
