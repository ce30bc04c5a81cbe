//! Counters, read from shared memory.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use command::CommandError;
use graph::registry::Reader;
use tokio::time::Instant;
use tonic::{Request, Response, Status};

use super::Router;
use super::pieces::{Next, made};
use crate::limits::{Answers, Deadline};
use crate::v1::counters_server::Counters;
use crate::v1::{
    ListCountersRequest, ListCountersResponse, ReadCountersRequest, ReadCountersResponse,
    list_counters_response, read_counters_response,
};
use crate::who;

/// Counters in a message.
const AT_ONCE: usize = 128;
/// The least time between two readings, in milliseconds.
const LEAST: u32 = 100;
/// Names that a request may have.
const NAMES: usize = 1000;

impl Router {
    /// The memory in which the counters stand.
    pub(super) async fn memory(&self) -> Result<OwnedFd, Status> {
        self.desk(async |desk| {
            let router = desk.router.try_borrow().map_err(|_| CommandError::new("the router is busy"))?;
            router.plane().registry.file().map_err(|e| cannot(&e))
        })
        .await
    }
}

fn cannot(e: &std::io::Error) -> CommandError {
    CommandError::new(format!("cannot read the counters: {e}"))
}

/// Opened for each reading: counters come while the router runs.
fn open(memory: &OwnedFd) -> Result<Reader, CommandError> {
    memory.try_clone().and_then(Reader::open).map_err(|e| cannot(&e))
}

fn is_one_of(name: &str, wanted: &[String]) -> bool {
    let fits = |w: &String| match w.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == w,
    };
    wanted.is_empty() || wanted.iter().any(fits)
}

fn names(wanted: &[String]) -> Result<(), Status> {
    match wanted.len() {
        0..=NAMES => Ok(()),
        n => Err(Status::invalid_argument(format!("names: {n} are too many: at most {NAMES}"))),
    }
}

/// The places of the wanted counters; one at least.
fn wanted(reader: &Reader, names: &[String]) -> Result<VecDeque<usize>, CommandError> {
    let all = reader.entries().iter().enumerate();
    let found: VecDeque<usize> = all.filter(|(_, e)| is_one_of(&e.name, names)).map(|(i, _)| i).collect();
    let alone = |w: &&String| !reader.entries().iter().any(|e| is_one_of(&e.name, &[(*w).clone()]));
    match names.iter().find(alone) {
        Some(name) => Err(CommandError::new(format!("there is no counter {name}: List has all"))),
        None => Ok(found),
    }
}

/// A reading that is under way.
struct Reading {
    reader: Reader,
    time_ns: i64,
    /// What is still to be read, and from which number on.
    left: VecDeque<usize>,
    from: u64,
}

impl Reading {
    fn begin(memory: &OwnedFd, names: &[String]) -> Result<Reading, CommandError> {
        let reader = open(memory)?;
        let left = wanted(&reader, names)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Reading { reader, time_ns: i64::try_from(now.as_nanos()).unwrap_or(i64::MAX), left, from: 0 })
    }

    /// The values of the next message.
    fn some(&mut self) -> Result<ReadCountersResponse, CommandError> {
        let mut values = vec![];
        while let Some(entry) = self.left.front().and_then(|at| self.reader.entries().get(*at)) {
            let (found, next) = self.reader.values(entry, self.from).map_err(|e| cannot(&e))?;
            for v in found {
                let name = |(axis, n): (&graph::registry::Axis, &u64)| {
                    self.reader.name(&axis.name, *n).map_or(String::new(), |(name, _)| name.to_owned())
                };
                let of_names = entry.by.iter().zip(&v.of).map(name).collect();
                let (name, of, value) = (entry.name.clone(), v.of, v.value);
                values.push(read_counters_response::Value { name, of, of_names, value });
            }
            self.from = next.unwrap_or(0);
            if next.is_none() {
                self.left.pop_front();
            }
            if values.len() >= AT_ONCE {
                break;
            }
        }
        Ok(ReadCountersResponse { time_ns: self.time_ns, values, complete: self.left.is_empty() })
    }
}

#[tonic::async_trait]
impl Counters for Router {
    type ListStream = Answers<ListCountersResponse>;

    async fn list(
        &self,
        request: Request<ListCountersRequest>,
    ) -> Result<Response<Self::ListStream>, Status> {
        who::caller(&request)?;
        let deadline = Deadline::of(&request);
        let (names, memory) = (request.into_inner().names, self.memory().await?);
        self::names(&names)?;
        let mut begun = None;
        Ok(Response::new(made(deadline, move || {
            let (reader, left) = match &mut begun {
                Some(begun) => begun,
                none => {
                    let reader = open(&memory)?;
                    let left = wanted(&reader, &names)?;
                    none.insert((reader, left))
                }
            };
            let some: Vec<usize> = left.drain(..AT_ONCE.min(left.len())).collect();
            let counters = some.iter().filter_map(|at| reader.entries().get(*at));
            let counters = counters.map(|e| list_counters_response::Counter {
                name: e.name.clone(),
                unit: e.unit.clone(),
                help: e.help.clone(),
                most: e.most,
                by: e.by.iter().map(|axis| axis.name.clone()).collect(),
            });
            let counters: Vec<_> = counters.collect();
            Ok(if counters.is_empty() { Next::End } else { Next::Message(ListCountersResponse { counters }) })
        })))
    }

    type ReadStream = Answers<ReadCountersResponse>;

    async fn read(
        &self,
        request: Request<ReadCountersRequest>,
    ) -> Result<Response<Self::ReadStream>, Status> {
        who::caller(&request)?;
        let deadline = Deadline::of(&request);
        let ReadCountersRequest { names, interval_ms } = request.into_inner();
        self::names(&names)?;
        if (1..LEAST).contains(&interval_ms) {
            let why = format!("interval_ms: {interval_ms} is out of range: 0, or at least {LEAST}");
            return Err(Status::invalid_argument(why));
        }
        let (memory, interval) = (self.memory().await?, Duration::from_millis(interval_ms.into()));
        let (mut reading, mut due, mut read) = (None, Instant::now(), false);
        Ok(Response::new(made(deadline, move || {
            let now = match &mut reading {
                Some(reading) => reading,
                none if !read => {
                    read = true;
                    none.insert(Reading::begin(&memory, &names)?)
                }
                _ if interval.is_zero() => return Ok(Next::End),
                _ => {
                    // What came too late for its time is left out.
                    while due <= Instant::now() {
                        due += interval;
                    }
                    read = false;
                    return Ok(Next::At(due));
                }
            };
            let message = now.some()?;
            if message.complete {
                reading = None;
            }
            Ok(Next::Message(message))
        })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_beginnings_of_names() {
        let wanted = |all: &[&str]| all.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
        assert!(is_one_of("node.calls", &[]));
        assert!(is_one_of("node.calls", &wanted(&["x", "node.*"])));
        assert!(!is_one_of("node.calls", &wanted(&["node"])));
        assert!(!is_one_of("node", &wanted(&["node.*"])));
    }
}
