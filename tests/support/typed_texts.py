"""The smallest case of each op over elements of a type, as MLIR in today's spelling.

Each is of the case in ``catalog/element_types.py``: its function takes the op's arguments in the
order of the signature, and gives its results.  Types are MLIR's.  Its arithmetic is of integers
without a sign, so that numbers of others are cast for it.
"""

from collections.abc import Callable

Text = Callable[[str], str]


def is_float(t: str) -> bool:
    return t[0] in "fb"


def part_of(t: str) -> str:
    """The type of a complex number's parts."""
    return t[len("complex<") : -1]


def signless(t: str) -> str:
    """The type that ``arith`` has for integers of a type."""
    return t.removeprefix("u") if t.startswith("ui") else t


def cast(name: str, value: str, came: str, t: str) -> str:
    return f"%{name} = builtin.unrealized_conversion_cast %{value} : {came} to {t}"


def constant(name: str, t: str, number: int) -> str:
    if t != signless(t):
        plain = f"{name}_plain"
        return f"{constant(plain, signless(t), number)}\n {cast(name, plain, signless(t), t)}"
    if t.startswith("complex"):
        part = part_of(t)
        return f"%{name} = complex.constant [{number}.0 : {part}, 0.0 : {part}] : {t}"
    if t == "i1":
        return f"%{name} = arith.constant {'true' if number else 'false'}"
    return f"%{name} = arith.constant {number}{'.0' if is_float(t) else ''} : {t}"


def on_signless(t: str, name: str) -> str:
    """%p and %q as %p_plain and %q_plain."""
    return f"{cast('p_plain', 'p', t, name)}\n {cast('q_plain', 'q', t, name)}"


def added(t: str) -> str:
    if t != signless(t):
        plain = signless(t)
        total = f"%total = arith.addi %p_plain, %q_plain : {plain}"
        return f"{on_signless(t, plain)}\n {total}\n {cast('s', 'total', plain, t)}"
    if t == "i1":
        return f"%s = arith.ori %p, %q : {t}"
    kind = "complex.add" if "complex" in t else "arith.addf" if is_float(t) else "arith.addi"
    return f"%s = {kind} %p, %q : {t}"


def compared(t: str, sign: str) -> str:
    if "complex" in t:
        return (
            f"%u = complex.re %p : {t}\n %w = complex.re %q : {t}\n"
            f" %s = arith.cmpf o{sign}, %u, %w : {part_of(t)}"
        )
    if is_float(t):
        return f"%s = arith.cmpf o{sign}, %p, %q : {t}"
    if t != signless(t):
        plain = signless(t)
        return f"{on_signless(t, plain)}\n %s = arith.cmpi u{sign}, %p_plain, %q_plain : {plain}"
    return f"%s = arith.cmpi {'u' if t == 'i1' else 's'}{sign}, %p, %q : {t}"


def region(t: str, body: str, yields: str, dialect: str = "iree_linalg_ext") -> str:
    return f"{{\n ^bb0(%p: {t}, %q: {t}):\n {body}\n {dialect}.yield %s : {yields}\n }}"


def function(arguments: dict[str, str], body: str, results: list[str]) -> str:
    """A function whose results are those of ``%r``."""
    given = ", ".join(f"%{name}: {kind}" for name, kind in arguments.items())
    kinds = ", ".join(results)
    many = len(results) > 1
    names = ", ".join(f"%r#{i}" for i in range(len(results))) if many else "%r"
    made = f"%r:{len(results)}" if many else "%r"
    return (
        f"func.func @f({given}) -> ({kinds}) {{\n {body.replace('%r =', made + ' =')}\n"
        f" return {names} : {kinds}\n}}\n"
    )


def affine(*texts: str) -> str:
    return "[" + ", ".join(f"affine_map<{one}>" for one in texts) + "]"


ATTENTION = ("b, h, m, k1", "b, h, k2, k1", "b, h, k2, n", "", "b, h, m, n")
STATE = ("b, h, m", "b, h, m")


