"""What does not fit is refused with an error: endless documents, many errors, little memory."""

import os
import resource
import subprocess

import pytest
from harness import BINARY, CtlError, Netns, Router


def check(file, **limits):
    return subprocess.run([BINARY, "check", file], capture_output=True, text=True, timeout=120, **limits)


@pytest.mark.parametrize("file", ["/dev/zero", "/dev/full"])
def test_what_never_ends_is_no_document(file):
    done = check(file)
    assert done.returncode == 1 and "this is a character device" in done.stderr, done.stderr


def test_a_pipe_that_ends_is_a_document_and_one_that_does_not_is_refused():
    done = check("/dev/stdin", input="interfaces: {}\n")
    assert done.returncode == 0, done.stderr
    assert check("/dev/null").returncode == 0
    endless = subprocess.Popen(["yes"], stdout=subprocess.PIPE)
    done = check("/dev/stdin", stdin=endless.stdout)
    endless.stdout.close()
    endless.wait()
    assert done.returncode == 1 and "at most 256 MiB" in done.stderr, done.stderr


def peak(file):
    """What a check of the file says at its end, and the most memory it takes, in bytes."""
    process = subprocess.Popen([BINARY, "check", file], stderr=subprocess.PIPE, text=True)
    said = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 1
    return said, used.ru_maxrss * 1024


def test_errors_are_bounded_and_memory_grows_with_the_document(tmp_path):
    """A thousand errors are shown and the rest is counted; a faulty document takes a fixed multiple of its size."""
    def document(lines):
        file = tmp_path / f"{lines}.yaml"
        file.write_text("interfaces:\n" + "".join(f"  eth{i}: {{mtu: x}}\n" for i in range(lines)))
        said, most = peak(file)
        assert f"and {lines - 1000} more: only the first 1000 are shown" in said
        assert said.count("\n") < 10_000
        return file.stat().st_size, most
    small, large = document(20_000), document(80_000)
    more = (large[1] - small[1]) / (large[0] - small[0])
    assert more < 60, f"{more:.0f} bytes for each byte of the document"


def address_space(mib):
    return lambda: resource.setrlimit(resource.RLIMIT_AS, (mib << 20, mib << 20))


@pytest.mark.parametrize("text", [
    "interfaces:\n" + "".join(f"  eth{i}: {{mtu: 1500}}\n" for i in range(200_000)),
    "routes: [" + "x," * 4_000_000 + "]\n",
    "".join(f"key{i}: 3\n" for i in range(700_000)),
], ids=["interfaces", "flat list", "keys"])
def test_a_document_beyond_memory_is_an_error_not_an_abort(tmp_path, text):
    file = tmp_path / "large.yaml"
    file.write_text(text)
    done = check(file, preexec_fn=address_space(120))
    assert done.returncode == 1 and "error[memory]" in done.stderr and "ulimit -v" in done.stderr, done.stderr[-2000:]


def test_routes_beyond_memory_are_refused_and_the_router_goes_on(tmp_path):
    """A router with little more address space than it needs takes what fits of a large script, refuses the rest, and answers."""
    def taken(pid):
        with open(f"/proc/{pid}/status") as f:
            return int(f.read().split("VmSize:")[1].split()[0]) * 1024

    ns = Netns("router")
    try:
        router = Router(ns, {"loopbacks": {"loop0": {"addresses": ["10.0.0.1/24"]}}})
        size = taken(router.process.pid)
        router.stop()
        router = Router(ns, {"loopbacks": {"loop0": {"addresses": ["10.0.0.1/24"]}}},
                        prefix=("prlimit", f"--as={size + (160 << 20)}"))
        # More than the tables may take, and more than can be read.
        def prefix(i):
            i = i * 2654435761 % 2**28 << 4
            return f"{i >> 24}.{i >> 16 & 255}.{i >> 8 & 255}.{i & 255}/28"
        for lines in (800_000, 3_000_000):
            script = tmp_path / "routes"
            script.write_text("".join(f"ip route add {prefix(i)} via 10.0.0.2 loop0\n" for i in range(lines)))
            with pytest.raises(CtlError) as e:
                router.ctl(f"exec {script}")
            assert "memory" in str(e.value), e.value
        assert router.process.poll() is None and "loop0" in router.ctl("show interface")
        router.ctl("ip route add 9.0.0.0/8 via drop")
    finally:
        router.stop()
        ns.delete()


