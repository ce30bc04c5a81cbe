//! Runs vectors of one path through the real graph, inline: `scripts/instructions` lets valgrind count the instructions
//! of [`counted`]. `instructions PATH VECTORS`; without arguments it names the paths.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../tests/paths/mod.rs"]
mod paths;

/// The graph's work for one vector. The script knows the function by its name.
#[inline(never)]
fn counted(rig: &mut paths::Rig) {
    rig.run();
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [path, vectors] = args.as_slice() else {
        println!("{}", paths::PATHS.join(" "));
        return;
    };
    let mut rig = paths::Rig::new(path);
    for n in 0..vectors.parse().expect("a number of vectors") {
        rig.make();
        // The first vectors fill tables and caches of the router.
        if n < 8 {
            rig.run();
        } else {
            counted(&mut rig);
        }
    }
    println!("{} packets sent", rig.sent());
}
