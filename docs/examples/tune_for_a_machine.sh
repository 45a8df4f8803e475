# Tune a model's kernels for this machine, keep what was found in a file, and build with it elsewhere.
tvm-iree-ext tune model.mlir --time-limit 10m --records machine.jsonl
tvm-iree-ext records show machine.jsonl
tvm-iree-ext records prune machine.jsonl --keep 1
tvm-iree-ext records import machine.jsonl
