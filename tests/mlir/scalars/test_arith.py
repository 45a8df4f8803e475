"""Each scalar operation, on tensors: its results are NumPy's."""

import math

import ml_dtypes
import numpy as np
import pytest
from tvm import tirx

from tvm_iree_ext.base.errors import MlirError

INTS = {"i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64"}
FLOATS = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"}


def dtype_of(kind):
    name = {**INTS, **FLOATS, "i1": "bool"}[kind]
    return np.dtype(getattr(ml_dtypes, name, name))


def integers(kind, seed):
    rng = np.random.default_rng(seed)
    info = np.iinfo(dtype_of(kind))
    found = rng.integers(info.min, info.max, 64, dtype_of(kind), endpoint=True)
    found[:8] = [0, 1, -1, info.min, info.max, 2, info.min, 5]
    if seed % 2:
        found[:8] = [0, -1, info.min, -1, info.max, -2, 3, 0]
        found[32:] = rng.integers(-9, 9, 32)
    return found


def floats(kind, seed):
    rng = np.random.default_rng(seed)
    found = rng.standard_normal(64) * 3
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5]
    found[:8] = special
    if seed % 2:
        found[:8] = np.roll(special, 3)
    return found.astype(dtype_of(kind))


def module(cases):
    """A function for each (name, operation, operand types, result type)."""
    text = []
    for name, operation, takes, gives in cases:
        arguments = ", ".join(f"%a{i}: tensor<64x{kind}>" for i, kind in enumerate(takes))
        operands = ", ".join(f"%a{i}" for i in range(len(takes)))
        if "->" in operation or " to " in operation:
            kinds = operation.split(":", 1)[1]
            operation = operation.split(":", 1)[0].strip()
        else:
            kinds = f" tensor<64x{takes[-1]}>"
        text.append(
            f"func.func @{name}({arguments}) -> tensor<64x{gives}> {{\n"
            f"  %0 = {operation} {operands} :{kinds}\n"
            f"  return %0 : tensor<64x{gives}>\n}}"
        )
    return "\n".join(text)


def truncated(a, b):
    """Towards zero; by 0 all bits, and what does not fit wraps."""
    wide_a, wide_b = a.astype(object), b.astype(object)
    quotients = [
        -1 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
        for x, y in zip(wide_a, wide_b, strict=True)
    ]
    return np.array([q & (2 ** (8 * a.itemsize) - 1) for q in quotients], object)


def wrap(values, like):
    bits = 8 * like.itemsize
    whole = np.array([int(v) & (2**bits - 1) for v in values], f"u{like.itemsize}")
    return whole.view(like)


def unsigned(a):
    return a.view(f"u{a.dtype.itemsize}").astype(object)


def shift(a, b, compute, beyond):
    bits = 8 * a.dtype.itemsize
    return [
        compute(x, y) if y < bits else beyond(x)
        for x, y in zip(a.astype(object), unsigned(b), strict=True)
    ]


def exact(compute):
    """Of Python's whole numbers, wrapped."""

    def wrapped(a, b):
        found = [compute(x, y) for x, y in zip(a.astype(object), b.astype(object), strict=True)]
        return wrap(found, a.dtype)

    return wrapped


def of_unsigned(compute):
    def wrapped(a, b):
        found = [compute(x, y) for x, y in zip(unsigned(a), unsigned(b), strict=True)]
        return wrap(found, a.dtype)

    return wrapped


def quotient(x, y):
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


