//! Tables: aligned text for people, a list of objects for programs.

use crate::Page;
use serde_json::{Map, Value as Json};

#[derive(Debug, Clone)]
struct Column {
    title: String,
    key: String,
    right: bool,
}

/// One cell: how it is shown and what it is in JSON.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    text: String,
    json: Json,
}

impl Cell {
    /// A cell shown as `text` that is `json` for programs.
    pub fn new(text: impl Into<String>, json: impl Into<Json>) -> Self {
        Self { text: text.into(), json: json.into() }
    }

    /// An empty cell, null in JSON.
    pub fn empty() -> Self {
        Self::new("", Json::Null)
    }

    /// A number shown with `digits` digits after the point.
    pub fn float(number: f64, digits: usize) -> Self {
        Self::new(format!("{number:.digits$}"), number)
    }
}

macro_rules! cell_from {
    ($($t:ty),*) => {$(
        impl From<$t> for Cell {
            fn from(value: $t) -> Self {
                Self::new(value.to_string(), Json::from(value))
            }
        }
    )*};
}
cell_from!(u8, u16, u32, u64, usize, i32, i64, bool, &str, String);

impl From<f64> for Cell {
    fn from(value: f64) -> Self {
        Self::float(value, 2)
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or_else(Cell::empty, Into::into)
    }
}

/// A table with titled columns.
///
/// ```
/// let mut table = command::Table::new().left("Name").right("Rx packets");
/// table.row(["eth0".into(), 42u64.into()]);
/// assert_eq!(table.to_text(), "Name  Rx packets\neth0          42\n");
/// assert_eq!(table.to_json(), serde_json::json!([{"name": "eth0", "rx-packets": 42}]));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

/// How wide the columns of a table are that is written piece by piece.
#[derive(Debug, Clone, Default)]
pub struct Widths {
    columns: Vec<usize>,
    /// The titles are written.
    headed: bool,
}

impl Table {
    /// A table without columns.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a column aligned to the left. Its JSON key is the title in lower case with hyphens.
    #[must_use]
    pub fn left(self, title: &str) -> Self {
        self.column(title, false)
    }

    /// Adds a column aligned to the right.
    #[must_use]
    pub fn right(self, title: &str) -> Self {
        self.column(title, true)
    }

    fn column(mut self, title: &str, right: bool) -> Self {
        let words: Vec<_> = title.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty()).collect();
        self.columns.push(Column { title: title.to_owned(), key: words.join("-").to_lowercase(), right });
        self
    }

    /// Adds a row. Missing cells are empty, superfluous ones are left out.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) -> &mut Self {
        let mut row: Vec<Cell> = cells.into_iter().collect();
        row.resize(self.columns.len(), Cell::empty());
        self.rows.push(row);
        self
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The title line and one line a row.
    pub fn to_text(&self) -> String {
        self.text(&mut Widths::default())
    }

    /// Writes the rows as the next ones of a longer table, and takes them out. A column that later turns out wider than
    /// it was so far is so from there on.
    pub fn write_rows(&mut self, page: &mut Page, widths: &mut Widths) {
        if page.wants_json() {
            self.rows.iter().for_each(|row| page.item(&self.object(row)));
        } else {
            let _ = std::fmt::Write::write_str(page, &self.text(widths));
        }
        self.rows.clear();
    }

    /// Takes the rows out, which come again to be written: each column will be as wide as they need from the first row on.
    pub fn measure_rows(&mut self, widths: &mut Widths) {
        self.widen(widths);
        self.rows.clear();
    }

    fn widen(&self, Widths { columns: widths, .. }: &mut Widths) {
        if widths.is_empty() {
            *widths = self.columns.iter().map(|c| c.title.chars().count()).collect();
        }
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.text.chars().count());
            }
        }
    }

    fn text(&self, widths: &mut Widths) -> String {
        self.widen(widths);
        let first = !std::mem::replace(&mut widths.headed, true);
        let widths = &widths.columns;
        let mut text = String::new();
        if first {
            self.line(&mut text, widths, self.columns.iter().map(|c| c.title.as_str()));
        }
        for row in &self.rows {
            self.line(&mut text, widths, row.iter().map(|c| c.text.as_str()));
        }
        text
    }

    fn line<'a>(&self, text: &mut String, widths: &[usize], cells: impl Iterator<Item = &'a str>) {
        let start = text.len();
        for (index, ((cell, width), column)) in cells.zip(widths).zip(&self.columns).enumerate() {
            if index > 0 {
                text.push_str("  ");
            }
            let padding = width.saturating_sub(cell.chars().count());
            let (before, after) = if column.right { (padding, 0) } else { (0, padding) };
            text.extend(std::iter::repeat_n(' ', before));
            text.push_str(cell);
            text.extend(std::iter::repeat_n(' ', after));
        }
        text.truncate(start + text.get(start..).map_or(0, |line| line.trim_end().len()));
        text.push('\n');
    }

    /// A list with one object a row.
    pub fn to_json(&self) -> Json {
        Json::Array(self.rows.iter().map(|row| self.object(row)).collect())
    }

    fn object(&self, row: &[Cell]) -> Json {
        let pairs = self.columns.iter().zip(row).map(|(c, cell)| (c.key.clone(), cell.json.clone()));
        Json::Object(pairs.collect::<Map<_, _>>())
    }
}
