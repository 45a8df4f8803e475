"""A PyTorch model as a folder that C++ opens, with TVM's runtime; and one known call."""

import numpy as np
import torch

import tvm_iree_ext as ext

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 4)).eval()
batch = torch.export.Dim("batch")
program = ext.from_torch(model, torch.randn(2, 16), dynamic_shapes=({0: batch},))
print(program.main)
program.export("model", runtime=True)

x = torch.randn(5, 16)  # the batch that main.cpp calls it with
with torch.no_grad():
    np.concatenate([x.numpy().ravel(), model(x).numpy().ravel()]).tofile("call.bin")
