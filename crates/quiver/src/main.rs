//! The quiver binary.
fn main() {}
