/* tests/sim/sim.h — a simulation in which core/dispatch/deployment serves simulated clients and
 * workers.
 *
 * Time is virtual, events are in one heap, and everything random comes from one seed, so that the
 * same seed gives the same run. world.c handles events and plays the dispatcher's side of the links
 * (src/link in the server). worker.c plays the workers. scenario.c draws the options, workers and
 * clients. oracle.c has a model of its own of what core must do, and compares core with it after
 * every event; order.c has the part of it that says which call goes first; capacity.c computes from
 * that model what a worker could take. harm.c lets requests crash, hang or sicken their workers,
 * death.c reports deaths to core, and judge.c checks what follows: who is a suspect, who is
 * refused, whose turn it is, which replicas are ejected. reservation.c has the clients that reserve
 * a slot first; hedge.c plays the second executions of calls, each of which is a struct call of its
 * own. preference.c plays the router of the user's own, and choice.c checks which replica a call
 * goes to, and how long it waits for certain ones: models, sessions, the router's choice.
 */
#ifndef AS_SIM_H
#define AS_SIM_H

#include "base/err.h"
#include "base/container/event_heap.h"
#include "core/dispatch/deployment.h"
#include "seeds.h"

#define DRAWN_MAX    400u /* calls of clients … */
#define CALLS_MAX    800u /* … and their hedges */
#define WORKERS_MAX  96u  /* worker processes in one run */
#define MODELS_MAX   4u
#define NOBODY       UINT32_MAX
#define KEYS_MAX     24u /* of multiplexed models */
#define SESSIONS_MAX 64u

/* Where a call is by the oracle's model. FREE: not submitted yet, or released. */
enum call_state { FREE, WAITING, BOUND, PARKED, RETAINED };

/* What its execution does to the worker. CRASH: the worker dies. HANG: the call never ends, and the
 * worker is killed as unhealthy. SICKEN: the same, but the call is not answered before. */
enum harm { HARMLESS, CRASH, HANG, SICKEN };

#define POISONS_MAX 3u

struct poison {
    enum harm harm;
    /* from its start to the death, or to the moment when the worker is found unhealthy */
    as_ns fuse;
    bool blocks;    /* nothing else in that worker goes on meanwhile */
    uint32_t works; /* per mille of its executions that do harm */
    /* the judge's model */
    uint32_t deaths_reported; /* deaths at which it was executing and that were reported to core */
    bool proved;              /* at one of them it was alone, in quarantine */
    bool known;               /* core has handled the first of them … */
    as_ns known_at;           /* … at this time */
    uint32_t after;           /* workers that it has ended since then */
};

struct call {
    struct as_request q;
    enum call_state state;
    uint32_t live_at; /* in sim.live */
    uint32_t worker;  /* BOUND: number of its worker */
    bool accepted, answered, released;
    bool cancelled;   /* the client has left */
    bool cancel_sent; /* its worker was sent a CANCEL */
    bool recalled, kept_by_worker;
    bool beyond;        /* BOUND: it takes no slot */
    bool reserves;      /* it reserves a slot first */
    bool held;          /* BOUND: it has a slot, and was not sent */
    as_ns held_at;      /* … since then … */
    as_ns own_deadline; /* … and this is its deadline afterwards */
    bool is_used;       /* core is told to send it */
    bool doomed;        /* its worker has died, and it must be answered with AS_EMAYHAVERUN */
    uint64_t stream;
    uint64_t batch;    /* BOUND: number of its batch; 0: it is alone */
    uint64_t order;    /* order of acceptance … */
    as_ns root;        /* … which counts among calls with the same root */
    as_ns release;     /* with batching: it may wait for others until then */
    as_ns accepted_at; /* when it was accepted */
    as_ns placed_at;   /* WAITING: when it began to wait, the last time */
    bool asked;        /* core waits for the answer of the user's router … */
    as_ns asked_at;    /* … since then; or has its choice since then … */
    uint32_t n_chosen; /* … which is these workers */
    uint32_t chosen[AS_PREFERENCE_LINKS];
    uint64_t unasked_in; /* core took the question back in this event */
    as_ns decided_at;    /* the router had no choice or was late, and the policy decided then; 0 */
    bool is_keyed;       /* BOUND: it counts in worker.of_key */
    /* WAITING: since before models counted or the router changed, so that the rules of then hold */
    bool is_old;
    /* WAITING: there was a slot for it after every event since it was accepted */
    bool always_had_slot;
    uint32_t sends, runs, retries;
    as_ns parked_until;      /* PARKED: when it goes on without a verdict … */
    uint64_t verdict_number; /* … whose number is this */
    /* harm */
    uint32_t fingerprint; /* requests with the same one look the same to core */
    uint32_t poison;      /* 0: harmless; else number of the poison, from 1 */
    as_ns sent_at, suspected;
    bool was_queued;    /* it was in the queue after some event … */
    bool paid;          /* … and was sent from there, so its tenant has paid */
    bool suspect;       /* it waits as a suspect … */
    bool was_suspect;   /* … or has done so */
    uint32_t free_runs; /* executions that a kill from outside ended */
    uint32_t losses;    /* lost executions that count: it had started, as far as core can know */
    bool ran_there;     /* it ran in the worker that has died */
    /* hedging */
    bool is_hedge;
    struct call *twin;   /* BOUND: its hedge, or whose hedge it is, while a client waits for both */
    struct call *second; /* its hedge, also later */
};

