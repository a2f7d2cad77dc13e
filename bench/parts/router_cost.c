/* What a request costs in core, by policy: submitted, sent and answered, without any I/O.
 *
 *     router_cost [ROUNDS]
 *
 * Prints a row for each policy, number of replicas and load: the CPU time of a request in ns, best
 * of five. `half`: half of the slots are taken, so that a replica is chosen. `full`: 1,000 requests
 * wait, so that the replica that answers takes the next. Sessions and models are drawn from 4 keys
 * for each replica; a replica holds 8 models. */
#include "core/dispatch/deployment.h"

#include <stdio.h>
#include <time.h>

#define REPLICAS_MAX 1000u
#define SLOTS        4u
#define WAITING      1000u
#define REQUESTS     (REPLICAS_MAX * SLOTS + WAITING)

static struct as_request requests[REQUESTS];
static uint32_t sent[REQUESTS], n_sent; /* in the order in which they were sent, as a ring */
static uint32_t first_sent;
static uint64_t stream;
static struct as_rand rand_of_bench = {1};

static void op_send(void *ctx AS_UNUSED, struct as_replica *r AS_UNUSED, struct as_request *q)
{
    q->stream = stream += 2;
    sent[(first_sent + n_sent++) % REQUESTS] = (uint32_t)(q - requests);
}

static void op_nothing(void *ctx AS_UNUSED, struct as_request *q AS_UNUSED)
{
}
static void op_answer(void *ctx AS_UNUSED, struct as_request *q AS_UNUSED, int err AS_UNUSED)
{
}
static void op_wake(void *ctx AS_UNUSED, as_ns when AS_UNUSED)
{
}

static const struct as_deployment_ops ops = {
    .send = op_send, .answer = op_answer, .release = op_nothing, .wake = op_wake};

static uint64_t cpu_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * AS_SEC + (uint64_t)t.tv_nsec;
}

static void submit(struct as_deployment *d, struct as_request *q, uint32_t replicas, bool models,
                   as_ns now)
{
    uint64_t key = (1 + as_rand_below(&rand_of_bench, 4 * replicas)) * 0x9e3779b97f4a7c15u;

    as_request_init(q);
    if (models)
        q->model_key = key;
    else
        q->session_key = key;
    AS_ASSERT(!as_deployment_submit(d, q, now));
}

static struct as_deployment *begin(enum as_router policy, uint32_t replicas, bool models)
{
    struct as_deployment_conf conf = {.max_queued = -1, .router = AS_ROUTER_CONF_DEFAULT};
    struct as_deployment *d;
    struct as_replica *r;
    uint64_t held[8];

    conf.router.policy = policy;
    conf.router.bound = 1000;
    AS_ASSERT(!as_deployment_new(&d, AS_STR("bench"), &conf, &ops, NULL));
    for (uint32_t i = 0; i < replicas; i++) {
        AS_ASSERT(!as_replica_new(&r, d, NULL));
        as_replica_grant(r, SLOTS, 0, 1);
        for (uint32_t m = 0; m < AS_COUNT(held); m++)
            held[m] = (1 + (i * 4 + m) % (4 * replicas)) * 0x9e3779b97f4a7c15u;
        if (models)
            as_replica_set_held(r, held, AS_COUNT(held), 1);
    }
    return d;
}

/* The CPU time of one request, in ns. */
static double measure(enum as_router policy, uint32_t replicas, bool models, bool full,
                      uint32_t rounds)
{
    struct as_deployment *d = begin(policy, replicas, models);
    uint32_t n = full ? replicas * SLOTS + WAITING : replicas * SLOTS / 2;
    as_ns now = AS_SEC;
    uint64_t start;

    n_sent = first_sent = 0;
    for (uint32_t i = 0; i < n; i++)
        submit(d, &requests[i], replicas, models, now += 1000);
    start = cpu_ns();
    for (uint32_t i = 0; i < rounds; i++) {
        struct as_request *q = &requests[sent[first_sent]];

        first_sent = (first_sent + 1) % REQUESTS;
        n_sent--;
        as_replica_done(q->replica, q, 10 * AS_US, false, now += 1000);
        submit(d, q, replicas, models, now);
    }
    start = cpu_ns() - start;
    as_deployment_free(d);
    return (double)start / rounds;
}

static double best(enum as_router policy, uint32_t replicas, bool models, bool full,
                   uint32_t rounds)
{
    double least = 1e18;

    for (uint32_t i = 0; i < 5; i++) {
        double ns = measure(policy, replicas, models, full, rounds);

        least = ns < least ? ns : least;
    }
    return least;
}

int main(int argc, char **argv)
{
    uint32_t rounds = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 300000;
    static const uint32_t sizes[] = {8, REPLICAS_MAX};

    printf("%-18s %8s %8s %8s\n", "policy", "replicas", "half", "full");
    for (uint32_t p = 0; p <= AS_ROUTERS; p++) {
        bool models = p == AS_ROUTERS;

        for (uint32_t i = 0; i < AS_COUNT(sizes); i++) {
            enum as_router policy = models ? AS_ROUTER_LATE_BINDING : (enum as_router)p;

            printf("%-18s %8u %8.0f %8.0f\n", models ? "models" : as_router_name(policy), sizes[i],
                   best(policy, sizes[i], models, false, rounds),
                   best(policy, sizes[i], models, true, rounds));
        }
    }
    return 0;
}
