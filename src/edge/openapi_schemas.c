/* The schemas that routes name in their as_rest_doc. */
#include "edge/openapi.h"

#define REF(name)  "{\"$ref\":\"#/components/schemas/" name "\"}"
#define STRING     "{\"type\":\"string\"}"
#define BOOLEAN    "{\"type\":\"boolean\"}"
#define LIST(item) "{\"type\":\"array\",\"items\":" item "}"
#define OBJECT(required, properties)                                                               \
    "{\"type\":\"object\",\"required\":[" required "],\"properties\":{" properties "}}"
/* Elements, flat or nested like the shape. */
#define DATA(type, element)                                                                        \
    {                                                                                              \
        "Data" type,                                                                               \
            "{\"anyOf\":[" element "," LIST("{\"anyOf\":[" element "," REF("Data" type) "]}") "]}" \
    }
#define INTEGER(low, high) "{\"type\":\"integer\",\"minimum\":" low ",\"maximum\":" high "}"
/* What is no number is written by its name (docs/PROTOCOL.md); strict JSON has none. */
#define NUMBER "{\"type\":\"number\"}"

#define DATATYPES                                                                                  \
    "{\"enum\":[\"BOOL\",\"UINT8\",\"UINT16\",\"UINT32\",\"UINT64\",\"INT8\",\"INT16\",\"INT32\"," \
    "\"INT64\",\"FP16\",\"FP32\",\"FP64\",\"BF16\",\"BYTES\"]}"
#define SHAPE "{\"type\":\"array\",\"items\":{\"type\":\"integer\",\"minimum\":0}}"
/* Of a signature: -1 is any size. */
#define DECLARED "{\"type\":\"array\",\"items\":{\"type\":\"integer\",\"minimum\":-1}}"

const struct as_openapi_schema as_openapi_schemas[] = {
    {"Error", OBJECT("\"error\"", "\"error\":" STRING)},
    {"Object", "{\"type\":\"object\"}"},
    {"Parameters", "{\"type\":\"object\",\"additionalProperties\":{\"type\":[\"string\","
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
    {"OutputTensor", OBJECT("\"name\",\"datatype\",\"shape\"",
                            "\"name\":" STRING ",\"datatype\":" DATATYPES ",\"shape\":" SHAPE
                            ",\"data\":{\"type\":\"array\"},\"parameters\":" REF("Parameters"))},
    {"InferRequest",
     OBJECT("\"inputs\"", "\"id\":" STRING ",\"parameters\":" REF("Parameters") ",\"inputs\":" LIST(
                              REF("InputTensor")) ","
                                                  "\"outputs\":" LIST(REF("RequestedOutput")))},
    {"InferResponse",
     OBJECT("\"model_name\",\"model_version\",\"outputs\"",
            "\"id\":" STRING ",\"model_name\":" STRING ",\"model_version\":" STRING
            ",\"parameters\":" REF("Parameters") ",\"outputs\":" LIST(REF("OutputTensor")))},
    {"GenerateRequest", "{\"type\":\"object\",\"properties\":{\"id\":" STRING
                        ",\"parameters\":" REF("Parameters") "}}"},
    {"GenerateResponse",
     OBJECT("\"model_name\",\"model_version\"",
            "\"id\":" STRING ",\"model_name\":" STRING ",\"model_version\":" STRING)},
    {"ModelConfig", OBJECT("\"name\",\"max_batch_size\",\"input\",\"output\"",
                           "\"name\":" STRING ",\"max_batch_size\":{\"type\":\"integer\"}"
                           ",\"input\":" LIST("{\"type\":\"object\"}") ",\"output\":" LIST(
                               "{\"type\":\"object\"}"))},
    {"ModelStatistics",
     OBJECT("\"model_stats\"", "\"model_stats\":" LIST("{\"type\":\"object\"}"))},
    {"RepositoryIndexRequest", "{\"type\":\"object\",\"properties\":{\"ready\":" BOOLEAN "}}"},
    {"RepositoryIndex", LIST(OBJECT("\"name\",\"version\",\"state\",\"reason\"",
                                    "\"name\":" STRING ",\"version\":" STRING ",\"state\":" STRING
                                    ",\"reason\":" STRING))},
    {"RepositoryChange",
     "{\"type\":\"object\",\"properties\":{\"parameters\":{\"type\":\"object\"}}}"},
    {"SharedMemory",
     LIST(OBJECT("\"name\",\"key\",\"offset\",\"byte_size\"",
                 "\"name\":" STRING ",\"key\":" STRING
                 ",\"offset\":{\"type\":\"integer\"},\"byte_size\":{\"type\":\"integer\"}"))},
    {"SharedMemoryRegion",
     OBJECT("\"key\",\"byte_size\"",
            "\"key\":" STRING ",\"offset\":{\"type\":\"integer\",\"minimum\":0},"
            "\"byte_size\":{\"type\":\"integer\",\"minimum\":1}")},
    {"Settings", "{\"type\":\"object\"}"},
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
