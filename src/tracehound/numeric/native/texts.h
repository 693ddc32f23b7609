/* A hash table that numbers texts in the order of their first appearance.
 *
 * A random seed keeps crafted files from causing collisions.
 */

#ifndef TEXTS_H
#define TEXTS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Texts, each with a number, in the order of their first appearance. */
struct texts {
    uint8_t *bytes;
    int64_t used, room;
    int64_t *ends; /* end of each text in `bytes` */
    int32_t count, room_ends;
    uint64_t *slots; /* 32 bits of the hash, then the number + 1; 0: free */
    int64_t mask;
    int32_t of_nothing;  /* the number, + 1, of the key without any part; 0: not known */
    int32_t last;        /* the number returned last */
    uint8_t *odd;        /* for each number, 1 if the text begins with one of `starts` */
    const char *starts;  /* each ends with a 0, the list with another 0; NULL: none */
};

static inline bool grow(void **memory, int64_t size, int64_t count)
{
    void *more = realloc(*memory, (size_t)size * (size_t)count);
    if (more == NULL)
        return false;
    *memory = more;
    return true;
}

static inline uint64_t mixed(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t hash_of(const uint8_t *text, int64_t length, uint64_t seed)
{
    const uint64_t odd = 0x9e3779b97f4a7c15ULL;
    uint64_t hash = seed ^ (uint64_t)length * odd, word;
    for (; length >= 8; text += 8, length -= 8) {
        memcpy(&word, text, 8);
        hash = mixed(hash ^ word, odd);
    }
    word = 0;
    memcpy(&word, text, (size_t)length);
    return mixed(hash ^ word, 0xbf58476d1ce4e5b9ULL ^ seed);
}

static inline bool more_slots(struct texts *t)
{
    int64_t size = t->mask ? (t->mask + 1) * 2 : 1 << 10;
    uint64_t *slots = calloc((size_t)size, sizeof *slots);
    if (slots == NULL)
        return false;
    for (int64_t k = 0; t->slots && k <= t->mask; k++) {
        int64_t at = (int64_t)(t->slots[k] >> 32) & (size - 1);
        while (t->slots[k] && slots[at])
            at = (at + 1) & (size - 1);
        if (t->slots[k])
            slots[at] = t->slots[k];
    }
    free(t->slots);
    t->slots = slots;
    t->mask = size - 1;
    return true;
}

static inline bool begins_as_one_of(const char *starts, const uint8_t *text, int64_t length)
{
    for (size_t size; starts && (size = strlen(starts)) > 0; starts += size + 1)
        if ((int64_t)size <= length && memcmp(text, starts, size) == 0)
            return true;
    return false;
}

static inline bool is_text(const struct texts *t, int32_t number, const uint8_t *text, int64_t length)
{
    int64_t begin = number ? t->ends[number - 1] : 0;
    return t->ends[number] - begin == length && memcmp(t->bytes + begin, text, (size_t)length) == 0;
}

/* The number of a text; -1 without memory. */
static inline int32_t number_of(struct texts *t, const uint8_t *text, int64_t length, uint64_t seed)
{
    if (2 * (int64_t)t->count >= t->mask && !more_slots(t))
        return -1;
    if (t->count && is_text(t, t->last, text, length))
        return t->last;
    uint64_t hash = hash_of(text, length, seed) >> 32;
    int64_t at = (int64_t)hash & t->mask;
    for (uint64_t slot; (slot = t->slots[at]) != 0; at = (at + 1) & t->mask) {
        if (slot >> 32 != hash)
            continue;
        int32_t code = (int32_t)(uint32_t)slot - 1;
        if (is_text(t, code, text, length))
            return t->last = code;
    }
    if (t->count == INT32_MAX / 2)
        return -1;
    if (t->count == t->room_ends) {
        int32_t room = t->room_ends ? t->room_ends * 2 : 1 << 10;
        if (!grow((void **)&t->ends, sizeof *t->ends, room) || !grow((void **)&t->odd, sizeof *t->odd, room))
            return -1;
        t->room_ends = room;
    }
    if (t->bytes == NULL || t->used + length > t->room) {
        int64_t room = (t->used + length) * 2 + 4096;
        if (!grow((void **)&t->bytes, 1, room))
            return -1;
        t->room = room;
    }
    memcpy(t->bytes + t->used, text, (size_t)length);
    t->used += length;
    t->odd[t->count] = begins_as_one_of(t->starts, text, length);
    t->ends[t->count++] = t->used;
    t->slots[at] = hash << 32 | (uint32_t)t->count;
    return t->last = t->count - 1;
}

static inline void forget(struct texts *t)
{
    t->used = 0;
    t->count = 0;
    t->of_nothing = 0;
    t->last = 0;
    if (t->slots)
        memset(t->slots, 0, (size_t)(t->mask + 1) * sizeof *t->slots);
}

#endif
