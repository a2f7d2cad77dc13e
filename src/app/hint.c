#include "app/hint.h"

#include "app/command.h"

/* Words from Docker, systemd, Kubernetes, Ray Serve and other model servers, each with one or two
 * of our commands; options may follow the command's name. */
static const struct {
    const char *word, *first, *second;
} hints[] = {
    {"stop", "shutdown", NULL},   {"kill", "shutdown", NULL},      {"down", "shutdown", NULL},
    {"quit", "shutdown", NULL},   {"exit", "shutdown", NULL},      {"ps", "status", NULL},
    {"ls", "status", NULL},       {"list", "status", NULL},        {"show", "status", NULL},
    {"info", "status", NULL},     {"models", "status", NULL},      {"get", "status", "config"},
    {"describe", "status", NULL}, {"inspect", "status", NULL},     {"top", "status -w", NULL},
    {"watch", "status -w", NULL}, {"serve", "run", "start"},       {"up", "start", NULL},
    {"apply", "deploy", NULL},    {"update", "deploy", "upgrade"}, {"reload", "deploy", "restart"},
    {"rm", "delete", NULL},       {"remove", "delete", NULL},      {"undeploy", "delete", NULL},
    {"undo", "rollback", NULL},   {"log", "logs", NULL},           {"call", "infer", NULL},
    {"predict", "infer", NULL},   {"invoke", "infer", NULL},       {"benchmark", "bench", NULL},
    {"validate", "check", NULL},  {"lint", "check", NULL},         {"init", "build", NULL},
};

static void write_command(struct as_buf *out, const char *command)
{
    size_t n = strcspn(command, " ");

    as_buf_printf(out, "\n  anyserve %-14s ", command);
    for (uint32_t i = 0; i < as_commands_n; i++) {
        if (strncmp(as_commands[i].name, command, n) == 0 && !as_commands[i].name[n])
            as_buf_str(out, as_commands[i].doc);
    }
}

bool as_hint_write(const char *word, struct as_buf *out)
{
    for (size_t i = 0; i < AS_COUNT(hints); i++) {
        if (strcmp(hints[i].word, word) != 0)
            continue;
        write_command(out, hints[i].first);
        if (hints[i].second)
            write_command(out, hints[i].second);
        return true;
    }
    return false;
}
