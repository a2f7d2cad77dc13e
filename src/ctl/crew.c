#include "ctl/crew.h"

#include "ctl/exit_code.h"
#include "ctl/output.h"
#include "ctl/recipe.h"
#include "ctl/runtime_dir.h"

#include <inttypes.h>
#include <signal.h>
#include <sys/wait.h>

#define TOKEN_BYTES 16u
#define TOKEN_HEX   (2 * TOKEN_BYTES + 1)

/* The crew's view of a deployment: names and whether anybody is left to serve it. Its queue and its
 * models are the dispatcher's business. */
struct deployment {
    const char *name;
    bool down; /* every replica was given up and none has been READY since */
};

/* One replica: its place in the crew is for ever, its processes come and go. */
struct place {
    struct as_crew *crew;
    struct deployment *deployment;
    enum as_ctl_state state;
    bool given_up;   /* until it is READY again */
    bool judged;     /* what follows from the end of the last process is decided */
    uint32_t starts; /* processes so far */
    pid_t pid;       /* 0 without a process, and until it is known */
    as_ns at;        /* the state's one deadline */
    struct as_restart restart;
    struct as_buf reason; /* why the last process ended, then its last lines; one per line */
    char name[AS_CTL_NAME_MAX + 1];
    char token[TOKEN_HEX]; /* of the process */
    struct as_list line;   /* in the crew's */
    bool stands;           /* that it waits there was said */
};

struct as_crew {
    struct as_crew_conf conf;
    as_crew_say_fn *say;
    void *ctx;
    struct as_loop *loop;
    const struct as_log *log;
    struct as_rand rand;
    struct deployment *deployments;
    struct place *places;
    uint32_t n;
    bool told, begun; /* all is known; the first decisions were said, and SERVING */
    bool serving;     /* the dispatcher; else nobody could be seen to be READY: no deadline runs */
    bool once_ready;  /* every replica has been */
    bool fatal;       /* it cannot start: we are about to be ended */
    struct as_timer tick;
    struct as_task after; /* something has changed: who may start, when is the next deadline */
    /* Places that may start but for max_starting. First come, first served: a crash loop of one
     * deployment, whose members come again and again, cannot keep the others from starting. */
    struct as_list line;
};

#define BIT(name) (1u << AS_CTL_##name##_STATE)
static const uint32_t moves[AS_CTL_STATES] = {
    [AS_CTL_WAITING_STATE] = BIT(STARTING) | BIT(WAITING) | BIT(DOWN),
    [AS_CTL_STARTING_STATE] = BIT(READY) | BIT(WAITING) | BIT(DOWN),
    [AS_CTL_READY_STATE] = BIT(LOST) | BIT(WAITING) | BIT(DOWN),
    [AS_CTL_LOST_STATE] = BIT(READY) | BIT(WAITING) | BIT(DOWN),
    [AS_CTL_STOPPING_STATE] = BIT(WAITING) | BIT(DOWN), /* adopted; we do not stop any */
    [AS_CTL_DOWN_STATE] = BIT(WAITING),
};

static void move(struct place *p, enum as_ctl_state to)
{
    AS_ASSERT(moves[p->state] & (1u << to));
    AS_ASSERT(as_list_empty(&p->line) || to == AS_CTL_STARTING_STATE);
    p->state = to;
    p->at = AS_NEVER;
    as_loop_defer(p->crew->loop, &p->crew->after);
}

static bool runs(const struct place *p)
{
    return p->state != AS_CTL_WAITING_STATE && p->state != AS_CTL_DOWN_STATE;
}

static as_ns now_of(const struct place *p)
{
    return as_loop_now(p->crew->loop);
}

/* --- what is said --- */

static void say(struct place *p, struct as_ctl_message m)
{
    m.replica = as_str_of(p->name);
    m.deployment = as_str_of(p->deployment->name);
    m.token = as_str_of(p->token);
    m.state = p->state;
    m.restarts = p->starts ? p->starts - 1 : 0;
    p->crew->say(p->crew->ctx, &m);
}

static void say_place(struct place *p)
{
    say(p,
        (struct as_ctl_message){.type = AS_CTL_PLACE,
                                .text = p->stands ? AS_STR("others are starting (--max-starting)")
                                                  : as_buf_slice(&p->reason)});
}

