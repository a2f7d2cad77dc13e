/* Specification of the state over an upgrade's exec between versions: what a former version wrote
 * is read, and what a later one might write. `states` has states of real servers: two replicas, one
 * of them restarted after a SIGKILL, half a line of output, and a spare. format3 was written by the
 * last version without proto/state.proto, minor1 by the first one with it. */
#include "ctl/message/spawn.h"
#include "ctl/supervise/supervisor.h"
#include "ctl/supervise/workers.h"
#include "unit.h"

#include <fcntl.h>
#include <unistd.h>

static void on_stopped(void *ctx AS_UNUSED)
{
    fail(); /* nothing has run */
}

/* Restores what the supervisor restores, as `resume check` does. */
static void restore(struct as_reexec_reader *in)
{
    struct as_supervisor_conf conf;
    struct as_console console;
    struct as_workers *workers;
    struct as_loop *loop;
    struct as_log log = {.level = AS_LOG_ERROR};
    uint64_t oom_seen = 0;
    struct as_workers_conf workers_conf = {.oom_seen = &oom_seen, .on_stopped = on_stopped};

    as_supervisor_conf_restore(&conf, in);
    assert_string_equal(conf.address, "127.0.0.1:18777");
    as_supervisor_conf_fini(&conf);
    assert_int_equal(as_loop_new(&loop, 0), 0);
    as_console_init(&console, loop, -1);
    console.broken = true;
    as_workers_new(&workers, loop, &workers_conf, &console, &log);
    as_workers_restore(workers, in, NULL, NULL);
    as_workers_close(workers);
    as_console_close(&console);
    as_loop_free(loop);
    as_workers_free(workers);
}

