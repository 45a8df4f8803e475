"""LLVM IR of the barriers and loads that :mod:`.amd_memory` calls on AMD's GPUs."""

# A load of a base, bytes from there in three parts, and, guarded, whether there is one, else 0.
LOAD = "tvm_iree_ext_load_"
GUARDED_LOAD = "tvm_iree_ext_guarded_load_"
BARRIER = "tvm_iree_ext_barrier"
BARRIER_OF_ALL = "tvm_iree_ext_barrier_of_all_memory"  # what a schedule may ask for
LOADED_BARRIER = "tvm_iree_ext_barrier_after_loads"
LOAD_BYTES = {1: "i8", 2: "i16", 4: "i32", 8: "<2 x i32>", 16: "<4 x i32>"}
MOST = 1 << 31  # bytes that offsets of 32 bits reach, whichever way they are extended
UNITS = {"rdna": ("gfx11", "gfx120"), "cdna": ("gfx9",)}
# Waits for all loads from global memory; counters of other kinds are at their most.
WAITS = {
    "gfx9": "call void @llvm.amdgcn.s.waitcnt(i32 3952)",
    "gfx11": "call void @llvm.amdgcn.s.waitcnt(i32 1015)",
    "gfx120": "call void @llvm.amdgcn.s.wait.loadcnt(i16 0)",
}
# The resource's last word: any valid format; RDNA: a bit that must be set, and how to check bounds:
# not at all, or a lane's offset alone.
_FORMAT = 7 << 12 | 4 << 15
_FLAGS = {
    False: {"cdna": _FORMAT, "rdna": _FORMAT | 1 << 24 | 2 << 28},
    True: {"cdna": _FORMAT, "rdna": _FORMAT | 1 << 24 | 3 << 28},
}


def memory_definitions() -> str:
    """LLVM IR of the functions that :func:`~.amd_memory.rewrite_memory` calls."""
    return "\n".join(
        [
            "declare void @llvm.amdgcn.s.barrier()",
            "declare void @llvm.amdgcn.s.waitcnt(i32)",
            "declare void @llvm.amdgcn.s.wait.loadcnt(i16)",
            "declare void @llvm.amdgcn.sched.barrier(i32)",
            _barrier_definition(BARRIER, []),
            _barrier_definition(BARRIER_OF_ALL, []).replace(", !mmra !0", ""),
            *(
                _barrier_definition(
                    f"{LOADED_BARRIER}_{chips}",
                    [wait, "call void @llvm.amdgcn.sched.barrier(i32 0)"],
                )
                for chips, wait in WAITS.items()
            ),
            '!0 = !{!"amdgpu-synchronize-as", !"local"}',
            "declare ptr addrspace(8) @llvm.amdgcn.make.buffer.rsrc.p8.p1"
            "(ptr addrspace(1), i16, i64, i32)",
            *(
                _load_definition(unit, count, guarded)
                for guarded in (False, True)
                for unit in UNITS
                for count in LOAD_BYTES
            ),
        ]
    )


def _barrier_definition(name: str, before: list[str]) -> str:
    calls = [
        *before,
        'fence syncscope("workgroup") release, !mmra !0',
        "call void @llvm.amdgcn.s.barrier()",
        'fence syncscope("workgroup") acquire, !mmra !0',
        "ret i32 0",
    ]
    body = "".join(f"  {call}\n" for call in calls)
    return f"define linkonce_odr i32 @{name}() alwaysinline convergent {{\n{body}}}"


def _load_definition(unit: str, count: int, guarded: bool) -> str:
    llvm_type = LOAD_BYTES[count]
    mangled = f"v{llvm_type[1]}i32" if llvm_type[0] == "<" else llvm_type
    intrinsic = f"@llvm.amdgcn.raw.ptr.buffer.load.{mangled}"
    condition = ", i1 %inside" if guarded else ""
    size = MOST if guarded else (1 << 32) - 1
    lines = [
        f"define linkonce_odr {llvm_type} @{load_name(unit, count, guarded)}"
        f"(ptr addrspace(1) %base, i64 %first, i32 %shared, i32 %lane{condition}) alwaysinline {{",
        "  %own = getelementptr i8, ptr addrspace(1) %base, i64 %first",
        "  %resource = call ptr addrspace(8) @llvm.amdgcn.make.buffer.rsrc.p8.p1"
        f"(ptr addrspace(1) %own, i16 0, i64 {size}, i32 {_FLAGS[guarded][unit]})",
        *([f"  %offset = select i1 %inside, i32 %lane, i32 -{MOST}"] if guarded else []),
        f"  %value = call {llvm_type} {intrinsic}"
        f"(ptr addrspace(8) %resource, i32 %{'offset' if guarded else 'lane'}, i32 %shared, i32 0)",
        f"  ret {llvm_type} %value",
        "}",
    ]
    if unit == next(iter(UNITS)) and not guarded:
        lines.insert(0, f"declare {llvm_type} {intrinsic}(ptr addrspace(8), i32, i32, i32)")
    return "\n".join(lines)


def load_name(unit: str, count: int, guarded: bool = False) -> str:
    """The name of the load of so many bytes on a unit, a key of :data:`UNITS`."""
    return f"{GUARDED_LOAD if guarded else LOAD}{unit}_{count}"
