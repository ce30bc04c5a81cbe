//! The tables of `docs/configuration.md`: the one place where a field is described.

use std::collections::BTreeSet;

/// A line of a table.
struct Row {
    /// The heading above, as a place; `*` stands for any name.
    place: Vec<String>,
    names: Vec<String>,
    words: String,
    default: Option<String>,
    used: bool,
}

/// What the manual says.
pub(super) struct Manual {
    rows: Vec<Row>,
    /// The first sentence below a section's heading.
    sections: Vec<(String, String)>,
}

/// A heading as a place.
fn place(heading: &str) -> Vec<String> {
    let path = match heading.strip_prefix("layer ") {
        Some(layer) => format!("packet-generator[N].layers[N].{}", layer.trim_matches('`')),
        None => heading.trim_matches('`').to_string(),
    };
    let steps = path.replace("[N]", ".*");
    let any = |step: &str| matches!(step, "NAME" | "NUMBER" | "KIND" | "CLASS");
    steps.split('.').map(|step| if any(step) { "*" } else { step }.to_string()).collect()
}

/// The cells of a table's line.
fn cells(line: &str) -> Option<[String; 4]> {
    let line = line.replace("\\|", "\u{1}");
    let cells: Vec<&str> = line.split('|').map(str::trim).collect();
    let [_, name, of, range, default, ..] = cells[..] else { return None };
    name.starts_with('`').then(|| [name, of, range, default].map(|cell| cell.replace('\u{1}', "|")))
}

/// Without the marks of Markdown: links lose where they lead.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('[') {
        let link = after.split_once("](").and_then(|(words, tail)| Some((words, tail.split_once(')')?.1)));
        out += before;
        match link {
            Some((words, tail)) if !words.contains('[') => {
                out += words;
                rest = tail;
            }
            _ => {
                out.push('[');
                rest = after;
            }
        }
    }
    out += rest;
    out.replace(['`', '*'], "")
}

impl Manual {
    /// Of the text of the page.
    pub fn read(text: &str) -> Manual {
        let mut manual = Manual { rows: vec![], sections: vec![] };
        let (mut at, mut section) = (vec![], None);
        for line in text.lines() {
            if let Some(heading) = line.strip_prefix("##") {
                let heading = heading.trim_start_matches('#').trim();
                at = place(heading);
                section = (line.starts_with("## `")).then(|| at.concat());
            } else if let Some([names, of, range, default]) = cells(line) {
                let default = default.trim_matches('`').to_string();
                let unsaid = default.is_empty() || matches!(&*default, "none" | "required");
                let told = if unsaid { String::new() } else { format!("default {default}") };
                let words = [&*of, &range, &told].into_iter().filter(|w| !matches!(*w, "" | "see below"));
                let words = words.collect::<Vec<_>>().join("; ");
                let names = names.split(", ").map(|n| n.trim_matches('`').to_string()).collect();
                manual.rows.push(Row {
                    place: at.clone(),
                    names,
                    words,
                    default: (!unsaid).then_some(default),
                    used: false,
                });
            } else if !line.is_empty()
                && let Some(name) = section.take()
            {
                let sentence = line.split(". ").next().unwrap_or(line).trim_end_matches(['.', ':']);
                manual.sections.push((name, plain(sentence)));
            }
        }
        manual
    }

    /// The row of a field.
    fn row(&mut self, field: &[&str]) -> Option<&mut Row> {
        let (name, above) = field.split_last()?;
        // The paths of labels and of MPLS tunnels are those of routes.
        let above = match above {
            ["mpls", "local-labels" | "tunnels", "*", rest @ ..] if rest.starts_with(&["via"]) => {
                &[&["routes", "*"], rest].concat()[..]
            }
            other => other,
        };
        // A heading stands for what is in its mapping or list as well.
        let inner = match above {
            [outer @ .., "*"] => outer,
            other => other,
        };
        let fits = |place: &[String], path: &[&str]| {
            place.len() == path.len() && place.iter().zip(path).all(|(p, step)| p == "*" || p == step)
        };
        let named = |row: &&mut Row| row.names.iter().any(|n| n == name);
        self.rows.iter_mut().filter(named).find(|row| fits(&row.place, above) || fits(&row.place, inner))
    }

    /// What is said of a field: in its own row, or in that of the field around it, where that names it.
    pub fn of(&mut self, field: &[&str]) -> Option<String> {
        if let [section] = field {
            return self.sections.iter().find(|(name, _)| name == section).map(|(_, words)| words.clone());
        }
        if let Some(row) = self.row(field) {
            row.used = true;
            return Some(plain(&row.words));
        }
        let name = *field.last()?;
        let mut around = &field[..field.len() - 1];
        while let [above @ .., parent] = around {
            if let Some(row) = self.row(around) {
                let quoted: BTreeSet<&str> = row
                    .words
                    .split('`')
                    .skip(1)
                    .step_by(2)
                    .flat_map(|w| w.split([' ', ',', '{', '}', ':']))
                    .collect();
                let range = row.words.contains("*range*") && matches!(name, "range" | "mode");
                return (range || quoted.contains(name))
                    .then(|| plain(&format!("of {parent}: {}", row.words)));
            }
            around = above;
        }
        None
    }

    /// The default of a field, as it is told.
    pub fn default(&mut self, field: &[&str]) -> Option<&str> {
        self.row(field)?.default.as_deref()
    }

    /// Rows of what is no field.
    pub fn unused(&self) -> Vec<String> {
        let unused = self.rows.iter().filter(|row| !row.used);
        unused.map(|row| format!("{}: {}", row.place.join("."), row.names.join(", "))).collect()
    }
}
