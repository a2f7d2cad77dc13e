#include "base/memory/budget.h"

struct as_account *as_account_new(struct as_budget *b)
{
    struct as_account *a = malloc(sizeof(*a));

    if (!a)
        return NULL;
    a->budget = b;
    atomic_init(&a->charged, AS_ACCOUNT_OPEN);
    a->users = 1;
    return a;
}

void as_account_unref(struct as_account *a)
{
    if (!a || --a->users)
        return;
    if (atomic_fetch_sub_explicit(&a->charged, AS_ACCOUNT_OPEN, memory_order_acq_rel) ==
        AS_ACCOUNT_OPEN)
        as_account_free(a);
}

void as_account_free(struct as_account *a)
{
    free(a);
}
