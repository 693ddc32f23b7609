/* Decodes lists of JSON objects into columns, at the speed of memory.
 *
 * Knows no format: a table of fields, made by the caller, says which members are read and how.
 *
 * Recognized values are exact, others are never guessed: an object with a member of another type than its field expects
 * is marked as odd, and a list that is not valid JSON is refused. The caller then reads them in its own way.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))

#include "grammar.h"
#include "texts.h"

enum { MAX_FIELDS = 64, MAX_GROUPS = 8, MAX_PARTS = 8, MAX_NUMBERS = 16, TABLE = 256 };
enum { KEY_WORDS = 3, MAX_KNOWN = 128, FOLLOWING = 4 };
enum { TEXT_COST = 32 }; /* bytes that each text takes in addition to its own */

/* The treatment of a field's value. The numbers are those of `scanners.py`. */
enum kind {
    TAG = 0,    /* text of one character: the column of tags; 0 for any other text */
    TICKS = 1,  /* a number with at most three decimals, in thousandths: a column of numbers */
    WHOLE = 2,  /* a whole number: a column of numbers */
    PART = 3,   /* any of the types in `types`: a part, as it is spelled, of the key of a group */
    NESTED = 4, /* an object, whose members are read as well */
    ODD = 5,    /* makes its object odd */
};

/* Types of values, as bits. */
enum type { TEXT = 1, NUMBER = 2, NOTHING = 4, OTHER = 8 };

struct field {
    const uint8_t *key; /* without quotes; no character of it is escaped in JSON */
    int32_t length;
    uint8_t kind;
    uint8_t nested; /* 1 for a member of the nested object */
    uint8_t column; /* of numbers, or the group */
    uint8_t part;   /* of the group's key */
    uint8_t types;  /* that a part may have */
    uint8_t unused[7];
};

struct span {
    const uint8_t *at;
    int64_t length;
};

/* A known key, with its closing quote, and keys that followed it, the likeliest first: objects of one kind mostly have
 * the same members in the same order. */
struct known {
    uint64_t words[KEY_WORDS], masks[KEY_WORDS];
    uint8_t size;            /* with the quote */
    int8_t field;            /* -1: none */
    uint8_t next[FOLLOWING]; /* 0: not known */
};

struct scanner {
    struct field fields[MAX_FIELDS];
    int32_t field_count, group_count, number_count;
    uint8_t parts[MAX_GROUPS]; /* of the key of each group */
    bool plain[256];           /* tags of objects that the columns describe completely */
    int8_t by_key[2][TABLE];   /* field numbers by a hash of their keys; -1: none */
    uint64_t seed;

    struct known known[2][MAX_KNOWN]; /* of objects and of nested ones; the first: the beginning */
    int32_t known_count[2];

    struct texts texts[MAX_GROUPS];
    uint8_t *key; /* a key joined from its parts */
    int64_t key_room;

    /* The last list: a row for each object; each column of numbers and codes has room for `room` rows. */
    int64_t rows, room;
    uint8_t *tags;
    int64_t *numbers;
    int32_t *codes;

    /* The objects that are odd or whose tag is not plain, each with row, begin and end. */
    int64_t *others;
    int64_t other_count, other_room;
    bool beyond_ascii;
};

static const int64_t SCAN_ABSENT = INT64_MIN; /* a number that an object does not have */

/* ---- memory ---- */

/* Double the room for rows; moves all columns. */
static bool more_rows(struct scanner *s)
{
    int64_t room = s->room ? s->room * 2 : 1 << 12;
    int64_t *numbers = malloc((size_t)(room * s->number_count) * sizeof *numbers);
    int32_t *codes = malloc((size_t)(room * s->group_count) * sizeof *codes);
    bool good = numbers && codes && grow((void **)&s->tags, sizeof *s->tags, room);
    if (good) {
        for (int k = 0; s->rows && k < s->number_count; k++)
            memcpy(numbers + k * room, s->numbers + k * s->room, (size_t)s->rows * sizeof *numbers);
        for (int k = 0; s->rows && k < s->group_count; k++)
            memcpy(codes + k * room, s->codes + k * s->room, (size_t)s->rows * sizeof *codes);
        s->room = room;
    }
    free(good ? s->numbers : numbers);
    free(good ? s->codes : codes);
    if (good) {
        s->numbers = numbers;
        s->codes = codes;
    }
    return good;
}

