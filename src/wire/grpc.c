#include "wire/grpc.h"
