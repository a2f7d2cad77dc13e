/* Specification of ctl/supervise/status_cache, through ctl/supervise/workers: what a dispatcher is
 * told of models, by workers' registrations and by the controller's declarations. */
#include "ctl/supervise/status_cache.h"

#include "workers_world.h"

static void model(struct world *w, const char *name, const char *text, bool whole)
{
    struct as_ctl_message m = message_about(AS_CTL_MODEL, name, "", text);

    m.number = whole;
    send_message(w->dispatcher, m);
}

static void a_new_dispatcher_knows_the_models(void **state AS_UNUSED)
{
    struct world *w = open_world();

    run_one(w);
    as_workers_controller_ready(w->workers);
    model(w, "old:1", "REGISTER", false);
    model(w, "echo:1", "REGISTER", false);
    model(w, "", "OPTIONS", true);
    model(w, "old:1", "", false);
    model(w, "echo:2", "REGISTER 2", false);
    send_message(w->dispatcher, message_about(AS_CTL_READY, "echo-0", "t1", ""));
    run_until(w, "REPLICA echo-0 ready");
    as_workers_set_controller(w->workers, NULL); /* it is not asked */
    for (int i = 0; i < 2; i++) {
        begin_another_dispatcher(w);
        assert_string_equal(received(w->dispatcher),
                            "TOKEN echo-0 lost ;REPLICA echo-0 lost ;NOTE echo-0 lost ;"
                            "KNOWN echo:1 starting REGISTER;KNOWN echo:2 starting REGISTER 2;"
                            "KNOWN  starting OPTIONS;TOLD  starting ;");
        assert_int_equal(w->number, 1);
    }
    close_world(w);
}

static void models_go_with_their_deployment(void **state AS_UNUSED)
{
    struct world *w = open_world();

    run_one(w);
    as_workers_controller_ready(w->workers);
    model(w, "echo:1", "REGISTER", false);
    send_message(w->dispatcher, message_about(AS_CTL_READY, "echo-0", "t1", ""));
    run_until(w, "REPLICA echo-0 ready");
    send_message(w->controller, message_about(AS_CTL_DELETE, "", "", ""));
    run_until(w, "DELETE");
    begin_another_dispatcher(w);
    assert_null(strstr(received(w->dispatcher), "KNOWN"));
    kill((pid_t)w->pid, SIGKILL);
    run_until(w, "EXITED");
    model(w, "echo:1", "REGISTER", false); /* it was on its way when the process ended */
    send_message(w->dispatcher, message_about(AS_CTL_KILL, "echo-0", "t1", ""));
    send_message(w->controller, message_about(AS_CTL_PLACE, "echo-0", "", "behind it"));
    run_until(w, "behind it");
    begin_another_dispatcher(w);
    assert_null(strstr(received(w->dispatcher), "KNOWN"));
    close_world(w);
}

/* Until its last replica has ended: else its name would count as one that a replica may bring. */
static void a_new_dispatcher_knows_what_is_being_removed(void **state AS_UNUSED)
{
    struct world *w = open_world();

    run_one(w);
    as_workers_controller_ready(w->workers);
    send_message(w->controller, message_about(AS_CTL_DELETE, "", "", ""));
    send_message(w->controller, message_about(AS_CTL_STATUS, "shop", "", "UPDATING DELETING "));
    run_until(w, "STATUS");
    begin_another_dispatcher(w);
    assert_string_equal(received(w->dispatcher),
                        "TOKEN echo-0 starting ;REPLICA echo-0 starting ;NOTE echo-0 starting ;"
                        "DELETE  starting ;STATUS shop starting UPDATING DELETING ;"
                        "TOLD  starting ;");
    send_message(w->controller, message_about(AS_CTL_STATUS, "shop", "", /* it is served again */
                                              "UPDATING CONFIG_UPDATE_STARTED "));
    run_until(w, "STARTED");
    begin_another_dispatcher(w);
    assert_null(strstr(received(w->dispatcher), "DELETE"));
    close_world(w);
}

