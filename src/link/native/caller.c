/* The table of the calls that a link has open, and the windows of their parents. */
#include "link/native/caller.h"

#include "base/memory/slab.h"
#include "link/native/link.h"

#define TABLE_FIRST 64u

void as_caller_start(struct as_link *l)
{
    const struct as_fleet_conf *conf = &l->up.fleet->conf;
    struct as_frame_credit limits = {.messages = conf->call_credit,
                                     .bytes = conf->call_credit_bytes};

    as_frame_put_credit(&l->out, 0, &limits);
}

uint32_t as_caller_open_calls(const struct as_link *l)
{
    return l->caller ? l->caller->n_calls : 0;
}

/* --- two hash tables with chains; the keys are numbers that rise by 2 --- */

static uint32_t chain_of(uint64_t key, uint32_t cap)
{
    return (uint32_t)(key >> 1) & (cap - 1);
}

struct as_caller_call *as_caller_find(const struct as_link *l, uint64_t stream)
{
    struct as_caller_call *c = NULL;

    if (l->caller && l->caller->cap_calls)
        c = l->caller->calls[chain_of(stream, l->caller->cap_calls)];
    while (c && c->number != stream)
        c = c->next;
    return c;
}

static void grow_calls(struct as_caller *k)
{
    uint32_t cap = k->cap_calls ? 2 * k->cap_calls : TABLE_FIRST;
    struct as_caller_call **to = as_xalloc(cap * sizeof(struct as_caller_call *));

    for (uint32_t i = 0; i < k->cap_calls; i++) {
        struct as_caller_call *c = k->calls[i], *next;

        for (; c; c = next) {
            next = c->next;
            c->next = to[chain_of(c->number, cap)];
            to[chain_of(c->number, cap)] = c;
        }
    }
    free(k->calls);
    k->calls = to;
    k->cap_calls = cap;
}

static void grow_windows(struct as_caller *k)
{
    uint32_t cap = k->cap_windows ? 2 * k->cap_windows : TABLE_FIRST;
    struct as_caller_window **to = as_xalloc(cap * sizeof(struct as_caller_window *));

    for (uint32_t i = 0; i < k->cap_windows; i++) {
        struct as_caller_window *w = k->windows[i], *next;

        for (; w; w = next) {
            next = w->next;
            w->next = to[chain_of(w->parent, cap)];
            to[chain_of(w->parent, cap)] = w;
        }
    }
    free(k->windows);
    k->windows = to;
    k->cap_windows = cap;
}

static struct as_caller_window *get_window(struct as_caller *k, uint64_t parent)
{
    struct as_caller_window *w =
        k->cap_windows ? k->windows[chain_of(parent, k->cap_windows)] : NULL;

    while (w && w->parent != parent)
        w = w->next;
    if (w)
        return w;
    if (k->n_windows == k->cap_windows)
        grow_windows(k);
    w = k->spare;
    if (w)
        k->spare = w->next;
    else
        w = as_xalloc(sizeof(*w));
    *w = (struct as_caller_window){.parent = parent};
    w->next = k->windows[chain_of(parent, k->cap_windows)];
    k->windows[chain_of(parent, k->cap_windows)] = w;
    k->n_windows++;
    return w;
}

static bool has_room(const struct as_caller_window *w, const struct as_fleet_conf *conf)
{
    return w->n < conf->call_credit && w->bytes < conf->call_credit_bytes;
}

bool as_caller_add(struct as_link *l, struct as_caller_call *c)
{
    struct as_caller *k = l->caller;
    struct as_caller_window *w = c->parent ? get_window(k, c->parent) : &k->none;
    struct as_caller_call **chain;

    if (!has_room(w, &l->up.fleet->conf))
        return false;
    w->n++;
    w->bytes += c->cost;
    if (k->n_calls == k->cap_calls)
        grow_calls(k);
    chain = &k->calls[chain_of(c->number, k->cap_calls)];
    c->next = *chain;
    *chain = c;
    c->link = l;
    c->window = w;
    k->n_calls++;
    return true;
}