def attention_maps(*results: str) -> str:
    return affine(*(f"(b, h, m, n, k1, k2) -> ({one})" for one in results))


def attention(t: str) -> str:
    q, k, s = f"tensor<1x2x4x8x{t}>", f"tensor<1x2x6x8x{t}>", scale_type(t)
    o = f"tensor<1x2x4x8x{result_type(t)}>"
    return function(
        {"q": q, "k": k, "v": k},
        f"""{scale(s)}
 %e = tensor.empty() : {o}
 %r = iree_linalg_ext.attention {{indexing_maps = {attention_maps(*ATTENTION)}}}
   ins(%q, %k, %v, %c : {q}, {k}, {k}, {s}) outs(%e : {o}) {{
 ^bb0(%p: f32):
   iree_linalg_ext.yield %p : f32
 }} -> {o}""",
        [o],
    )


def online_attention(t: str) -> str:
    q, k, s = f"tensor<1x2x4x8x{t}>", f"tensor<1x2x6x8x{t}>", scale_type(t)
    o, m = f"tensor<1x2x4x8x{s}>", f"tensor<1x2x4x{s}>"
    return function(
        {"q": q, "k": k, "v": k, "o": o, "m": m, "l": m},
        f"""{scale(s)}
 %r = iree_linalg_ext.online_attention {{indexing_maps = {attention_maps(*ATTENTION, *STATE)},
   decomposition_config = {{use_exp2 = false}}}}
   ins(%q, %k, %v, %c : {q}, {k}, {k}, {s}) outs(%o, %m, %l : {o}, {m}, {m}) {{
 ^bb0(%p: f32):
   iree_linalg_ext.yield %p : f32
 }} -> {o}, {m}, {m}""",
        [o, m, m],
    )


def scale_type(t: str) -> str:
    """The type of attention's scale."""
    return "f64" if t == "f64" else "f32"


def result_type(t: str) -> str:
    """The type of its result: the query's, where that may be."""
    return t if t in ("f16", "bf16", "f64") else "f32"


def scale(t: str) -> str:
    """8 ** -0.5, where heads are of 8 elements."""
    return f"%c = arith.constant {8**-0.5} : {t}"


def exp_reduction(t: str) -> str:
    wide = "f64" if t == "f64" else "f32"
    x, a = f"tensor<3x5x{t}>", f"tensor<3x{wide}>"
    widen = "" if t == wide else f"%w = arith.extf %p : {t} to {wide}"
    return function(
        {"x": x, "m": a, "z": a},
        f"""%r = iree_linalg_ext.exp_reduction {{
   indexing_maps = {affine("(m, k) -> (m, k)", "(m, k) -> (m)", "(m, k) -> (m)")},
   iterator_types = [#iree_linalg_ext.iterator_type<parallel>,
                     #iree_linalg_ext.iterator_type<reduction>],
   exp_reduced_operands = [1]}} ins(%x : {x}) outs(%m, %z : {a}, {a}) {{
 ^bb0(%p: {t}, %q: {wide}, %s: {wide}):
   {widen}
   %t = arith.addf %{"w" if widen else "p"}, %s : {wide}
   iree_linalg_ext.yield %q, %t : {wide}, {wide}
 }} -> {a}, {a}""",
        [a, a],
    )


def numbered(t: str) -> str:
    """Where an element stands, %i of type index, as a number %n of a type."""
    if t == "index":
        return "%zero = arith.constant 0 : index\n %n = arith.addi %i, %zero : index"
    if t != signless(t):
        plain = numbered(signless(t)).replace("%n =", "%n_plain =")
        return f"{plain}\n {cast('n', 'n_plain', signless(t), t)}"
    word = "%w = arith.index_cast %i : index to i64\n "
    if "complex" in t:
        part = part_of(t)
        return (
            f"{word}%u = arith.sitofp %w : i64 to {part}\n"
            f" {constant('o', part, 0)}\n %n = complex.create %u, %o : {t}"
        )
    if is_float(t):
        return f"{word}%n = arith.sitofp %w : i64 to {t}"
    if t == "i64":
        return word.replace("%w", "%n")
    if t == "i1":
        return "%zero = arith.constant 0 : index\n %n = arith.cmpi ne, %i, %zero : index"
    return f"{word}%n = arith.trunci %w : i64 to {t}"


