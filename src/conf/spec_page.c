/* conf/spec_page.c — prints docs/guide/deployment-file.md, which is generated. */
#include "conf/option_row.h"
#include "conf/spec_internal.h"

static const char page_head[] =
    "# Deployment file\n\n"
    "A deployment file lists the applications that a server serves, and the deployments of\n"
    "each. It is YAML (usually `anyserve.yaml`) or JSON. `anyserve start FILE` serves a file,\n"
    "`anyserve deploy FILE` changes what a running server serves: [Operating a\n"
    "server](control.md). This page is printed by `anyserve deployment-page`.\n\n"
    "```yaml anyserve.yaml\n"
    "applications:\n"
    "  - name: shop\n"
    "    import_path: shop.models:app # Python code\n"
    "    working_dir: /srv/shop\n"
    "    env:\n"
    "      LOG_FORMAT: plain\n"
    "    deployments: # a key that is left out has the value from the code, or its default\n"
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
    "    command: [/opt/resize/worker, --quality, 80] # any program that is a worker\n"
    "    deployments:\n"
    "      - name: resize\n"
    "        num_replicas: 2\n"
    "```\n\n"
    "```sh\n"
    "anyserve check anyserve.yaml\n"
    "```\n\n"
    "`anyserve build module:app` writes such a file from code. `anyserve check FILE` reads a\n"
    "file and reports all its errors, each with file, line, column and key, and for an\n"
    "unknown name the most similar known one. A file with an error changes nothing. `anyserve\n"
    "schema` prints a JSON Schema (draft 2020-12) for editors. Some checks are not in the\n"
    "schema but are made all the same: that names are unique, that ranges of CPUs are valid,\n"
    "and that lengths are counted in bytes, not in characters.\n\n"
    "## In Python\n\n"
    "Code can set the same options of its deployments, and can also declare a whole file.\n"
    "Both are checked by the same table; a mistake raises `DeclarationError` where it is\n"
    "made. `anyserve run` applies the options, too, except `num_replicas` when `--workers` is\n"
    "given. `anyserve build` writes all of them into the file.\n\n"
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
    "```\n\n";

static const char values_section[] =
    "## Values\n\n"
    "- For each key, a value in the file overrides the value from the code\n"
    "  (`app.deployment(…)`), which overrides the default. A key without a value, or with\n"
    "  `null`, counts as left out.\n"
    "- Types are those of YAML 1.2: only `true` and `false` are booleans; `no`, `on` and\n"
    "  `off` are texts. A name must be a text: `name: \"5\"`. Keys that accept any text\n"
    "  (`version`, `env`, `command`) also accept a number or a boolean as it is written:\n"
    "  `version: 1.10` is `1.10`.\n"
    "- Keys that end in `_s` are seconds, and accept fractions. Sizes are in bytes and accept\n"
    "  `K`, `M`, `G`, `T` (1024).\n"
    "- Anchors, aliases, tags, a second document and duplicate keys are errors.\n\n"
    "## What a change costs\n\n"
    "When a file replaces another one, each deployment is compared key by key, by the meaning\n"
    "of the values. The tables below have the effect of a change of each key. *light*:\n"
    "nothing is restarted, and workers do not notice. *reconfigure*: the workers get the new\n"
    "value while they serve. *restart*: new replicas replace the old ones, some at a time\n"
    "(`rolling_update_percentage`, `max_surge`, `max_unavailable`). A change of the code is a\n"
    "change of `code`, see below. The server does not notice changes of the code with `code:\n"
    "live`, or of the program of a `command`: change `version` as well.\n\n"
    "`max_surge` and `max_unavailable` are those of a Kubernetes Deployment: a number of\n"
    "replicas, or a part of `num_replicas` such as `25%`. They must not both be 0; when both\n"
    "percentages are rounded to 0, `max_unavailable` is 1. Unlike in Kubernetes, a replica\n"
    "that is draining counts as a process. When the memory only suffices for `num_replicas`\n"
    "processes, set `max_surge: 0` and `max_unavailable: 1`. Devices (`num_gpus`,\n"
    "`cpu_affinity: auto`) need no such setting: [Devices](replicas.md#devices).\n\n";

static const char code_section[] =
    "## Which code is served\n\n"
    "`anyserve start FILE` and `anyserve deploy` copy the code of each `import_path` to\n"
    "`code/` in the state folder. Replicas start from the copy, so later changes of the files\n"
    "have no effect: a replica that is started again has the code that was deployed, an edit\n"
    "is used after the next deploy, and `rollback` restores the code from before. The name of\n"
    "a copy is the SHA-256 of its content (names, contents and which files are executable,\n"
    "but not times); `anyserve config` and the control API show it as `code`. Equal code is\n"
    "stored once. A copy is removed when it is needed neither by what is served now, nor by\n"
    "the last two healthy states, nor by a replica that runs. `anyserve run` uses the files\n"
    "themselves.\n\n"
    "- With `working_dir`, that whole folder is copied. Without it, the module that\n"
    "  `import_path` names is copied, and what it imports from the folder of the file or of\n"
    "  the server. Imports are found by reading the sources, also inside functions. A package\n"
    "  is copied as a whole. When a module uses `__file__`, the files and folders that it\n"
    "  names are copied, too. An import by a computed name is not found: set `working_dir`.\n"
    "  Installed packages belong to the interpreter and are not copied. Another absolute\n"
    "  entry of `sys.path` (`PYTHONPATH`, a `.pth` file) that is in the folder becomes the\n"
    "  same folder in the copy.\n"
    "- Not copied are `__pycache__`, `*.pyc`, repositories (`.git`, `.hg`, `.svn`), virtual\n"
    "  environments, `node_modules`, caches of tools, and what `code_exclude` matches: a\n"
    "  pattern with a `/` is compared with the path in the folder, any other pattern with\n"
    "  each name. A state folder in the folder is not copied either; when the state folder is\n"
    "  the folder itself, `code/`, `state.db*` and `server.log*` are not copied.\n"
    "- A copy has at most `--max-code-bytes` and `--max-code-files`. Large data, such as a\n"
    "  model of some GB, should not be part of the code: exclude it by `code_exclude`, refer\n"
    "  to it by an absolute path or by a path in the working folder, or set `code: live`.\n"
    "  Errors that name the file are: a symbolic link to a place outside of what is copied, a\n"
    "  socket, a pipe, and a file that cannot be read. The target of a link within the folder\n"
    "  is copied with it.\n"
    "- Workers run in `working_dir`, not in the copy: files that they read or write by a\n"
    "  relative path are there, shared by all versions, and are kept. Files beside `__file__`\n"
    "  are those of the copy, and tracebacks show its paths. When the working folder has been\n"
    "  removed, workers run in the copy.\n"
    "- With `code: live`, replicas start from the files as they are at that moment, as with\n"
    "  `anyserve run`; `status` shows it. `code: sha256:…`, as printed by `anyserve config`,\n"
    "  means that copy; it is refused when the copy has been removed.\n";

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
        as_spec_put_number(row, row->min, b);
        as_buf_str(b, " … ");
        as_spec_put_number(row, row->max, b);
        as_buf_str(b, row->flags & AS_SPEC_NOT_ZERO ? ", not 0" : "");
        break;
    case AS_SPEC_AMOUNT:
        as_spec_put_number(row, row->min, b);
        as_buf_str(b, " … ");
        as_spec_put_number(row, row->max, b);
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
    as_buf_str(b, values_section);
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
    as_buf_str(b, "\nThe limits of a file (its size, and how many applications and deployments it "
                  "may have) are\n"
                  "options: [Options](options.md), \"Deployment file\".\n");
}
