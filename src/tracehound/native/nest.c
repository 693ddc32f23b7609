/* How intervals nest, in one pass with two stacks.
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

/* Parent and depth of `count` intervals `[start, until)`, none of them empty, sorted by (lane, start, -until).
 *
 * The lanes begin at the rows `first`, of which there are `lanes`, in order. The leading `known_count` rows of the first
 * lane are what is still open of more, the outermost first, with depths that are known; their starts do not matter.
 * Gives whether any two overlap without one containing the other; -1 without memory. */
EXPORTED int32_t nest_intervals(
    const int64_t *start, const int64_t *until, int64_t count,
    const int64_t *first, int64_t lanes,
    const int64_t *known, int64_t known_count,
    int64_t *parent, int64_t *depth)
{
    struct stack open = {0};   /* what may be open at the start of the next, the last begun on top */
    struct stack around = {0}; /* what may contain the next: each ends no earlier than those above it */
    bool torn = false, good = true;
    int64_t lane = 0;
    for (int64_t row = 0; row < count && good; row++) {
        for (; lane < lanes && first[lane] <= row; lane++)
            open.count = around.count = 0;
        while (row >= known_count && open.count && until[top(&open)] <= start[row])
            open.count--;
        while (around.count && until[top(&around)] < until[row])
            around.count--;
        int64_t above = top(&open);
        torn |= above >= 0 && until[above] < until[row];
        depth[row] = row < known_count ? known[row] : above < 0 ? 0 : depth[above] + 1;
        parent[row] = top(&around);
        good = push(&open, row) && push(&around, row);
    }
    free(open.rows);
    free(around.rows);
    return good ? torn : -1;
}
