//! Target `documents`: two documents, the second of which is applied to a router that was started with the first.

use control::dump::{Dump, Source};
use control::engine::{self, Carry, Plan, Progress, Reading, Session, Side};
use control::yaml::{self, Document, InterfaceKind};
use control::apply;
use graph::{PoolConfig, PoolMemory};
use net::router::{Router, RouterConfig};
use std::collections::HashSet;
use std::time::Duration;

#[path = "../../crates/control/tests/engine/documents/mod.rs"]
mod drawn;

/// Two texts with a zero byte between them; without one the bytes are what two documents are drawn from.
pub fn run(data: &[u8]) {
    let zero = data.iter().position(|b| *b == 0);
    let texts = match zero {
        Some(at) => {
            let (a, b) = data.split_at(at);
            [a, b.get(1..).unwrap_or_default()].map(|t| String::from_utf8_lossy(t).into_owned())
        }
        None => {
            let (a, b) = data.split_at(data.len() / 2);
            [drawn::drawn(a, 1), drawn::drawn(b, 1)]
        }
    };
    let [Ok(a), Ok(b)] = texts.map(|t| yaml::load("fuzz.yaml", &t)) else { return };
    let (from, to) = (Side::of(&a), Side::of(&b));
    assert!(engine::plan(&from, &from).expect("memory").is_empty(), "a document differs in nothing from itself");
    for (from, to) in [(&from, &to), (&to, &from)] {
        let plan = engine::plan(from, to).expect("memory");
        told(&plan);
        let client = std::net::Ipv4Addr::new(10, 0, 0, 7).into();
        let warnings = engine::warnings(&plan, from, to, Some(Session { client, server: None }));
        assert!(warnings.iter().all(|w| !w.is_empty()), "a warning says something");
    }
    // Devices and TAPs are the machine's, and files are anywhere: those of drawn documents are known.
    let inside = |k: &InterfaceKind| !matches!(k, InterfaceKind::Device(_) | InterfaceKind::Tap(_));
    if zero.is_none() || [&a, &b].iter().all(|d| d.interfaces.iter().all(|i| inside(&i.kind))) {
        applied(&a, &b);
    }
}

/// What an operator is told of it.
fn told(plan: &Plan) {
    let mut at = Some((0, 0));
    while let Some(start) = at {
        let (lines, next) = engine::differences(plan, start, 7);
        assert!(lines.iter().all(|l| !l.text.is_empty()), "a line says something");
        at = next;
    }
    let mut steps = HashSet::new();
    assert!(plan.steps.iter().all(|s| steps.insert(format!("{:?} {:?}", s.phase, s.id))), "no step comes twice");
    plan.lines().iter().for_each(|l| _ = l.to_json());
}

struct Running(Router, yaml::Settings);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.shutdown();
    }
}

fn start(document: &Document) -> Option<Running> {
    let pool = PoolConfig { buffers: 4096, memory: PoolMemory::Normal };
    let config = RouterConfig { pool, workers: 1, cpus: vec![], ..apply::router_config(document) };
    let mut router = Router::new(config).ok()?;
    let settings = yaml::Settings::default();
    match apply::start(document, &mut router) {
        Ok(_) => Some(Running(router, settings)),
        Err(_) => {
            router.shutdown();
            None
        }
    }
}

fn dump(r: &Running) -> String {
    Dump::text(Source { router: &r.0, settings: &r.1 })
}

fn applied(a: &Document, b: &Document) {
    let (Some(mut running), Some(wanted)) = (start(a), start(b)) else { return };
    let side = Reading::whole(&running.0, &running.1).expect("what runs loads");
    let plan = engine::plan(&side, &Side::of(b)).expect("memory");
    let mut carry = Carry::new(plan);
    loop {
        match carry.go_on(&mut running.0, Duration::ZERO) {
            Progress::More => {}
            Progress::Done => break,
            Progress::Failed(failed) => panic!("{failed:?}"),
            Progress::Waits => panic!("no thread asks Linux for it"),
        }
    }
    // Of several routes of a prefix the best one takes over in turns.
    (0..32).for_each(|_| running.0.tick());
    assert_eq!(dump(&running), dump(&wanted), "as one that was started with it");
}