def test_a_million_routes_by_one_command_with_little_memory(tmp_path):
    """They go some at a time: they are there, or refused, and the router lives."""
    def taken(pid):
        with open(f"/proc/{pid}/status") as f:
            return int(f.read().split("VmSize:")[1].split()[0]) * 1024

    ns = Netns("router")
    config = {"loopbacks": {"loop0": {"addresses": ["10.0.0.1/24"]}}}
    router = Router(ns, config)
    try:
        size = taken(router.process.pid)
        router.stop()
        for more in (40, 130):
            router = Router(ns, config, prefix=("prlimit", f"--as={size + (more << 20)}"))
            for prefix in ("2001:db8::/64", "20.0.0.0/28"):
                done = router.ctl_raw(f"ip route add {prefix} count 1000000 via drop")
                assert router.process.poll() is None, router.log()
                assert done.returncode == 0 or "memory" in done.stdout + done.stderr, done
            router.ctl("ip route add 9.0.0.0/8 via drop")
            assert "9.0.0.0/8" in router.ctl("show ip fib 9.0.0.0/8")
            router.stop()
    finally:
        router.stop()
        ns.delete()


def test_a_comparison_with_little_memory(tmp_path):
    """Documents against a large table, at every room that is left: an answer or an error, and the router lives."""
    def taken(pid):
        with open(f"/proc/{pid}/status") as f:
            return int(f.read().split("VmSize:")[1].split()[0]) * 1024

    routes, others = 150_000, 50_000
    config = {"loopbacks": {"loop0": {"addresses": ["10.0.0.1/24"]}}}
    less, more = tmp_path / "less.yaml", tmp_path / "more.yaml"
    listed = "".join(f"  - {20 + (i >> 16)}.{i >> 8 & 255}.{i & 255}.0/24 drop\n" for i in range(others))
    ns = Netns("router")
    # A limit, if a high one: how threads share memory depends on whether there is one.
    router = Router(ns, config, prefix=("prlimit", f"--as={1 << 40}"))
    try:
        router.ctl(f"ip route add 30.0.0.0/28 count {routes} via drop")
        size = taken(router.process.pid)
        router.stop()
        said = set()
        for room in (32, 45, 60, 90, 200):
            state = tmp_path / f"state{room}"
            router = Router(ns, config, prefix=("prlimit", f"--as={size + (room << 20)}"), options=("--state", str(state)))
            router.ctl(f"ip route add 30.0.0.0/28 count {routes} via drop")
            own = router.json("show ip fib summary")["total"] - routes
            less.write_text(router.text)
            more.write_text(router.text + "routes:\n" + listed)
            commands = (f"configuration diff {less}", f"configuration plan {more}", "configuration save",
                        f"configuration apply {more} confirm 100", "configuration rollback", f"configuration apply {less}")
            for line in commands:
                done = router.ctl_raw(line)
                assert router.process.poll() is None, (room, line, router.log()[-500:])
                if done.returncode:
                    assert "memory" in done.stderr or "there is nothing to go back to" in done.stderr, (room, line, done.stderr)
                said.add((line.split()[1], bool(done.returncode)))
                assert router.json("show ip fib summary")["total"] - own in (routes, others, 0), (room, line)
            router.stop()
        # Room for some, and not for all.
        for what in ("diff", "plan", "save", "apply"):
            assert {(what, True), (what, False)} <= said, said
    finally:
        router.stop()
        ns.delete()
