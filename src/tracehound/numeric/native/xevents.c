/* Decodes the events of an XPlane's line into columns.
 *
 * Knows the wire format of XEvent and XStat as far as writers use it; see `scanners.py` for the columns. An event with
 * anything else is marked as odd, and the caller decodes it; input that is not a sequence of events is refused.
 */

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))

/* Tags: field number and wire type. */
enum { METADATA = 0x08, OFFSET = 0x10, DURATION = 0x18, EVENT = 0x22, STAT = 0x22 };
enum { STAT_ID = 0x08, DOUBLE = 0x11, UNSIGNED = 0x18, SIGNED = 0x20, TEXT = 0x2a, BLOB = 0x32, REF = 0x38 };

/* Read the varint at `at`, before `end`; returns the position after it, NULL if there is none. */
static const uint8_t *varint(const uint8_t *at, const uint8_t *end, uint64_t *value)
{
    uint64_t sum = 0;
    for (int shift = 0; shift < 70 && at < end; shift += 7) {
        uint8_t byte = *at++;
        sum |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *value = sum;
            return at;
        }
    }
    return NULL;
}

/* The number of consecutive complete events from the start of some bytes, and the end of the last one.
 *
 * -1 if something else follows one of them, or a length is invalid. */
EXPORTED int64_t xevents_count(const uint8_t *data, int64_t size, int64_t *after)
{
    const uint8_t *at = data, *end = data + size;
    int64_t count = 0;
    while (at < end) {
        uint64_t length;
        if (*at != EVENT)
            return -1;
        const uint8_t *body = varint(at + 1, end, &length);
        if (body == NULL) {
            if (end - at > 10)
                return -1;
            break;
        }
        if (length > (uint64_t)(end - body))
            break;
        at = body + length;
        count++;
    }
    *after = at - data;
    return count;
}

/* The columns of stats: `field` and `bits` have `room` values for each code; they are unset until `seen`. */
struct stats {
    const int8_t *codes; /* by stat id below `ids`; -1 for unwanted stats */
    int64_t ids, room;
    uint8_t *field;
    uint64_t *bits;
    uint8_t *seen;
};

/* Store the value of the stat in `[at, end)`; false if it has an unusual form. */
static bool stat(const struct stats *s, const uint8_t *data, const uint8_t *at, const uint8_t *end, int64_t row)
{
    uint64_t id, bits;
    if (at == end || *at != STAT_ID || (at = varint(at + 1, end, &id)) == NULL || id >= (uint64_t)s->ids)
        return false;
    int8_t code = s->codes[id];
    if (code < 0)
        return true;
    if (at == end)
        return false;
    uint8_t tag = *at++;
    switch (tag) {
    case UNSIGNED:
    case SIGNED:
    case REF:
        at = varint(at, end, &bits);
        break;
    case TEXT:
    case BLOB:
        at = varint(at, end, &bits);
        if (at == NULL || bits != (uint64_t)(end - at))
            return false;
        bits |= (uint64_t)(at - data) << 32;
        at = end;
        break;
    case DOUBLE:
        if (end - at != 8)
            return false;
        memcpy(&bits, at, 8);
        at = end;
        break;
    default:
        return false;
    }
    if (at != end)
        return false;
    uint8_t *field = s->field + code * s->room;
    uint64_t *values = s->bits + code * s->room;
    if (!s->seen[code]) {
        memset(field, 0, (size_t)s->room * sizeof *field);
        memset(values, 0, (size_t)s->room * sizeof *values);
        s->seen[code] = true;
    }
    field[row] = tag >> 3;
    values[row] = bits;
    return true;
}

/* Decode `count` events, counted by `xevents_count`; odd ones get only their positions.
 *
 * The bits of a text are its position, with its length in the lower half. For a stat without any value `seen` and its
 * columns are left unchanged. */
EXPORTED void xevents_columns(
    const uint8_t *data, int64_t size, int64_t count,
    int64_t *head, int64_t *tail, int64_t *metadata, int64_t *start, int64_t *length, uint8_t *odd,
    const int8_t *codes, int64_t ids, uint8_t *field, uint64_t *bits, uint8_t *seen)
{
    const struct stats stats = {codes, ids, count, field, bits, seen};
    const uint8_t *at = data, *limit = data + size;
    for (int64_t row = 0; row < count; row++) {
        uint64_t value = 0, found[4] = {0};
        head[row] = at - data;
        at = varint(at + 1, limit, &value);
        const uint8_t *end = at + value;
        bool usual = true;
        while (usual && at < end) {
            uint8_t tag = *at;
            at = varint(at + 1, end, &value);
            if (at == NULL || (tag == STAT && value > (uint64_t)(end - at)))
                usual = false;
            else if (tag == METADATA || tag == OFFSET || tag == DURATION)
                found[tag >> 3] = value;
            else if (tag == STAT) {
                usual = stat(&stats, data, at, at + value, row);
                at += value;
            } else
                usual = false;
        }
        tail[row] = end - data;
        metadata[row] = (int64_t)found[1];
        start[row] = (int64_t)found[2];
        length[row] = (int64_t)found[3];
        odd[row] = !usual;
        at = end;
    }
}
