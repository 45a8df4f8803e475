# Sourced by the scripts beside it: where things are, how a step is shown, what a failure says.
# shellcheck shell=bash disable=SC2034
set -euo pipefail

NAME=${0##*/}
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
VENV=$ROOT/.venv
# Nothing is written outside the clone.
export TVM_IREE_EXT_CACHE=${TVM_IREE_EXT_CACHE:-$ROOT/.cache/kernels}

step() { # TEXT: says what is done now
    STEP=$*
    printf '%s: %3d s  %s\n' "$NAME" "$SECONDS" "$STEP"
}

fail() { # LINE...: says which step failed, why, and what to do
    printf '%s: failed: %s\n' "$NAME" "$STEP" >&2
    printf '    %s\n' "$@" >&2
    exit 1
}