enum message_type { M_OPEN, M_CANCEL, M_RECALL, M_GRANT, M_DONE, M_RETURNED, M_DRAIN, M_DEATH };

struct message {
    struct message *next;
    as_ns due;
    enum message_type type;
    uint64_t stream;
    uint32_t call;
    as_ns service;
    bool flag;   /* DONE: retry; DRAIN: on */
    bool failed; /* DONE: counts as a failure of the replica */
    bool lost;   /* DONE: its connection broke, there is no answer */
    uint32_t slots, prefetch;
    bool beyond;    /* OPEN: starts beyond the slots */
    uint64_t first; /* OPEN of a batch: its streams are first, first + 2 … */
    uint32_t size;  /* number of these streams */
    uint32_t n;
    uint64_t ids[]; /* RECALL, RETURNED */
};

/* One direction of a link: messages arrive in order, each with a delay. */
struct pipe {
    struct message *head, *tail;
    as_ns last; /* when the newest message arrives */
};

enum stream_state { S_WAITING, S_RUNNING, S_ENDED };

struct stream {
    uint32_t call, model;
    enum stream_state state;
    bool beyond, ran; /* ran: false if it ended without a start, as one that is given back */
    as_ns started, finish_at;
    uint64_t first; /* first stream of its batch; itself if it is alone */
    uint32_t size;
    uint32_t live; /* only in the first of a batch: members that run */
};

/* How a worker behaves; drawn by the scenario. */
struct habits {
    uint32_t slots, prefetch;
    as_ns service_lo, service_hi, start_delay;
    uint32_t delay;       /* longest delay of its link, ns */
    uint32_t refuse;      /* per mille of OPENs answered "not started, retry" */
    uint32_t silent;      /* per mille of answers without a service time */
    uint32_t stubborn;    /* per mille of recalled streams that it keeps */
    uint32_t cancel_stop; /* per mille of CANCELs that end the stream early */
    uint32_t fails;       /* per mille of answers that are failures */
    uint32_t loses;       /* per mille of answers that are lost on the way */
    bool eager; /* starts streams without regard to its slots: only core enforces the limit */
};

