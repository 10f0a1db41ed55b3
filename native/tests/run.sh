#!/bin/sh
# Builds the C core and its unit tests with the address and undefined-behaviour sanitizers and assertions, and runs them.
set -eu
cd "$(dirname "$0")/.."
out=${JOURNALFS_TEST_OUT:-out/tests}
mkdir -p "$out"
flags="-DJFS_DEBUG -std=c11 -g -O1 -Wall -Wextra -Werror -Wno-unused-parameter -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer"
objects=
for folder in include src/*/; do flags="$flags -I$folder"; done
for source in src/*/*.c; do
    object=$out/$(basename "$source" .c).o
    objects="$objects $object"
    # Headers are few and the core is small: what is newer than any of them is up to date.
    if [ -z "$(find "$object" -newer "$source" 2>/dev/null)" ] ||
        [ -n "$(find include src -name '*.h' -newer "$object")" ]; then
        ${CC:-cc} $flags -c "$source" -o "$object"
    fi
done
for test in ${*:-tests/test_*.c}; do
    name=$(basename "$test" .c)
    echo "$name"
    ${CC:-cc} $flags -Itests -Ifront "$test" $objects -lz -lm -lpthread -ldl -o "$out/$name"
    UBSAN_OPTIONS=print_stacktrace=1 "$out/$name"
done
# Two threads share the front's tables.
echo "test_front with the thread sanitizer"
${CC:-cc} -DJFS_DEBUG -std=c11 -g -O1 -Wno-unused-parameter -fsanitize=thread -Ifront -Itests tests/test_front.c -lpthread -ldl -o "$out/test_front_threads"
TSAN_OPTIONS=halt_on_error=1 "$out/test_front_threads"
