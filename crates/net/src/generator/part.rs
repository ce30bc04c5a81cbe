//! Streams of made packets as a part of the control side.

use crate::first_layer::first_layer_fits;
use crate::router::{Named, Op, OpError, Part, PartOp, Router, Start};
use command::Command;
use drivers::generator::{Control, GeneratorQueue, StreamDef};
use std::any::Any;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// The part.
pub(crate) struct Generator;

/// Its state, by name.
type Streams = BTreeMap<String, Stream>;

struct Stream {
    def: StreamDef,
    interface: u32,
    control: Arc<Control>,
    input: u64,
}

/// A change of a stream.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamOp {
    /// Makes one.
    Create(Box<StreamDef>),
    /// Takes one out.
    Delete(String),
    /// Lets one send or stops it.
    Enable {
        /// Its name.
        name: String,
        /// Sends.
        on: bool,
    },
}

/// A stream as `show packet-generator` lists it.
#[derive(Clone, Debug)]
pub struct StreamInfo {
    /// The stream as it was asked for.
    pub def: StreamDef,
    /// Whether it sends now.
    pub running: bool,
    /// Packets made so far.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets not made because no buffer was left.
    pub no_buffer: u64,
}

/// All streams, by name.
pub fn streams(router: &Router) -> Vec<StreamInfo> {
    let info = |s: &Stream| StreamInfo {
        def: s.def.clone(),
        running: s.control.is_running(),
        packets: s.control.packets(),
        bytes: s.control.bytes(),
        no_buffer: s.control.no_buffer(),
    };
    router.state::<Streams>().into_iter().flat_map(BTreeMap::values).map(info).collect()
}

fn stream<'r>(router: &'r mut Router, name: &str) -> Result<&'r mut Stream, OpError> {
    let found = router.state_mut::<Streams>().and_then(|all| all.get_mut(name));
    found.ok_or_else(|| OpError::new(format!("there is no stream {name}")))
}

fn create(router: &mut Router, def: StreamDef) -> Result<Vec<Op>, OpError> {
    let name = def.name.clone();
    if stream(router, &name).is_ok() {
        return Err(OpError::new(format!("there is a stream {name} already")));
    }
    let fail = |e: String| OpError::new(format!("stream {name}: {e}"));
    let interface = router.named(&def.interface).map_err(|e| fail(e.to_string()))?.index;
    if let Some(first) = def.layers.first() {
        first_layer_fits(&def.node, first).map_err(fail)?;
    }
    let queue = GeneratorQueue::new(
        def.compile(interface, router.workers().node_names()).map_err(|e| fail(e.to_string()))?,
    );
    let control = queue.control();
    let nth = router.state::<Streams>().map_or(0, BTreeMap::len);
    let input = router.add_input(nth, interface, Box::new(queue)).map_err(fail)?;
    if let Some(all) = router.state_mut::<Streams>() {
        all.insert(name.clone(), Stream { def, interface, control, input });
    }
    Ok(vec![StreamOp::Delete(name).into()])
}

impl PartOp for StreamOp {
    fn subject(&self) -> String {
        let name = match self {
            StreamOp::Create(def) => &def.name,
            StreamOp::Delete(name) | StreamOp::Enable { name, .. } => name,
        };
        format!("stream {name}")
    }

    fn off(&self) -> Option<Op> {
        match self {
            StreamOp::Create(def) => Some(StreamOp::Delete(def.name.clone()).into()),
            StreamOp::Delete(_) | StreamOp::Enable { .. } => None,
        }
    }

    /// A stream counts its packets: only whether it sends changes in place.
    fn turned(&self, new: &Self) -> Option<Op> {
        let (StreamOp::Create(old), StreamOp::Create(new)) = (self, new) else { return None };
        let on = new.enabled;
        let same = StreamDef { enabled: on, ..(**old).clone() } == **new;
        same.then(|| StreamOp::Enable { name: new.name.clone(), on }.into())
    }

    fn names(&self) -> Vec<Named> {
        match self {
            StreamOp::Create(def) => vec![Named::Interface(def.interface.clone())],
            StreamOp::Delete(_) | StreamOp::Enable { .. } => vec![],
        }
    }

    fn apply(self, router: &mut Router) -> Result<Vec<Op>, OpError> {
        match self {
            StreamOp::Create(def) => create(router, *def),
            StreamOp::Delete(name) => {
                let s = stream(router, &name)?;
                let input = s.input;
                router.workers_mut().remove_input(input);
                let old = router.state_mut::<Streams>().and_then(|all| all.remove(&name));
                Ok(old.map(|s| StreamOp::Create(Box::new(s.def)).into()).into_iter().collect())
            }
            StreamOp::Enable { name, on } => {
                let s = stream(router, &name)?;
                let (was, input) = (s.control.is_running(), s.input);
                if on {
                    s.control.enable();
                } else {
                    s.control.disable();
                }
                s.def.enabled = on;
                router.workers().look_at(input);
                Ok(vec![StreamOp::Enable { name, on: was }.into()])
            }
        }
    }

    fn log_line(&self) -> Option<String> {
        Some(match self {
            StreamOp::Create(def) => format!("stream {}: made", def.name),
            StreamOp::Delete(name) => format!("stream {name}: deleted"),
            StreamOp::Enable { name, on } => {
                format!("stream {name}: {}", if *on { "started" } else { "stopped" })
            }
        })
    }
}

impl Part for Generator {
    fn state(&self, _: &mut Start) -> Box<dyn Any + Send> {
        Box::new(Streams::new())
    }

    fn commands(&self) -> Vec<Command<Router>> {
        super::commands::all()
    }

    fn needs(&self, router: &Router, gone: &HashSet<u32>) -> Option<String> {
        let s = router.state::<Streams>()?.values().find(|s| gone.contains(&s.interface))?;
        let name = router.interface_name(s.interface);
        Some(format!("the stream {} comes in on {name}: delete it first", s.def.name))
    }

    fn releases(&self, router: &Router) -> Vec<Op> {
        let all = router.state::<Streams>().into_iter().flat_map(BTreeMap::keys);
        all.map(|name| StreamOp::Delete(name.clone()).into()).collect()
    }

    fn names(&self, router: &Router, kind: &str) -> Option<Vec<String>> {
        (kind == "stream").then(|| streams(router).into_iter().map(|s| s.def.name).collect())
    }
}
