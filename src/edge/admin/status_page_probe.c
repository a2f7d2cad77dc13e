/* /-/healthz and /-/routes, like those of Ray Serve's proxy. */
#include "edge/admin/status_page.h"

static const char *why_not_ready(const struct as_status_page *b)
{
    if (b->draining)
        return "draining";
    return as_registry_count(as_fleet_registry(b->fleet)) ? NULL : "no routes yet";
}

bool as_status_page_health(struct as_status_page *b, struct as_buf *out)
{
    const char *why = why_not_ready(b);

    as_buf_printf(out, "%s\n", why ? why : "success");
    return !why;
}

bool as_status_page_routes(struct as_status_page *b, struct as_buf *out)
{
    const struct as_registry *g = as_fleet_registry(b->fleet);
    uint32_t n = 0;

    as_buf_str(out, "{");
    for (uint32_t i = 0; i < as_registry_count(g); i++) {
        const struct as_model *m = as_registry_at(g, i);
        struct as_str application;

        if (!as_registry_is_first(g, i))
            continue;
        m = as_registry_find(g, m->name, AS_STR(""), NULL);
        application = as_id_application(m->served_by);
        as_buf_str(out, n++ ? "," : "");
        as_buf_printf(out, "\"/v2/models/%.*s\":", AS_STR_FMT(m->name)); /* needs no escape */
        as_buf_json(out, application);
    }
    as_buf_str(out, "}\n");
    return !why_not_ready(b);
}
