/* conf/spec_page.c — docs/guide/deployment-file.md is this text and nothing else. */
#include "conf/option_row.h"
#include "conf/spec_internal.h"

static const char page_head[] =
    "# Deployment file\n\n"
    "A deployment file says what is to be served: applications, and the deployments of each. It is "
    "YAML\n"
    "(usually `anyserve.yaml`) or JSON. This page is printed by `anyserve deployment-page`.\n"
    "`anyserve start FILE` serves one, `anyserve deploy FILE` changes what a running server "
    "serves:\n"
    "[Operating a server](control.md).\n\n"
    "```yaml anyserve.yaml\n"
    "applications:\n"
    "  - name: shop\n"
    "    import_path: shop.models:app # Python code\n"
    "    working_dir: /srv/shop\n"
    "    env:\n"
    "      LOG_FORMAT: plain\n"
    "    deployments: # what is left out is as the code says, else the default\n"
    "      - name: ranker\n"
    "        num_replicas: 4\n"
    "        version: 2024-11-b\n"
    "        user_config: {top: 20, model: ranker-large}\n"
    "        max_queued_requests: 200\n"
    "        request_timeout_s: 2.5\n"
    "        num_cpus: 2\n"
    "        memory: 4G\n"
    "        warmup_requests:\n"
    "          - count: 3\n"
    "            request: {inputs: [{name: x, datatype: FP32, shape: [1], data: [0.5]}]}\n"
    "  - name: resize\n"
    "    command: [/opt/resize/worker, --quality, 80] # any program that is a worker on the link\n"
    "    deployments:\n"
    "      - name: resize\n"
    "        num_replicas: 2\n"
    "```\n\n"
    "```sh\n"
    "anyserve check anyserve.yaml\n"
    "```\n\n"
    "`anyserve build module:app` writes such a file from code. `anyserve check FILE` reads one and "
    "tells\n"
    "what is wrong with it: every error with file, line, column and key, and the nearest known "
    "name. A file\n"
    "with an error changes nothing. `anyserve schema` prints a JSON Schema (draft 2020-12) for "
    "editors.\n"
    "What a schema cannot say is checked all the same: that names are there once, that ranges of "
    "CPUs are\n"
    "ranges, lengths in bytes instead of characters.\n\n"
    "## In Python\n\n"
    "Code can set the same options of its deployments, and say a whole file. They are checked by "
    "the same\n"
    "table; a mistake raises `DeclarationError` where it is made. `anyserve run` applies them "
    "as well,\n"
    "but for `num_replicas` where `--workers` is given; `anyserve build` writes all into the "
    "file.\n\n"
    "```python\n"
    "import anyserve\n\n"
    "app = anyserve.AnyServe()\n"
    "app.deployment(num_replicas=4, user_config={\"top\": 20})  # of the models that name no "
    "deployment\n"
    "app.deployment(\"side\", memory=\"1G\")                      # of those with "
    "deployment=\"side\"\n\n"
    "shop = anyserve.Application(\"shop\", import_path=\"shop.models:app\",\n"
    "                            deployments=[anyserve.Deployment(\"ranker\", num_replicas=4)])\n"
    "print(anyserve.deployment_file(shop))  # JSON; anyserve.schema() is the JSON Schema\n"
    "```\n\n"
    "## Values\n\n"
    "- What the file says wins over what the code says (`app.deployment(…)`), that over the "
    "default, key\n"
    "  by key. A key without a value, or with `null`, is as if it were not there.\n"
    "- Words are those of YAML 1.2: only `true` and `false` are booleans; `no`, `on` and `off` are "
    "texts.\n"
    "  A name must be a text: `name: \"5\"`. Where any text will do (`version`, `env`, `command`) "
    "a number\n"
    "  or a word is taken as it is written: `version: 1.10` is `1.10`.\n"
    "- Keys that end in `_s` are seconds, whole or not. Sizes are bytes and take `K`, `M`, `G`, "
    "`T` (1024).\n"
    "- Anchors, aliases, tags, a second document, and a key that is there twice, are errors.\n\n"
    "## What a change costs\n\n"
    "When a file is deployed over another, each deployment is compared key by key, by what the "
    "values mean.\n"
    "The tables below say what a change of a key costs: *light*: nothing is restarted, no worker "
    "notices;\n"
    "*reconfigure*: the workers are told while they serve; *restart*: new replicas take over from "
    "the old\n"
    "ones, a part at a time (`rolling_update_percentage`, `max_surge`, `max_unavailable`). A "
    "change "
    "of the code\n"
    "is a change of `code`, below; of `code: live` and of a `command` the server knows nothing: "
    "change `version`.\n\n"
    "`max_surge` and `max_unavailable` mean what they mean in a Kubernetes Deployment: a number of "
    "replicas, or\n"
    "a part of `num_replicas` as `25%`. Not both are 0; parts that both come to 0 count as "
    "`max_unavailable: 1`.\n"
    "Unlike there, a replica that still drains counts as a process. Where memory suffices for "
    "`num_replicas`\n"
    "processes and no more, say `max_surge: 0`, `max_unavailable: 1`. For devices (`num_gpus`, "
    "`cpu_affinity: auto`)\n"
    "nothing need be said: [Devices](replicas.md#devices).\n\n";

