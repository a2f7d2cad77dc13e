/* base/memory/budget.h — a limit on the bytes that the process holds for clients, and a fair share
 * of it for each connection.
 *
 * A budget belongs to the process, an account to one connection. Bytes that are charged to an
 * account count in its budget too. A charge is accepted when the account then has at most
 * share / (100 - share) times the bytes that are still free: with a share of 50 percent, at most as
 * many as are free. So a single account gets `share` percent of the limit. Of n greedy accounts
 * with a share of 50 percent, each gets one part in n + 1, and one part stays free for others.
 *
 * The owner of the bytes (a request, or a blob: base/memory/blob.h) ends the charge, maybe after
 * the connection has gone: an account lives while it has users or charged bytes. Threads: any may
 * charge an account that it knows to be alive; only one adds and removes users. The counts need no
 * order with other memory, so they are relaxed.
 */
#ifndef AS_BASE_BUDGET_H
#define AS_BASE_BUDGET_H

#include "base/defs.h"

#include <stdatomic.h>

struct as_budget {
    _Atomic uint64_t used;     /* bytes */
    _Atomic uint64_t refusals; /* charges that were refused since the start */
    uint64_t limit;            /* bytes, at most 2^50 */
    uint32_t share;            /* percent of the limit that one account may hold, 1 … 100 */
};

#define AS_ACCOUNT_OPEN ((uint64_t)1 << 62) /* a flag in `charged`: the account has users */

struct as_account {
    struct as_budget *budget;
    _Atomic uint64_t charged; /* bytes, and AS_ACCOUNT_OPEN; read by as_account_charged */
    uint32_t users;
};

/* With one user. NULL: out of memory. */
struct as_account *as_account_new(struct as_budget *b);
static inline void as_account_ref(struct as_account *a)
{
    a->users++;
}
void as_account_unref(struct as_account *a); /* NULL is fine */
void as_account_free(struct as_account *a);  /* only for as_account_uncharge */

static inline uint64_t as_budget_used(const struct as_budget *b)
{
    return atomic_load_explicit(&b->used, memory_order_relaxed);
}

static inline uint64_t as_budget_free(const struct as_budget *b)
{
    uint64_t used = as_budget_used(b);

    return used < b->limit ? b->limit - used : 0;
}

/* The most bytes that can ever be charged to one account. */
static inline uint64_t as_budget_account_limit(const struct as_budget *b)
{
    return b->limit / 100 * b->share + b->limit % 100 * b->share / 100;
}

static inline uint64_t as_account_charged(const struct as_account *a)
{
    return atomic_load_explicit(&a->charged, memory_order_relaxed) & ~AS_ACCOUNT_OPEN;
}

/* May an account have `charged` bytes when `used` bytes of the budget are used, those included? */
static inline bool as_budget_allows(const struct as_budget *b, uint64_t charged, uint64_t used)
{
    return used <= b->limit && charged * (100 - b->share) <= (b->limit - used) * b->share;
}

static inline void as_account_uncharge(struct as_account *a, uint64_t n)
{
    if (!n) /* without a charge, the account may be freed already */
        return;
    atomic_fetch_sub_explicit(&a->budget->used, n, memory_order_relaxed);
    /* acquire-release: the account is freed after all other threads are done with it */
    if (atomic_fetch_sub_explicit(&a->charged, n, memory_order_acq_rel) == n)
        as_account_free(a);
}

/* Charges bytes that exist already and cannot be refused any more. */
static inline void as_account_charge(struct as_account *a, uint64_t n)
{
    atomic_fetch_add_explicit(&a->charged, n, memory_order_relaxed);
    atomic_fetch_add_explicit(&a->budget->used, n, memory_order_relaxed);
}

/* Charges n bytes instead of *charged, which cannot be refused any more. */
static inline void as_account_set(struct as_account *a, size_t *charged, size_t n)
{
    if (n > *charged)
        as_account_charge(a, n - *charged);
    else
        as_account_uncharge(a, *charged - n);
    *charged = n;
}

/* False: there is no room for n bytes now, and nothing was charged. */
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

/* Would as_account_try_charge accept n bytes now? If not, it counts as a refusal. */
static inline bool as_account_has_room(struct as_account *a, uint64_t n)
{
    struct as_budget *b = a->budget;
    uint64_t charged = as_account_charged(a), used = as_budget_used(b);

    if (__builtin_expect(as_budget_allows(b, charged + n, used + n), 1))
        return true;
    atomic_fetch_add_explicit(&b->refusals, 1, memory_order_relaxed);
    return false;
}

/* Does the account leave little to others: does it have more than half as much as is free? */
static inline bool as_account_is_greedy(const struct as_account *a)
{
    return as_account_charged(a) > as_budget_free(a->budget) / 2;
}

#endif