/* ---- objects ---- */

static unsigned place_of(const uint8_t *key, int64_t length)
{
    return ((unsigned)length * 31u + key[0] * 7u + key[length - 1] * 3u + key[length / 2]) % TABLE;
}

/* The number of the field with a key, -1 for none. */
static int field_of(const struct scanner *s, bool nested, const uint8_t *key, int64_t length)
{
    if (length == 0)
        return -1;
    for (unsigned at = place_of(key, length);; at = (at + 1) % TABLE) {
        int number = s->by_key[nested][at];
        if (number < 0)
            return -1;
        const struct field *field = &s->fields[number];
        if (field->length == length && memcmp(field->key, key, (size_t)length) == 0)
            return number;
    }
}

/* The object that is being read: the fields seen, the parts of group keys, and if it is odd. */
struct object {
    struct span parts[MAX_GROUPS][MAX_PARTS];
    uint64_t seen;
    uint32_t groups;
    bool odd;
};

static unsigned type_of(uint8_t first)
{
    if (first == '"')
        return TEXT;
    if (first == '-' || is_digit(first))
        return NUMBER;
    return first == 'n' ? NOTHING : OTHER;
}

/* True if the key at `at` is this one; at least KEY_WORDS words must be readable there. */
static bool is_key(const struct known *known, const uint8_t *at)
{
    for (int k = 0; k < KEY_WORDS && 8 * k < known->size; k++) {
        uint64_t word;
        memcpy(&word, at + 8 * k, 8);
        if ((word ^ known->words[k]) & known->masks[k])
            return false;
    }
    return true;
}

/* The known key at `at` among those that followed the last one before; 0 for none. A match moves to the front. */
static int usual(struct known *known, int last, const uint8_t *at, const uint8_t *end)
{
    uint8_t *next = known[last].next;
    if (end - at < 8 * KEY_WORDS)
        return 0;
    for (int k = 0; k < FOLLOWING && next[k]; k++) {
        int number = next[k];
        if (!is_key(&known[number], at))
            continue;
        if (k) {
            next[k] = next[k - 1];
            next[k - 1] = (uint8_t)number;
        }
        return number;
    }
    return 0;
}

/* Remember that a key of ASCII without escapes follows another one; returns its number, 0 without room. */
static int learn_key(struct scanner *s, bool nested, int last, const uint8_t *key, int64_t length, int8_t field)
{
    struct known found = {.size = (uint8_t)(length + 1), .field = field}, *known = s->known[nested];
    if (length >= 8 * KEY_WORDS)
        return 0;
    memcpy(found.words, key, (size_t)length + 1);
    memset(found.masks, 0xff, (size_t)length + 1);
    int number = 1;
    while (number <= s->known_count[nested] && memcmp(known[number].words, found.words, sizeof found.words) != 0)
        number++;
    if (number == MAX_KNOWN)
        return 0;
    if (number > s->known_count[nested]) {
        known[number] = found;
        s->known_count[nested] = number;
    }
    memmove(known[last].next + 1, known[last].next, FOLLOWING - 1);
    known[last].next[0] = (uint8_t)number;
    return number;
}

/* Read the number at `at` in the form that the field expects; returns the position after it, else NULL. */
static const uint8_t *plain_number(uint8_t kind, const uint8_t *at, int64_t *found)
{
    bool negative = *at == '-';
    const uint8_t *first = at + negative;
    uint64_t sum = 0;
    for (at = first; is_digit(*at) && at - first < 18; at++)
        sum = sum * 10 + (uint64_t)(*at - '0');
    if (at == first || is_digit(*at) || (*first == '0' && at - first > 1))
        return NULL;
    if (kind == TICKS) {
        int decimals = 0;
        if (at - first > 16)
            return NULL;
        if (*at == '.') {
            for (at++; decimals < 3 && is_digit(*at); at++, decimals++)
                sum = sum * 10 + (uint64_t)(*at - '0');
            if (decimals == 0)
                return NULL;
        }
        for (; decimals < 3; decimals++)
            sum *= 10;
    }
    if (is_digit(*at) || *at == '.' || (*at | 32) == 'e' || sum >= 1ULL << 62)
        return NULL;
    *found = negative ? -(int64_t)sum : (int64_t)sum;
    return at;
}