static void say_down(struct as_crew *c, const struct deployment *d, struct as_str why)
{
    c->say(c->ctx, &(struct as_ctl_message){.type = d->down ? AS_CTL_DOWN : AS_CTL_UP,
                                            .deployment = as_str_of(d->name),
                                            .text = why});
}

/* What a new controller could not see: how often it failed, and what was decided about the end of
 * its last process. Times are of CLOCK_MONOTONIC, which both have. */
#define NOTE                                                                                       \
    "life=%" SCNu32 " judged=%d given_up=%d failures=%" SCNu32 " unready=%" SCNu32                 \
    " ready=%d ready_at=%" SCNu64 " at=%" SCNu64

static void say_note(struct place *p)
{
    char note[256];

    snprintf(note, sizeof(note), NOTE, p->starts, p->judged, p->given_up, p->restart.failures,
             p->restart.unready, p->restart.ready, p->restart.ready_at, runs(p) ? AS_NEVER : p->at);
    say(p, (struct as_ctl_message){.type = AS_CTL_NOTE, .text = as_str_of(note)});
}

static void read_note(struct place *p, struct as_str text)
{
    char note[256];
    int judged, given_up, ready;

    snprintf(note, sizeof(note), "%.*s", AS_STR_FMT(text));
    if (sscanf(note, NOTE, &p->starts, &judged, &given_up, &p->restart.failures,
               &p->restart.unready, &ready, &p->restart.ready_at, &p->at) < 8)
        return; /* it was killed before it wrote one */
    p->judged = judged != 0;
    p->given_up = given_up != 0;
    p->restart.ready = ready != 0;
}

/* --- starting --- */

static void arm(struct place *p)
{
    if (p->state == AS_CTL_STARTING_STATE || p->state == AS_CTL_LOST_STATE)
        p->at = p->crew->serving ? now_of(p) + p->crew->conf.start_timeout : AS_NEVER;
    as_loop_defer(p->crew->loop, &p->crew->after);
}

static void start(struct place *p)
{
    struct as_buf text;

    p->starts++;
    p->judged = p->stands = false;
    p->pid = 0;
    as_restart_started(&p->restart);
    as_runtime_random_hex(p->token, TOKEN_BYTES);
    move(p, AS_CTL_STARTING_STATE);
    arm(p);
    as_buf_init(&text);
    as_recipe_write(&p->crew->conf.recipe, p->deployment->name, p->name, p->token, &text);
    /* the target was started once, to be described: it is no longer than a command line may be */
    AS_ASSERT(text.n <= AS_CTL_TEXT_MAX);
    say(p, (struct as_ctl_message){.type = AS_CTL_SPAWN, .text = as_buf_slice(&text)});
    as_buf_fini(&text);
    say_note(p);
}

static uint32_t count(const struct as_crew *c, enum as_ctl_state state)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->n; i++)
        n += c->places[i].state == state;
    return n;
}

static void due(struct place *p)
{
    p->at = AS_NEVER;
    if (as_list_empty(&p->line))
        as_list_push(&p->crew->line, &p->line);
    as_loop_defer(p->crew->loop, &p->crew->after);
}

static void revive(struct place *p)
{
    /* earlier failures are forgiven: it may fail as often again */
    p->restart = (struct as_restart){0};
    move(p, AS_CTL_WAITING_STATE);
    due(p);
}

/* --- the end of a process --- */

/* `down` is said once per deployment: one replica that is left serves all its requests. */
static bool all_given_up(const struct as_crew *c, const struct deployment *d)
{
    for (uint32_t i = 0; i < c->n; i++) {
        if (c->places[i].deployment == d && !c->places[i].given_up)
            return false;
    }
    return true;
}

/* The server's exit code when this death means that the application cannot start, else 0. */
static int fatal_code(const struct as_crew *c, int status, bool gave_up)
{
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : AS_CODE_FAILED;

    /* Once it has served, whatever happens to a worker is answered by starting it again: a server
     * does not end because of what a request did. */
    if (c->once_ready || c->fatal)
        return 0;
    return as_code_fatal(code) ? code : gave_up ? AS_CODE_FAILED : 0;
}

