/* What a policy process is told in a turn of the loop, above all of the replicas. */
#include "link/fleet/policy/policy_internal.h"

#define NOT_SAID UINT32_MAX

/* --- the records of a turn --- */

bool as_policy_is_over(const struct as_policy *p)
{
    return p->up->policy_sent + p->out.n - p->up->policy_read > AS_POLICY_WINDOW;
}

void as_policy_send_out(struct as_policy *p)
{
    if (p->out.n)
        p->up->ops->policy(p->up, as_buf_slice(&p->out));
    p->up->policy_sent += p->out.n;
    p->out.n = 0;
}

/* Makes room for a record of that size, in this frame or the next. */
struct as_buf *as_policy_room(struct as_policy *p, size_t n)
{
    if (p->out.n + n > AS_FRAME_MAX)
        as_policy_send_out(p);
    as_loop_defer(p->deploy->fleet->loop, &p->flush);
    return &p->out;
}

void as_policy_put_news(struct as_policy *p, enum as_policy_kind kind, uint64_t id, uint32_t number)
{
    as_policy_put_event(as_policy_room(p, 64), kind, &(struct as_policy_event){id, number});
}

/* --- replicas --- */

struct as_policy_known *as_policy_find_known(const struct as_policy *p, uint32_t number)
{
    uint32_t low = 0, high = p->n_known;

    while (low < high) {
        uint32_t mid = (low + high) / 2;

        if (p->known[mid].number < number)
            low = mid + 1;
        else
            high = mid;
    }
    return low < p->n_known && p->known[low].number == number ? &p->known[low] : NULL;
}

static struct as_policy_known *add_known(struct as_policy *p, struct as_upstream *u)
{
    if (p->n_known == p->cap_known) {
        p->cap_known = AS_MAX(2 * p->cap_known, 16u);
        p->known = as_xrealloc(p->known, p->cap_known * sizeof(*p->known));
    }
    u->policy_number = ++u->fleet->policy_numbers;
    p->known[p->n_known] = (struct as_policy_known){
        .number = u->policy_number, .up = u, .slots = NOT_SAID, .reports = NOT_SAID};
    return &p->known[p->n_known++];
}

void as_policy_forget_known(struct as_policy *p, struct as_policy_known *k, bool died)
{
    if (k->slots != NOT_SAID)
        as_policy_put_news(p, AS_POLICY_GONE, died, k->number);
    k->up->policy_number = 0;
    memmove(k, k + 1, (size_t)(&p->known[p->n_known] - (k + 1)) * sizeof(*k));
    p->n_known--;
}

/* All that is known of the replica, or what is new. */
static void tell_replica(struct as_policy *p, struct as_policy_known *k)
{
    struct as_upstream *u = k->up;
    struct as_policy_replica r = {.number = k->number,
                                  .max_ongoing = as_replica_slots(u->replica),
                                  .ongoing = as_replica_unanswered(u->replica),
                                  .name = as_policy_within(as_str_of(u->name), AS_POLICY_NAME)};

    if (k->reports != u->n_reports) {
        struct as_fleet_replica status = {0};

        u->ops->fill_status(u, &status);
        r.has_models = r.has_stats = true;
        r.models = as_policy_within(status.reports[AS_REPORT_MODEL_IDS], AS_POLICY_FACTS);
        r.stats = as_policy_within(status.reports[AS_REPORT_ROUTING], AS_POLICY_FACTS);
    }
    if (!r.name.n)
        r.name = AS_STR("?");
    k->ongoing = r.ongoing;
    k->slots = r.max_ongoing;
    k->reports = u->n_reports;
    as_policy_put_replica(as_policy_room(p, 1024 + r.models.n + r.stats.n), &r);
}

struct walk {
    struct as_policy *p;
    struct as_policy_count counts[AS_POLICY_COUNTS];
    uint32_t n;
};

static void put_counts(struct walk *w)
{
    if (w->n)
        as_policy_put_ongoing(as_policy_room(w->p, 64 + w->n * sizeof(w->counts[0])), w->counts,
                              w->n);
    w->n = 0;
}

static void look_at(void *arg, struct as_replica *r)
{
    struct walk *w = arg;
    struct as_upstream *u = as_upstream_of(r);
    struct as_policy_known *k =
        u->policy_number ? as_policy_find_known(w->p, u->policy_number) : NULL;

    if (u->has_ended || u->retiring || !as_replica_slots(r) || !as_replica_is_in_rotation(r, 0))
        return;
    if (!k)
        k = add_known(w->p, u);
    k->seen = true;
    if (k->reports != u->n_reports || k->slots != as_replica_slots(r)) {
        if (!as_policy_is_over(w->p)) /* else it is told at a later walk */
            tell_replica(w->p, k);
    } else if (k->ongoing != as_replica_unanswered(r)) {
        k->ongoing = as_replica_unanswered(r);
        w->counts[w->n++] = (struct as_policy_count){k->number, k->ongoing};
        if (w->n == AS_POLICY_COUNTS)
            put_counts(w);
    }
}

/* Says what is new of the replicas, once a turn. */
void as_policy_walk_replicas(struct as_policy *p)
{
    struct walk w;

    if (p->walked || !p->deploy->core)
        return;
    p->walked = true;
    w.p = p;
    w.n = 0;
    for (uint32_t i = 0; i < p->n_known; i++)
        p->known[i].seen = false;
    as_deployment_each_replica(p->deploy->core, look_at, &w);
    put_counts(&w);
    for (uint32_t i = p->n_known; i-- > 0;) {
        if (!p->known[i].seen)
            as_policy_forget_known(p, &p->known[i], false);
    }
    as_loop_defer(p->deploy->fleet->loop, &p->flush);
}
