//! Old clients go on working: the schema only grows. It is compared with the one of the last release, in `api/released`;
//! `RELEASE_API=1 cargo test -p api --test released` makes what stands there the schema of now, as each release does.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::path::{Path, PathBuf};

use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorSet, MethodDescriptorProto,
    ServiceDescriptorProto,
};

/// The schema under a folder.
fn schema(root: &Path) -> FileDescriptorSet {
    protox::compile(files(root), [root]).expect("the schema compiles")
}

fn files(root: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(root.join("quiver/v1")).expect("the folder of the schema");
    let mut files: Vec<PathBuf> = entries.map(|e| e.unwrap().path()).collect();
    files.sort();
    files
}

/// What of the schema of before would break its clients.
fn broken(before: &FileDescriptorSet, now: &FileDescriptorSet) -> Vec<String> {
    let mut found = Broken(vec![]);
    let messages =
        |s: &FileDescriptorSet| s.file.iter().flat_map(|f| f.message_type.clone()).collect::<Vec<_>>();
    let enums = |s: &FileDescriptorSet| s.file.iter().flat_map(|f| f.enum_type.clone()).collect::<Vec<_>>();
    let services = |s: &FileDescriptorSet| s.file.iter().flat_map(|f| f.service.clone()).collect::<Vec<_>>();
    found.messages("", &messages(before), &messages(now));
    found.enums("", &enums(before), &enums(now));
    found.services(&services(before), &services(now));
    found.0
}

struct Broken(Vec<String>);

impl Broken {
    fn messages(&mut self, within: &str, before: &[DescriptorProto], now: &[DescriptorProto]) {
        for old in before {
            let name = format!("{within}{}", old.name());
            let Some(new) = now.iter().find(|m| m.name == old.name) else {
                self.0.push(format!("message {name} is gone"));
                continue;
            };
            for field in &old.field {
                self.field(&name, field, old, new);
            }
            let within = format!("{name}.");
            self.messages(&within, &old.nested_type, &new.nested_type);
            self.enums(&within, &old.enum_type, &new.enum_type);
        }
    }

    fn field(
        &mut self,
        of: &str,
        old: &FieldDescriptorProto,
        before: &DescriptorProto,
        now: &DescriptorProto,
    ) {
        let name = format!("{of}.{}", old.name());
        let Some(new) = now.field.iter().find(|f| f.name == old.name) else {
            return self.0.push(format!("field {name} is gone"));
        };
        if new.number != old.number {
            self.0.push(format!("field {name} had number {}, and has {}", old.number(), new.number()));
        }
        if (new.r#type, &new.type_name, new.label) != (old.r#type, &old.type_name, old.label) {
            self.0.push(format!("field {name} is of another type"));
        }
        let one_of = |m: &DescriptorProto, f: &FieldDescriptorProto| {
            f.oneof_index.and_then(|i| m.oneof_decl.get(i as usize)).map(|o| o.name().to_owned())
        };
        if one_of(before, old) != one_of(now, new) {
            self.0.push(format!("field {name} excludes others than before"));
        }
    }

    fn enums(&mut self, within: &str, before: &[EnumDescriptorProto], now: &[EnumDescriptorProto]) {
        for old in before {
            let Some(new) = now.iter().find(|e| e.name == old.name) else {
                self.0.push(format!("enum {within}{} is gone", old.name()));
                continue;
            };
            for value in &old.value {
                if !new.value.iter().any(|v| (&v.name, v.number) == (&value.name, value.number)) {
                    self.0.push(format!("value {within}{} is gone, or has another number", value.name()));
                }
            }
        }
    }

    fn services(&mut self, before: &[ServiceDescriptorProto], now: &[ServiceDescriptorProto]) {
        let kind = |m: &MethodDescriptorProto| {
            (m.input_type.clone(), m.output_type.clone(), m.client_streaming(), m.server_streaming())
        };
        for old in before {
            let Some(new) = now.iter().find(|s| s.name == old.name) else {
                self.0.push(format!("service {} is gone", old.name()));
                continue;
            };
            for method in &old.method {
                let name = format!("{}.{}", old.name(), method.name());
                match new.method.iter().find(|m| m.name == method.name) {
                    None => self.0.push(format!("method {name} is gone")),
                    Some(m) if kind(m) == kind(method) => {}
                    Some(_) => self.0.push(format!("method {name} takes or answers other messages")),
                }
            }
        }
    }
}

