#include "ctl/message/load.h"

#include <inttypes.h>

static void put_buckets(const char *key, const uint64_t *bucket, struct as_buf *text)
{
    uint32_t n = AS_SERVICE_BUCKETS;

    while (n && !bucket[n - 1])
        n--;
    as_buf_printf(text, " %s=", key);
    for (uint32_t i = 0; i < n; i++)
        as_buf_printf(text, "%s%" PRIu64, i ? "," : "", bucket[i]);
}

void as_ctl_load_put(const struct as_ctl_load *l, struct as_buf *text)
{
    as_buf_printf(text, "slots=%u", l->slots);
    if (!l->has_times)
        return;
    as_buf_printf(text, " accepted=%" PRIu64 " service_sum=%" PRIu64, l->times.accepted,
                  (uint64_t)l->times.service_sum);
    put_buckets("service", l->times.service, text);
    put_buckets("latency", l->times.latency, text);
}

void as_ctl_load_put_replica(uint32_t number, uint32_t requests, struct as_buf *text)
{
    if (text->n < AS_CTL_LOAD_TEXT_MAX)
        as_buf_printf(text, " %u:%u", number, requests);
}

static void read_buckets(struct as_str list, uint64_t *bucket)
{
    for (uint32_t i = 0; list.n && i < AS_SERVICE_BUCKETS; i++) {
        uint64_t v;

        if (as_str_u64(as_str_split(&list, ','), &v) == 0)
            bucket[i] = v;
    }
}

static void read_word(struct as_str word, struct as_ctl_load *l)
{
    struct as_str value = word, key = as_str_split(&value, '=');
    uint64_t v = 0;

    if (as_str_eq(key, AS_STR("service"))) {
        read_buckets(value, l->times.service);
    } else if (as_str_eq(key, AS_STR("latency"))) {
        read_buckets(value, l->times.latency);
    } else if (as_str_u64(value, &v) == 0) {
        if (as_str_eq(key, AS_STR("slots"))) {
            l->slots = (uint32_t)AS_MIN(v, (uint64_t)UINT32_MAX);
        } else if (as_str_eq(key, AS_STR("accepted"))) {
            l->has_times = true;
            l->times.accepted = v;
        } else if (as_str_eq(key, AS_STR("service_sum"))) {
            l->times.service_sum = v;
        }
    }
}

void as_ctl_load_parse(struct as_str text, struct as_ctl_load *ret_l, as_ctl_load_replica_fn *fn,
                       void *arg)
{
    *ret_l = (struct as_ctl_load){0};
    while (text.n) {
        struct as_str word = as_str_split(&text, ' '), requests = word,
                      number = as_str_split(&requests, ':');
        uint64_t i, n;

        if (as_str_u64(number, &i) == 0 && as_str_u64(requests, &n) == 0 && i <= UINT32_MAX)
            fn(arg, (uint32_t)i, (uint32_t)AS_MIN(n, (uint64_t)UINT32_MAX));
        else
            read_word(word, ret_l);
    }
}
