/* tests/sim/sim.h — a world in which core/dispatch/deployment serves simulated clients and workers.
 *
 * Virtual time, one heap of events, everything random from one seed: the same seed is the same run.
 * world.c moves events and plays the dispatcher's side of the links (what src/link does in the
 * server), worker.c plays the workers, scenario.c invents both and the clients, oracle.c keeps its
 * own books beside core's and compares them after every event, room.c says by them what a worker
 * could take. harm.c lets requests end, hang and sicken their workers, and judge.c has the books on
 * that: who is a suspect and who is refused, whose turn it is, which replicas are out.
 */
#ifndef AS_SIM_H
#define AS_SIM_H

#include "base/err.h"
#include "core/dispatch/deployment.h"
#include "seeds.h"

#define CALLS_MAX   400u
#define WORKERS_MAX 96u /* incarnations in one run */
#define MODELS_MAX  4u
#define NOBODY      UINT32_MAX

/* Where a call is, as the oracle knows it. FREE: not yet submitted, or released. */
enum place { FREE, WAITING, BOUND, PARKED, RETAINED };

/* What executing it does to the worker. CRASH: it ends. HANG: the call never ends, and the worker
 * is condemned for it. SICKEN: the same, and the call is not answered before. */
enum harm { HARMLESS, CRASH, HANG, SICKEN };

#define POISONS_MAX 3u

struct poison {
    enum harm harm;
    as_ns fuse;     /* from its start to the death, or to the moment when the worker is found out */
    bool blocks;    /* nothing else there goes on meanwhile */
    uint32_t works; /* per mille of its executions */
    /* books */
    uint32_t deaths_reported; /* deaths at which it was executing, as core has been told */
    bool proved;              /* one of them alone, on quarantine */
    bool known;               /* core has come to its conclusions since the first … */
    as_ns known_at;           /* … here */
    uint32_t after;           /* workers that it has ended since then */
};

struct call {
    struct as_request q;
    enum place place;
    uint32_t live_at; /* in sim.live */
    uint32_t worker;  /* BOUND: which */
    bool accepted, answered, released;
    bool cancelled;   /* the client has left */
    bool cancel_sent; /* its worker was sent a CANCEL */
    bool recalled, kept_by_worker;
    bool doomed; /* its worker is being buried: MAYHAVERUN must come */
    uint64_t stream;
    uint64_t batch;       /* BOUND: number of its batch, 0 alone */
    uint64_t order;       /* of acceptance */
    as_ns release;        /* of a model with batching: then it is held back no longer */
    as_ns accepted_at;    /* when it was accepted */
    bool always_had_slot; /* WAITING: there was a slot for it after every event since then */
    uint32_t sends, runs, retries;
    as_ns parked_until;      /* PARKED: then it goes on without a verdict … */
    uint64_t verdict_number; /* … which comes under this number */
    /* harm */
    uint32_t fingerprint; /* requests of the same one cannot be told apart */
    uint32_t poison;      /* 0: it is harmless; else which, from 1 */
    as_ns sent_at, suspected;
    bool suspect;       /* it waits as one … */
    bool was_suspect;   /* … or has */
    uint32_t free_runs; /* executions that an outside kill ended */
    uint32_t losses;    /* counted ones: it had begun, as far as core can know */
    bool ran_there;     /* in the worker that has died */
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
    bool failed; /* DONE: the replica's failure */
    bool lost;   /* DONE: no answer: its connection broke */
    uint32_t slots, prefetch;
    uint64_t first; /* OPEN of a batch: its streams are first, first + 2 … */
    uint32_t size;  /* so many */
    uint32_t n;
    uint64_t ids[]; /* RECALL, RETURNED */
};

/* One direction of a link: first in, first out, each with a delay. */
struct pipe {
    struct message *head, *tail;
    as_ns last; /* arrival of the newest */
};

enum stream_state { S_WAITING, S_RUNNING, S_ENDED };

struct stream {
    uint32_t call, model;
    enum stream_state state;
    as_ns started, finish_at;
    uint64_t first; /* of its batch; itself when it is alone */
    uint32_t size;
    uint32_t live; /* of the first: members that run */
};

