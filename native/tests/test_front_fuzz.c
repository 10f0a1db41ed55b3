/* Runs the fuzz target of the front on what a shell and its like ask, changed at random. */
#include "../fuzz/fuzz_front.c"

enum { TRIED = 3000, INPUT_MAX = 400 };

/* Create, write, flush, release and forget of a file; lookups, an open, reads, and a batch of forgets; Python between. */
static const uint8_t seed[] = {
    10, 1, 24, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 'i', 'n', '.', 't', 'x', 't', 0, 0, 25, 1,
    196, 1, 9, 2, 48, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 'a', ' ', 'l', 'i', 'n', 'e', 's', '\n', 6, 2, 24, 0, 8, 0, 0, 0, 0, 0, 0, 0,
    0, 1, 5, 0, 'n', 'i', 'n', 'e', 0, 4, 1, 5, 2, 0, 0, 0, 194, 1, 195, 9, 7, 0, 24, 0, 2, 0, 0, 0, 0, 0, 0, 0,
    7, 0, 0, 0, 0, 0, 0, 0, 4, 2, 24, 0, 8, 0, 0, 0, 192, 0, 199, 0, 193, 2, 8, 0, 8, 0, 9, 9, 9, 9, 9, 9, 9, 9};

int main(void) {
    uint64_t random = 88172645463325252u;
    for (int turn = 0; turn < TRIED; turn++) {
        uint8_t data[INPUT_MAX] = {0};
        const size_t size = sizeof seed + (size_t)turn % (sizeof data - sizeof seed);
        memcpy(data, seed, sizeof seed);
        for (int changes = turn % 40; changes--;) {
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            data[random % size] = changes % 3 ? (uint8_t)(random >> 40) : seed[(random >> 32) % sizeof seed];
        }
        LLVMFuzzerTestOneInput(data, size);
    }
    return 0;
}
