//! Mappings that stand at several places of a schema are written once.

use super::of;
use serde_json::{Map, Value as Json};
use std::collections::BTreeMap;

/// Mappings that stand at several places, each of which is written once.
/// What was found so far.
#[derive(Default)]
pub(super) struct Shared {
    seen: BTreeMap<String, usize>,
    names: BTreeMap<String, String>,
    /// Those that stand once, by name.
    pub definitions: Map<String, Json>,
}

impl Shared {
    /// Shorter ones are repeated.
    const LEAST: usize = 300;

    fn is_one(json: &Json) -> Option<String> {
        let text = json.to_string();
        (json["type"] == "object" && text.len() >= Self::LEAST).then_some(text)
    }

    /// Counts how often each stands.
    pub fn count(&mut self, json: &Json) {
        Self::is_one(json).into_iter().for_each(|text| *self.seen.entry(text).or_default() += 1);
        match json {
            Json::Array(all) => all.iter().for_each(|j| self.count(j)),
            Json::Object(all) => all.values().for_each(|j| self.count(j)),
            _ => {}
        }
    }

    /// Puts a reference in the place of each that stands more than once. `name` is that of the field around it.
    pub fn replace(&mut self, json: &mut Json, name: &str) {
        let text = Self::is_one(json).filter(|text| self.seen.get(text).is_some_and(|n| *n > 1));
        let known = text.as_ref().and_then(|text| self.names.get(text).cloned());
        if known.is_none() {
            match json {
                Json::Array(all) => all.iter_mut().for_each(|j| self.replace(j, name)),
                Json::Object(all) => {
                    let own = ["anyOf", "items", "properties", "additionalProperties"];
                    all.iter_mut()
                        .for_each(|(k, j)| self.replace(j, if own.contains(&&**k) { name } else { k }));
                }
                _ => {}
            }
        }
        let Some(text) = text else { return };
        let name = known.unwrap_or_else(|| {
            let names = (1..).map(|n| if n == 1 { name.to_string() } else { format!("{name}-{n}") });
            let free = names.into_iter().find(|n| !self.definitions.contains_key(n)).unwrap();
            self.definitions.insert(free.clone(), std::mem::take(json));
            self.names.insert(text, free.clone());
            free
        });
        *json = of(&name);
    }
}
