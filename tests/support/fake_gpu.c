// A GPU's driver, HIP's and CUDA's, whose memory and launches are a server's, by a socket.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int server = -1;
static char* memory;
static FILE* sizes;

static int64_t ask(const char* what, const void* content, size_t bytes) {
  uint32_t head[2] = {(uint32_t)strlen(what), (uint32_t)bytes};
  int64_t answer;
  write(server, head, sizeof head);
  write(server, what, head[0]);
  write(server, content, bytes);
  return read(server, &answer, 8) == 8 ? answer : -1;
}

static int init(void) {
  if (server >= 0) return 0;
  struct sockaddr_un place = {AF_UNIX, ""};
  snprintf(place.sun_path, sizeof place.sun_path, "%s/socket", getenv("FAKE_GPU"));
  server = socket(AF_UNIX, SOCK_STREAM, 0);
  if (connect(server, (struct sockaddr*)&place, sizeof place)) return 100;
  char name[200];
  snprintf(name, sizeof name, "%s/memory", getenv("FAKE_GPU"));
  int file = open(name, O_RDWR);
  memory = mmap(0, 64 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return memory == MAP_FAILED ? 101 : 0;
}

// Whether memory is there: of a very large allocation it is not.
static int is_inside(const void* at, size_t bytes) {
  const size_t start = (const char*)at - memory, whole = 64 << 20;
  return start <= whole && bytes <= whole - start;
}

int hipInit(unsigned flags) { return init(); }
int hipGetDeviceCount(int* count) { *count = 1; return 0; }
int hipGetDevice(int* device) { *device = 0; return 0; }
int hipSetDevice(int device) { return device != 0; }
int hipRuntimeGetVersion(int* version) { *version = (int)ask("version", "", 0); return 0; }
int hipGetDevicePropertiesR0600(char* properties, int device) {
  char name[200];
  snprintf(name, sizeof name, "%s/chip", getenv("FAKE_GPU"));
  FILE* file = fopen(name, "r");
  properties[1160 + (file ? fread(properties + 1160, 1, 100, file) : 0)] = 0;
  return file ? fclose(file) : 1;
}
int hipDeviceGetAttribute(int* value, int attribute, int device) {
  *value = (int)ask("attribute", &attribute, 4);
  return 0;
}
// Bytes of a binary: of an ELF file up to the end of whatever its headers tell of, else of a text.
static size_t image_bytes(const char* image) {
  if (memcmp(image, "\x7f" "ELF\2", 5)) return strlen(image);
  const Elf64_Ehdr* head = (const Elf64_Ehdr*)image;
  size_t end = head->e_shoff + head->e_shnum * sizeof(Elf64_Shdr);
  const Elf64_Shdr* sections = (const Elf64_Shdr*)(image + head->e_shoff);
  for (int i = 0; i < head->e_shnum; ++i) {
    const size_t own = sections[i].sh_offset + sections[i].sh_size;
    if (sections[i].sh_type != SHT_NOBITS && own > end) end = own;
  }
  return end;
}
int hipModuleLoadData(void** module, const void* image) {
  *module = memory;
  return (int)ask("load", image, image_bytes(image));
}
int hipModuleGetFunction(void** function, void* module, const char* name) {
  *function = strdup(name);
  return ask("function", name, strlen(name)) < 0 ? 500 : 0;
}
int hipMalloc(void** pointer, size_t bytes) {
  int64_t at = ask("allocate", &bytes, 8);
  *pointer = memory + at;
  return at < 0 ? 2 : 0;
}
int hipFree(void* pointer) {
  int64_t at = (char*)pointer - memory;
  return (int)ask("free", &at, 8);
}
int hipMemcpyHtoD(void* to, const void* from, size_t bytes) { memcpy(to, from, bytes); return 0; }
int hipMemcpyHtoDAsync(void* to, const void* from, size_t bytes, void* stream) {
  memcpy(to, from, bytes);
  return (int)ask("write", &stream, 8);
}
int hipMemcpyDtoH(void* to, const void* from, size_t bytes) { memcpy(to, from, bytes); return 0; }
int hipDeviceSynchronize(void) { return (int)ask("wait", "", 0); }
int hipModuleLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                          unsigned by, unsigned bz, unsigned shared, void* stream, void** parameters,
                          void** extra) {
  // The server says of how many bytes each parameter is, in one digit each.
  char content[4096];
  uint64_t base = (uint64_t)memory;
  uint32_t extents[7] = {gx, gy, gz, bx, by, bz, shared};
  size_t length = 0;
  memcpy(content, &base, 8), length += 8;
  memcpy(content + length, extents, sizeof extents), length += sizeof extents;
  memcpy(content + length, &stream, 8), length += 8;
  int64_t count = ask("parameters", function, strlen(function));
  for (int64_t i = 0; i < count; ++i) {
    int64_t bytes = ask("bytes", &i, 8);
    memcpy(content + length, parameters[i], bytes), length += bytes;
  }
  return (int)ask("launch", content, length);
}