/* Takes the window out of the table. */
static void unlink_window(struct as_caller *k, struct as_caller_window *w)
{
    struct as_caller_window **at = &k->windows[chain_of(w->parent, k->cap_windows)];

    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    k->n_windows--;
}

static void keep_spare(struct as_caller *k, struct as_caller_window *w)
{
    w->next = k->spare;
    k->spare = w;
}

static void remove_from_window(struct as_caller *k, struct as_caller_window *w, uint64_t cost)
{
    w->n--;
    w->bytes -= cost;
    if (w->ended) {
        k->none.n--;
        k->none.bytes -= cost;
    }
    if (w->n || w == &k->none)
        return;
    if (!w->ended)
        unlink_window(k, w);
    keep_spare(k, w);
}

void as_caller_change_cost(struct as_caller_call *c, uint64_t cost)
{
    c->window->bytes += cost - c->cost;
    if (c->window->ended)
        c->link->caller->none.bytes += cost - c->cost;
    c->cost = cost;
}

void as_caller_on_parent_end(struct as_link *l, uint64_t stream)
{
    struct as_caller *k = l->caller;
    struct as_caller_window *w =
        k->cap_windows ? k->windows[chain_of(stream, k->cap_windows)] : NULL;

    while (w && w->parent != stream)
        w = w->next;
    if (!w)
        return;
    unlink_window(k, w);
    w->ended = true;
    k->none.n += w->n;
    k->none.bytes += w->bytes;
}

void as_caller_detach(struct as_caller_call *c)
{
    struct as_link *l = c->link;
    struct as_caller *k = l->caller;
    struct as_caller_call **at = &k->calls[chain_of(c->number, k->cap_calls)];

    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    k->n_calls--;
    /* a reservation may end in the middle of the body that was to use its slot */
    if (c->slot == AS_CALLER_SLOT_FILLED && l->rx.reader.left && l->rx.sink_stream == c->number)
        l->rx.reader.sink = NULL;
    remove_from_window(k, c->window, c->cost);
    c->window = NULL;
    c->link = NULL;
}

void as_caller_owner_unref(struct as_caller_owner *o)
{
    if (!o || --o->refs)
        return;
    as_call_owner_fini(&o->calls);
    as_account_unref(o->requests);
    as_account_unref(o->answers);
    free(o);
}

void as_caller_charge_output(struct as_link *l)
{
    struct as_account *answers = l->caller->owner->answers;
    size_t n = l->out.bytes ? as_outq_memory(&l->out) : 0, had = l->caller->charged;

    if (!answers || n == had)
        return;
    if (n > had)
        as_account_charge(answers, n - had);
    else
        as_account_uncharge(answers, had - n);
    l->caller->charged = n;
}

void as_caller_free(struct as_caller_call *c)
{
    as_blob_unref(c->blob);
    if (c->charged)
        as_account_uncharge(c->owner->requests, c->charged);
    as_caller_owner_unref(c->owner); /* after what is charged to its accounts */
    as_arena_fini(&c->arena);
    as_slab_put(c);
}

void as_caller_end(struct as_link *l)
{
    struct as_caller *k = l->caller;

    if (!k)
        return;
    for (uint32_t i = 0; i < k->cap_calls; i++) {
        while (k->calls[i]) { /* a cancel may free others, too: start anew with the chain */
            struct as_caller_call *c = k->calls[i];

            as_caller_detach(c);
            if (c->every)
                as_caller_every_cancel(c);
            else if (c->submitted)
                as_fleet_client_cancel(&l->up.fleet->callers, &c->call);
            else
                as_caller_free(c);
        }
    }
    AS_ASSERT(!k->n_calls && !k->n_windows && !k->none.n && !k->none.bytes);
    while (k->spare) {
        struct as_caller_window *w = k->spare;

        k->spare = w->next;
        free(w);
    }
    if (k->charged)
        as_account_uncharge(k->owner->answers, k->charged);
    for (uint32_t i = 0; i < k->n_targets; i++)
        free(k->targets[i].id);
    free(k->targets);
    as_caller_owner_unref(k->owner);
    free(k->calls);
    free(k->windows);
    free(k);
    l->caller = NULL;
}
