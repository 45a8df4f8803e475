"""``tvm-iree-ext inspect``."""

import json


def test_text_says_registers_and_instructions(command):
    done = command("inspect", "mma:MFMA_F32_32x32x8_F16", "--target", "rocm:gfx942")
    assert done.status == 0
    assert "main_kernel on gfx942: threadIdx.x 64, blockIdx.x 1" in done.out
    assert "spills 0; scratch 0 B" in done.out
    lines = {
        line.split("  ")[1]: line.split()[-1] for line in done.out.splitlines() if "  " in line
    }
    assert lines["mma"] == "2"


def test_json_has_the_same(command):
    done = command("inspect", "mma:WMMAR3_F32_16x16x16_F16", "--json")
    data = json.loads(done.out)
    counts = data["kernels"]["main_kernel"]["instructions"]["kernel"]
    assert (data["chip"], counts["mma"], counts["scratch"]) == ("gfx1100", 2, 0)
    assert counts["total"] > counts["mma"]


def test_assembly_is_printed(command):
    done = command("inspect", "mma:MFMA_F64_16x16x4_F64", "--assembly")
    assert "v_mfma_f64_16x16x4f64" in done.out


def test_what_is_no_kernel_is_refused(command):
    assert "no op 'softmax'; registered are" in command("inspect", "softmax").err
    assert "expected FILE.py:NAME or mma:KIND" in command("inspect", "file:matmul").err
    assert "is unknown" in command("inspect", "mma:X").err
    assert "it has no operands" in command("inspect", "mma:X", "8xf32").err


PACK = ("pack", "Nx8xf16", "--set", "inner_dims_pos=[0]", "--set", "inner_tiles=[4]")


def test_an_op_is_built_by_its_rule(command):
    done = command(
        "inspect", *PACK, "--set", "padding_value=0", "--target", "rocm:gfx942", "--json"
    )
    (kernel,) = json.loads(done.out)["kernels"].values()
    assert kernel["launch"] == {
        "threadIdx.x": 64, "threadIdx.y": 4, "blockIdx.x": "of the arguments"
    }  # fmt: skip
    assert kernel["resources"]["spills"] == 0
    assert "name a GPU by --target" in command("inspect", *PACK, "--set", "padding_value=0").err
    done = command("inspect", *PACK, "--set", "padding_value=0", "--target", "llvm")
    assert "llvm is not a GPU target" in done.err
