"""From programs to TensorIR: every stage of a program can be compiled.

An n-D vector is a local buffer that is read and written at constant places, register by register,
so LLVM keeps it in registers; memory ops are loads and stores of vectors; loops are loops.
"""
