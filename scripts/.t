#!/usr/bin/env bash
# Installs what is missing and runs every test.
#
#   scripts/test          everything
#   scripts/test quick    unit tests, packet tests and labs, with the binary of the dev profile: no fuzzing, no Miri, no
#                         instructions counted
#
# A part that this machine cannot run is named with the reason. The status is 0 only when all that ran has passed.
. "$(dirname "$0")/lib.sh"
need_root
mode=${1:-all}
[ "$mode" = all ] || [ "$mode" = quick ] || die "usage: scripts/test [quick]"

names=() results=()
failed=0

# part NAME COMMAND...: runs it, shows its output, and remembers how it ended.
part() {
    local name=$1 began=$SECONDS status=0
    shift
    step "$name"
    "$@" || status=$?
    names+=("$name")
    if [ $status -eq 0 ]; then
        results+=("passed in $((SECONDS - began)) s")
    else
        results+=("FAILED with status $status after $((SECONDS - began)) s")
        failed=1
    fi
}

skip() {
    names+=("$1")
    results+=("skipped: $2")
    warn "$1 skipped: $2"
}

# Only lines that say something: one a test binary, and the failures.
rust_tests() {
    # The same cases every time, so that a change is judged by what it changes; docs/testing.md says how to draw others.
    PROPTEST_RNG_SEED=${PROPTEST_RNG_SEED:-1} cargo test --workspace --no-fail-fast 2>&1 | grep --line-buffered -vE \
        '^$|^running 0 tests|^test .* \.\.\. (ok|ignored)|test result: ok. 0 passed|^ *Compiling|^all doctests ran'
    return "${PIPESTATUS[0]}"
}

# python_tests BINARY FOLDER-OR-FILE...
python_tests() {
    local binary=$1
    shift
    QUIVER_BIN=$binary PYTHONDONTWRITEBYTECODE=1 "$PYTHON" -m pytest -c tests/pytest.ini --rootdir tests -q --durations=5 "$@"
}

# packet_tests BINARY: in two halves side by side, for most of them wait most of the time; the second's output follows the first's.
packet_tests() {
    local files=() halves=("" "") log status=0 i
    mapfile -t files < <(ls -S tests/packet/test_*.py)
    for i in "${!files[@]}"; do halves[i % 2]+=" ${files[i]}"; done
    log=$(mktemp)
    # shellcheck disable=SC2086
    python_tests "$1" ${halves[1]} >"$log" 2>&1 &
    # shellcheck disable=SC2086
    python_tests "$1" ${halves[0]} || status=$?
    wait $! || status=$?
    cat "$log"
    rm "$log"
    return $status
}

fuzz_and_miri() {
    if ! cargo +nightly --version >/dev/null 2>&1; then
        skip "fuzzing" "no nightly toolchain (rustup toolchain install nightly)"
        skip "Miri" "no nightly toolchain (rustup toolchain install nightly)"
        return
    fi
    # Its own target folder: other flags, another compiler.
    part "fuzzing" env -u CARGO_TARGET_DIR scripts/fuzz
    if ! cargo +nightly miri --version >/dev/null 2>&1; then
        skip "Miri" "this nightly toolchain has no Miri (rustup component add --toolchain nightly miri rust-src)"
        return
    fi
    # The modules with unsafe code that Miri can run in minutes: grace periods, counters, vectors, tables.
    export MIRIFLAGS=-Zmiri-disable-isolation
    part "Miri: graph" cargo +nightly miri test --quiet -p graph --lib -- epoch counters trace desc frames
    part "Miri: tables" cargo +nightly miri test --quiet -p tables --lib -- slab slots exact lpm6::node
}

# Read as a whole before anything runs: an edit of this file meanwhile does no harm.
main() {
    scripts/setup
    # The dev profile has debug assertions, which prove that no buffer is lost; the release binary is what users run.
    part "Rust tests" rust_tests
    part "dev binary" cargo build --quiet -p quiver
    part "packet tests, dev" packet_tests "$TARGET/debug/quiver"
    if [ "$mode" = quick ]; then
        part "labs, dev" python_tests "$TARGET/debug/quiver" tests/labs
    else
        part "release binary" cargo build --release -p quiver
        part "instructions a packet" scripts/instructions
        part "packet tests, release" packet_tests "$TARGET/release/quiver"
        part "labs, release" python_tests "$TARGET/release/quiver" tests/labs
        fuzz_and_miri
    fi

    step "summary"
    local i colour
    for i in "${!names[@]}"; do
        colour=$GREEN
        case "${results[$i]}" in FAILED*) colour=$RED ;; skipped*) colour=$YELLOW ;; esac
        printf '    %-24s %s%s%s\n' "${names[$i]}" "$colour" "${results[$i]}" "$PLAIN"
    done
    [ $failed -eq 0 ] || die "tests failed, after $((SECONDS / 60)) min"
    ok "all that ran has passed, after $((SECONDS / 60)) min"
    exit 0
}
