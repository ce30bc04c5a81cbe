//! A reply whose JSON is written while it is made: one line, of which no more than a chunk is in memory.

use serde_json::Value as Json;

/// The JSON of a reply as far as it is written.
#[derive(Debug, Default)]
pub(super) struct Reply {
    /// Something of it was written.
    pub begun: bool,
    /// Some of that was sent: it cannot be taken back.
    pub sent: bool,
    /// What is not sent yet.
    pub buffer: String,
    /// What stands before the JSON.
    head: String,
    nest: Nesting,
}

impl Reply {
    /// A reply to the request `id`.
    pub fn to(id: &Json) -> Self {
        Self { head: format!("{{\"id\":{id},\"json\":"), ..Self::default() }
    }

    /// Writes more of the JSON, which begins and ends beside values.
    pub fn write(&mut self, json: &str) {
        if !self.begun {
            self.begun = true;
            self.buffer.push_str(&self.head);
        }
        self.nest.feed(json);
        self.buffer.push_str(json);
    }

    /// A value comes next: writes the comma that must stand before it.
    pub fn next_value(&mut self) {
        if self.nest.wants_comma() {
            self.write(",");
        }
    }

    /// Ends the reply: closes what is open, and puts the rest behind it.
    pub fn end(&mut self, rest: &str) {
        let closers = self.nest.closers();
        // A name without its value would be no JSON.
        if self.nest.last == b':' {
            self.buffer.push_str("null");
        }
        self.buffer.push_str(&closers);
        self.buffer.push_str(rest);
    }
}

/// Which lists and mappings of a JSON text are open.
#[derive(Debug, Default)]
struct Nesting {
    open: Vec<u8>,
    in_text: bool,
    escaped: bool,
    /// The last byte that is no space.
    last: u8,
}

impl Nesting {
    fn feed(&mut self, json: &str) {
        for byte in json.bytes() {
            if self.in_text {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => self.in_text = false,
                    _ => {}
                }
                self.last = b'"';
                continue;
            }
            match byte {
                b'"' => self.in_text = true,
                b'[' => self.open.push(b']'),
                b'{' => self.open.push(b'}'),
                b']' | b'}' => drop(self.open.pop()),
                _ => {}
            }
            if !byte.is_ascii_whitespace() {
                self.last = byte;
            }
        }
    }

    fn wants_comma(&self) -> bool {
        !self.open.is_empty() && !matches!(self.last, b'[' | b'{' | b':' | b',')
    }

    fn closers(&self) -> String {
        self.open.iter().rev().map(|byte| char::from(*byte)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn what_is_open_is_closed() {
        let mut reply = Reply::to(&json!(7));
        reply.write("[");
        for value in ["{\"a\":[1,\"]}\\\"\"", "", "{\"b\":"] {
            reply.next_value();
            reply.write(value);
        }
        reply.end(",\"ok\":false}");
        let read: Json = serde_json::from_str(&reply.buffer).unwrap();
        assert_eq!(read, json!({ "id": 7, "json": [{ "a": [1, "]}\"", { "b": null }] }], "ok": false }));
    }

    fn tree() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            any::<u32>().prop_map(Json::from),
            "\\PC{0,8}|[\\[\\]{}\"\\\\,:]{0,8}".prop_map(Json::from)
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
                proptest::collection::hash_map("[a-z\\[{\"]{1,3}", inner, 0..4)
                    .prop_map(|m| Json::Object(m.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn whole_values_leave_nothing_open(values in proptest::collection::vec(tree(), 0..4)) {
            let mut reply = Reply::to(&json!(7));
            reply.write("[");
            for value in &values {
                reply.next_value();
                reply.write(&value.to_string());
            }
            reply.end("}");
            let read: Json = serde_json::from_str(&reply.buffer).unwrap();
            prop_assert_eq!(&read["json"], &Json::from(values));
        }
    }
}
