/* How intervals nest, in one pass.
 *
 * Owns what `nesting.py` defines, and nothing else: see there for the words.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#define EXPORTED __attribute__((visibility("default")))

struct stack {
    int64_t *rows;
    int64_t count, room;
};

static bool push(struct stack *stack, int64_t row)
{
    if (stack->count == stack->room) {
        int64_t room = stack->room ? stack->room * 2 : 1 << 10;
        int64_t *rows = realloc(stack->rows, (size_t)room * sizeof *rows);
        if (rows == NULL)
            return false;
        stack->rows = rows;
        stack->room = room;
    }
    stack->rows[stack->count++] = row;
    return true;
}

static int64_t top(const struct stack *stack) { return stack->count ? stack->rows[stack->count - 1] : -1; }

/* Whether intervals are sorted by (lane, start, -end). */
EXPORTED int32_t nest_ordered(const int64_t *lane, const int64_t *start, const int64_t *end, int64_t count)
{
    for (int64_t row = 1; row < count; row++) {
        if (lane[row] != lane[row - 1]) {
            if (lane[row] < lane[row - 1])
                return 0;
        } else if (start[row] < start[row - 1] || (start[row] == start[row - 1] && end[row] > end[row - 1]))
            return 0;
    }
    return 1;
}

/* The rows of a lane on which intervals are drawn, and until when each is taken, which only grows. */
enum { ROWS = 1 << 16, BLOCK = 1 << 8 };

struct lines {
    int64_t until[ROWS];
    int64_t soonest[ROWS / BLOCK]; /* no row of the block is free before that */
    int64_t used;
};

static void cleared(struct lines *lines)
{
    for (int64_t block = 0; block * BLOCK < lines->used; block++)
        lines->soonest[block] = INT64_MIN;
    lines->used = 0;
}

/* The first row from `row` on that is free at `start`; where none is, the last of all is shared. */
static int64_t free_row(struct lines *lines, int64_t row, int64_t start)
{
    while (row < lines->used) {
        int64_t block = row / BLOCK, first = row, end = (block + 1) * BLOCK, soonest = INT64_MAX;
        if (lines->soonest[block] > start) {
            row = end;
            continue;
        }
        for (; row < end && row < lines->used; row++) {
            if (lines->until[row] <= start)
                return row;
            if (lines->until[row] < soonest)
                soonest = lines->until[row];
        }
        if (first % BLOCK == 0 && row == end)
            lines->soonest[block] = soonest;
    }
    return lines->used < ROWS ? lines->used : ROWS - 1;
}

static void taken(struct lines *lines, int64_t row, int64_t until)
{
    while (lines->used <= row)
        lines->until[lines->used++] = INT64_MIN;
    if (lines->until[row] < until)
        lines->until[row] = until;
}

/* Parent and depth of `count` intervals `[start, until)`, none of them empty, sorted by (lane, start, -until).
 *
 * The lanes begin at the rows `first`, of which there are `lanes`, in order. The leading `known_count` rows of the first
 * lane are what is still open of more, in the order in which they began, with depths that are known; their starts do
 * not matter. Gives whether any two overlap without one containing the other; -1 without memory. */
EXPORTED int32_t nest_intervals(
    const int64_t *start, const int64_t *until, int64_t count,
    const int64_t *first, int64_t lanes,
    const int64_t *known, int64_t known_count,
    int64_t *parent, int64_t *depth)
{
    struct lines *lines = calloc(1, sizeof *lines);
    struct stack around = {0}; /* what may contain the next: each ends no earlier than those above it */
    bool torn = false, good = lines != NULL;
    int64_t lane = 0;
    if (good) {
        lines->used = ROWS; /* as if all had been */
        cleared(lines);
    }
    for (int64_t row = 0; row < count && good; row++) {
        for (; lane < lanes && first[lane] <= row; lane++) {
            around.count = 0;
            cleared(lines);
        }
        while (around.count && until[top(&around)] < until[row]) {
            torn |= row >= known_count && until[top(&around)] > start[row];
            around.count--;
        }
        parent[row] = top(&around);
        depth[row] = row < known_count ? (known[row] < ROWS ? known[row] : ROWS - 1)
            : free_row(lines, parent[row] < 0 ? 0 : depth[parent[row]] + 1, start[row]);
        taken(lines, depth[row], until[row]);
        good = push(&around, row);
    }
    free(lines);
    free(around.rows);
    return good ? torn : -1;
}
