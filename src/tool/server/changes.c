#include "tool/server/changes.h"

#include "tool/server/record.h"

static const char *const steps[AS_CHANGE_STEPS] = {
    [AS_CHANGE_ADDED] = "added",
    [AS_CHANGE_CHANGED] = "changed",
    [AS_CHANGE_REMOVED] = "removed",
    [AS_CHANGE_UNCHANGED] = "unchanged",
};

static int step_of(struct as_str word)
{
    for (int i = 0; i < AS_CHANGE_STEPS; i++) {
        if (as_str_eq(word, as_str_of(steps[i])))
            return i;
    }
    return -1;
}

static int read_change(struct as_json *j, struct as_json_items *it, void *ctx)
{
    struct as_changes *c = ctx;
    struct as_str app = {0}, deployment = {0}, step = {0}, cost = {0}, keys = {0};
    const struct as_json_row fields[] = {{"application", AS_JSON_FIELD_STR, &app},
                                         {"deployment", AS_JSON_FIELD_STR, &deployment},
                                         {"step", AS_JSON_FIELD_STR, &step},
                                         {"class", AS_JSON_FIELD_STR, &cost},
                                         {"keys", AS_JSON_FIELD_STR, &keys}};
    int err = as_json_read(j, &it->value, fields, AS_COUNT(fields));

    if (!err && (!app.n || !deployment.n || step_of(step) < 0))
        err = AS_EPROTO;
    if (err)
        return err;
    if (!(c->n & (c->n - 1))) /* full: the capacity is the next power of two */
        c->all = as_xrealloc(c->all, (c->n ? 2 * (size_t)c->n : 1) * sizeof(*c->all));
    c->all[c->n++] = (struct as_change){.application = as_str_dup(app),
                                        .deployment = as_str_dup(deployment),
                                        .cost = as_str_dup(cost),
                                        .keys = as_str_dup(keys),
                                        .step = (enum as_change_step)step_of(step)};
    return 0;
}

int as_changes_read(struct as_changes *c, struct as_str json)
{
    struct as_json_list list = {.each = read_change, .ctx = c};
    const struct as_json_row fields[] = {{"generation", AS_JSON_FIELD_I64, &c->generation},
                                         {"changes", AS_JSON_FIELD_LIST, &list}};
    struct as_json_text r;
    int err;

    *c = (struct as_changes){0};
    err = as_record_parse(&r, json, fields, AS_COUNT(fields));
    as_json_text_close(&r);
    return err == AS_EINVALID || (!err && !list.seen) ? AS_EPROTO : err;
}

void as_changes_fini(struct as_changes *c)
{
    for (uint32_t i = 0; i < c->n; i++) {
        free(c->all[i].application);
        free(c->all[i].deployment);
        free(c->all[i].cost);
        free(c->all[i].keys);
    }
    free(c->all);
    *c = (struct as_changes){0};
}

uint32_t as_changes_count(const struct as_changes *c, enum as_change_step step)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->n; i++)
        n += c->all[i].step == step;
    return n;
}

bool as_changes_affect(const struct as_changes *c, const char *application)
{
    for (uint32_t i = 0; i < c->n; i++) {
        if (c->all[i].step != AS_CHANGE_UNCHANGED &&
            strcmp(c->all[i].application, application) == 0)
            return true;
    }
    return false;
}

void as_changes_print(const struct as_changes *c, struct as_buf *out)
{
    int app = 11, deployment = 10; /* widths of the column titles */

    for (uint32_t i = 0; i < c->n; i++) {
        app = AS_MAX(app, (int)strlen(c->all[i].application));
        deployment = AS_MAX(deployment, (int)strlen(c->all[i].deployment));
    }
    if (c->n)
        as_buf_printf(out, "%-*s  %-*s  %-9s  %-11s  %s\n", app, "APPLICATION", deployment,
                      "DEPLOYMENT", "STEP", "COST", "KEYS");
    for (uint32_t i = 0; i < c->n; i++) {
        const struct as_change *ch = &c->all[i];
        bool is_changed = ch->step == AS_CHANGE_CHANGED;

        as_buf_printf(out, "%-*s  %-*s  ", app, ch->application, deployment, ch->deployment);
        if (is_changed)
            as_buf_printf(out, "%-9s  %-11s  %s\n", steps[ch->step], ch->cost, ch->keys);
        else
            as_buf_printf(out, "%s\n", steps[ch->step]);
    }
    for (int i = 0; i < AS_CHANGE_STEPS; i++)
        as_buf_printf(out, "%s%u %s", i ? ", " : "", as_changes_count(c, (enum as_change_step)i),
                      steps[i]);
    as_buf_str(out, "\n");
}
