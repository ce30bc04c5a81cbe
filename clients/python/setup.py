"""Generates the messages and calls of the schema into the package, and builds it."""

from importlib.metadata import requires
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent
#: A link to the schema of the router in whose repository this is.
SCHEMA = HERE / "api"


class Generate(build_py):
    """What `build_py` does, behind the generation of `quiver.v1`."""

    def run(self) -> None:
        generate()
        super().run()


def generate() -> None:
    from grpc_tools import protoc

    files = sorted(str(f) for f in (SCHEMA / "quiver" / "v1").glob("*.proto"))
    if not files:
        raise SystemExit(f"there is no schema in {SCHEMA}")
    out = HERE / "src"
    words = ["protoc", f"-I{SCHEMA}", f"--python_out={out}", f"--pyi_out={out}", f"--grpc_python_out={out}", *files]
    if protoc.main(words) != 0:
        raise SystemExit("the schema cannot be compiled")


# What is generated runs with the packages that the generator names for itself, or later ones.
needed = [r for r in requires("grpcio-tools") or () if r.startswith(("grpcio", "protobuf"))]
setup(cmdclass={"build_py": Generate}, install_requires=needed)
