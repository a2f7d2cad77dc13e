#include "edge/methods/metadata.h"

#include "edge/triton/extension.h"
#include "wire/oip/oip_json.h"

void as_metadata_server(struct as_exchange *x)
{
    struct as_str extensions[AS_EXTENSIONS];
    struct as_oip_server s = {.name = AS_STR("anyserve"),
                              .version = AS_STR(AS_VERSION),
                              .extensions = extensions,
                              .n_extensions = as_extension_list(x->edge, extensions)};
    struct as_buf out = {0};

    if (x->grpc)
        as_oip_put_server(&out, &s);
    else
        as_oip_json_put_server(&out, &s);
    as_extension_reply(x, 0, &out);
}

void as_metadata_model(struct as_exchange *x, struct as_str name, struct as_str version)
{
    const struct as_model *m = as_exchange_find_model(x, name, version), **all;
    struct as_oip_model model;
    struct as_str *versions;
    struct as_buf out = {0};
    uint32_t n;

    if (!m)
        return;
    n = as_registry_versions(x->registry, m->name, NULL, 0);
    all = as_exchange_alloc(x, n * sizeof(struct as_model *), 8, "the answer");
    versions = all ? as_exchange_alloc(x, n * sizeof(*versions), 8, "the answer") : NULL;
    if (!versions)
        return;
    as_registry_versions(x->registry, m->name, all, n);
    for (uint32_t i = 0; i < n; i++)
        versions[i] = all[i]->version;
    model = (struct as_oip_model){.name = m->name,
                                  .platform = m->platform,
                                  .versions = versions,
                                  .n_versions = n,
                                  .inputs = m->inputs,
                                  .outputs = m->outputs,
                                  .n_inputs = m->n_inputs,
                                  .n_outputs = m->n_outputs};
    if (x->grpc)
        as_oip_put_model(&out, &model);
    else
        as_oip_json_put_model(&out, &model);
    as_extension_reply(x, 0, &out);
}
