// A GPU and the kernels of one artifact on it, by the driver's own interface (HIP or CUDA).
//
// The driver is opened when the program runs, so that it compiles without HIP or CUDA.
#ifndef TVM_IREE_EXT_LAUNCH_H
#define TVM_IREE_EXT_LAUNCH_H

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

using Int = std::int64_t;
using Pointer = void*;
using Stream = void*;  // of the driver; nullptr is the default stream

struct Parameter {
  const char* name;
  const char* dtype;
  bool is_array;
};

// The driver's libraries and functions.
struct Driver {
  bool cuda;
  std::vector<const char*> libraries;
  const char *init, *load, *function, *allocate, *free, *to_device, *from_device, *launch, *wait;
};
static const Driver rocm_driver = {
    false,           {"libamdhip64.so", "libamdhip64.so.6", "libamdhip64.so.7"},
    "hipInit",       "hipModuleLoadData",
    "hipModuleGetFunction", "hipMalloc",
    "hipFree",       "hipMemcpyHtoD",
    "hipMemcpyDtoH", "hipModuleLaunchKernel",
    "hipDeviceSynchronize"};
static const Driver cuda_driver = {
    true,               {"libcuda.so.1", "libcuda.so"},
    "cuInit",           "cuModuleLoadData",
    "cuModuleGetFunction", "cuMemAlloc_v2",
    "cuMemFree_v2",     "cuMemcpyHtoD_v2",
    "cuMemcpyDtoH_v2",  "cuLaunchKernel",
    "cuCtxSynchronize"};

inline Int floordiv(Int a, Int b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
inline Int floormod(Int a, Int b) { return a - floordiv(a, b) * b; }

// Of so many elements; those below a byte are packed.
inline Int byte_count(const char* dtype, Int elements) {
  const std::string name(dtype);
  if (name == "bool") return elements;
  const auto underscore = name.find('_');  // float8_e4m3fn
  const std::string head = name.substr(0, underscore);
  const auto digits = head.find_first_of("0123456789");
  return (elements * std::stoll(head.substr(digits)) + 7) / 8;
}

inline std::uint16_t bfloat_bits(double number) {
  const float value = static_cast<float>(number);
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<std::uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

// Rounded to even, by way of a sum that leaves the bits of a half behind.
inline std::uint16_t half_bits(double number) {
  const float value = static_cast<float>(number);
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const std::uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000) return static_cast<std::uint16_t>(sign | 0x7E00);
  if (magnitude >= 0x477FF000) return static_cast<std::uint16_t>(sign | 0x7C00);
  if (magnitude < 0x38800000) {  // subnormal, or 0
    float scaled;
    std::memcpy(&scaled, &magnitude, sizeof scaled);
    scaled += 0.5f;
    std::memcpy(&bits, &scaled, sizeof bits);
    return static_cast<std::uint16_t>(sign | (bits - 0x3F000000));
  }
  const std::uint32_t rounded = magnitude + 0xFFF + (magnitude >> 13 & 1);
  return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000) >> 13));
}

// CUDA's descriptor of an array and of the boxes that are copied of it.
struct alignas(64) TensorMap {
  std::uint64_t words[16];
};

