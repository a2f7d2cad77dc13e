#include "tool/server/states.h"

#include "tool/server/record.h"

#define NAME_LEAST   20u /* least width of the column NAME */
#define STATUS_WIDTH 14u
#define LINE_MESSAGE 300u

static const char *const kinds[] = {"application", "deployment", "replica"};

void as_states_init(struct as_states *s)
{
    *s = (struct as_states){0};
}

static void free_state(struct as_state *st)
{
    if (!st)
        return;
    free(st->application);
    free(st->deployment);
    free(st->replica);
    free(st->status);
    free(st->message);
    free(st);
}

void as_states_fini(struct as_states *s)
{
    for (uint32_t i = 0; i < s->n; i++)
        free_state(s->all[i]);
    free_state(s->removed);
    free(s->all);
    as_states_init(s);
}

void as_states_restart(struct as_states *s)
{
    s->stream_number++;
    s->synced = false;
}

/* --- events --- */

struct event { /* slices point into its text */
    struct as_str kind, application, deployment, replica, status, message;
    int64_t target, pid, rank, generation;
    bool rolled_back;
};

static int read_event(struct as_json_text *r, struct as_str json, struct event *e)
{
    const struct as_json_row fields[] = {{"kind", AS_JSON_FIELD_STR, &e->kind},
                                         {"application", AS_JSON_FIELD_STR, &e->application},
                                         {"deployment", AS_JSON_FIELD_STR, &e->deployment},
                                         {"replica", AS_JSON_FIELD_STR, &e->replica},
                                         {"status", AS_JSON_FIELD_STR, &e->status},
                                         {"message", AS_JSON_FIELD_STR, &e->message},
                                         {"target_num_replicas", AS_JSON_FIELD_I64, &e->target},
                                         {"pid", AS_JSON_FIELD_I64, &e->pid},
                                         {"rank", AS_JSON_FIELD_I64, &e->rank},
                                         {"generation", AS_JSON_FIELD_I64, &e->generation},
                                         {"rolled_back", AS_JSON_FIELD_BOOL, &e->rolled_back}};

    *e = (struct event){.pid = -1, .rank = -1};
    return as_record_parse(r, json, fields, AS_COUNT(fields));
}

static int kind_of(const struct event *e)
{
    for (int i = 0; i < (int)AS_COUNT(kinds); i++) {
        if (as_str_eq(e->kind, as_str_of(kinds[i])))
            return i;
    }
    return -1;
}

static bool text_is(const char *text, struct as_str s)
{
    return as_str_eq(as_str_of(text), s);
}

/* *ret_at: the index of the state, or (false) where to insert it: after the last state of its
 * application or deployment. */
static bool find_state(const struct as_states *s, const struct event *e, uint32_t *ret_at)
{
    *ret_at = s->n;
    for (uint32_t i = 0; i < s->n; i++) {
        const struct as_state *st = s->all[i];

        if (!text_is(st->application, e->application))
            continue;
        if (text_is(st->deployment, e->deployment) && text_is(st->replica, e->replica)) {
            *ret_at = i;
            return true;
        }
        if (!e->replica.n || text_is(st->deployment, e->deployment))
            *ret_at = i + 1;
    }
    return false;
}

static struct as_state *insert_state(struct as_states *s, uint32_t at, const struct event *e)
{
    struct as_state *st = as_xalloc(sizeof(*st));

    if (s->n == s->cap) {
        s->cap = s->cap ? 2 * s->cap : 16;
        s->all = as_xrealloc(s->all, s->cap * sizeof(struct as_state *));
    }
    memmove(&s->all[at + 1], &s->all[at], (s->n - at) * sizeof(struct as_state *));
    s->all[at] = st;
    s->n++;
    st->kind = (enum as_state_kind)kind_of(e);
    st->application = as_str_dup(e->application);
    st->deployment = as_str_dup(e->deployment);
    st->replica = as_str_dup(e->replica);
    return st;
}

static bool is_unchanged(const struct as_state *st, const struct event *e)
{
    return text_is(st->status, e->status) && text_is(st->message, e->message) &&
           st->target == e->target && st->pid == e->pid && st->rank == e->rank &&
           st->rolled_back == e->rolled_back;
}

static void update_state(struct as_state *st, const struct event *e)
{
    free(st->status);
    free(st->message);
    st->status = as_str_dup(e->status);
    st->message = as_str_dup(e->message);
    st->target = e->target;
    st->pid = e->pid;
    st->rank = e->rank;
    st->rolled_back = e->rolled_back;
}

static void remove_state(struct as_states *s, uint32_t at)
{
    free_state(s->removed);
    s->removed = s->all[at];
    s->n--;
    memmove(&s->all[at], &s->all[at + 1], (s->n - at) * sizeof(struct as_state *));
}

const struct as_state *as_states_next_missing(struct as_states *s)
{
    for (uint32_t i = 0; i < s->n; i++) {
        if (s->all[i]->stream_number != s->stream_number) {
            remove_state(s, i);
            return s->removed;
        }
    }
    return NULL;
}