static void log_exit(struct place *p, bool gave_up, bool fatal)
{
    char reason[256], last[512], next[64];
    struct as_str why, end;

    as_output_report(as_buf_slice(&p->reason), &why, &end);
    if (fatal)
        snprintf(next, sizeof(next), "none: the server ends");
    else if (gave_up)
        snprintf(next, sizeof(next), "given up for %llu ms",
                 (unsigned long long)(p->crew->conf.restart.max / AS_MS));
    else
        snprintf(next, sizeof(next), "restart in %llu ms",
                 (unsigned long long)((p->at - now_of(p)) / AS_MS));
    as_log_event(p->crew->log, gave_up ? AS_LOG_ERROR : AS_LOG_WARN, "worker_exit",
                 "replica=%s pid=%d reason=%s next=\"%s\" last=%s", p->name, (int)p->pid,
                 as_log_quote(reason, sizeof(reason), why), next,
                 as_log_quote(last, sizeof(last), end));
}

static void say_fatal(struct place *p, int code)
{
    p->crew->fatal = true;
    say(p, (struct as_ctl_message){
               .type = AS_CTL_FATAL, .number = (uint32_t)code, .text = as_buf_slice(&p->reason)});
}

/* A given-up replica rests for the longest backoff, then tries again. Its deployment is down, and
 * refuses requests instead of queueing them, from the last one given up to the first one READY. */
static void give_up(struct place *p)
{
    struct as_crew *c = p->crew;

    move(p, AS_CTL_DOWN_STATE);
    p->at = now_of(p) + c->conf.restart.max;
    p->given_up = true;
    if (!p->deployment->down && all_given_up(c, p->deployment)) {
        p->deployment->down = true;
        say_down(c, p->deployment, as_buf_slice(&p->reason));
    }
}

static void died(struct place *p, int status, enum as_exit_kind kind)
{
    struct as_crew *c = p->crew;
    struct as_restart_verdict v;
    int code;

    /* Nobody but the supervisor at its end stops workers yet: one that an earlier controller asked
     * to end, for reasons that we do not share, is started again like one that was killed. */
    if (kind == AS_EXIT_STOPPED)
        kind = AS_EXIT_KILLED;
    v = as_restart_died(&p->restart, &c->conf.restart, kind, &c->rand, now_of(p));
    code = fatal_code(c, status, v.gave_up);
    p->judged = true;
    if (v.gave_up) {
        give_up(p);
    } else {
        move(p, AS_CTL_WAITING_STATE);
        p->at = v.at;
    }
    log_exit(p, v.gave_up, code != 0);
    p->pid = 0;
    say_place(p);
    say_note(p);
    if (code)
        say_fatal(p, code);
}

/* --- what is heard --- */

static struct place *find(struct as_crew *c, struct as_str name)
{
    for (uint32_t i = 0; i < c->n; i++) {
        if (as_str_eq(as_str_of(c->places[i].name), name))
            return &c->places[i];
    }
    return NULL;
}

static void on_ready(struct place *p)
{
    struct as_crew *c = p->crew;

    if (p->state != AS_CTL_STARTING_STATE && p->state != AS_CTL_LOST_STATE)
        return;
    if (p->state == AS_CTL_STARTING_STATE)
        as_restart_ready(&p->restart, now_of(p));
    move(p, AS_CTL_READY_STATE);
    p->given_up = false;
    as_log_event(c->log, AS_LOG_DEBUG, "worker_ready", "replica=%s pid=%d", p->name, (int)p->pid);
    if (p->deployment->down) {
        p->deployment->down = false;
        say_down(c, p->deployment, AS_STR(""));
    }
    say_note(p);
}

static void on_gone(struct place *p)
{
    if (p->state != AS_CTL_READY_STATE)
        return;
    move(p, AS_CTL_LOST_STATE);
    arm(p);
}

static void on_runs(struct as_crew *c, const struct as_ctl_message *m)
{
    struct place *p = find(c, m->replica);

    if (!p) {
        /* of another application: it has no place any more */
        c->say(c->ctx, &(struct as_ctl_message){.type = m->pid ? AS_CTL_SIGNAL : AS_CTL_REMOVE,
                                                .replica = m->replica,
                                                .token = m->token,
                                                .number = SIGTERM,
                                                .ns = c->conf.stop_timeout});
        return;
    }
    read_note(p, m->text);
    p->state = m->state;
    snprintf(p->token, sizeof(p->token), "%.*s", AS_STR_FMT(m->token));
    if (!m->pid)
        return;
    p->pid = (pid_t)m->pid;
    p->at = AS_NEVER;
    /* the note may be of the process before it, or from before it was READY */
    if (p->starts != m->restarts + 1)
        as_restart_started(&p->restart);
    p->starts = m->restarts + 1;
    p->judged = false;
    if (p->state == AS_CTL_READY_STATE || p->state == AS_CTL_LOST_STATE) {
        if (!p->restart.ready)
            as_restart_ready(&p->restart, now_of(p));
        p->given_up = false;
    }
}

