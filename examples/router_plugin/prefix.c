/* A request router in C: requests that begin with the same bytes go to the same replica, as long as
 * it is not much busier than the others. Good for models that keep what they have computed for a
 * prefix.
 *
 *     make
 *     anyserve run deployment.yaml --router-plugin "APPLICATION#DEPLOYMENT=$PWD/prefix.so"
 *
 * Two variables of the environment: PREFIX_BYTES (256), how much of the body counts; PREFIX_MARGIN
 * (4), how many requests more than the least loaded replica the preferred one may have. */
#include <anyserve/router.h>

#include <stdio.h>
#include <stdlib.h>

struct prefix {
    size_t bytes;
    uint32_t margin;
};

static long number_of(const char *variable, long otherwise)
{
    const char *text = getenv(variable);

    return text ? strtol(text, NULL, 10) : otherwise;
}

static void *create(const char *deployment, char *why, size_t n)
{
    struct prefix *p = malloc(sizeof(*p));
    long bytes = number_of("PREFIX_BYTES", 256), margin = number_of("PREFIX_MARGIN", 4);

    if (!p || bytes < 1 || bytes > 65536 || margin < 0 || margin > 1000000) {
        snprintf(why, n, "%s: PREFIX_BYTES must be 1 to 65536, PREFIX_MARGIN 0 to 1000000",
                 deployment);
        free(p);
        return NULL;
    }
    p->bytes = (size_t)bytes;
    p->margin = (uint32_t)margin;
    return p;
}

static uint64_t mix(uint64_t x)
{
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    x ^= x >> 32;
    return x;
}

static uint64_t hash(const unsigned char *bytes, size_t n)
{
    uint64_t h = 14695981039346656037u;

    for (size_t i = 0; i < n; i++)
        h = (h ^ bytes[i]) * 1099511628211u;
    return h;
}

/* Rendezvous hashing: of all replicas the one whose number drawn from id and prefix is highest. */
static uint32_t choose(void *state, const struct as_router_request *q,
                       const struct as_router_replica *replicas, uint32_t n,
                       struct as_router_pick *picks)
{
    const struct prefix *p = state;
    uint64_t prefix, best = 0;
    uint32_t chosen = n, least = UINT32_MAX;

    if (!q->body)
        return 0; /* the built-in policy chooses */
    prefix = hash(q->body, q->body_size < p->bytes ? q->body_size : p->bytes);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t score = mix(replicas[i].id ^ prefix);

        if (!replicas[i].slots)
            continue;
        if (chosen == n || score > best) {
            chosen = i;
            best = score;
        }
        if (replicas[i].ongoing + replicas[i].waiting < least)
            least = replicas[i].ongoing + replicas[i].waiting;
    }
    if (chosen == n || replicas[chosen].ongoing + replicas[chosen].waiting > least + p->margin)
        return 0;
    picks[0].replica = chosen;
    picks[0].rank = 0;
    return 1;
}

const struct as_router_plugin *as_router_plugin(void)
{
    static const struct as_router_plugin plugin = {
        .abi = AS_ROUTER_ABI, .create = create, .destroy = free, .choose = choose};

    return &plugin;
}
