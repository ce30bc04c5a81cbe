//! From the checked document to a running router: how it is made, and the way there from nothing.

use crate::engine::{self, Brought, Side};
use crate::yaml::{Dad, Diagnostic, Diagnostics, Document, Driver, HugePages, InterfaceKind};
use graph::{PoolConfig, PoolMemory, memory};
use net::neighbor::{DadMode, NeighborConfig};
use net::plane::PlaneConfig;
use net::router::{Router, RouterConfig};
use std::hash::RandomState;
use std::time::{Duration, Instant};

/// How the document wants the router made.
pub fn router_config(d: &Document) -> RouterConfig {
    let s = &d.settings;
    RouterConfig {
        workers: usize::from(s.workers),
        cpus: s.cpus.iter().map(|c| usize::from(*c)).collect(),
        numa: drivers::numa::Nodes::of_machine(),
        spin: s.spin,
        pool: PoolConfig {
            buffers: s.buffers.count as usize,
            memory: match s.buffers.huge_pages {
                HugePages::Auto => PoolMemory::Auto,
                HugePages::Never => PoolMemory::Normal,
                HugePages::Require => PoolMemory::Huge,
            },
        },
        plane: PlaneConfig {
            hold_per_neighbor: u32::from(s.neighbor.queue),
            hold_per_interface: u32::from(s.neighbor.interface_queue),
            ..PlaneConfig::default()
        },
        neighbor: NeighborConfig {
            retrans_timer: s.neighbor.retransmit.as_millis() as u64,
            base_reachable: s.neighbor.reachable_time.as_millis() as u64,
            max_entries: s.neighbor.max_entries as usize,
            max_per_interface: s.neighbor.max_per_interface.unwrap_or(s.neighbor.max_entries) as usize,
            max_incomplete: s.neighbor.max_unresolved as usize,
            solicit_rate: s.neighbor.solicit_rate,
            ..NeighborConfig::default()
        },
        fragment_hash: RandomState::new(),
        dad: match s.dad {
            Dad::Optimistic => DadMode::Optimistic,
            Dad::Strict => DadMode::Strict,
            Dad::Off => DadMode::Off,
        },
        // Without a limit of its own: half of what the machine or the cgroup leave now.
        route_memory: Some(
            s.route_memory
                .map_or_else(|| memory::room() / 2, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX)),
        ),
    }
}

/// How long a start waits for a router that is just ending to let go of its devices.
const PATIENCE: Duration = Duration::from_secs(1);

/// Every device of the document that cannot be opened, at once: opening ends at the first.
fn probe(d: &Document) -> Result<(), Diagnostics> {
    let mut errors = vec![];
    let until = Instant::now() + PATIENCE;
    for i in &d.interfaces {
        if let InterfaceKind::Device(device) = &i.kind
            && let Driver::Linux { host, namespace, .. } = &device.driver
            && let Err(e) = drivers::host::probe(host, namespace.as_deref(), until)
        {
            errors.push(Diagnostic::new(device.place, i.path.clone(), "device", format!("{}: {e}", i.name)));
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(d.refuse(errors)) }
}

/// Brings a new router to the state of the document; what that has brought. On an error the router is as empty as before.
pub fn start(d: &Document, router: &mut Router) -> Result<Brought, Diagnostics> {
    d.supported()?;
    probe(d)?;
    let side = Side::of(d);
    let plan = engine::plan(&Side::default(), &side)
        .map_err(|e| Diagnostics::whole_file(&d.source.name, "memory", e.to_string(), memory::HELP))?;
    engine::at_once(router, &plan).map_err(|e| {
        let step = plan.steps.get(e.step);
        d.refuse(step.map(|s| side.refusal(&s.id, e.number, &e.message)).into_iter().collect())
    })?;
    Ok(Brought::of(&side))
}
