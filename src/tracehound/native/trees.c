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

/* The nodes so far, found by what is above them and their name: each has a place in a table, where -1 is a free one. */
struct known {
    int64_t *place;
    uint64_t most; /* places, a power of two; 0 at first */
    const int64_t *parent, *name, *root;
    int64_t *first, nodes;
};

/* What stands above a row: a node, or what is told of a root, which is below 0 to tell it from one. */
static int64_t what_is_above(const struct known *known, const int64_t *node, int64_t row)
{
    return known->parent[row] < 0 ? ~known->root[row] : node[known->parent[row]];
}

static uint64_t first_place(const struct known *known, int64_t above, int64_t name)
{
    uint64_t mixed = (uint64_t)above * 0x9E3779B97F4A7C15u + (uint64_t)name;
    mixed = (mixed ^ (mixed >> 29)) * 0xBF58476D1CE4E5B9u;
    return (mixed ^ (mixed >> 32)) & (known->most - 1);
}

/* Whether the table has room for one node more: half of it stays free. It knows the same nodes as before. */
static int has_room(struct known *known, const int64_t *node)
{
    if ((uint64_t)known->nodes < known->most / 2)
        return 1;
    uint64_t most = known->most ? known->most * 2 : 1024;
    int64_t *place = most > SIZE_MAX / sizeof *place ? NULL : realloc(known->place, most * sizeof *place);
    if (place == NULL)
        return 0;
    known->place = place;
    known->most = most;
    for (uint64_t at = 0; at < most; at++)
        place[at] = -1;
    for (int64_t one = 0; one < known->nodes; one++) {
        int64_t row = known->first[one];
        uint64_t at = first_place(known, what_is_above(known, node, row), known->name[row]);
        while (place[at] >= 0)
            at = (at + 1) & (most - 1);
        place[at] = one;
    }
    return 1;
}

/* Number the rows by the names on their way from the root, roots also by their number in `root`, which is not below 0.
 *
 * `node` gets the number of each row, in the order in which they come first; `above` and `first` what is above each
 * node (-1: a root) and its first row. Gives how many there are; parents come before their children. */
EXPORTED int64_t trees_paths(
    const int64_t *parent, const int64_t *name, const int64_t *root, int64_t count,
    int64_t *node, int64_t *above, int64_t *first)
{
    struct known known = {NULL, 0, parent, name, root, first, 0};
    int64_t state = 0;
    for (int64_t row = 0; row < count; row++) {
        if (parent[row] >= row || !has_room(&known, node)) {
            state = parent[row] >= row ? REFUSED : NO_MEMORY;
            break;
        }
        int64_t over = what_is_above(&known, node, row);
        uint64_t at = first_place(&known, over, name[row]);
        for (int64_t one; (one = known.place[at]) >= 0; at = (at + 1) & (known.most - 1))
            if (name[first[one]] == name[row] && what_is_above(&known, node, first[one]) == over)
                break;
        if (known.place[at] < 0) {
            known.place[at] = known.nodes;
            above[known.nodes] = parent[row] < 0 ? -1 : over;
            first[known.nodes++] = row;
        }
        node[row] = known.place[at];
    }
    free(known.place);
    return state ? state : known.nodes;
}
