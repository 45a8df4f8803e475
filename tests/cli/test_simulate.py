import json
from xml.etree import ElementTree

KERNELS = """\
from tvm.script import tirx as T


@T.prim_func(s_tir=True)
def columns(A: T.Buffer((32, 32), "float32"), B: T.Buffer((32, 32), "float32")):
    for tx in T.thread_binding(32, "threadIdx.x"):
        with T.sblock("B"):
            v = T.axis.spatial(32, tx)
            T.reads(A[0:32, 0:32])
            T.writes(B[0:32, 0:32])
            S = T.sblock_alloc_buffer((32, 32), "float32", scope="shared")
            for k in range(32):
                S[k, v] = A[k, v]
            for k in range(32):
                B[k, v] = S[v, k]


@T.prim_func(s_tir=True)
def past_the_end(A: T.Buffer((40,), "float32"), B: T.Buffer((40,), "float32")):
    for bx in T.thread_binding(2, "blockIdx.x"):
        for tx in T.thread_binding(32, "threadIdx.x"):
            with T.sblock("B"):
                v = T.axis.spatial(64, bx * 32 + tx)
                B[v] = A[v]


@T.prim_func(s_tir=True)
def any_size(n: T.int32, a: T.handle, b: T.handle):
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    for bx in T.thread_binding((n + 31) // 32, "blockIdx.x"):
        for tx in T.thread_binding(32, "threadIdx.x"):
            with T.sblock("B"):
                v = T.axis.spatial(n, bx * 32 + tx)
                T.where(bx * 32 + tx < n)
                B[v] = A[v]


@T.prim_func(s_tir=True)
def twice(A: T.Buffer((128,), "float32"), B: T.Buffer((128,), "float32")):
    C = T.sblock_alloc_buffer((128,), "float32")
    for bx in T.thread_binding(2, "blockIdx.x"):
        for tx in T.thread_binding(64, "threadIdx.x"):
            with T.sblock("C"):
                v = T.axis.spatial(128, bx * 64 + tx)
                C[v] = A[v]
    for bx in T.thread_binding(2, "blockIdx.x"):
        for tx in T.thread_binding(64, "threadIdx.x"):
            with T.sblock("B"):
                v = T.axis.spatial(128, bx * 64 + tx)
                B[v] = C[127 - v]
"""


def kernels(tmp_path, name):
    """A file of one kernel: the parser takes as long as all else for each."""
    header, *functions = KERNELS.split("\n\n\n")
    (function,) = (one for one in functions if f"def {name}(" in one)
    path = tmp_path / f"{name}.py"
    path.write_text(f"{header}\n\n\n{function}\n")
    return f"{path}:{name}"


def test_draws_the_accesses_that_cost_more_than_they_need(command, tmp_path):
    done = command("simulate", kernels(tmp_path, "columns"), "--target", "cuda:sm_80")
    assert done.status == 0
    assert done.lines[1] == "nothing found"
    assert "lanes 0..31, 4 bytes each: 32 passes" in done.lines
    (table,) = [line for line in done.lines if "load   4 B S " in line]
    assert table.split()[-5:] == ["1024", "of", "32", "worst", "32"]
    bank_0 = [line.split()[2] for line in done.lines if line.startswith("pass ")]
    assert bank_0 == [str(lane) for lane in range(32)]


def test_draws_findings_and_traffic_into_a_file(command, tmp_path):
    file = tmp_path / "columns.svg"
    name = kernels(tmp_path, "columns")
    assert command("simulate", name, "--target", "cuda:sm_80", "--picture", file).status == 0
    picture = ElementTree.parse(file).getroot()
    texts = [one.text for one in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[:3] == ["columns_kernel", "1 of 1 workgroups of 32 lanes", "nothing found"]
    assert "1024, 32 needed; 32 at worst" in texts
    assert texts.count("pass 24") == 1
    assert "and 8 more" in texts
    boxes = [one.get("fill") for one in picture.iter("{http://www.w3.org/2000/svg}rect")]
    assert boxes.count("#8fc1e3") == 24  # each pass serves one lane, by one bank of 32
    assert boxes.count("#f4f6f8") == 24 * 31
    command("simulate", kernels(tmp_path, "past_the_end"), "--target", "cuda:sm_80",
            "--picture", file)  # fmt: skip
    assert 'class="finding"' in file.read_text()
    assert "out of bounds: lanes 8, 9" in file.read_text()
    assert "is neither a number nor a FILE.svg" in command("simulate", name, "--picture", "x").err


def test_a_finding_is_printed_and_fails(command, tmp_path):
    done = command("simulate", kernels(tmp_path, "past_the_end"), "--target", "rocm:gfx1100")
    assert done.status == 1
    assert "out of bounds: lanes 8, 9, 10, 11, 12, 13 and 18 more: element 40 of A" in done.out
    one = ("--workgroup", "0", "--no-picture")
    done = command("simulate", kernels(tmp_path, "past_the_end"), "--target", "cuda:sm_80", *one)
    assert done.status == 0
    assert done.lines[0].startswith("past_the_end_kernel: 1 of 2 workgroups of 32 lanes in ")


def test_the_kernel_of_a_matrix_instruction(command):
    done = command("simulate", "mma:WMMAR3_F32_16x16x16_F16", "--json")
    data = json.loads(done.out)
    assert data["findings"] == []
    assert data["counts"] == {"WMMAR3_F32_16x16x16_F16": 2}
    assert data["block"] == [32, 1, 1]


def test_sizes_are_given_by_name(command, tmp_path):
    name = kernels(tmp_path, "any_size")
    done = command("simulate", name, "n=70", "--target", "cuda:sm_90", "--json")
    assert json.loads(done.out)["grid"] == [3, 1, 1]
    done = command("simulate", name, "--target", "cuda:sm_90")
    assert done.status == 1
    assert "the kernel takes a number n; give it as n=N" in done.err
    done = command("simulate", name, "n=70", "m=7", "--target", "cuda:sm_90")
    assert "the kernel takes no number m; it takes n" in done.err


def test_a_function_of_two_kernels_has_two_reports(command, tmp_path):
    name = kernels(tmp_path, "twice")
    done = command("simulate", name, "--target", "rocm:gfx942", "--json")
    assert [one["grid"] for one in json.loads(done.out)] == [[2, 1, 1], [2, 1, 1]]
    done = command("simulate", name, "--target", "rocm:gfx942")
    assert done.out.count("2 of 2 workgroups of 64 lanes") == 2


def test_what_is_no_kernel_is_refused(command, tmp_path):
    name = kernels(tmp_path, "columns").replace(":columns", ":rows")
    done = command("simulate", name, "--target", "cuda:sm_80")
    assert done.status == 1
    assert "has no function 'rows'; it has columns" in done.err
    assert "expected FILE.py:NAME or mma:KIND" in command("simulate", "matmul").err
    assert "mma kind 'X' is unknown" in command("simulate", "mma:X").err
    missing = command("simulate", kernels(tmp_path, "columns"))
    assert "a kernel needs a target, such as cuda:sm_80" in missing.err