/* Store the value of a field; numbers come here only if `plain_number` refused them. */
static void take(struct scanner *s, struct object *o, const struct field *field, const uint8_t *at, int64_t length)
{
    unsigned type = type_of(*at);
    switch (field->kind) {
    case TAG:
        s->tags[s->rows] = length == 3 ? at[1] : 0;
        o->odd |= type != TEXT;
        break;
    case PART:
        o->odd |= (type & field->types) == 0;
        if (!(o->groups >> field->column & 1))
            memset(o->parts[field->column], 0, s->parts[field->column] * sizeof(struct span));
        o->groups |= 1u << field->column;
        o->parts[field->column][field->part] = (struct span){at, length};
        break;
    default: /* a number in another form, or a field that makes its object odd */
        o->odd = true;
    }
}

static const uint8_t *members(
    struct scanner *s, struct object *o, bool nested, const uint8_t *at, const uint8_t *end);

/* Read the value of a member, of field `of` or of none (-1); returns the position after it. */
static const uint8_t *member(struct scanner *s, struct object *o, int of, const uint8_t *at, const uint8_t *end)
{
    if (of < 0)
        return value(at, end, &s->beyond_ascii);
    const struct field *field = &s->fields[of];
    const uint8_t *begin = at;
    uint64_t bit = 1ULL << of;
    o->odd |= (o->seen & bit) != 0;
    o->seen |= bit;
    if (field->kind == NESTED) {
        o->odd |= *at != '{';
        return *at == '{' ? members(s, o, true, at + 1, end) : value(at, end, &s->beyond_ascii);
    }
    if (field->kind == TICKS || field->kind == WHOLE) {
        int64_t found;
        if ((at = plain_number(field->kind, begin, &found)) != NULL) {
            s->numbers[field->column * s->room + s->rows] = found;
            return at;
        }
    }
    at = value(begin, end, &s->beyond_ascii);
    if (at)
        take(s, o, field, begin, at - begin);
    return at;
}

/* Read the members of an object, from after its brace to after the closing one. */
static const uint8_t *members(
    struct scanner *s, struct object *o, bool nested, const uint8_t *at, const uint8_t *end)
{
    int last = 0; /* known key */
    at = blanks(at);
    if (*at == '}')
        return at + 1;
    for (;;) {
        if (*at != '"')
            return NULL;
        const uint8_t *key = at + 1;
        int number = usual(s->known[nested], last, key, end), of = -1;
        if (number) {
            at = key + s->known[nested][number].size;
            of = s->known[nested][number].field;
        } else {
            bool escaped = false, beyond_ascii = false;
            at = string(at, end, &escaped, &beyond_ascii);
            if (at == NULL)
                return NULL;
            o->odd |= escaped;
            s->beyond_ascii |= beyond_ascii;
            of = field_of(s, nested, key, at - 1 - key);
            number = escaped || beyond_ascii ? 0 : learn_key(s, nested, last, key, at - 1 - key, (int8_t)of);
        }
        last = number;
        at = blanks(at);
        if (*at != ':')
            return NULL;
        at = blanks(at + 1);
        at = member(s, o, of, at, end);
        if (at == NULL)
            return NULL;
        at = blanks(at);
        if (*at == '}')
            return at < end ? at + 1 : NULL;
        if (*at != ',')
            return NULL;
        at = blanks(at + 1);
    }
}

