//! Packet generator streams.

use super::{Op, OpError, Router};
use drivers::generator::{Control, GeneratorQueue, StreamDef};
use std::sync::Arc;

pub(crate) struct Stream {
    pub def: StreamDef,
    pub interface: u32,
    control: Arc<Control>,
    worker: usize,
    input: u64,
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

impl Router {
    pub(super) fn create_stream(&mut self, def: StreamDef) -> Result<Vec<Op>, OpError> {
        let name = def.name.clone();
        if self.streams.contains_key(&name) {
            return Err(OpError::new(format!("there is a stream {name} already")));
        }
        let interface = self.named(&def.interface).map(|i| i.index);
        let interface = interface.map_err(|e| OpError::new(format!("stream {name}: {e}")))?;
        if let Some(first) = def.layers.first() {
            crate::first_layer::first_layer_fits(&def.node, first)
                .map_err(|e| OpError::new(format!("stream {name}: {e}")))?;
        }
        let nodes = self.graphs.first().map(|g| g.wiring.names.clone()).unwrap_or_default();
        let compiled =
            def.compile(interface, &nodes).map_err(|e| OpError::new(format!("stream {name}: {e}")))?;
        let queue = GeneratorQueue::new(compiled);
        let control = queue.control();
        let (worker, input) = (self.streams.len() % self.workers.len(), self.next_input);
        self.next_input += 1;
        let features = self.interface(interface).map(|i| Arc::clone(&i.rx_features)).unwrap_or_default();
        let added = self.workers[worker].call(move |w| w.add_input(input, Box::new(queue), features));
        match added {
            Some(Ok(())) => {}
            Some(Err(e)) => return Err(OpError::new(format!("stream {name}: {e}"))),
            None => return Err(OpError::new("a worker has ended")),
        }
        self.streams.insert(name.clone(), Stream { def, interface, control, worker, input });
        Ok(vec![Op::DeleteStream { name }])
    }

    fn stream(&self, name: &str) -> Result<&Stream, OpError> {
        self.streams.get(name).ok_or_else(|| OpError::new(format!("there is no stream {name}")))
    }

    pub(super) fn delete_stream(&mut self, name: &str) -> Result<Vec<Op>, OpError> {
        let s = self.stream(name)?;
        let (worker, input) = (s.worker, s.input);
        drop(self.workers[worker].call(move |w| w.remove_input(input)));
        let old = self.streams.remove(name);
        Ok(old.map(|s| Op::CreateStream { def: Box::new(s.def) }).into_iter().collect())
    }

    pub(super) fn enable_stream(&mut self, name: String, on: bool) -> Result<Vec<Op>, OpError> {
        let s = self.stream(&name)?;
        let was = s.control.is_running();
        if on {
            s.control.enable();
        } else {
            s.control.disable();
        }
        // The worker may sleep: any mail makes it look at its inputs.
        self.workers[s.worker].send(|_| {});
        if let Some(s) = self.streams.get_mut(&name) {
            s.def.enabled = on;
        }
        Ok(vec![Op::EnableStream { name, on: was }])
    }

    /// All streams, by name.
    pub fn streams(&self) -> Vec<StreamInfo> {
        let info = |s: &Stream| StreamInfo {
            def: s.def.clone(),
            running: s.control.is_running(),
            packets: s.control.packets(),
            bytes: s.control.bytes(),
            no_buffer: s.control.no_buffer(),
        };
        self.streams.values().map(info).collect()
    }
}
