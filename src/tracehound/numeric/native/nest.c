/* Nesting of intervals in one pass: parents and depths, as `nesting.py` defines them. */

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

/* 1 if intervals are sorted by (lane, start, -end), else 0. */
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

/* The rows of a lane on which intervals are drawn, and the time until which each is taken, which only grows. */
enum { ROWS = 1 << 16, BLOCK = 1 << 8 };

struct lane_rows {
    int64_t until[ROWS];
    int64_t soonest[ROWS / BLOCK]; /* no row of the block is free earlier */
    int64_t used;
};

static void clear_rows(struct lane_rows *rows_taken)
{
    for (int64_t block = 0; block * BLOCK < rows_taken->used; block++)
        rows_taken->soonest[block] = INT64_MIN;
    rows_taken->used = 0;
}

/* The first row from `row` on that is free at `start`; if there is none, the last row is shared. */
static int64_t free_row(struct lane_rows *rows_taken, int64_t row, int64_t start)
{
    while (row < rows_taken->used) {
        int64_t block = row / BLOCK, first = row, end = (block + 1) * BLOCK, soonest = INT64_MAX;
        if (rows_taken->soonest[block] > start) {
            row = end;
            continue;
        }
        for (; row < end && row < rows_taken->used; row++) {
            if (rows_taken->until[row] <= start)
                return row;
            if (rows_taken->until[row] < soonest)
                soonest = rows_taken->until[row];
        }
        if (first % BLOCK == 0 && row == end)
            rows_taken->soonest[block] = soonest;
    }
    return rows_taken->used < ROWS ? rows_taken->used : ROWS - 1;
}

static void take_row(struct lane_rows *rows_taken, int64_t row, int64_t until)
{
    while (rows_taken->used <= row)
        rows_taken->until[rows_taken->used++] = INT64_MIN;
    if (rows_taken->until[row] < until)
        rows_taken->until[row] = until;
}

/* Parent and depth of `count` non-empty intervals `[start, until)`, sorted by (lane, start, -until).
 *
 * The `lanes` lanes begin at the rows `first`, in order. The leading `known_count` rows of the first lane are open
 * intervals of an earlier call, in order of their starts, with known depths; their starts are ignored. Returns 1 if any
 * two overlap without one containing the other, else 0; -1 without memory. */
EXPORTED int32_t nest_intervals(
    const int64_t *start, const int64_t *until, int64_t count,
    const int64_t *first, int64_t lanes,
    const int64_t *known, int64_t known_count,
    int64_t *parent, int64_t *depth)
{
    struct lane_rows *rows_taken = calloc(1, sizeof *rows_taken);
    struct stack around = {0}; /* intervals that may contain the next: each ends no earlier than those above it */
    bool torn = false, good = rows_taken != NULL;
    int64_t lane = 0;
    if (good) {
        rows_taken->used = ROWS; /* as if all had been */
        clear_rows(rows_taken);
    }
    for (int64_t row = 0; row < count && good; row++) {
        for (; lane < lanes && first[lane] <= row; lane++) {
            around.count = 0;
            clear_rows(rows_taken);
        }
        while (around.count && until[top(&around)] < until[row]) {
            torn |= row >= known_count && until[top(&around)] > start[row];
            around.count--;
        }
        parent[row] = top(&around);
        depth[row] = row < known_count ? (known[row] < ROWS ? known[row] : ROWS - 1)
            : free_row(rows_taken, parent[row] < 0 ? 0 : depth[parent[row]] + 1, start[row]);
        take_row(rows_taken, depth[row], until[row]);
        good = push(&around, row);
    }
    free(rows_taken);
    free(around.rows);
    return good ? torn : -1;
}
