c++ -O1 $(python -m tvm_ffi.config --cxxflags) main.cpp -o main -Lmodel \
    -Wl,--no-as-needed -ltvm_runtime -ltvm_ffi -Wl,-rpath,'$ORIGIN/model'
./main