struct worker {
    uint32_t number;
    bool alive;      /* the process */
    bool registered; /* core has its replica */
    struct habits habits;
    /* process */
    uint32_t slots, running;       /* calls */
    uint32_t of_model[MODELS_MAX]; /* running calls */
    struct stream *streams;        /* of stream id 2i+1 */
    uint32_t n_streams, cap_streams;
    uint64_t *queue; /* waiting stream ids, oldest first */
    uint32_t n_queue, cap_queue;
    uint64_t last_started;
    bool start_due;
    bool stalled, crashed, unhealthy;
    uint32_t culprit;    /* the call that caused its death */
    uint64_t suspect_to; /* unhealthy: streams up to this had started */
    /* link */
    struct pipe to_worker, to_core;
    struct as_replica *replica;
    uint64_t next_stream;
    uint64_t batch_first; /* core announced a batch … */
    uint32_t batch_size, batch_left;
    uint64_t batch;
    /* oracle: what core knows of it */
    uint32_t granted, prefetch, most_granted;
    bool draining, recalling;
    bool warms;             /* slow start … */
    bool may_warm;          /* … unless core has ended it: it had no slots, or a timer is late */
    as_ns ready_at;         /* … since it had slots first */
    bool lacks[MODELS_MAX]; /* models that it does not serve */
    bool reports[KEYS_MAX]; /* multiplexed models that it holds, as it has said */
    uint32_t of_key[KEYS_MAX]; /* unanswered calls for these */
    bool was_out;              /* some time it was not there, drained or was ejected … */
    as_ns out_at;              /* … and this was the last time; choice.c */
    uint32_t recalled;
    uint32_t *bound; /* calls in stream order */
    uint32_t n_bound, cap_bound;
    /* judge: its breaker, after the last event */
    enum as_breaker_state breaker, breaker_before; /* breaker_before: after the event before */
    as_ns opened;
    uint64_t last_answer;  /* stream of its last answer */
    uint32_t streak, good; /* failures in a row, and good answers */
    bool ejected_now;      /* it was ejected in this event */
    /* and its death */
    bool alone;                     /* no other call was there together with the suspect */
    bool ran_alone;                 /* only the suspect was executing */
    uint32_t evidence[POISONS_MAX]; /* number of executing calls by poison */
};

enum event_type {
    E_SUBMIT,
    E_CANCEL,
    E_EXPIRE,
    E_TO_WORKER,
    E_TO_CORE,
    E_START,
    E_FINISH,
    E_KILL,
    E_SPAWN,
    E_GRANT,
    E_DRAIN,
    E_DOWN,
    E_MODEL,
    E_HELD,
    E_ROUTED,
    E_ROUTER,
    E_VERDICT,
    E_WORK,
    E_USE,
    E_CRASH,
    E_UNHEALTHY,
    E_CLOSE
};

struct event {
    struct as_event_due due;
    enum event_type type;
    uint32_t n;   /* call or worker */
    uint64_t arg; /* stream, or on/off */
};

struct expected_stats { /* what core's statistics must be */
    uint64_t accepted, refused, dispatched, completed, failed, expired, cancelled, replayed,
        recalled, lost, deaths, batches, members, mirrored, mirror_dropped, beyond, shed, warmed,
        reserved, used, hedges, hedges_won;
    /* only in scenarios with harm */
    uint64_t trials, quarantined, crashes, unhealthy, refused_suspects, ejected, probed, closed;
};

struct scenario {
    uint32_t n_calls, n_workers, n_models;
    uint32_t cap[MODELS_MAX]; /* 0: none */
    struct as_batch_conf batch[MODELS_MAX];
    bool batched; /* some model has batching */
    int64_t max_queued;
    as_ns prefetch_work;
    as_ns timer_late; /* the deadline timer fires late by at most this */
    struct as_router_conf router;
    struct as_codel_conf codel;
    as_ns slow_start;
    bool adaptive;
    struct as_hedging_conf hedging;
    uint32_t n_tenants; /* 0: no fairness */
    enum as_fair_cost cost;
    uint32_t most_cost;     /* of one call */
    bool one_queue;         /* no lanes */
    uint32_t share;         /* of so many calls one is of a lower priority */
    uint32_t page_lost;     /* per mille of deaths at which the worker's status page is lost */
    uint32_t cause_pending; /* per mille of deaths whose cause is reported later, or never */
    as_ns verdict_wait, repeat_verdict_wait;
    uint32_t model_keys, session_keys; /* numbers of different ones; 0: none */
    uint32_t answers; /* per mille of questions to the user's router that it answers at once … */
    uint32_t silent_router; /* … and that it never answers */
    uint32_t lacking;       /* per mille of models that a new worker does not serve */
    bool stop_early;        /* the deployment is freed while it has requests */
    as_ns reserve_time;

