/* Lines of JSON: one object each. */
#include "tool/simulate/trace_internal.h"
#include "wire/json/json.h"

#define NUMBER_ROOM 48u

/* A number as text. Whole numbers are exact, others as exact as a double. */
static int read_number(struct as_json *j, struct as_json_value *v, char room[NUMBER_ROOM],
                       struct as_str *ret_text)
{
    struct as_json_value again = *v;
    uint64_t u;
    double d;
    int n, rc = as_json_u64(j, v, &u);

    if (rc == 0) {
        n = snprintf(room, NUMBER_ROOM, "%llu", (unsigned long long)u);
    } else if (rc == AS_EINVALID && (rc = as_json_f64(j, &again, &d)) == 0) {
        n = snprintf(room, NUMBER_ROOM, "%.17g", d);
        *v = again;
    } else {
        return rc;
    }
    *ret_text = (struct as_str){room, (size_t)n};
    return 0;
}

/* The first number of an array of them: the block that begins a prompt. */
static int read_first(struct as_json *j, struct as_json_value *v, char room[NUMBER_ROOM],
                      struct as_str *ret_text)
{
    struct as_json_items it;
    int rc = as_json_items(j, v, &it), more;
    bool first = true;

    if (rc < 0)
        return rc;
    while ((more = as_json_next(j, &it)) > 0) {
        if (first && it.value.type != AS_JSON_NUMBER)
            return AS_EINVALID;
        if (first && (rc = read_number(j, &it.value, room, ret_text)) < 0)
            return rc;
        first = false;
    }
    return more;
}

static int read_value(struct as_trace_place *at, struct as_json *j, struct as_json_items *it,
                      enum as_trace_column c, struct as_trace_row *row)
{
    bool wants_number = c == AS_TRACE_ARRIVAL || c == AS_TRACE_TIMESTAMP || c == AS_TRACE_SERVICE ||
                        c == AS_TRACE_DEADLINE || c == AS_TRACE_PRIORITY;
    char room[NUMBER_ROOM];
    struct as_str text = {0};
    int rc;

    if (c == AS_TRACE_HASH_IDS)
        rc = read_first(j, &it->value, room, &text);
    else if (c == AS_TRACE_INPUT_LENGTH || c == AS_TRACE_OUTPUT_LENGTH)
        return as_json_skip(j, &it->value);
    else if (it->value.type == AS_JSON_NUMBER && c != AS_TRACE_DEPLOYMENT)
        rc = read_number(j, &it->value, room, &text);
    else if (it->value.type == AS_JSON_STRING && !wants_number)
        rc = as_json_string(j, &it->value, &text);
    else
        rc = AS_EINVALID;
    if (rc == AS_EINVALID)
        return as_trace_refuse(at, c == AS_TRACE_HASH_IDS ? "it is not an array of numbers"
                                   : wants_number         ? "it is not a number"
                                                          : "it is not a text");
    return rc < 0 ? rc : as_trace_set(at, c, text, row);
}

static int read_object(struct as_trace_place *at, struct as_json *j, struct as_json_value *root,
                       struct as_trace_row *row, uint32_t *seen)
{
    struct as_json_items it;
    int rc = root->type == AS_JSON_OBJECT ? as_json_items(j, root, &it) : AS_EINVALID, more;

    if (rc == AS_EINVALID)
        return as_trace_refuse(at, "it is not an object");
    while (rc == 0 && (more = as_json_next(j, &it)) != 0) {
        enum as_trace_column c;

        if (more < 0)
            return more;
        at->name = NULL;
        rc = as_trace_find_column(at, it.key, *seen, &c);
        if (rc < 0)
            return rc;
        if (it.value.type == AS_JSON_NULL)
            continue;
        at->name = as_trace_names[c];
        rc = read_value(at, j, &it, c, row);
        *seen |= 1u << c;
    }
    at->name = NULL;
    return rc < 0 ? rc : as_json_expect_end(j);
}

int as_trace_json_line(struct as_trace *t, struct as_str line, struct as_trace_row *row,
                       uint32_t *seen, struct as_buf *err)
{
    struct as_trace_place at = {.trace = t, .err = err};
    struct as_json_value root;
    int rc;

    if (!t->json && !(t->json = as_json_new()))
        return as_trace_refuse(&at, "%s", as_err_text(AS_ENOMEM));
    rc = as_json_open(t->json, &t->arena, (const uint8_t *)line.p, line.n, &root);
    if (rc == 0)
        rc = read_object(&at, t->json, &root, row, seen);
    at.name = NULL;
    if (rc == AS_EPROTO)
        rc = as_trace_refuse(&at, "%s", as_json_why(t->json));
    else if (rc == AS_ENOMEM)
        rc = as_trace_refuse(&at, "%s", as_err_text(rc));
    as_json_close(t->json);
    if (rc == 0 && (*seen >> AS_TRACE_ARRIVAL & 1u) && (*seen >> AS_TRACE_TIMESTAMP & 1u))
        rc = as_trace_refuse(&at, "it has both arrival_s and timestamp");
    return rc < 0 ? rc : 1;
}
