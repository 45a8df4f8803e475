// Opens the folder that export.py wrote and calls it, without Python and without a compiler.
#include <dlpack/dlpack.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/map.h>
#include <tvm/ffi/container/shape.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/json.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

namespace ffi = tvm::ffi;

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The file as memory, for as long as the process lives.  It begins at a page, as kernels expect it.
char* map(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY);
  struct stat status;
  if (file < 0 || fstat(file, &status) != 0) throw std::runtime_error("cannot read " + path);
  void* memory = mmap(nullptr, status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
  close(file);
  if (memory == MAP_FAILED) throw std::runtime_error("cannot map " + path);
  return static_cast<char*>(memory);
}

// Memory that is not the tensor's own.
struct Borrowed {
  void* data;
  void AllocData(DLTensor* tensor) { tensor->data = data; }
  void FreeData(DLTensor*) {}
};

ffi::Tensor view(void* data, ffi::ShapeView shape, DLDataType dtype) {
  return ffi::Tensor::FromNDAlloc(Borrowed{data}, shape, dtype, DLDevice{kDLCPU, 0});
}

// A function of an exported program.
class Program {
 public:
  Program(const std::string& folder, const std::string& name) : machine_(start(folder)) {
    run_ = machine_->GetFunction(name).value();

    // All constants stand in one file; the manifest says where, and which a function takes in turn.
    memory_ = map(folder + "/parameters.bin");
    auto manifest = ffi::json::Parse(read(folder + "/manifest.json")).cast<ffi::json::Object>();
    for (const ffi::Any& function : list(manifest, "functions")) {
      auto described = function.cast<ffi::json::Object>();
      if (described["name"].cast<ffi::String>() != name) continue;
      for (const ffi::Any& wanted : list(described, "parameters")) {
        constants_.push_back(constant(list(manifest, "parameters"), wanted.cast<ffi::String>()));
      }
    }
  }

  // The results; the inputs are arrays in the order in which the module takes them.
  ffi::Any operator()(const std::vector<ffi::Tensor>& inputs) const {
    std::vector<ffi::AnyView> passed(inputs.begin(), inputs.end());
    passed.insert(passed.end(), constants_.begin(), constants_.end());
    ffi::Any result;
    run_.CallPacked(passed.data(), static_cast<int32_t>(passed.size()), &result);
    return result;
  }

 private:
  // TVM's virtual machine: the bytecode says which kernels run on which memory.
  static ffi::Module start(const std::string& folder) {
    const char* reader = "ffi.Module.load_from_bytes.relax.VMExecutable";
    ffi::Function load = ffi::Function::GetGlobalRequired(reader);
    ffi::Module executable = load(ffi::Bytes(read(folder + "/program.vm"))).cast<ffi::Module>();
    executable->ImportModule(ffi::Module::LoadFromFile(folder + "/kernel.so"));
    ffi::Function begin = executable->GetFunction("vm_load_executable").value();
    ffi::Module machine = begin().cast<ffi::Module>();
    const int cpu = kDLCPU, pooled = 2;  // memory between kernels is kept for the next call
    machine->GetFunction("vm_initialization").value()(cpu, 0, pooled);
    return machine;
  }

  static ffi::json::Array list(const ffi::json::Object& object, const char* key) {
    return object[ffi::String(key)].cast<ffi::json::Array>();
  }

  ffi::Tensor constant(const ffi::json::Array& all, const ffi::String& name) {
    for (const ffi::Any& any : all) {
      auto one = any.cast<ffi::json::Object>();
      if (one["name"].cast<ffi::String>() != name) continue;
      std::vector<int64_t> shape;
      for (const ffi::Any& extent : list(one, "shape")) shape.push_back(extent.cast<int64_t>());
      char* data = memory_ + one["offset"].cast<int64_t>();
      DLDataType dtype = ffi::StringToDLDataType(one["dtype"].cast<ffi::String>());
      return view(data, ffi::Shape(shape), dtype);
    }
    throw std::runtime_error("the manifest has no constant " + std::string(name));
  }

  ffi::Module machine_;
  ffi::Function run_;
  char* memory_;
  std::vector<ffi::Tensor> constants_;
};

int main(int argc, char** argv) {
  // TVM would pin threads to processors.  Read when the first parallel kernel is called.
  setenv("TVM_BIND_THREADS", "0", /*overwrite=*/0);
  const int64_t rows = 5, in = 16, out = 4;
  try {
    Program model(argc > 1 ? argv[1] : "model", "main");
    std::string call = read("call.bin");  // inputs, and what PyTorch made of them
    float* numbers = reinterpret_cast<float*>(call.data());
    ffi::Tensor x = view(numbers, {rows, in}, {kDLFloat, 32, 1});
    ffi::Tensor y = model({x}).cast<ffi::Tensor>();

    const float* expected = numbers + rows * in;
    const float* came = static_cast<const float*>(y.data_ptr());
    float largest = 0;
    for (int64_t i = 0; i < rows * out; ++i) {
      largest = std::max(largest, std::abs(came[i] - expected[i]));
    }
    std::printf("%lld x %lld results; largest difference from PyTorch %.1e\n",
                static_cast<long long>(y.size(0)), static_cast<long long>(y.size(1)), largest);
    return largest < 1e-5f ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