def custom_op(t: str) -> str:
    x, tile = f"tensor<5x{t}>", f"tensor<?x{t}>"
    return function(
        {"x": x},
        f"""%r = iree_linalg_ext.custom_op {{indexing_maps = {affine("(d0) -> (d0)")},
   iterator_types = [#iree_linalg_ext.iterator_type<parallel>]}} outs(%x : {x}) {{
 ^bb0(%z: {tile}):
   %start = iree_linalg_ext.index 0 : index
   %g = linalg.generic {{indexing_maps = {affine("(d0) -> (d0)")}, iterator_types = ["parallel"]}}
     outs(%z : {tile}) {{
   ^bb1(%p: {t}):
     %at = linalg.index 0 : index
     %i = arith.addi %at, %start : index
     {numbered(t)}
     linalg.yield %n : {t}
   }} -> {tile}
   iree_linalg_ext.yield %g : {tile}
 }} -> {x}""",
        [x],
    )


def fft(t: str) -> str:
    x = f"tensor<2x4x{t}>"
    return function(
        {"re": x, "im": x},
        f"""%n = arith.constant 1 : index
 %r = iree_linalg_ext.fft ins(%n : index) outs(%re, %im : {x}, {x}) : {x}, {x}""",
        [x, x],
    )


def pack(t: str) -> str:
    x, o = f"tensor<5x3x{t}>", f"tensor<2x3x4x{t}>"
    return function(
        {"x": x},
        f"""{constant("c", t, 1)}
 %e = tensor.empty() : {o}
 %r = linalg.pack %x padding_value(%c : {t}) inner_dims_pos = [0] inner_tiles = [4]
   into %e : {x} -> {o}""",
        [o],
    )


def unpack(t: str) -> str:
    x, o = f"tensor<2x3x4x{t}>", f"tensor<5x3x{t}>"
    return function(
        {"x": x},
        f"""%e = tensor.empty() : {o}
 %r = linalg.unpack %x inner_dims_pos = [0] inner_tiles = [4] into %e : {x} -> {o}""",
        [o],
    )


def scatter(t: str) -> str:
    u, i, x = f"tensor<3x5x{t}>", "tensor<3xi32>", f"tensor<4x5x{t}>"
    return function(
        {"u": u, "i": i, "x": x},
        f"""%r = iree_linalg_ext.scatter dimension_map = [0] unique_indices(true)
   ins(%u, %i : {u}, {i}) outs(%x : {x}) {region(t, added(t), t)} -> {x}""",
        [x],
    )


def gather(t: str) -> str:
    x, i, o = f"tensor<4x5x{t}>", "tensor<3xi32>", f"tensor<3x5x{t}>"
    return function(
        {"x": x, "i": i},
        f"""%e = tensor.empty() : {o}
 %r = iree_linalg_ext.gather dimension_map = [0] ins(%x, %i : {x}, {i}) outs(%e : {o}) -> {o}""",
        [o],
    )


def scan(t: str) -> str:
    a, x = f"tensor<3x{t}>", f"tensor<3x5x{t}>"
    return function(
        {"x": x, "a": a},
        f"""%e = tensor.empty() : {x}
 %r = iree_linalg_ext.scan dimension(1) inclusive(true) ins(%x : {x}) outs(%e, %a : {x}, {a})
 {region(t, added(t), t)} -> {x}, {a}""",
        [x, a],
    )


def map_load(t: str) -> str:
    x, o = f"tensor<3x5x{t}>", f"tensor<5x4x{t}>"
    return function(
        {"x": x},
        f"""{constant("c", t, 1)}
 %e = tensor.empty() : {o}
 %r = iree_linalg_ext.map_load %x into %e {{
 ^bb0(%i: index, %j: index):
   iree_linalg_ext.yield %j, %i, %c : index, index, {t}
 }} : {x} into {o} -> {o}""",
        [o],
    )


