/* tests/unit/support/policy_world.h — link_world.h, and policy processes that the test plays. */
#ifndef AS_TESTS_POLICY_WORLD_H
#define AS_TESTS_POLICY_WORLD_H

#include "link/fleet/policy/policy_internal.h"

#include "link_world.h"

static inline struct as_fleet_conf asking(void)
{
    struct as_fleet_conf c = usual();

    c.deployment.router = (struct as_router_conf)AS_ROUTER_CONF_DEFAULT;
    c.deployment.router.ask_timeout = 60 * AS_SEC;
    c.max_report = AS_FRAME_REPORT_MAX;
    c.max_models = 1024;
    return c;
}

/* A policy process of "app" that is ready. */
static inline struct hand *join_policy(int i, const char *token, uint32_t wants)
{
    struct as_frame_hello hello = {.lo = 1,
                                   .hi = 1,
                                   .capabilities = AS_CAP_PAGE | AS_CAP_RECALL | AS_CAP_CANCEL,
                                   .max_message = 1 << 20,
                                   .token = as_str_of(token),
                                   .deployment = AS_STR("app.policy")};
    struct as_frame_register r = model(false);
    struct hand *h = connect_hand(i);
    struct as_buf b = {0};
    uint32_t ready = w.ready;

    as_frame_put_hello(&h->out, &hello);
    send_page(h);
    r.name = AS_STR("p");
    assert_int_equal(as_frame_put_register(&h->out, &r), 0);
    expect(h, AS_FRAME_REGISTERED);
    as_frame_put_credit(&h->out, 0, &(struct as_frame_credit){.slots = 2});
    as_policy_put_ready(&b, &(struct as_policy_ready){wants});
    as_frame_put_policy(&h->out, as_buf_slice(&b));
    as_buf_fini(&b);
    UNTIL(w.ready > ready);
    return h;
}

static inline void begin_with_policy(void)
{
    begin(asking());
    as_fleet_add_process(w.fleet, AS_STR("p0"), AS_STR("default#app.policy-0"),
                         AS_STR("default#app.policy"));
    as_fleet_add_process(w.fleet, AS_STR("p1"), AS_STR("default#app.policy-1"),
                         AS_STR("default#app.policy"));
}

/* What a process has been told. */
struct told {
    uint32_t numbers[8], n; /* replicas, in the order in which they came */
    uint64_t ids[8];        /* questions */
    uint64_t before;        /* the one before the last question about its request */
    uint32_t n_ids, gone, died, routed, completed, withdrawn, routed_to;
    uint32_t bodies, body_bytes;
    char model[32], session[32]; /* of the last question */
    uint64_t bytes;              /* of records, as READ counts them */
};

static inline void take(struct told *t, const struct as_frame *f)
{
    struct as_str rest = {(const char *)f->p, f->n};
    struct as_policy_replica replica;
    struct as_policy_route route;
    struct as_policy_record r;
    struct as_policy_event e;
    struct as_policy_body body;

    t->bytes += f->n;
    while (as_policy_next(&rest, &r) > 0) {
        if (r.kind == AS_POLICY_REPLICA) {
            assert_int_equal(as_policy_get_replica(r.body, &replica), 0);
            if (t->n < AS_COUNT(t->numbers))
                t->numbers[t->n] = replica.number;
            t->n++;
            assert_int_equal(replica.max_ongoing, 2);
        } else if (r.kind == AS_POLICY_ROUTE) {
            assert_int_equal(as_policy_get_route(r.body, &route), 0);
            t->ids[t->n_ids++] = route.id;
            t->before = route.before;
            snprintf(t->model, sizeof(t->model), "%.*s", AS_STR_FMT(route.model_id));
            snprintf(t->session, sizeof(t->session), "%.*s", AS_STR_FMT(route.session_id));
        } else if (r.kind == AS_POLICY_BODY) {
            assert_int_equal(as_policy_get_body(r.body, &body), 0);
            t->bodies++;
            t->body_bytes += (uint32_t)body.bytes.n;
        } else if (r.kind != AS_POLICY_ONGOING) {
            assert_int_equal(as_policy_get_event(r.body, &e), 0);
            t->gone += r.kind == AS_POLICY_GONE;
            t->died += r.kind == AS_POLICY_GONE && e.id;
            t->routed += r.kind == AS_POLICY_ROUTED;
            t->completed += r.kind == AS_POLICY_COMPLETED;
            t->withdrawn += r.kind == AS_POLICY_WITHDRAWN;
            t->routed_to = r.kind == AS_POLICY_ROUTED ? e.number : t->routed_to;
        }
    }
}

#define UNTIL_TOLD(h, t, condition)                                                                \
    do {                                                                                           \
        while (!(condition)) {                                                                     \
            expect(h, AS_FRAME_POLICY);                                                            \
            take(t, &(h)->f);                                                                      \
        }                                                                                          \
    } while (0)

/* A replica *ret_h and a policy process *ret_p, which has been told of it and asked about the first
 * request. */
static inline void begin_with_question(struct hand **ret_h, struct hand **ret_p, struct told *t)
{
    begin_with_policy();
    *ret_h = join(0, "t0", true, &no_options);
    *ret_p = join_policy(2, "p0", 0);
    UNTIL_TOLD(*ret_p, t, t->n == 1);
    submit();
    UNTIL_TOLD(*ret_p, t, t->n_ids == 1);
}

static inline void choose(struct hand *h, uint64_t id, uint32_t number)
{
    struct as_policy_choice c = {.id = id, .n = 1, .at = {{number, 0}}};
    struct as_buf b = {0};

    as_policy_put_choice(&b, &c);
    as_frame_put_policy(&h->out, as_buf_slice(&b));
    as_buf_fini(&b);
}

static inline void decline(struct hand *h, uint64_t id, enum as_policy_reason reason)
{
    struct as_policy_choice c = {.id = id, .reason = reason};
    struct as_buf b = {0};

    as_policy_put_choice(&b, &c);
    as_frame_put_policy(&h->out, as_buf_slice(&b));
    as_buf_fini(&b);
}

/* MORE or READ. */
static inline void send_event(struct hand *h, enum as_policy_kind kind, uint64_t id)
{
    struct as_buf b = {0};

    as_policy_put_event(&b, kind, &(struct as_policy_event){id, 0});
    as_frame_put_policy(&h->out, as_buf_slice(&b));
    as_buf_fini(&b);
}

static inline struct as_fleet_deployment *app(void)
{
    return as_fleet_find_deployment(w.fleet, AS_STR("default#app"));
}

static inline uint64_t count(enum as_policy_outcome o)
{
    return app()->router_outcomes[o];
}

#endif
