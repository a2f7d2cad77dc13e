/* Shared objects that are no routers, for t_plugin: each with one mistake. */
#include <anyserve/router.h>

#ifndef NO_ENTRY
static void *create(const char *deployment, char *why, size_t n)
{
    (void)why;
    (void)n;
    return (void *)(uintptr_t)deployment;
}

static void destroy(void *state)
{
    (void)state;
}

#ifndef NO_CHOOSE
static uint32_t choose(void *state, const struct as_router_request *q,
                       const struct as_router_replica *replicas, uint32_t n,
                       struct as_router_pick *picks)
{
    (void)state;
    (void)q;
    (void)replicas;
    (void)n;
    (void)picks;
    return 0;
}
#define CHOOSE choose
#else
#define CHOOSE NULL
#endif

const struct as_router_plugin *as_router_plugin(void)
{
    static const struct as_router_plugin plugin = {
        .abi = ABI, .create = create, .destroy = destroy, .choose = CHOOSE};

    return &plugin;
}
#else
extern int nothing;
int nothing;
#endif