static void declare(struct world *w, const char *name, const char *text, bool whole)
{
    struct as_ctl_message m = message_about(AS_CTL_DECLARE, name, "", text);

    m.number = whole;
    send_message(w->controller, m);
}

/* Waits until the supervisor has read what came before. */
static void sync_controller(struct world *w)
{
    send_message(w->controller, message_about(AS_CTL_UP, "", "", ""));
    run_until(w, "UP ");
}

static void the_dispatcher_is_told_what_is_declared(void **state AS_UNUSED)
{
    struct world *w = open_world();

    as_workers_controller_ready(w->workers);
    run_until(w, "TOLD");
    clear_received(w);
    declare(w, "a:1", "REGISTER", false);
    declare(w, "b:1", "REGISTER", false);
    sync_controller(w);
    assert_string_equal(received(w->dispatcher), "UP  starting ;"); /* it is not complete */
    declare(w, "", "OPTIONS", true);
    run_until(w, "OPTIONS");
    assert_string_equal(received(w->dispatcher),
                        "UP  starting ;KNOWN a:1 starting REGISTER;KNOWN b:1 starting REGISTER;"
                        "KNOWN  starting OPTIONS;");
    assert_int_equal(w->number, 1);
    clear_received(w);
    declare(w, "a:1", "REGISTER", false);
    declare(w, "c:1", "REGISTER", false);
    declare(w, "", "OPTIONS 2", false);
    run_until(w, "OPTIONS 2");
    assert_string_equal(
        received(w->dispatcher),
        "KNOWN b:1 starting ;KNOWN c:1 starting REGISTER;KNOWN  starting OPTIONS 2;");
    assert_int_equal(w->number, 0);
    begin_another_dispatcher(w);
    assert_string_equal(received(w->dispatcher),
                        "KNOWN a:1 starting REGISTER;KNOWN c:1 starting REGISTER;"
                        "KNOWN  starting OPTIONS 2;TOLD  starting ;");
    close_world(w);
}

static void what_a_worker_registered_counts_more(void **state AS_UNUSED)
{
    struct world *w = open_world();

    as_workers_controller_ready(w->workers);
    run_one(w);
    declare(w, "a:1", "declared", false);
    declare(w, "", "OPTIONS", true);
    run_until(w, "OPTIONS");
    model(w, "a:1", "registered", false);
    model(w, "", "SETTINGS", true);
    send_message(w->dispatcher, message_about(AS_CTL_READY, "echo-0", "t1", ""));
    run_until(w, "REPLICA echo-0 ready");
    clear_received(w);
    declare(w, "b:1", "declared", false); /* a deploy */
    declare(w, "", "OPTIONS", true);
    sync_controller(w);
    assert_null(strstr(received(w->dispatcher), "KNOWN"));
    begin_another_dispatcher(w);
    assert_non_null(strstr(received(w->dispatcher),
                           "KNOWN a:1 starting registered;KNOWN  starting SETTINGS;TOLD"));
    model(w, "a:1", "", false); /* its last worker was asked to end */
    send_message(w->dispatcher, message_about(AS_CTL_READY, "echo-0", "t1", ""));
    run_until(w, "REPLICA echo-0 ready");
    begin_another_dispatcher(w);
    assert_non_null(strstr(received(w->dispatcher),
                           "KNOWN b:1 starting declared;KNOWN  starting OPTIONS;TOLD"));
    close_world(w);
}

