"""What a notebook shows of kernels, programs and profiles: what their manifests say, escaped."""

import re
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tvm_iree_ext.base.lowering_config import LoweringConfig
from tvm_iree_ext.base.signature import Operand, Signature
from tvm_iree_ext.runtime.kernel import Kernel
from tvm_iree_ext.runtime.manifest import Function, Manifest, ProgramKernel, ProgramManifest
from tvm_iree_ext.runtime.program import Program
from tvm_iree_ext.runtime.program_profile import KernelTotal, Profile

SIGNATURE = Signature(
    (
        Operand("x", (4, "rows"), "float32"),
        Operand("init", (4,), "float32", default=0),
        Operand("y", (4, "rows"), "float32", "result", in_place_of="x"),
    )
)
TARGET = {"kind": "llvm", "mcpu": "znver4", "num-cores": 2}
SUM = ProgramKernel("sum", "plain loops", tuple(f"arith.addf at {n}:3" for n in range(6)))
PRODUCT = ProgramKernel("<lambda>", "tvm_iree_ext.contraction", ("linalg.matmul at 1:2",), flops=10)


def text_of(html):
    assert ElementTree.fromstring(f"<div>{html}</div>") is not None
    return re.sub(r"\s+", " ", unescape(re.sub("<[^>]+>", " ", html)))


@pytest.fixture
def kernel():
    manifest = Manifest(
        op="scan",
        entry="scan",
        signature=SIGNATURE,
        attributes={"region": "arg0 < arg1", "maps": "(d0) -> (d0), " * 20},
        target=TARGET,
        config=LoweringConfig(algorithm="prefix", vector_lanes=16).to_json(),
        provenance="record nearest 64x512",
        resources={"code_bytes": 123456, "needs_runtime": True},
    )
    return Kernel(Path("nowhere"), manifest)


def test_a_kernel_shows_what_it_takes_and_how_it_was_built(kernel):
    text = text_of(kernel._repr_html_())
    for part in (
        "scan for llvm znver4, 2 cores",
        "x float32[4, rows]",
        "init float32[4] (default 0)",
        "y → float32[4, rows] (in place of x)",
        "region arg0 < arg1",
        "algorithm prefix vector_lanes 16 config from record nearest 64x512",
        "code_bytes 123,456 needs_runtime yes",
    ):
        assert part in text
    assert "swizzle" not in text  # a field that is as usual
    assert repr(kernel).startswith("<Kernel scan(")


def test_a_long_value_is_folded(kernel):
    html = kernel._repr_html_()
    assert html.count("<details>") == 1
    assert "(d0) -&gt; (d0), " * 20 in html


def test_a_program_shows_functions_kernels_and_their_operations():
    functions = (Function("main", SIGNATURE),)
    manifest = ProgramManifest(
        "", functions, (), TARGET, (SUM, PRODUCT), resources={"provenance": {"sum": "heuristic"}}
    )
    text = text_of(Program(Path("nowhere"), manifest)._repr_html_())
    assert "program for llvm znver4, 2 cores function takes gives main x: float32[4, rows]" in text
    assert "2 kernels" in text
    assert "sum plain loops arith.addf at 0:3" in text
    assert "2 more arith.addf at 4:3 arith.addf at 5:3 heuristic" in text
    assert "<lambda> tvm_iree_ext.contraction linalg.matmul at 1:2 0.00" in text


def test_a_profile_shows_shares_as_bars():
    totals = (KernelTotal(PRODUCT, 2, 3e-6, 100), KernelTotal(SUM, 1, 1e-6, 100))
    html = Profile("main", 1, 4e-6, totals, ())._repr_html_()
    assert re.findall(r"#4c8bf566 ([\d.]+)%", html) == ["75.0", "25.0"]
    text = text_of(html)
    assert "main: 4.0 us a call with 1 thread; 3 calls of 2 kernels" in text
    assert "<lambda> 75.0% 3.0 2" in text