def map_store(t: str) -> str:
    x, o = f"tensor<3x5x{t}>", f"tensor<5x3x{t}>"
    return function(
        {"x": x, "o": o},
        f"""%two = arith.constant 2 : index
 %r = iree_linalg_ext.map_store %x into %o {{
 ^bb0(%i: index, %j: index):
   %mask = arith.cmpi slt, %i, %two : index
   iree_linalg_ext.yield %j, %i, %mask : index, index, i1
 }} : {x} into {o} -> {o}""",
        [o],
    )


def sort(t: str) -> str:
    x = f"tensor<3x5x{t}>"
    body = region(t, compared(t, "lt"), "i1")
    return function(
        {"x": x}, f"%r = iree_linalg_ext.sort dimension(1) outs(%x : {x}) {body} -> {x}", [x]
    )


def topk(t: str, name: str = "topk", more: str = "") -> str:
    x, v, i = f"tensor<3x9x{t}>", f"tensor<3x2x{t}>", "tensor<3x2xi32>"
    body = region(t, compared(t, "gt"), "i1")
    return function(
        {"x": x, "v": v, "i": i},
        f"""%r = iree_linalg_ext.{name} dimension(1){more} ins(%x : {x}) outs(%v, %i : {v}, {i})
 {body} -> {v}, {i}""",
        [v, i],
    )


def topk_v2(t: str) -> str:
    return topk(t, name="topk_v2", more=" is_sorted")


def im2col(t: str) -> str:
    x, o = f"tensor<1x4x4x2x{t}>", f"tensor<1x9x8x{t}>"
    return function(
        {"x": x},
        f"""%e = tensor.empty() : {o}
 %r = iree_linalg_ext.im2col strides = [1, 1] dilations = [1, 1] kernel_size = [2, 2]
   offsets = [0, 0, 0] output_sizes = [[1], [3, 3], [2, 2, 2]]
   batch_pos = [0] m_pos = [1, 2] k_pos = [3] input_k_perm = [0, 1, 2] output_perm = [0, 1, 2]
   ins(%x : {x}) outs(%e : {o}) -> {o}""",
        [o],
    )


def arg_compare(t: str) -> str:
    x, v, i = f"tensor<3x5x{t}>", f"tensor<3x{t}>", "tensor<3xi32>"
    body = region(t, compared(t, "gt"), "i1")
    return function(
        {"x": x, "v": v, "i": i},
        f"""%r = iree_linalg_ext.arg_compare dimension(1) ins(%x : {x}) outs(%v, %i : {v}, {i})
 {body} -> {v}, {i}""",
        [v, i],
    )


def winograd(t: str, what: str, dims: str, x: str, o: str) -> str:
    x, o = f"tensor<{x}x{t}>", f"tensor<{o}x{t}>"
    return function(
        {"x": x},
        f"""%e = tensor.empty() : {o}
 %r = iree_linalg_ext.winograd.{what} output_tile_size(2) kernel_size(3)
   {dims} ins(%x : {x}) outs(%e : {o}) -> {o}""",
        [o],
    )


def winograd_filter(t: str) -> str:
    return winograd(t, "filter_transform", "kernel_dimensions([0, 1])", "3x3x2x2", "4x4x2x2")


def winograd_input(t: str) -> str:
    return winograd(t, "input_transform", "image_dimensions([1, 2])", "1x6x6x2", "4x4x1x2x2x2")


def winograd_output(t: str) -> str:
    return winograd(t, "output_transform", "image_dimensions([1, 2])", "4x4x1x2x2x2", "1x4x4x2")


def vector_arg_compare(t: str) -> str:
    x, v, i = f"vector<3x5x{t}>", f"vector<3x{t}>", "vector<3xi64>"
    body = region(t, compared(t, "gt"), "i1", "iree_vector_ext")
    return function(
        {"x": x, "v": v, "i": i},
        f"""%r = iree_vector_ext.arg_compare dimension(1) ins(%x : {x}) inits(%v, %i : {v}, {i})
 {body} -> {v}, {i}""",
        [v, i],
    )


