/* The texts of SPAWN and ASK for a replica: what its process is started with, and reconfigured to.
 */
#include "conf/spec/spec_plan.h"
#include "ctl/message/replica_context.h"
#include "ctl/reconcile/reconciler_internal.h"
#include "ctl/state/code_store.h"

#include <errno.h>
#include <inttypes.h>

void as_reconciler_remove_context(struct as_replica_slot *slot)
{
    struct as_reconciler_process *proc = as_reconciler_process(slot);

    if (proc->has_context_file)
        as_replica_context_remove(proc->deployment->reconciler->conf.folder,
                                  as_reconciler_slot_name(slot));
    proc->has_context_file = false;
}

int as_reconciler_write_spawn(struct as_replica_slot *slot, struct as_buf *text, struct as_buf *why)
{
    const struct as_replica_slot_facts *f = as_replica_slot_facts(slot);
    struct as_reconciler_process *proc = as_reconciler_process(slot);
    struct as_reconciler *r = proc->deployment->reconciler;
    struct as_generations_deployment specs;
    struct as_buf json = {0}, env = {0};
    int rc;

    if (!as_generations_find(&r->generations, f->generation, as_str_of(proc->deployment->name),
                             &specs)) {
        as_buf_printf(why, "generation %" PRIu64 " is not stored any more\n", f->generation);
        return AS_ENOTFOUND;
    }
    if (as_code_store_is_copy(as_spec_str(specs.app, AS_SPEC_APPLICATION_CODE)) &&
        as_code_store_check(r->conf.worker_spec.code,
                            as_spec_str(specs.app, AS_SPEC_APPLICATION_CODE), why) < 0) {
        as_buf_str(why, "\n");
        return AS_ENOTFOUND;
    }
    rc = as_reconciler_assign_devices(proc, specs.deployment, why);
    if (rc < 0)
        return rc;
    as_spec_put_context(specs.app, specs.deployment, as_id_name(as_replica_slot_name(slot)).p, f,
                        &json);
    proc->has_context_file = json.n > AS_REPLICA_CONTEXT_INLINE;
    rc = as_replica_context_env(r->conf.folder, as_reconciler_slot_name(slot), as_buf_slice(&json),
                                &env);
    if (rc < 0)
        as_buf_printf(why, "cannot write its user_config to %s: %s\n", r->conf.folder,
                      strerror(errno));
    else
        as_worker_spec_write(
            &r->conf.worker_spec, specs.app, specs.deployment,
            &(struct as_worker_spec_replica){.name = as_id_name(as_replica_slot_name(slot)).p,
                                             .token = proc->token,
                                             .context = as_buf_cstr(&env),
                                             .gpus = proc->devices[AS_RECONCILER_GPUS].list,
                                             .cpus = proc->devices[AS_RECONCILER_CPUS].list},
            text);
    as_buf_fini(&json);
    as_buf_fini(&env);
    AS_ASSERT(text->n <= AS_CTL_TEXT_MAX); /* a deploy checks as_worker_spec_own_size */
    return rc;
}

/* Whether its user_config must be sent: it differs from what the process has, or that is not known.
 */
static bool is_config_changed(struct as_reconciler *r, const struct as_replica_slot *slot,
                              const struct as_replica_slot_facts *facts,
                              const struct as_spec_object *to)
{
    struct as_reconciler_process *proc = as_reconciler_process(slot);
    const char *a, *b = as_spec_str(to, AS_SPEC_DEPLOYMENT_USER_CONFIG);
    struct as_generations_deployment was;

    if (facts->unsure ||
        !as_generations_find(&r->generations, as_replica_slot_facts(slot)->generation,
                             as_str_of(proc->deployment->name), &was))
        return true;
    a = as_spec_str(was.deployment, AS_SPEC_DEPLOYMENT_USER_CONFIG);
    return a == NULL || b == NULL ? a != b : strcmp(a, b) != 0;
}

void as_reconciler_write_reconfigure(struct as_replica_slot *slot,
                                     const struct as_replica_slot_facts *to, struct as_buf *text)
{
    struct as_reconciler_process *proc = as_reconciler_process(slot);
    struct as_reconciler *r = proc->deployment->reconciler;
    struct as_generations_deployment specs;
    struct as_buf json = {0};

    if (as_generations_find(&r->generations, to->generation, as_str_of(proc->deployment->name),
                            &specs))
        as_spec_put_changes(specs.deployment, to, is_config_changed(r, slot, to, specs.deployment),
                            &json);
    as_buf_str(text, "reconfigure ");
    proc->has_context_file = json.n > AS_REPLICA_CONTEXT_INLINE;
    /* the replica then refuses the empty message, and its answer says so */
    if (as_replica_context_json(r->conf.folder, as_reconciler_slot_name(slot), as_buf_slice(&json),
                                text) < 0)
        as_log_event(r->log, AS_LOG_ERROR, "context_not_written",
                     "replica=%s folder=%s reason=\"%s\"",
                     as_id_shown_z(as_reconciler_slot_name(slot)), r->conf.folder, strerror(errno));
    as_buf_fini(&json);
}
