#include "wire/triton/settings.h"

#include "base/err.h"
#include <open_inference.pb-c.h>
#include "wire/json/json.h"
#include "wire/name_check.h"
#include "wire/protobuf/pb_pack.h"
#include "wire/protobuf/pb_unpack.h"

typedef Inference__LogSettingsResponse__SettingsEntry log_entry;
typedef Inference__LogSettingsResponse__SettingValue log_answer;
typedef Inference__TraceSettingResponse__SettingsEntry trace_entry;
typedef Inference__TraceSettingResponse__SettingValue trace_answer;

/* --- reading --- */

/* Reads an entry of the request's map. 0, AS_EPROTO, AS_ENOMEM. */
typedef int read_entry(struct as_arena *a, const void *entry, struct as_setting *s);

static int read_entries(struct as_arena *a, read_entry *read, void *const *entries, size_t n,
                        const struct as_setting **ret_s, uint32_t *ret_n)
{
    struct as_setting *s = as_arena_alloc(a, n * sizeof(*s) + 1, 8);
    int err = !s ? AS_ENOMEM : n > AS_SETTINGS_MAX ? AS_EFULL : 0;

    for (size_t i = 0; !err && i < n; i++) {
        s[i] = (struct as_setting){0};
        err = read(a, entries[i], &s[i]);
    }
    if (err)
        return err;
    *ret_n = as_name_check_keep_last(s, sizeof(*s), (uint32_t)n);
    *ret_s = s;
    return 0;
}

static int read_log(struct as_arena *a, const void *entry, struct as_setting *s)
{
    const Inference__LogSettingsRequest__SettingsEntry *e = entry;
    const Inference__LogSettingsRequest__SettingValue *v = e->value;
    int err = as_name_check_copy(a, e->key, &s->name);

    if (err)
        return err;
    switch (v ? v->parameter_choice_case : 0) {
    case INFERENCE__LOG_SETTINGS_REQUEST__SETTING_VALUE__PARAMETER_CHOICE_BOOL_PARAM:
        s->type = AS_SETTING_BOOL;
        s->b = v->bool_param;
        return 0;
    case INFERENCE__LOG_SETTINGS_REQUEST__SETTING_VALUE__PARAMETER_CHOICE_UINT32_PARAM:
        s->type = AS_SETTING_NUMBER;
        s->number = v->uint32_param;
        return 0;
    case INFERENCE__LOG_SETTINGS_REQUEST__SETTING_VALUE__PARAMETER_CHOICE_STRING_PARAM:
        s->type = AS_SETTING_TEXT;
        return as_name_check_copy(a, v->string_param, &s->text);
    default:
        s->type = AS_SETTING_NONE;
        return 0;
    }
}

int as_settings_parse_log(const uint8_t *p, size_t n, struct as_arena *a,
                          const struct as_setting **ret_s, uint32_t *ret_n)
{
    struct as_pb_unpack mem;
    ProtobufCAllocator *allocator = as_pb_unpack_init(&mem);
    Inference__LogSettingsRequest *q = inference__log_settings_request__unpack(allocator, n, p);
    int err;

    if (!q)
        return mem.out_of_memory ? AS_ENOMEM : AS_EPROTO;
    err = read_entries(a, read_log, (void *const *)q->settings, q->n_settings, ret_s, ret_n);
    inference__log_settings_request__free_unpacked(q, allocator);
    return err;
}

static int read_trace(struct as_arena *a, const void *entry, struct as_setting *s)
{
    const Inference__TraceSettingRequest__SettingsEntry *e = entry;
    const Inference__TraceSettingRequest__SettingValue *v = e->value;
    int err = as_name_check_copy(a, e->key, &s->name);

    if (err || !v || !v->n_value)
        return err;
    s->type = AS_SETTING_TEXT;
    for (size_t i = 1; i < v->n_value; i++) {
        if (!as_name_check_utf8(as_str_of(v->value[i])))
            return AS_EPROTO;
    }
    return as_name_check_copy(a, v->value[0], &s->text);
}

int as_settings_parse_trace(const uint8_t *p, size_t n, struct as_arena *a,
                            const struct as_setting **ret_s, uint32_t *ret_n,
                            struct as_str *ret_model)
{
    struct as_pb_unpack mem;
    ProtobufCAllocator *allocator = as_pb_unpack_init(&mem);
    Inference__TraceSettingRequest *q = inference__trace_setting_request__unpack(allocator, n, p);
    int err;

