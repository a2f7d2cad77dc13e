/* A request router in C: requests that begin with the same bytes go to the same replica, as long as
 * it is not much busier than the others. Good for models that keep what they have computed for a
 * prefix.
 *
 *     make
 *     anyserve run deployment.yaml --router-plugin prefix=./prefix.so
 *
 * kwargs: {"bytes": 256, "margin": 4}: how much of the body counts; how many requests more than the
 * least loaded replica the preferred one may have. */
#include <anyserve/router.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct prefix {
    size_t bytes;
    uint32_t margin;
};

/* The number behind "name": in a flat JSON object; -1: it is not there. */
static long number_of(const char *kwargs, const char *name)
{
    char key[32];
    const char *at;

    snprintf(key, sizeof(key), "\"%s\"", name);
    at = strstr(kwargs, key);
    at = at ? strchr(at, ':') : NULL;
    return at ? strtol(at + 1, NULL, 10) : -1;
}

static void *create(const char *kwargs, char *why, size_t n)
{
    struct prefix *p = malloc(sizeof(*p));
    long bytes = number_of(kwargs, "bytes"), margin = number_of(kwargs, "margin");

    if (!p || bytes == 0 || bytes > 65536 || margin > 1000000) {
        snprintf(why, n, "bytes must be 1 to 65536, margin at most 1000000");
        free(p);
        return NULL;
    }
    p->bytes = bytes < 0 ? 256 : (size_t)bytes;
    p->margin = margin < 0 ? 4 : (uint32_t)margin;
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
