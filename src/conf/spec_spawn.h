/* conf/spec_spawn.h — what a deployment's keys mean for the process of a replica: environment,
 * folder, CPUs, memory; and which GPUs and CPUs it gets of those there are. Pure.
 */
#ifndef AS_CONF_SPEC_SPAWN_H
#define AS_CONF_SPEC_SPAWN_H

#include "conf/spec.h"

/* --- devices that replicas take, whole or in parts --- */

#define AS_SPEC_DEVICES_MAX 1024u

/* The GPUs, or the CPUs, of this machine, and how much of each is free. */
struct as_spec_devices {
    uint32_t n;
    uint16_t id[AS_SPEC_DEVICES_MAX];   /* as the system calls it */
    uint16_t used[AS_SPEC_DEVICES_MAX]; /* thousandths */
};

/* From a list as "0-3,8" (of sched_getaffinity, of CUDA_VISIBLE_DEVICES). 0, or AS_EINVALID. */
int as_spec_devices_init(struct as_spec_devices *ret_d, const char *list);
/* `thousandths` of a device, or that many whole ones: the fullest device that has room for a part,
 * the first free ones for wholes. Their ids, comma between, are appended to `ret_list`. 0;
 * AS_EFULL: there is not that much, and nothing was taken. */
int as_spec_devices_allocate(struct as_spec_devices *d, int64_t thousandths,
                             struct as_buf *ret_list);
/* What a take gave, by its list; also to take it again after a restart of the controller (release
 * false). 0; AS_EINVALID: it is no such list, or more than was taken, or than there is; nothing is
 * changed. */
int as_spec_devices_adjust(struct as_spec_devices *d, int64_t thousandths, const char *list,
                           bool release);

/* --- the process --- */

struct as_spec_spawn {
    const char **env; /* "NAME=value", NULL-terminated */
    const char *dir;  /* or NULL */
    const char *cpus; /* as as_proc_spec wants them, or NULL */
    uint64_t memory;  /* bytes; 0: no limit */
    char *owned;      /* texts that env points into */
};

/* gpus: the list that was taken for num_gpus, "" for none; NULL: the deployment says nothing of
 * GPUs. cpus: the list that was taken for `cpu_affinity: auto`, else NULL. Variables that the
 * user's env sets are left as they are there. Points into both objects and both lists, which must
 * outlive it. */
void as_spec_spawn_init(struct as_spec_spawn *ret_s, const struct as_spec_object *app,
                        const struct as_spec_object *deployment, const char *gpus,
                        const char *cpus);
void as_spec_spawn_fini(struct as_spec_spawn *s);

#endif
