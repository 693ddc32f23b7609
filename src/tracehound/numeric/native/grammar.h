/* The grammar of JSON, as strict as RFC 8259; halves of surrogate pairs are refused, too.
 *
 * Each function takes the position at which something should begin and returns the position after it, or NULL if it
 * is not there. The list ends with its closing bracket, so blanks, numbers and words always end before the end; only
 * strings need to check for it.
 */

#ifndef GRAMMAR_H
#define GRAMMAR_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

enum { MAX_DEPTH = 64 };

static inline const uint8_t *blanks(const uint8_t *at)
{
    while (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t')
        at++;
    return at;
}

static inline bool is_hex(uint8_t c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

/* An escape, whose backslash is at `at`. Surrogates of UTF-16 are refused, also complete pairs. */
static inline const uint8_t *escape(const uint8_t *at, const uint8_t *end)
{
    if (end - at < 2)
        return NULL;
    if (at[1] != 'u')
        return memchr("\"\\/bfnrt", at[1], 8) ? at + 2 : NULL;
    if (end - at < 6 || !(is_hex(at[2]) && is_hex(at[3]) && is_hex(at[4]) && is_hex(at[5])))
        return NULL;
    bool half = (at[2] | 32) == 'd' && at[3] >= '8';
    return half ? NULL : at + 6;
}

/* A string from its opening quote on. */
static inline const uint8_t *string(const uint8_t *at, const uint8_t *end, bool *escaped, bool *beyond_ascii)
{
    at++;
    for (;;) {
#if defined(__SSE2__)
        while (end - at >= 16) {
            __m128i bytes = _mm_loadu_si128((const __m128i *)at);
            __m128i quote = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('"'));
            __m128i back = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\'));
            __m128i low = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1f)), bytes);
            int stop = _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(quote, back), low));
            int high = _mm_movemask_epi8(bytes);
            if (stop) {
                int first = __builtin_ctz((unsigned)stop);
                *beyond_ascii |= (high & ((1 << first) - 1)) != 0;
                at += first;
                break;
            }
            *beyond_ascii |= high != 0;
            at += 16;
        }
#endif
        while (at < end && *at != '"' && *at != '\\' && *at >= 0x20)
            *beyond_ascii |= *at++ >= 0x80;
        if (at >= end || *at < 0x20)
            return NULL;
        if (*at == '"')
            return at + 1;
        *escaped = true;
        at = escape(at, end);
        if (at == NULL)
            return NULL;
    }
}

static inline bool is_digit(uint8_t c) { return c >= '0' && c <= '9'; }

static inline const uint8_t *digits(const uint8_t *at)
{
    if (!is_digit(*at))
        return NULL;
    while (is_digit(*at))
        at++;
    return at;
}

static inline const uint8_t *number(const uint8_t *at)
{
    at += *at == '-';
    at = *at == '0' ? at + 1 : digits(at);
    if (at && *at == '.')
        at = digits(at + 1);
    if (at && (*at | 32) == 'e') {
        at++;
        at = digits(at + (*at == '+' || *at == '-'));
    }
    return at;
}

static inline const uint8_t *word(const uint8_t *at, const uint8_t *end)
{
    static const char *const words[] = {"true", "false", "null"};
    for (int k = 0; k < 3; k++) {
        int64_t length = (int64_t)strlen(words[k]);
        if (end - at >= length && memcmp(at, words[k], (size_t)length) == 0)
            return at + length;
    }
    return NULL;
}

static inline const uint8_t *scalar(const uint8_t *at, const uint8_t *end, bool *beyond_ascii)
{
    bool escaped = false;
    if (*at == '"')
        return string(at, end, &escaped, beyond_ascii);
    return *at == '-' || is_digit(*at) ? number(at) : word(at, end);
}

/* Any value, nested up to MAX_DEPTH. */
static inline const uint8_t *value(const uint8_t *at, const uint8_t *end, bool *beyond_ascii)
{
    uint64_t objects = 0; /* a bit for each open bracket, the innermost lowest: 1 for braces */
    int depth = 0;
    bool escaped = false;
    for (;;) {
        if (*at == '[' || *at == '{') {
            if (++depth > MAX_DEPTH)
                return NULL;
            objects = objects << 1 | (*at == '{');
            at = blanks(at + 1);
            if (*at != (objects & 1 ? '}' : ']'))
                goto member;
        } else {
            at = scalar(at, end, beyond_ascii);
            if (at == NULL || depth == 0)
                return at;
        }
        for (;;) { /* after a value, or before the closing bracket of an empty one */
            at = blanks(at);
            if (*at == ',') {
                at = blanks(at + 1);
                break;
            }
            if (at >= end || *at != (objects & 1 ? '}' : ']'))
                return NULL;
            at++;
            objects >>= 1;
            if (--depth == 0)
                return at;
        }
    member:
        if (objects & 1) {
            if (*at != '"' || (at = string(at, end, &escaped, beyond_ascii)) == NULL)
                return NULL;
            at = blanks(at);
            if (*at != ':')
                return NULL;
            at = blanks(at + 1);
        }
    }
}

#endif