static void on_exited(struct as_crew *c, const struct as_ctl_message *m)
{
    struct place *p = find(c, m->replica);

    if (!p) {
        c->say(c->ctx, &(struct as_ctl_message){.type = AS_CTL_REMOVE, .replica = m->replica});
        return;
    }
    if (!as_str_eq(m->token, as_str_of(p->token)))
        return;
    as_buf_drop(&p->reason, p->reason.n);
    as_buf_add(&p->reason, m->text.p, m->text.n);
    /* behind RUNS: it ended while there was no controller, or one had decided and lives no more */
    if (p->judged && p->starts == m->restarts + 1)
        return;
    p->starts = m->restarts + 1;
    p->pid = (pid_t)m->pid;
    if (!runs(p))
        p->state = AS_CTL_WAITING_STATE; /* whatever was said of it is decided anew */
    died(p, (int)m->number, (enum as_exit_kind)AS_MIN(m->kind, (uint32_t)AS_EXIT_STOPPED));
}

static void on_dispatcher(struct as_crew *c, bool serving)
{
    c->serving = serving;
    for (uint32_t i = 0; i < c->n; i++) {
        struct place *p = &c->places[i];

        /* the processes live on and come back to the next dispatcher by themselves */
        if (!serving && p->state == AS_CTL_READY_STATE)
            move(p, AS_CTL_LOST_STATE);
        arm(p);
    }
    as_loop_defer(c->loop, &c->after);
}

/* All is known. Places in the order in which they are to start: each deployment's first one first.
 */
static void on_told(struct as_crew *c, bool complete)
{
    c->told = true;
    c->once_ready = complete;
    as_loop_defer(c->loop, &c->after);
    for (uint32_t i = 0; i < c->n; i++)
        arm(&c->places[i]);
    for (uint32_t k = 0; k < c->conf.workers; k++) {
        for (uint32_t i = k; i < c->n; i += c->conf.workers) {
            struct place *p = &c->places[i];

            if (p->state == AS_CTL_WAITING_STATE && p->at == AS_NEVER)
                due(p);
        }
    }
    /* the last words of the controller before us may have been lost */
    for (uint32_t i = 0; i < c->conf.app->n; i++) {
        struct deployment *d = &c->deployments[i];

        d->down = all_given_up(c, d);
        say_down(c, d, d->down ? as_buf_slice(&c->places[i * c->conf.workers].reason) : AS_STR(""));
    }
}

static void on_revive(struct as_crew *c)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->n; i++) {
        if (c->places[i].state == AS_CTL_DOWN_STATE) {
            revive(&c->places[i]);
            n++;
        }
    }
    as_log_event(c->log, AS_LOG_INFO, "revive", "replicas=%u", n);
}

static void hear_of(struct place *p, const struct as_ctl_message *m)
{
    if (!runs(p) || !as_str_eq(m->token, as_str_of(p->token)))
        return;
    if (m->type == AS_CTL_READY)
        on_ready(p);
    if (m->type == AS_CTL_GONE)
        on_gone(p);
    if (m->type == AS_CTL_SPAWNED) {
        p->pid = (pid_t)m->pid;
        as_log_event(p->crew->log, AS_LOG_DEBUG, "worker_started", "replica=%s pid=%d", p->name,
                     (int)p->pid);
    }
}

void as_crew_hear(struct as_crew *c, const struct as_ctl_message *m)
{
    struct place *p;

    switch (m->type) {
    case AS_CTL_RUNS:
        on_runs(c, m);
        break;
    case AS_CTL_EXITED:
        on_exited(c, m);
        break;
    case AS_CTL_DISPATCHER:
        on_dispatcher(c, m->state == AS_CTL_READY_STATE);
        break;
    case AS_CTL_TOLD:
        on_told(c, m->number != 0);
        break;
    case AS_CTL_REVIVE:
        on_revive(c);
        break;
    default:
        p = find(c, m->replica);
        if (p)
            hear_of(p, m);
    }
}

