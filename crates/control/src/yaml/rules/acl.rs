//! Interfaces name ACLs that are declared.

use std::collections::HashSet;

use super::{Names, say};
use crate::yaml::acl::Acl;
use crate::yaml::decode::nearest;
use crate::yaml::diag::Sink;
use crate::yaml::scalar::short;

pub(super) fn check(acls: &[Acl], names: &Names<'_>, errors: &mut Sink) {
    let known: HashSet<&str> = acls.iter().map(|a| a.name.as_str()).collect();
    for port in &names.list {
        let uses = port.acls();
        for (side, list) in [("input", &uses.input), ("output", &uses.output)] {
            for acl in list.iter().filter(|a| !known.contains(a.name.as_str())) {
                let near = nearest(&acl.name, acls.iter().take(100).map(|a| a.name.as_str()));
                let near = near.filter(|_| !errors.is_full());
                let help = match near {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => "add it to the section `acls`".to_string(),
                };
                let message = format!("the ACL {} is not declared", short(&acl.name));
                say(errors, acl.place, format!("{}.acls.{side}", port.path()), "undeclared", message)
                    .value(&acl.name)
                    .help(help);
            }
        }
    }
}
