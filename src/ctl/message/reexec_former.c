#include "ctl/message/reexec_former.h"

#include "ctl/message/message.h"
#include "ctl/message/spawn.h"

#define KEY_MAX 64u

struct former {
    struct as_reexec_reader *in;
    As__Supervisor *state;
    struct as_str rest; /* not read yet */
};

static void fail_reading(struct former *f, const char *key, const char *why)
{
    as_reexec_fail(f->in, key, why);
    f->rest = (struct as_str){0};
}

/* Cuts the text before the first `end` off the rest; at most KEY_MAX bytes. */
static bool cut_until(struct former *f, char end, struct as_str *ret_s)
{
    const char *p = f->rest.n ? memchr(f->rest.p, end, AS_MIN(f->rest.n, (size_t)KEY_MAX)) : NULL;

    if (!p)
        return false;
    *ret_s = (struct as_str){f->rest.p, (size_t)(p - f->rest.p)};
    f->rest = (struct as_str){p + 1, f->rest.n - ret_s->n - 1};
    return true;
}

/* The next value, which must have this key. */
static struct as_str get(struct former *f, const char *key)
{
    struct as_str name, digits, value = {0};
    uint64_t n;

    if (!cut_until(f, ' ', &name) || !as_str_eq(name, as_str_of(key))) {
        fail_reading(f, key, "is not where it is expected");
        return value;
    }
    if (!cut_until(f, ':', &digits) || as_str_u64(digits, &n) < 0 || n >= f->rest.n ||
        f->rest.p[n] != '\n') {
        fail_reading(f, key, "has an invalid length");
        return value;
    }
    value = (struct as_str){f->rest.p, (size_t)n};
    f->rest = (struct as_str){value.p + n + 1, f->rest.n - (size_t)n - 1};
    return value;
}

static char *get_text(struct former *f, const char *key)
{
    return as_str_dup(get(f, key));
}

static ProtobufCBinaryData get_bytes(struct former *f, const char *key)
{
    return as_reexec_bytes(get(f, key));
}

static uint64_t get_u64(struct former *f, const char *key)
{
    struct as_str s = get(f, key);
    uint64_t v = 0;

    if (!f->in->failed && as_str_u64(s, &v) < 0)
        fail_reading(f, key, "is no number");
    return v;
}

static uint32_t get_u32(struct former *f, const char *key)
{
    uint64_t v = get_u64(f, key);

    if (v > UINT32_MAX)
        fail_reading(f, key, "is no number in its range");
    return (uint32_t)v;
}

static bool get_bool(struct former *f, const char *key)
{
    return get_u64(f, key) != 0;
}

/* A number of values that follow, each of two bytes at least. */
static uint64_t get_count(struct former *f, const char *key)
{
    uint64_t n = get_u64(f, key);

    if (n > f->rest.n / 2)
        fail_reading(f, key, "is no number in its range");
    return f->in->failed ? 0 : n;
}

/* "": none. */
static uint32_t get_fd(struct former *f, const char *key)
{
    struct as_str s = get(f, key);
    uint64_t fd = 0;

    if (s.n && (as_str_u64(s, &fd) < 0 || fd > INT32_MAX))
        fail_reading(f, key, "is no open descriptor");
    return f->in->failed || !s.n ? 0 : as_reexec_put_fd(f->state, (int)fd);
}

static void read_conf(struct former *f)
{
    As__Supervisor *s = f->state;

    if (get_u64(f, "messages") != AS_CTL_FORMER_FORMAT)
        fail_reading(f, "messages", "are of another format than this version's");
    s->version = get_text(f, "version");
    s->program = get_text(f, "program");
    s->address = get_text(f, "address");
    s->target = get_text(f, "target");
    s->app = get_fd(f, "app");
    s->signals = get_fd(f, "signals");
    for (uint64_t n = get_count(f, "listeners"); n > 0 && !f->in->failed; n--) {
        As__Listener *l = as_reexec_new(&as__listener__descriptor);

        l->kind = get_text(f, "kind");
        l->fd = get_fd(f, "listener");
        AS_REEXEC_APPEND(s, listeners, l);
    }
}

static void read_command(struct former *f)
{
    As__Command *c = as_reexec_new(&as__command__descriptor);

    f->state->command = c;
    c->name = get_text(f, "command");
    for (uint64_t n = get_count(f, "options"); n > 0 && !f->in->failed; n--)
        AS_REEXEC_APPEND(c, options, get_text(f, "option"));
    for (uint64_t n = get_count(f, "arguments"); n > 0 && !f->in->failed; n--)
        AS_REEXEC_APPEND(c, arguments, get_text(f, "argument"));
    c->runtime_base = get_text(f, "runtime-base");
    c->runtime_path = get_text(f, "runtime-path");
    c->runtime_lock = get_fd(f, "runtime-lock");
    c->notify = get_bytes(f, "notify");
    c->hold = get_fd(f, "hold");
}

