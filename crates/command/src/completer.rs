//! The names of things that exist.

/// Knows the names of things that exist, by kind: `interface` and whatever the commands' types name.
pub trait Completer {
    /// The names of `kind` that begin with `prefix`, sorted.
    fn values(&self, kind: &str, prefix: &str) -> Vec<String> {
        let _ = (kind, prefix);
        Vec::new()
    }

    /// Whether something of this kind and name exists; `None` where that cannot be told, and then any name goes.
    fn known(&self, kind: &str, name: &str) -> Option<bool> {
        let _ = (kind, name);
        None
    }

    /// What stands here for a name of another program that operators know, in a few words.
    fn instead(&self, kind: &str, name: &str) -> Option<String> {
        let _ = (kind, name);
        None
    }

    /// The number of what is called `name`, for arguments that take either.
    fn number(&self, kind: &str, name: &str) -> Option<u64> {
        let _ = (kind, name);
        None
    }
}

impl Completer for () {}