    bool harmful; /* the following fields count */
    /* no report is lost or late: a poison ends at most two workers, and those that run it already
     */
    bool strict;
    bool simple; /* one queue, first come first served */
    bool late;   /* some calls have deadlines, and a missed one may count as a replica's failure */
    bool large;  /* bodies take several turns to be read */
    bool alike;  /* all samples are the same */
    uint32_t n_poisons, reported; /* reported: per mille of causes that are reported at all */
    struct poison poison[POISONS_MAX];
    uint32_t failing; /* per mille of workers that fail more than others */
    struct as_blame_conf blame;
    struct as_quarantine_conf quarantine;
    struct as_breaker_conf breaker;
    struct as_outlier_conf outlier;
    uint32_t attempts;
};

struct turns {
    uint32_t sure, possible;
};

#define TENANTS_MAX 6u

struct loader { /* of a multiplexed model */
    uint32_t worker;
    bool runs, by_rule; /* by_rule: its call was one for which the rule of one loader holds */
};

struct session {
    uint64_t key;
    uint32_t worker; /* NOBODY: it has died */
    as_ns used;
};

struct sim {
    uint64_t seed;
    bool verbose, failed, closing, down, freeing;
    struct as_rand rand;
    as_ns now, end, expire_at, timer_for;
    /* the earliest time that core asked for; as_deployment_expire must be called by then */
    as_ns next_wake;
    uint64_t steps, last_order, last_batch;
    struct as_event_heap heap;
    struct scenario scenario;
    struct as_deployment *d;
    struct call calls[CALLS_MAX];
    uint32_t live[CALLS_MAX], n_live; /* accepted, not released */
    struct worker *workers[WORKERS_MAX];
    uint32_t n_workers;
    struct expected_stats expected;
    const struct call *submitting;   /* … and core may still refuse it … */
    bool hedged_before;              /* … and another one was hedged before it had a place */
    bool multiplexed;                /* some worker has reported models */
    struct loader loaders[KEYS_MAX]; /* choice.c, also the next ones */
    struct session sessions[SESSIONS_MAX];
    uint32_t n_sessions;
    bool reserves;                     /* some call has reserved a slot */
    bool works;                        /* core asked for the next turn */
    struct turns turns[AS_PRIORITIES]; /* order.c */
    /* by priority: what one tenant was served more than another since both wait; order.c */
    uint32_t lead[AS_PRIORITIES][TENANTS_MAX][TENANTS_MAX];
    bool replaces;                     /* the calls of a dead worker are being sent again */
    uint32_t turns_owed;               /* calls that must go before the next suspect */
    const struct call *fingerprinting; /* the call whose fingerprint core computes … */
    uint64_t bytes_read;               /* … and the bytes of it that were read */
    uint32_t n_hedges;                 /* calls from DRAWN_MAX on */
    uint64_t may_hedge;                /* calls that were sent and may be hedged */
};

/* --- main.c --- */
void fail(struct sim *s, const char *fmt, ...) AS_PRINTF(2, 3);
void trace(struct sim *s, const char *fmt, ...) AS_PRINTF(2, 3);

/* --- world.c --- */
bool run(struct sim *s); /* from the first event to the last; false: violation */
void schedule(struct sim *s, as_ns when, enum event_type type, uint32_t n, uint64_t arg);
uint32_t below(struct sim *s, uint32_t n);
bool chance(struct sim *s, uint32_t per_mille);
as_ns between(struct sim *s, as_ns lo, as_ns hi);
/* Also as_deployment_ops.alike. */
bool sim_alike(const struct as_request *a, const struct as_request *b);
struct message *message_new(enum message_type type, uint32_t n_ids);
void send_message(struct sim *s, struct worker *w, bool to_core, struct message *m);

/* --- client.c --- */
void client_submit(struct sim *s, uint32_t n); /* call n comes */
void client_leave(struct sim *s, uint32_t n);

/* --- scenario.c --- */
void draw_scenario(struct sim *s); /* draws the parameters and the first events */
struct habits draw_habits(struct sim *s);

