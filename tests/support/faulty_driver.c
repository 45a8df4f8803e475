// A GPU's driver before another one, whose calls it passes on: whether a call fails instead, or never
// returns, a server says that is asked of each by a socket.
//
// FUNCTIONS is a file with a line FORWARD(NAME) for each.  All arguments are integers and pointers,
// of which as many are passed on as any call has; what a function does not take it does not read.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { HANGS = -1 };

static int enter(const char* name) {
  static int server = -1;
  if (server < 0) {
    struct sockaddr_un place = {AF_UNIX, ""};
    snprintf(place.sun_path, sizeof place.sun_path, "%s", getenv("FAULTS"));
    server = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(server, (struct sockaddr*)&place, sizeof place)) return 998;
  }
  char line[100];
  int32_t status = 998;
  const int length = snprintf(line, sizeof line, "%s\n", name);
  if (write(server, line, length) != length || read(server, &status, 4) != 4) return 998;
  while (status == HANGS) pause();
  return status;
}

static void* driver(const char* name) {
  static void* library;
  if (!library) library = dlopen(getenv("FAULTLESS"), RTLD_NOW | RTLD_LOCAL);
  return library ? dlsym(library, name) : 0;
}

typedef intptr_t A;
typedef int (*Function)(A, A, A, A, A, A, A, A, A, A, A, A);
#define FORWARD(NAME)                                                        \
  int NAME(A a, A b, A c, A d, A e, A f, A g, A h, A i, A j, A k, A l) {     \
    const int status = enter(#NAME);                                         \
    if (status) return status;                                               \
    const Function function = (Function)driver(#NAME);                       \
    return function ? function(a, b, c, d, e, f, g, h, i, j, k, l) : 998;    \
  }
#include FUNCTIONS

static const char* name_of(int status) {
  switch (status) {
    case 2: return "OUT_OF_MEMORY";
    case 46: return "DEVICE_UNAVAILABLE";
    case 700: return "ILLEGAL_ADDRESS";
    case 719: return "LAUNCH_FAILED";
  }
  return "UNKNOWN";
}
const char* hipGetErrorName(int status) { return name_of(status); }
const char* hipGetErrorString(int status) { return "what it says"; }
int cuGetErrorName(int status, const char** name) { return *name = name_of(status), 0; }
int cuGetErrorString(int status, const char** text) { return *text = "what it says", 0; }