INTEGER_OPS = {
    "addi": exact(lambda x, y: x + y),
    "subi": exact(lambda x, y: x - y),
    "muli": exact(lambda x, y: x * y),
    "divsi": lambda a, b: wrap(truncated(a, b), a.dtype),
    "remsi": exact(lambda x, y: x if y == 0 else x - y * quotient(x, y)),
    "floordivsi": exact(lambda x, y: -1 if y == 0 else x // y),
    "ceildivsi": exact(lambda x, y: -1 if y == 0 else -(-x // y)),
    "divui": of_unsigned(lambda x, y: -1 if y == 0 else x // y),
    "remui": of_unsigned(lambda x, y: x if y == 0 else x % y),
    "ceildivui": of_unsigned(lambda x, y: -1 if y == 0 else -(-x // y)),
    "andi": np.bitwise_and,
    "ori": np.bitwise_or,
    "xori": np.bitwise_xor,
    "maxsi": np.maximum,
    "minsi": np.minimum,
    "maxui": of_unsigned(max),
    "minui": of_unsigned(min),
    "shli": lambda a, b: wrap(shift(a, b, lambda x, y: x << int(y), lambda x: 0), a.dtype),
    "shrsi": lambda a, b: wrap(shift(a, b, lambda x, y: x >> int(y), lambda x: x >> 99), a.dtype),
    "shrui": lambda a, b: wrap(
        shift(a, b, lambda x, y: (int(x) % 2 ** (8 * a.itemsize)) >> int(y), lambda x: 0), a.dtype
    ),
}


@pytest.mark.costly
@pytest.mark.parametrize("kind", INTS)
def test_integers(built, kind):
    cases = [(name, f"arith.{name}", (kind, kind), kind) for name in INTEGER_OPS]
    program = built(module(cases))
    a, b = integers(kind, 1), integers(kind, 2)
    for name, compute in INTEGER_OPS.items():
        for x, y in ((a, b), (b, a), (a, a)):
            (result,) = program(x, y, function=name)
            np.testing.assert_array_equal(result, compute(x, y), name)


def test_comparisons_of_integers(built):
    predicates = {
        "slt": lambda a, b: a < b,
        "sge": lambda a, b: a >= b,
        "ult": lambda a, b: unsigned(a) < unsigned(b),
        "uge": lambda a, b: unsigned(a) >= unsigned(b),
        "eq": lambda a, b: a == b,
        "ne": lambda a, b: a != b,
    }
    cases = [(name, f"arith.cmpi {name},", ("i32", "i32"), "i1") for name in predicates]
    program = built(module(cases))
    a, b = integers("i32", 1), integers("i32", 2)
    b[::3] = a[::3]
    for name, compute in predicates.items():
        (result,) = program(a, b, function=name)
        np.testing.assert_array_equal(result, compute(a, b), name)


def unordered(a, b):
    return np.isnan(a) | np.isnan(b)


def test_comparisons_of_floats_know_nan(built):
    ordered = {
        "eq": np.equal,
        "gt": np.greater,
        "ge": np.greater_equal,
        "lt": np.less,
        "le": np.less_equal,
        "ne": lambda a, b: (a != b) & ~unordered(a, b),
    }
    names = [f"{first}{name}" for first in "ou" for name in ordered]
    cases = [(name, f"arith.cmpf {name},", ("f32", "f32"), "i1") for name in names]
    cases += [(name, f"arith.cmpf {name},", ("f32", "f32"), "i1") for name in ("ord", "uno")]
    program = built(module(cases))
    a, b = floats("f32", 1), floats("f32", 2)
    b[::3] = a[::3]
    for x, y in ((a, b), (a, a)):
        for name in names:
            want = ordered[name[1:]](x, y)
            want = want | unordered(x, y) if name[0] == "u" else want
            (result,) = program(x, y, function=name)
            np.testing.assert_array_equal(result, want, name)
        np.testing.assert_array_equal(program(x, y, function="uno")[0], unordered(x, y))
        np.testing.assert_array_equal(program(x, y, function="ord")[0], ~unordered(x, y))


def of_elements(name, lines, takes):
    """A function that computes ``%r`` of elements ``%x`` and ``%y``, by lines of scalars."""
    operands = ", ".join(f"%a{i}" for i in range(takes))
    given = ", ".join(f"%a{i}: tensor<64xf32>" for i in range(takes))
    types = ", ".join(["tensor<64xf32>"] * takes)
    maps = ", ".join(["affine_map<(d0) -> (d0)>"] * (takes + 1))
    elements = ", ".join(f"%{one}: f32" for one in "xyz"[: takes + 1])
    return (
        f"func.func @{name}({given}) -> tensor<64xf32> {{\n"
        "  %e = tensor.empty() : tensor<64xf32>\n"
        f'  %0 = linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel"]}}\n'
        f"      ins({operands} : {types}) outs(%e : tensor<64xf32>) {{\n"
        f"  ^bb0({elements}):\n{lines}    linalg.yield %r : f32\n"
        "  } -> tensor<64xf32>\n  return %0 : tensor<64xf32>\n}\n"
    )


@pytest.mark.costly
@pytest.mark.parametrize("constant", ["0.0", "-0.0", "1.0", "0x7FC00000", "0xFF800000"])
def test_selects_by_comparisons_with_a_constant(built, constant):
    """Where it is NaN, unordered ones hold."""
    predicates = [
        "ogt",
        "oge",
        "olt",
        "ole",
        "ugt",
        "uge",
        "ult",
        "ule",
        "une",
        "ueq",
        "uno",
        "ord",
    ]
    text = "".join(
        of_elements(
            name,
            f"    %c = arith.constant {constant} : f32\n"
            f"    %t = arith.cmpf {name}, %x, %c : f32\n"
            "    %r = arith.select %t, %x, %y : f32\n",
            2,
        )
        for name in predicates
    )
    word = int(constant, 16) if constant.startswith("0x") else None
    c = np.float32(constant) if word is None else np.uint32(word).view("float32")
    program = built(text)
    x, y = floats("f32", 1), np.arange(64, dtype="float32")
    x[8:16] = c
    compare = {"gt": np.greater, "ge": np.greater_equal, "lt": np.less, "le": np.less_equal}
    compare |= {"ne": np.not_equal, "eq": np.equal}
    isnan = np.isnan(x) | np.isnan(c)
    for name in predicates:
        if name in ("uno", "ord"):
            holds = isnan == (name == "uno")
        else:
            holds = np.where(isnan, name[0] == "u", compare[name[1:]](x, c))
        (result,) = program(x, y, function=name)
        want = np.where(holds, x, y)
        np.testing.assert_array_equal(result.view("uint32"), want.view("uint32"), name)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("constant", ["1.0", "0x7FC00000"])
def test_the_larger_of_a_number_and_a_constant(built, constant):
    names = ["maximumf", "minimumf", "maxnumf", "minnumf"]
    text = "".join(
        of_elements(
            name,
            f"    %c = arith.constant {constant} : f32\n    %r = arith.{name} %x, %c : f32\n",
            1,
        )
        for name in names
    )
    program, x = built(text), floats("f32", 1)
    c = np.float32(1.0 if constant == "1.0" else np.nan)
    for name in names:
        want = FLOAT_OPS[name](x, c)
        np.testing.assert_array_equal(program(x, function=name)[0], want, name)


FLOAT_OPS = {
    "addf": np.add,
    "subf": np.subtract,
    "mulf": np.multiply,
    "divf": np.divide,
    "remf": np.fmod,
    "maximumf": np.maximum,
    "minimumf": np.minimum,
    "maxnumf": np.fmax,
    "minnumf": np.fmin,
}


@pytest.mark.costly
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("kind", FLOATS)
def test_floats_round_once_an_operation(built, kind):
    cases = [(name, f"arith.{name}", (kind, kind), kind) for name in FLOAT_OPS]
    program = built(module(cases))
    a, b = floats(kind, 1), floats(kind, 2)
    wide = "f4" if kind in ("f16", "bf16") else a.dtype
    for name, compute in FLOAT_OPS.items():
        (result,) = program(a, b, function=name)
        want = compute(a.astype(wide), b.astype(wide)).astype(a.dtype)
        np.testing.assert_array_equal(result.astype("f8"), want.astype("f8"), name)


MATH = {
    "absf": np.abs,
    "atan": np.arctan,
    "cbrt": np.cbrt,
    "ceil": np.ceil,
    "cos": np.cos,
    "erf": np.vectorize(math.erf),
    "erfc": np.vectorize(math.erfc),
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "floor": np.floor,
    "log": np.log,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
    "round": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
    "roundeven": np.rint,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": np.sin,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
    "trunc": np.trunc,
    "acos": np.arccos,
    "asin": np.arcsin,
    "atanh": np.arctanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
}


@pytest.mark.costly
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("kind", ["f16", "f32", "f64"])
def test_functions_of_math(built, kind):
    cases = [(name, f"math.{name}", (kind,), kind) for name in MATH]
    cases += [(name, f"math.{name}", (kind, kind), kind) for name in ("powf", "atan2", "copysign")]
    program = built(module(cases))
    x = floats(kind, 1)
    eps = float(np.finfo(x.dtype).eps)
    for name, compute in MATH.items():
        (result,) = program(x, function=name)
        want = compute(x.astype("f8")).astype(x.dtype)
        np.testing.assert_allclose(result, want, rtol=8 * eps, atol=eps / 8, err_msg=name)
    y = floats(kind, 2)
    for name, compute in (("powf", np.power), ("atan2", np.arctan2), ("copysign", np.copysign)):
        (result,) = program(x, y, function=name)
        want = compute(x.astype("f8"), y.astype("f8")).astype(x.dtype)
        np.testing.assert_allclose(result, want, rtol=8 * eps, err_msg=name)


def test_counts_of_bits(built):
    kinds = ("i8", "i32", "i64")
    names = ("ctlz", "cttz", "ctpop", "absi")
    cases = [(f"{n}_{k}", f"math.{n}", (k,), k) for n in names for k in kinds]
    program = built(module(cases))
    for kind in kinds:
        x = integers(kind, 1)
        bits = 8 * x.itemsize
        texts = [format(int(v), f"0{bits}b") for v in unsigned(x)]
        wants = {
            "ctlz": [len(t) - len(t.lstrip("0")) for t in texts],
            "cttz": [len(t) - len(t.rstrip("0")) for t in texts],
            "ctpop": [t.count("1") for t in texts],
            "absi": np.abs(x),
        }
        for name, want in wants.items():
            (result,) = program(x, function=f"{name}_{kind}")
            np.testing.assert_array_equal(result, want, f"{name} {kind}")


def cast(name, takes, gives):
    operation = f"arith.{name} : tensor<64x{takes}> to tensor<64x{gives}>"
    return (f"{name}_{takes}_{gives}", operation, (takes,), gives)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_conversions(built):
    whole = [("i8", "i32"), ("i1", "i32"), ("i32", "i64")]
    cases = [cast(name, *pair) for pair in whole for name in ("extsi", "extui")]
    cases += [cast("trunci", "i64", "i8"), cast("trunci", "i32", "i1")]
    to_float = [("i32", "f32"), ("i64", "f64"), ("i8", "f16"), ("i1", "f32"), ("i64", "bf16")]
    cases += [cast(name, *pair) for pair in to_float for name in ("sitofp", "uitofp")]
    to_int = [("f32", "i32"), ("f32", "i8"), ("f64", "i64"), ("f16", "i16"), ("f32", "i64")]
    cases += [cast(name, *pair) for pair in to_int for name in ("fptosi", "fptoui")]
    cases += [cast("truncf", "f32", "bf16"), cast("truncf", "f64", "f16")]
    cases += [cast("extf", "bf16", "f32"), cast("extf", "f16", "f64")]
    cases += [cast("bitcast", "f32", "i32"), cast("bitcast", "i16", "bf16")]
    program = built(module(cases))
    for name, _, (takes,), gives in cases:
        if takes == "i1":
            x = np.arange(64) % 3 == 0
        else:
            x = integers(takes, 1) if takes in INTS else floats(takes, 1)
            if name.startswith("fpto"):
                x = (x * 40).astype(x.dtype)
        (result,) = program(x, function=name)
        want = converted(name.split("_")[0], x, dtype_of(gives))
        if gives in INTS or gives == "i1":
            np.testing.assert_array_equal(result, want, name)
        else:
            np.testing.assert_array_equal(result.astype("f8"), want.astype("f8"), name)


def converted(name, x, target):
    if name == "bitcast":
        return x.view(target)
    if name in ("extsi", "sitofp") and x.dtype == bool:
        return (-x.astype("i1")).astype(target)
    if name in ("extui", "uitofp") and x.dtype != bool:
        return x.view(f"u{x.itemsize}").astype(target)
    if name.startswith("fpto"):
        signed = name == "fptosi"
        bits = 8 * target.itemsize
        low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
        found = [
            0 if math.isnan(v) else high if v >= high else low if v <= low else int(v)
            for v in x.astype("f8").tolist()
        ]
        return wrap(found, target)
    if target.kind == "b":
        return (x & 1).astype(bool)
    return x.astype(target)


def test_bools(built):
    names = {
        "andi": np.logical_and,
        "ori": np.logical_or,
        "xori": np.logical_xor,
        "addi": np.logical_xor,
        "muli": np.logical_and,
        "maxui": np.logical_or,
        "maxsi": np.logical_and,
    }
    program = built(module([(n, f"arith.{n}", ("i1", "i1"), "i1") for n in names]))
    a, b = np.arange(64) % 2 == 0, np.arange(64) % 3 == 0
    for name, compute in names.items():
        np.testing.assert_array_equal(program(a, b, function=name)[0], compute(a, b), name)


def test_signs_are_seen_behind_every_operation(built):
    """TVM must not take a value for one that is never below 0, or always in range."""
    text = """
    #id = affine_map<(d0) -> (d0)>
    func.func @f(%a: tensor<64xi32>, %b: tensor<64xi64>) -> (tensor<64xi1>, tensor<64xi1>,
        tensor<64xi1>, tensor<64xi1>, tensor<64xi1>) {
      %e = tensor.empty() : tensor<64xi1>
      %0:5 = linalg.generic {indexing_maps = [#id, #id, #id, #id, #id, #id, #id],
          iterator_types = ["parallel"]} ins(%a, %b : tensor<64xi32>, tensor<64xi64>)
          outs(%e, %e, %e, %e, %e
            : tensor<64xi1>, tensor<64xi1>, tensor<64xi1>, tensor<64xi1>, tensor<64xi1>) {
      ^bb0(%x: i32, %y: i64, %o: i1, %p: i1, %q: i1, %r: i1, %s: i1):
        %zero = arith.constant 0 : i32
        %zero64 = arith.constant 0 : i64
        %zero8 = arith.constant 0 : i8
        %c31 = arith.constant 31 : i32
        %c5 = arith.constant 5 : index
        %c59 = arith.constant 59 : index
        %c4 = arith.constant 4 : index
        %0 = arith.shli %x, %c31 : i32
        %1 = arith.cmpi slt, %0, %zero : i32
        %2 = arith.addi %y, %y : i64
        %3 = arith.cmpi slt, %2, %zero64 : i64
        %i = linalg.index 0 : index
        %4 = arith.subi %i, %c5 : index
        %5 = arith.cmpi ult, %4, %c59 : index
        %6 = arith.muli %i, %c4 : index
        %7 = arith.index_cast %6 : index to i8
        %8 = arith.cmpi slt, %7, %zero8 : i8
        %9 = arith.maxui %x, %c31 : i32
        %10 = arith.cmpi slt, %9, %zero : i32
        linalg.yield %1, %3, %5, %8, %10 : i1, i1, i1, i1, i1
      } -> (tensor<64xi1>, tensor<64xi1>, tensor<64xi1>, tensor<64xi1>, tensor<64xi1>)
      return %0#0, %0#1, %0#2, %0#3, %0#4
        : tensor<64xi1>, tensor<64xi1>, tensor<64xi1>, tensor<64xi1>, tensor<64xi1>
    }
    """
    a, b = integers("i32", 1), integers("i64", 2)
    shifted, doubled, below, bytes_, largest = built(text)(a, b)
    np.testing.assert_array_equal(shifted, a % 2 == 1)
    np.testing.assert_array_equal(doubled, wrap((b.astype(object) * 2).tolist(), b.dtype) < 0)
    np.testing.assert_array_equal(below, np.arange(64) >= 5)
    np.testing.assert_array_equal(bytes_, (4 * np.arange(64)).astype("i1") < 0)
    np.testing.assert_array_equal(largest, a < 0)


def test_powers_of_integers(built, imported):
    text = """
    func.func @f(%a: tensor<64xi32>) -> tensor<64xi32> {
      %c = arith.constant dense<5> : tensor<64xi32>
      %0 = math.ipowi %a, %c : tensor<64xi32>
      return %0 : tensor<64xi32>
    }
    """
    a = integers("i32", 1)
    np.testing.assert_array_equal(
        built(text)(a)[0], wrap((a.astype(object) ** 5).tolist(), a.dtype)
    )
    with pytest.raises(MlirError, match="an exponent that is no constant"):
        imported(text.replace("%a, %c", "%a, %a"))


def test_long_chains_of_sums_in_64_bits_do_not_grow_the_program(built):
    steps = "\n".join(f"%x{i + 1} = arith.muli %x{i}, %c : i64" for i in range(60))
    text = f"""
    #id = affine_map<(d0) -> (d0)>
    func.func @f(%a: tensor<64xi64>) -> tensor<64xi64> {{
      %c = arith.constant 3 : i64
      %0 = linalg.generic {{indexing_maps = [#id, #id], iterator_types = ["parallel"]}}
          ins(%a : tensor<64xi64>) outs(%a : tensor<64xi64>) {{
      ^bb0(%x0: i64, %o: i64):
        {steps}
        linalg.yield %x60 : i64
      }} -> tensor<64xi64>
      return %0 : tensor<64xi64>
    }}
    """
    a = integers("i64", 1)
    want = wrap((a.astype(object) * 3**60).tolist(), a.dtype)
    np.testing.assert_array_equal(built(text)(a)[0], want)


CHAINED = {
    **{f"math.{name}": "f64" for name in ("tanh", "round", "atanh", "rsqrt")},
    **{f"arith.{name}": "f32" for name in ("maximumf", "minnumf", "divf")},
    **{
        f"complex.{name}": "complex<f32>"
        for name in (
            *("exp", "log", "sqrt", "rsqrt", "sign", "tan", "tanh", "sin", "expm1", "log1p"),
            *("mul", "div", "pow"),
        )
    },
}
OF_TWO = ("maximumf", "minnumf", "divf", "mul", "div", "pow")


def chained(depth):
    """A function for each operation, of its own value, again and again."""
    functions = []
    for name, kind in CHAINED.items():
        others = ", %b" if name.partition(".")[2] in OF_TWO else ""
        steps = "\n".join(f"%x{i + 1} = {name} %x{i}{others} : {kind}" for i in range(depth))
        maps = ", ".join(["#id"] * 3)
        functions.append(f"""
        func.func @{name.replace(".", "_")}(%a: tensor<64x{kind}>) -> tensor<64x{kind}> {{
          %0 = linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel"]}}
              ins(%a, %a : tensor<64x{kind}>, tensor<64x{kind}>) outs(%a : tensor<64x{kind}>) {{
          ^bb0(%x0: {kind}, %b: {kind}, %o: {kind}):
            {steps}
            linalg.yield %x{depth} : {kind}
          }} -> tensor<64x{kind}>
          return %0 : tensor<64x{kind}>
        }}""")
    return "#id = affine_map<(d0) -> (d0)>" + "".join(functions)


def test_a_chain_of_operations_grows_with_its_length(imported):
    sizes = []
    for depth in (1, 4, 16):
        mod = imported(chained(depth)).module
        kernels = [f for f in mod.functions.values() if isinstance(f, tirx.PrimFunc)]
        assert len(kernels) == len(CHAINED)
        sizes.append(sorted(len(one.script()) for one in kernels))
    for one, four, sixteen in zip(*sizes, strict=True):
        assert sixteen < 8 * max(four, one)


def test_a_constant_beyond_the_largest_number_becomes_infinite(built):
    program = built("""
        func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
          %lowest = arith.constant -1.7976931348623157E+308 : f64
          %least = arith.truncf %lowest : f64 to f32
          %empty = tensor.empty() : tensor<2xf32>
          %0 = linalg.generic {
            indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
            iterator_types = ["parallel"]
          } ins(%x : tensor<2xf32>) outs(%empty : tensor<2xf32>) {
          ^bb0(%a: f32, %o: f32):
            %1 = arith.minimumf %a, %least : f32
            linalg.yield %1 : f32
          } -> tensor<2xf32>
          return %0 : tensor<2xf32>
        }
    """)
    (result,) = program(np.array([1, np.nan], "f4"))
    np.testing.assert_array_equal(result, [-np.inf, np.nan])
