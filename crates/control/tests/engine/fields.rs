//! Random documents have every field that the schema knows, but for some.

use super::*;
use granit_parser::{Event, Parser};
use serde_json::Value as Json;
use std::collections::BTreeSet;

/// Fields that are never drawn, with all below them, and why.
const NEVER: &[(&str, &str)] = &[
    ("acls", "not supported yet"),
    ("prefixlists", "not supported yet"),
    ("sflow", "not supported yet"),
    ("interfaces.*.acls", "not supported yet"),
    ("interfaces.*.sflow", "not supported yet"),
    ("interfaces.*.sub-interfaces.*.acls", "not supported yet"),
    ("devices.*.device", "of devices that Linux has"),
    ("devices.*.left-to-linux", "of devices that Linux has"),
    ("devices.*.mode", "of devices that Linux has"),
    ("devices.*.rx-ring", "of devices that Linux has"),
    ("devices.*.host", "of a TAP that `taps` does not name"),
    ("devices.*.namespace", "a namespace is the whole machine's"),
    ("linux-cp.default-netns", "a namespace is the whole machine's"),
    ("linux-cp.fpm.netns", "a namespace is the whole machine's"),
    ("linux-cp.interfaces.*.netns", "a namespace is the whole machine's"),
    ("taps.*.host.namespace", "a namespace is the whole machine's"),
    ("taps.*.host.namespace-create", "a namespace is the whole machine's"),
    ("mpls.local-labels.via.mtu", "of routes alone"),
    ("mpls.tunnels.*.via.mtu", "of routes alone"),
    ("mpls.tunnels.*.via.lookup", "of labels alone"),
    ("mpls.tunnels.*.via.table", "of routes and labels alone"),
    ("routes.via.lookup", "of labels alone"),
    ("quiver.api", "takes a restart"),
    ("quiver.buffers", "takes a restart"),
    ("quiver.dad", "takes a restart"),
    ("quiver.log", "takes a restart"),
    ("quiver.neighbor", "takes a restart"),
    ("quiver.poll.spin-us", "takes a restart"),
    ("quiver.routes", "takes a restart"),
    ("quiver.sockets", "takes a restart"),
    ("quiver.state", "takes a restart"),
    ("quiver.workers.cpus", "takes a restart"),
];

/// The next value of a text, or the end of a list or mapping.
fn value<'e>(events: &mut impl Iterator<Item = Event<'e>>) -> Option<Json> {
    loop {
        return match events.next()? {
            Event::Scalar(text, ..) => Some(text.into_owned().into()),
            Event::SequenceStart(..) => Some(std::iter::from_fn(|| value(events)).collect::<Vec<_>>().into()),
            Event::MappingStart(..) => {
                let pair = || Some((value(events)?.as_str()?.to_owned(), value(events)?));
                Some(Json::Object(std::iter::from_fn(pair).collect()))
            }
            Event::SequenceEnd | Event::MappingEnd => None,
            _ => continue,
        };
    }
}

struct Schema(Json);

impl Schema {
    /// All that may stand where this is looked for.
    fn forms<'a>(&'a self, at: &'a Json) -> Vec<&'a Json> {
        let name = at["$ref"].as_str().and_then(|r| r.strip_prefix("#/definitions/"));
        match (name, at["anyOf"].as_array()) {
            (Some(name), _) => self.forms(&self.0["definitions"][name]),
            (_, Some(all)) => all.iter().flat_map(|form| self.forms(form)).collect(),
            _ => vec![at],
        }
    }

    /// The fields at a place and below.
    fn fields(&self, at: &Json, path: &str, out: &mut BTreeSet<String>) {
        for form in self.forms(at) {
            for (name, field) in form["properties"].as_object().into_iter().flatten() {
                let path = format!("{path}.{name}");
                self.fields(field, &path, out);
                out.insert(path[1..].to_owned());
            }
            let entries = format!("{path}.*");
            for (below, path) in [("additionalProperties", &*entries), ("items", path)] {
                if form[below].is_object() {
                    self.fields(&form[below], path, out);
                }
            }
        }
    }

    /// Those of them that a document has.
    fn said(&self, at: &Json, value: &Json, path: &str, out: &mut BTreeSet<String>) {
        for form in self.forms(at) {
            for (name, value) in value.as_object().into_iter().flatten() {
                if let Some(field) = form["properties"].get(name) {
                    let path = format!("{path}.{name}");
                    self.said(field, value, &path, out);
                    out.insert(path[1..].to_owned());
                } else if form["additionalProperties"].is_object() {
                    self.said(&form["additionalProperties"], value, &format!("{path}.*"), out);
                }
            }
            for item in value.as_array().into_iter().flatten().filter(|_| form["items"].is_object()) {
                self.said(&form["items"], item, path, out);
            }
        }
    }
}

#[test]
fn random_documents_have_every_field() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schema.json");
    let schema = Schema(serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap());
    let (mut known, mut drawn, mut good) = (BTreeSet::new(), BTreeSet::new(), 0);
    schema.fields(&schema.0, "", &mut known);
    for seed in 0..3000u64 {
        let text = documents::drawn_with_machine(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        if yaml::load("test.yaml", &text).is_ok() {
            good += 1;
            let mut events = Parser::new_from_str(&text).map(|event| event.unwrap().0);
            schema.said(&schema.0, &value(&mut events).unwrap(), "", &mut drawn);
        }
    }
    // Documents that are wrong are drawn again, and what they have is tested by nothing.
    assert!(good > 1500, "{good}");
    let is_below = |field: &str, of: &str| {
        field.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let excused = |field: &&String| NEVER.iter().any(|(of, _)| is_below(field, of));
    let missing: Vec<_> = known.difference(&drawn).filter(|f| !excused(f)).collect();
    assert!(missing.is_empty(), "random documents never have {missing:#?}");
    for (of, why) in NEVER {
        assert!(known.contains(*of), "there is no {of}");
        assert!(!drawn.iter().any(|f| is_below(f, of)), "{of} is drawn, although {why}");
    }
}