static As__Process *read_process(struct former *f)
{
    As__Process *p = as_reexec_new(&as__process__descriptor);
    As__Output *o = as_reexec_new(&as__output__descriptor);

    p->output = o;
    p->pid = get_u32(f, "pid");
    p->pidfd = get_fd(f, "pidfd");
    p->group = get_bool(f, "group");
    p->out = get_fd(f, "out");
    o->line = get_bytes(f, "half-line");
    o->cut = get_bool(f, "cut");
    o->returned = get_bool(f, "returned");
    for (uint64_t n = get_count(f, "lines"); n > 0 && !f->in->failed; n--)
        AS_REEXEC_APPEND(o, tail, get_bytes(f, "line"));
    p->kill_at = get_u64(f, "hurry");
    p->kill_at = p->kill_at == UINT64_MAX ? 0 : p->kill_at;
    p->stopping = get_bool(f, "stopping");
    p->kill_reason = get_text(f, "sentence");
    p->cgroup = get_text(f, "cgroup");
    p->cgroup_v2 = get_bool(f, "cgroup-v2");
    return p;
}

static As__Service *read_service(struct former *f)
{
    As__Service *s = as_reexec_new(&as__service__descriptor);

    (void)get(f, "service");
    s->control = get_fd(f, "control");
    s->starts = get_u32(f, "starts");
    s->failures = get_u32(f, "failures");
    s->ready_at = get_u64(f, "ready-at");
    s->process = read_process(f);
    return s;
}

/* Items of a letter, a string and a NUL. */
static ProtobufCBinaryData read_spawn(struct as_str items)
{
    static const struct {
        enum as_spawn_item item;
        char letter;
        bool is_number;
    } kinds[] = {{AS_SPAWN_ARG, 'a', false},     {AS_SPAWN_ENV, 'e', false},
                 {AS_SPAWN_OWN_ENV, 'o', false}, {AS_SPAWN_DIR, 'd', false},
                 {AS_SPAWN_CPUS, 'c', false},    {AS_SPAWN_BATCH, 'b', true},
                 {AS_SPAWN_MEMORY, 'm', true},   {AS_SPAWN_SPARES, 'w', true}};
    struct as_buf text = {0};

    for (const char *p = items.p, *end = p + items.n; p < end && memchr(p, 0, (size_t)(end - p));
         p += strlen(p) + 1) {
        uint64_t v = *p == 'b'; /* which had no number */

        (void)as_str_u64(as_str_of(p + 1), &v);
        for (size_t i = 0; i < AS_COUNT(kinds); i++) {
            if (kinds[i].letter == *p && kinds[i].is_number)
                as_spawn_put_number(&text, kinds[i].item, v);
            else if (kinds[i].letter == *p)
                as_spawn_put(&text, kinds[i].item, "%s", p + 1);
        }
    }
    return (ProtobufCBinaryData){text.n, text.p};
}

static As__Replica *read_replica(struct former *f)
{
    As__Replica *r = as_reexec_new(&as__replica__descriptor);

    r->name = get_text(f, "replica");
    r->deployment = get_text(f, "deployment");
    r->token = get_text(f, "token");
    r->note = get_text(f, "note");
    r->reason = get_bytes(f, "reason");
    r->spawn = read_spawn(get(f, "spawn"));
    r->state = get_text(f, "state");
    r->restarts = get_u32(f, "restarts");
    r->end_undecided = get_bool(f, "ended");
    r->end_pid = get_u32(f, "end-pid");
    r->end_status = get_u32(f, "end-status");
    r->end_kind = get_u32(f, "end-kind");
    if (get_u64(f, "runs"))
        r->process = read_process(f);
    return r;
}

static void read_workers(struct former *f)
{
    As__Supervisor *s = f->state;

    s->groups = get_u32(f, "groups");
    s->limit_logged = get_bool(f, "unbound");
    for (uint64_t n = get_count(f, "replicas"); n > 0 && !f->in->failed; n--)
        AS_REEXEC_APPEND(s, replicas, read_replica(f));
    for (uint64_t n = get_count(f, "deployments"); n > 0 && !f->in->failed; n--) {
        As__Deployment *d = as_reexec_new(&as__deployment__descriptor);

        AS_REEXEC_APPEND(s, deployments, d);
        d->name = get_text(f, "deployment");
        d->application = get_text(f, "application");
        d->down = get_bool(f, "down");
        d->why = get_bytes(f, "why");
        d->status = get_bytes(f, "status");
        d->since = get_u64(f, "since");
    }
    for (uint64_t n = get_count(f, "spares"); n > 0 && !f->in->failed; n--) {
        As__Spare *spare = as_reexec_new(&as__spare__descriptor);

        AS_REEXEC_APPEND(s, spares, spare);
        spare->deployment = get_text(f, "spare");
        spare->process = read_process(f);
    }
}

void as_reexec_former_read(struct as_reexec_reader *in, struct as_str text)
{
    As__Supervisor *s = as_reexec_new(&as__supervisor__descriptor);
    struct former f = {in, s, text};

    in->state = s;
    read_conf(&f);
    read_command(&f);
    s->complete = get_bool(&f, "complete");
    s->oom_seen = get_u64(&f, "oom-seen");
    s->upgrade_began = get_u64(&f, "upgrade-began");
    s->console = get_bytes(&f, "console");
    s->console_dropped = get_u64(&f, "console-dropped");
    for (uint64_t n = get_count(&f, "logs-gone"); n > 0 && !in->failed; n--)
        AS_REEXEC_APPEND(s, retired_logs, get_text(&f, "log"));
    s->dispatcher = read_service(&f);
    s->controller = read_service(&f);
    read_workers(&f);
    if (!in->failed && f.rest.n)
        as_reexec_fail(in, "end", "is not where it is expected");
}
