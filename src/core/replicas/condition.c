#include "core/replicas/condition.h"

void as_condition_init(struct as_condition *c, as_ns now)
{
    *c = (struct as_condition){
        .status = AS_STATUS_UPDATING, .trigger = AS_TRIGGER_CONFIG_UPDATE_STARTED, .since = now};
}

struct outcome {
    enum as_condition_status status;
    enum as_condition_trigger trigger;
};

/* Scaling during an update does not change the status. */
static struct outcome after_scaling(const struct as_condition *c, bool up, bool automatic)
{
    if (c->status == AS_STATUS_UPDATING || (automatic && c->status == AS_STATUS_DEPLOY_FAILED))
        return (struct outcome){c->status, c->trigger};
    return (struct outcome){up ? AS_STATUS_UPSCALING : AS_STATUS_DOWNSCALING,
                            automatic ? AS_TRIGGER_AUTOSCALING : AS_TRIGGER_CONFIG_UPDATE_STARTED};
}

static struct outcome after_failure(const struct as_condition *c, enum as_condition_trigger trigger)
{
    if (c->status == AS_STATUS_DEPLOY_FAILED || c->trigger == AS_TRIGGER_DELETING)
        return (struct outcome){c->status, c->trigger};
    if (c->status != AS_STATUS_UPDATING)
        return (struct outcome){AS_STATUS_UNHEALTHY, trigger};
    /* during an update only the failure of the update itself counts */
    if (trigger == AS_TRIGGER_REPLICA_STARTUP_FAILED)
        return (struct outcome){AS_STATUS_DEPLOY_FAILED, trigger};
    return (struct outcome){c->status, c->trigger};
}

static struct outcome after_settled(const struct as_condition *c)
{
    static const enum as_condition_trigger completed[] = {
        [AS_STATUS_UPDATING] = AS_TRIGGER_CONFIG_UPDATE_COMPLETED,
        [AS_STATUS_UNHEALTHY] = AS_TRIGGER_UNSPECIFIED,
        [AS_STATUS_DEPLOY_FAILED] = AS_TRIGGER_CONFIG_UPDATE_COMPLETED,
        [AS_STATUS_UPSCALING] = AS_TRIGGER_UPSCALE_COMPLETED,
        [AS_STATUS_DOWNSCALING] = AS_TRIGGER_DOWNSCALE_COMPLETED,
    };

    if (c->status == AS_STATUS_HEALTHY || c->rolled_back)
        return (struct outcome){c->status, c->trigger};
    return (struct outcome){AS_STATUS_HEALTHY, completed[c->status]};
}

static struct outcome next_status(const struct as_condition *c, enum as_condition_cause cause)
{
    switch (cause) {
    case AS_CAUSE_SCALE_UP:
    case AS_CAUSE_SCALE_DOWN:
        return after_scaling(c, cause == AS_CAUSE_SCALE_UP, false);
    case AS_CAUSE_AUTOSCALE_UP:
    case AS_CAUSE_AUTOSCALE_DOWN:
        return after_scaling(c, cause == AS_CAUSE_AUTOSCALE_UP, true);
    case AS_CAUSE_STARTUP_FAILED:
        return after_failure(c, AS_TRIGGER_REPLICA_STARTUP_FAILED);
    case AS_CAUSE_ROLLED_BACK:
        return (struct outcome){AS_STATUS_DEPLOY_FAILED, AS_TRIGGER_REPLICA_STARTUP_FAILED};
    case AS_CAUSE_REPLICA_FAILED:
        return after_failure(c, AS_TRIGGER_HEALTH_CHECK_FAILED);
    case AS_CAUSE_SETTLED:
        return after_settled(c);
    case AS_CAUSE_DELETE:
        return (struct outcome){AS_STATUS_UPDATING, AS_TRIGGER_DELETING};
    case AS_CAUSE_UPDATE:
        break;
    }
    return (struct outcome){AS_STATUS_UPDATING, AS_TRIGGER_CONFIG_UPDATE_STARTED};
}

bool as_condition_apply(struct as_condition *c, enum as_condition_cause cause, struct as_str text,
                        as_ns now)
{
    struct outcome v = next_status(c, cause);
    bool stays = v.status == c->status && v.trigger == c->trigger;
    uint32_t n = (uint32_t)AS_MIN(text.n, AS_CONDITION_TEXT_MAX);

    /* an unchanged status keeps its text until there is a new one */
    if (stays && cause != AS_CAUSE_ROLLED_BACK &&
        (c->rolled_back || n == 0 || cause == AS_CAUSE_SETTLED ||
         as_str_eq((struct as_str){text.p, n}, as_condition_text(c))))
        return false;
    if (v.status != c->status || c->since == 0)
        c->since = now;
    c->status = v.status;
    c->trigger = v.trigger;
    c->rolled_back = cause == AS_CAUSE_ROLLED_BACK || (c->rolled_back && stays);
    if (n)
        memcpy(c->text, text.p, n);
    c->n = n;
    return true;
}

