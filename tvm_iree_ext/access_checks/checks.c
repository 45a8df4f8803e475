/* What checked kernels call: see library.py.  Kernels of several threads call it at once. */

#include <stdint.h>

/* The first index outside of its buffer: 0 or 1, the access, the index, the extent. */
int64_t tvm_iree_ext_finding[4];

/* What the next noise begins with. */
uint64_t tvm_iree_ext_seed;

/* An index that is sure to be in the buffer.  `span`: how far the last lane's index is from it. */
int64_t tvm_iree_ext_index(int64_t index, int64_t span, int64_t extent, int64_t access) {
    int64_t least = span < 0 ? span : 0, most = span < 0 ? 0 : span;
    if (index >= -least && index < extent - most) return index;
    if (!__atomic_exchange_n(&tvm_iree_ext_finding[0], 1, __ATOMIC_SEQ_CST)) {
        tvm_iree_ext_finding[1] = access;
        tvm_iree_ext_finding[2] = index < 0 ? index + least : index + most;
        tvm_iree_ext_finding[3] = extent;
    }
    return -least;
}

/* Fill memory that nobody wrote with what nobody expects. */
void tvm_iree_ext_noise(void *place, int64_t bytes) {
    uint64_t state = __atomic_add_fetch(&tvm_iree_ext_seed, 0x9e3779b97f4a7c15u, __ATOMIC_RELAXED);
    uint8_t *byte = place;
    for (int64_t at = 0; at < bytes; ++at) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        byte[at] = (uint8_t)(state >> 32);
    }
}