/* --- worker.c --- */
uint32_t worker_new(struct sim *s); /* returns its number; NOBODY: too many */
void worker_free(struct worker *w);
void worker_receive(struct sim *s, struct worker *w, struct message *m); /* the caller frees m */
void worker_start(struct sim *s, struct worker *w);
void worker_finish(struct sim *s, struct worker *w, uint64_t stream);
void worker_grant(struct sim *s, struct worker *w, uint32_t slots, uint32_t prefetch);
/* Reports to core whether w serves the model. */
void worker_serve(struct sim *s, struct worker *w, uint32_t model, bool serves);
void worker_kill(struct sim *s, struct worker *w);

/* --- harm.c --- */
void draw_harm(struct sim *s);
/* The stream starts at w. True: it will not end by itself. */
bool harm_begins(struct sim *s, struct worker *w, uint64_t stream);
void harm_crash(struct sim *s, struct worker *w, uint64_t stream); /* the fuse has burnt down */
/* The worker is found unhealthy. */
void harm_find_unhealthy(struct sim *s, struct worker *w, uint64_t stream);
uint64_t sim_sample(void *ctx, const struct as_request *q, uint64_t *ret_sample);
bool sim_print(void *ctx, const struct as_request *q, bool first, uint64_t *bytes,
               struct as_fingerprint *ret_p);

/* --- death.c --- */
/* Finds out which calls core has parked or resumed, which it does not report. */
void update_places(struct sim *s);
void on_death(struct sim *s, struct worker *w);
/* Reports to core why w died. */
void report_cause(struct sim *s, struct worker *w, uint64_t verdict_number);
void resume_parked(struct sim *s, uint64_t verdict_number); /* 0: all whose time is over */

/* --- judge.c --- */
bool may_be_suspect(const struct sim *s);                        /* may any call be one? */
bool may_be_refused(const struct sim *s, const struct call *c);  /* AS_EPOISON */
bool waited_too_long(const struct sim *s, const struct call *c); /* for a replica of its own */
/* Called before c is bound to w. */
void judge_sent(struct sim *s, struct worker *w, struct call *c);
/* Called before core gets the answer. ends: c is not sent again; failed: counts against the
 * replica. */
void judge_done(struct sim *s, struct worker *w, const struct call *c, bool ends, bool failed);
/* Called while w->bound is complete. */
void judge_death(struct sim *s, struct worker *w, enum as_loss loss);
void judge_crash_reported(struct sim *s, struct worker *w); /* its death was reported as a crash */
void judge(struct sim *s);                                  /* after every event */

/* --- preference.c: which calls may wait though there is room --- */
void draw_routing(struct sim *s);
/* Reports models of w to core, at random. */
void report_held(struct sim *s, struct worker *w);
bool op_ask(void *ctx, struct as_request *q, struct as_router_choice *ret);
void op_unask(void *ctx, struct as_request *q);
void answer_router(struct sim *s, uint32_t n); /* the answer to the question for call n comes */
void change_router(struct sim *s);
bool may_prefer(const struct sim *s); /* so that nothing is prefetched */
/* c may wait now though some worker has room for it: it prefers another one. */
bool holds_out(const struct sim *s, const struct call *c);

/* --- choice.c: which worker a call goes to, and how long it waits for certain ones --- */
/* Checks, before c is bound to w, that core chose w by the rules; counts it. */
void note_chosen(struct sim *s, struct worker *w, struct call *c);
/* c leaves w. answered: w has executed it. */
void note_left(struct sim *s, struct worker *w, struct call *c, bool answered);
void note_multiplexed(struct sim *s); /* before the first report */
void note_held(struct sim *s, struct worker *w, const uint64_t *keys, uint32_t n);
void forget_choices(struct sim *s, struct worker *w); /* it has died */
void forget_rules(struct sim *s); /* they change: what waits was placed by the old ones */
/* The router has answered the question for c: nothing (NULL), or which workers. */
void note_choice(struct sim *s, struct call *c, const struct as_router_choice *choice);
void check_choices(struct sim *s); /* after every event */