TRANSFER = affine("(d0, d1)[s0] -> (s0, d1)", "(d0, d1)[s0] -> (d0)")


def transfer_gather(t: str) -> str:
    x, o, i = f"tensor<4x5x{t}>", f"vector<3x5x{t}>", "vector<3xindex>"
    return function(
        {"x": x, "i": i},
        f"""%c0 = arith.constant 0 : index
 {constant("pad", t, 0)}
 %r = iree_vector_ext.transfer_gather %x[%c0, %c0] [%i : {i}], %pad {{
   indexing_maps = {TRANSFER} }} : {x}, {o}""",
        [o],
    )


def transfer_scatter(t: str) -> str:
    v, x, i = f"vector<3x5x{t}>", f"tensor<4x5x{t}>", "vector<3xindex>"
    return function(
        {"v": v, "x": x, "i": i},
        f"""%c0 = arith.constant 0 : index
 %r = iree_vector_ext.transfer_scatter %v into %x[%c0, %c0] [%i : {i}] {{
   indexing_maps = {TRANSFER} }} : {v}, {x} -> {x}""",
        [x],
    )


LAYOUT = """layout(#iree_vector_ext.nested_layout<
   subgroup_tile = [1, 1], batch_tile = [1, 1], outer_tile = [1, 1], thread_tile = [4, 1],
   element_tile = [1, 4], subgroup_strides = [0, 0], thread_strides = [1, 0]>)"""


def to_layout(t: str) -> str:
    x = f"vector<4x4x{t}>"
    return function({"x": x}, f"%r = iree_vector_ext.to_layout %x to {LAYOUT} : {x}", [x])


def to_simt(t: str) -> str:
    x, o = f"vector<4x4x{t}>", f"vector<1x4x{t}>"
    return function(
        {"x": x},
        f"""%l = iree_vector_ext.to_layout %x to {LAYOUT} : {x}
 %r = iree_vector_ext.to_simt %l : {x} -> {o}""",
        [o],
    )


def to_simd(t: str) -> str:
    x, o = f"vector<1x4x{t}>", f"vector<4x4x{t}>"
    return function(
        {"x": x},
        f"""%l = iree_vector_ext.to_simd %x : {x} -> {o}
 %r = iree_vector_ext.to_layout %l to {LAYOUT} : {o}""",
        [o],
    )


TEXTS: dict[str, Text] = {
    "iree_linalg_ext.attention": attention,
    "iree_linalg_ext.online_attention": online_attention,
    "iree_linalg_ext.exp_reduction": exp_reduction,
    "iree_linalg_ext.custom_op": custom_op,
    "iree_linalg_ext.fft": fft,
    "iree_linalg_ext.pack": pack,
    "iree_linalg_ext.unpack": unpack,
    "iree_linalg_ext.scatter": scatter,
    "iree_linalg_ext.gather": gather,
    "iree_linalg_ext.scan": scan,
    "iree_linalg_ext.map_load": map_load,
    "iree_linalg_ext.map_store": map_store,
    "iree_linalg_ext.sort": sort,
    "iree_linalg_ext.topk": topk,
    "iree_linalg_ext.topk_v2": topk_v2,
    "iree_linalg_ext.im2col": im2col,
    "iree_linalg_ext.arg_compare": arg_compare,
    "iree_linalg_ext.winograd.filter_transform": winograd_filter,
    "iree_linalg_ext.winograd.input_transform": winograd_input,
    "iree_linalg_ext.winograd.output_transform": winograd_output,
    "iree_vector_ext.arg_compare": vector_arg_compare,
    "iree_vector_ext.transfer_gather": transfer_gather,
    "iree_vector_ext.transfer_scatter": transfer_scatter,
    "iree_vector_ext.to_layout": to_layout,
    "iree_vector_ext.to_simt": to_simt,
    "iree_vector_ext.to_simd": to_simd,
}