typedef struct { uint64_t words[16]; } Map;
int cuInit(unsigned flags) { return init(); }
int cuDeviceGetCount(int* count) { *count = 1; return 0; }
int cuDeviceGet(int* device, int ordinal) { *device = ordinal; return 0; }
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  *value = (int)ask("attribute", &attribute, 4);
  return 0;
}
int cuDeviceGetName(char* name, int size, int device) {
  snprintf(name, size, "simulated");
  return 0;
}
int cuDriverGetVersion(int* version) { *version = 13000; return 0; }
int cuDevicePrimaryCtxRetain(void** context, int device) { *context = memory; return 0; }
int cuCtxSetCurrent(void* context) { return 0; }
int cuCtxGetCurrent(void** context) { *context = 0; return 0; }
int cuCtxPushCurrent_v2(void* context) { return context != memory; }
int cuCtxPopCurrent_v2(void** context) { *context = memory; return 0; }
int cuModuleLoadData(void** module, const void* image) { return hipModuleLoadData(module, image); }
int cuModuleGetFunction(void** function, void* module, const char* name) {
  return hipModuleGetFunction(function, module, name);
}
int cuFuncSetAttribute(void* function, int attribute, int value) {
  return attribute == 8 ? (int)ask("shared", &value, 4) : 1;
}
int hipFuncGetAttribute(int* value, int attribute, void* function) {
  *value = (int)ask("function attribute", &attribute, 4);
  return 0;
}
int cuFuncGetAttribute(int* value, int attribute, void* function) {
  return hipFuncGetAttribute(value, attribute, function);
}
int cuFuncGetParamInfo(void* function, size_t index, size_t* place, size_t* size) {
  int64_t count = ask("parameters", function, strlen(function));
  if ((int64_t)index >= count) return 1;
  *size = 0;
  for (int64_t i = 0, end = 0; i <= (int64_t)index; ++i, end = *place + *size) {
    *size = ask("bytes", &i, 8);
    const int64_t alignment = *size < 64 ? *size : 64;
    *place = (end + alignment - 1) / alignment * alignment;
  }
  return 0;
}
int cuMemAlloc_v2(void** pointer, size_t bytes) { return hipMalloc(pointer, bytes); }
int cuMemFree_v2(void* pointer) { return hipFree(pointer); }
int cuMemcpyHtoD_v2(void* to, const void* from, size_t n) { return hipMemcpyHtoD(to, from, n); }
int cuMemcpyHtoDAsync_v2(void* to, const void* from, size_t n, void* stream) {
  return hipMemcpyHtoDAsync(to, from, n, stream);
}
int cuMemcpyDtoH_v2(void* to, const void* from, size_t n) { return hipMemcpyDtoH(to, from, n); }
int cuCtxSynchronize(void) { return hipDeviceSynchronize(); }
int cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void* stream, void** parameters, void** extra) {
  return hipModuleLaunchKernel(function, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra);
}
// The map holds what it was made of: the address, the kind, the box, the extents, the swizzle.
int cuTensorMapEncodeTiled(Map* map, int kind, unsigned rank, void* address, const uint64_t* extents,
                           const uint64_t* strides, const uint32_t* box, const uint32_t* steps,
                           int interleave, int swizzle, int promotion, int fill) {
  if ((uint64_t)map % 64 || (uint64_t)address % 16 || strides[0] % 16 || rank != 2) return 1;
  uint64_t words[16] = {(char*)address - memory, kind, extents[0], extents[1], box[0], box[1],
                        swizzle, strides[0]};
  memcpy(map, words, sizeof words);
  return 0;
}