/* How a worker behaves; drawn by the scenario. */
struct habits {
    uint32_t slots, prefetch;
    as_ns service_lo, service_hi, start_delay;
    uint32_t delay;       /* of its link, at most, ns */
    uint32_t refuse;      /* per mille of OPENs answered "not started, retry" */
    uint32_t silent;      /* per mille of answers without a service time */
    uint32_t stubborn;    /* per mille of recalled streams that it keeps */
    uint32_t cancel_stop; /* per mille of CANCELs that end the stream early */
    uint32_t fails;       /* per mille of answers that are failures */
    uint32_t loses;       /* per mille of answers that are lost on the way */
    bool eager;           /* starts what comes, whatever its slots: only core keeps the limit */
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
    bool stalled, crashed, condemned;
    uint32_t culprit;    /* the call that did it */
    uint64_t suspect_to; /* condemned: what had started by then */
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
    bool lacks[MODELS_MAX]; /* models that it does not serve */
    uint32_t recalled;
    uint32_t *bound; /* calls in stream order */
    uint32_t n_bound, cap_bound;
    /* judge: its breaker, after the last event */
    enum as_breaker_state breaker, breaker_before; /* was: after the one before */
    as_ns opened;
    uint64_t last_answer;  /* heard: its last answer */
    uint32_t streak, good; /* failures in a row, and good answers */
    bool ejected_now;      /* it went out in this event */
    /* and its death */
    bool alone;                     /* the suspect there has had no company */
    bool ran_alone;                 /* nobody but it was executing */
    uint32_t evidence[POISONS_MAX]; /* who was */
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
    E_VERDICT,
    E_WORK,
    E_CRASH,
    E_CONDEMN,
    E_CLOSE
};

struct event {
    struct due due;
    enum event_type type;
    uint32_t n;   /* call or worker */
    uint64_t arg; /* stream, or on/off */
};

struct books { /* what core's statistics must say */
    uint64_t accepted, refused, dispatched, completed, failed, expired, cancelled, replayed,
        recalled, lost, deaths, batches, members, mirrored, mirror_dropped;
    /* of scenarios with harm */
    uint64_t trials, quarantined, crashes, condemned, refused_suspects, ejected, probed, closed;
};

struct scenario {
    uint32_t n_calls, n_workers, n_models;
    uint32_t cap[MODELS_MAX]; /* 0: none */
    struct as_batch_conf batch[MODELS_MAX];
    bool batched; /* some of them */
    int64_t max_queued;
    as_ns prefetch_work;
    as_ns timer_late; /* the deadline timer fires up to so much late */
    enum as_router router;
    uint32_t page_lost;     /* per mille of deaths whose page is lost */
    uint32_t cause_pending; /* per mille of those whose cause is told later, or never */
    as_ns verdict_wait, repeat_verdict_wait;
    uint32_t lacking; /* per mille of models that a worker comes without */
    bool stop_early;  /* the deployment is freed with work in it */

    bool harmful; /* what follows */
    bool strict;  /* nothing is lost or late: a poison ends two workers, and those that run it */
    bool simple;  /* one line, first come first served */
    bool late;    /* some have deadlines, and one that passes may be a replica's failure */
    bool large;   /* bodies take several turns to be read */
    bool alike;   /* all samples are */
    uint32_t n_poisons, reported; /* told: per mille of verdicts that come */
    struct poison poison[POISONS_MAX];
    uint32_t failing; /* per mille of workers that fail more than others */
    struct as_blame_conf blame;
    struct as_quarantine_conf quarantine;
    struct as_breaker_conf breaker;
    struct as_outlier_conf outlier;
    uint32_t attempts;
};

