//! How much of their CPUs the workers got while they were measured: on a shared machine others take some of it.

use std::fs::read_to_string;
use std::time::Instant;

/// Counters of the system at one time.
pub struct Mood {
    at: Instant,
    /// Nanoseconds that worker threads ran, all together; none where Linux does not count them.
    ran: Option<u64>,
    workers: usize,
    /// Ticks that the host gave to others, and all ticks, of the workers' CPUs.
    stolen: (u64, u64),
}

/// Shares of time, 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shares {
    /// In which the workers ran, as Linux sees it.
    pub ran: f64,
    /// That the host took away from their CPUs, as far as it tells.
    pub stolen: f64,
}

impl Shares {
    /// Of several times that are as long as each other.
    pub fn mean(of: &[Shares]) -> Shares {
        let mean = |f: fn(&Shares) -> f64| of.iter().map(f).sum::<f64>() / of.len().max(1) as f64;
        Shares { ran: mean(|s| s.ran), stolen: mean(|s| s.stolen) }
    }
}

fn ran() -> (Option<u64>, usize) {
    let (mut sum, mut workers) = (None, 0);
    for task in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let of = |file| read_to_string(task.path().join(file)).unwrap_or_default();
        if !of("comm").starts_with("quiver_wk_") {
            continue;
        }
        workers += 1;
        let ns: Option<u64> = of("schedstat").split(' ').next().and_then(|n| n.parse().ok());
        sum = ns.map(|n| n + sum.unwrap_or(0)).or(sum);
    }
    (sum, workers)
}

/// Stolen and all ticks of these CPUs in the text of `/proc/stat`.
fn stolen(text: &str, cpus: &[usize]) -> (u64, u64) {
    let (mut stolen, mut all) = (0, 0);
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let cpu = words.next().and_then(|w| w.strip_prefix("cpu")).and_then(|n| n.parse().ok());
        if cpu.is_some_and(|c| cpus.contains(&c)) {
            let ticks: Vec<u64> = words.take(8).filter_map(|w| w.parse().ok()).collect();
            all += ticks.iter().sum::<u64>();
            stolen += ticks.get(7).copied().unwrap_or(0);
        }
    }
    (stolen, all)
}

impl Mood {
    /// Now.
    pub fn now(cpus: &[usize]) -> Self {
        let (ran, workers) = ran();
        let stolen = stolen(&read_to_string("/proc/stat").unwrap_or_default(), cpus);
        Mood { at: Instant::now(), ran, workers, stolen }
    }

    /// What happened between `before` and now.
    pub fn since(&self, before: &Mood) -> Shares {
        let wall = (self.at - before.at).as_secs_f64() * 1e9 * self.workers.max(1) as f64;
        let ran = self.ran.zip(before.ran).map_or(1.0, |(b, a)| b.saturating_sub(a) as f64 / wall);
        let ticks = self.stolen.1.saturating_sub(before.stolen.1).max(1);
        Shares { ran, stolen: self.stolen.0.saturating_sub(before.stolen.0) as f64 / ticks as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_time_is_that_of_the_workers_cpus() {
        let text =
            "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\ncpu1 10 0 0 80 0 0 0 10 5 5\nintr 7\n";
        assert_eq!(stolen(text, &[1]), (10, 100));
        assert_eq!(stolen(text, &[0, 1]), (18, 136));
        assert_eq!(stolen("", &[0]), (0, 0));
    }

    #[test]
    fn shares_are_of_the_time_between() {
        let t = Instant::now();
        let at =
            |ms, ran, stolen| Mood { at: t + std::time::Duration::from_millis(ms), ran, workers: 2, stolen };
        let s = at(100, Some(100_000_000), (5, 30)).since(&at(0, Some(0), (0, 10)));
        assert_eq!(s, Shares { ran: 0.5, stolen: 0.25 });
        let mean = Shares::mean(&[s, Shares { ran: 1.0, stolen: 0.0 }]);
        assert_eq!(mean, Shares { ran: 0.75, stolen: 0.125 });
        assert_eq!(at(1, None, (0, 0)).since(&at(0, None, (0, 0))), Shares { ran: 1.0, stolen: 0.0 });
    }
}
