import numpy as np
from relax_programs import Maker, check, normal
from tvm import relax

F32 = "float32"


def test_a_tensor_that_is_cast_and_read_is_in_no_reader_of_the_cast(tmp_path):
    m = Maker(x=(("n",), F32))

    def make(emit):
        negated = emit(m.nest([m["x"]], ("n",), F32, lambda r, i: -r[0](i)))
        cast = m.builder.match_cast(negated, relax.TensorType((4,), F32))
        turned = emit(m.nest([negated], (4,), F32, lambda r, i: r[0](3 - i)))
        return [emit(m.nest([turned, cast], (4,), F32, lambda r, i: r[0](i) + r[1](i)))]

    x = normal(4)
    check(m, make, [((4,), F32)], [x], [-x - np.flip(x)], tmp_path)