static enum as_states_result apply_event(struct as_states *s, const struct event *e,
                                         const struct as_state **ret_state)
{
    bool gone = as_str_eq(e->status, AS_STR("GONE"));
    uint32_t at;
    bool found = find_state(s, e, &at);

    if (!found && gone)
        return AS_STATES_NOTHING;
    *ret_state = found ? s->all[at] : insert_state(s, at, e);
    if (gone) {
        remove_state(s, at);
        return AS_STATES_GONE;
    }
    s->all[at]->stream_number = s->stream_number;
    s->all[at]->generation = e->generation;
    if (found && is_unchanged(s->all[at], e))
        return AS_STATES_NOTHING;
    update_state(s->all[at], e);
    return AS_STATES_CHANGED;
}

enum as_states_result as_states_event(struct as_states *s, struct as_str json,
                                      const struct as_state **ret_state)
{
    enum as_states_result news = AS_STATES_NOTHING;
    struct as_json_text r;
    struct event e;

    *ret_state = NULL;
    free_state(s->removed);
    s->removed = NULL;
    if (read_event(&r, json, &e))
        news = AS_STATES_INVALID;
    else if (as_str_eq(e.kind, AS_STR("synced")))
        news = AS_STATES_SYNCED;
    else if (kind_of(&e) >= 0)
        news = apply_event(s, &e, ret_state);
    s->synced = s->synced || news == AS_STATES_SYNCED;
    as_json_text_close(&r);
    return news;
}

const struct as_state *as_states_application(const struct as_states *s, const char *name)
{
    for (uint32_t i = 0; i < s->n; i++) {
        if (s->all[i]->kind == AS_STATE_APPLICATION && strcmp(s->all[i]->application, name) == 0)
            return s->all[i];
    }
    return NULL;
}

const struct as_state *as_states_deployment(const struct as_states *s, const char *application,
                                            const char *name)
{
    for (uint32_t i = 0; i < s->n; i++) {
        const struct as_state *st = s->all[i];

        if (st->kind == AS_STATE_DEPLOYMENT && strcmp(st->application, application) == 0 &&
            strcmp(st->deployment, name) == 0)
            return st;
    }
    return NULL;
}

/* --- printing --- */

static uint32_t count_running(const struct as_states *s, const struct as_state *deployment)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->n; i++)
        n += s->all[i]->kind == AS_STATE_REPLICA &&
             strcmp(s->all[i]->application, deployment->application) == 0 &&
             strcmp(s->all[i]->deployment, deployment->deployment) == 0 &&
             strcmp(s->all[i]->status, "RUNNING") == 0;
    return n;
}

static const char *display_name(const struct as_state *st)
{
    return st->kind == AS_STATE_APPLICATION  ? st->application
           : st->kind == AS_STATE_DEPLOYMENT ? st->deployment
                                             : st->replica;
}

static void put_row(const struct as_states *s, const struct as_state *st, uint32_t name_width,
                    uint32_t columns, struct as_buf *out)
{
    uint32_t indent = 2 * (uint32_t)st->kind;
    char count[32] = "", pid[24] = "";
    size_t from = out->n;

    if (st->kind == AS_STATE_DEPLOYMENT)
        snprintf(count, sizeof(count), "%u/%lld", count_running(s, st), (long long)st->target);
    if (st->pid > 0)
        snprintf(pid, sizeof(pid), "%lld", (long long)st->pid);
    as_buf_printf(out, "%*s%-*s  %-*s  %8s  %8s  ", (int)indent, "", (int)(name_width - indent),
                  display_name(st), (int)STATUS_WIDTH, st->status, count, pid);
    if (columns > out->n - from)
        as_record_line(out, as_str_of(st->message), columns - (out->n - from));
    while (out->n > from && out->p[out->n - 1] == ' ')
        out->n--;
    as_buf_str(out, "\n");
}

void as_states_table(const struct as_states *s, uint32_t columns, uint32_t lines,
                     struct as_buf *out)
{
    uint32_t width = NAME_LEAST, most = s->n;

    for (uint32_t i = 0; i < s->n; i++)
        width = AS_MAX(width,
                       2 * (uint32_t)s->all[i]->kind + (uint32_t)strlen(display_name(s->all[i])));
    if (lines && s->n + 1 > lines)
        most = lines > 2 ? lines - 2 : 0;
    as_buf_printf(out, "%-*s  %-*s  %8s  %8s  MESSAGE\n", (int)width, "NAME", (int)STATUS_WIDTH,
                  "STATUS", "REPLICAS", "PID");
    for (uint32_t i = 0; i < most; i++)
        put_row(s, s->all[i], width, columns, out);
    if (most < s->n)
        as_buf_printf(out, "… and %u more\n", s->n - most);
}

void as_states_line(const struct as_state *st, bool gone, struct as_buf *out)
{
    as_buf_printf(out, "%s %s", kinds[st->kind], st->application);
    if (st->kind != AS_STATE_APPLICATION)
        as_buf_printf(out, "/%s", st->deployment);
    if (st->kind == AS_STATE_REPLICA)
        as_buf_printf(out, "/%s", st->replica);
    as_buf_printf(out, ": %s", gone ? "GONE" : st->status);
    if (!gone && st->kind == AS_STATE_DEPLOYMENT)
        as_buf_printf(out, ", %lld replica%s wanted", (long long)st->target,
                      st->target == 1 ? "" : "s");
    if (!gone && st->pid > 0)
        as_buf_printf(out, ", pid %lld", (long long)st->pid);
    if (!gone && st->message[0]) {
        as_buf_str(out, ", ");
        as_record_line(out, as_str_of(st->message), LINE_MESSAGE);
    }
    as_buf_str(out, "\n");
}
