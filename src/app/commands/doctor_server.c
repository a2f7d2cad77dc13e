/* The server that runs, and what it serves. */
#include "app/client/control_client.h"
#include "app/commands/doctor_internal.h"
#include "conf/option/exit_code.h"
#include "edge/admin/status_page.h"
#include "io/process/proc.h"
#include "tool/server/record.h"
#include "tool/server/which_server.h"

#include <dirent.h>
#include <stdlib.h>

#define ANSWER_WAIT  (3 * AS_SEC)
#define REASON_MAX   160u /* bytes of a deployment's message that are shown */
#define SHOWN        3u   /* deployments that are named */
#define LIMITS_BYTES 4096 /* more than /proc/PID/limits has */

/* --- processes --- */

bool as_doctor_read_limit(pid_t pid, const char *name, uint64_t *ret_n)
{
    char path[64], text[LIMITS_BYTES], *line, word[32];

    snprintf(path, sizeof(path), "/proc/%d/limits", (int)pid);
    if (!as_proc_read_file(path, text, sizeof(text)))
        return false;
    line = strstr(text, name);
    if (!line || sscanf(line + strlen(name), " %31s", word) != 1)
        return false;
    if (strcmp(word, "unlimited") == 0) {
        *ret_n = UINT64_MAX;
        return true;
    }
    return as_str_u64(as_str_of(word), ret_n) == 0;
}

bool as_doctor_count_files(pid_t pid, uint32_t *ret_n)
{
    char path[64];
    DIR *dir;

    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    dir = opendir(path);
    if (!dir)
        return false;
    *ret_n = 0;
    for (const struct dirent *e; (e = readdir(dir));)
        *ret_n += e->d_name[0] != '.';
    closedir(dir);
    return true;
}

/* --- the status page --- */

struct page {
    bool ready;
    struct as_status_page_exposure exposure;
    int64_t dispatcher, worker;
    enum as_doctor_verdict served;
    uint32_t n, n_bad;
    struct as_buf bad; /* "ranker: no replica is ready, 2 are wanted: …" */
};

static int read_deployment(struct as_json *j, struct as_json_items *it, void *ctx)
{
    struct page *p = ctx;
    struct as_str name = {0}, status = {0}, message = {0};
    int64_t wanted = -1, ready = 0;
    const struct as_json_row fields[] = {{"name", AS_JSON_FIELD_STR, &name},
                                         {"status", AS_JSON_FIELD_STR, &status},
                                         {"message", AS_JSON_FIELD_STR, &message},
                                         {"wanted", AS_JSON_FIELD_I64, &wanted},
                                         {"ready", AS_JSON_FIELD_I64, &ready}};
    int err = as_json_read(j, &it->value, fields, AS_COUNT(fields));
    bool is_changing = as_str_eq(status, AS_STR("UPDATING")) ||
                       as_str_eq(status, AS_STR("UPSCALING")) ||
                       as_str_eq(status, AS_STR("DOWNSCALING"));
    bool is_gone = wanted > 0 && ready == 0 && !is_changing;

    if (err)
        return err;
    p->n++;
    if (wanted <= ready && !as_str_eq(status, AS_STR("UNHEALTHY")) &&
        !as_str_eq(status, AS_STR("DEPLOY_FAILED")))
        return 0;
    p->served = AS_MAX(p->served, is_gone ? AS_DOCTOR_FAIL : AS_DOCTOR_WARN);
    if (p->n_bad++ >= SHOWN)
        return 0;
    as_buf_str(&p->bad, p->n_bad > 1 ? "; " : "");
    as_record_line(&p->bad, name, REASON_MAX);
    if (wanted > 0 && ready == 0)
        as_buf_printf(&p->bad, ": no replica is ready, %lld %s wanted", (long long)wanted,
                      wanted == 1 ? "is" : "are");
    else if (wanted > ready)
        as_buf_printf(&p->bad, ": %lld of %lld replicas %s ready", (long long)ready,
                      (long long)wanted, ready == 1 ? "is" : "are");
    else
        as_buf_printf(&p->bad, ": %.*s", AS_STR_FMT(status));
    if (message.n)
        as_buf_str(&p->bad, ": ");
    as_record_line(&p->bad, message, REASON_MAX);
    return 0;
}

static int read_replica(struct as_json *j, struct as_json_items *it, void *ctx)
{
    struct page *p = ctx;
    const struct as_json_row fields[] = {{"pid", AS_JSON_FIELD_I64, &p->worker}};

    return as_json_read(j, &it->value, fields, AS_COUNT(fields));
}

