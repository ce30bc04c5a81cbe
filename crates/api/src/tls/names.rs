//! The names that a certificate gives its owner. It has been verified: what is looked for here is no more than the names (RFC 5280).

/// An element of DER: its tag, and what is in it.
type Element<'d> = (u8, &'d [u8]);

/// Elements of DER, one behind the other.
struct Elements<'d>(&'d [u8]);

const INTEGER: u8 = 0x02;
const OCTETS: u8 = 0x04;
const OID: u8 = 0x06;
const UTF8: u8 = 0x0c;
const PRINTABLE: u8 = 0x13;
const IA5: u8 = 0x16;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
/// In a certificate: its version, its extensions.
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
/// Of names: e-mail address, host, URI.
const MAIL: u8 = 0x81;
const HOST: u8 = 0x82;
const URI: u8 = 0x86;
/// 2.5.4.3, the common name, and 2.5.29.17, names of the subject.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const SUBJECT_NAMES: &[u8] = &[0x55, 0x1d, 0x11];

impl<'d> Iterator for Elements<'d> {
    type Item = Element<'d>;

    fn next(&mut self) -> Option<Element<'d>> {
        let [tag, length, rest @ ..] = self.0 else { return None };
        // A tag of several bytes has no place in a certificate.
        if tag & 0x1f == 0x1f {
            return None;
        }
        let (length, rest) = match length {
            0..=0x7f => (usize::from(*length), rest),
            0x81..=0x84 => {
                let (digits, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
                (digits.iter().fold(0, |n, d| n << 8 | usize::from(*d)), rest)
            }
            _ => return None,
        };
        let (inside, behind) = rest.split_at_checked(length)?;
        self.0 = behind;
        Some((*tag, inside))
    }
}

/// The next element, where it has this tag.
fn take<'d>(from: &mut Elements<'d>, tag: u8) -> Option<Elements<'d>> {
    from.next().filter(|(found, _)| *found == tag).map(|(_, inside)| Elements(inside))
}

/// A name of the owner of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// What it is.
    pub text: String,
    /// It is a host's: large and small letters are the same.
    host: bool,
}

impl Name {
    /// Whether the operator means this one.
    pub fn is(&self, named: &str) -> bool {
        if self.host { self.text.eq_ignore_ascii_case(named) } else { self.text == named }
    }
}

/// A text that may be shown and compared: a name with a NUL in it passes for another one in careless readers.
fn name(bytes: &[u8], host: bool) -> Option<Name> {
    let text =
        std::str::from_utf8(bytes).ok().filter(|t| !t.is_empty() && !t.chars().any(char::is_control))?;
    Some(Name { text: text.into(), host })
}

/// Hosts, e-mail addresses and URIs; where there are none of these, common names.
pub fn of(certificate: &[u8]) -> Vec<Name> {
    parsed(certificate).unwrap_or_default()
}

fn parsed(certificate: &[u8]) -> Option<Vec<Name>> {
    let mut signed = take(&mut take(&mut Elements(certificate), SEQUENCE)?, SEQUENCE)?;
    // Version (where it is said), serial number, algorithm, issuer, validity.
    if signed.0.first() == Some(&VERSION) {
        signed.next()?;
    }
    take(&mut signed, INTEGER)?;
    for _ in 0..3 {
        take(&mut signed, SEQUENCE)?;
    }
    let subject = take(&mut signed, SEQUENCE)?;
    let names: Vec<Name> = signed
        .filter(|(tag, _)| *tag == EXTENSIONS)
        .filter_map(|(_, inside)| take(&mut Elements(inside), SEQUENCE))
        .flatten()
        .filter_map(|(_, extension)| subject_names(extension))
        .flatten()
        .collect();
    Some(if names.is_empty() { common_names(subject) } else { names })
}

/// The names of an extension, where it has such.
fn subject_names(extension: &[u8]) -> Option<Vec<Name>> {
    let mut extension = Elements(extension);
    if take(&mut extension, OID)?.0 != SUBJECT_NAMES {
        return None;
    }
    let (_, value) = extension.find(|(tag, _)| *tag == OCTETS)?;
    let names = take(&mut Elements(value), SEQUENCE)?;
    let known = names.filter(|(tag, _)| matches!(*tag, MAIL | HOST | URI));
    Some(known.filter_map(|(tag, bytes)| name(bytes, tag == HOST)).collect())
}

fn common_names(subject: Elements<'_>) -> Vec<Name> {
    let sets = subject.filter(|(tag, _)| *tag == SET).flat_map(|(_, set)| Elements(set));
    let common = sets.filter_map(|(_, pair)| {
        let mut pair = Elements(pair);
        if take(&mut pair, OID)?.0 != COMMON_NAME {
            return None;
        }
        let (tag, bytes) = pair.next()?;
        if matches!(tag, UTF8 | PRINTABLE | IA5) { name(bytes, false) } else { None }
    });
    common.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;

    /// What `openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -subj SUBJECT [-addext NAMES]` makes.
    fn certificate(which: &str) -> Vec<u8> {
        let all = include_str!("names.pem");
        let (_, text) = all.split_once(&format!("# {which}\n")).unwrap();
        CertificateDer::from_pem_slice(text.as_bytes()).unwrap().to_vec()
    }

    fn texts(which: &str) -> Vec<String> {
        of(&certificate(which)).into_iter().map(|n| n.text).collect()
    }

    #[test]
    fn names_of_certificates() {
        assert_eq!(texts("common name"), ["Fleet agent 7"]);
        // With other names the common name says nothing; addresses are no names.
        assert_eq!(texts("names"), ["a.example.net", "ann@example.net", "spiffe://example.net/agent"]);
        assert_eq!(texts("address"), ["router"]);
        let names = of(&certificate("names"));
        assert!(names[0].is("A.Example.Net") && !names[0].is("example.net"));
        assert!(names[1].is("ann@example.net") && !names[1].is("Ann@example.net"));
    }

    #[test]
    fn what_is_broken_has_no_names_and_does_no_harm() {
        let whole = certificate("names");
        for end in 0..whole.len() {
            assert!(of(&whole[..end]).is_empty(), "{end}");
        }
        for at in 0..whole.len() {
            for value in [0, 0x7f, 0x80, 0x84, 0x85, 0xff] {
                let mut broken = whole.clone();
                broken[at] = value;
                let _ = of(&broken);
            }
        }
        assert_eq!(name(b"root\0.example.net", true), None);
        assert_eq!(name(b"\xff", false), None);
    }
}
