/* Assertions: what a function's caller owes it, and what its structures keep. On in the debug build (JFS_DEBUG), which
 * the C tests, the fuzzers and `JFS_DEBUG=1 native/build_engine.py` make; a release build compiles none of them, so a
 * condition must have no effect.
 */
#ifndef JFS_ASSERT_H
#define JFS_ASSERT_H

#ifdef JFS_DEBUG
#undef NDEBUG
#include <assert.h>
#define JFS_ASSERT(condition) assert(condition)
#else
/* Not evaluated, but compiled: what only an assertion uses is no unused variable. */
#define JFS_ASSERT(condition) ((void)sizeof(!!(condition)))
#endif

/* In a whole-structure check: return the text of the condition that does not hold. */
#define JFS_HOLDS(condition)                  \
    do {                                      \
        if (!(condition)) return #condition;  \
    } while (0)

#endif