static const char code_section[] =
    "## Which code is served\n\n"
    "`anyserve start FILE` and `anyserve deploy` copy the code of each `import_path` to `code/` in "
    "the state folder.\n"
    "Replicas start from the copy, whatever happens to the files since: a replica that is started "
    "again has the code\n"
    "that was deployed, an edit comes with the next deploy, and `rollback` brings the former code "
    "back. A copy is\n"
    "called by the SHA-256 of its content (names, contents, which files are executable; not "
    "times), which `anyserve\n"
    "config` and the control API show as `code`. The same code is stored once, and removed when "
    "neither what is\n"
    "served, nor what was healthy last and before, nor a replica that runs needs it. `anyserve "
    "run` uses the files\n"
    "as they are.\n\n"
    "- With `working_dir` all of that folder is copied; without it the module that `import_path` "
    "names and what it\n"
    "  imports from beside it: from the folder of the file, or of the server. Imports are found "
    "by reading the\n"
    "  sources, also inside functions; of a package all is copied; and files and folders whose "
    "names stand in a\n"
    "  module that speaks of `__file__` are copied with it. What is imported by a computed name "
    "is not found: set\n"
    "  `working_dir`. Packages that are installed belong to the interpreter, and are used as they "
    "are; another\n"
    "  absolute entry of `sys.path` (`PYTHONPATH`, a `.pth` file) that is in the folder is that of "
    "the copy.\n"
    "- Left out are `__pycache__`, `*.pyc`, repositories (`.git`, `.hg`, `.svn`), virtual "
    "environments,\n"
    "  `node_modules`, caches of tools, and what `code_exclude` names: a pattern with a `/` is "
    "compared with the path\n"
    "  in the folder, another one with each name. The state folder is left out where it lies in "
    "the "
    "folder; where it\n"
    "  is the folder itself, `code/`, `state.db*` and `server.log*` in it are.\n"
    "- A copy has at most `--max-code-bytes` and `--max-code-files`. Large data, as a model of "
    "some GB, should not be\n"
    "  part of the code: leave it out with `code_exclude`, name it by an absolute path or by one "
    "in the working\n"
    "  folder, or say `code: live`. A symbolic link that leads out of what is copied, a socket, a "
    "pipe and a file that\n"
    "  cannot be read are errors that name it. What a link within the folder leads to is copied "
    "with "
    "it.\n"
    "- Workers work in `working_dir`, not in the copy: what they read or write by a relative path "
    "is there, shared by\n"
    "  all versions, and outlives them. Files beside `__file__` are those of the copy; tracebacks "
    "show paths in it.\n"
    "  If the working folder has gone, they work in the copy.\n"
    "- `code: live` starts replicas from the files as they are at that moment, as `anyserve run` "
    "does; `status` says\n"
    "  so. A `code: sha256:…`, as `anyserve config` prints it, means that copy and is refused\n"
    "  when the copy is there no longer.\n";

static const char *const titles[AS_SPEC_LEVELS] = {
    [AS_SPEC_LEVEL_FILE] = "File",
    [AS_SPEC_LEVEL_APPLICATION] = "Application",
    [AS_SPEC_LEVEL_DEPLOYMENT] = "Deployment",
    [AS_SPEC_LEVEL_WARMUP] = "Request of `warmup_requests`",
    [AS_SPEC_LEVEL_LOGGING] = "`logging_config`",
};