/* The number of the key of a group: its parts, joined by a 0, which no JSON contains; -1 without memory. */
static int32_t number_of_key(struct scanner *s, int group, const struct span *parts)
{
    int64_t length = s->parts[group] - 1;
    for (int k = 0; k < s->parts[group]; k++)
        length += parts[k].length;
    if (length > s->key_room) {
        if (!grow((void **)&s->key, 1, length * 2))
            return -1;
        s->key_room = length * 2;
    }
    uint8_t *to = s->key;
    for (int k = 0; k < s->parts[group]; k++) {
        if (k)
            *to++ = 0;
        if (parts[k].length)
            memcpy(to, parts[k].at, (size_t)parts[k].length);
        to += parts[k].length;
    }
    return number_of(&s->texts[group], s->key, length, s->seed);
}

/* Store the numbers of the keys of all groups; false without memory. */
static bool number_keys(struct scanner *s, struct object *o)
{
    static const struct span nothing[MAX_PARTS];
    for (int group = 0; group < s->group_count; group++) {
        struct texts *t = &s->texts[group];
        bool some = o->groups >> group & 1;
        int32_t code = some || t->of_nothing == 0 ? number_of_key(s, group, some ? o->parts[group] : nothing) : t->of_nothing - 1;
        if (code < 0)
            return false;
        if (!some)
            t->of_nothing = code + 1;
        s->codes[group * s->room + s->rows] = code;
        o->odd |= t->odd[code] != 0;
    }
    return true;
}

static bool add_other(struct scanner *s, int64_t begin, int64_t end)
{
    if (s->other_count == s->other_room) {
        int64_t room = s->other_room ? s->other_room * 2 : 1 << 10;
        if (!grow((void **)&s->others, 3 * sizeof *s->others, room))
            return false;
        s->other_room = room;
    }
    int64_t *other = s->others + 3 * s->other_count++;
    other[0] = s->rows;
    other[1] = begin;
    other[2] = end;
    return true;
}

/* ---- exported functions ---- */

EXPORTED void scan_free(struct scanner *s)
{
    if (s == NULL)
        return;
    for (int k = 0; k < MAX_FIELDS; k++)
        free((void *)s->fields[k].key);
    for (int k = 0; k < MAX_GROUPS; k++) {
        free(s->texts[k].bytes);
        free(s->texts[k].ends);
        free(s->texts[k].slots);
        free(s->texts[k].odd);
        free((void *)s->texts[k].starts);
    }
    free(s->numbers);
    free(s->codes);
    free(s->key);
    free(s->tags);
    free(s->others);
    free(s);
}

/* A scanner for these fields, with copies of their keys; NULL for too many fields, or without memory.
 *
 * `plain` are the tags, ended by a 0, of objects that the columns describe completely. `seed` randomizes the hashes. */
EXPORTED struct scanner *scan_new(const struct field *fields, int32_t count, const char *plain, uint64_t seed)
{
    struct scanner *s = count <= MAX_FIELDS ? calloc(1, sizeof *s) : NULL;
    if (s == NULL)
        return NULL;
    s->key_room = 1 << 12;
    if (!grow((void **)&s->key, 1, s->key_room)) {
        free(s);
        return NULL;
    }
    s->seed = seed;
    memset(s->by_key, -1, sizeof s->by_key);
    for (; *plain; plain++)
        s->plain[(uint8_t)*plain] = true;
    for (int32_t k = 0; k < count; k++) {
        struct field *field = &s->fields[k];
        *field = fields[k];
        uint8_t *key = field->length > 0 ? malloc((size_t)field->length) : NULL;
        bool fits = field->column < (field->kind == PART ? MAX_GROUPS : MAX_NUMBERS) && field->part < MAX_PARTS;
        if (key)
            memcpy(key, fields[k].key, (size_t)field->length);
        field->key = key;
        s->field_count++;
        if (key == NULL || !fits) {
            scan_free(s);
            return NULL;
        }
        if (field->kind == PART) {
            s->group_count = field->column >= s->group_count ? field->column + 1 : s->group_count;
            s->parts[field->column] = field->part >= s->parts[field->column] ? field->part + 1 : s->parts[field->column];
        } else if (field->kind == TICKS || field->kind == WHOLE) {
            s->number_count = field->column >= s->number_count ? field->column + 1 : s->number_count;
        }
        unsigned at = place_of(key, field->length);
        while (s->by_key[field->nested != 0][at] >= 0)
            at = (at + 1) % TABLE;
        s->by_key[field->nested != 0][at] = (int8_t)k;
    }
    return s;
}

