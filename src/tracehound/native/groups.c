/* Passes over rows that have numbers: which occur, and what there is of each.
 *
 * Owns loops that arrays say only by way of others as long as the rows: see `numbering.py` for what they mean. A number
 * below 0 is none. Numbers are in the range that the caller says.
 */

#include <stdint.h>

#define EXPORTED __attribute__((visibility("default")))

/* Mark the numbers that occur. */
EXPORTED void groups_occurring(const uint32_t *number, int64_t count, uint8_t *occurs)
{
    for (int64_t row = 0; row < count; row++)
        occurs[number[row]] = 1;
}

/* A row of each name and kind that occur together, at the place of the name times `kinds` and of the kind. */
EXPORTED void groups_one_of_each(
    const uint32_t *name, const uint8_t *kind, int64_t count, int64_t kinds, int64_t *one)
{
    for (int64_t row = 0; row < count; row++)
        one[name[row] * kinds + kind[row]] = row;
}

/* What is known of the name and kind of each row, at such a place. */
EXPORTED void groups_told(
    const uint32_t *name, const uint8_t *kind, int64_t count, int64_t kinds, const int8_t *known, int8_t *told)
{
    for (int64_t row = 0; row < count; row++)
        told[row] = known[name[row] * kinds + kind[row]];
}

/* The same, where a number is known of each. */
EXPORTED void groups_numbered(
    const uint32_t *name, const uint8_t *kind, int64_t count, int64_t kinds, const int64_t *known, int64_t *number)
{
    for (int64_t row = 0; row < count; row++)
        number[row] = known[name[row] * kinds + kind[row]];
}

/* The row of each wanted number, where rows have the numbers from `first` on; -1 where there is none. */
EXPORTED void groups_rows(const int64_t *wanted, int64_t count, int64_t first, int64_t rows, int64_t *row)
{
    for (int64_t at = 0; at < count; at++) {
        uint64_t place = (uint64_t)wanted[at] - (uint64_t)first;
        row[at] = place < (uint64_t)rows ? (int64_t)place : -1;
    }
}

/* Add the value of each row to the sum of its group. */
EXPORTED void groups_add(const int64_t *group, const int64_t *value, int64_t count, int64_t *sum)
{
    for (int64_t row = 0; row < count; row++)
        if (group[row] >= 0)
            sum[group[row]] += value[row];
}

/* Of each group the row with the largest value, of several the one with the largest other value, of those the first. */
EXPORTED void groups_most(
    const int64_t *group, const int64_t *value, const int64_t *other, int64_t count, int64_t *most)
{
    for (int64_t row = 0; row < count; row++) {
        if (group[row] < 0)
            continue;
        int64_t best = most[group[row]];
        if (best < 0 || value[row] > value[best] || (value[row] == value[best] && other[row] > other[best]))
            most[group[row]] = row;
    }
}

/* Give each end, a row from `starts` on, the first start of its group that is before it in `order` and not yet taken.
 *
 * `first` (-1 at the beginning) and `last` are the starts that wait in each group, which `next` leads through. */
EXPORTED void groups_earliest(
    const int64_t *group, const int64_t *order, int64_t count, int64_t starts,
    int64_t *first, int64_t *last, int64_t *next, int64_t *taken)
{
    for (int64_t at = 0; at < count; at++) {
        int64_t row = order[at], here = group[row];
        if (row >= starts) {
            taken[row - starts] = first[here];
            if (first[here] >= 0)
                first[here] = next[first[here]];
            continue;
        }
        next[row] = -1;
        if (first[here] < 0)
            first[here] = row;
        else
            next[last[here]] = row;
        last[here] = row;
    }
}