static const char *const classes[] = {
    [AS_SPEC_SAME] = "",
    [AS_SPEC_LIGHT] = "light",
    [AS_SPEC_RECONFIGURE] = "reconfigure",
    [AS_SPEC_RESTART] = "restart",
};

static void put_number(const struct as_spec_row *row, int64_t v, struct as_buf *b)
{
    struct as_option_row size = {.type = AS_OPTION_SIZE, .words = ""};
    int64_t unit = row->type == AS_SPEC_NUMBER     ? 1000
                   : row->type == AS_SPEC_DURATION ? (int64_t)AS_SEC
                                                   : 1;

    if (row->type == AS_SPEC_SIZE)
        as_option_write(&size, &(struct as_option_value){.i = v}, b);
    else
        as_buf_printf(b, "%.12g", (double)v / (double)unit);
}

static void put_bounds(const struct as_spec_row *row, struct as_buf *b)
{
    struct as_str w;

    switch (row->type) {
    case AS_SPEC_BOOL:
        as_buf_str(b, "`true`, `false`");
        break;
    case AS_SPEC_INT:
    case AS_SPEC_NUMBER:
    case AS_SPEC_DURATION:
    case AS_SPEC_SIZE:
        put_number(row, row->min, b);
        as_buf_str(b, " … ");
        put_number(row, row->max, b);
        as_buf_str(b, row->flags & AS_SPEC_NOT_ZERO ? ", not 0" : "");
        break;
    case AS_SPEC_AMOUNT:
        put_number(row, row->min, b);
        as_buf_str(b, " … ");
        put_number(row, row->max, b);
        as_buf_str(b, ", or `0%` … `100%`");
        break;
    case AS_SPEC_STRING:
        as_buf_printf(b, "%s, up to %lld bytes",
                      strcmp(row->words, "name") == 0 ? "letters, digits, `.`, `_`, `-`" : "text",
                      (long long)row->max);
        break;
    case AS_SPEC_TEXT:
        as_buf_printf(b, "%s, up to %lld bytes",
                      strcmp(row->words, "cpus") == 0 ? "`auto` or a list" : "any text",
                      (long long)row->max);
        break;
    case AS_SPEC_ENUM:
        for (size_t i = 0; (w = as_option_word(row->words, i)).p; i++)
            as_buf_printf(b, "%s`%.*s`", i ? ", " : "", AS_STR_FMT(w));
        break;
    case AS_SPEC_JSON:
        as_buf_printf(b, "%s, up to %lld KiB as JSON", row->words[0] ? "a mapping" : "anything",
                      (long long)row->max >> 10);
        break;
    case AS_SPEC_TEXTS:
        as_buf_printf(b, "a list of %lld to %lld texts", (long long)row->min, (long long)row->max);
        break;
    case AS_SPEC_MAP:
        as_buf_printf(b, "up to %lld names with a text each, none begins with `ANYSERVE_`",
                      (long long)row->max);
        break;
    case AS_SPEC_OBJECT:
        as_buf_str(b, "a mapping, below");
        break;
    case AS_SPEC_OBJECTS:
        as_buf_str(b, "a list, below");
        if (row->max <= 1000) /* the others are bounded by options */
            as_buf_printf(b, ", of up to %lld", (long long)row->max);
        break;
    }
}

void as_spec_markdown(struct as_buf *b)
{
    as_buf_str(b, page_head);
    as_buf_str(b, code_section);
    for (int level = 0; level < AS_SPEC_LEVELS; level++) {
        uint32_t first = as_spec_first_key((enum as_spec_level)level);

        as_buf_printf(b,
                      "\n## %s\n\n| key | default | values | a change | meaning |\n"
                      "|---|---|---|---|---|\n",
                      titles[level]);
        for (uint32_t i = 0; i < as_spec_key_count((enum as_spec_level)level); i++) {
            const struct as_spec_row *row = &as_spec_rows[first + i];

            as_buf_printf(b, "| `%s` | ", row->key);
            if (row->flags & AS_SPEC_REQUIRED)
                as_buf_str(b, "needed");
            else if (row->def[0])
                as_buf_printf(b, "`%s`", row->def);
            as_buf_str(b, " | ");
            put_bounds(row, b);
            as_buf_printf(b, " | %s | %s |\n", classes[row->cls], row->doc);
        }
    }
    as_buf_str(
        b, "\nHow large a file may be, and how many applications and deployments it may have, are "
           "options:\n[Options](options.md), \"Deployment file\".\n");
}
