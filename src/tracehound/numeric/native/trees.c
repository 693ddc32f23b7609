/* Loops over trees of rows; each row has its parent, below 0 for a root.
 *
 * Each step depends on the previous one; see `nesting.py` and `trees.py` for the meaning of the results. Each returns
 * REFUSED if a row comes before its parent; the caller then computes the result in numpy.
 */

#include <stdint.h>
#include <stdlib.h>

#define EXPORTED __attribute__((visibility("default")))

enum { REFUSED = -1, NO_MEMORY = -2 };

/* For each row the nearest chosen row at or above it; -1 if there is none. */
EXPORTED int32_t trees_nearest(const int64_t *parent, const uint8_t *chosen, int64_t count, int64_t *nearest)
{
    for (int64_t row = 0; row < count; row++) {
        if (parent[row] >= row)
            return REFUSED;
        nearest[row] = chosen[row] ? row : parent[row] < 0 ? -1 : nearest[parent[row]];
    }
    return 0;
}

/* The row's own value if it is 0 or more, else the nearest such value above it; -1 without one. */
EXPORTED int32_t trees_inherited(const int64_t *parent, const int8_t *own, int64_t count, int8_t *value)
{
    for (int64_t row = 0; row < count; row++) {
        if (parent[row] >= row)
            return REFUSED;
        value[row] = own[row] >= 0 ? own[row] : parent[row] < 0 ? -1 : value[parent[row]];
    }
    return 0;
}

/* The sum of the values of each row and all rows below it. */
EXPORTED int32_t trees_subtree_sums(const int64_t *parent, const int64_t *value, int64_t count, int64_t *sum)
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

/* Mark the chosen rows with an ancestor of the same number; numbers are below `numbers`.
 *
 * All ancestors of a chosen row are chosen, and the rows come depth first. */
EXPORTED int32_t trees_repeated(
    const int64_t *parent, const uint8_t *chosen, const int64_t *number, int64_t count, int64_t numbers, uint8_t *repeated)
{
    int64_t *open = calloc((size_t)numbers + 1, sizeof *open); /* count of each number among the ancestors of the current row */
    if (open == NULL)
        return NO_MEMORY;
    int32_t state = 0;
    int64_t above = -1;
    for (int64_t row = 0; row < count && state == 0; row++) {
        repeated[row] = 0;
        if (!chosen[row])
            continue;
        for (; above >= 0 && above != parent[row]; above = parent[above])
            open[number[above]]--;
        if (above != parent[row])
            state = REFUSED;
        repeated[row] = open[number[row]] > 0;
        open[number[row]]++;
        above = row;
    }
    free(open);
    return state;
}

/* Hash table of the nodes so far, by parent and name; -1 is a free slot. */
struct known {
    int64_t *place;
    uint64_t most; /* slots, a power of two; initially 0 */
    const int64_t *parent, *name, *root;
    int64_t *first, nodes;
};

/* The parent of a row: a node, or the inverted number of its root, which is below 0. */
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

/* Make room for one more node, so that half of the table stays free; 0 without memory. */
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

/* Group the rows by the names on their path from the root, and by the number of the root, which is 0 or more.
 *
 * `node` gets the node of each row; nodes are numbered by first appearance. `above` and `first` get the parent of each
 * node (-1: a root) and its first row. Returns the number of nodes. */
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