/* Make objects odd whose key of a group begins with one of these texts. Call it before the first list.
 *
 * Each text ends with a 0, the list of texts with another 0. False without memory. */
EXPORTED bool scan_odd_starts(struct scanner *s, int32_t group, const char *starts, int64_t length)
{
    char *copy = malloc((size_t)length);
    if (copy)
        memcpy(copy, starts, (size_t)length);
    s->texts[group].starts = copy;
    return copy != NULL;
}

/* Read the objects of a list with brackets at `text[0]` and `text[length - 1]`; returns their number.
 *
 * -1 if it is not a list of objects, or without memory. */
EXPORTED int64_t scan_list(struct scanner *s, const uint8_t *text, int64_t length)
{
    s->rows = 0;
    s->other_count = 0;
    s->beyond_ascii = false;
    if (length < 2 || text[0] != '[' || text[length - 1] != ']')
        return -1;
    const uint8_t *end = text + length - 1, *at = blanks(text + 1);
    while (at < end) {
        const uint8_t *begin = at;
        struct object o;
        o.seen = 0;
        o.groups = 0;
        o.odd = false;
        if (*at != '{' || (s->rows == s->room && !more_rows(s)))
            return -1;
        s->tags[s->rows] = 0;
        for (int k = 0; k < s->number_count; k++)
            s->numbers[k * s->room + s->rows] = SCAN_ABSENT;
        at = members(s, &o, false, at + 1, end);
        if (at == NULL || !number_keys(s, &o))
            return -1;
        if (o.odd || !s->plain[s->tags[s->rows]]) {
            if (!add_other(s, begin - text, at - text))
                return -1;
            s->tags[s->rows] = 0;
        }
        s->rows++;
        at = blanks(at);
        if (at == end)
            break;
        if (*at != ',')
            return -1;
        at = blanks(at + 1);
        if (at == end) /* a comma after the last object */
            return -1;
    }
    return s->rows;
}

/* True if the last list had bytes beyond ASCII, which are not yet checked to be UTF-8. */
EXPORTED bool scan_beyond_ascii(const struct scanner *s) { return s->beyond_ascii; }

/* The objects of the last list that the caller must read, each with row, begin and end; returns their number. */
EXPORTED int64_t scan_others(const struct scanner *s, const int64_t **others)
{
    *others = s->others;
    return s->other_count;
}

/* The columns of the last list, valid until the next one; returns the number of rows from one column to the next.
 *
 * The tag of an object among the others is 0, and its row is meaningless. */
EXPORTED int64_t scan_columns(
    const struct scanner *s, const uint8_t **tags, const int64_t **numbers, const int32_t **codes)
{
    *tags = s->tags;
    *numbers = s->numbers;
    *codes = s->codes;
    return s->room;
}

/* The texts of a group so far, with the end of each; returns their number. */
EXPORTED int32_t scan_texts(const struct scanner *s, int32_t group, const uint8_t **bytes, const int64_t **ends)
{
    *bytes = s->texts[group].bytes;
    *ends = s->texts[group].ends;
    return s->texts[group].count;
}

/* Approximate bytes of the texts of all groups. */
EXPORTED int64_t scan_key_bytes(const struct scanner *s)
{
    int64_t bytes = 0;
    for (int k = 0; k < s->group_count; k++)
        bytes += s->texts[k].used + TEXT_COST * (int64_t)s->texts[k].count;
    return bytes;
}

/* Forget the texts of all groups, and the last list. */
EXPORTED void scan_forget_keys(struct scanner *s)
{
    s->rows = 0;
    s->other_count = 0;
    for (int k = 0; k < s->group_count; k++)
        forget(&s->texts[k]);
}
