// Calls the GPU kernels of this folder: a start for a host program of your own.
//
//     c++ -std=c++17 launch.cpp -ldl -o launch && ./launch [NAME=NUMBER | NAME=FILE ...]
//
// A number is that of an extent or of a parameter; a file has the bytes of an array, which is zeros
// without one.  What the kernels leave in the arrays is written to NAME.bin.  kernels.h says what
// is taken and has the launches, as a function `enqueue` to call.
#include <cstdio>
#include <cstdlib>

#include "kernels.h"

namespace kernels = KERNELS;

static const char* value_of(const char* name, int count, char** words) {
  const std::string start = std::string(name) + "=";
  for (int i = 1; i < count; ++i)
    if (!start.compare(0, start.size(), words[i], std::min(start.size(), std::strlen(words[i]))))
      return words[i] + start.size();
  return nullptr;
}

static int run(int count, char** words) {
  Gpu gpu(kernels::driver, ".", kernels::binaries);
  std::vector<Int> symbols;
  for (const char* name : kernels::symbol_names) {
    const char* given = value_of(name, count, words);
    if (!given) throw std::runtime_error(std::string("give the extent ") + name + ", as NAME=NUMBER");
    symbols.push_back(std::atoll(given));
  }
  const std::vector<Int> sizes = kernels::sizes(symbols);
  std::vector<Pointer> arrays;
  std::vector<double> numbers;
  for (std::size_t i = 0; i < kernels::parameters.size(); ++i) {
    const char* given = value_of(kernels::parameters[i].name, count, words);
    numbers.push_back(given && !kernels::parameters[i].is_array ? std::atof(given) : 0);
    arrays.push_back(nullptr);
    if (!kernels::parameters[i].is_array) continue;
    std::string content(static_cast<std::size_t>(sizes[i]), '\0');
    if (given) {
      std::ifstream file(given, std::ios::binary);
      file.read(&content[0], sizes[i]);
      if (file.gcount() != sizes[i])
        throw std::runtime_error(std::string(given) + " has fewer than " + std::to_string(sizes[i]) +
                                 " bytes");
    }
    arrays[i] = gpu.allocate(sizes[i]);
    gpu.write(arrays[i], content.data(), sizes[i]);
  }
  kernels::enqueue(gpu, arrays, numbers, symbols);
  gpu.wait();
  for (std::size_t i = 0; i < kernels::parameters.size(); ++i) {
    if (!kernels::parameters[i].is_array) continue;
    std::string content(static_cast<std::size_t>(sizes[i]), '\0');
    gpu.read(&content[0], arrays[i], sizes[i]);
    gpu.free(arrays[i]);
    std::ofstream(std::string(kernels::parameters[i].name) + ".bin", std::ios::binary) << content;
    std::printf("%s: %lld bytes\n", kernels::parameters[i].name, static_cast<long long>(sizes[i]));
  }
  return 0;
}

int main(int count, char** words) {
  try {
    return run(count, words);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
