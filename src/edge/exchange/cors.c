#include "edge/exchange/cors.h"

#include "wire/http/http_field.h"
#include "wire/http/origin.h"

#define METHODS "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"

static bool is_on(const struct as_edge *e)
{
    return e->conf.cors_origins && e->conf.cors_origins[0] &&
           e->conf.interface == AS_INTERFACE_CLIENTS;
}

/* The origin of the page, if it is listed; else empty. Browsers send one. */
static struct as_str listed_origin(const struct as_edge *e, const struct as_http_head *head)
{
    struct as_str origin = as_http_head_find(head, AS_STR("origin"));

    if (!origin.n || !as_origin_list_contains(as_str_of(e->conf.cors_origins), origin) ||
        as_http_head_count(head, AS_STR("origin")) > 1)
        return (struct as_str){0};
    return origin;
}

/* Names of fields, in lower case as browsers send them, separated by commas. */
static bool are_names(struct as_str list)
{
    while (list.n) {
        const char *comma = memchr(list.p, ',', list.n);
        size_t n = comma ? (size_t)(comma - list.p) : list.n;

        if (!as_http_field_is_name(as_str_trim((struct as_str){list.p, n})))
            return false;
        if (!comma)
            return true;
        list = (struct as_str){comma + 1, list.n - n - 1};
    }
    return false;
}

bool as_cors_is_preflight(const struct as_edge *e, const struct as_http_head *head)
{
    return is_on(e) && as_str_eq(head->method, AS_STR("OPTIONS")) &&
           as_http_head_find(head, AS_STR("access-control-request-method")).n &&
           listed_origin(e, head).n;
}

uint32_t as_cors_put_preflight(const struct as_edge *e, const struct as_http_head *head,
                               struct as_http_header ret_fields[AS_CORS_PREFLIGHT],
                               char text[AS_CORS_TEXT])
{
    struct as_str names;
    uint32_t n = 0;

    ret_fields[n++] =
        (struct as_http_header){AS_STR("access-control-allow-methods"), AS_STR(METHODS)};
    names = as_http_head_find(head, AS_STR("access-control-request-headers"));
    if (are_names(names))
        ret_fields[n++] = (struct as_http_header){AS_STR("access-control-allow-headers"), names};
    ret_fields[n++] = (struct as_http_header){
        AS_STR("access-control-max-age"),
        {text, (size_t)snprintf(text, AS_CORS_TEXT, "%llu",
                                (unsigned long long)(e->conf.cors_max_age / AS_SEC))}};
    return n;
}

void as_cors_put(const struct as_edge *e, const struct as_http_head *head,
                 struct as_http_header *fields, uint32_t *n)
{
    struct as_str origin;

    if (!is_on(e))
        return;
    fields[(*n)++] = (struct as_http_header){AS_STR("vary"), AS_STR("origin")};
    origin = listed_origin(e, head);
    if (!origin.n)
        return;
    fields[(*n)++] = (struct as_http_header){AS_STR("access-control-allow-origin"), origin};
    /* all of them: the wildcard holds for requests without credentials */
    fields[(*n)++] = (struct as_http_header){AS_STR("access-control-expose-headers"), AS_STR("*")};
}

bool as_cors_may_be_page(const struct as_edge *e, const struct as_http_head *head)
{
    return is_on(e) && as_http_head_find(head, AS_STR("origin")).p;
}