/* --- reservation.c: calls that reserve a slot first --- */
void draw_reservations(struct sim *s);
void op_reserved(void *ctx, struct as_replica *r, struct as_request *q);
void use_reservation(struct sim *s, uint32_t n); /* its client says what is to be executed */
/* c is sent in the slot that it has. */
void note_used(struct sim *s, struct worker *w, struct call *c);
/* May c end with err because it reserves? */
bool may_end_reserved(const struct sim *s, const struct call *c, int err);
void check_reservations(struct sim *s); /* after every event */

/* --- hedge.c: calls that execute in a second worker, too --- */
void draw_hedging(struct sim *s);
struct as_request *op_hedge(void *ctx, struct as_request *q);
/* Checks that c, a hedge, may be sent to w. */
void check_hedge(struct sim *s, const struct worker *w, const struct call *c);
void count_hedgeable(struct sim *s, const struct call *c); /* c was sent */
uint64_t waiting_clients(const struct sim *s);
/* Core gets an answer (good: one that counts), or a loss, of c, which has a twin: either c or its
 * twin goes on without a client. */
void part_twins(struct call *c, bool good);
void check_hedges(struct sim *s); /* after every event */

/* --- capacity.c: what a worker has and could take --- */
/* Finds the calls of w->bound that are in no slot: those that wait for their model's cap, and those
 * beyond the slots. Returns the number of calls that no cap delays. */
uint32_t find_waiting(const struct sim *s, const struct worker *w, bool ret_waits[CALLS_MAX]);
uint32_t front_calls(const struct sim *s, const struct worker *w); /* calls that no cap delays */
uint32_t prefetched_calls(const struct sim *s, const struct worker *w); /* calls that wait there */
bool has_slot(const struct sim *s, const struct worker *w);
bool is_reserved(const struct worker *w);                  /* in quarantine, RESERVED or ALONE */
bool is_open(const struct worker *w);                      /* it takes calls if it has room */
void note_grant(struct sim *s, struct worker *w);          /* w->granted was set */
void check_caps(struct sim *s);                            /* after every event */
uint32_t idle_of(const struct worker *w, uint32_t n_held); /* slots */
/* It waits for no slot, only for a worker in rotation; not so a suspect. */
bool goes_beyond(const struct sim *s, const struct call *c);
/* How many calls of c's model could start at once, in all workers together. */
uint32_t room_of_model(const struct sim *s, const struct call *c);
/* w serves the model of c, and its cap would not delay c. */
bool can_execute(const struct sim *s, const struct worker *w, const struct call *c);
/* May c be sent to w, to execute or to wait there? */
bool can_send(const struct sim *s, const struct worker *w, const struct call *c);

/* --- order.c --- */
bool is_older(const struct call *a, const struct call *b); /* within a priority */
/* Checks, before c is sent to w, that it is its turn; counts it. */
void check_order(struct sim *s, const struct worker *w, struct call *c);
/* In the queue, of the tenant of c; 0 without fairness. */
uint32_t waiting_of_tenant(const struct sim *s, const struct call *c);
void note_queued(struct sim *s); /* after every event */

/* --- oracle.c --- */
/* Is the batch of c due, so that it waits for nothing but a slot? late: the time by which timers
 * may fire late; 0: it may be due. */
bool is_due(const struct sim *s, const struct call *c, as_ns late);
bool fits_a_slot(const struct sim *s, const struct call *c); /* some worker can start it at once */
int expect_submit(const struct sim *s, const struct call *c);
void note_accepted(struct sim *s, struct call *c);
void note_refused(struct sim *s, struct call *c);  /* undoes note_accepted: core has refused it */
void note_released(struct sim *s, struct call *c); /* core has released it, or given it back */
/* The next n calls for w are one batch; 1: a single call follows. */
void note_batch(struct sim *s, struct worker *w, uint32_t n);
void note_sent(struct sim *s, struct worker *w, struct call *c); /* checks that it may be sent */
void note_unbound(struct sim *s, struct call *c);
void note_recall(struct sim *s, struct worker *w, struct as_request *const *q, uint32_t n);
void check_recalls(struct sim *s); /* … and that calls are recalled for idle slots */
void note_answer(struct sim *s, struct call *c, int err);
void check(struct sim *s); /* after every event */

#endif
