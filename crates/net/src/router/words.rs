//! What the operator may write, for commands and documents alike.

/// The most characters of a description.
pub const MOST_DESCRIPTION: usize = 255;

/// What the names of vhost-user interfaces begin with.
const VHOST: &str = "VirtualEthernet0/0/";
/// Names of the kinds of interfaces that are numbered: no device may be called so, for a document could not tell them.
const NUMBERED: [&str; 7] = [VHOST, "loop", "tap", "BondEthernet", "vxlan_tunnel", "mpls-tunnel", "gre"];

/// What a device may be called.
pub const DEVICE_NAME: &str = "1 to 63 letters, digits, `/`, `-` and `_`; dots as well behind `host-`";
/// Words that end a next hop: they stand where the name of its interface may.
pub const HOP_OPTIONS: [&str; 7] = ["weight", "mtu", "out-labels", "uniform", "pipe", "ttl", "exp"];
/// What else stands in commands where the name of an interface may.
const WORDS: [&str; 10] = [
    "drop",
    "unreachable",
    "prohibit",
    "ip4-lookup-in-table",
    "ip6-lookup-in-table",
    "ip-lookup-in-table",
    "mpls-lookup-in-table",
    "l2-input-on",
    "del",
    "use",
];

/// Whether a text has the form of a device's name, see [`DEVICE_NAME`].
pub fn is_device_name(name: &str) -> bool {
    // A dot tells the number of a sub-interface, but in names that a command makes of a Linux device's.
    let dots = name.starts_with("host-");
    let right = |b: u8| b.is_ascii_alphanumeric() || b"/-_".contains(&b) || dots && b == b'.';
    (1..=63).contains(&name.len()) && name.bytes().all(right)
}

/// What a name means already, so that no device may be called so.
pub fn means_already(name: &str) -> Option<&'static str> {
    match name {
        "local0" => Some("it stands for the router itself"),
        _ => (WORDS.contains(&name) || HOP_OPTIONS.contains(&name))
            .then_some("commands have a word like this where a name may stand"),
    }
}

/// Whether a text can describe an interface or a bridge domain.
///
/// # Errors
/// What is wrong with it.
pub fn check_description(text: &str) -> Result<(), String> {
    let count = text.chars().count();
    if count > MOST_DESCRIPTION {
        return Err(format!("the description has {count} characters, at most {MOST_DESCRIPTION} may be"));
    }
    if text.chars().any(|c| c.is_control() || c == '\'' || c == '"') {
        return Err("a description has no quotes and no control characters".into());
    }
    Ok(())
}

/// Whether a device may be called so: a document must be able to say it.
///
/// # Errors
/// What is wrong with it.
pub(super) fn check_device_name(name: &str) -> Result<(), String> {
    if !is_device_name(name) {
        return Err(format!("an interface cannot be called {name:?}: {DEVICE_NAME}"));
    }
    if let Some(why) = means_already(name) {
        return Err(format!("an interface cannot be called {name}: {why}"));
    }
    let digits = |stem: &&&str| {
        name.strip_prefix(**stem).is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    };
    if memif_numbers(name).is_some() {
        return Err(format!(
            "{name} is the name of another kind of interface: not memif, a number, / and a number"
        ));
    }
    match NUMBERED.iter().find(digits) {
        Some(stem) => {
            Err(format!("{name} is the name of another kind of interface: not {stem} and a number"))
        }
        None => Ok(()),
    }
}

/// Number of socket and interface in a name that a memif interface has.
pub fn memif_numbers(name: &str) -> Option<(u32, u32)> {
    let (socket, id) = name.strip_prefix("memif")?.split_once('/')?;
    let number = |s: &str| s.parse::<u32>().ok().filter(|n| n.to_string() == s);
    Some((number(socket)?, number(id)?))
}

/// Number in a name that a vhost-user interface has.
pub fn vhost_number(name: &str) -> Option<u32> {
    let number = name.strip_prefix(VHOST)?;
    number.parse::<u32>().ok().filter(|n| n.to_string() == number)
}

/// Whether the Linux side of a TAP may be called so.
pub fn is_tap_host(name: &str) -> bool {
    let rest = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let mut bytes = name.bytes();
    name.len() <= 15 && bytes.next().is_some_and(|b| b.is_ascii_lowercase()) && bytes.all(rest)
}

/// Whether a text names a network namespace: one component of a path.
pub fn is_namespace(name: &str) -> bool {
    let length = name.chars().count();
    (1..=255).contains(&length)
        && name != "."
        && name != ".."
        && !name.chars().any(|c| c == '/' || c.is_control())
}

/// Whether a text names a network namespace.
///
/// # Errors
/// It does not.
pub fn check_namespace(name: &str) -> Result<(), String> {
    if is_namespace(name) {
        return Ok(());
    }
    Err(format!("{name:?} cannot name a network namespace: a name as `ip netns list` shows it"))
}

/// Why a network namespace is refused to who does not have all rights: entering one is for who may do so without the router too.
pub fn namespace_for_root(namespace: &str) -> String {
    format!("namespace {namespace}: only root may put devices there or take them from there")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_commands_name_no_device() {
        for name in ["local0", "drop", "use", "mtu", "weight", "out-labels", "exp"] {
            assert!(means_already(name).is_some() && check_device_name(name).is_err(), "{name}");
        }
        assert!(check_device_name("mtu0").is_ok());
    }
}
