//! `objects`: what memory alone takes when each packet is of another one of thousands of objects. The loops of a scenario
//! with many sub-interfaces, tables or bridge domains, with nothing in them but the reads and writes of what these are made of.

use crate::bench::measure::median;
use crate::bench::random::Random;
use crate::bench::report::{Answer, Place, round};
use crate::bench::{Bench, Context, Emit};
use graph::VECTOR_SIZE;
use graph::buffer::STRIDE;
use graph::clock::tsc;
use serde::Serialize;
use std::hint::black_box;
use std::time::Instant;

/// What workers keep of each object in one place.
struct Part {
    /// Words of 8 bytes from one object to the next.
    words: usize,
    /// Cache lines that are read of it.
    lines: usize,
    /// Its counters, which are written as well.
    counted: bool,
}

const fn read(words: usize, lines: usize) -> Part {
    Part { words, lines, counted: false }
}

/// Packets and bytes.
const COUNTERS: Part = Part { words: 2, lines: 1, counted: true };
/// What short cuts ask of an interface.
const BRIEF: Part = read(1, 1);
/// Where an object lies.
const SLOT: Part = read(1, 1);
/// The first line of an interface, in a cell of five.
const INTERFACE: Part = read(5 * 8, 1);

/// A scenario, how many objects it has, and what its packets read of them.
struct Like {
    scenario: &'static str,
    objects: usize,
    parts: &'static [Part],
}

const ALL: [Like; 4] = [
    Like { scenario: "vlan-4k", objects: 4000, parts: &[BRIEF, COUNTERS] },
    // Half a line for four places, at most half of which are used.
    Like { scenario: "qinq-10k", objects: 10_000, parts: &[read(4, 1), BRIEF, COUNTERS] },
    // The head of a table, two lines in a cell of three.
    Like { scenario: "vlan-vrf-4k", objects: 4000, parts: &[BRIEF, COUNTERS, SLOT, read(3 * 8, 2)] },
    // A member on either side, and the MAC addresses of both stations, of which five share a line half in use.
    Like {
        scenario: "l2bd-vlan-4k",
        objects: 4000,
        parts: &[BRIEF, COUNTERS, SLOT, INTERFACE, read(4, 1), read(4, 1), SLOT, INTERFACE, COUNTERS],
    },
];

/// Buffers through which packets rotate.
const BUFFERS: usize = 8192;
/// Packets whose objects are brought near at once.
const CHUNK: usize = 32;
/// Vectors of a window.
const WINDOW: usize = 64;

#[derive(Serialize)]
struct Objects {
    scenario: &'static str,
    /// The scenario that reads as much.
    like: &'static str,
    objects: usize,
    /// Lines that are read for a packet, beside its own.
    lines: usize,
    /// TSC clocks a packet where all are of one object, median of short windows.
    clocks_one: f64,
    /// The same where they are of random ones.
    clocks_many: f64,
    #[serde(flatten)]
    place: Place,
}

/// Clocks a packet in the median window.
fn measure(parts: &[Part], objects: usize, numbers: &[u32], seconds: f64) -> f64 {
    let mut memory: Vec<(&Part, Vec<u64>)> = parts.iter().map(|p| (p, vec![0; p.words * objects])).collect();
    let mut packets = vec![0u64; BUFFERS * STRIDE / 8];
    let (mut at, mut found, mut sum, began) = (0, vec![], 0, Instant::now());
    while found.is_empty() || began.elapsed().as_secs_f64() < seconds {
        let mut clocks = 0;
        for _ in 0..WINDOW {
            let vector: [(usize, usize); VECTOR_SIZE] = std::array::from_fn(|n| {
                let buffer = (at + n) % BUFFERS * (STRIDE / 8);
                (buffer, numbers[(at + n) % numbers.len()] as usize)
            });
            at += VECTOR_SIZE;
            vector.iter().for_each(|(buffer, n)| packets[*buffer..][..8].fill(*n as u64));
            let start = tsc();
            for chunk in vector.chunks(CHUNK) {
                for (part, words) in &memory {
                    for (_, n) in chunk {
                        (0..part.lines).for_each(|l| {
                            graph::prefetch(words.as_ptr().wrapping_add(n * part.words + 8 * l))
                        });
                    }
                }
                for (part, words) in &mut memory {
                    for (buffer, n) in chunk {
                        sum += packets[*buffer];
                        for l in 0..part.lines {
                            sum += words[n * part.words + 8 * l];
                        }
                        if part.counted {
                            words[n * part.words] += 1;
                            words[n * part.words + 1] += 64;
                        }
                    }
                }
            }
            clocks += tsc() - start;
        }
        found.push(clocks as f64 / (WINDOW * VECTOR_SIZE) as f64);
    }
    black_box(sum);
    median(found)
}

fn objects(like: &Like, seconds: f64) -> Objects {
    let mut random = Random::new(13);
    let many: Vec<u32> = (0..1 << 16).map(|_| random.below(like.objects) as u32).collect();
    Objects {
        scenario: "objects",
        like: like.scenario,
        objects: like.objects,
        lines: like.parts.iter().map(|p| p.lines).sum(),
        clocks_one: round(measure(like.parts, like.objects, &[0], seconds / 2.0), 2),
        clocks_many: round(measure(like.parts, like.objects, &many, seconds / 2.0), 2),
        place: Place::now(),
    }
}

/// Runs the scenario.
pub fn run(c: &Context, args: &Bench, emit: Emit<'_>) -> Result<(), String> {
    // On the CPU on which a worker would be.
    let _on = c.machine.take_worker_cpu();
    for like in &ALL {
        let o = objects(like, args.seconds);
        let text = format!(
            "objects as of {:<12}: {} lines a packet take {:.1} clocks with one of each, {:.1} with {}: {:.1} more",
            o.like,
            o.lines,
            o.clocks_one,
            o.clocks_many,
            o.objects,
            o.clocks_many - o.clocks_one
        );
        emit(Answer::line(&o, text)?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_scenario_has_all_figures() {
        for like in &ALL {
            let o = objects(like, 0.02);
            assert!(o.clocks_one > 0.0 && o.clocks_many > 0.0 && o.lines >= like.parts.len());
        }
    }
}
