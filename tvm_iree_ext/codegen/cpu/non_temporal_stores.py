"""Non-temporal stores, past the caches, as functions of LLVM IR that are linked with kernels.

A result that no cache holds is read into one before it is written, line by line: a third of the
traffic of a copy.  TIR has no word for a non-temporal store, LLVM has: a store that
is marked ``nontemporal``, of an address that is a multiple of its bytes.  A processor gathers such
stores until it has a line; to a line that is stored to as usual, too, it would go twice.

A vector may have any address, as NumPy's arrays have multiples of 16 bytes: it is looked at, a
whole vector stored at once, in parts of 16 bytes, or as usual.  A copy of what lies in the first
cache stores whole lines, from wherever they begin there, and what it has of lines at its ends as
usual: last of all, with those lines fetched meanwhile, since stores wait for one that waits for its
line.
"""

import tvm_ffi
from tvm import ir, tirx

_PREFIX = "tvm_iree_ext_stream"
PART_BYTES = 16
"""The least that is stored non-temporally, at an address that is a multiple of it."""

COPY = f"{_PREFIX}_copy"
"""The function that copies ``(to, from, bytes)`` between places that do not overlap."""

LINE = f"{_PREFIX}_line"
"""The function that says how many bytes after ``(address)`` a line of the cache begins."""

FENCE = f"{_PREFIX}_fence"
"""The function that a task calls after its stores: others see them then."""

_TEXTS = {
    COPY: f"""
define void @{COPY}(ptr noalias %to, ptr noalias %from, i64 %bytes) {{
entry:
  %address = ptrtoint ptr %to to i64
  %below = sub i64 0, %address
  %ragged = and i64 %below, 63
  %head = call i64 @llvm.umin.i64(i64 %ragged, i64 %bytes)
  %others = sub i64 %bytes, %head
  %whole = and i64 %others, -64
  %end = add i64 %head, %whole
  %left = sub i64 %bytes, %end
  %behind = getelementptr i8, ptr %to, i64 %end
  %begins = icmp eq i64 %head, 0
  %ends = icmp eq i64 %left, 0
  %first = select i1 %begins, ptr %from, ptr %to
  %last = select i1 %ends, ptr %from, ptr %behind
  call void @llvm.prefetch.p0(ptr %first, i32 1, i32 3, i32 1)
  call void @llvm.prefetch.p0(ptr %last, i32 1, i32 3, i32 1)
  br label %test
test:
  %at = phi i64 [ %head, %entry ], [ %next, %line ]
  %next = add i64 %at, 64
  %source = getelementptr i8, ptr %from, i64 %at
  %target = getelementptr i8, ptr %to, i64 %at
  %more = icmp ult i64 %at, %end
  br i1 %more, label %line, label %tail
line:
  %value = load <16 x i32>, ptr %source, align 1
  store <16 x i32> %value, ptr %target, align 64, !nontemporal !0
  br label %test
tail:
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %head, i1 false)
  call void @llvm.memcpy.p0.p0.i64(ptr %target, ptr %source, i64 %left, i1 false)
  ret void
}}
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)
declare i64 @llvm.umin.i64(i64, i64)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
""",
    LINE: f"""
define i64 @{LINE}(ptr %p) {{
  %a = ptrtoint ptr %p to i64
  %n = sub i64 0, %a
  %r = and i64 %n, 63
  ret i64 %r
}}
""",
    FENCE: f"""
define void @{FENCE}() {{
  fence seq_cst
  ret void
}}
""",
}


def stream_name(bits: int, lanes: int) -> str:
    """The function that stores ``lanes`` words of so many bits: ``(address, vector)``."""
    return f"{_PREFIX}_{lanes}x{bits}"


def _text(name: str) -> str:
    """The definition of a function, by its name."""
    if name in _TEXTS:
        return _TEXTS[name]
    lanes, bits = map(int, name.removeprefix(f"{_PREFIX}_").split("x"))
    size, item = lanes * bits // 8, bits // 8
    count, words = size // PART_BYTES, f"<{lanes} x i{bits}>"
    parts = []
    for part in range(count):
        each = lanes // count
        places = ", ".join(f"i32 {part * each + lane}" for lane in range(each))
        piece = f"<{each} x i{bits}>"
        parts += [
            f"%v{part} = shufflevector {words} %v, {words} poison, <{each} x i32> <{places}>",
            f"%p{part} = getelementptr i8, ptr %p, i64 {part * PART_BYTES}",
            f"store {piece} %v{part}, ptr %p{part}, align {PART_BYTES}, !nontemporal !0",
        ]
    lines = [
        f"define void @{name}(ptr %p, {words} %v) {{",
        "%a = ptrtoint ptr %p to i64",
        f"%r = and i64 %a, {size - 1}",
        "%whole = icmp eq i64 %r, 0",
        "br i1 %whole, label %vector, label %other",
        "vector:",
        f"store {words} %v, ptr %p, align {size}, !nontemporal !0",
        "ret void",
        "other:",
        f"%s = and i64 %a, {PART_BYTES - 1}",
        "%even = icmp eq i64 %s, 0",
        "br i1 %even, label %parts, label %plain",
        "parts:",
        *parts,
        "ret void",
        "plain:",
        f"store {words} %v, ptr %p, align {item}",
        "ret void",
        "}",
    ]
    return "\n".join(lines) + "\n"


@tirx.transform.prim_func_pass(opt_level=0)
def define_streams(
    func: tirx.PrimFunc, _mod: ir.IRModule, _ctx: ir.transform.PassContext
) -> tirx.PrimFunc:
    """Link the functions that a PrimFunc calls; LLVM puts them in the place of the calls."""
    names: set[str] = set()

    def look(call: ir.Call) -> None:
        if call.op.same_as(_EXTERN) and str(call.args[0].value).startswith(_PREFIX):
            names.add(str(call.args[0].value))

    tvm_ffi.structural_walk(func.body, (ir.Call, look))
    if not names:
        return func
    text = "".join(map(_text, sorted(names))) + "!0 = !{i32 1}\n"
    zero = tirx.const(0, "int32")
    return func.with_body(tirx.AttrStmt(zero, "pragma_import_llvm", ir.StringImm(text), func.body))


_EXTERN = ir.Op.get("tirx.call_extern")
