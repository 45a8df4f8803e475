"""From LLVM's IR as text to an object file, by the LLVM that TVM has."""

import json

import tvm
from tvm.target import Target

from tvm_iree_ext.base.atomic_folder import scratch
from tvm_iree_ext.base.errors import BuildError

_FLAG = """
!llvm.module.flags = !{{!1000000}}
!1000000 = !{{i32 2, !"tvm_target", !"{flag}"}}
"""  # what TVM compiles a module for that it loads


def compile_ir(text: str, target: Target) -> tuple[bytes, str]:
    """The object file and the assembly of a module's IR.

    Raises:
        BuildError: where LLVM refuses.
    """
    options = json.loads(str(target))
    described = {key: options[key] for key in ("mtriple", "mcpu", "mattr") if key in options}
    flag = json.dumps({"kind": "llvm", **described}).replace('"', r"\22")
    text += _FLAG.format(flag=flag)
    with scratch() as folder:
        source, code, assembly = (folder / f"kernel.{kind}" for kind in ("ll", "o", "s"))
        source.write_text(text)
        try:
            module = tvm.get_global_func("ffi.Module.load_from_file.ll")(str(source), "ll")
            module.write_to_file(str(code), "obj")
            module.write_to_file(str(assembly), "asm")
        except (RuntimeError, ValueError, TypeError) as error:
            raise BuildError(f"LLVM refused the IR for {target}: {error}") from error
        return code.read_bytes(), assembly.read_text()