static void load(struct as_reexec_reader *in, const char *name, struct as_buf *why)
{
    char path[512];
    int fd;

    snprintf(path, sizeof(path), "%s/%s", STATES, name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(as_reexec_reader_load(in, fd, true, why), 0);
    close(fd);
}

static void check_process(const As__Process *p, bool prints)
{
    assert_non_null(p);
    assert_true(p->pid > 1 && p->pidfd > 2 && p->out > 2 && p->group && !p->stopping);
    assert_true(p->kill_at == 0);
    assert_int_equal(p->output->n_tail, prints);
    if (!prints)
        return;
    assert_true(as_str_eq(as_reexec_str(p->output->tail[0]), AS_STR("loaded")));
    assert_true(as_str_eq(as_reexec_str(p->output->line), AS_STR("half a line")));
}

/* SPAWN's text is a message of the schema, whichever version wrote the state. */
static void check_spawn(const As__Replica *r)
{
    struct as_spawn s;

    assert_int_equal(as_spawn_parse(&s, as_reexec_str(r->spawn)), 0);
    assert_string_equal(s.argv[0], "/tmp/fx/python");
    assert_string_equal(s.argv[3], "shop:app");
    assert_int_equal(s.message->n_own_env, 3);
    assert_true(s.batch);
    assert_int_equal(as_spawn_spares(as_reexec_str(r->spawn)), 1);
    as_spawn_fini(&s);
}

static void check(const As__Supervisor *s)
{
    const As__Replica *first = s->replicas[0], *second = s->replicas[1];

    assert_string_equal(s->target, "shop:app");
    assert_true(s->complete && s->upgrade_began > 0);
    assert_int_equal(s->n_listeners, 5);
    assert_string_equal(s->listeners[0]->kind, "grpc");
    assert_string_equal(s->command->name, "run");
    assert_int_equal(s->command->n_options, 7);
    assert_string_equal(s->command->options[0], "--port=18777");
    assert_string_equal(s->command->arguments[0], "shop:app");
    assert_string_equal(s->command->runtime_path, "/tmp/fx/rt/18777");
    assert_int_equal(s->dispatcher->starts, 1);
    assert_true(s->controller->control > 2 && s->controller->ready_at > 0);
    check_process(s->dispatcher->process, false);
    check_process(s->controller->process, false);
    assert_int_equal(s->n_replicas, 2);
    assert_string_equal(first->name, "shop-1");
    assert_string_equal(first->deployment, "shop");
    assert_string_equal(first->state, "ready");
    assert_int_equal(strlen(first->token), 32);
    assert_non_null(strstr(first->note, "number=1 generation=1"));
    check_process(first->process, true);
    check_spawn(first);
    check_spawn(second);
    assert_string_equal(second->name, "shop-0");
    assert_int_equal(second->restarts, 1);
    assert_int_equal(second->end_status, 9);
    check_process(second->process, true);
    assert_int_equal(s->n_deployments, 2);
    assert_string_equal(s->deployments[0]->application, "default");
    assert_true(
        as_str_eq(as_reexec_str(s->deployments[0]->status), AS_STR("HEALTHY UNSPECIFIED ")));
    assert_int_equal(s->n_spares, 1);
    check_process(s->spares[0]->process, true);
    /* of the supervisor, command, services, replicas and the spare */
    assert_int_equal(s->n_fds, 2 + 5 + 1 + 2 * 3 + 2 * 2 + 2);
}

static void states_of_former_versions_are_read(void **state AS_UNUSED)
{
    static const char *const written[] = {"format3", "minor1"};

    for (size_t i = 0; i < AS_COUNT(written); i++) {
        struct as_reexec_reader in;
        struct as_buf why = {0};

        load(&in, written[i], &why);
        assert_int_equal(in.state->minor, i);
        assert_int_equal(in.state->dispatcher->messages, i ? AS_CTL_PLAIN_FORMAT : 0);
        check(in.state);
        restore(&in);
        assert_false(in.failed);
        assert_int_equal(why.n, 0);
        /* of the command and the two services, which were not restored */
        assert_int_equal(in.state->n_fds, 1 + 2 * 3);
        as_reexec_reader_fini(&in);
    }
}

/* Gives the message and all messages in it a field that no version has. */
static void add_unknown_fields(ProtobufCMessage *m)
{
    static uint8_t later[] = {5, 'l', 'a', 't', 'e', 'r'};
    const ProtobufCMessageDescriptor *d = m->descriptor;
    ProtobufCMessageUnknownField unknown = {.tag = 1000,
                                            .wire_type = PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED,
                                            .len = sizeof(later),
                                            .data = as_xalloc(sizeof(later))};

    memcpy(unknown.data, later, sizeof(later));
    m->unknown_fields = as_xalloc(sizeof(unknown));
    m->unknown_fields[0] = unknown;
    m->n_unknown_fields = 1;
    for (unsigned i = 0; i < d->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &d->fields[i];
        void *at = (uint8_t *)m + f->offset;
        size_t n = 1;

        if (f->type != PROTOBUF_C_TYPE_MESSAGE)
            continue;
        if (f->label == PROTOBUF_C_LABEL_REPEATED) {
            memcpy(&n, (uint8_t *)m + f->quantifier_offset, sizeof(n));
            at = *(void **)at;
        }
        for (size_t k = 0; k < n; k++) {
            if (((ProtobufCMessage **)at)[k])
                add_unknown_fields(((ProtobufCMessage **)at)[k]);
        }
    }
}

static void a_later_version_may_have_more_fields(void **state AS_UNUSED)
{
    struct as_reexec_reader in, later;
    struct as_buf why = {0};
    int fd;

    load(&in, "minor1", &why);
    in.state->minor = AS_REEXEC_MINOR + 1;
    add_unknown_fields(&in.state->base);
    fd = as_reexec_make_memfd(in.state);
    assert_int_equal(as_reexec_reader_load(&later, fd, true, &why), 0);
    assert_int_equal(later.state->minor, AS_REEXEC_MINOR + 1);
    check(later.state);
    restore(&later);
    assert_false(later.failed);
    as_reexec_reader_fini(&later);
    as_reexec_reader_fini(&in);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_of_former_versions_are_read),
        cmocka_unit_test(a_later_version_may_have_more_fields),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
