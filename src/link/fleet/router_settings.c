#include "link/fleet/router_settings.h"

static uint64_t value_or(const struct as_frame_router *r, enum as_frame_router_key key,
                         uint64_t otherwise)
{
    return r->has >> key & 1 ? r->value[key] : otherwise;
}

void as_router_settings_apply(const struct as_frame_router *r, struct as_router_conf *c)
{
    static_assert(AS_PREFERENCE_LINKS == 8, "the range of AS_FRAME_ROUTER_FALLBACKS");
    if (r->policy[0] && as_router_of(r->policy) >= 0)
        c->policy = (enum as_router)as_router_of(r->policy);
    c->max_wait = value_or(r, AS_FRAME_ROUTER_MAX_WAIT, c->max_wait);
    c->virtual_nodes = (uint32_t)value_or(r, AS_FRAME_ROUTER_VIRTUAL_NODES, c->virtual_nodes);
    c->fallbacks = (uint32_t)value_or(r, AS_FRAME_ROUTER_FALLBACKS, c->fallbacks);
    c->bound = (uint32_t)value_or(r, AS_FRAME_ROUTER_BOUND, c->bound);
    c->session_ttl = value_or(r, AS_FRAME_ROUTER_SESSION_TTL, c->session_ttl);
    c->max_sessions = (uint32_t)value_or(r, AS_FRAME_ROUTER_MAX_SESSIONS, c->max_sessions);
    c->prefer_near = value_or(r, AS_FRAME_ROUTER_PREFER_LOCAL, c->prefer_near);
    c->ask_again_first = value_or(r, AS_FRAME_ROUTER_ASK_FIRST, c->ask_again_first);
    c->ask_factor = (uint32_t)value_or(r, AS_FRAME_ROUTER_ASK_FACTOR, c->ask_factor);
    c->ask_again_max = value_or(r, AS_FRAME_ROUTER_ASK_MAX, c->ask_again_max);
}