    if (!q)
        return mem.out_of_memory ? AS_ENOMEM : AS_EPROTO;
    err = read_entries(a, read_trace, (void *const *)q->settings, q->n_settings, ret_s, ret_n);
    if (!err)
        err = as_name_check_copy(a, q->model_name, ret_model);
    inference__trace_setting_request__free_unpacked(q, allocator);
    return err;
}

/* --- writing --- */

struct log_row { /* a map entry with the message that it points to */
    log_entry entry;
    log_answer value;
};

static bool fill_log(void *row, const void *from, struct as_arena *a)
{
    const struct as_setting *s = from;
    struct log_row *r = row;

    inference__log_settings_response__settings_entry__init(&r->entry);
    inference__log_settings_response__setting_value__init(&r->value);
    r->entry.key = as_arena_dup(a, s->name);
    r->entry.value = &r->value;
    if (s->type == AS_SETTING_BOOL) {
        r->value.parameter_choice_case =
            INFERENCE__LOG_SETTINGS_RESPONSE__SETTING_VALUE__PARAMETER_CHOICE_BOOL_PARAM;
        r->value.bool_param = s->b;
    } else if (s->type == AS_SETTING_NUMBER) {
        r->value.parameter_choice_case =
            INFERENCE__LOG_SETTINGS_RESPONSE__SETTING_VALUE__PARAMETER_CHOICE_UINT32_PARAM;
        r->value.uint32_param = s->number;
    } else if (s->type == AS_SETTING_TEXT) {
        r->value.parameter_choice_case =
            INFERENCE__LOG_SETTINGS_RESPONSE__SETTING_VALUE__PARAMETER_CHOICE_STRING_PARAM;
        r->value.string_param = as_arena_dup(a, s->text);
        if (!r->value.string_param)
            return false;
    }
    return r->entry.key;
}

int as_settings_put_log(const struct as_setting *s, uint32_t n, struct as_arena *a,
                        struct as_buf *out)
{
    Inference__LogSettingsResponse m = INFERENCE__LOG_SETTINGS_RESPONSE__INIT;

    m.n_settings = n;
    m.settings =
        (log_entry **)as_pb_pack_rows(s, n, sizeof(*s), sizeof(struct log_row), fill_log, a);
    return m.settings ? as_pb_pack(&m.base, out) : AS_ENOMEM;
}

struct trace_row {
    trace_entry entry;
    trace_answer value;
    char *text;
};

static bool fill_trace(void *row, const void *from, struct as_arena *a)
{
    const struct as_setting *s = from;
    struct trace_row *r = row;

    inference__trace_setting_response__settings_entry__init(&r->entry);
    inference__trace_setting_response__setting_value__init(&r->value);
    r->entry.key = as_arena_dup(a, s->name);
    r->entry.value = &r->value;
    r->value.n_value = s->type == AS_SETTING_TEXT;
    r->value.value = &r->text;
    r->text = as_arena_dup(a, s->text);
    return r->entry.key && r->text;
}

int as_settings_put_trace(const struct as_setting *s, uint32_t n, struct as_arena *a,
                          struct as_buf *out)
{
    Inference__TraceSettingResponse m = INFERENCE__TRACE_SETTING_RESPONSE__INIT;

    m.n_settings = n;
    m.settings =
        (trace_entry **)as_pb_pack_rows(s, n, sizeof(*s), sizeof(struct trace_row), fill_trace, a);
    return m.settings ? as_pb_pack(&m.base, out) : AS_ENOMEM;
}

static void json_value(struct as_buf *b, const struct as_setting *s)
{
    if (s->type == AS_SETTING_BOOL)
        as_json_put_bool(b, s->b);
    else if (s->type == AS_SETTING_NUMBER)
        as_json_put_u64(b, s->number);
    else if (s->type == AS_SETTING_TEXT)
        as_json_put_string(b, s->text);
    else
        as_json_put_null(b);
}

void as_settings_json(const struct as_setting *s, uint32_t n, const char *list, struct as_buf *out)
{
    as_json_put_open(out, '{');
    for (uint32_t i = 0; i < n; i++) {
        bool in_list = list && as_str_eq(s[i].name, as_str_of(list));

        as_json_put_escaped_key(out, s[i].name);
        if (in_list)
            as_json_put_open(out, '[');
        json_value(out, &s[i]);
        if (in_list)
            as_json_put_close(out, ']');
    }
    as_json_put_close(out, '}');
}
