/* The schemas that as_rest_doc refers to. */
#include "edge/rest/openapi.h"

#define REF(name) "{\"$ref\":\"#/components/schemas/" name "\"}"
#define STRING    "{\"type\":\"string\"}"
#define BOOLEAN   "{\"type\":\"boolean\"}"
/* In requests null is the same as an absent value. */
#define OR_NULL(type) "{\"type\":[\"" type "\",\"null\"]}"
/* Each log level includes those before it: `off` cannot be off while `name` is on. */
#define OFF_AND(off, name, on)                                                                     \
    "{\"required\":[\"" off "\",\"" name "\"],\"properties\":{\"" off                              \
    "\":{\"const\":false},\"" name "\":" on "}}"
#define MORE "{\"type\":\"integer\",\"minimum\":1}"
#define LOG_CONFLICTS                                                                              \
    OFF_AND("log_warning", "log_info", "{\"const\":true}")                                         \
    "," OFF_AND("log_warning", "log_verbose_level", MORE) "," OFF_AND("log_info",                  \
                                                                      "log_verbose_level", MORE)
#define LOG_SETTINGS                                                                               \
    "{\"type\":\"object\",\"properties\":{\"log_error\":{\"enum\":[true,null]},"                   \
    "\"log_warning\":" OR_NULL("boolean") ",\"log_info\":" OR_NULL(                                \
        "boolean") ",\"log_verbose_level\":{\"type\":[\"integer\",\"null\"],\"minimum\":0},"       \
                   "\"log_file\":{\"enum\":[\"\",null]},\"log_format\":{\"enum\":[\"default\","    \
                   "null]}},"                                                                      \
                   "\"additionalProperties\":{\"type\":\"null\"},\"not\":{\"anyOf\":"              \
                   "[" LOG_CONFLICTS "]}}"
#define LIST(item) "{\"type\":\"array\",\"items\":" item "}"
#define OBJECT(required, properties)                                                               \
    "{\"type\":\"object\",\"required\":[" required "],\"properties\":{" properties "}}"
/* Elements of a tensor, flat or nested like its shape. */
#define DATA(type, element)                                                                        \
    {                                                                                              \
        "Data" type,                                                                               \
            "{\"anyOf\":[" element "," LIST("{\"anyOf\":[" element "," REF("Data" type) "]}") "]}" \
    }
#define INTEGER(low, high) "{\"type\":\"integer\",\"minimum\":" low ",\"maximum\":" high "}"
/* NaN and infinities are written by their names (docs/protocol/rest.md), which strict JSON does not
 * allow. */
#define NUMBER "{\"type\":\"number\"}"

#define DATATYPES                                                                                  \
    "{\"enum\":[\"BOOL\",\"UINT8\",\"UINT16\",\"UINT32\",\"UINT64\",\"INT8\",\"INT16\",\"INT32\"," \
    "\"INT64\",\"FP16\",\"FP32\",\"FP64\",\"BF16\",\"BYTES\"]}"
#define SHAPE "{\"type\":\"array\",\"items\":{\"type\":\"integer\",\"minimum\":0}}"
/* A shape in a signature: -1 is any size. */
#define DECLARED "{\"type\":\"array\",\"items\":{\"type\":\"integer\",\"minimum\":-1}}"

