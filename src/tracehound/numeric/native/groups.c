/* Loops over rows with numbers: groups, and values by pairs of name and kind.
 *
 * In numpy each would need temporary arrays as long as the rows; see `row_groups.py` for the meaning of the results. A
 * number below 0 means none. All numbers are in the range given by the caller.
 */

#include <stdint.h>

#define EXPORTED __attribute__((visibility("default")))

/* Mark the numbers that occur. */
EXPORTED void groups_occurring(const uint32_t *number, int64_t count, uint8_t *occurs)
{
    for (int64_t row = 0; row < count; row++)
        occurs[number[row]] = 1;
}

/* A row of each pair of name and kind that occurs, at index name * `kinds` + kind. */
EXPORTED void groups_row_of_each_pair(
    const uint32_t *name, const uint8_t *kind, int64_t count, int64_t kinds, int64_t *one)
{
    for (int64_t row = 0; row < count; row++)
        one[name[row] * kinds + kind[row]] = row;
}

/* The byte in `known` for the pair of name and kind of each row. */
EXPORTED void groups_look_up_bytes(
    const uint32_t *name, const uint8_t *kind, int64_t count, int64_t kinds, const int8_t *known, int8_t *found)
{
    for (int64_t row = 0; row < count; row++)
        found[row] = known[name[row] * kinds + kind[row]];
}

/* The number in `known` for the pair of name and kind of each row. */
EXPORTED void groups_look_up_numbers(
    const uint32_t *name, const uint8_t *kind, int64_t count, int64_t kinds, const int64_t *known, int64_t *number)
{
    for (int64_t row = 0; row < count; row++)
        number[row] = known[name[row] * kinds + kind[row]];
}

/* The row of each wanted number, if rows have consecutive numbers from `first` on; -1 for others. */
EXPORTED void groups_consecutive_rows(const int64_t *wanted, int64_t count, int64_t first, int64_t rows, int64_t *row)
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

/* The row of each group with the largest value; ties: the largest other value, then the first row. */
EXPORTED void groups_largest(
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

/* Match each end (a row from `starts` on) with the first free start of its group that precedes it in `order`.
 *
 * The free starts of each group are a linked list from `first` (initially -1) to `last` by `next`. */
EXPORTED void groups_match_starts(
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
