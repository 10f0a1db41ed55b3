/*
 * Shortest decimal forms of doubles and floats.
 *
 * The digits come from printf at rising precision, until reading them back gives the same value. Correctly rounded
 * digits are the shortest possible ones except above a power of two, where the gap below is half the gap above and
 * the next digit up may be the only one of its length that reads back: that neighbour is tried as well. Everything is
 * done on bare digits, since the decimal point of printf and strtod is the locale's.
 */
#include <stdio.h>
#include <stdlib.h>

#include "sink.h"

enum { DIGITS_MAX = 17 };

typedef struct {
    char digits[DIGITS_MAX + 1]; /* without point; the first is not 0 unless the value is */
    int count;
    int exponent; /* of the first digit: d.ddd * 10^exponent */
} decimal_form;

static void form_print(decimal_form *form, double value, int precision) {
    char text[64];
    snprintf(text, sizeof text, "%.*e", precision - 1, value);
    form->count = 0;
    const char *at = text;
    for (; *at != 0 && *at != 'e'; at++)
        if (*at >= '0' && *at <= '9' && form->count < DIGITS_MAX) form->digits[form->count++] = *at;
    form->exponent = *at == 'e' ? (int)strtol(at + 1, NULL, 10) : 0;
}

static double form_value(const decimal_form *form, int is_float) {
    char text[64];
    snprintf(text, sizeof text, "%.*se%d", form->count, form->digits, form->exponent - form->count + 1);
    return is_float ? (double)strtof(text, NULL) : strtod(text, NULL);
}

static void form_next_up(decimal_form *form) {
    int at = form->count - 1;
    while (at >= 0 && form->digits[at] == '9') form->digits[at--] = '0';
    if (at >= 0) {
        form->digits[at]++;
    } else {
        form->digits[0] = '1';
        form->exponent++;
    }
}

/* `value` is finite and positive. `at_power`: its significand is a power of two. */
static void form_shortest(decimal_form *form, double value, int is_float, int first, int at_power) {
    for (int precision = first;; precision++) {
        form_print(form, value, precision);
        if (precision == DIGITS_MAX || form_value(form, is_float) == value) break;
        if (at_power) {
            form_next_up(form);
            if (form_value(form, is_float) == value) break;
        }
    }
    while (form->count > 1 && form->digits[form->count - 1] == '0') form->count--;
}

static void put_form(jfs_sink *sink, const decimal_form *form) {
    char text[48];
    size_t at = 0;
    int count = form->count, point = form->exponent + 1; /* digits before the point */
    if (form->exponent < -4 || form->exponent >= 16) {
        text[at++] = form->digits[0];
        if (count > 1) text[at++] = '.';
        for (int i = 1; i < count; i++) text[at++] = form->digits[i];
        at += (size_t)snprintf(text + at, sizeof text - at, "e%c%02d", form->exponent < 0 ? '-' : '+',
                               abs(form->exponent));
    } else if (point <= 0) {
        text[at++] = '0';
        text[at++] = '.';
        for (int i = point; i < 0; i++) text[at++] = '0';
        for (int i = 0; i < count; i++) text[at++] = form->digits[i];
    } else {
        for (int i = 0; i < point; i++) text[at++] = i < count ? form->digits[i] : '0';
        text[at++] = '.';
        if (count <= point) text[at++] = '0';
        for (int i = point; i < count; i++) text[at++] = form->digits[i];
    }
    jfs_put(sink, text, at);
}

/* Writes what is no ordinary positive number; returns 1 when a positive finite one remains to be written. */
static int put_special(jfs_sink *sink, int negative, int top_exponent, int zero_fraction, int zero_exponent) {
    if (top_exponent && !zero_fraction) {
        JFS_PUT(sink, "\"NaN\"");
    } else if (top_exponent) {
        if (negative)
            JFS_PUT(sink, "\"-Infinity\"");
        else
            JFS_PUT(sink, "\"Infinity\"");
    } else if (zero_exponent && zero_fraction) {
        if (negative)
            JFS_PUT(sink, "-0.0");
        else
            JFS_PUT(sink, "0.0");
    } else {
        if (negative) JFS_PUT(sink, "-");
        return 1;
    }
    return 0;
}

void jfs_put_double(jfs_sink *sink, uint64_t bits) {
    const uint64_t fraction = bits & 0xfffffffffffffu, exponent = (bits >> 52) & 0x7ff,
                   magnitude = bits & ~(1ull << 63);
    if (!put_special(sink, (int)(bits >> 63), exponent == 0x7ff, fraction == 0, exponent == 0)) return;
    double value;
    memcpy(&value, &magnitude, sizeof value);
    decimal_form form;
    /* 15 digits always read back, except where subnormal numbers have fewer significant ones. */
    form_shortest(&form, value, 0, exponent == 0 ? 1 : 15, fraction == 0);
    put_form(sink, &form);
}

void jfs_put_float(jfs_sink *sink, uint32_t bits) {
    const uint32_t fraction = bits & 0x7fffffu, exponent = (bits >> 23) & 0xff, magnitude = bits & ~(1u << 31);
    if (!put_special(sink, (int)(bits >> 31), exponent == 0xff, fraction == 0, exponent == 0)) return;
    float value;
    memcpy(&value, &magnitude, sizeof value);
    decimal_form form;
    form_shortest(&form, (double)value, 1, exponent == 0 ? 1 : 6, fraction == 0);
    put_form(sink, &form);
}
