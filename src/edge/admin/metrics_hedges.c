/* Metrics of hedges: core/dispatch/hedge.h. */
#include "edge/admin/metrics_internal.h"

static void put_outcomes(void *arg, struct as_deployment *d, bool down AS_UNUSED)
{
    static const struct {
        const char *name;
        size_t offset;
    } outcomes[] = {{"won", offsetof(struct as_stat, hedges_won)},
                    {"lost", offsetof(struct as_stat, hedges_lost)},
                    {"failed", offsetof(struct as_stat, hedges_failed)},
                    {"cancelled", offsetof(struct as_stat, hedges_cancelled)},
                    {"withheld", offsetof(struct as_stat, hedges_withheld)}};
    const uint8_t *stat = (const uint8_t *)as_deployment_stat(d);
    struct as_buf *o = arg;

    for (size_t i = 0; i < AS_COUNT(outcomes); i++) {
        uint64_t n;

        memcpy(&n, stat + outcomes[i].offset, sizeof(n));
        as_buf_str(o, "anyserve_hedges_total{");
        as_metrics_put_ids(o, as_deployment_name(d), AS_STR(""));
        as_buf_printf(o, ",outcome=\"%s\"} %lu\n", outcomes[i].name, n);
    }
}

static void put_delay(void *arg, struct as_deployment *d, bool down AS_UNUSED)
{
    struct as_buf *o = arg;

    as_buf_str(o, "anyserve_hedge_delay_seconds{");
    as_metrics_put_ids(o, as_deployment_name(d), AS_STR(""));
    as_buf_printf(o, "} %.9f\n", (double)as_deployment_hedge_delay(d) / 1e9);
}

void as_metrics_hedges(struct as_status_page *b, struct as_buf *o)
{
    as_metrics_header(o, "anyserve_hedges_total", "counter",
                      "Requests that went to a second replica, too (hedge_quantile), by outcome; "
                      "\"withheld\": they would have, but no replica was free or hedge_budget used "
                      "up.");
    as_fleet_each_deployment(b->fleet, put_outcomes, o);
    as_metrics_header(o, "anyserve_hedge_delay_seconds", "gauge",
                      "How long a request runs before it is hedged; 0: none is.");
    as_fleet_each_deployment(b->fleet, put_delay, o);
}
