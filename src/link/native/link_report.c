/* REPORT frames: what a worker tells about itself, for pages, metrics and routers; POLICY frames of
 * a policy process. */
#include "base/err.h"
#include "io/loop/clock.h"
#include "link/call/report.h"
#include "link/fleet/policy/policy.h"
#include "link/native/link.h"

#define WHY_MAX 200

/* The one before stays. */
static void refuse_report(struct as_link *l, uint32_t kind, const char *why)
{
    if (!l->report_refused) /* until a report is accepted: they come often */
        as_log_event(l->up.fleet->log, AS_LOG_WARN, "report_refused",
                     "replica=%s kind=%u reason=\"%s\"", as_id_shown_z(l->up.name), kind, why);
    l->report_refused = true;
}

void as_link_apply_models(struct as_link *l)
{
    const struct as_fleet *f = l->up.fleet;
    uint32_t n = as_fleet_set_held(l->up.deploy, l->up.replica,
                                   as_buf_slice(&l->reports[AS_REPORT_MODEL_IDS]));
    bool cut = n > f->conf.max_models;

    if (cut && !l->models_cut) /* until a report fits */
        as_log_event(f->log, AS_LOG_WARN, "models_cut",
                     "replica=%s models=%u limit=%u reason=\"it has more than "
                     "--max-models-per-replica; the last ones of its report count\"",
                     as_id_shown_z(l->up.name), n, f->conf.max_models);
    l->models_cut = cut;
}

void as_link_on_report(struct as_link *l, const struct as_frame *f)
{
    struct as_frame_report r;
    char why[WHY_MAX] = "";

    if (as_frame_get_report(f, &r)) {
        as_link_protocol_error(l, "malformed REPORT");
        return;
    }
    if (l->is_driver || r.kind >= AS_REPORT_END) /* a kind of a later version */
        return;
    if (r.text.n > l->up.fleet->conf.max_report) {
        refuse_report(l, r.kind, "it is longer than --max-report-bytes");
        return;
    }
    if (r.kind == AS_REPORT_AUTOSCALING && r.text.n > l->up.fleet->conf.max_stats_bytes) {
        refuse_report(l, r.kind, "it is longer than --max-scaling-stats-bytes");
        return;
    }
    if (as_report_check(r.kind, r.text, why, sizeof(why)) ||
        (r.kind == AS_REPORT_AUTOSCALING &&
         as_report_check_stats(r.text, l->up.fleet->conf.max_stats, why, sizeof(why)))) {
        refuse_report(l, r.kind, why);
        return;
    }
    l->report_refused = false;
    as_buf_set(&l->reports[r.kind], r.text);
    if (r.kind == AS_REPORT_MODEL_IDS && l->up.replica)
        as_link_apply_models(l);
    if (r.kind == AS_REPORT_AUTOSCALING) {
        l->up.stats_at = as_clock_read(CLOCK_REALTIME);
        as_fleet_stats_changed(&l->up);
    }
    l->up.n_reports++;
}

void as_link_on_policy(struct as_link *l, const struct as_frame *f)
{
    const char *why = as_policy_on_frame(&l->up, f);

    if (why)
        as_link_protocol_error(l, why);
}

void as_link_free_reports(struct as_link *l)
{
    for (size_t i = 0; i < AS_COUNT(l->reports); i++)
        as_buf_fini(&l->reports[i]);
}
