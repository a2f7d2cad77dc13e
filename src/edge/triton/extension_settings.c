/* Settings of the log and of traces; traces are not supported. */
#include "edge/triton/extension.h"

#define SHOWN(s) AS_STR_CUT(s, 64)

/* --- the log: one level, mapped to Triton's settings, which are a switch per level --- */

static void send_log_settings(struct as_exchange *x)
{
    enum as_log_level now = as_log_get_level(x->edge->log);
    const struct as_setting s[] = {
        {.name = AS_STR("log_file"), .type = AS_SETTING_TEXT},
        {.name = AS_STR("log_info"), .type = AS_SETTING_BOOL, .b = now >= AS_LOG_INFO},
        {.name = AS_STR("log_warning"), .type = AS_SETTING_BOOL, .b = now >= AS_LOG_WARN},
        {.name = AS_STR("log_error"), .type = AS_SETTING_BOOL, .b = true},
        {.name = AS_STR("log_verbose_level"),
         .type = AS_SETTING_NUMBER,
         .number = now >= AS_LOG_DEBUG},
        {.name = AS_STR("log_format"), .type = AS_SETTING_TEXT, .text = AS_STR("default")},
    };
    struct as_buf out = {0};

    if (!x->grpc)
        as_settings_json(s, AS_COUNT(s), NULL, &out);
    as_extension_reply(x, x->grpc ? as_settings_put_log(s, AS_COUNT(s), &x->arena, &out) : 0, &out);
}

/* The requested value of each switch; -1: unchanged. */
struct wanted {
    int error, warning, info, verbose;
};

static bool wrong_type(struct as_exchange *x, const struct as_setting *s, const char *type)
{
    as_exchange_fail(x, AS_EINVALID, "log setting '%.*s' must be %s", SHOWN(s->name), type);
    return false;
}

static bool read_switch(struct as_exchange *x, const struct as_setting *s, int *ret)
{
    if (s->type != AS_SETTING_BOOL)
        return wrong_type(x, s, "true or false");
    *ret = s->b;
    return true;
}

/* log_file and log_format: only the current value is accepted. */
static bool check_text(struct as_exchange *x, const struct as_setting *s)
{
    struct as_str now = as_str_eq(s->name, AS_STR("log_file")) ? AS_STR("") : AS_STR("default");

    if (s->type != AS_SETTING_TEXT)
        return wrong_type(x, s, "a string");
    if (as_str_eq(s->text, now))
        return true;
    as_exchange_fail(x, AS_EUNIMPLEMENTED,
                     "log setting '%.*s' cannot be changed: the log goes to standard error",
                     SHOWN(s->name));
    return false;
}

static bool read_log_setting(struct as_exchange *x, const struct as_setting *s, struct wanted *w)
{
    if (as_str_eq(s->name, AS_STR("log_error")))
        return read_switch(x, s, &w->error);
    if (as_str_eq(s->name, AS_STR("log_warning")))
        return read_switch(x, s, &w->warning);
    if (as_str_eq(s->name, AS_STR("log_info")))
        return read_switch(x, s, &w->info);
    if (as_str_eq(s->name, AS_STR("log_verbose_level"))) {
        if (s->type != AS_SETTING_NUMBER)
            return wrong_type(x, s, "a number");
        w->verbose = s->number > 0;
        return true;
    }
    if (as_str_eq(s->name, AS_STR("log_format")) || as_str_eq(s->name, AS_STR("log_file")))
        return check_text(x, s);
    as_exchange_fail(x, AS_EINVALID, "unknown log setting '%.*s'", SHOWN(s->name));
    return false;
}

/* Computes the log level from the switches. Each level includes those before it, so other
 * combinations are refused. False: the request was failed. */
static bool level_of(struct as_exchange *x, const struct wanted *w, enum as_log_level *level)
{
    const struct {
        int wanted;
        enum as_log_level level;
        const char *name;
    } kinds[] = {{w->error, AS_LOG_ERROR, "log_error"},
                 {w->warning, AS_LOG_WARN, "log_warning"},
                 {w->info, AS_LOG_INFO, "log_info"},
                 {w->verbose, AS_LOG_DEBUG, "log_verbose_level"}};
    enum as_log_level at = *level;

    if (w->error == 0) {
        as_exchange_fail(x, AS_EINVALID, "log_error cannot be switched off");
        return false;
    }
    for (size_t i = 1; i < AS_COUNT(kinds); i++) { /* a level that is off disables those above it */
        if (kinds[i].wanted == 0)
            at = AS_MIN(at, kinds[i - 1].level);
    }
    for (size_t i = 1; i < AS_COUNT(kinds); i++) {
        if (kinds[i].wanted > 0)
            at = AS_MAX(at, kinds[i].level);
    }
    for (size_t i = 1; i < AS_COUNT(kinds); i++) {
        if (kinds[i].wanted == 0 && at >= kinds[i].level) {
            as_exchange_fail(x, AS_EINVALID,
                             "%s cannot be off while lines of a higher level are on",
                             kinds[i].name);
            return false;
        }
    }
    *level = at;
    return true;
}

void as_extension_log(struct as_exchange *x, const struct as_setting *s, uint32_t n)
{
    struct wanted w = {-1, -1, -1, -1};
    enum as_log_level level = as_log_get_level(x->edge->log);
    bool any = false;

    for (uint32_t i = 0; i < n; i++) {
        if (s[i].type == AS_SETTING_NONE) /* only queried */
            continue;
        if (!read_log_setting(x, &s[i], &w))
            return;
        any = true;
    }
    if (any && !x->edge->conf.log) {
        as_exchange_fail(x, AS_EDENIED,
                         "log settings: the server runs without --allow-client-control");
        return;
    }
    if (!level_of(x, &w, &level))
        return;
    if (any && level != as_log_get_level(x->edge->log)) {
        as_log_set_level(x->edge->conf.log, level);
        as_log_event(x->edge->log, AS_LOG_WARN, "log_level", "level=%s by=client",
                     as_log_level_name(level));
    }
    send_log_settings(x);
}

/* --- traces --- */

void as_extension_trace(struct as_exchange *x, struct as_str model, const struct as_setting *s,
                        uint32_t n)
{
    static const struct as_setting off[] = {
        {.name = {"trace_file", 10}, .type = AS_SETTING_TEXT},
        {.name = {"trace_level", 11}, .type = AS_SETTING_TEXT, .text = {"OFF", 3}},
        {.name = {"trace_rate", 10}, .type = AS_SETTING_TEXT, .text = {"0", 1}},
        {.name = {"trace_count", 11}, .type = AS_SETTING_TEXT, .text = {"0", 1}},
        {.name = {"log_frequency", 13}, .type = AS_SETTING_TEXT, .text = {"0", 1}},
    };
    struct as_buf out = {0};

    if (model.n && !as_exchange_find_model(x, model, (struct as_str){0}))
        return;
    for (uint32_t i = 0; i < n; i++) {
        bool is_off =
            as_str_eq(s[i].name, AS_STR("trace_level")) && as_str_eq(s[i].text, AS_STR("OFF"));

        /* without a value: reset to the default, which it is */
        if (s[i].type == AS_SETTING_NONE || is_off)
            continue;
        as_exchange_fail(x, AS_EUNIMPLEMENTED,
                         "trace setting '%.*s' cannot be changed: traces are not supported",
                         SHOWN(s[i].name));
        return;
    }
    if (!x->grpc)
        as_settings_json(off, AS_COUNT(off), "trace_level", &out);
    as_extension_reply(x, x->grpc ? as_settings_put_trace(off, AS_COUNT(off), &x->arena, &out) : 0,
                       &out);
}