/* --- time --- */

static void on_deadline(struct place *p)
{
    char why[96];

    p->at = AS_NEVER;
    if (p->state == AS_CTL_WAITING_STATE) {
        due(p);
    } else if (p->state == AS_CTL_DOWN_STATE) {
        revive(p);
    } else {
        snprintf(why, sizeof(why), "not ready within %.6g s (--start-timeout)",
                 (double)p->crew->conf.start_timeout / (double)AS_SEC);
        say(p, (struct as_ctl_message){.type = AS_CTL_KILL, .text = as_str_of(why)});
    }
}

static void on_tick(struct as_timer *t)
{
    struct as_crew *c = AS_CONTAINER(t, struct as_crew, tick);
    as_ns now = as_loop_now(c->loop);

    for (uint32_t i = 0; i < c->n && c->told; i++) {
        if (c->places[i].at <= now)
            on_deadline(&c->places[i]);
    }
    as_loop_defer(c->loop, &c->after);
}

/* Every replica, not just one of each deployment: that is what --workers promised. */
static void look_complete(struct as_crew *c)
{
    if (c->once_ready || !c->serving || count(c, AS_CTL_READY_STATE) < c->n)
        return;
    c->once_ready = true;
    c->say(c->ctx, &(struct as_ctl_message){.type = AS_CTL_COMPLETE, .number = c->n});
}

/* Once per turn, whatever came. */
static void after(struct as_task *t)
{
    struct as_crew *c = AS_CONTAINER(t, struct as_crew, after);
    uint32_t before = count(c, AS_CTL_STARTING_STATE), starting = before;
    as_ns next = AS_NEVER;
    struct as_list *n;

    if (!c->told)
        return;
    for (; !c->fatal && starting < c->conf.max_starting && (n = as_list_pop(&c->line)); starting++)
        start(AS_LIST_ENTRY(n, struct place, line));
    AS_LIST_EACH(l, &c->line)
    {
        struct place *p = AS_LIST_ENTRY(l, struct place, line);

        if (!p->stands) {
            p->stands = true;
            say_place(p);
        }
    }
    if (!c->begun) {
        c->begun = true;
        as_log_event(c->log, AS_LOG_INFO, "controller_ready", "replicas=%u started=%u", c->n,
                     starting - before);
        c->say(c->ctx, &(struct as_ctl_message){.type = AS_CTL_SERVING});
    }
    look_complete(c);
    for (uint32_t i = 0; i < c->n; i++)
        next = AS_MIN(next, c->places[i].at);
    as_timer_set(&c->tick, next);
}

int as_crew_new(struct as_crew **ret_c, struct as_loop *loop, const struct as_crew_conf *conf,
                as_crew_say_fn *say_fn, void *ctx, const struct as_log *log)
{
    struct as_crew *c = as_xalloc(sizeof(*c));

    c->conf = *conf;
    c->say = say_fn;
    c->ctx = ctx;
    c->loop = loop;
    c->log = log;
    c->rand.s = conf->seed;
    c->n = conf->app->n * conf->workers;
    c->deployments = as_xalloc(conf->app->n * sizeof(*c->deployments));
    c->places = as_xalloc(c->n * sizeof(*c->places));
    as_task_init(&c->after, after);
    as_timer_init(&c->tick, loop, on_tick);
    as_list_init(&c->line);
    for (uint32_t i = 0; i < c->n; i++) {
        struct place *p = &c->places[i];

        p->crew = c;
        p->state = AS_CTL_WAITING_STATE;
        p->at = AS_NEVER;
        as_list_init(&p->line);
        as_buf_init(&p->reason);
        p->deployment = &c->deployments[i / conf->workers];
        p->deployment->name = conf->app->deployments[i / conf->workers].name;
        snprintf(p->name, sizeof(p->name), "%s-%u", p->deployment->name, i % conf->workers);
    }
    *ret_c = c;
    return 0;
}

void as_crew_close(struct as_crew *c)
{
    as_task_cancel(&c->after);
    as_timer_close(&c->tick, NULL);
}

void as_crew_free(struct as_crew *c)
{
    if (!c)
        return;
    for (uint32_t i = 0; i < c->n; i++)
        as_buf_fini(&c->places[i].reason);
    free(c->places);
    free(c->deployments);
    free(c);
}
