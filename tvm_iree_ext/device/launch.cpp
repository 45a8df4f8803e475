// Launches a GPU kernel of this folder on zeros: a start for a host program of your own.
//
//     c++ -std=c++17 launch.cpp -ldl -o launch && ./launch [KERNEL]
//
// kernels.h has the launch extents and the arguments.  The driver is opened when the program runs,
// so that it compiles without HIP or CUDA.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "kernels.h"

static void* driver;

template <typename... Arguments>
static void call(const char* name, Arguments... arguments) {
  auto function = reinterpret_cast<int (*)(Arguments...)>(dlsym(driver, name));
  if (!function) {
    std::fprintf(stderr, "the driver has no %s\n", name);
    std::exit(1);
  }
  if (int status = function(arguments...)) {
    std::fprintf(stderr, "%s failed with status %d\n", name, status);
    std::exit(1);
  }
}

int main(int count, char** arguments) {
  const Kernel* kernel = &kernels[0];
  for (const Kernel& one : kernels)
    if (count > 1 && !std::strcmp(one.name, arguments[1])) kernel = &one;

  for (const char* name : driver_libraries)
    if (!driver) driver = dlopen(name, RTLD_NOW);
  if (!driver) {
    std::fprintf(stderr, "no GPU driver: looked for %s\n", driver_libraries[0]);
    return 1;
  }
  call(driver_init, 0u);
#ifdef FOR_CUDA
  int device = 0;
  void* context = nullptr;
  call("cuDeviceGet", &device, 0);
  call("cuDevicePrimaryCtxRetain", &context, device);
  call("cuCtxSetCurrent", context);
#endif

  std::ifstream file(binary_file, std::ios::binary);
  std::string image((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (image.empty()) {
    std::fprintf(stderr, "cannot read %s\n", binary_file);
    return 1;
  }
  void *module = nullptr, *function = nullptr;
  call(driver_load, &module, static_cast<const void*>(image.c_str()));
  call(driver_function, &function, module, kernel->name);

  std::vector<void*> buffers(kernel->num_arguments);
  std::vector<void*> parameters(kernel->num_arguments);
  for (int i = 0; i < kernel->num_arguments; ++i) {
    std::vector<char> zeros(kernel->arguments[i].bytes);
    call(driver_allocate, &buffers[i], zeros.size());
    call(driver_to_device, buffers[i], static_cast<const void*>(zeros.data()), zeros.size());
    parameters[i] = &buffers[i];
  }
  const unsigned *grid = kernel->grid, *block = kernel->block;
  call(driver_launch, function, grid[0], grid[1], grid[2], block[0], block[1], block[2], 0u,
       static_cast<void*>(nullptr), parameters.data(), static_cast<void**>(nullptr));
  call(driver_wait);
  for (int i = 0; i < kernel->num_arguments; ++i) {
    std::vector<char> result(kernel->arguments[i].bytes);
    call(driver_from_device, static_cast<void*>(result.data()), buffers[i], result.size());
    std::printf("%s: %zu bytes\n", kernel->arguments[i].name, result.size());
  }
  return 0;
}
