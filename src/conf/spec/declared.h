/* conf/spec/declared.h — the deployments that the code of an application declares, as the worker
 * program describes them.
 *
 * The description has a line for each deployment, with tabs between its parts: the name, the
 * options that the code sets (a JSON object, left out when there are none), then model:version for
 * each model. Lines without a tab are output of the user's module while it was imported. A line
 * that begins with "@" is about the code:
 *
 *     @files  the files that it was loaded from, if they are beside the application's file
 *     @code   the copy that was made of it, as the key `code` of a deployment file names it
 *     @args   the arguments, a JSON object, of a function that built the application
 *     @call   a shell command that calls one of the models, without the option for the server;
 *             empty: handles call it
 *     @register  a deployment, a model of it, and how a worker registers that (the frame REGISTER,
 *             docs/protocol/link.md) in base64; behind the deployment's line. A model without one
 *             is known from its workers only.
 */
#ifndef AS_CONF_DECLARED_H
#define AS_CONF_DECLARED_H

#include "base/buf.h"
#include "base/err.h"

#define AS_DECLARED_DEPLOYMENTS_MAX 256u
#define AS_DECLARED_MODELS_MAX      1024u      /* of one deployment */
#define AS_DECLARED_BYTES_MAX       (4u << 20) /* of the whole description */
#define AS_DECLARED_FILES_MAX       4096u

struct as_declared_model {
    char *name;          /* "name:version" */
    struct as_buf frame; /* REGISTER; empty: not known */
};

struct as_declared_deployment {
    char *name;
    char
        *options; /* a JSON object with keys of conf/spec/spec_row.h, not checked yet; NULL: none */
    struct as_declared_model *models;
    uint32_t n_models;
};

struct as_declared {
    struct as_declared_deployment *deployments;
    uint32_t n;   /* 0 only with `code`, when its deployments were known before */
    char *code;   /* the copy that it is served from; NULL: none was made */
    char **files; /* absolute paths */
    uint32_t n_files;
    char *call; /* "": handles call it; or NULL */
    char *args; /* the key `args`; or NULL */
};

/* Parses a description; pure. Lines of the user's module are passed to `other` (may be NULL). 0;
 * AS_EINVALID: `err` says what is wrong with the description. */
int as_declared_parse(struct as_declared *ret_app, struct as_str text,
                      void (*other)(void *ctx, struct as_str line), void *ctx, struct as_buf *err);
/* Appends the description that as_declared_parse reads. */
void as_declared_write(const struct as_declared *app, struct as_buf *b);
/* The same without the lines about the code, to compare what two versions of it declare. */
void as_declared_write_deployments(const struct as_declared *app, struct as_buf *b);
void as_declared_fini(struct as_declared *app);

/* --- models of deployments; the controller has ids (base/id.h) for names --- */

/* NULL: there is none of that name. */
struct as_declared_deployment *as_declared_find(const struct as_declared *app, struct as_str name);
/* Appends a model to a deployment, which is made if there is none of that name. */
void as_declared_add_model(struct as_declared *app, struct as_str deployment, struct as_str model,
                           struct as_str frame);
/* Adds the models of one deployment, or of all, as they are in another description. */
void as_declared_copy_models(struct as_declared *app, const struct as_declared_deployment *from);
/* The same with the ids of the deployments in place of their names. */
void as_declared_copy_models_of(struct as_declared *app, struct as_str application,
                                const struct as_declared *from);
void as_declared_copy_all_models(struct as_declared *app, const struct as_declared *from);

#endif
