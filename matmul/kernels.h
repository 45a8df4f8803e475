// Made with the kernels: what they take, and how they are launched.
#include "launch.h"

#define KERNELS contraction

namespace contraction {

static const Driver& driver = rocm_driver;
static const std::vector<const char*> binaries = {"kernel.hsaco"};
static const std::vector<Parameter> parameters = {
    {"lhs", "float16", true},
    {"rhs", "float16", true},
    {"result", "float16", true},
};
static const std::vector<const char*> symbol_names = {"rows"};

// Bytes of each parameter's array; 0 of a number.
inline std::vector<Int> sizes([[maybe_unused]] const std::vector<Int>& symbols) {
  [[maybe_unused]] const Int rows = symbols[0];
  return {byte_count("float16", Int(1) * rows * 64), byte_count("float16", Int(1) * 64 * 96), byte_count("float16", Int(1) * rows * 96)};
}

// Launches the kernels on a stream and does not wait; arrays are addresses on the GPU.
inline void enqueue(Gpu& gpu, Pointer lhs, Pointer rhs, Pointer result, Int rows, Stream stream = nullptr) {
  gpu.launch("contraction_kernel", {(0 - floordiv(rows, (-128))), 1, 1}, {64, 4, 1}, 0, stream, lhs, result, rhs, static_cast<std::int64_t>(rows));
}

// The same, by the places of parameters and symbols.
inline void enqueue(Gpu& gpu, [[maybe_unused]] const std::vector<Pointer>& arrays,
                    [[maybe_unused]] const std::vector<double>& numbers,
                    [[maybe_unused]] const std::vector<Int>& symbols) {
  enqueue(gpu, arrays[0], arrays[1], arrays[2], symbols[0]);
}

}  // namespace contraction
