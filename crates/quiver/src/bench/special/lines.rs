//! `lines`: what the memory takes for a cache line, by how much of it is in use. A packet of a random one of thousands of
//! sub-interfaces, tables or bridge domains reads lines of that object's own, and takes at least that much for each.

use super::tables::windows;
use crate::bench::random::Random;
use crate::bench::report::{Answer, Place, round};
use crate::bench::{Bench, Context, Emit};
use serde::Serialize;

/// Memory in use, KiB: from what the nearest cache holds to what none does.
const SIZES: [usize; 7] = [16, 256, 1024, 2048, 4096, 16_384, 65_536];
/// Reads in random order, again and again.
const READS: usize = 1 << 20;

/// A cache line.
#[repr(align(64))]
#[derive(Clone, Default)]
struct Line([u32; 16]);

#[derive(Serialize)]
struct Lines {
    scenario: &'static str,
    /// Memory that the lines are of.
    kib: usize,
    /// TSC clocks a line of reads that do not wait for each other, median of short windows.
    clocks: f64,
    /// In the best window.
    clocks_best: f64,
    /// The same of reads of which each finds the place of the next.
    clocks_chained: f64,
    #[serde(flatten)]
    place: Place,
}

fn measure(kib: usize, seconds: f64) -> Lines {
    let count = kib * 1024 / size_of::<Line>();
    let mut random = Random::new(11);
    // Each line names the one behind it in a circle through all of them.
    let mut circle: Vec<u32> = (0..count as u32).collect();
    random.shuffle(&mut circle);
    let mut lines = vec![Line::default(); count];
    for (n, at) in circle.iter().enumerate() {
        lines[*at as usize].0[0] = circle[(n + 1) % count];
    }
    let reads: Vec<u32> = (0..READS).map(|_| random.below(count) as u32).collect();
    let read = |at: u32| lines.get(at as usize).map_or(0, |l| l.0[0]);
    let (clocks, best) =
        windows(&reads, seconds / 2.0, |at, out| at.iter().zip(out).for_each(|(at, out)| *out = read(*at)));
    let mut at = 0;
    let (chained, _) = windows(&reads, seconds / 2.0, |places, out| {
        places.iter().for_each(|_| at = read(at));
        out[0] = at;
    });
    Lines {
        scenario: "lines",
        kib,
        clocks: round(clocks, 2),
        clocks_best: round(best, 2),
        clocks_chained: round(chained, 1),
        place: Place::now(),
    }
}

/// Runs the scenario.
pub fn run(c: &Context, args: &Bench, emit: Emit<'_>) -> Result<(), String> {
    // On the CPU on which a worker would be.
    let _on = c.machine.take_worker_cpu();
    for kib in SIZES {
        let l = measure(kib, args.seconds / 2.0);
        let text = format!(
            "lines of {:>6} KiB: {:>6.2} clocks a line (best {:.2}), {:.1} where each waits for the one before",
            l.kib, l.clocks, l.clocks_best, l.clocks_chained
        );
        emit(Answer::line(&l, text)?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_lines_have_all_figures() {
        let l = measure(16, 0.02);
        assert!(l.clocks >= l.clocks_best && l.clocks_best > 0.0 && l.clocks_chained > 0.0);
    }
}