#[test]
fn the_schema_only_grows() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../api");
    let released = root.join("released");
    if std::env::var_os("RELEASE_API").is_some() {
        let to = released.join("quiver/v1");
        fs::create_dir_all(&to).unwrap();
        for file in files(&root) {
            fs::copy(&file, to.join(file.file_name().unwrap())).unwrap();
        }
    }
    assert_eq!(
        broken(&schema(&released), &schema(&root)),
        [""; 0],
        "clients of the last release would break"
    );
}

#[test]
fn every_field_and_method_is_described() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../api");
    let mut bare = vec![];
    for file in files(&root) {
        let text = fs::read_to_string(&file).unwrap();
        let mut described = false;
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            let starts =
                ["message ", "enum ", "service ", "rpc ", "oneof "].iter().any(|w| line.starts_with(w));
            let field = line.ends_with(';') && line.contains(" = ") && !line.starts_with("syntax");
            if (starts || field) && !described {
                bare.push(format!("{}:{}: {line}", file.display(), number + 1));
            }
            described = line.starts_with("//");
        }
    }
    assert_eq!(bare, [""; 0], "these have no comment");
}

#[test]
fn what_breaks_clients_is_found() {
    let compiled = |name: &str, text: &str| {
        let root = std::env::temp_dir().join(format!("quiver-schema-{name}-{}", std::process::id()));
        fs::create_dir_all(root.join("quiver/v1")).unwrap();
        fs::write(root.join("quiver/v1/a.proto"), format!("syntax = \"proto3\"; package q;\n{text}"))
            .unwrap();
        let compiled = schema(&root);
        fs::remove_dir_all(root).unwrap();
        compiled
    };
    const BEFORE: &str = "enum E { A = 0; B = 1; } message M { int32 a = 1; string b = 2; repeated E c = 3; \
        oneof w { int32 d = 4; int32 e = 5; } message N { int32 x = 1; } } \
        service S { rpc Get(M) returns (M); rpc All(M) returns (stream M); }";
    let before = compiled("before", BEFORE);
    let found = |from: &str, to: &str| {
        let text = BEFORE.replacen(from, to, 1);
        assert_ne!(text, BEFORE, "{from}");
        broken(&before, &compiled("now", &text))
    };
    for grows in ["int32 a = 1; int32 new = 9;", "int32 a = 1; message O {}"] {
        assert_eq!(found("int32 a = 1;", grows), [""; 0]);
    }
    assert_eq!(found("B = 1;", "B = 1; C = 2;"), [""; 0]);
    assert_eq!(found("rpc Get", "rpc New(M) returns (M); rpc Get"), [""; 0]);
    for (from, to, says) in [
        ("int32 a = 1;", "", "field M.a is gone"),
        ("int32 a = 1;", "int32 a = 7;", "field M.a had number 1, and has 7"),
        ("int32 a = 1;", "int64 a = 1;", "field M.a is of another type"),
        ("int32 a = 1;", "repeated int32 a = 1;", "field M.a is of another type"),
        ("string b", "string other", "field M.b is gone"),
        ("repeated E c", "repeated N c", "field M.c is of another type"),
        (
            "int32 d = 4; int32 e = 5; }",
            "int32 d = 4; } int32 e = 5;",
            "field M.e excludes others than before",
        ),
        ("message N { int32 x = 1; }", "", "message M.N is gone"),
        ("message N { int32 x = 1; }", "message N { }", "field M.N.x is gone"),
        ("B = 1", "B = 2", "value B is gone, or has another number"),
        ("rpc Get(M) returns (M);", "", "method S.Get is gone"),
        ("returns (stream M)", "returns (M)", "method S.All takes or answers other messages"),
        ("service S", "service T", "service S is gone"),
    ] {
        assert_eq!(found(from, to), [says], "{to}");
    }
}
