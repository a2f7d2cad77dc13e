/* LOAD: what the controller's autoscaling needs to know of a deployment. */
#include "app/dispatcher/dispatcher_internal.h"
#include "ctl/message/load.h"

struct writer {
    struct as_buf *text;
    uint32_t slots;
};

/* The replica's number is behind the last '-' of its name. */
static void put_replica(void *arg, struct as_str replica, uint32_t requests)
{
    struct writer *w = arg;
    size_t at = replica.n;
    uint64_t number;

    while (at && replica.p[at - 1] != '-')
        at--;
    if (as_str_u64((struct as_str){replica.p + at, replica.n - at}, &number) == 0)
        as_ctl_load_put_replica((uint32_t)number, requests, w->text);
}

static void add_slots(void *arg, struct as_replica *r)
{
    ((struct writer *)arg)->slots += as_replica_slots(r);
}

static void copy_times(struct as_deployment *core, struct as_service_sample *to)
{
    const struct as_stat *s = as_deployment_stat(core);

    static_assert(AS_SERVICE_BUCKETS == AS_HIST_BUCKETS, "the same histogram");
    to->accepted = s->accepted;
    to->service_sum = s->service.sum;
    memcpy(to->service, s->service.bucket, sizeof(to->service));
    memcpy(to->latency, s->total.bucket, sizeof(to->latency));
}

static bool has_room(const struct as_dispatcher *d) /* messages that must not be lost go first */
{
    return d->outbox.wait.n <= AS_OUTBOX_LIMIT / 2;
}

static bool send_stats(void *arg, const struct as_fleet_stats *s)
{
    struct as_dispatcher *d = arg;

    static_assert(AS_FLEET_STATS_MAX <= AS_CTL_TEXT_MAX, "a message takes it");
    if (!has_room(d))
        return false;
    as_dispatcher_send(d, &(struct as_ctl_message){.type = AS_CTL_STATS,
                                                   .replica = s->replica,
                                                   .token = s->token,
                                                   .ns = s->at,
                                                   .text = s->text});
    return true;
}

bool as_dispatcher_send_load(void *ctx, const struct as_fleet_load *l)
{
    struct as_dispatcher *d = ctx;
    struct as_ctl_message m = {
        .type = AS_CTL_LOAD, .deployment = l->deployment, .number = l->queued, .id = l->ongoing};
    struct as_ctl_load load = {.has_times = l->times && l->core};
    struct as_buf text = {0};
    struct writer w = {.text = &text};

    static_assert(AS_CTL_COUNT_TIMES == (unsigned)AS_FLEET_COUNT_TIMES &&
                      AS_CTL_COUNT_STATS == (unsigned)AS_FLEET_COUNT_STATS,
                  "as COUNT says it");
    if (!has_room(d))
        return false;
    if (l->core) {
        as_deployment_each_replica(l->core, add_slots, &w);
        load.slots = w.slots;
    }
    if (load.has_times)
        copy_times(l->core, &load.times);
    as_ctl_load_put(&load, &text);
    as_fleet_each_load(d->fleet, l->deployment, put_replica, &w);
    m.text = as_buf_slice(&text);
    as_dispatcher_send(d, &m);
    as_buf_fini(&text);
    return !l->stats || as_fleet_each_stats(d->fleet, l->deployment, send_stats, d);
}
