//! Expectations.

use serde_json::{Map, Value as Json};

/// Holds with what was kept.
pub struct Hold<'a>(pub &'a Map<String, Json>);

impl Hold<'_> {
    /// Whether a result is as wanted; if not, where and why.
    pub fn hold(&self, want: &Json, got: &Json, at: &str) -> Result<(), String> {
        let place = if at.is_empty() { "it" } else { at };
        match want {
            Json::Object(map) => {
                for (key, value) in map {
                    if key.starts_with('$') {
                        if !self.rule(key, value, got) {
                            return Err(format!("{place}: wanted {key} {value}, got {got}"));
                        }
                    } else if let Some(inner) = got.get(key) {
                        self.hold(value, inner, &format!("{at}.{key}"))?;
                    } else {
                        return Err(format!("{place} has no {key}: {got}"));
                    }
                }
                Ok(())
            }
            Json::Array(list) => {
                let found = got.as_array().filter(|g| g.len() == list.len());
                let found =
                    found.ok_or_else(|| format!("{place}: wanted {} elements, got {got}", list.len()))?;
                let mut pairs = list.iter().zip(found).enumerate();
                pairs.try_for_each(|(n, (want, got))| self.hold(want, got, &format!("{at}[{n}]")))
            }
            _ if same(want, got) => Ok(()),
            _ => Err(format!("{place}: wanted {want}, got {got}")),
        }
    }

    fn holds(&self, want: &Json, got: &Json) -> bool {
        self.hold(want, got, "").is_ok()
    }

    fn rule(&self, rule: &str, value: &Json, got: &Json) -> bool {
        let texts = value.as_str().zip(got.as_str());
        let list = got.as_array();
        match rule {
            "$contains" => texts.is_some_and(|(v, g)| g.contains(v)),
            "$lacks" => texts.is_some_and(|(v, g)| !g.contains(v)),
            "$matches" => texts.is_some_and(|(v, g)| matches(v, g)),
            "$least" => got.as_f64().zip(value.as_f64()).is_some_and(|(g, v)| g >= v),
            "$kept" => value.as_str().and_then(|name| self.0.get(name)) == Some(got),
            "$not" => !self.holds(value, got),
            "$some" => list.is_some_and(|l| l.iter().any(|g| self.holds(value, g))),
            "$none" => list.is_some_and(|l| !l.iter().any(|g| self.holds(value, g))),
            "$all" => list.zip(value.as_array()).is_some_and(|(l, all)| {
                l.len() == all.len() && all.iter().all(|v| l.iter().any(|g| self.holds(v, g)))
            }),
            _ => false,
        }
    }
}

fn same(want: &Json, got: &Json) -> bool {
    match (want, got) {
        (Json::Number(w), Json::Number(g)) => w.as_f64() == g.as_f64(),
        _ => want == got,
    }
}

/// Whether a regular expression is found in a text: of such the cases have `^`, `.`, `\`, sets, `*` and `+`.
pub fn matches(pattern: &str, text: &str) -> bool {
    let pattern = pattern.replace("\\n", "\n");
    let (text, pattern): (Vec<char>, Vec<char>) = (text.chars().collect(), pattern.chars().collect());
    match pattern.split_first() {
        Some(('^', rest)) => here(rest, &text),
        _ => (0..=text.len()).any(|n| here(&pattern, &text[n..])),
    }
}

fn here(pattern: &[char], text: &[char]) -> bool {
    let Some((first, behind)) = pattern.split_first() else { return true };
    let (one, rest): (Box<dyn Fn(char) -> bool>, &[char]) = match first {
        '.' => (Box::new(|c| c != '\n'), behind),
        '\\' => (Box::new(|c| c == behind[0]), &behind[1..]),
        '[' => {
            let end = behind.iter().position(|c| *c == ']').expect("a set ends");
            let (set, rest) = (&behind[..end], &behind[end + 1..]);
            let (not, set) = if set[0] == '^' { (true, &set[1..]) } else { (false, set) };
            let inside = move |c: char| {
                let range = set.windows(3).any(|w| w[1] == '-' && (w[0]..=w[2]).contains(&c));
                range || set.contains(&c)
            };
            (Box::new(move |c| inside(c) != not), rest)
        }
        plain => (Box::new(move |c| c == *plain), behind),
    };
    let (least, rest) = match rest.split_first() {
        Some(('*', rest)) => (0, rest),
        Some(('+', rest)) => (1, rest),
        _ => return text.first().is_some_and(|c| one(*c)) && here(rest, &text[1..]),
    };
    let most = text.iter().take_while(|c| one(**c)).count();
    (least..=most).rev().any(|n| here(rest, &text[n..]))
}