struct sim {
    uint64_t seed;
    bool verbose, failed, closing, down, freeing;
    struct as_rand rand;
    as_ns now, end, expire_at, timer_for;
    as_ns next_wake; /* what core asked for: deadlines and wakes; as_deployment_expire is called by
                      * then
                      */
    uint64_t steps, last_order, last_batch;
    struct heap heap;
    struct scenario scenario;
    struct as_deployment *d;
    struct call calls[CALLS_MAX];
    uint32_t live[CALLS_MAX], n_live; /* accepted, not released */
    struct worker *workers[WORKERS_MAX];
    uint32_t n_workers;
    struct books books;
    bool works;                        /* core goes on in the next turn */
    uint32_t turns_owed;               /* others that go before the next suspect */
    const struct call *fingerprinting; /* whose fingerprint core takes … */
    uint64_t bytes_read;               /* … and how much of it was read */
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
bool sim_alike(const struct as_request *a, const struct as_request *b); /* core asks it too */
struct message *message_new(enum message_type type, uint32_t n_ids);
void send_message(struct sim *s, struct worker *w, bool to_core, struct message *m);

/* --- scenario.c --- */
void invent(struct sim *s); /* parameters and the first events */
struct habits invent_habits(struct sim *s);

/* --- worker.c --- */
uint32_t worker_new(struct sim *s); /* its number; NOBODY: there were enough */
void worker_free(struct worker *w);
void worker_receive(struct sim *s, struct worker *w, struct message *m); /* keeps nothing of m */
void worker_start(struct sim *s, struct worker *w);
void worker_finish(struct sim *s, struct worker *w, uint64_t stream);
void worker_grant(struct sim *s, struct worker *w, uint32_t slots, uint32_t prefetch);
/* What core is told: whether it serves the model. */
void worker_serve(struct sim *s, struct worker *w, uint32_t model, bool serves);
void worker_kill(struct sim *s, struct worker *w);

/* --- harm.c --- */
void invent_harm(struct sim *s);
/* The stream begins there. True: it will not end by itself. */
bool harm_begins(struct sim *s, struct worker *w, uint64_t stream);
void harm_crash(struct sim *s, struct worker *w, uint64_t stream);   /* its fuse is over */
void harm_condemn(struct sim *s, struct worker *w, uint64_t stream); /* it is found out */
uint64_t sim_sample(void *ctx, const struct as_request *q, uint64_t *ret_sample);
bool sim_print(void *ctx, const struct as_request *q, bool first, uint64_t *bytes,
               struct as_fingerprint *ret_p);

/* --- death.c --- */
void on_death(struct sim *s, struct worker *w);
void report_cause(struct sim *s, struct worker *w,
                  uint64_t verdict_number);                 /* core is told why it died */
void resume_parked(struct sim *s, uint64_t verdict_number); /* 0: those whose time is over */

/* --- judge.c --- */
bool may_be_suspect(const struct sim *s);                       /* anybody */
bool may_be_refused(const struct sim *s, const struct call *c); /* AS_EPOISON */
bool waited_too_long(const struct sim *s,
                     const struct call *c); /* too long, for a replica of its own */
void judge_sent(struct sim *s, struct worker *w, struct call *c); /* before it is there */
/* Before core hears it. ends: it is not sent again; failed: the replica has. */
void judge_done(struct sim *s, struct worker *w, const struct call *c, bool ends, bool failed);
void judge_death(struct sim *s, struct worker *w, enum as_loss loss); /* w->bound is whole */
void judge_crash_reported(struct sim *s, struct worker *w); /* that its death was its own making */
void judge(struct sim *s);                                  /* after every event */

/* --- room.c: what a worker has and could take --- */
/* Which of w->bound are in no slot: those behind their model's cap, and those beyond the slots. The
 * number of calls that no cap holds up. */
uint32_t find_waiting(const struct sim *s, const struct worker *w, bool ret_waits[CALLS_MAX]);
uint32_t front_calls(const struct sim *s, const struct worker *w); /* calls that no cap holds up */
uint32_t prefetched_calls(const struct sim *s,
                          const struct worker *w); /* what is prefetched there */
bool has_slot(const struct sim *s, const struct worker *w);
bool is_kept(const struct worker *w);                      /* a registered one, for a suspect */
bool is_open(const struct worker *w);                      /* it takes calls, when it has room */
uint32_t idle_of(const struct worker *w, uint32_t n_held); /* slots */
/* How many of c's model could begin at once, in all workers together. */
uint32_t room_of_model(const struct sim *s, const struct call *c);
/* No cap would hold c up in w, which serves its model. */
bool can_execute(const struct sim *s, const struct worker *w, const struct call *c);
/* May c be sent to w, to execute or to wait there? */
bool can_send(const struct sim *s, const struct worker *w, const struct call *c);

/* --- oracle.c --- */
int expect_submit(const struct sim *s, const struct call *c);
void note_accepted(struct sim *s, struct call *c);
void note_refused(struct sim *s, struct call *c); /* it was not, after all */
void note_gone(struct sim *s, struct call *c);    /* released, or owned by the caller again */
/* The next n calls for w are one batch; 1: a single call comes. Checks what it will be. */
void note_batch(struct sim *s, struct worker *w, uint32_t n);
void note_sent(struct sim *s, struct worker *w, struct call *c); /* checks that it may be */
void note_unbound(struct sim *s, struct call *c);
/* Where core has put those that it did not tell of: parked or not any more. */
void update_places(struct sim *s);
void note_recall(struct sim *s, struct worker *w, struct as_request *const *q, uint32_t n);
void note_answer(struct sim *s, struct call *c, int err);
void check(struct sim *s); /* after every event */

#endif
