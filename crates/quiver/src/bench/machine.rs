//! Which CPUs the benchmark uses.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// What every scenario gets from the command line.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Number of workers.
    pub workers: usize,
    /// CPUs of the workers.
    pub cpus: Vec<usize>,
}

impl Machine {
    /// The last CPUs that this process may run on, one for each worker; its own threads go to the others.
    pub fn new(workers: usize) -> Result<Machine, String> {
        let allowed = sched_getaffinity(None).map_err(|e| format!("cannot ask for CPUs: {e}"))?;
        let all: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|c| allowed.is_set(*c)).collect();
        let Some(first) = all.len().checked_sub(workers) else {
            return Err(format!("{workers} workers need as many CPUs, and there are {}", all.len()));
        };
        Ok(Machine { workers, cpus: all[first..].to_vec() })
    }

    /// Runs this thread on a worker's CPU until the answer is dropped.
    pub fn take_worker_cpu(&self) -> Aside {
        let before = sched_getaffinity(None).ok();
        if let (Some(_), Some(cpu)) = (before, self.cpus.first()) {
            let mut set = CpuSet::new();
            set.set(*cpu);
            let _ = sched_setaffinity(None, &set);
        }
        Aside(before)
    }

    /// Keeps this thread off the workers' CPUs, where there are others, until the answer is dropped. Only once the
    /// workers run, which may run on no other CPU than the thread that starts them.
    pub fn step_aside(&self) -> Aside {
        let before = sched_getaffinity(None).ok();
        if let Some(mut set) = before {
            self.cpus.iter().for_each(|c| set.unset(*c));
            if set.count() != 0 {
                let _ = sched_setaffinity(None, &set);
            }
        }
        Aside(before)
    }
}

/// This thread runs beside the workers.
pub struct Aside(Option<CpuSet>);

impl Drop for Aside {
    fn drop(&mut self) {
        if let Some(set) = &self.0 {
            let _ = sched_setaffinity(None, set);
        }
    }
}