class Gpu {
 public:
  // Loads the first of `binaries` in `folder` that is for this chip.
  Gpu(const Driver& driver, const std::string& folder, const std::vector<const char*>& binaries,
      int ordinal = 0)
      : driver_(driver), ordinal_(ordinal) {
    for (const char* name : driver.libraries)
      if (!library_) library_ = dlopen(name, RTLD_NOW);
    if (!library_)
      throw std::runtime_error(std::string("no GPU driver: looked for ") + driver.libraries[0]);
    call(driver.init, 0u);
    if (driver.cuda) {
      int device = 0;
      void* context = nullptr;
      call("cuDeviceGet", &device, ordinal);
      call("cuDevicePrimaryCtxRetain", &context, device);
      call("cuCtxSetCurrent", context);
    } else {
      call("hipSetDevice", ordinal);
    }
    int status = 0;
    for (const char* name : binaries) {
      std::ifstream file(folder + "/" + name, std::ios::binary);
      std::string image((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
      if (image.empty()) throw std::runtime_error("cannot read " + folder + "/" + name);
      status = found<void**, const void*>(driver.load)(&module_, image.c_str());
      if (status != 209) break;  // CUDA_ERROR_NO_BINARY_FOR_GPU
    }
    if (binaries.empty())
      throw std::runtime_error(folder + " has the source only; compile kernel.cu to kernel.cubin");
    check(driver.load, status);
  }
  ~Gpu() {  // what fails here does not hide what failed before
    for (Pointer one : workspaces_) found<void*>(driver_.free)(one);
  }
  Gpu(const Gpu&) = delete;

  Pointer allocate(Int bytes) {
    Pointer made = nullptr;
    call(driver_.allocate, &made, static_cast<std::size_t>(std::max<Int>(bytes, 1)));
    return made;
  }
  void free(Pointer memory) { call(driver_.free, memory); }
  void write(Pointer to, const void* from, Int bytes) {
    if (bytes) call(driver_.to_device, to, from, static_cast<std::size_t>(bytes));
  }
  void read(void* to, Pointer from, Int bytes) {
    if (bytes) call(driver_.from_device, to, from, static_cast<std::size_t>(bytes));
  }

  // Memory that lives until the next wait().
  Pointer workspace(Int bytes) {
    workspaces_.push_back(allocate(bytes));
    return workspaces_.back();
  }

  // The fastest dim first; strides of the others in bytes.
  TensorMap tensor_map(const std::string& dtype, Pointer array, const std::vector<Int>& extents,
                       const std::vector<Int>& strides, const std::vector<std::uint32_t>& box,
                       const std::vector<std::uint32_t>& steps, int interleave, int swizzle,
                       int l2_promotion, int fill) {
    static const std::map<std::string, int> types = {
        {"uint8", 0},   {"int8", 0},    {"float8_e4m3fn", 0}, {"float8_e5m2", 0}, {"uint16", 1},
        {"int16", 1},   {"uint32", 2},  {"int32", 3},         {"uint64", 4},      {"int64", 5},
        {"float16", 6}, {"float32", 7}, {"float64", 8},       {"bfloat16", 9}};
    TensorMap made;
    call("cuTensorMapEncodeTiled", &made, types.at(dtype), static_cast<unsigned>(extents.size()),
         array, extents.data(), strides.data(), box.data(), steps.data(), interleave, swizzle,
         l2_promotion, fill);
    return made;
  }

  template <typename... Arguments>
  void launch(const char* kernel, const std::array<Int, 3>& grid, const std::array<Int, 3>& block,
              Int shared, Stream stream, Arguments... arguments) {
    if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0) return;
    Kernel& found = functions_[kernel];
    void*& function = found.function;
    if (!function) {
      call(driver_.function, &function, module_, kernel);
      const char* name = driver_.cuda ? "cuFuncGetAttribute" : "hipFuncGetAttribute";
      call(name, &found.lanes, 0, function);  // CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK
      call(name, &found.shared, 1, function);  // CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES
    }
    check_at_most(kernel, "lanes, of which the binary takes", block[0] * block[1] * block[2],
                  found.lanes);
    check_at_most(kernel, "lanes, of which the GPU takes", block[0] * block[1] * block[2],
                  limit(driver_.cuda ? 1 : 56));
    check_at_most(kernel, "bytes of shared memory, of which the GPU has", found.shared + shared,
                  limit(driver_.cuda ? 97 : 74));
    for (int axis = 0; axis < 3; ++axis)
      check_at_most(kernel, "workgroups along a dim, of which the GPU takes", grid[axis],
                    limit((driver_.cuda ? 5 : 29) + axis));
    if (driver_.cuda && shared > 48 * 1024)  // the most dynamic shared memory of the function
      call("cuFuncSetAttribute", function, 8, static_cast<int>(shared));
    void* places[] = {static_cast<void*>(&arguments)...};
    const auto extent = [](Int one) { return static_cast<unsigned>(one); };
    call(driver_.launch, function, extent(grid[0]), extent(grid[1]), extent(grid[2]),
         extent(block[0]), extent(block[1]), extent(block[2]), extent(shared), stream,
         static_cast<void**>(places), static_cast<void**>(nullptr));
  }

  void wait() {
    call(driver_.wait);
    while (!workspaces_.empty()) {
      const Pointer last = workspaces_.back();
      workspaces_.pop_back();
      free(last);
    }
  }

 private:
  template <typename... Arguments>
  using Function = int (*)(Arguments...);

  template <typename... Arguments>
  Function<Arguments...> found(const char* name) {
    auto function = reinterpret_cast<Function<Arguments...>>(dlsym(library_, name));
    if (!function) throw std::runtime_error(std::string("the driver has no ") + name);
    return function;
  }
  template <typename... Arguments>
  void call(const char* name, Arguments... arguments) {
    check(name, found<Arguments...>(name)(arguments...));
  }
  void check(const char* name, int status) const {
    if (status)
      throw std::runtime_error(std::string(name) + " failed with status " + std::to_string(status) +
                               explained(status));
  }

  // The driver's name for a status, and what it says of it.
  std::string explained(int status) const {
    std::string said;
    for (const char* what : {"GetErrorName", "GetErrorString"}) {
      const std::string name = (driver_.cuda ? "cu" : "hip") + std::string(what);
      void* function = dlsym(library_, name.c_str());
      const char* text = nullptr;
      if (function && driver_.cuda)
        reinterpret_cast<int (*)(int, const char**)>(function)(status, &text);
      else if (function)
        text = reinterpret_cast<const char* (*)(int)>(function)(status);
      if (text) said += (said.empty() ? ", " : ": ") + std::string(text);
    }
    return said;
  }

  // What the driver says of the GPU, by its number of it; 0 where it says nothing.
  int limit(int attribute) {
    const auto known = limits_.find(attribute);
    if (known != limits_.end()) return known->second;
    int value = 0;
    call(driver_.cuda ? "cuDeviceGetAttribute" : "hipDeviceGetAttribute", &value, attribute,
         ordinal_);
    return limits_[attribute] = value;
  }
  static void check_at_most(const char* kernel, const char* what, Int came, Int most) {
    if (most && came > most)
      throw std::runtime_error(std::string(kernel) + " is launched with " + std::to_string(came) +
                               " " + what + " at most " + std::to_string(most));
  }

  struct Kernel {
    void* function = nullptr;
    int lanes = 0, shared = 0;  // at most of a workgroup; declared
  };

  const Driver& driver_;
  int ordinal_;
  std::map<int, int> limits_;
  void *library_ = nullptr, *module_ = nullptr;
  std::map<std::string, Kernel> functions_;
  std::vector<Pointer> workspaces_;
};

#endif
