/* Loops over sorted intervals, in which each step depends on the previous one.
 *
 * See `intervals.py` and `self_time.py` for the meaning of the results. Each returns REFUSED for input that is not in
 * the order that it needs; the caller then computes the result in numpy.
 */

#include <stdint.h>
#include <stdlib.h>

#define EXPORTED __attribute__((visibility("default")))

enum { REFUSED = -1, NO_MEMORY = -2 };

/* The set covered by intervals that are sorted by start, written over them; returns its number of intervals.
 *
 * Empty and reversed intervals cover nothing. */
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

/* The union of two sets of sorted, disjoint intervals; returns its size. The output has room for both sets. */
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

/* The intersection of two sets of sorted, disjoint intervals; returns its size. The output has room for both. */
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

/* The self time of each interval: its length without the parts that direct children cover.
 *
 * Parents come before their children; all rows of one top-level interval come before the next one, sorted by start. */
EXPORTED int32_t sweep_self_time(
    const int64_t *start, const int64_t *end, const int64_t *parent, int64_t count, int64_t *own)
{
    int64_t *reach = malloc((size_t)count * sizeof *reach); /* the latest end among the children so far */
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

/* The time from which each interval is not overlapped by an earlier one that does not contain it.
 *
 * Parents come before their children. Lanes are runs of one `group`, sorted by it. */
EXPORTED int32_t sweep_exclusive_starts(
    const int64_t *start, const int64_t *end, const int64_t *parent, const int64_t *group, int64_t count,
    int64_t *begin)
{
    int64_t *reach = malloc((size_t)count * sizeof *reach); /* the latest end among the children so far */
    if (reach == NULL && count)
        return NO_MEMORY;
    int32_t state = 0;
    int64_t top = INT64_MIN;
    for (int64_t row = 0; row < count; row++) {
        int64_t around = parent[row];
        if (around >= row || (row && group[row] < group[row - 1])) {
            state = REFUSED;
            break;
        }
        if (row && group[row] != group[row - 1])
            top = INT64_MIN;
        int64_t *before = around < 0 ? &top : &reach[around];
        int64_t since = around >= 0 && begin[around] > start[row] ? begin[around] : start[row];
        begin[row] = *before > since ? *before : since;
        if (end[row] > *before)
            *before = end[row];
        reach[row] = INT64_MIN;
    }
    free(reach);
    return state;
}

/* The parts of time in which each interval is the innermost; returns their number, or REFUSED.
 *
 * They are sorted by lane and time. Lanes are runs of one `group`; without it there is one lane, or, with `apart`, each
 * top-level interval is a lane. With labels, touching parts of one label are joined, and labels below 0 are left out.
 * Parents come before their children, sorted by start, and no intervals of a lane partially overlap. The output has
 * room for twice as many parts as there are intervals. */
EXPORTED int64_t sweep_innermost(
    const int64_t *start, const int64_t *end, const int64_t *parent, int64_t count,
    const int64_t *group, int32_t apart, const int8_t *label,
    int64_t *into_start, int64_t *into_end, int64_t *owner)
{
    int64_t now = INT64_MIN, inner = -1, found = 0;
    for (int64_t row = 0; row <= count; row++) {
        int last = row == count;
        int fresh = last || row == 0 || (group ? group[row] != group[row - 1] : apart && parent[row] < 0);
        if (!fresh && end[row] <= start[row])
            continue;
        int64_t until = fresh ? INT64_MAX : start[row];
        while (inner >= 0) { /* intervals that have ended, then the one that contains this row */
            int ended = end[inner] <= until;
            int64_t stop = ended ? end[inner] : until;
            if (stop > now) {
                if (!label || label[inner] >= 0) {
                    int64_t before = found ? owner[found - 1] : -1;
                    int alike = found && (label ? label[before] == label[inner] : before == inner);
                    if (!alike || into_end[found - 1] != now) {
                        into_start[found] = now;
                        owner[found++] = inner;
                    }
                    into_end[found - 1] = stop;
                }
                now = stop;
            }
            if (!ended)
                break;
            inner = parent[inner];
        }
        if (last)
            break;
        if (fresh)
            now = INT64_MIN;
        if (end[row] <= start[row])
            continue;
        if (parent[row] != inner || start[row] < now || (inner >= 0 && end[row] > end[inner]))
            return REFUSED;
        now = start[row];
        inner = row;
    }
    return found;
}

/* 1 if the element of a sorted array is larger than this value; with groups, by group first. */
static inline int more(const int64_t *group, const int64_t *sorted, int64_t at, int64_t whose, int64_t value)
{
    return group && group[at] != whose ? group[at] > whose : sorted[at] > value;
}

/* The first index of a sorted array with a larger value, searched from `near` on. `group` may be NULL. */
static inline int64_t beyond(
    const int64_t *group, const int64_t *sorted, int64_t count, int64_t near, int64_t whose, int64_t value)
{
    int64_t low = 0, high = near; /* no element before `low` is larger, all from `high` on are */
    if (near == 0 || !more(group, sorted, near - 1, whose, value)) {
        low = near;
        for (int64_t reach = 1;; reach *= 2) {
            high = low + reach;
            if (high > count) {
                high = count;
                break;
            }
            if (more(group, sorted, high - 1, whose, value)) {
                high--;
                break;
            }
            low = high;
        }
    }
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (more(group, sorted, middle, whose, value))
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* The number of sorted instants at or before each time of `now`. */
EXPORTED void sweep_count_reached(
    const int64_t *instants, int64_t count, const int64_t *now, int64_t many, int64_t *passed)
{
    int64_t at = 0;
    for (int64_t row = 0; row < many; row++)
        passed[row] = at = beyond(NULL, instants, count, at, 0, now[row]);
}

/* The last interval that has begun at each instant, in the group beside it; -1 if none has. */
EXPORTED void sweep_latest_begun(
    const int64_t *group, const int64_t *start, int64_t count,
    const int64_t *whose, const int64_t *now, int64_t many, int64_t *latest)
{
    int64_t at = 0;
    for (int64_t row = 0; row < many; row++) {
        at = beyond(group, start, count, at, whose[row], now[row]);
        latest[row] = at > 0 && group[at - 1] == whose[row] ? at - 1 : -1;
    }
}

/* The length that sorted, disjoint intervals cover of each window; `before` has the length before each interval. */
EXPORTED void sweep_covered_lengths(
    const int64_t *start, const int64_t *end, const int64_t *before, int64_t count,
    const int64_t *low, const int64_t *high, int64_t windows, int64_t *inside)
{
    int64_t at = 0;
    for (int64_t row = 0; row < windows; row++) {
        int64_t sums[2];
        for (int side = 0; side < 2; side++) {
            int64_t until = side ? high[row] : low[row] < high[row] ? low[row] : high[row];
            at = beyond(NULL, start, count, at, 0, until);
            sums[side] = 0;
            if (at > 0) {
                int64_t stop = until < end[at - 1] ? until : end[at - 1];
                sums[side] = before[at - 1] + (stop - start[at - 1]);
            }
        }
        inside[row] = sums[1] - sums[0];
    }
}

/* Add the overlap of each interval with each of the sorted, disjoint intervals `[low, high)` to a sum.
 *
 * Its index is `place` of the former plus `further` of the latter. */
EXPORTED void sweep_add_overlaps(
    const int64_t *start, const int64_t *end, const int64_t *place, int64_t count,
    const int64_t *low, const int64_t *high, const int64_t *further, int64_t intervals, int64_t *sums)
{
    int64_t at = 0;
    for (int64_t row = 0; row < count; row++) {
        at = beyond(NULL, high, intervals, at, 0, start[row]);
        for (int64_t one = at; one < intervals && low[one] < end[row]; one++) {
            int64_t begin = start[row] > low[one] ? start[row] : low[one];
            sums[place[row] + further[one]] += (end[row] < high[one] ? end[row] : high[one]) - begin;
        }
    }
}
