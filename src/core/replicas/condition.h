/* core/replicas/condition.h — the status of a deployment and of an application as shown to users:
 * status, trigger, text, since when.
 *
 * Statuses, triggers and transitions are those of Ray Serve (DeploymentStatus, ApplicationStatus),
 * with two differences, because a failed update is rolled back here and a dead replica is replaced
 * at once. First, a replica that dies during an update does not end the update; only the failure of
 * the update itself does (DEPLOY_FAILED). Second, DEPLOY_FAILED stays until somebody deploys,
 * scales or rolls back, although the version before serves. Pure; the owner of a condition decides
 * when a cause has occurred. Thread: the caller's.
 *
 *                    UPDATING        UP-, DOWNSCALING  HEALTHY       UNHEALTHY     DEPLOY_FAILED
 *   UPDATE           UPDATING        UPDATING          UPDATING      UPDATING      UPDATING
 *   SCALE …          stays           UPSCALING or DOWNSCALING in all other statuses (1)
 *   STARTUP_FAILED   DEPLOY_FAILED   UNHEALTHY         UNHEALTHY     UNHEALTHY     stays
 *   REPLICA_FAILED   stays           UNHEALTHY         UNHEALTHY     UNHEALTHY     stays
 *   ROLLED_BACK      DEPLOY_FAILED in any status
 *   SETTLED          HEALTHY         HEALTHY           stays         HEALTHY       HEALTHY (2)
 *
 * (1) DEPLOY_FAILED stays if load scales it   (2) stays if the update was rolled back
 */
#ifndef AS_CORE_CONDITION_H
#define AS_CORE_CONDITION_H

#include "base/str.h"

#define AS_CONDITION_TEXT_MAX 2048u /* bytes of the text; a longer one is cut */
#define AS_CONDITION_LACK_MAX 512u  /* bytes of `lack`; a longer one is cut */

enum as_condition_status {
    AS_STATUS_UPDATING,
    AS_STATUS_HEALTHY,
    AS_STATUS_UNHEALTHY,
    AS_STATUS_DEPLOY_FAILED,
    AS_STATUS_UPSCALING,
    AS_STATUS_DOWNSCALING
};

/* Why the status has its value, in Ray's names. */
enum as_condition_trigger {
    AS_TRIGGER_UNSPECIFIED,
    AS_TRIGGER_CONFIG_UPDATE_STARTED,
    AS_TRIGGER_CONFIG_UPDATE_COMPLETED,
    AS_TRIGGER_UPSCALE_COMPLETED,
    AS_TRIGGER_DOWNSCALE_COMPLETED,
    AS_TRIGGER_AUTOSCALING,
    AS_TRIGGER_REPLICA_STARTUP_FAILED,
    AS_TRIGGER_HEALTH_CHECK_FAILED,
    AS_TRIGGER_INTERNAL_ERROR,
    AS_TRIGGER_DELETING
};

struct as_condition {
    enum as_condition_status status;
    enum as_condition_trigger trigger;
    as_ns since;      /* since when the status has its value */
    bool rolled_back; /* an update failed, and the version before is the target again */
    uint32_t n;
    char text[AS_CONDITION_TEXT_MAX]; /* n bytes for people; may have several lines */
    uint32_t n_lack;
    /* the resource that replicas wait for; independent of the status */
    char lack[AS_CONDITION_LACK_MAX];
};

enum as_condition_cause {
    AS_CAUSE_UPDATE,   /* somebody has deployed or rolled back by hand */
    AS_CAUSE_SCALE_UP, /* by hand */
    AS_CAUSE_SCALE_DOWN,
    AS_CAUSE_AUTOSCALE_UP,
    AS_CAUSE_AUTOSCALE_DOWN,
    AS_CAUSE_STARTUP_FAILED, /* an update has failed, or a replica was given up */
    AS_CAUSE_ROLLED_BACK,    /* an update has failed; the version before is the target again */
    AS_CAUSE_REPLICA_FAILED, /* a replica that was ready has died, or was killed as unhealthy */
    AS_CAUSE_SETTLED,        /* the target is reached */
    AS_CAUSE_DELETE
};

/* Status UPDATING since now. */
void as_condition_init(struct as_condition *c, as_ns now);
/* Applies a cause; text may be empty. True: status, trigger or text has changed. */
bool as_condition_apply(struct as_condition *c, enum as_condition_cause cause, struct as_str text,
                        as_ns now);
struct as_str as_condition_text(const struct as_condition *c);
/* Sets the resource that replicas wait for; empty: none. True: it has changed. The status is not
 * affected. */
bool as_condition_set_lack(struct as_condition *c, struct as_str lack);
struct as_str as_condition_lack(const struct as_condition *c);

const char *as_condition_status_name(enum as_condition_status s);   /* "HEALTHY" */
const char *as_condition_trigger_name(enum as_condition_trigger t); /* "UNSPECIFIED" */

enum as_application_status {
    AS_APPLICATION_NOT_STARTED,
    AS_APPLICATION_DEPLOYING,
    AS_APPLICATION_DEPLOY_FAILED,
    AS_APPLICATION_RUNNING,
    AS_APPLICATION_UNHEALTHY,
    AS_APPLICATION_DELETING
};

/* The worst of its deployments decides: DEPLOY_FAILED, UNHEALTHY, an update or scaling by hand
 * (DEPLOYING), else RUNNING. Scaling by load leaves an application RUNNING. No deployments:
 * NOT_STARTED. Deleting: DELETING whatever they are. */
enum as_application_status as_application_status_of(const struct as_condition *const *deployments,
                                                    uint32_t n, bool deleting);
const char *as_application_status_name(enum as_application_status s);

#endif
