// A GPU's driver, HIP's and CUDA's, that computes nothing and fails at a call of its caller's choice.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fails_at = -1, fails_with, calls, held, faulted;
static char failed[100];

// From a fault (700 and more) on every call fails; of other statuses the one call.
static int status(const char* name) {
  if (getenv("FAILS_AT") && fails_at < 0) {
    fails_at = atoi(getenv("FAILS_AT"));
    fails_with = atoi(getenv("FAILS_WITH"));
  }
  const int fails = calls++ == fails_at;
  if (fails) {
    snprintf(failed, sizeof failed, "%s", name);
    if (getenv("FAILS_AT")) fprintf(stderr, "driver: %s\n", name);
  }
  faulted |= fails && fails_with >= 700;
  return fails || faulted ? fails_with : 0;
}

// What a caller has of the memory: that of a lost GPU never comes back by itself.
enum { MOST_KEPT = 4096 };
static void* kept[MOST_KEPT];

static void* allocate(size_t bytes) {
  int place = 0;
  while (place < MOST_KEPT - 1 && kept[place]) place++;
  return kept[place] = calloc(1, bytes);
}

static void release(void* memory) {
  for (int place = 0; place < MOST_KEPT; place++)
    if (kept[place] == memory) kept[place] = 0;
  free(memory);
}

void driver_reset(int at, int with) {
  for (int place = 0; place < MOST_KEPT; place++)
    if (kept[place]) release(kept[place]);
  fails_at = at, fails_with = with, calls = held = faulted = 0, failed[0] = 0;
}
int driver_calls(void) { return calls; }
int driver_held(void) { return held; }
const char* driver_failed(void) { return failed; }

static const char* name_of(int code) { return code == 719 ? "LAUNCH_FAILURE" : "SOME_ERROR"; }
static const char* text_of(int code) { return code == 719 ? "unspecified launch failure" : "refused"; }
const char* hipGetErrorName(int code) { return name_of(code); }
const char* hipGetErrorString(int code) { return text_of(code); }
int cuGetErrorName(int code, const char** name) { return *name = name_of(code), 0; }
int cuGetErrorString(int code, const char** text) { return *text = text_of(code), 0; }

#define CALL(NAME, PARAMETERS, DOES) \
  int NAME PARAMETERS {              \
    int code = status(#NAME);        \
    if (!code) { DOES; }             \
    return code;                     \
  }
#define BOTH(HIP, CUDA, PARAMETERS, DOES) CALL(HIP, PARAMETERS, DOES) CALL(CUDA, PARAMETERS, DOES)

BOTH(hipInit, cuInit, (unsigned flags), )
BOTH(hipGetDeviceCount, cuDeviceGetCount, (int* count), *count = 1)
CALL(hipGetDevice, (int* device), *device = 0)
CALL(hipSetDevice, (int device), )
CALL(cuDeviceGet, (int* device, int ordinal), *device = ordinal)
CALL(cuDevicePrimaryCtxRetain, (void** context, int device), *context = &held)
CALL(cuCtxGetCurrent, (void** context), *context = 0)
CALL(cuCtxSetCurrent, (void* context), )
CALL(cuCtxPushCurrent_v2, (void* context), )
CALL(cuCtxPopCurrent_v2, (void** context), *context = &held)
CALL(hipRuntimeGetVersion, (int* version), *version = 60240000)
CALL(hipGetDevicePropertiesR0600, (char* properties, int device),
     strcpy(properties + 1160, "gfx942:sramecc+:xnack-"))
CALL(hipDeviceGetAttribute, (int* value, int attribute, int device), *value = 0)
CALL(cuDeviceGetAttribute, (int* value, int attribute, int device),
     *value = attribute == 75 ? 8 : 0)
BOTH(hipFuncGetAttribute, cuFuncGetAttribute, (int* value, int attribute, void* function),
     *value = 0)
BOTH(hipModuleLoadData, cuModuleLoadData, (void** module, const void* image), *module = &held)
BOTH(hipModuleGetFunction, cuModuleGetFunction, (void** function, void* module, const char* name),
     *function = &held)
BOTH(hipMalloc, cuMemAlloc_v2, (void** memory, size_t bytes), (*memory = allocate(bytes), ++held))
BOTH(hipFree, cuMemFree_v2, (void* memory), (release(memory), --held))
BOTH(hipMemcpyHtoD, cuMemcpyHtoD_v2, (void* to, const void* from, size_t n), memcpy(to, from, n))
BOTH(hipMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, (void* to, const void* from, size_t n, void* stream),
     memcpy(to, from, n))
BOTH(hipMemcpyDtoH, cuMemcpyDtoH_v2, (void* to, const void* from, size_t n), memcpy(to, from, n))
BOTH(hipDeviceSynchronize, cuCtxSynchronize, (void), )
BOTH(hipModuleLaunchKernel, cuLaunchKernel,
     (void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
      unsigned shared, void* stream, void** parameters, void** extra), )

// Streams, events and graphs: nothing is recorded, and each run takes half a millisecond.
#define STREAMS(vendor)                                                                        \
  CALL(vendor##EventRecord, (void* event, void* stream), )                                     \
  CALL(vendor##EventElapsedTime, (float* time, void* start, void* end), *time = 0.5f)          \
  CALL(vendor##MemsetD8Async, (void* at, unsigned char value, size_t bytes, void* stream), )   \
  CALL(vendor##StreamEndCapture, (void* stream, void** graph), *graph = &held)                 \
  CALL(vendor##GraphInstantiateWithFlags, (void** made, void* graph, unsigned long long flags), \
       *made = graph)                                                                          \
  CALL(vendor##GraphLaunch, (void* made, void* stream), )                                      \
  CALL(vendor##GraphDestroy, (void* graph), )                                                  \
  CALL(vendor##GraphExecDestroy, (void* made), )
STREAMS(hip)
STREAMS(cu)
BOTH(hipStreamDestroy, cuStreamDestroy_v2, (void* stream), )
BOTH(hipEventDestroy, cuEventDestroy_v2, (void* event), )
BOTH(hipStreamCreateWithFlags, cuStreamCreate, (void** stream, unsigned flags), *stream = &held)
BOTH(hipEventCreateWithFlags, cuEventCreate, (void** event, unsigned flags), *event = &held)
BOTH(hipStreamBeginCapture, cuStreamBeginCapture_v2, (void* stream, int mode), )
CALL(cuDeviceGetName, (char* name, int size, int device), strcpy(name, "none"))
CALL(cuDriverGetVersion, (int* version), *version = 13000)
