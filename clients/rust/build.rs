//! Generates the messages and the client's side of the schema, without `protoc`.

use std::error::Error;
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../api");
    let mut files: Vec<PathBuf> = vec![];
    for entry in std::fs::read_dir(root.join("quiver/v1"))? {
        files.extend(Some(entry?.path()).filter(|p| p.extension().is_some_and(|e| e == "proto")));
    }
    files.sort();
    println!("cargo::rerun-if-changed={}", root.join("quiver/v1").display());
    tonic_prost_build::configure().build_server(false).compile_fds(protox::compile(&files, [&root])?)?;
    Ok(())
}