// Streams, events and graphs: what is recorded into a graph is run at once, and the graph is empty.
#define STREAMS(vendor)                                                                           \
  int vendor##EventRecord(void* event, void* stream) { return 0; }                                \
  int vendor##EventSynchronize(void* event) { return 0; }                                         \
  int vendor##EventElapsedTime(float* milliseconds, void* start, void* end) {                     \
    *milliseconds = 0.5f;                                                                         \
    return 0;                                                                                     \
  }                                                                                               \
  int vendor##MemsetD8Async(void* at, unsigned char value, size_t bytes, void* stream) {          \
    if (is_inside(at, bytes)) memset(at, value, bytes);                                           \
    return 0;                                                                                     \
  }                                                                                               \
  int vendor##MemsetD32Async(void* at, unsigned value, size_t count, void* stream) {              \
    for (size_t i = 0; i < count; ++i) memcpy((char*)at + 4 * i, &value, 4);                      \
    return 0;                                                                                     \
  }                                                                                               \
  int vendor##StreamSynchronize(void* stream) { return (int)ask("wait", "", 0); }                 \
  int vendor##StreamEndCapture(void* stream, void** graph) { *graph = memory; return 0; }         \
  int vendor##GraphInstantiateWithFlags(void** made, void* graph, unsigned long long flags) {     \
    *made = graph;                                                                                \
    return !graph;                                                                                \
  }
STREAMS(hip)
STREAMS(cu)
int hipEventDestroy(void* event) { return 0; }
int cuEventDestroy_v2(void* event) { return 0; }
int hipStreamDestroy(void* stream) { return 0; }
int cuStreamDestroy_v2(void* stream) { return 0; }
int hipMemcpyDtoDAsync(void* to, void* from, size_t bytes, void* stream) {
  if (is_inside(to, bytes) && is_inside(from, bytes)) memmove(to, from, bytes);
  return 0;
}
int cuMemcpyDtoDAsync_v2(void* to, void* from, size_t bytes, void* stream) {
  return hipMemcpyDtoDAsync(to, from, bytes, stream);
}
int hipGraphDestroy(void* graph) { return graph != memory; }
int hipGraphExecDestroy(void* made) { return made != memory; }
int hipGraphLaunch(void* made, void* stream) { return made != memory || !stream; }
int hipStreamCreateWithFlags(void** stream, unsigned flags) { *stream = memory; return 0; }
int hipEventCreateWithFlags(void** event, unsigned flags) { *event = memory; return 0; }
int hipStreamBeginCapture(void* stream, int mode) { return stream != memory; }
int cuStreamCreate(void** stream, unsigned flags) { *stream = memory; return 0; }
int cuEventCreate(void** event, unsigned flags) { *event = memory; return 0; }
int cuStreamBeginCapture_v2(void* stream, int mode) { return stream != memory; }
int cuStreamIsCapturing(void* stream, int* status) { return (int)ask("capturing", status, 4); }

// Graphs of nodes, each with a copy of its arguments.
typedef struct { void* function; unsigned extents[7]; void** arguments; void** extra; } Described;
typedef struct { Described described; char values[64][128]; void* places[64]; } Node;
typedef struct { int count; Node nodes[64]; } Graph;

static void describe(Node* node, const Described* described) {
  node->described = *described;
  int64_t count = ask("parameters", described->function, strlen(described->function));
  for (int64_t i = 0; i < count; ++i) {
    memcpy(node->values[i], described->arguments[i], ask("bytes", &i, 8));
    node->places[i] = node->values[i];
  }
}
int cuGraphCreate(void** graph, unsigned flags) { *graph = calloc(1, sizeof(Graph)); return 0; }
int cuGraphDestroy(void* graph) {
  if (graph != memory) free(graph);
  return 0;
}
int cuGraphExecDestroy(void* made) { return 0; }
int cuGraphAddKernelNode(void** node, void* graph, void** before, size_t count,
                         const Described* described) {
  Graph* all = graph;
  if (count != (all->count > 0) || (count && *before != &all->nodes[all->count - 1])) return 1;
  describe(*node = &all->nodes[all->count++], described);
  return (int)ask("node", "", 0);
}
int cuGraphExecKernelNodeSetParams(void* made, void* node, const Described* described) {
  describe(node, described);
  return (int)ask("move", "", 0);
}
int cuGraphLaunch(void* made, void* stream) {
  if (made == memory) return !stream;
  Graph* all = made;
  for (int i = 0; i < all->count; ++i) {
    Node* node = &all->nodes[i];
    unsigned* e = node->described.extents;
    int status = cuLaunchKernel(node->described.function, e[0], e[1], e[2], e[3], e[4], e[5], e[6],
                                stream, node->places, 0);
    if (status) return status;
  }
  return (int)ask("graph", "", 0);
}