const struct as_openapi_schema as_openapi_schemas[] = {
    {"Error", OBJECT("\"error\"", "\"error\":" STRING)},
    {"Object", "{\"type\":\"object\"}"},
    {"Id", OR_NULL("string")},
    {"Parameters", "{\"type\":[\"object\",\"null\"],\"additionalProperties\":{\"type\":["
                   "\"string\",\"number\",\"boolean\",\"null\"]}}"},
    {"AnswerParameters", "{\"type\":\"object\",\"additionalProperties\":{\"type\":[\"string\","
                         "\"number\",\"boolean\"]}}"},
    {"ServerMetadata",
     OBJECT("\"name\",\"version\",\"extensions\"",
            "\"name\":" STRING ",\"version\":" STRING ",\"extensions\":" LIST(STRING))},
    {"ServerLive", OBJECT("\"live\"", "\"live\":" BOOLEAN)},
    {"ServerReady", OBJECT("\"ready\",\"live\"", "\"ready\":" BOOLEAN ",\"live\":" BOOLEAN)},
    {"TensorMetadata",
     OBJECT("\"name\",\"datatype\",\"shape\"",
            "\"name\":" STRING ",\"datatype\":" DATATYPES ",\"shape\":" DECLARED)},
    {"ModelMetadata",
     OBJECT("\"name\",\"versions\",\"platform\",\"inputs\",\"outputs\"",
            "\"name\":" STRING
            ",\"versions\":" LIST(STRING) ",\"platform\":" STRING ",\"inputs\":" LIST(
                REF("TensorMetadata")) ",\"outputs\":" LIST(REF("TensorMetadata")))},
    {"ModelReady", OBJECT("\"name\",\"ready\"", "\"name\":" STRING ",\"ready\":" BOOLEAN)},
    {"InputTensor", OBJECT("\"name\",\"datatype\",\"shape\",\"data\"",
                           "\"name\":{\"type\":\"string\",\"minLength\":1},\"datatype\":" DATATYPES
                           ",\"shape\":" SHAPE ",\"data\":{},\"parameters\":" REF("Parameters"))},
    {"RequestedOutput",
     OBJECT("\"name\"", "\"name\":" STRING ",\"parameters\":" REF("Parameters"))},
    {"OutputTensor",
     OBJECT("\"name\",\"datatype\",\"shape\"",
            "\"name\":" STRING ",\"datatype\":" DATATYPES ",\"shape\":" SHAPE
            ",\"data\":{\"type\":\"array\"},\"parameters\":" REF("AnswerParameters"))},
    {"RequestedOutputs", "{\"type\":[\"array\",\"null\"],\"items\":" REF("RequestedOutput") "}"},
    {"InferRequest",
     OBJECT("\"inputs\"",
            "\"id\":" REF("Id") ",\"parameters\":" REF("Parameters") ",\"inputs\":" LIST(
                REF("InputTensor")) ",\"outputs\":" REF("RequestedOutputs"))},
    {"InferResponse",
     OBJECT("\"model_name\",\"model_version\",\"outputs\"",
            "\"id\":" STRING ",\"model_name\":" STRING ",\"model_version\":" STRING
            ",\"parameters\":" REF("AnswerParameters") ",\"outputs\":" LIST(REF("OutputTensor")))},
    {"GenerateRequest", "{\"type\":\"object\",\"properties\":{\"id\":" REF(
                            "Id") ",\"parameters\":" REF("Parameters") "}}"},
    {"GenerateResponse",
     OBJECT("\"model_name\",\"model_version\"",
            "\"id\":" STRING ",\"model_name\":" STRING ",\"model_version\":" STRING)},
    {"ModelConfig", OBJECT("\"name\",\"max_batch_size\",\"input\",\"output\"",
                           "\"name\":" STRING ",\"max_batch_size\":{\"type\":\"integer\"}"
                           ",\"input\":" LIST("{\"type\":\"object\"}") ",\"output\":" LIST(
                               "{\"type\":\"object\"}"))},
    {"ModelStatistics",
     OBJECT("\"model_stats\"", "\"model_stats\":" LIST("{\"type\":\"object\"}"))},
    {"RepositoryIndexRequest",
     "{\"type\":\"object\",\"properties\":{\"ready\":" OR_NULL("boolean") "}}"},
    {"RepositoryIndex", LIST(OBJECT("\"name\",\"version\",\"state\",\"reason\"",
                                    "\"name\":" STRING ",\"version\":" STRING ",\"state\":" STRING
                                    ",\"reason\":" STRING))},
    /* A parameter that a load cannot take is refused with 501. */
    {"RepositoryLoad",
     "{\"type\":\"object\",\"properties\":{\"parameters\":{\"type\":[\"object\",\"null\"],"
     "\"additionalProperties\":{\"type\":\"null\"}}}}"},
    {"RepositoryUnload",
     "{\"type\":\"object\",\"properties\":{\"parameters\":{\"type\":[\"object\",\"null\"],"
     "\"properties\":{\"unload_dependents\":" OR_NULL("boolean") "}}}}"},
    {"SharedMemory",
     LIST(OBJECT("\"name\",\"key\",\"offset\",\"byte_size\"",
                 "\"name\":" STRING ",\"key\":" STRING
                 ",\"offset\":{\"type\":\"integer\"},\"byte_size\":{\"type\":\"integer\"}"))},
    {"SharedMemoryRegion",
     OBJECT("\"key\",\"byte_size\"", "\"key\":{\"type\":\"string\",\"maxLength\":255,"
                                     "\"pattern\":\"^/?(?!\\\\.{1,2}$)[^/\\\\u0000]+$\"},"
                                     "\"offset\":{\"type\":[\"integer\",\"null\"],\"minimum\":0},"
                                     "\"byte_size\":{\"type\":\"integer\",\"minimum\":1}")},
    {"LogSettings", LOG_SETTINGS},
    {"TraceSettings", "{\"type\":\"object\",\"properties\":{\"trace_level\":{\"anyOf\":[{"
                      "\"enum\":[\"OFF\",null]},"
                      "{\"type\":\"array\",\"items\":{\"const\":\"OFF\"}}]}},"
                      "\"additionalProperties\":{\"type\":\"null\"}}"},
    DATA("BOOL", BOOLEAN),
    DATA("UINT8", INTEGER("0", "255")),
    DATA("UINT16", INTEGER("0", "65535")),
    DATA("UINT32", INTEGER("0", "4294967295")),
    DATA("UINT64", INTEGER("0", "18446744073709551615")),
    DATA("INT8", INTEGER("-128", "127")),
    DATA("INT16", INTEGER("-32768", "32767")),
    DATA("INT32", INTEGER("-2147483648", "2147483647")),
    DATA("INT64", INTEGER("-9223372036854775808", "9223372036854775807")),
    DATA("FP16", NUMBER),
    DATA("FP32", NUMBER),
    DATA("FP64", NUMBER),
    DATA("BF16", NUMBER),
    DATA("BYTES", STRING),
    {NULL, NULL},
};