static bool read_page(struct as_str text, struct page *p)
{
    const struct as_json_row own[] = {{"ready", AS_JSON_FIELD_BOOL, &p->ready},
                                      {"pid", AS_JSON_FIELD_I64, &p->dispatcher}};
    const struct as_json_row others[] = {
        {"clear_text", AS_JSON_FIELD_BOOL, &p->exposure.clear_text},
        {"anybody", AS_JSON_FIELD_BOOL, &p->exposure.anybody},
        {"status_anybody", AS_JSON_FIELD_BOOL, &p->exposure.status_anybody}};
    struct as_json_fields server = {own, AS_COUNT(own)}, exposure = {others, AS_COUNT(others)};
    struct as_json_list deployments = {.each = read_deployment, .ctx = p},
                        replicas = {.each = read_replica, .ctx = p};
    const struct as_json_row fields[] = {{"server", AS_JSON_FIELD_OBJECT, &server},
                                         {"exposure", AS_JSON_FIELD_OBJECT, &exposure},
                                         {"deployments", AS_JSON_FIELD_LIST, &deployments},
                                         {"replicas", AS_JSON_FIELD_LIST, &replicas}};
    struct as_json_text r;
    int err = as_record_parse(&r, text, fields, AS_COUNT(fields));

    as_json_text_close(&r);
    return !err && p->dispatcher > 0;
}

static bool fetch_page(const struct as_doctor *d, struct page *p)
{
    struct as_control_client_request q = {.socket = AS_RUNTIME_STATUS,
                                          .method = "GET",
                                          .target = "/status",
                                          .wait = ANSWER_WAIT,
                                          .is_quiet = true};
    struct as_control_client_answer a;
    bool ok = as_control_client_call(d->opts, &q, &a) == AS_EXIT_CODE_OK && a.status == 200 &&
              read_page(a.body, p);

    as_control_client_answer_fini(&a);
    return ok;
}

static void report_served(struct as_doctor *d, const struct page *p)
{
    if (p->served == AS_DOCTOR_OK)
        as_doctor_report(d, "served", AS_DOCTOR_OK, "", "%u deployment%s, each with its replicas",
                         p->n, p->n == 1 ? "" : "s");
    else
        as_doctor_report(d, "served", p->served,
                         "anyserve status shows each of them, anyserve logs the output of their "
                         "replicas",
                         "%.*s%s", AS_STR_FMT(as_buf_slice(&p->bad)),
                         p->n_bad > SHOWN ? "; …" : "");
}

static void report_exposure(struct as_doctor *d, const struct page *p)
{
    struct as_buf why = {0};

    as_status_page_describe_exposure(&p->exposure, &why);
    if (why.n)
        as_doctor_report(d, "exposure", AS_DOCTOR_WARN,
                         "docs/guide/security.md; or listen on the loopback, behind a proxy",
                         "%.*s", AS_STR_FMT(as_buf_slice(&why)));
    else
        as_doctor_report(d, "exposure", AS_DOCTOR_OK, "",
                         "no client of another machine comes in unasked");
    as_buf_fini(&why);
}

/* --- its controller --- */

static void check_control(struct as_doctor *d)
{
    struct as_control_client_request q = {.socket = AS_RUNTIME_CONTROL,
                                          .method = "GET",
                                          .target = "/api/serve/applications/",
                                          .wait = ANSWER_WAIT,
                                          .is_quiet = true};
    struct as_control_client_answer a;
    struct as_str state = {0};
    const struct as_json_row info[] = {{"state_dir", AS_JSON_FIELD_STR, &state}};
    struct as_json_fields of = {info, AS_COUNT(info)};
    const struct as_json_row fields[] = {{"controller_info", AS_JSON_FIELD_OBJECT, &of}};
    struct as_json_text r;

    if (as_control_client_call(d->opts, &q, &a) != AS_EXIT_CODE_OK || a.status != 200) {
        as_doctor_report(
            d, "control", AS_DOCTOR_FAIL, "see anyserve logs --replica controller",
            "its controller does not answer: what is served cannot be changed, and dead "
            "replicas are not replaced");
    } else {
        as_doctor_report(d, "control", AS_DOCTOR_OK, "", "its controller answers");
        if (as_record_parse(&r, a.body, fields, AS_COUNT(fields)) == 0 && state.n)
            d->server.state_dir = as_str_dup(state);
        as_json_text_close(&r);
    }
    as_control_client_answer_fini(&a);
}

/* --- the server --- */

void as_doctor_check_server(struct as_doctor *d)
{
    struct as_doctor_server *s = &d->server;
    struct page p = {0};

    s->port = as_which_server_locate(d->opts, &s->base);
    s->is_running = as_runtime_is_running(s->base, s->port);
    if (!s->is_running) {
        as_doctor_report(
            d, "server", AS_DOCTOR_OK, "",
            "none runs on port %u in %s; the other checks are for a server started here", s->port,
            s->base);
        return;
    }
    if (fetch_page(d, &p)) {
        s->dispatcher = (pid_t)p.dispatcher;
        s->worker = (pid_t)p.worker;
        as_doctor_report(d, "server", p.ready ? AS_DOCTOR_OK : AS_DOCTOR_WARN,
                         "anyserve status shows what is missing", "the server on port %u is %s",
                         s->port, p.ready ? "ready" : "not ready");
        report_served(d, &p);
        report_exposure(d, &p);
    } else {
        as_doctor_report(d, "server", AS_DOCTOR_FAIL,
                         "see anyserve logs; a second SIGTERM ends it at once",
                         "the server on port %u does not answer", s->port);
    }
    check_control(d);
    as_buf_fini(&p.bad);
}

void as_doctor_server_fini(struct as_doctor *d)
{
    free(d->server.base);
    free(d->server.state_dir);
}
