/* Passes over sorted intervals.
 *
 * Owns loops whose steps depend on the ones before, which arrays cannot say: see `intervals.py` and `nesting.py` for what
 * they mean. Each refuses what is not in the order that it needs, and the caller goes its own way.
 */

#include <stdint.h>
#include <stdlib.h>

#define EXPORTED __attribute__((visibility("default")))

enum { REFUSED = -1, NO_MEMORY = -2 };

/* The set covered by intervals in the order of their starts, put where they lie: how many it has.
 *
 * Empty and reversed ones cover nothing. */
EXPORTED int64_t sweep_union(int64_t *start, int64_t *end, int64_t count)
{
    int64_t found = 0, last = INT64_MIN;
    for (int64_t row = 0; row < count; row++) {
        int64_t begin = start[row], until = end[row];
        if (until <= begin)
            continue;
        if (begin < last)
            return REFUSED;
        last = begin;
        if (found && begin <= end[found - 1]) {
            if (until > end[found - 1])
                end[found - 1] = until;
            continue;
        }
        start[found] = begin;
        end[found] = until;
        found++;
    }
    return found;
}

/* What two sets cover, each of disjoint intervals in order: how many intervals; there is room for those of both. */
EXPORTED int64_t sweep_merge(
    const int64_t *start, const int64_t *end, int64_t count,
    const int64_t *other_start, const int64_t *other_end, int64_t other_count,
    int64_t *into_start, int64_t *into_end)
{
    int64_t one = 0, other = 0, found = 0;
    while (one < count || other < other_count) {
        int mine = other == other_count || (one < count && start[one] <= other_start[other]);
        int64_t begin = mine ? start[one] : other_start[other], until = mine ? end[one++] : other_end[other++];
        if (found && begin <= into_end[found - 1]) {
            if (until > into_end[found - 1])
                into_end[found - 1] = until;
            continue;
        }
        into_start[found] = begin;
        into_end[found] = until;
        found++;
    }
    return found;
}

/* What both of two sets cover, each of disjoint intervals in order: how many pieces; there is room for those of both. */
EXPORTED int64_t sweep_intersect(
    const int64_t *start, const int64_t *end, int64_t count,
    const int64_t *other_start, const int64_t *other_end, int64_t other_count,
    int64_t *into_start, int64_t *into_end)
{
    int64_t one = 0, other = 0, found = 0;
    while (one < count && other < other_count) {
        int64_t begin = start[one] > other_start[other] ? start[one] : other_start[other];
        int64_t until = end[one] < other_end[other] ? end[one] : other_end[other];
        if (begin < until) {
            into_start[found] = begin;
            into_end[found] = until;
            found++;
        }
        if (end[one] <= other_end[other])
            one++;
        else
            other++;
    }
    return found;
}

/* For each row the nearest at or above it that is chosen, -1 where there is none; parents come before their children. */
EXPORTED int32_t sweep_nearest(const int64_t *parent, const uint8_t *chosen, int64_t count, int64_t *nearest)
{
    for (int64_t row = 0; row < count; row++) {
        if (parent[row] >= row)
            return REFUSED;
        nearest[row] = chosen[row] ? row : parent[row] < 0 ? -1 : nearest[parent[row]];
    }
    return 0;
}

/* The time of each interval that none of its direct children covers.
 *
 * Parents come before their children, and what is in an interval of the top before the next of the top, in the order of
 * starts. */
EXPORTED int32_t sweep_self_time(
    const int64_t *start, const int64_t *end, const int64_t *parent, int64_t count, int64_t *own)
{
    int64_t *reach = malloc((size_t)count * sizeof *reach); /* how far the children of each have come so far */
    if (reach == NULL && count)
        return NO_MEMORY;
    int32_t state = 0;
    int64_t top = 0;
    for (int64_t row = 0; row < count && state == 0; row++) {
        int64_t length = end[row] - start[row], around = parent[row];
        own[row] = length;
        reach[row] = INT64_MIN;
        if (around < 0) {
            top = row;
            continue;
        }
        if (around >= row || around < top || start[row] < start[row - 1]) {
            state = REFUSED;
            break;
        }
        int64_t until = reach[around] < end[row] ? reach[around] : end[row];
        own[around] -= until > start[row] ? length - (until - start[row]) : length;
        if (end[row] > reach[around])
            reach[around] = end[row];
    }
    for (int64_t row = 0; row < count && state == 0; row++)
        own[row] = own[row] < 0 ? 0 : own[row];
    free(reach);
    return state;
}
