/* base/memory/budget.h — a bound on what clients make the process hold, and the part that each of
 * them holds.
 *
 * A budget is the process's. An account is one connection's part of it: what is charged to it
 * counts in the budget, too. An account may take more while it then holds no more than as much as
 * is left free, times share / (100 - share): with 50 percent, no more than is free. So one account
 * alone gets its share of the limit, and n that take all they can leave a part of the limit to
 * those who want little: with 50 percent each of them, and the free rest, is a part in n + 1.
 *
 * Charges are given back by whoever holds the bytes (a request, or a blob: base/memory/blob.h),
 * maybe after the connection has gone: an account lives while it has users or holds anything.
 * Charging: any thread that knows it alive; users: one thread. The counts need no order with other
 * memory.
 */
#ifndef AS_BASE_MEMORY_BUDGET_H
#define AS_BASE_MEMORY_BUDGET_H

#include "base/defs.h"

#include <stdatomic.h>

struct as_budget {
    _Atomic uint64_t used;     /* bytes */
    _Atomic uint64_t refusals; /* so many times there was no room, ever */
    uint64_t limit;            /* bytes, at most 2^50 */
    uint32_t share;            /* percent of the limit that one account may hold, 1 … 100 */
};

#define AS_ACCOUNT_OPEN ((uint64_t)1 << 62) /* in `charged`: it has users */

struct as_account {
    struct as_budget *budget;
    _Atomic uint64_t charged; /* bytes; as_account_charged */
    uint32_t users;
};

/* With one user; NULL when memory is out. */
struct as_account *as_account_new(struct as_budget *b);
static inline void as_account_ref(struct as_account *a)
{
    a->users++;
}
void as_account_unref(struct as_account *a); /* NULL is fine */
void as_account_free(struct as_account *a);  /* for as_account_uncharge */

static inline uint64_t as_budget_used(const struct as_budget *b)
{
    return atomic_load_explicit(&b->used, memory_order_relaxed);
}

static inline uint64_t as_budget_free(const struct as_budget *b)
{
    uint64_t used = as_budget_used(b);

    return used < b->limit ? b->limit - used : 0;
}

/* The most that one account may ever hold. */
static inline uint64_t as_budget_account_limit(const struct as_budget *b)
{
    return b->limit / 100 * b->share + b->limit % 100 * b->share / 100;
}

static inline uint64_t as_account_charged(const struct as_account *a)
{
    return atomic_load_explicit(&a->charged, memory_order_relaxed) & ~AS_ACCOUNT_OPEN;
}

/* May an account hold so much of a budget of which so much is used then? */
static inline bool as_budget_allows(const struct as_budget *b, uint64_t charged, uint64_t used)
{
    return used <= b->limit && charged * (100 - b->share) <= (b->limit - used) * b->share;
}

static inline void as_account_uncharge(struct as_account *a, uint64_t n)
{
    if (!n) /* then it may have gone */
        return;
    atomic_fetch_sub_explicit(&a->budget->used, n, memory_order_relaxed);
    /* release: who frees it comes after all others */
    if (atomic_fetch_sub_explicit(&a->charged, n, memory_order_acq_rel) == n)
        as_account_free(a);
}

/* For what is there already and cannot be refused. */
static inline void as_account_charge(struct as_account *a, uint64_t n)
{
    atomic_fetch_add_explicit(&a->charged, n, memory_order_relaxed);
    atomic_fetch_add_explicit(&a->budget->used, n, memory_order_relaxed);
}

/* False: there is no room for n bytes now, nothing was taken. The caller keeps the account alive.
 */
static inline bool as_account_try_charge(struct as_account *a, uint64_t n)
{
    struct as_budget *b = a->budget;
    uint64_t charged = atomic_fetch_add_explicit(&a->charged, n, memory_order_relaxed) + n;
    uint64_t used = atomic_fetch_add_explicit(&b->used, n, memory_order_relaxed) + n;

    if (__builtin_expect(as_budget_allows(b, charged & ~AS_ACCOUNT_OPEN, used), 1) || !n)
        return true;
    atomic_fetch_sub_explicit(&b->used, n, memory_order_relaxed);
    atomic_fetch_sub_explicit(&a->charged, n, memory_order_relaxed);
    atomic_fetch_add_explicit(&b->refusals, 1, memory_order_relaxed);
    return false;
}

/* Would it have room for n bytes now? Counts as a refusal when it has not. */
static inline bool as_account_has_room(struct as_account *a, uint64_t n)
{
    struct as_budget *b = a->budget;
    uint64_t charged = as_account_charged(a), used = as_budget_used(b);

    if (__builtin_expect(as_budget_allows(b, charged + n, used + n), 1))
        return true;
    atomic_fetch_add_explicit(&b->refusals, 1, memory_order_relaxed);
    return false;
}

/* Is it one of those that leave little to others: does it hold more than half of what is free? */
static inline bool as_account_is_greedy(const struct as_account *a)
{
    return as_account_charged(a) > as_budget_free(a->budget) / 2;
}

#endif
