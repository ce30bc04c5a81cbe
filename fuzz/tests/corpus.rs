//! The kept inputs, without a fuzzer: `cargo test --manifest-path fuzz/Cargo.toml` on any toolchain.

use std::path::Path;

fn each(target: &str, run: impl Fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    assert!(files.len() > 20, "{target} has a corpus");
    for file in files {
        println!("{}", file.display());
        run(&std::fs::read(file).unwrap());
    }
}

#[test]
fn packet() {
    each("packet", targets::packet::run);
}

#[test]
fn frames() {
    each("frames", targets::frames::run);
}

#[test]
fn yaml() {
    each("yaml", targets::yaml::run);
}

#[test]
fn command() {
    each("command", targets::command::run);
}