static void what_the_next_controller_does_not_declare_is_forgotten(void **state AS_UNUSED)
{
    struct world *w = open_world();

    as_workers_controller_ready(w->workers);
    declare(w, "a:1", "REGISTER", false);
    declare(w, "", "OPTIONS", true);
    run_until(w, "OPTIONS");
    clear_received(w);
    for (int again = 1; again >= 0; again--) {
        as_workers_set_controller(w->workers, NULL);
        declare(w, "b:1", "incomplete", false); /* the controller died here */
        sync_controller(w);
        clear_received(w);
        as_workers_set_controller(w->workers, w->controller->channel);
        if (again) {
            declare(w, "a:1", "REGISTER", false);
            declare(w, "", "OPTIONS", true);
            sync_controller(w);
        }
        assert_null(strstr(received(w->dispatcher), "KNOWN")); /* nothing has changed */
        begin_another_dispatcher(w); /* before the new controller has said all */
        assert_string_equal(received(w->dispatcher),
                            "KNOWN a:1 starting REGISTER;KNOWN  starting OPTIONS;TOLD  starting ;");
        clear_received(w);
        as_workers_controller_ready(w->workers);
    }
    run_until(w, "KNOWN");
    assert_string_equal(received(w->dispatcher), "KNOWN a:1 starting ;");
    begin_another_dispatcher(w);
    assert_null(strstr(received(w->dispatcher), "KNOWN"));
    declare(w, "a:1", "REGISTER", false);
    declare(w, "", "OPTIONS", true);
    run_until(w, "OPTIONS");
    send_message(w->controller, message_about(AS_CTL_DELETE, "", "", ""));
    run_until(w, "DELETE");
    begin_another_dispatcher(w);
    assert_null(strstr(received(w->dispatcher), "KNOWN"));
    close_world(w);
}

static void say(struct as_status_cache *s, const char *deployment, const char *name, size_t n)
{
    static const char bytes[AS_CTL_TEXT_MAX];

    as_status_cache_update(s,
                           &(struct as_ctl_message){.type = AS_CTL_DECLARE,
                                                    .deployment = as_str_of(deployment),
                                                    .replica = as_str_of(name),
                                                    .number = 1,
                                                    .text = {bytes, n}},
                           NULL);
}

/* Of all deployments; and over an upgrade's exec. */
static void what_is_declared_has_a_limit(void **state AS_UNUSED)
{
    for (size_t more = 0; more <= 1; more++) {
        As__Supervisor *saved = as_reexec_new(&as__supervisor__descriptor);
        struct as_status_cache s, next;
        size_t left = AS_CTL_DECLARED_MAX;
        char name[16];

        as_status_cache_init(&s);
        as_status_cache_init(&next);
        for (uint32_t i = 0; left > AS_CTL_TEXT_MAX; i++) {
            snprintf(name, sizeof(name), "%04u:1", i);
            say(&s, "a", name, 60000);
            left -= AS_CTL_DECLARED_ROW + 6 + 60000;
        }
        say(&s, "a", "", 10);
        say(&s, "b", "last:1", left - 20 - AS_CTL_DECLARED_ROW - 6 + more);
        say(&s, "b", "", 10);
        /* without its settings, which say whether they are all, models are not whole */
        assert_int_equal(s.declared_bytes, AS_CTL_DECLARED_MAX - (more ? 9 : 0));
        as_status_cache_save(&s, saved);
        assert_true(saved->deployments[0]->declared->whole);
        assert_int_equal(saved->deployments[1]->declared->settings.len, more ? 0 : 10);
        assert_int_equal(saved->deployments[1]->declared->n_models, 1);
        as_status_cache_restore(&next, saved);
        assert_int_equal(next.declared_bytes, s.declared_bytes);
        say(&s, "b", "last:1", left - 10 - AS_CTL_DECLARED_ROW - 6 + 1);
        say(&s, "b", "", 0);
        assert_int_equal(s.declared_bytes, AS_CTL_DECLARED_MAX - left + 10);
        as_reexec_free(saved);
        as_status_cache_fini(&s);
        assert_int_equal(s.declared_bytes, 0);
        as_status_cache_fini(&next);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_dispatcher_knows_the_models),
        cmocka_unit_test(models_go_with_their_deployment),
        cmocka_unit_test(a_new_dispatcher_knows_what_is_being_removed),
        cmocka_unit_test(the_dispatcher_is_told_what_is_declared),
        cmocka_unit_test(what_a_worker_registered_counts_more),
        cmocka_unit_test(what_is_declared_has_a_limit),
        cmocka_unit_test(what_the_next_controller_does_not_declare_is_forgotten),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
