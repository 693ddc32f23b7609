/* Passes over sorted intervals.
 *
 * Owns loops whose steps depend on the ones before, which arrays cannot say: see `intervals.py` and `own_time.py` for
 * what they mean. Each refuses what is not in the order that it needs, and the caller goes its own way.
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

/* From when each interval has its time for itself: from its start on, or when what began before it and is not around it
 * has ended.
 *
 * Parents come before their children, and lanes, which are runs of one `group`, in the order of their numbers. */
EXPORTED int32_t sweep_unshared(
    const int64_t *start, const int64_t *end, const int64_t *parent, const int64_t *group, int64_t count,
    int64_t *begin)
{
    int64_t *reach = malloc((size_t)count * sizeof *reach); /* how far the children of each have come so far */
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

/* Which interval is the innermost when: how many stretches, or REFUSED.
 *
 * They come lane by lane, in the order of time. Lanes are runs of one `group`; without it there is one lane, or, with
 * `apart`, each interval of the top is one. With a `label` for each, stretches of one label that touch are one, and a
 * label below 0 is none. Parents come before their children, in the order of starts, and no interval of a lane overlaps
 * another in part; there is room for twice as many stretches as there are intervals. */
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
        while (inner >= 0) { /* what has ended, then what goes on around this row */
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

/* Whether there is more than this value at a place of an array that is sorted, where there are groups by group first. */
static inline int more(const int64_t *group, const int64_t *sorted, int64_t at, int64_t whose, int64_t value)
{
    return group && group[at] != whose ? group[at] > whose : sorted[at] > value;
}

/* The first place of a sorted array with more than this value, sought from `near` on. `group` may be NULL. */
static inline int64_t beyond(
    const int64_t *group, const int64_t *sorted, int64_t count, int64_t near, int64_t whose, int64_t value)
{
    int64_t low = 0, high = near; /* all before `low` are no more, all from `high` on are more */
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

/* How many of the instants, which are sorted, each of the others has reached. */
EXPORTED void sweep_passed(
    const int64_t *instants, int64_t count, const int64_t *now, int64_t many, int64_t *passed)
{
    int64_t at = 0;
    for (int64_t row = 0; row < many; row++)
        passed[row] = at = beyond(NULL, instants, count, at, 0, now[row]);
}

/* The last interval of each of these groups that has begun at the instant beside it, -1 where none has. */
EXPORTED void sweep_latest(
    const int64_t *group, const int64_t *start, int64_t count,
    const int64_t *whose, const int64_t *now, int64_t many, int64_t *latest)
{
    int64_t at = 0;
    for (int64_t row = 0; row < many; row++) {
        at = beyond(group, start, count, at, whose[row], now[row]);
        latest[row] = at > 0 && group[at - 1] == whose[row] ? at - 1 : -1;
    }
}

/* How much of each window a set of disjoint intervals in order covers; `before` has how much all before each have. */
EXPORTED void sweep_covered(
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

/* Add what each stretch has in common with each of a set of disjoint intervals in order: to the sum at the place of the
 * stretch and of the interval together. */
EXPORTED void sweep_shared_time(
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
