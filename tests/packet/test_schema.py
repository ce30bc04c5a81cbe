"""The JSON Schema of documents, against a validator that knows nothing of Quiver: it takes what Quiver takes, and refuses slips."""

import re
from pathlib import Path

import jsonschema
import pytest
import yaml
from harness import run
from harness.router import BINARY

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT / "crates/control/tests/yaml/cases"


class Core(yaml.SafeLoader):
    """YAML 1.2's core schema, which editors use: `on` is a word, 1:2 no number."""

    yaml_implicit_resolvers = {}


for tag, form, first in [("bool", "true|True|TRUE|false|False|FALSE", "tTfF"), ("null", "~|null|Null|NULL|", "~nN"),
                         ("int", "[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
                         ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", "-+.0123456789")]:
    Core.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(f"^(?:{form})$"), [*first, *([""] if tag == "null" else [])])


def tree(text):
    """A document as an editor has it: names are texts."""
    def named(v):
        if isinstance(v, dict):
            return {str(k): named(x) for k, x in v.items()}
        return [named(x) for x in v] if isinstance(v, list) else v
    return named(yaml.load(text, Core))


@pytest.fixture(scope="module")
def schema():
    done = run([BINARY, "schema"])
    assert done.stdout == (ROOT / "docs/schema.json").read_text(), "the binary has another one than the documentation"
    found = yaml.safe_load(done.stdout)
    jsonschema.Draft7Validator.check_schema(found)
    return jsonschema.Draft7Validator(found)


def good():
    """Documents that `quiver check` takes: of the manual and the other pages, of the examples, of the tests."""
    for page in sorted((ROOT / "docs").glob("*.md")):
        for n, block in enumerate(re.findall(r"^```yaml\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)):
            yield f"{page.name} {n}", block
    for path in sorted((ROOT / "examples").glob("*.yaml")) + sorted(CASES.glob("*.yaml")) + [ROOT / "packaging/quiver.yaml"]:
        text = path.read_text()
        if "# expect:" not in text:
            yield path.name, text
    # What fuzzing has found: most of it is wrong, and some is an odd way to write what is right.
    for path in sorted((ROOT / "fuzz/corpus/yaml").iterdir()):
        yield f"corpus {path.name}", path.read_text(errors="replace")


def test_good_documents_fit(schema, tmp_path):
    seen = 0
    for name, text in good():
        file = tmp_path / "router.yaml"
        file.write_text(text)
        if run([BINARY, "check", str(file)], check=False).returncode != 0:
            assert ".md " in name or name.startswith("corpus "), f"{name} is not a good document"
            continue
        try:
            read = tree(text)
        except yaml.YAMLError:
            # PyYAML reads YAML 1.1.
            assert name.startswith("corpus "), name
            continue
        wrong = [f"{'.'.join(map(str, e.absolute_path))}: {e.message}" for e in schema.iter_errors(read)]
        assert not wrong, (name, wrong)
        seen += 1
    assert seen > 55, seen


# What an operator gets wrong, each alone in a good document; the last word is what the schema is to name.
BAD = [
    "interfaces: {left: {mtu: 99}}",
    "interfaces: {left: {mtu: 9217}}",
    "interfaces: {left: {mtu: many}}",
    "interfaces: {left: {mtu: '1500'}}",
    "interfaces: {left: {mty: 1500}}",
    "interfaces: {left: {state: sideways}}",
    "interfaces: {left: {addresses: 7}}",
    "interfaces: {left: {addresses: [10.0.0.1]}}",
    "interfaces: {left: {mac: '52:54:00:12:34'}}",
    "interfaces: {left: {sub-interfaces: {100: {encapsulation: {dot1q: 5000}}}}}",
    "interface: {left: {}}",
    "interfaces: [left]",
    "routes: {10.0.0.0/8: drop}",
    "routes: [{prefix: 10.0.0.0/8, preference: 0, type: drop}]",
    "routes: [{prefix: 10.0.0.0, type: drop}]",
    "routes: [{prefix: 10.0.0.0/8, type: lost}]",
    "routes: [{prefix: 10.0.0.0/8, via: {address: 10.0.0.1, weight: 256}}]",
    "tables: {10: {when-down: gone}}",
    "tables: {10: {flow-hash: [src, port]}}",
    "l3: {route-preferences: {static: 255}}",
    "l3: {tcp-resets: maybe}",
    "vxlan_tunnels: {vxlan_tunnel0: {local: 10.0.0.1, remote: 10.0.0.2}}",
    "vxlan_tunnels: {vxlan_tunnel0: {local: 10.0.0.1, remote: 10.0.0.2, vni: 16777216}}",
    "gre_tunnels: {gre0: {local: 10.0.0.1, remote: 10.0.0.2, ttl: paste}}",
    "punt: {arp: {rate: -1}}",
    "punt: {nonsense: off}",
    "quiver: {workers: 100000}",
    "quiver: {log: {level: loud}}",
    "linux-cp: {fpm: {port: 65536}}",
    "packet-generator: [{name: x, layers: [{ether: {}}]}]",
    "packet-generator: [{name: x, layers: [{ipv4: {tll: 3}}]}]",
]


@pytest.mark.parametrize("text", BAD)
def test_slips_are_refused(schema, text, tmp_path):
    file = tmp_path / "router.yaml"
    file.write_text(text + "\n")
    assert run([BINARY, "check", str(file)], check=False).returncode != 0, "a good document after all"
    assert not schema.is_valid(tree(text))


def test_bad_documents_of_the_reader(schema):
    """Of the documents with misspelt names, wrong shapes and numbers out of range each has an error for an editor as well."""
    for path in sorted(CASES.glob("*.yaml")):
        text = path.read_text()
        if re.search(r"^# expect: \S+ (unknown-field|range|choice) ", text, re.MULTILINE) and path.stem not in LINES:
            assert not schema.is_valid(tree(text)), path.name


# What is wrong in these stands inside of lines of words, or depends on other fields.
LINES = {"mpls", "mss"}


def test_fields_are_described(schema):
    """An editor shows what the manual says of a field."""
    def whole(node):
        while "$ref" in node:
            node = schema.schema["definitions"][node["$ref"].rsplit("/", 1)[1]]
        return node

    def fields(node, path):
        for part in map(whole, whole(node).get("anyOf", [node])):
            for name, below in part.get("properties", {}).items():
                yield f"{path}.{name}", below
                yield from fields(below, f"{path}.{name}")
            for key, word in (("items", "[]"), ("additionalProperties", ".*")):
                if isinstance(part.get(key), dict):
                    yield from fields(part[key], path + word)
    every = dict(fields(schema.schema, ""))
    assert len(every) > 500
    assert [path for path, s in every.items() if "description" not in s] == []
    assert every[".interfaces.*.mtu"]["default"] == 1500