struct as_str as_condition_text(const struct as_condition *c)
{
    return (struct as_str){c->text, c->n};
}

bool as_condition_set_lack(struct as_condition *c, struct as_str lack)
{
    lack.n = AS_MIN(lack.n, (size_t)AS_CONDITION_LACK_MAX);
    if (as_str_eq(lack, as_condition_lack(c)))
        return false;
    if (lack.n)
        memcpy(c->lack, lack.p, lack.n);
    c->n_lack = (uint32_t)lack.n;
    return true;
}

struct as_str as_condition_lack(const struct as_condition *c)
{
    return (struct as_str){c->lack, c->n_lack};
}

const char *as_condition_status_name(enum as_condition_status s)
{
    static const char *const names[] = {
        [AS_STATUS_UPDATING] = "UPDATING",   [AS_STATUS_HEALTHY] = "HEALTHY",
        [AS_STATUS_UNHEALTHY] = "UNHEALTHY", [AS_STATUS_DEPLOY_FAILED] = "DEPLOY_FAILED",
        [AS_STATUS_UPSCALING] = "UPSCALING", [AS_STATUS_DOWNSCALING] = "DOWNSCALING",
    };

    AS_ASSERT((size_t)s < AS_COUNT(names));
    return names[s];
}

const char *as_condition_trigger_name(enum as_condition_trigger t)
{
    static const char *const names[] = {
        [AS_TRIGGER_UNSPECIFIED] = "UNSPECIFIED",
        [AS_TRIGGER_CONFIG_UPDATE_STARTED] = "CONFIG_UPDATE_STARTED",
        [AS_TRIGGER_CONFIG_UPDATE_COMPLETED] = "CONFIG_UPDATE_COMPLETED",
        [AS_TRIGGER_UPSCALE_COMPLETED] = "UPSCALE_COMPLETED",
        [AS_TRIGGER_DOWNSCALE_COMPLETED] = "DOWNSCALE_COMPLETED",
        [AS_TRIGGER_AUTOSCALING] = "AUTOSCALING",
        [AS_TRIGGER_REPLICA_STARTUP_FAILED] = "REPLICA_STARTUP_FAILED",
        [AS_TRIGGER_HEALTH_CHECK_FAILED] = "HEALTH_CHECK_FAILED",
        [AS_TRIGGER_INTERNAL_ERROR] = "INTERNAL_ERROR",
        [AS_TRIGGER_DELETING] = "DELETING",
    };

    AS_ASSERT((size_t)t < AS_COUNT(names));
    return names[t];
}

/* 0: the best. */
static uint32_t badness(const struct as_condition *c)
{
    switch (c->status) {
    case AS_STATUS_DEPLOY_FAILED:
        return 3;
    case AS_STATUS_UNHEALTHY:
        return 2;
    case AS_STATUS_UPDATING:
        return 1;
    case AS_STATUS_UPSCALING:
    case AS_STATUS_DOWNSCALING:
        return c->trigger != AS_TRIGGER_AUTOSCALING;
    case AS_STATUS_HEALTHY:
        break;
    }
    return 0;
}

enum as_application_status as_application_status_of(const struct as_condition *const *deployments,
                                                    uint32_t n, bool deleting)
{
    static const enum as_application_status verdicts[] = {
        AS_APPLICATION_RUNNING, AS_APPLICATION_DEPLOYING, AS_APPLICATION_UNHEALTHY,
        AS_APPLICATION_DEPLOY_FAILED};
    uint32_t worst = 0;

    if (deleting)
        return AS_APPLICATION_DELETING;
    for (uint32_t i = 0; i < n; i++)
        worst = AS_MAX(worst, badness(deployments[i]));
    return n ? verdicts[worst] : AS_APPLICATION_NOT_STARTED;
}

const char *as_application_status_name(enum as_application_status s)
{
    static const char *const names[] = {
        [AS_APPLICATION_NOT_STARTED] = "NOT_STARTED",     [AS_APPLICATION_DEPLOYING] = "DEPLOYING",
        [AS_APPLICATION_DEPLOY_FAILED] = "DEPLOY_FAILED", [AS_APPLICATION_RUNNING] = "RUNNING",
        [AS_APPLICATION_UNHEALTHY] = "UNHEALTHY",         [AS_APPLICATION_DELETING] = "DELETING",
    };

    AS_ASSERT((size_t)s < AS_COUNT(names));
    return names[s];
}
