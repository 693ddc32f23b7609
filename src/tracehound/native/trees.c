/* Passes over trees whose nodes are rows, of which each has the row above it, or one below 0.
 *
 * Owns loops whose steps depend on the ones before, which arrays cannot say: see `nesting.py` for what they mean. Each
 * refuses rows that do not come after the one above them, and the caller goes its own way.
 */

#include <stdint.h>
#include <stdlib.h>

#define EXPORTED __attribute__((visibility("default")))

enum { REFUSED = -1, NO_MEMORY = -2 };

/* For each row the nearest at or above it that is chosen, -1 where there is none; parents come before their children. */
EXPORTED int32_t trees_nearest(const int64_t *parent, const uint8_t *chosen, int64_t count, int64_t *nearest)
{
    for (int64_t row = 0; row < count; row++) {
        if (parent[row] >= row)
            return REFUSED;
        nearest[row] = chosen[row] ? row : parent[row] < 0 ? -1 : nearest[parent[row]];
    }
    return 0;
}

/* For each row what it says itself (0 or more), else the nearest row above it that says anything; -1 without one. */
EXPORTED int32_t trees_inherited(const int64_t *parent, const int8_t *own, int64_t count, int8_t *said)
{
    for (int64_t row = 0; row < count; row++) {
        if (parent[row] >= row)
            return REFUSED;
        said[row] = own[row] >= 0 ? own[row] : parent[row] < 0 ? -1 : said[parent[row]];
    }
    return 0;
}

/* The value of each row and of all rows below it; parents come before their children. */
EXPORTED int32_t trees_with_below(const int64_t *parent, const int64_t *value, int64_t count, int64_t *sum)
{
    for (int64_t row = 0; row < count; row++) {
        if (parent[row] >= row)
            return REFUSED;
        sum[row] = value[row];
    }
    for (int64_t row = count - 1; row >= 0; row--)
        if (parent[row] >= 0)
            sum[parent[row]] += sum[row];
    return 0;
}

/* Which of the chosen rows have one above them, by way of `parent`, with the same number, of which there are `numbers`.
 *
 * All above a chosen row are chosen, and the rows come depth first. */
EXPORTED int32_t trees_again(
    const int64_t *parent, const uint8_t *chosen, const int64_t *number, int64_t count, int64_t numbers, uint8_t *again)
{
    int64_t *open = calloc((size_t)numbers + 1, sizeof *open); /* how many of each number are above the row at hand */
    if (open == NULL)
        return NO_MEMORY;
    int32_t state = 0;
    int64_t above = -1;
    for (int64_t row = 0; row < count && state == 0; row++) {
        again[row] = 0;
        if (!chosen[row])
            continue;
        for (; above >= 0 && above != parent[row]; above = parent[above])
            open[number[above]]--;
        if (above != parent[row])
            state = REFUSED;
        again[row] = open[number[row]] > 0;
        open[number[row]]++;
        above = row;
    }
    free(open);
    return state;
}
